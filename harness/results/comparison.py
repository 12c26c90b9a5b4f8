"""The result of a comparison in Python: the stored report, its runs, and pandas frames of everything in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from harness.data.arrow import strings
from harness.data.types import Corpus, Ids, Qrels, Queries, Run
from harness.errors import ResultError
from harness.results.frontier import frontiers
from harness.results.html_texts import HTML_NAME, LEFT_OUT, NOT_STORED
from harness.results.presenters import presenter
from harness.results.schema import (
    ClosedLoopStats,
    OpenLoopStats,
    PairedDifference,
    Result,
    SearchStats,
    SpreadValue,
    TrialResult,
)
from harness.results.stored import (
    ResultContent,
    StoredResult,
    read_stored_run,
    write_result,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison"]

_FAILED_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Comparison:
    """What ``harness.compare`` returns and :meth:`load` reads back.

    ``report`` is the content of ``report.json``. ``values`` is the per-query table behind the means (columns backend,
    query_id, metric, value, min, max), ``agreement`` the one behind the parity (backend, query_id, level, cause,
    overlaps, differences), ``latencies`` every timed sample (backend, pass, query_id, search_ns, transfer_ns), None
    where no times were taken. ``folder`` is where the result is stored, None before :meth:`save`. ``corpus`` are the
    documents that were searched, which no result folder holds; ``no_texts`` says why they are missing here.
    """

    report: Result
    values: pa.Table
    agreement: pa.Table
    runs: Mapping[str, Run] = field(default_factory=dict, repr=False)
    qrels: Qrels | None = field(default=None, repr=False)
    queries: Queries | None = field(default=None, repr=False)
    folder: Path | None = None
    corpus: Corpus | None = field(default=None, repr=False)
    no_texts: str = field(default=NOT_STORED, repr=False)
    latencies: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read a result folder; raises ResultError when it is missing, damaged, or of a newer schema.

        Runs are read when :meth:`run` asks for them.
        """
        path = Path(folder)
        stored = StoredResult.open(path)
        texts = stored.query_texts(stored.report.dataset.name)
        return cls(
            stored.report,
            stored.per_query(),
            stored.agreement(),
            qrels=stored.qrels(stored.report.dataset.name),
            queries=Queries(Ids.of(texts), pa.chunked_array([strings(texts.values())]), "") if texts else None,
            folder=path,
            latencies=stored.latencies(),
        )

    def save(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        keep_text: bool = True,
        numbered: bool = False,
        extra: Mapping[str, bytes] | None = None,
    ) -> Comparison:
        """Write everything into ``folder``, whole or not at all; the same comparison with its new folder.

        ``report.html`` is among it. ``keep_text=False`` leaves all texts out; ``numbered`` writes to ``folder-2`` …
        where others have the name; ``extra`` are further files. Raises UsageError for a folder that holds something
        else, or an earlier result without ``overwrite``; ResultError when it cannot be written.
        """
        files = {HTML_NAME: self.html(keep_text=keep_text).encode(), **(extra or {})}
        dataset = self.report.dataset.name
        content = ResultContent(
            per_query=self.values,
            parity=self.agreement,
            latencies=self.latencies,
            runs={(dataset, label): run for label, run in self.runs.items()},
            qrels={dataset: self.qrels} if self.qrels is not None else {},
            queries={dataset: self.queries} if self.queries is not None and keep_text else {},
            extra=files,
        )
        place = write_result(Path(folder), self.report, content, overwrite=overwrite, numbered=numbered)
        return replace(self, folder=place)

    @property
    def failed(self) -> list[str]:
        """Labels of the backends that failed."""
        return [backend.label for backend in self.report.trials if backend.status == "failed"]

    @property
    def unmeasured(self) -> list[str]:
        """Labels of the backends of which some measurement failed, cold or under load.

        That is one without samples, one whose clients all died or gave up, or one in which more than a tenth of the
        queries that were asked failed.
        """
        return [backend.label for backend in self.report.trials if _lacks_a_level(backend)]

    def backend(self, label: str) -> TrialResult:
        """One backend's result by its label; raises KeyError."""
        for backend in self.report.trials:
            if backend.label == label:
                return backend
        raise KeyError(label)

    def metrics(self) -> pd.DataFrame:
        """Means: one row a backend, one column a metric; failed backends have NaN."""
        import pandas as pd

        rows = {b.label: {name: value.mean for name, value in b.metrics.items()} for b in self.report.trials}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("backend")

    def parity(self) -> pd.DataFrame:
        """Parity: one row a backend that has a reference."""
        import pandas as pd

        rows = {b.label: b.parity.model_dump(exclude={"causes", "overlap"}) for b in self.report.trials if b.parity}
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("backend")

    def differences(self) -> pd.DataFrame:
        """Backends against the reference, or every pair: one row a pair and metric, as ``report.differences``.

        Columns a, b, metric, difference (b - a), ci_low, ci_high, p, p_adjusted, effect, wins, ties, losses,
        within_ties, verdict; no rows for one backend and without judgments.
        """
        import pandas as pd

        columns = list(PairedDifference.model_fields)
        return pd.DataFrame([row.model_dump() for row in self.report.differences], columns=columns)

    def spread(self) -> pd.DataFrame:
        """Spread over builds: a row a backend and figure (a metric, the overlap with its reference at a depth, a cost).

        Costs are seconds, ready_seconds, documents_per_second, bytes and log_bytes, as in :meth:`builds`. Columns mean,
        sd, min and max; no rows where no backend was built several times.
        """
        import pandas as pd

        rows = {}
        for backend in self.report.trials:
            if backend.spread is None:
                continue
            overlaps = {
                f"reference overlap@{depth}": value for depth, value in backend.spread.reference_overlap.items()
            }
            for figure, value in {**backend.spread.metrics, **overlaps, **backend.spread.costs}.items():
                rows[backend.label, figure] = value.model_dump()
        index = pd.MultiIndex.from_tuples(list(rows), names=["backend", "figure"])
        return pd.DataFrame(list(rows.values()), index=index, columns=list(SpreadValue.model_fields))

    def builds(self) -> pd.DataFrame:
        """Every build of the backends that were built several times: one row a backend and build, from 1.

        Columns seconds, ready_seconds, documents_per_second, bytes, log_bytes, peak_rss_bytes, peak_anonymous_bytes,
        then the metrics and the overlaps with the reference. Times are NaN where the plan took none.
        """
        import pandas as pd

        rows = {}
        for backend in self.report.trials:
            for one in backend.spread.each if backend.spread is not None else ():
                overlaps = {f"reference overlap@{depth}": share for depth, share in one.reference_overlap.items()}
                costs = one.model_dump(exclude={"build", "metrics", "reference_overlap"})
                rows[backend.label, one.build] = {**costs, **one.metrics, **overlaps}
        index = pd.MultiIndex.from_tuples(list(rows), names=["backend", "build"])
        return pd.DataFrame(list(rows.values()), index=index)

    def timings(self) -> pd.DataFrame:
        """Indexing and search: one row a backend that an engine served, times in milliseconds and seconds as named.

        NaN where the plan took no times.
        """
        import pandas as pd

        rows = {}
        for backend in self.report.trials:
            if backend.index is None or backend.search is None:
                continue
            search = backend.search
            rows[backend.label] = {
                "documents_per_second": backend.index.documents_per_second,
                "index_bytes": backend.index.bytes,
                "peak_anonymous_bytes": backend.index.peak_anonymous_bytes,
                **_latencies(search),
                "qps": search.qps,
            }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("backend")

    def frontier(self) -> pd.DataFrame:
        """Every point of every sweep: one row a backend that ``sweep`` made.

        Columns sweep, value, measure, quality (the mean of the first metric, without judgments the recall), p50_ms, and
        on_frontier; no rows without a sweep.
        """
        import pandas as pd

        columns = ("sweep", "value", "measure", "quality", "p50_ms", "on_frontier")
        rows = {
            point.backend.label: (one.name, point.value, one.measure, point.quality, point.p50_ms, point.best)
            for one in frontiers(self.report)
            for point in one.points
        }
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(columns)).rename_axis("backend")

    def per_query(self) -> pd.DataFrame:
        """Every per-query value: columns backend, query_id, metric, value, min, max."""
        frame: pd.DataFrame = self.values.to_pandas()
        return frame

    def agreement_per_query(self) -> pd.DataFrame:
        """Every query's agreement with the reference: backend, query_id, level, cause, overlaps, score differences."""
        frame: pd.DataFrame = self.agreement.to_pandas()
        return frame

    def run(self, label: str) -> Run:
        """A backend's ranked documents; raises KeyError for an unknown label, ResultError when it has none."""
        self.backend(label)
        if label in self.runs:
            return self.runs[label]
        if self.folder is None:
            raise ResultError(f"'{label}' failed, so it has no run")
        return read_stored_run(self.folder, self.report.dataset.name, label)

    def render(self, format: str = "table") -> str:  # noqa: A002 - the name of the command line's option
        """The report as ``table``, ``markdown``, ``csv`` or ``json``."""
        return str(presenter("comparison text")(self.report, format))

    def html(self, *, keep_text: bool = True) -> str:
        """The report as one HTML file that needs nothing else.

        Texts of queries are in it if there are any, those of documents where ``corpus`` has them;
        ``keep_text=False`` leaves both out.
        """
        if keep_text:
            return str(presenter("comparison page")(self, self.corpus, "" if self.corpus else self.no_texts))
        return str(presenter("comparison page")(replace(self, queries=None), None, LEFT_OUT))

    def __str__(self) -> str:
        return self.render()


def _latencies(search: SearchStats) -> dict[str, float | int | None]:
    names = ("p50", "p90", "p95", "p99", "mean")
    times, transfer = search.milliseconds, search.transfer_ms
    if times is None or transfer is None:
        return dict.fromkeys([*(f"{name}_ms" for name in names), "n", "transfer_p50_ms"])
    return {
        **{f"{name}_ms": getattr(times, name) for name in names},
        "n": times.n,
        "transfer_p50_ms": transfer.p50,
    }


def _lacks_a_level(backend: TrialResult) -> bool:
    levels: list[ClosedLoopStats | OpenLoopStats] = [*backend.closed_loop, *backend.open_loop]
    if any(level.clients_failed >= (1 if level.kind == "threads" else level.clients) for level in levels):
        return True
    asked = [(level.milliseconds, level.errors) for level in backend.closed_loop]
    asked += [(level.service_ms, level.errors) for level in backend.open_loop]
    if backend.cold is not None:
        asked.append((backend.cold.milliseconds, backend.cold.errors))
    return any(times is None or errors > _FAILED_SHARE * (times.n + errors) for times, errors in asked)
