"""One backend's part of the report: what it was, what it did, and how well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from harness.execution.encodings import Vectors
from harness.execution.jobs import TrialRecord
from harness.execution.process import Finished
from harness.metrics import Scores, is_mean
from harness.metrics.significance import bootstrap_interval
from harness.parity import Parity
from harness.results import schema
from harness.results.assess import Assessed
from harness.runner import Failure
from harness.store import holds_white_space
from harness.timing import Latency, latency
from harness.types import Dataset

__all__ = ["backend_results"]

_NS_PER_S = 1e9
_MISSING_SHOWN = 100
_NAMED = 20


def backend_results(assessed: Sequence[Assessed], dataset: Dataset, seed: int) -> list[schema.BackendResult]:
    """One result per backend, in the plan's order."""
    return [_backend_result(one, dataset, seed) for one in assessed]


def _backend_result(one: Assessed, dataset: Dataset, seed: int) -> schema.BackendResult:
    outcome, trial = one.outcome, one.outcome.trial
    record = outcome.record
    return schema.BackendResult(
        name=trial.spec.name,
        label=trial.label,
        status="failed" if outcome.failure is not None else "ok",
        error=_error(outcome.failure),
        engine=schema.EngineDescription(**asdict(record.engine)) if record is not None else None,
        encoder=_encoder(outcome.vectors, trial.spec.card.encoder if trial.spec.card is not None else None),
        parameters=dict(trial.parameters),
        index=_index(record, outcome.memory, dataset) if record is not None else None,
        search=_search(record, dataset) if record is not None else None,
        queries=schema.EvaluatedCounts(**one.scores.counts._asdict()) if one.scores is not None else None,
        metrics=_metrics(one.scores, seed),
        parity=_parity(one.parity),
        notes=_notes(one, dataset),
    )


def _error(failure: Failure | None) -> schema.ErrorInfo | None:
    if failure is None:
        return None
    return schema.ErrorInfo(type=failure.type, message=failure.message, log=list(failure.log))


def _encoder(vectors: Vectors | None, name: str | None) -> dict[str, str | int | float | bool | None]:
    if vectors is None:
        return {}
    lengths = vectors.counts.lengths
    with_terms = int(np.count_nonzero(lengths))
    return {
        "encoder": name,
        "analyzer": vectors.analyzer,
        "terms": int(lengths.sum()),
        "distinct_terms": len(vectors.counts.vocabulary),
        "documents_with_terms": with_terms,
        "average_length": float(lengths.sum() / with_terms) if with_terms else None,
    }


def _index(record: TrialRecord, memory: Finished | None, dataset: Dataset) -> schema.IndexStats:
    report, seconds = record.index, record.index.index_ns / _NS_PER_S
    return schema.IndexStats(
        documents_sent=report.sent,
        documents_indexed=report.indexed,
        missing=dataset.corpus.ids.take(report.missing_rows[:_MISSING_SHOWN]),
        missing_count=len(report.missing_rows),
        seconds=seconds,
        ready_seconds=report.ready_ns / _NS_PER_S,
        documents_per_second=report.indexed / seconds if seconds > 0 else 0.0,
        bytes=record.storage.index_bytes,
        log_bytes=record.storage.log_bytes,
        peak_rss_bytes=memory.peak_rss_bytes if memory is not None else None,
        peak_anonymous_bytes=memory.peak_anonymous_bytes if memory is not None else None,
        state=dict(report.state),
    )


def _search(record: TrialRecord, dataset: Dataset) -> schema.SearchStats:
    total_ns = int(record.search_ns.sum() + record.transfer_ns.sum())
    lengths = np.diff(record.hits.indptr)
    return schema.SearchStats(
        queries=len(dataset.queries),
        k=record.k,
        repeats=len(record.search_ns),
        concurrency=1,
        milliseconds=_latency(latency(record.search_ns)),
        transfer_ms=_latency(latency(record.transfer_ns)),
        qps=record.search_ns.size / (total_ns / _NS_PER_S) if total_ns else 0.0,
        first_query_ms=record.first_query_ns / 1e6,
        warm_up_queries=record.warm_up_queries,
        hits=len(record.hits.rows),
        queries_without_hits=int(np.count_nonzero(lengths == 0)),
    )


def _latency(measured: Latency) -> schema.LatencyStats:
    return schema.LatencyStats(**asdict(measured))


def _metrics(scores: Scores | None, seed: int) -> dict[str, schema.MetricValue]:
    if scores is None or len(scores.query_ids) == 0:
        return {}
    values = {}
    for summary in scores.means():
        interval = bootstrap_interval(scores.of(summary.measure), seed) if is_mean(summary.measure) else None
        values[str(summary.measure)] = schema.MetricValue(
            mean=summary.value,
            min=None if np.isnan(summary.low) else summary.low,
            max=None if np.isnan(summary.high) else summary.high,
            ci_low=interval.low if interval is not None else None,
            ci_high=interval.high if interval is not None else None,
        )
    return values


def _parity(parity: Parity | None) -> schema.ParityStats | None:
    if parity is None:
        return None
    return schema.ParityStats(
        oracle=parity.oracle,
        mode=parity.mode,
        tolerance=parity.tolerance,
        queries=parity.queries,
        bit_equal=parity.bit_equal,
        identical=parity.identical,
        tie_equivalent=parity.tie_equivalent,
        different=parity.different,
        overlap={str(depth): share for depth, share in parity.overlap.items()},
        rbo=parity.rbo,
        max_abs_score_diff=parity.max_abs_score_diff,
        max_rel_score_diff=parity.max_rel_score_diff,
        causes=dict(parity.causes),
    )


def _notes(one: Assessed, dataset: Dataset) -> list[str]:
    notes = []
    record, vectors = one.outcome.record, one.outcome.vectors
    if record is not None and len(record.index.missing_rows):
        missing = dataset.corpus.ids.take(record.index.missing_rows[:_NAMED])
        held = f"{record.index.indexed:,} of {record.index.sent:,} documents are in the index"
        notes.append(f"{held}; not there, because they are empty: {', '.join(missing)}")
    if one.scores is not None and len(one.scores.query_ids) == 0:
        notes.append("no query could be evaluated, so there are no metrics")
    if vectors is not None:
        with_terms = int(np.count_nonzero(vectors.counts.lengths))
        if with_terms < len(dataset.corpus):
            notes.append(f"N, df and avgdl count the {with_terms:,} documents that have a term")
        unknown = int(np.count_nonzero(np.diff(vectors.queries.indptr) == 0))
        if unknown:
            found = "query has" if unknown == 1 else "queries have"
            notes.append(f"{unknown} {found} no term that a document has, and no hits")
    if one.outcome.run is not None and any(holds_white_space(ids) for ids in (dataset.corpus.ids, dataset.queries.ids)):
        notes.append("ids hold white space, which TREC's format cannot: the run is stored as Parquet")
    return notes
