"""The result of a comparison in Python: the stored report, its runs, and pandas frames of everything in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import strings, text_scalar
from harness.data.types import Corpus, Ids, Qrels, Queries, Run
from harness.errors import ResultError, UnknownNameError, UsageError
from harness.results.presenters import HTML_NAME, LEFT_OUT, NOT_STORED, Presentable
from harness.results.saved_runs import SAVED_RUNS, write_saved_runs
from harness.results.schema import PairedDifference, Result, SpreadValue, TrialResult, TunedMeans
from harness.results.schema_costs import ClosedLoopStats, OpenLoopStats, SearchStats
from harness.results.snapshot import OVERLAP
from harness.results.stored import ResultContent, StoredResult, read_stored_run, write_result
from harness.user_path import user_path

if TYPE_CHECKING:
    import pandas as pd


_FAILED_SHARE = 0.1
_TESTED = ("difference", "ci_low", "ci_high", "p", "p_adjusted", "verdict")


@dataclass(frozen=True, eq=False, slots=True)
class DatasetContent:
    """Searches on one dataset, and their results.

    ``runs`` are by label, without runs that are read from the result folder on demand. ``corpus`` are the documents,
    which no result folder holds; ``no_texts`` says why they are missing here.
    """

    runs: Mapping[str, Run] = field(default_factory=dict, repr=False)
    qrels: Qrels | None = field(default=None, repr=False)
    queries: Queries | None = field(default=None, repr=False)
    corpus: Corpus | None = field(default=None, repr=False)
    no_texts: str = field(default=NOT_STORED, repr=False)


@dataclass(frozen=True, eq=False)
class Comparison(Presentable):
    """Result of ``harness.compare``, which :meth:`load` reads back.

    ``report`` is the content of ``report.json``. ``values`` is the per-query table behind the means (columns dataset,
    backend, query_id, metric, value, min, max), ``agreement`` the table behind the parity (dataset, backend, query_id,
    level, cause, overlaps, differences), ``latencies`` every timed sample (dataset, backend, pass, query_id, search_ns,
    transfer_ns), None if no times were taken. ``explanations`` say why hits have their ranks, a row for each part of a
    score; None if the comparison was not stored when it ran. ``contents`` are the searched datasets, by name.
    ``folder`` is where the result is stored, None before :meth:`save`.

    Frames have a row for each backend; if there are several datasets, a first level of the index names them. Attributes
    of a single dataset (``qrels``, ``queries``, ``corpus``, ``runs``) must then be taken from :meth:`on` one of them.
    """

    report: Result
    values: pa.Table
    agreement: pa.Table
    contents: Mapping[str, DatasetContent] = field(repr=False)
    folder: Path | None = None
    latencies: pa.Table | None = field(default=None, repr=False)
    explanations: pa.Table | None = field(default=None, repr=False)

    @classmethod
    def load(cls, folder: str | Path) -> Comparison:
        """Read a result folder; raises ResultError when it is missing, damaged, or of another schema.

        Runs are read when :meth:`run` is called.
        """
        stored = StoredResult.open(user_path(folder))
        return cls(
            stored.report,
            stored.per_query(),
            stored.agreement(),
            {
                info.name: DatasetContent(
                    qrels=stored.qrels(info.name), queries=_queries(stored.query_texts(info.name))
                )
                for info in stored.report.datasets
            },
            stored.folder,
            stored.latencies(),
            stored.explanations(),
        )

    def save(
        self,
        folder: str | Path,
        *,
        overwrite: bool = False,
        keep_text: bool = True,
        numbered: bool = False,
        save_runs: str | None = None,
        extra: Mapping[str, bytes] | None = None,
    ) -> Comparison:
        """Write everything into ``folder``, completely or not at all, and return the comparison with its new folder.

        ``report.html`` is among it. ``keep_text=False`` leaves all texts out; ``numbered`` writes to ``folder-2`` … if
        others have the name; ``save_runs`` adds the hits in another tool's layout below ``saved-runs/``; ``extra`` are
        further files. Raises UsageError for a folder that holds other files, or an earlier result without
        ``overwrite``; ResultError if it cannot be written.
        """
        runs = {
            (trial.dataset, trial.label): self.run(trial.label, trial.dataset)
            for trial in self.report.trials
            if self.has_run(trial.label, trial.dataset)
        }
        content = ResultContent(
            per_query=self.values,
            parity=self.agreement,
            latencies=self.latencies,
            explanations=self.explanations if keep_text else None,
            runs=runs,
            qrels={name: content.qrels for name, content in self.contents.items() if content.qrels is not None},
            queries={
                name: content.queries
                for name, content in self.contents.items()
                if content.queries is not None and keep_text
            },
            extra={HTML_NAME: self.html(keep_text=keep_text).encode(), **(extra or {})},
            further=(lambda folder_written: write_saved_runs(folder_written / SAVED_RUNS, self.report, runs, save_runs))
            if save_runs
            else None,
        )
        folder_written = write_result(user_path(folder), self.report, content, overwrite=overwrite, numbered=numbered)
        return replace(self, folder=folder_written)

    def save_baseline(self, path: str | Path) -> None:
        """Write a baseline, a small file for git; raises as :func:`harness.results.baseline.write_baseline`."""
        from harness.results.baseline import save_baseline

        save_baseline(self, path)

    @property
    def datasets(self) -> list[str]:
        """Names of the datasets."""
        return [info.name for info in self.report.datasets]

    def on(self, dataset: str) -> Comparison:
        """Return the part of the comparison on one dataset; raises UnknownNameError."""
        self._name(dataset)
        return replace(
            self,
            report=self.report.on(dataset),
            values=_rows_of_dataset(self.values, dataset),
            agreement=_rows_of_dataset(self.agreement, dataset),
            latencies=_rows_of_dataset(self.latencies, dataset) if self.latencies is not None else None,
            explanations=_rows_of_dataset(self.explanations, dataset) if self.explanations is not None else None,
            contents={dataset: self.contents[dataset]},
        )

    def _name(self, dataset: str | None) -> str:
        """Return the dataset that is meant: the only dataset if the name is None."""
        if dataset is None and len(self.datasets) > 1:
            names = ", ".join(self.datasets)
            raise UsageError(f"the comparison is of several datasets: {names}", fix="name one, as in on('…')")
        if dataset is not None and dataset not in self.datasets:
            raise UnknownNameError("dataset", dataset, self.datasets)
        return self.datasets[0] if dataset is None else dataset

    @property
    def qrels(self) -> Qrels | None:
        """The judgments of the only dataset, None without; raises UsageError if there are several."""
        return self.contents[self._name(None)].qrels

    @property
    def queries(self) -> Queries | None:
        """The queries of the only dataset, None without texts; raises UsageError if there are several."""
        return self.contents[self._name(None)].queries

    @property
    def corpus(self) -> Corpus | None:
        """The documents of the only dataset, None if they are not available; raises as :attr:`queries`."""
        return self.contents[self._name(None)].corpus

    @property
    def no_texts(self) -> str:
        """Why the only dataset's documents are not available; raises as :attr:`queries`."""
        return self.contents[self._name(None)].no_texts

    @property
    def runs(self) -> Mapping[str, Run]:
        """The runs on the only dataset that are in memory, by label; raises as :attr:`queries`."""
        return self.contents[self._name(None)].runs

    @property
    def failed(self) -> list[str]:
        """Labels of the backends that failed, with the dataset if there are several."""
        return [self._trial_title(trial) for trial in self.report.trials if trial.status == "failed"]

    @property
    def unmeasured(self) -> list[str]:
        """Labels of the backends with a failed measurement: cold, under load, or under a filter.

        A measurement failed if it has no samples, all its clients died or gave up, or over a tenth of its queries
        failed.
        """
        return [self._trial_title(trial) for trial in self.report.trials if lacks_measurement(trial)]

    def _trial_title(self, trial: TrialResult) -> str:
        return trial.label if len(self.datasets) == 1 else f"{trial.label} on {trial.dataset}"

    def trial(self, label: str, dataset: str | None = None) -> TrialResult:
        """Return one backend's result, on the only dataset by default; raises UnknownNameError for an unknown label."""
        return self.report.trial(label, self._name(dataset))

    def has_run(self, label: str, dataset: str | None = None) -> bool:
        """Return whether a backend has ranked documents, in memory or in the folder; as :meth:`trial`."""
        trial = self.trial(label, dataset)
        return label in self.contents[trial.dataset].runs or (self.folder is not None and trial.status == "ok")

    def run(self, label: str, dataset: str | None = None) -> Run:
        """Return a backend's ranked documents, as :meth:`trial`; raises ResultError when it has none."""
        trial = self.trial(label, dataset)
        runs = self.contents[trial.dataset].runs
        if label in runs:
            return runs[label]
        if self.folder is None:
            raise ResultError(f"'{label}' failed, so it has no run")
        return read_stored_run(self.folder, trial.dataset, label)

    def metrics(self) -> pd.DataFrame:
        """Return the means: one row a backend, one column a metric; failed backends have NaN."""
        return self._frame(
            {_key(t): {name: value.mean for name, value in t.metrics.items()} for t in self.report.trials}
        )

    def leaderboard(self) -> pd.DataFrame:
        """Return the backends ranked by each metric over all datasets; no rows for one dataset.

        One row a metric and backend, the best first: columns rank, mean, ci_low, ci_high, then the mean on each dataset
        or aggregated task as ``on NAME``, then mean_rank, wins, datasets.
        """
        import pandas as pd

        board = self.report.leaderboard
        rows = board.rows if board is not None else []
        first, last = ("rank", "mean", "ci_low", "ci_high"), ("mean_rank", "wins", "datasets")
        index = pd.MultiIndex.from_tuples([(row.metric, row.backend) for row in rows], names=["metric", "backend"])
        content = [
            {name: getattr(row, name) for name in first}
            | {f"on {name}": mean for name, mean in row.values.items()}
            | {name: getattr(row, name) for name in last}
            for row in rows
        ]
        return pd.DataFrame(content, index=index, columns=None if content else [*first, *last])

    def parity(self) -> pd.DataFrame:
        """Return the parity: one row a backend that has a reference."""
        pairs = [(trial, trial.parity) for trial in self.report.trials if trial.parity is not None]
        return self._frame({_key(trial): parity.model_dump(exclude={"causes", "overlap"}) for trial, parity in pairs})

    def differences(self) -> pd.DataFrame:
        """Return backends against the reference, or every pair: one row a pair and metric, as ``report.differences``.

        Columns dataset (None across datasets), a, b, metric, difference (b - a), ci_low, ci_high, p, p_adjusted,
        detectable, effect, wins, ties, losses, within_ties, verdict; no rows for one backend and without judgments.
        """
        import pandas as pd

        columns = list(PairedDifference.model_fields)
        return pd.DataFrame([row.model_dump() for row in self.report.differences], columns=columns)

    def spread(self) -> pd.DataFrame:
        """Return the spread over builds: a row a backend and figure (a metric, an overlap with its reference, a cost).

        Costs are seconds, ready_seconds, documents_per_second, bytes and log_bytes, as in :meth:`builds`. Columns mean,
        sd, min and max; no rows if no backend was built several times.
        """
        rows = {}
        for trial in self.report.trials:
            if (spread := trial.spread) is not None:
                overlaps = {f"{OVERLAP}{depth}": value for depth, value in spread.reference_overlap.items()}
                for figure, value in {**spread.metrics, **overlaps, **spread.costs}.items():
                    rows[*_key(trial), figure] = value.model_dump()
        return self._frame(rows, "figure", columns=list(SpreadValue.model_fields))

    def builds(self) -> pd.DataFrame:
        """Return every build of the backends that were built several times: one row a backend and build, from 1.

        Columns seconds, ready_seconds, documents_per_second, bytes, log_bytes, peak_rss_bytes, peak_anonymous_bytes,
        then the metrics and the overlaps with the reference. Times are NaN if the plan took none.
        """
        rows = {}
        for trial in self.report.trials:
            for build in trial.spread.build_stats if trial.spread is not None else ():
                overlaps = {f"{OVERLAP}{depth}": share for depth, share in build.reference_overlap.items()}
                costs = build.model_dump(exclude={"build", "metrics", "reference_overlap"})
                rows[*_key(trial), build.build] = {**costs, **build.metrics, **overlaps}
        return self._frame(rows, "build")

    def timings(self) -> pd.DataFrame:
        """Return indexing and search: one row a backend that an engine served, times as the names of columns say.

        NaN if the plan took no times.
        """
        rows = {}
        for trial in self.report.trials:
            if trial.index is None or trial.search is None:
                continue
            rows[_key(trial)] = {
                "documents_per_second": trial.index.documents_per_second,
                "index_bytes": trial.index.bytes,
                "peak_anonymous_bytes": trial.index.peak_anonymous_bytes,
                **_latencies(trial.search),
                "qps": trial.search.qps,
            }
        return self._frame(rows)

    def frontier(self) -> pd.DataFrame:
        """Return every point of every sweep: one row a backend that ``sweep`` made.

        Columns sweep, value, metric, quality (the mean of the first metric, without judgments the recall), recall,
        p50_ms, p95_ms, bytes of the index, on_frontier and on_recall_frontier; no rows without a sweep.
        """
        columns = ["sweep", "value", "metric", "quality", "recall", "p50_ms", "p95_ms", "bytes"]
        columns += ["on_frontier", "on_recall_frontier"]
        rows = {
            (frontier.dataset, point.backend): {
                "sweep": frontier.name,
                "metric": frontier.metric,
                **point.model_dump(exclude={"backend"}),
            }
            for frontier in self.report.frontiers
            for point in frontier.points
        }
        return self._frame(rows, columns=columns)

    def tuning(self) -> pd.DataFrame:
        """Return the figures of every tuned backend: one row a swept backend, and with ``folds`` one more a fold.

        Columns metric, chosen, default, queries, mean and default_mean over the queries that did not choose; then
        difference, ci_low, ci_high, p, p_adjusted and verdict, which single folds lack; then choosing_queries,
        choosing_mean and choosing_default over the queries that chose, which the row over all folds lacks. Folds count
        from 1; 0 is over all of them. No rows without ``tune``.
        """
        columns = ["metric", "chosen", "default", "queries", "mean", "default_mean", *_TESTED]
        columns += ["choosing_queries", "choosing_mean", "choosing_default"]
        rows: dict[tuple[str, str, int], dict[str, object]] = {}
        for tuning in self.report.tunings:
            if tuning.reported is None or tuning.difference is None:
                continue
            about = {"metric": tuning.metric, "default": tuning.candidates[0]}
            test = tuning.difference.model_dump(include=set(_TESTED))
            reported = {"chosen": tuning.chosen, **_reporting(tuning.reported), **test}
            if not tuning.cross_validated:
                reported |= _choosing(tuning.choices[0].choosing)
            rows[tuning.dataset, tuning.backend, 0] = {**about, **reported}
            for number, choice in enumerate(tuning.choices if tuning.cross_validated else [], 1):
                means = {**_reporting(choice.reporting), **_choosing(choice.choosing)}
                rows[tuning.dataset, tuning.backend, number] = {**about, "chosen": choice.chosen, **means}
        return self._frame(rows, "fold", columns=columns)

    def _frame(
        self, rows: Mapping[Any, Mapping[str, Any]], *levels: str, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """Return rows by (dataset, backend, further levels) as a frame, without the dataset if there is only one."""
        import pandas as pd

        names = ["dataset", "backend", *levels]
        index = pd.MultiIndex.from_tuples(list(rows), names=names)
        frame = pd.DataFrame(list(rows.values()), index=index, columns=columns)
        return frame if len(self.datasets) > 1 else frame.droplevel("dataset")

    def per_query(self) -> pd.DataFrame:
        """Return every per-query value: columns dataset, backend, query_id, metric, value, min, max."""
        frame: pd.DataFrame = self.values.to_pandas()
        return frame

    def agreement_per_query(self) -> pd.DataFrame:
        """Return every query's agreement with the reference: level, cause, overlaps, score differences."""
        frame: pd.DataFrame = self.agreement.to_pandas()
        return frame

    def without_texts(self) -> Comparison:
        """Return the comparison without texts of queries and documents."""
        contents = {
            name: replace(content, queries=None, corpus=None, no_texts=LEFT_OUT)
            for name, content in self.contents.items()
        }
        return replace(self, contents=contents, explanations=None)


def _queries(texts: Mapping[str, str]) -> Queries | None:
    return Queries(Ids.of(texts), pa.chunked_array([strings(texts.values())]), "") if texts else None


def _rows_of_dataset(table: pa.Table, dataset: str) -> pa.Table:
    return table.filter(pc.equal(table["dataset"], text_scalar(dataset)))


def _key(trial: TrialResult) -> tuple[str, str]:
    return trial.dataset, trial.label


def _reporting(means: TunedMeans) -> dict[str, object]:
    return {"queries": means.queries, "mean": means.chosen, "default_mean": means.default}


def _choosing(means: TunedMeans) -> dict[str, object]:
    return {
        "choosing_queries": means.queries,
        "choosing_mean": means.chosen,
        "choosing_default": means.default,
    }


def _latencies(search: SearchStats) -> dict[str, float | int | None]:
    times, transfer = search.milliseconds, search.transfer_ms
    return {
        **{f"{name}_ms": getattr(times, name, None) for name in ("p50", "p90", "p95", "p99", "mean")},
        "n": times.n if times is not None else None,
        "transfer_p50_ms": transfer.p50 if transfer is not None else None,
    }


def lacks_measurement(trial: TrialResult) -> bool:
    """Return whether a measurement of a trial failed, see :attr:`Comparison.unmeasured`."""
    knee = trial.knee
    if knee is not None and knee.rate is None:
        return True
    if trial.filter_sweep is not None and any(level.error is not None for level in trial.filter_sweep.levels):
        return True
    # failures beyond the knee are a backend's answer to overload
    loops = [level for level in trial.open_loop if knee is None or knee.rate is None or level.rate <= knee.rate]
    levels: list[ClosedLoopStats | OpenLoopStats] = [*trial.closed_loop, *loops]
    if any(level.clients_failed >= (1 if level.kind == "threads" else level.clients) for level in levels):
        return True
    measured = [(level.milliseconds, level.errors) for level in trial.closed_loop]
    measured += [(level.service_ms, level.errors) for level in loops]
    if trial.cold is not None:
        measured.append((trial.cold.milliseconds, trial.cold.errors))
    return any(times is None or errors > _FAILED_SHARE * (times.n + errors) for times, errors in measured)
