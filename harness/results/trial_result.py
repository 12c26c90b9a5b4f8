"""What is stored of a trial: what the backend was, what it did, and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal, Protocol

import numpy as np

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.types import Float32Array, Int64Array, Qrels, Run
from harness.engines.interface import EngineInfo
from harness.metrics import Measure, QuerySet, Scores, is_mean, score
from harness.plan.backend_spec import BackendSpec
from harness.plan.plan import Plan, Trial
from harness.registry.lookup import load_engine
from harness.results import schema
from harness.results.differences import metric_losses
from harness.results.scored import Scored, has_terms
from harness.results.trial_notes import trial_notes
from harness.stats import mean_interval
from harness.stats.timing import latency
from harness.worker.failure import Failure
from harness.worker.jobs import ExternalIndexRecord, TrialRecord
from harness.worker.outcome import Outcome
from harness.worker.process import Finished
from harness.worker.vectors import Vectors

__all__ = ["Probe", "best_order", "failed_result", "rerank_upper_bound", "trial_results"]

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_MISSING_SHOWN = 100
_STRANGERS_SHOWN = 20
_BEST_BY_GRADE = "nDCG"


class Probe(Protocol):
    """A measurement of trials beside their hits, summed up for the result."""

    def summarise(self, scored: Scored, plan: Plan) -> Mapping[str, object]:
        """Return the fields of a trial's result that the probe fills, whether it measured anything or not."""

    def notes(self, scored: Scored, plan: Plan) -> list[str]:
        """Return what a reader must know of the measurement, one sentence each."""


def trial_results(
    scored: Sequence[Scored], dataset: Dataset, plan: Plan, probes: Sequence[Probe]
) -> list[schema.TrialResult]:
    """Return one result per backend, in the plan's order; without times unless the plan took them."""
    return [_trial_result(backend, dataset, plan, probes) for backend in scored]


def _trial_result(scored: Scored, dataset: Dataset, plan: Plan, probes: Sequence[Probe]) -> schema.TrialResult:
    outcome, trial = scored.outcome, scored.outcome.trial
    seed, timed = plan.request.seed, plan.execution.timing
    terms = has_terms(outcome.vectors, len(dataset.queries))
    record = _of_queries_with_terms(outcome.record, terms) if outcome.record is not None else None
    result = schema.TrialResult(
        dataset=dataset.name,
        name=trial.spec.name,
        label=trial.label,
        status="failed" if outcome.failure is not None else "ok",
        measured=outcome.measured,
        reused=outcome.reused,
        error=_error(outcome.failure) if outcome.failure is not None else None,
        engine=_engine(record.engine) if record is not None else None,
        stages=_stages(outcome, dataset, plan),
        encoder=dict(outcome.vectors.facts) if outcome.vectors is not None else {},
        parameters=dict(trial.parameters),
        phases=_phases(record, outcome.vectors) if timed and record is not None else None,
        index=_index(record, outcome.memory, dataset, timed=timed) if record is not None else None,
        search=_search(record, terms, timed=timed) if record is not None else None,
        queries=schema.EvaluatedCounts(**scored.scores.counts._asdict()) if scored.scores is not None else None,
        metrics=_metrics(scored.scores, seed),
        parity=_parity(scored, seed),
        deterministic=_deterministic(trial.spec) if outcome.failure is None else None,
        notes=[*trial_notes(scored, dataset, plan), *(note for probe in probes for note in probe.notes(scored, plan))],
    )
    return result.model_copy(
        update={name: value for probe in probes for name, value in probe.summarise(scored, plan).items()}
    )


def _of_queries_with_terms(record: TrialRecord, terms: BoolArray) -> TrialRecord:
    """Return the record with the times of those queries alone that have a term: others cost nothing."""
    return replace(record, search_ns=record.search_ns[:, terms], transfer_ns=record.transfer_ns[:, terms])


def failed_result(trial: Trial, dataset: str, error: schema.ErrorInfo) -> schema.TrialResult:
    """Return the result of a trial that could not run, because its dataset could not be loaded."""
    return schema.TrialResult(
        dataset=dataset,
        name=trial.spec.name,
        label=trial.label,
        status="failed",
        error=error,
        parameters=dict(trial.parameters),
    )


def _deterministic(spec: BackendSpec) -> bool | None:
    """Tell whether every build of a backend and its parts gives the same rankings; None where nothing is built."""
    if spec.components:
        parts = [_deterministic(component) for component in spec.components]
        return False if False in parts else next((part for part in parts if part is not None), None)
    if spec.card is None or spec.parameters.get("external", False):
        return None
    return load_engine(spec.card).capabilities.deterministic


def _engine(info: EngineInfo) -> schema.EngineDescription:
    return schema.EngineDescription(name=info.name, version=info.version, mode=info.mode)


def _error(failure: Failure) -> schema.ErrorInfo:
    return schema.ErrorInfo(type=failure.type, message=failure.message, log=list(failure.log))


def _phases(record: TrialRecord, vectors: Vectors | None) -> schema.PhaseTimes:
    """Return the times of each phase; ``vectors`` is what was encoded for the trial, None when nothing was."""
    source = _source(record, vectors)
    return schema.PhaseTimes(
        encode_seconds=_encode_seconds(vectors) if source in ("computed", "partly cached") else None,
        encode_source=source,
        open_seconds=record.open_ns / _NS_PER_S,
        index_seconds=record.index.index_ns / _NS_PER_S if record.external is None else None,
        ready_seconds=record.index.ready_ns / _NS_PER_S if record.external is None else None,
        first_query_seconds=record.first_query_ns / _NS_PER_S,
        warm_up_seconds=record.warm_up_ns / _NS_PER_S,
        search_seconds=int(record.search_ns.sum()) / _NS_PER_S,
        transfer_seconds=int(record.transfer_ns.sum()) / _NS_PER_S,
    )


def _source(record: TrialRecord, vectors: Vectors | None) -> Literal["computed", "partly cached", "cached", "engine"]:
    # an engine that reads texts has vectors too, but they are its reference's
    if record.input == "text" or vectors is None:
        return "engine"
    computed = [part is not None for part in vectors.steps_ns]
    if all(computed):
        return "computed"
    return "partly cached" if any(computed) else "cached"


def _encode_seconds(vectors: Vectors | None) -> float | None:
    if vectors is None:
        return None
    return sum(part for part in vectors.steps_ns if part is not None) / _NS_PER_S


def _index(record: TrialRecord, memory: Finished | None, dataset: Dataset, *, timed: bool) -> schema.IndexStats:
    ingestion, external, seconds = record.index, record.external, record.index.index_ns / _NS_PER_S
    built = timed and external is None
    return schema.IndexStats(
        built_by=record.built_by,
        documents_sent=ingestion.sent if external is None else None,
        documents_indexed=ingestion.indexed,
        missing=dataset.corpus.ids.take(ingestion.missing_rows[:_MISSING_SHOWN]),
        missing_count=len(ingestion.missing_rows),
        seconds=seconds if built else None,
        ready_seconds=ingestion.ready_ns / _NS_PER_S if built else None,
        searchable_seconds=(ingestion.index_ns + ingestion.ready_ns) / _NS_PER_S if built else None,
        documents_per_second=_rate(ingestion.indexed, seconds) if built else None,
        bytes=record.storage.index_bytes,
        log_bytes=record.storage.log_bytes,
        peak_rss_bytes=memory.peak_rss_bytes if memory is not None else None,
        peak_anonymous_bytes=memory.peak_anonymous_bytes if memory is not None else None,
        state=dict(ingestion.state),
        external_index=_external_index(external) if external is not None else None,
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _external_index(external: ExternalIndexRecord) -> schema.ExternalIndexStats:
    """Return what is stored of an external index."""
    strange = np.flatnonzero(external.rows < 0)
    return schema.ExternalIndexStats(
        in_dataset=len(external.rows) - len(strange),
        not_in_dataset=len(strange),
        examples=external.ids.take(strange[:_STRANGERS_SHOWN]),
        no_reference=external.no_reference,
        files=external.files,
        file_bytes=external.file_bytes,
        sha256=external.sha256,
    )


def _search(record: TrialRecord, terms: BoolArray, *, timed: bool) -> schema.SearchStats:
    total_ns = int(record.search_ns.sum() + record.transfer_ns.sum())
    lengths = np.diff(record.hits.indptr)
    measured = timed and record.search_ns.size > 0
    return schema.SearchStats(
        queries=len(terms),
        queries_without_terms=int(np.count_nonzero(~terms)),
        k=record.k,
        repeats=len(record.search_ns),
        concurrency=1,
        milliseconds=_latency(record.search_ns) if measured else None,
        transfer_ms=_latency(record.transfer_ns) if measured else None,
        qps=_rate(record.search_ns.size, total_ns / _NS_PER_S) if measured else None,
        first_query_ms=record.first_query_ns / 1e6 if timed and terms[:1].all() else None,
        warm_up_queries=record.warm_up_queries,
        hits=len(record.hits.rows),
        queries_without_hits=int(np.count_nonzero(lengths == 0)),
        repeated_calls=record.hits.repeated_calls,
        queries_per_call=record.hits.queries_per_call,
    )


def _latency(samples_ns: Int64Array) -> schema.LatencyStats:
    return schema.LatencyStats(**asdict(latency(samples_ns)))


def _metrics(scores: Scores | None, seed: int) -> dict[str, schema.MetricValue]:
    if scores is None or len(scores.query_ids) == 0:
        return {}
    values = {}
    for summary in scores.means():
        interval = mean_interval(scores.of(summary.measure), seed) if is_mean(summary.measure) else None
        values[str(summary.measure)] = schema.MetricValue(
            metric=str(summary.measure),
            mean=summary.value,
            min=None if np.isnan(summary.low) else summary.low,
            max=None if np.isnan(summary.high) else summary.high,
            ci_low=interval.low if interval is not None else None,
            ci_high=interval.high if interval is not None else None,
            n=len(scores.query_ids),
        )
    return values


def _parity(scored: Scored, seed: int) -> schema.ParityStats | None:
    parity = scored.parity
    if parity is None:
        return None
    return schema.ParityStats(
        reference=parity.reference,
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
        loss=metric_losses(scored, seed),
    )


def _stages(outcome: Outcome, dataset: Dataset, plan: Plan) -> schema.StageStats | None:
    """Return what a backend that is made of others took, without times unless the plan took them; None for others."""
    combined, timed = outcome.combined, plan.execution.timing
    if combined is None:
        return None
    first, own_ns = (combined.first_ns, combined.own_ns) if timed else (None, None)
    return schema.StageStats(
        method=combined.method,
        of=list(combined.of),
        first_ms=_latency(first) if first is not None and first.size else None,
        own_ms=own_ns / max(len(dataset.queries), 1) / _NS_PER_MS if own_ns is not None else None,
        reranking=_reranking(outcome, dataset, plan),
    )


def _reranking(outcome: Outcome, dataset: Dataset, plan: Plan) -> schema.RerankingStats | None:
    if outcome.combined is None or outcome.combined.reranked is None or outcome.run is None:
        return None
    reranked, timed = outcome.combined.reranked, plan.execution.timing and outcome.combined.reranked.scored > 0
    run = outcome.run
    if dataset.candidates is not None:  # all of them were scored, and the run is cut
        run = ranking.all_candidates(run, dataset.candidates, dataset.queries.ids, dataset.corpus.ids)
    qrels, relevance = dataset.qrels, plan.request.relevance
    return schema.RerankingStats(
        candidates=int(np.diff(run.indptr).max(initial=0)),
        pairs=len(reranked.scores),
        scored=reranked.scored,
        load_seconds=reranked.load_ns / _NS_PER_S if timed else None,
        pairs_per_second=reranked.scored / max(reranked.score_ns / _NS_PER_S, 1e-9) if timed else None,
        upper_bound=rerank_upper_bound(run, qrels, plan.measures, plan.queries, relevance) if qrels is not None else {},
        facts=dict(reranked.facts),
    )


def rerank_upper_bound(
    run: Run, qrels: Qrels, measures: Sequence[Measure], queries: QuerySet, relevance: int
) -> dict[str, float]:
    """Return every nDCG among ``measures`` of the best order of the run's hits, by name.

    That is what no second stage can exceed; empty where nothing is evaluated.
    """
    chosen = [measure for measure in measures if measure.name == _BEST_BY_GRADE]
    if not chosen or not run.hits:
        return {}
    scores = score(best_order(run, qrels), qrels, chosen, queries=queries, relevance=relevance)
    if not len(scores.query_ids):
        return {}
    return {str(summary.measure): summary.value for summary in scores.means()}


def best_order(run: Run, qrels: Qrels) -> Run:
    """Return the same hits, scored by their grades: the highest grade first, what is not judged as grade 0."""
    return run.with_scores(_grades(run, qrels))


def _grades(run: Run, qrels: Qrels) -> Float32Array:
    queries = qrels.query_ids.rows_of(run.query_ids).astype(np.int64)
    documents = qrels.doc_ids.rows_of(run.doc_ids)[run.rows].astype(np.int64)
    query = np.repeat(queries, np.diff(run.indptr))
    width = len(qrels.doc_ids)
    judged = np.repeat(np.arange(len(qrels.query_ids), dtype=np.int64), np.diff(qrels.indptr)) * width + qrels.rows
    order = np.argsort(judged)
    wanted = query * width + documents
    places = order[np.minimum(np.searchsorted(judged, wanted, sorter=order), len(judged) - 1)]
    judged_too = (query >= 0) & (documents >= 0) & (judged[places] == wanted)
    grades: Float32Array = np.where(judged_too, qrels.grades[places], 0).astype(np.float32)
    return grades
