"""Several runs that are scored by the same judgments: paired tests between them, without documents or an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.data.memory import part_of_file
from harness.errors import UnknownNameError, UsageError
from harness.results.differences import score_differences
from harness.results.presenters import presenter
from harness.results.schema import PairedDifference

if TYPE_CHECKING:
    import pandas as pd

    from harness.metrics.scores import Summary
    from harness.pipeline.evaluate import EvaluatedRun
    from harness.plan.config import ScoreOptions


@dataclass(frozen=True, eq=False)
class EvaluatedRuns:
    """The scores of several runs, and the differences between them.

    ``runs`` are in the given order, by name. ``reference`` is the run with which the others are compared: None if every
    pair is compared. ``tests`` are the differences, each with its interval, p, effect and verdict, as a comparison has
    them. ``judgments`` names the judgments.
    """

    runs: Mapping[str, EvaluatedRun]
    reference: str | None
    tests: Sequence[PairedDifference] = field(repr=False)
    judgments: str = "the judgments"

    @classmethod
    def of(
        cls, runs: Mapping[str, EvaluatedRun], judgments: str, how: ScoreOptions, reference: str | None
    ) -> EvaluatedRuns:
        """Compare runs that have the same metrics.

        Without ``reference`` the first run is the reference, unless every pair is compared. If ``reference`` is not
        among the runs, because it could not be scored, there are no differences.
        """
        if reference is None and not how.all_pairs:
            reference = next(iter(runs), None)
        return cls(runs, reference, score_differences(runs, judgments, reference, how.seed), judgments)

    def means(self) -> dict[str, list[Summary]]:
        """Return the means of each run, by its name, as :meth:`harness.metrics.Scores.means` does for one run."""
        return {name: run.means() for name, run in self.runs.items()}

    def metrics(self) -> pd.DataFrame:
        """Return the means: one row a run, one column a metric."""
        import pandas as pd

        rows = {
            name: {str(summary.measure): summary.value for summary in means} for name, means in self.means().items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("run")

    def differences(self) -> pd.DataFrame:
        """Return runs against the reference, or every pair: one row a pair and metric, as a comparison's.

        Columns a, b, metric, difference (b - a), ci_low, ci_high, p, p_adjusted, comparisons, detectable, effect, wins,
        ties, losses, within_ties and verdict; no rows for one run.
        """
        import pandas as pd

        columns = [name for name in PairedDifference.model_fields if name != "dataset"]
        return pd.DataFrame([row.model_dump(exclude={"dataset"}) for row in self.tests], columns=columns)

    def render(self, format: str = "table", *, per_query: bool = False) -> str:  # noqa: A002 - the name of the command line's option
        """Return everything as ``table``, ``markdown``, ``latex``, ``csv`` or ``json``, as the command prints it.

        ``per_query`` adds the values of every query.
        """
        return presenter().scores(self, format, per_query=per_query)

    def render_queries(
        self,
        metric: str | None = None,
        format: str = "table",  # noqa: A002 - the name of the command line's option
        *,
        verbose: bool = False,
        sort: str | None = None,
    ) -> str:
        """Return a row for each query with the value of every run, as ``render_queries`` of a comparison does."""
        return presenter().queries(self, metric, format, keep_text=True, verbose=verbose, sort=sort)

    def html(self) -> str:
        """Return the scores, the differences and every query with all hits as a self-contained HTML file."""
        return presenter().page(self, keep_text=True)

    def __str__(self) -> str:
        return self.render()


def require_pairs(how: ScoreOptions, runs: int) -> None:
    """Raise UsageError for options of differences if there is only one run, and for options that exclude each other."""
    flags = [flag for flag, value in (("--reference", how.reference), ("--all-pairs", how.all_pairs)) if value]
    if flags and runs < 2:
        raise UsageError(f"{flags[0]} with one run: there is nothing to compare it with", fix="name several runs")
    if len(flags) > 1:
        raise UsageError("--all-pairs with --reference: every pair is compared", fix="leave out one of the two")


def reference_name(how: ScoreOptions, names: Sequence[str], sources: Sequence[object]) -> str | None:
    """Return the name of the run that the options name, by its name or by its path in ``sources``; None for no option.

    Raises UnknownNameError if no run has that name.
    """
    reference = how.reference
    if reference is None or reference in names:
        return reference
    by_path = {str(source): name for name, source in zip(names, sources, strict=True) if isinstance(source, str | Path)}
    if reference not in by_path:
        raise UnknownNameError("run", reference, names)
    return by_path[reference]


def run_names(paths: Sequence[str | Path]) -> list[str]:
    """Return file names; full paths if two files share one. Raises UsageError for a run that is named twice."""
    twice = [path for path, count in Counter(map(str, paths)).items() if count > 1]
    if twice:
        raise UsageError(f"given more than once: {', '.join(twice)}", fix="name each run once")
    names = [f"{file.name}#{fragment}" if fragment else file.name for file, fragment in map(part_of_file, paths)]
    return names if len(set(names)) == len(names) else list(map(str, paths))
