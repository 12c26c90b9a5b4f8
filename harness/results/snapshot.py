"""A result to compare with others, dataset by dataset: a result folder, a baseline file, or the latest run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data import ranking
from harness.data.arrow import as_numpy, text_scalar
from harness.data.ranking import RankingDigest, TieRule
from harness.data.texts import text_digest
from harness.data.types import Ids, Int64Array, Qrels, Run
from harness.errors import ResultError, UnknownNameError
from harness.metrics import Metric, parse_metric
from harness.results.schema import Result, TrialResult

if TYPE_CHECKING:
    from harness.results.comparison import Comparison


THIS_RUN = "this run"
"""The source of a result that is stored nowhere yet."""

OVERLAP = "reference overlap@"
"""The share of the exact first hits that an engine returned, as a figure next to the metrics; a depth follows."""
Value = TypeVar("Value")


class RenamedRun(NamedTuple):
    """Rankings in which the first chunk of each expected document has the document's id.

    ``chunks`` maps a query and such an id to the chunk's id; ``further`` maps a query and the id in the ranking of each
    later chunk to the id of its expected document.
    """

    run: Run
    chunks: Mapping[str, Mapping[str, str]] = {}
    further: Mapping[str, Mapping[str, str]] = {}


@dataclass(frozen=True, eq=False)
class ResultSnapshot:
    """Part of a result that a comparison of two reads, on one dataset.

    ``report`` contains no other datasets. ``figures`` maps a backend's label to its per-query figures: a metric (or the
    overlap with the reference) to each query's value. ``hits`` gives a backend's hits, None if there are none;
    ``depth`` is the maximum number of hits for a query, None for all. ``latencies`` are nanoseconds of search and
    transfer together, by query, one for each pass. ``texts`` are the queries' texts, if they are known; ``digests``
    identify each query's text. ``kind`` is the verb that made the result. Without ``rescorable`` its hits cannot be
    scored again by its ``qrels``. ``stored_digests`` are digests of whole rankings if ``hits`` gives only their
    beginning, None if all hits are there; ``stored_ranks`` are the ranks, to depth k, at which they hold the documents
    relevant to each query, None if they were not kept. ``rename`` gives documents of an ordered ranking their ids in
    ``qrels``, if questions expect documents and chunks of these are searched. None if ids match exactly.
    ``judgments_of`` judges the documents of a ranking in the order of their ranks, if they are not compared with
    ``qrels`` by their ids. ``forbidden_of`` returns the forbidden documents of a ranking, None if they are not known.
    ``human`` are the figures by people's judgments alone, as ``figures``; empty if models gave no judgment.
    """

    source: str
    report: Result
    figures: Mapping[str, Mapping[str, Mapping[str, float]]]
    hits: Callable[[str], Run | None]
    depth: int | None = None
    latencies: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    qrels: Qrels | None = None
    kind: Literal["compare", "check"] = "compare"
    rescorable: bool = True
    stored_digests: Mapping[str, Mapping[str, RankingDigest]] | None = None
    stored_ranks: Mapping[str, Mapping[str, Mapping[str, int]]] | None = None
    rename: Callable[[Run, Qrels], RenamedRun] | None = None
    judgments_of: Callable[[Run], Qrels] | None = None
    forbidden_of: Callable[[Run], Qrels] | None = None
    human: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    _ordered: dict[str, RenamedRun | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse figures of a metric that no installed package offers: a package may have been removed."""
        try:
            _ = self.measures
        except UnknownNameError as error:
            raise ResultError(
                f"'{self.source}' has a metric that is not known here: {error.problem}",
                fix="install the package that offers it, or make the result again without it",
            ) from error

    @property
    def k(self) -> int:
        """The number of documents requested for each query."""
        return int(str(self.report.plan.resolved["k"]))

    @property
    def deepest(self) -> int:
        """The most documents of a ranking that can be known here: k, or fewer if fewer are kept."""
        return self.k if self.depth is None else min(self.k, self.depth)

    @property
    def rank_depth(self) -> int:
        """The depth to which ranks of relevant documents are known."""
        return self.k if self.depth is None or self.stored_ranks is not None else self.deepest

    def ranks(self, label: str, documents_by_query: Mapping[str, Collection[str]]) -> dict[str, dict[str, int]]:
        """Return the rank, from 1, of each wanted document of a query, as far as the result knows it."""
        run = self.ordered(label)
        if run is None:
            return {}
        document_ids = list(
            dict.fromkeys(document for documents in documents_by_query.values() for document in documents)
        )
        rows = dict(zip(document_ids, run.doc_ids.rows_of(Ids.of(document_ids)).tolist(), strict=True))
        queries = dict(zip(documents_by_query, run.query_ids.rows_of(Ids.of(documents_by_query)).tolist(), strict=True))
        stored_ranks = self.stored_ranks.get(label, {}) if self.stored_ranks is not None else {}
        ranks: dict[str, dict[str, int]] = {}
        for query, documents in documents_by_query.items():
            hits = run.rows[run.of_query(queries[query])][: self.k] if queries[query] >= 0 else run.rows[:0]
            positions = np.flatnonzero(np.isin(hits, [rows[document] for document in documents]))
            further = {name: rank for name, rank in stored_ranks.get(query, {}).items() if name in documents}
            hit_ids = run.doc_ids.take(hits[positions])
            ranks[query] = {**dict(zip(hit_ids, (positions + 1).tolist(), strict=True)), **further}
        return ranks

    def relevant_ranks(self, label: str) -> Mapping[str, Mapping[str, int]]:
        """Return query to relevant document to its rank, to depth k; empty without judgments."""
        if self.stored_ranks is not None or self.qrels is None:
            return (self.stored_ranks or {}).get(label, {})
        qrels, relevance = self.qrels, int(str(self.report.plan.resolved["relevance"]))
        relevant_ids = {}
        for query, start, stop in zip(qrels.query_ids, qrels.indptr[:-1], qrels.indptr[1:], strict=True):
            relevant = qrels.grades[start:stop] >= relevance
            relevant_ids[query] = qrels.doc_ids.take(qrels.rows[start:stop][relevant])
        return self.ranks(label, relevant_ids)

    def ranking_digests(self, label: str) -> Mapping[str, RankingDigest]:
        """Return the digests of a backend's whole rankings, in the engine's order; empty if they are not known."""
        if self.stored_digests is not None:
            return self.stored_digests.get(label, {})
        run = self.hits(label)
        return {} if run is None else ranking.ranking_digests(run, self.k)

    @property
    def ties(self) -> TieRule:
        """How equal scores were ordered when the result was scored."""
        return TieRule(str(self.report.plan.resolved["ties"]))

    @property
    def measures(self) -> dict[str, Metric]:
        """The measures that queries have values of, by the names that their figures go by, in the plan's order."""
        names = dict.fromkeys(name for figures in self.figures.values() for name in figures)
        return {name: parse_metric(name) for name in names if not name.startswith(OVERLAP)}

    @property
    def labels(self) -> list[str]:
        """Labels of the backends that have results, in the plan's order."""
        return [backend.label for backend in self.report.trials if backend.status == "ok"]

    def trial(self, label: str) -> TrialResult:
        """Return one backend's part of the report; raises KeyError."""
        return {trial.label: trial for trial in self.report.trials}[label]

    def ordered(self, label: str) -> Run | None:
        """Return a backend's hits in the order in which they were scored; under ``average``, in trec_eval's order.

        Expected documents have the ids that the judgments have for them.
        """
        renamed = self._renamed(label)
        return renamed.run if renamed is not None else None

    def chunks(self, label: str) -> Mapping[str, Mapping[str, str]]:
        """Return query to expected document to its first chunk in a ranking; empty if ids match exactly."""
        renamed = self._renamed(label)
        return renamed.chunks if renamed is not None else {}

    def further_chunks(self, label: str) -> Mapping[str, Mapping[str, str]]:
        """Return query to later chunk to the expected document it belongs to; empty if ids match exactly."""
        renamed = self._renamed(label)
        return renamed.further if renamed is not None else {}

    def _renamed(self, label: str) -> RenamedRun | None:
        if label not in self._ordered:  # the last is kept: backends are mostly read one after another
            run = self.hits(label)
            if run is not None and self.depth is None and self.ties is not TieRule.ENGINE:
                run = ranking.order(run, wide=self.ties is TieRule.TREC_EVAL_10)
            self._ordered.clear()
            renamed = None if run is None else RenamedRun(run)
            if run is not None and self.rename is not None and self.qrels is not None:
                renamed = self.rename(run, self.qrels)
            self._ordered[label] = renamed
        return self._ordered[label]

    def with_query_ids(self, names: Mapping[str, str]) -> ResultSnapshot:
        """Return the same with other ids of queries, by their present ids; no two may become one."""

        def keys(values: Mapping[str, Value]) -> dict[str, Value]:
            return {names.get(query, query): value for query, value in values.items()}

        def ids(former: Ids) -> Ids:
            return Ids.of(names.get(query, query) for query in former)

        def hits(label: str) -> Run | None:
            run = self.hits(label)
            return None if run is None else replace(run, query_ids=ids(run.query_ids))

        former_ids = {name: query for query, name in names.items()}

        def with_former_ids(run: Run) -> Run:
            return replace(run, query_ids=Ids.of(former_ids.get(query, query) for query in run.query_ids))

        def judge_former(judge: Callable[[Run], Qrels], run: Run) -> Qrels:
            qrels = judge(with_former_ids(run))
            return replace(qrels, query_ids=ids(qrels.query_ids))

        def rename_former(rename: Callable[[Run, Qrels], RenamedRun], run: Run, qrels: Qrels) -> RenamedRun:
            former = Ids.of(former_ids.get(query, query) for query in qrels.query_ids)
            renamed = rename(with_former_ids(run), replace(qrels, query_ids=former))
            return RenamedRun(
                replace(renamed.run, query_ids=run.query_ids), keys(renamed.chunks), keys(renamed.further)
            )

        def keys_of_figures(
            of_labels: Mapping[str, Mapping[str, Mapping[str, float]]],
        ) -> dict[str, dict[str, dict[str, float]]]:
            return {
                label: {name: keys(values) for name, values in figures.items()} for label, figures in of_labels.items()
            }

        def qrels_ids(qrels: Qrels | None) -> Qrels | None:
            if qrels is None:
                return None
            return replace(qrels, query_ids=ids(qrels.query_ids), human=qrels_ids(qrels.human))

        return replace(
            self,
            figures=keys_of_figures(self.figures),
            human=keys_of_figures(self.human),
            hits=hits,
            latencies={label: keys(samples) for label, samples in self.latencies.items()},
            texts=keys(self.texts),
            digests=keys(self.digests),
            qrels=qrels_ids(self.qrels),
            stored_digests=None
            if self.stored_digests is None
            else {label: keys(digests) for label, digests in self.stored_digests.items()},
            stored_ranks=None
            if self.stored_ranks is None
            else {label: keys(ranks) for label, ranks in self.stored_ranks.items()},
            rename=None if self.rename is None else partial(rename_former, self.rename),
            judgments_of=None if self.judgments_of is None else partial(judge_former, self.judgments_of),
            forbidden_of=None if self.forbidden_of is None else partial(judge_former, self.forbidden_of),
        )

    def first(self, label: str, depth: int) -> dict[str, list[str]]:
        """Return the first ``depth`` documents of each query, best first; empty if there are no hits."""
        run = self.ordered(label)
        if run is None:
            return {}
        top = ranking.cut(run, depth)
        ids = top.doc_ids.take(top.rows)
        return {query: ids[top.of_query(row)] for row, query in enumerate(top.query_ids)}


def snapshots_of(comparison: Comparison) -> list[ResultSnapshot]:
    """Return a comparison that just ran, or that was loaded from its folder, by dataset."""
    return [_snapshot(comparison, name) for name in comparison.datasets]


def _snapshot(comparison: Comparison, dataset: str) -> ResultSnapshot:
    only = comparison.on(dataset)
    queries, trials = only.queries, [trial for trial in only.report.trials if trial.status == "ok"]
    texts = dict(zip(queries.ids, queries.texts.to_pylist(), strict=True)) if queries is not None else {}
    return ResultSnapshot(
        source=str(comparison.folder or THIS_RUN),
        report=only.report,
        figures={trial.label: {**_metrics(only.values, trial.label), **_overlaps(only, trial)} for trial in trials},
        human={trial.label: _metrics(only.values, trial.label, "human") for trial in trials}
        if only.report.dataset.model_labels is not None
        else {},
        hits=lambda label: only.run(label) if only.has_run(label) else None,
        latencies=_samples(only.latencies, [trial.label for trial in trials]) if only.latencies is not None else {},
        texts=texts,
        digests={query: text_digest(text) for query, text in texts.items()},
        qrels=only.qrels,
    )


def _rows_of_label(table: pa.Table, label: str) -> pa.Table:
    return table.filter(pc.equal(table["backend"], text_scalar(label)))


def _metrics(table: pa.Table, label: str, figure: str = "value") -> dict[str, dict[str, float]]:
    values: dict[str, dict[str, float]] = {}
    columns = (_rows_of_label(table, label)[name].to_pylist() for name in ("metric", "query_id", figure))
    for metric, query, value in zip(*columns, strict=True):
        if value is not None:
            values.setdefault(metric, {})[query] = value
    return values


def _overlaps(comparison: Comparison, trial: TrialResult) -> dict[str, dict[str, float]]:
    """Return the overlap with the reference by query, at the first and the last depth that the table has."""
    depths = sorted(int(depth) for depth in trial.parity.overlap) if trial.parity is not None else []
    table = _rows_of_label(comparison.agreement, trial.label)
    columns = {"overlap_10": depths[0], "overlap_k": depths[-1]} if depths else {}
    queries = table["query_id"].to_pylist()
    return {
        f"{OVERLAP}{depth}": dict(zip(queries, table[name].to_pylist(), strict=True)) for name, depth in columns.items()
    }


def _samples(table: pa.Table, labels: Sequence[str]) -> dict[str, dict[str, list[int]]]:
    """Return label to query to nanoseconds of search and transfer together, in the order of the passes."""
    samples: dict[str, dict[str, list[int]]] = {label: {} for label in labels}
    for label, of_label in samples.items():
        rows = _rows_of_label(table, label)
        total: Int64Array = as_numpy(rows["search_ns"]) + as_numpy(rows["transfer_ns"])
        for query, sample in zip(rows["query_id"].to_pylist(), total.tolist(), strict=True):
            of_label.setdefault(query, []).append(sample)
    return samples
