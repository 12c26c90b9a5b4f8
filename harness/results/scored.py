"""Outcomes with their scores and their parity, the answers to a golden set, and the stored per-query tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers, numbers_or_null, strings
from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.types import Ids, Int64Array, Qrels, Run
from harness.metrics import Scores, score
from harness.parity import Level, Parity
from harness.parity.outcome_parity import OutcomeParity
from harness.plan.plan import Plan
from harness.results.schema import TrialResult
from harness.worker.jobs import TrialRecord
from harness.worker.outcome import Outcome
from harness.worker.vectors import Vectors

QrelsOf = Callable[[Run], Qrels | None]
"""The judgments by which a run is scored: the dataset's, or a golden set's expectations; None for no judgments."""


class ScoredRebuild(NamedTuple):
    """A build after the first: its run, its scores (None without judgments), overlaps with the reference if any."""

    run: Run
    scores: Scores | None
    overlap: Mapping[int, float]


@dataclass(frozen=True, eq=False, slots=True)
class ScoredTrial:
    """An outcome with its scores (None without judgments or run) and its parity (None without a reference).

    ``exact`` are the scores of the reference's own run, for backends of dense vectors and hybrids: the loss by
    approximation. ``rebuilds`` are the builds after the first, in their order. ``reference`` is the reference's run to
    a depth beyond k, if that was requested. ``explanations`` are those of its hits, if a page was requested.
    """

    outcome: Outcome
    scores: Scores | None
    parity: Parity | None
    exact: Scores | None = None
    rebuilds: tuple[ScoredRebuild, ...] = ()
    reference: Run | None = None
    explanations: pa.Table | None = None

    def timed_record(self) -> TrialRecord | None:
        """Return the trial's record with the times of queries that have a term: others cost nothing."""
        record = self.outcome.record
        if record is None:
            return None
        terms = has_terms(self.outcome.vectors, len(record.hits.indptr) - 1)
        return replace(record, search_ns=record.search_ns[:, terms], transfer_ns=record.transfer_ns[:, terms])


def score_outcome(
    outcome: Outcome, compared: OutcomeParity | None, plan: Plan, qrels_of: QrelsOf, documents: Ids
) -> ScoredTrial:
    """Score a run, along with its comparison with the reference (None without a comparison).

    A run of ``documents`` without judgments scores 0. Raises DataError for a run of other documents without judgments,
    and for a run that shares no query with the judgments.
    """
    overlaps = compared.rebuilds if compared is not None else [{}] * len(outcome.rebuilds)
    rebuilds = tuple(
        ScoredRebuild(run, _score(run, qrels_of, plan, documents), overlap)
        for run, overlap in zip(outcome.rebuilds, overlaps, strict=True)
    )
    parity = compared.parity if compared is not None else None
    if outcome.run is None:
        return ScoredTrial(outcome, None, parity, rebuilds=rebuilds)
    # first: its run has the content of the documents
    scores = _score(outcome.run, qrels_of, plan, documents, if_relevant=plan.request.judged_only)
    exact_run = compared.exact if compared is not None else None
    exact = _score(exact_run, qrels_of, plan, documents) if exact_run is not None else None
    deeper = compared.deeper if compared is not None else None
    return ScoredTrial(outcome, scores, parity, exact, rebuilds, deeper)


def _score(run: Run, qrels_of: QrelsOf, plan: Plan, documents: Ids, *, if_relevant: bool = False) -> Scores | None:
    qrels = qrels_of(run)
    if qrels is None:
        return None
    return score(
        run,
        qrels,
        plan.measures,
        ties=plan.ties,
        queries=plan.queries,
        relevance=plan.request.relevance,
        unjudged=run.doc_ids is documents or bool((documents.rows_of(run.doc_ids) >= 0).any()),
        if_relevant=if_relevant,
    )


def per_query_table(scored: Sequence[ScoredTrial], dataset: str) -> pa.Table:
    """Return the values of a dataset's queries in long form, each with its range over ties (null: not defined).

    If models gave some judgments, the column ``human`` has the values by people's, null for a query without any.
    """
    parts = []
    for backend in scored:
        scores = backend.scores
        if scores is None:
            continue
        for column, measure in enumerate(scores.measures):
            columns = {
                "query_id": scores.query_ids.values,
                "metric": strings([str(measure)] * len(scores.query_ids)),
                "value": numbers(scores.values[:, column]),
                "min": numbers_or_null(scores.low[:, column]),
                "max": numbers_or_null(scores.high[:, column]),
            }
            if scores.human is not None:
                columns["human"] = numbers_or_null(scores.human[:, column])
            parts.append(
                _part(
                    _HUMAN_VALUES if scores.human is not None else _VALUES,
                    dataset,
                    backend.outcome.trial.label,
                    columns,
                )
            )
    return pa.concat_tables([_NO_VALUES, *parts], promote_options="default")


def parity_table(scored: Sequence[ScoredTrial], dataset: str) -> pa.Table:
    """Return a row a backend and query: level of agreement with the reference, overlaps, differences, proven cause."""
    parts = []
    for backend in scored:
        if backend.parity is None or backend.outcome.run is None:
            continue
        detail = backend.parity.per_query
        columns = {
            "query_id": backend.outcome.run.query_ids.values,
            "level": strings(Level(level).name.lower() for level in detail.level.tolist()),
            "cause": strings(detail.cause),
            "overlap_10": numbers(detail.overlap[min(detail.overlap)]),
            "overlap_k": numbers(detail.overlap[max(detail.overlap)]),
            "rbo": numbers(detail.rbo),
            "max_abs_score_diff": numbers(detail.max_abs_score_diff),
            "max_rel_score_diff": numbers(detail.max_rel_score_diff),
        }
        parts.append(_part(_PARITY, dataset, backend.outcome.trial.label, columns))
    return pa.concat_tables([_NO_PARITY, *parts])


def latency_table(scored: Sequence[ScoredTrial], dataset: Dataset, plan: Plan) -> pa.Table | None:
    """Return a row a backend, timed pass and query that has a term: nanoseconds of the search and of the transfer.

    None if the plan took no times. Passes count from 1. Backends made of others, and runs that were read, have no
    samples of their own.
    """
    if not plan.request.timing:
        return None
    parts = []
    for backend in scored:
        record, queries_record = backend.outcome.record, backend.outcome.answers
        if record is not None:
            search_ns, transfer_ns = record.search_ns, record.transfer_ns
        elif queries_record is not None:
            search_ns, transfer_ns = queries_record.search_ns, np.zeros_like(queries_record.search_ns)
        else:
            continue
        terms = np.flatnonzero(has_terms(backend.outcome.vectors, len(dataset.queries)))
        passes = len(search_ns)
        ids = dataset.queries.ids.values.take(numbers(terms))
        columns = {
            "pass": numbers(np.repeat(np.arange(1, passes + 1, dtype=np.int32), len(terms))),
            "query_id": pa.concat_arrays([ids] * passes) if passes else ids.slice(0, 0),
            "search_ns": numbers(search_ns[:, terms].ravel()),
            "transfer_ns": numbers(transfer_ns[:, terms].ravel()),
        }
        parts.append(_part(_LATENCIES, dataset.name, backend.outcome.trial.label, columns))
    return pa.concat_tables([_NO_LATENCIES, *parts])


def has_terms(vectors: Vectors | None, queries: int) -> BoolArray:
    """Return which queries have a term that a document has, bool (Q,): all if there are dense vectors, or none."""
    if vectors is None or vectors.sparse is None or vectors.dense is not None:
        return np.ones(queries, dtype=bool)
    terms: BoolArray = np.diff(vectors.sparse.queries.indptr) > 0
    return terms


def _schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema([("dataset", pa.string()), ("backend", pa.string()), *types.items()])


_TEXT, _NUMBER, _NANOSECONDS = pa.string(), pa.float64(), pa.int64()
_VALUES = _schema(query_id=_TEXT, metric=_TEXT, value=_NUMBER, min=_NUMBER, max=_NUMBER)
_HUMAN_VALUES = _VALUES.append(pa.field("human", _NUMBER))
_PARITY = _schema(
    **dict.fromkeys(("query_id", "level", "cause"), _TEXT),
    **dict.fromkeys(("overlap_10", "overlap_k", "rbo", "max_abs_score_diff", "max_rel_score_diff"), _NUMBER),
)
_LATENCIES = _schema(**{"pass": pa.int32()}, query_id=_TEXT, search_ns=_NANOSECONDS, transfer_ns=_NANOSECONDS)
_NO_VALUES, _NO_PARITY, _NO_LATENCIES = (
    pa.Table.from_batches([], schema=schema)  # Schema.empty_table would import pandas
    for schema in (_VALUES, _PARITY, _LATENCIES)
)


def _part(schema: pa.Schema, dataset: str, backend: str, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Return the rows of one backend on a dataset."""
    rows = len(columns["query_id"])
    name_columns = {"dataset": strings([dataset] * rows), "backend": strings([backend] * rows)}
    return pa.table({**name_columns, **columns}, schema=schema)


@dataclass(frozen=True, eq=False, slots=True)
class GoldenRun:
    """The answers of a backend to the questions of a golden set, with its trial.

    ``run`` holds every question; None for a backend that failed (then the trial's ``error`` says why). ``scores`` cover
    the questions that expect something, ``forbidden`` the questions that forbid documents. ``search_ns`` int64 (passes,
    questions) are times of single queries, negative for a question that was never sent; None if none were taken.
    ``exact`` bool (questions,) marks rankings that equal the exact ranking up to ties, None without an exact reference.
    Both are in the run's order of questions. ``problems`` name the findings of preflight, ``unanswered`` are the ids of
    questions that failed. ``reference`` is the exact reference's run to a depth beyond k, None without a reference.
    ``no_scores`` says why its hits have no scores, empty if they have. ``explanations`` as in :class:`ScoredTrial`.
    """

    trial: TrialResult
    run: Run | None = None
    scores: Scores | None = None
    forbidden: Scores | None = None
    search_ns: Int64Array | None = None
    exact: npt.NDArray[np.bool_] | None = None
    problems: tuple[str, ...] = ()
    unanswered: frozenset[str] = frozenset()
    reference: Run | None = None
    no_scores: str = ""
    explanations: pa.Table | None = None

    @property
    def label(self) -> str:
        """Label of the backend."""
        return self.trial.label

    @classmethod
    def of(cls, scored: ScoredTrial, trial: TrialResult, *, timed: bool) -> GoldenRun:
        """Return the answers of a backend that was searched."""
        record, parity = scored.outcome.record, scored.parity
        search_ns = None
        if timed and record is not None:
            sent = has_terms(scored.outcome.vectors, record.search_ns.shape[1])
            search_ns = np.where(sent, record.search_ns, np.int64(-1))
        elif timed and scored.outcome.answers is not None:
            search_ns = scored.outcome.answers.search_ns
        exact = parity.per_query.level >= Level.TIE_EQUIVALENT if parity is not None else None
        return cls(
            trial,
            scored.outcome.run,
            scored.scores,
            search_ns=search_ns,
            exact=exact,
            reference=scored.reference,
            explanations=scored.explanations,
        )
