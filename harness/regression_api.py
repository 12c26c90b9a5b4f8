"""``harness.regress`` and ``harness.diff``: did it get worse? The command line is these calls and nothing more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pyarrow as pa

from harness import api
from harness.columns import take_rows
from harness.errors import HarnessError
from harness.plan import Plan
from harness.protocols import Display
from harness.registry import load_engine, parse_backends
from harness.regression.baseline import read_side, write_baseline
from harness.regression.changes import changed_backends
from harness.regression.command import drop_arguments, option_arguments
from harness.regression.compare_sides import Compared, CompareRules, compare_sides, compared_again
from harness.regression.judgement import MARGIN, Rules, noise_warnings
from harness.regression.labels import LABEL_FILE, check_no_grades, label_lines, read_labels
from harness.regression.pairing import Pair
from harness.regression.schema import RegressionReport
from harness.regression.side import Side, Tables, side_of
from harness.regression.stored import (
    REGRESSION_NAME,
    read_regression,
    regression_bytes,
    without_texts,
    write_regression,
)
from harness.reporting.html_texts import HTML_NAME, LEFT_OUT, NOT_STORED
from harness.reporting.regression import render_regression
from harness.request import CompareOptions, CompareRequest
from harness.result_folder import check_target
from harness.results.comparison import Comparison
from harness.results.schema import PlanRecord
from harness.statistics import TestName
from harness.types import Corpus

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "Judging",
    "Regression",
    "diff",
    "judge",
    "plan_against",
    "regress",
    "save_baseline",
    "side_of_comparison",
    "with_rankings",
]

_THIS_RUN = "this run"
_NO_TEXT = {True: (), False: ("--no-text",)}
_NOT_TAKEN_OVER = {"resume", "reference", "all_pairs"}
"""Arguments of a baseline's plan that a new run leaves: it measures, and compares with another result, not within."""


@dataclass(frozen=True, slots=True)
class Judging:
    """How two results are judged, as the command line gives it.

    ``max_drop`` is the drop of a mean that the gate lets pass: one number for all metrics, or a mapping of metrics
    (others have the number under ``""``, and without one no gate); None for no gate. Differences within ±``margin``
    count as the same. ``test`` is ``randomisation``, ``t`` or ``wilcoxon``. ``labels`` is a file of judgments that came
    later. ``queries`` of each backend are told in full, with ``depth`` documents of each ranking.
    """

    max_drop: float | Mapping[str, float] | None = 0.0
    margin: float = MARGIN
    test: TestName = "randomisation"
    labels: Path | None = None
    queries: int = 50
    depth: int = 10
    pairs: Sequence[tuple[str, str]] = ()

    def arguments(self, default_drop: float | None) -> list[str]:
        """The command line's arguments for this; ``default_drop`` is the gate that it has without any."""
        given = {
            "max_drop": drop_arguments(self.max_drop, default_drop),
            "margin": self.margin,
            "test": self.test,
            "labels": self.labels,
            "dossier": self.queries,
            "pair": [f"{before}->{after}" for before, after in self.pairs],
        }
        plain = Judging()
        return option_arguments(given, {"margin": plain.margin, "test": plain.test, "dossier": plain.queries})

    def rules(self, seed: int) -> CompareRules:
        """Everything that a comparison of two sides needs; reads the labels."""
        allowed = dict(self.max_drop) if isinstance(self.max_drop, Mapping) else {"": self.max_drop}
        general = allowed.pop("", None)
        named = {name: drop for name, drop in allowed.items() if drop is not None}
        return CompareRules(
            rules=Rules(self.margin, general, named, self.test, seed),
            depth=self.depth,
            queries=self.queries,
            pairs=[Pair(*pair) for pair in self.pairs],
            labels=read_labels(self.labels) if self.labels is not None else None,
        )


@dataclass(frozen=True, eq=False)
class Regression:
    """Two results compared: what ``harness.regress`` and ``harness.diff`` return.

    ``report`` is the content of ``regression.json``, ``comparison`` the new result, None where nothing ran.
    ``compared`` holds all queries of both sides and ``corpus`` the documents, for :meth:`html`; where one of them is
    missing, ``no_texts`` says why.
    """

    report: RegressionReport
    comparison: Comparison | None = field(default=None, repr=False)
    to_label: bytes = field(default=b"", repr=False)
    compared: Compared | None = field(default=None, repr=False)
    corpus: Corpus | None = field(default=None, repr=False)
    no_texts: str = field(default=NOT_STORED, repr=False)

    @classmethod
    def load(cls, folder: str | Path) -> Regression:
        """Read ``regression.json`` of a folder; raises ResultError when it is missing, damaged or of a newer schema.

        :func:`with_rankings` adds what :meth:`html` draws the queries from.
        """
        return cls(read_regression(Path(folder)))

    @property
    def failed(self) -> bool:
        """Whether the gate failed: something is worse beyond the allowed drop."""
        return self.report.gate == "failed"

    def save(self, folder: str | Path, *, overwrite: bool = False, keep_text: bool = True) -> Regression:
        """Write ``regression.json``, ``report.html`` and the documents to label into ``folder``, with the new result.

        Where nothing ran these are all. Raises UsageError as :meth:`Comparison.save`, and where a file with labels
        would be replaced.
        """
        check_no_grades(Path(folder) / LABEL_FILE)
        files = {
            REGRESSION_NAME: regression_bytes(self.report, keep_text=keep_text),
            HTML_NAME: self.html(keep_text=keep_text).encode(),
            LABEL_FILE: self.to_label,
        }
        if self.comparison is None:
            write_regression(Path(folder), files, overwrite=overwrite)
            return self
        saved = self.comparison.save(folder, overwrite=overwrite, keep_text=keep_text, extra=files)
        return replace(self, comparison=saved)

    def verdicts(self) -> pd.DataFrame:
        """One row a backend and metric: both means, difference, interval, p, effect, wins, verdict and gate."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"backend": backend.after, "backend_before": backend.before, **metric.model_dump()}
                for backend in self.report.backends
                for metric in backend.metrics
            ]
        )

    def changes(self) -> pd.DataFrame:
        """One row a backend, query and metric of the dossier: both values, the difference, what entered and left."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "backend": backend.after,
                    "query_id": query.query,
                    **value.model_dump(),
                    "entered": query.entered,
                    "left": query.left,
                }
                for backend in self.report.backends
                if backend.dossier is not None
                for query in backend.dossier.queries
                for value in query.values
            ]
        )

    def render(self, format: str = "table") -> str:  # noqa: A002 - the name of the command line's option
        """The report as ``table``, ``markdown``, ``csv`` or ``json``."""
        return render_regression(self.report, format)

    def html(self, *, keep_text: bool = True) -> str:
        """The report as one HTML file that needs nothing else; ``keep_text=False`` leaves all texts out."""
        from harness.reporting.html import regression_page, render_page

        why = self.no_texts if self.compared is None or self.corpus is None else ""
        report = self.report if keep_text else without_texts(self.report)
        page = regression_page(
            report, self.compared, self.corpus, no_texts=why if keep_text else LEFT_OUT, keep_text=keep_text
        )
        return render_page(page)

    def __str__(self) -> str:
        return self.render()


def regress(
    baseline: str | Path,
    *,
    backends: str | Sequence[str] | None = None,
    settings: Sequence[str] = (),
    dataset: str | Path | None = None,
    judging: Judging | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    keep_text: bool = True,
    display: Display | None = None,
    **options: Unpack[CompareOptions],
) -> Regression:
    """Run the plan of a baseline again, with the changes asked for, and judge whether it got worse.

    ``baseline`` is a file that ``--save-baseline`` wrote, or a result folder. ``backends`` takes the place of the
    plan's; ``settings`` are changes of them, each as ``"lucene:k1=3;b=0.95"``; ``dataset`` is another state or place of
    the data, ``options`` replace other arguments of the plan. What a change of engine is, the environment decides. With
    ``out`` the new result and ``regression.json`` are stored there. Raises as :func:`harness.compare`, and ResultError
    for a baseline that cannot be read, or has no query or backend in common with the new result.
    """
    before = read_side(Path(baseline))
    plan = plan_against(before, backends=backends, settings=settings, dataset=dataset, **options)
    judging = judging or Judging()
    how = judging.rules(plan.request.seed)
    if out is not None:
        check_target(Path(out), overwrite=overwrite)
        check_no_grades(Path(out) / LABEL_FILE)
    changed = {"set": list(settings), "backends": _one_text(backends), "dataset": dataset, **options}
    command = ["harness", "regress", "--baseline", str(baseline), *option_arguments(changed, {"resume": "never"})]
    command += [*judging.arguments(0.0), *_NO_TEXT[keep_text]]
    found = judge(before, api.run(plan, display), how, command=command, keep_text=keep_text)
    found = _with_noise_warnings(found, plan)
    return found if out is None else found.save(out, overwrite=overwrite, keep_text=keep_text)


def diff(
    before: str | Path,
    after: str | Path,
    *,
    judging: Judging | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    keep_text: bool = True,
) -> Regression:
    """Compare two stored results, folders or baseline files, without running anything.

    There is no gate unless ``judging`` names one. With ``out`` the report is stored there, and the documents of the
    later result are read again for its page. Raises ResultError as :func:`regress`.
    """
    one, other = read_side(Path(before)), read_side(Path(after))
    judging = judging or Judging(max_drop=None)
    compared = compare_sides("diff", one, other, judging.rules(int(str(other.report.plan.resolved["seed"]))))
    command = ["harness", "diff", str(before), str(after), *judging.arguments(None), *_NO_TEXT[keep_text]]
    found = _found(compared, command, keep_text=keep_text)
    if out is None:
        return found
    check_no_grades(Path(out) / LABEL_FILE)
    documents = api.documents_of(other.report) if keep_text else api.Documents(None, LEFT_OUT)
    found = replace(found, corpus=documents.corpus, no_texts=documents.no_texts)
    return found.save(out, overwrite=overwrite, keep_text=keep_text)


def with_rankings(found: Regression, folder: Path, *, cards: Path | None = None) -> Regression:
    """A stored regression with the rankings of both sides, if they still are where they were, and the documents.

    ``no_texts`` says what is missing.
    """
    report = found.report
    if report.data.labels:
        why = "The rankings of all queries are in the page that was written with it: labels were added, which it lacks."
        return replace(found, no_texts=why)
    try:
        before = read_side(Path(report.before.source))
        after = read_side(folder if report.kind == "regress" else Path(report.after.source))
    except HarnessError as error:
        return replace(found, no_texts=f"The rankings of all queries are not in this file: {error.what}.")
    if (before.report.created, after.report.created) != (report.before.created, report.after.created):
        why = "The rankings of all queries are not in this file: other results are there now."
        return replace(found, no_texts=why)
    if report.kind == "regress" and not after.texts:  # stored with --no-text, whatever the baseline holds
        before, documents = replace(before, texts={}), api.Documents(None, LEFT_OUT)
    else:
        documents = api.documents_of(after.report, cards=cards)
    compared = compared_again(report, before, after)
    return replace(found, compared=compared, corpus=documents.corpus, no_texts=documents.no_texts)


def plan_against(
    before: Side,
    *,
    backends: str | Sequence[str] | None = None,
    settings: Sequence[str] = (),
    dataset: str | Path | None = None,
    **options: Unpack[CompareOptions],
) -> Plan:
    """The plan of an earlier result with changes; see :func:`regress`."""
    request = _request(before.report.plan, **options)
    if dataset is not None:
        request = replace(request, dataset=str(dataset))
    if backends is not None:
        request = replace(request, backends=backends, sweep=())
    if settings:
        request = replace(request, backends=_expanded(before, request), sweep=())
        specs = parse_backends(request.backends, cards=request.cards)
        request = replace(request, backends=changed_backends(specs, settings))
    return api.plan_for(request)


def judge(
    before: Side, comparison: Comparison, how: CompareRules, *, command: Sequence[str] = (), keep_text: bool = True
) -> Regression:
    """Hold a new result against an earlier one; without ``keep_text`` no text of a query or document is in it.

    ``command`` are the arguments that do the same again.
    """
    compared = compare_sides("regress", before, side_of_comparison(comparison), how)
    found = _found(compared, command, keep_text=keep_text)
    report = found.report
    documents = {one.document for change in report.backends if change.dossier for one in change.dossier.to_label}
    texts = _texts(comparison.corpus, sorted(documents)) if keep_text and comparison.corpus is not None else {}
    lines = label_lines(report, texts)
    return replace(found, comparison=comparison, corpus=comparison.corpus, to_label=lines)


def _with_noise_warnings(found: Regression, plan: Plan) -> Regression:
    """What was judged, with a warning where builds differ and nobody knows by how much."""
    if found.compared is None:
        return found
    pairs = [Pair(one.before, one.after) for one in found.report.backends if one.status == "ok"]
    built = {one.label: one.spec.card for one in plan.trials if not one.existing and not one.spec.components}
    cards = {pair.after: card for pair in pairs if (card := built.get(pair.after)) is not None}
    varying = {label for label, card in cards.items() if not load_engine(card).capabilities.deterministic}
    warnings = noise_warnings(found.compared.before, found.compared.after, pairs, varying)
    report = found.report.model_copy(update={"warnings": [*found.report.warnings, *warnings]})
    return replace(found, report=report)


def _found(compared: Compared, command: Sequence[str], *, keep_text: bool) -> Regression:
    report = compared.report.model_copy(update={"command": list(command)})
    report = report if keep_text else without_texts(report)
    return Regression(report, to_label=label_lines(report, {}), compared=compared)


def _one_text(backends: str | Sequence[str] | None) -> str | None:
    return backends if backends is None or isinstance(backends, str) else ",".join(backends)


def _texts(corpus: Corpus, documents: Sequence[str]) -> dict[str, str]:
    """Texts of some documents by id; those that the corpus lacks are left out."""
    rows = corpus.ids.rows_of(pa.array(documents, pa.string()))
    known = np.flatnonzero(rows >= 0)
    texts = take_rows(corpus.texts, rows[known]).to_pylist()
    return dict(zip((documents[place] for place in known.tolist()), texts, strict=True))


def save_baseline(comparison: Comparison, path: str | Path) -> None:
    """Write a comparison as a baseline; see :func:`harness.regression.baseline.write_baseline`."""
    write_baseline(Path(path), side_of_comparison(comparison))


def side_of_comparison(comparison: Comparison) -> Side:
    """A comparison that just ran as a side."""
    queries = comparison.queries
    texts = dict(zip(queries.ids, queries.texts.to_pylist(), strict=True)) if queries is not None else {}
    return side_of(
        _THIS_RUN,
        comparison.report,
        Tables(comparison.values, comparison.agreement, comparison.latencies),
        comparison.runs.get,
        texts=texts,
        qrels=comparison.qrels,
    )


def _request(record: PlanRecord, **options: Unpack[CompareOptions]) -> CompareRequest:
    """The arguments as they were given then, with those of now on top."""
    given = {"deadline_s" if name == "deadline" else name: value for name, value in record.given.items()}
    known = {one.name for one in fields(CompareRequest)} - _NOT_TAKEN_OVER
    arguments = {name: value for name, value in given.items() if name in known and value is not None}
    cards = {"cards": Path(str(arguments["cards"]))} if "cards" in arguments else {}
    merged: dict[str, Any] = {**arguments, **cards, **options}
    return CompareRequest(**merged)


def _expanded(before: Side, request: CompareRequest) -> str | Sequence[str]:
    """The backends with sweeps as the labels that they had become."""
    return [backend.label for backend in before.report.backends] if request.sweeps else request.backends
