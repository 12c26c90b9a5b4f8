"""One backend's part of the report: what it was, what it did, and how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import numpy.typing as npt

from harness.data.dataset import Dataset
from harness.data.types import Run
from harness.engines.interface import EngineInfo, SearchResult
from harness.metrics import Scores, is_mean
from harness.plan.backend_spec import BackendSpec, spell
from harness.plan.plan import Plan, Trial
from harness.registry.lookup import load_engine
from harness.results import schema
from harness.results.assess import Assessed
from harness.results.differences import metric_losses
from harness.results.external_indexes import external_index_notes, external_index_stats
from harness.results.load import closed_loops, cold_stats, load_notes, open_loops, queries_with_terms
from harness.results.phases import phase_times
from harness.results.spread import rebuild_notes, spread_stats
from harness.results.stages import stage_notes, stage_stats
from harness.results.stored import holds_white_space
from harness.stats import mean_interval
from harness.stats.timing import Latency, latency
from harness.wording import counted
from harness.worker.failure import Failure
from harness.worker.jobs import TrialRecord
from harness.worker.process import Finished
from harness.worker.vectors import Terms, Vectors

__all__ = ["backend_results", "failed_result", "has_terms"]

_NS_PER_S = 1e9
_MISSING_SHOWN = 100
_NAMED = 20
_STRANGERS = 3


def backend_results(assessed: Sequence[Assessed], dataset: Dataset, plan: Plan) -> list[schema.TrialResult]:
    """One result per backend, in the plan's order; without times unless the plan took them."""
    return [_backend_result(one, dataset, plan) for one in assessed]


def _backend_result(one: Assessed, dataset: Dataset, plan: Plan) -> schema.TrialResult:
    outcome, trial = one.outcome, one.outcome.trial
    seed, timed = plan.request.seed, plan.execution.timing
    terms = has_terms(outcome.vectors, len(dataset.queries))
    record = queries_with_terms(outcome.record, terms) if outcome.record is not None else None
    return schema.TrialResult(
        dataset=dataset.name,
        name=trial.spec.name,
        label=trial.label,
        status="failed" if outcome.failure is not None else "ok",
        measured=outcome.measured,
        reused=outcome.reused,
        error=_error(outcome.failure),
        engine=_engine(record.engine) if record is not None else None,
        stages=stage_stats(outcome, dataset, plan),
        encoder=dict(outcome.vectors.facts) if outcome.vectors is not None else {},
        parameters=dict(trial.parameters),
        phases=phase_times(record, outcome.vectors) if timed and record is not None else None,
        index=_index(record, outcome.memory, dataset, timed=timed) if record is not None else None,
        search=_search(record, terms, timed=timed) if record is not None else None,
        cold=cold_stats(record.loads) if record is not None else None,
        closed_loop=closed_loops(record.loads) if record is not None else [],
        open_loop=open_loops(record.loads) if record is not None else [],
        queries=schema.EvaluatedCounts(**one.scores.counts._asdict()) if one.scores is not None else None,
        metrics=_metrics(one.scores, seed),
        parity=_parity(one, seed),
        spread=spread_stats(one, timed=timed),
        deterministic=_deterministic(trial.spec) if outcome.failure is None else None,
        notes=[
            *_notes(one, dataset),
            *(load_notes(record, plan.load) if record is not None else []),
            *stage_notes(outcome, plan),
            *rebuild_notes(outcome, plan),
        ],
    )


def failed_result(trial: Trial, dataset: str, error: schema.ErrorInfo) -> schema.TrialResult:
    """Return the result of a trial that could not run, because its dataset could not be loaded."""
    return schema.TrialResult(
        dataset=dataset,
        name=trial.spec.name,
        label=trial.label,
        status="failed",
        measured=None,
        reused=False,
        error=error,
        engine=None,
        encoder={},
        parameters=dict(trial.parameters),
        phases=None,
        index=None,
        search=None,
        cold=None,
        closed_loop=[],
        open_loop=[],
        queries=None,
        metrics={},
        parity=None,
        notes=[],
    )


def _deterministic(spec: BackendSpec) -> bool | None:
    """Whether every build gives the same rankings, of all that a backend is made of; None where nothing is built."""
    if spec.components:
        parts = [_deterministic(one) for one in spec.components]
        return False if False in parts else next((one for one in parts if one is not None), None)
    if spec.card is None or spec.parameters.get("external", False):
        return None
    return load_engine(spec.card).capabilities.deterministic


def _engine(info: EngineInfo) -> schema.EngineDescription:
    return schema.EngineDescription(name=info.name, version=info.version, mode=info.mode)


def _error(failure: Failure | None) -> schema.ErrorInfo | None:
    if failure is None:
        return None
    return schema.ErrorInfo(type=failure.type, message=failure.message, log=list(failure.log))


def _index(record: TrialRecord, memory: Finished | None, dataset: Dataset, *, timed: bool) -> schema.IndexStats:
    report, held, seconds = record.index, record.external, record.index.index_ns / _NS_PER_S
    built = timed and held is None
    return schema.IndexStats(
        built_by=record.built_by,
        documents_sent=report.sent if held is None else None,
        documents_indexed=report.indexed,
        missing=dataset.corpus.ids.take(report.missing_rows[:_MISSING_SHOWN]),
        missing_count=len(report.missing_rows),
        seconds=seconds if built else None,
        ready_seconds=report.ready_ns / _NS_PER_S if built else None,
        searchable_seconds=(report.index_ns + report.ready_ns) / _NS_PER_S if built else None,
        documents_per_second=_rate(report.indexed, seconds) if built else None,
        bytes=record.storage.index_bytes,
        log_bytes=record.storage.log_bytes,
        peak_rss_bytes=memory.peak_rss_bytes if memory is not None else None,
        peak_anonymous_bytes=memory.peak_anonymous_bytes if memory is not None else None,
        state=dict(report.state),
        external_index=external_index_stats(held) if held is not None else None,
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def has_terms(vectors: Vectors | None, queries: int) -> npt.NDArray[np.bool_]:
    """Which queries have a term that a document has, bool (Q,): all, where there are dense vectors, or none."""
    if vectors is None or vectors.sparse is None or vectors.dense is not None:
        return np.ones(queries, dtype=bool)
    return np.diff(vectors.sparse.queries.indptr) > 0


def _search(record: TrialRecord, terms: npt.NDArray[np.bool_], *, timed: bool) -> schema.SearchStats:
    total_ns = int(record.search_ns.sum() + record.transfer_ns.sum())
    lengths = np.diff(record.hits.indptr)
    measured = timed and record.search_ns.size > 0
    return schema.SearchStats(
        queries=len(terms),
        queries_without_terms=int(np.count_nonzero(~terms)),
        k=record.k,
        repeats=len(record.search_ns),
        concurrency=1,
        milliseconds=_latency(latency(record.search_ns)) if measured else None,
        transfer_ms=_latency(latency(record.transfer_ns)) if measured else None,
        qps=_rate(record.search_ns.size, total_ns / _NS_PER_S) if measured else None,
        first_query_ms=record.first_query_ns / 1e6 if timed and terms[:1].all() else None,
        warm_up_queries=record.warm_up_queries,
        hits=len(record.hits.rows),
        queries_without_hits=int(np.count_nonzero(lengths == 0)),
        repeated_calls=record.hits.repeated_calls,
        queries_per_call=record.hits.queries_per_call,
    )


def _latency(measured: Latency) -> schema.LatencyStats:
    return schema.LatencyStats(**asdict(measured))


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


def _parity(one: Assessed, seed: int) -> schema.ParityStats | None:
    parity = one.parity
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
        loss=metric_losses(one, seed),
    )


def _notes(one: Assessed, dataset: Dataset) -> list[str]:
    notes = list(one.outcome.notes)
    record, vectors = one.outcome.record, one.outcome.vectors
    if record is not None and record.engine.note:
        notes.append(record.engine.note)
    if record is not None and record.built_by is not None:
        notes.append(f"searched the index that '{record.built_by}' built: what is said of building it is of that one")
    if record is not None:
        notes += [*_notes_on_calls(record.hits), *_notes_on_short_lists(record, dataset)]
        notes += [*record.caveats.notes, *_notes_on_parameters(record.caveats.without_effect, one.outcome.trial.spec)]
    if record is not None and record.external is not None:
        card, parameters = one.outcome.trial.spec.card, one.outcome.trial.parameters
        has_reference = card is not None and card.oracle.applies(parameters)
        notes += external_index_notes(record, record.external, dataset, has_reference=has_reference)
    elif record is not None and len(record.index.missing_rows):
        missing = dataset.corpus.ids.take(record.index.missing_rows[:_NAMED])
        held = f"{record.index.indexed:,} of {counted(record.index.sent, 'document')} are in the index"
        notes.append(f"{held}; not there, because they are empty: {', '.join(missing)}")
    if one.scores is not None and len(one.scores.query_ids) == 0:
        notes.append(f"no query could be evaluated, so there are no metrics{_of_grades(dataset)}")
    if vectors is not None:
        notes += vectors.notes
    if vectors is not None and vectors.terms is not None:
        notes += _notes_on_terms(
            vectors, vectors.terms, dataset, external=record is not None and record.external is not None
        )
    run = one.outcome.run
    if run is not None and one.outcome.trial.spec.kind == "run":
        notes += _notes_on_strangers(run, dataset)
    if run is not None and any(holds_white_space(ids) for ids in (run.doc_ids, run.query_ids)):
        notes.append("ids hold white space, which TREC's format cannot: the run is stored as Parquet")
    return notes


def _of_grades(dataset: Dataset) -> str:
    """Return, as the end of a sentence, that no judgment is of a grade above 0; nothing where one is."""
    if dataset.qrels is None or not len(dataset.qrels) or (dataset.qrels.grades > 0).any():
        return ""
    return f": each of the {len(dataset.qrels):,} judgments has grade 0 or less; relevant documents need 1 or more"


def _notes_on_strangers(run: Run, dataset: Dataset) -> list[str]:
    """Documents of somebody's run that the collection lacks: it may be a run of another one."""
    strangers = np.flatnonzero(dataset.corpus.ids.rows_of(run.doc_ids) < 0)
    if not len(strangers):
        return []
    named = ", ".join(run.doc_ids.take(strangers[:_STRANGERS]))
    more = ", …" if len(strangers) > _STRANGERS else ""
    of = f"{len(strangers):,} of its {counted(len(run.doc_ids), 'document')}"
    return [f"{of} are not in the collection ({named}{more}): their hits keep their ranks"]


def _notes_on_terms(vectors: Vectors, terms: Terms, dataset: Dataset, *, external: bool) -> list[str]:
    notes = []
    with_terms = int(np.count_nonzero(terms.counts.lengths))
    if with_terms < len(dataset.corpus) and not external:
        counting = "1 document that has" if with_terms == 1 else f"{with_terms:,} documents that have"
        notes.append(f"N, df and avgdl count the {counting} a term")
    unknown = int(np.count_nonzero(np.diff(terms.counts.queries.indptr) == 0))
    if unknown:
        found = "query has" if unknown == 1 else "queries have"
        so = (
            "and no hits; times and queries/s are without"
            if vectors.dense is None
            else "and hits of dense vectors alone"
        )
        notes.append(f"{unknown} {found} no term that a document has, {so}")
    return notes


def _notes_on_short_lists(record: TrialRecord, dataset: Dataset) -> list[str]:
    """Every dense vector matches every other: a list shorter than k, or than what the filter leaves, is the engine's
    doing. Of candidates another note counts those that were not returned.
    """
    filtered = dataset.filtered
    if dataset.candidates is not None:
        return []
    there = record.index.indexed if filtered is None else min(len(filtered), record.index.indexed)
    asked = min(record.k, there)
    short = int(np.count_nonzero(np.diff(record.hits.indptr) < asked)) if record.input == "dense" else 0
    queries = f"{short:,} of {counted(len(record.hits.indptr) - 1, 'query')}"
    return [f"{queries} got fewer than the {asked:,} hits that they asked for, and nothing was added"] if short else []


def _notes_on_parameters(without_effect: Mapping[str, str], spec: BackendSpec) -> list[str]:
    """Parameters that somebody set to another value than the default, and that changed nothing."""
    defaults = spec.card.defaults if spec.card is not None else {}
    by_reason: dict[str, list[str]] = {}
    for name, value in spec.overrides.items():
        if name in without_effect and value != defaults[name]:
            by_reason.setdefault(without_effect[name], []).append(f"{name}={spell(value)}")
    return [f"{', '.join(named)} had no effect: {reason}" for reason, named in by_reason.items()]


def _notes_on_calls(hits: SearchResult) -> list[str]:
    notes = []
    if (together := hits.queries_per_call) > 1:
        notes.append(
            f"{together} queries were sent in one call: its milliseconds are equal shares of the calls' times, and not "
            "latencies to compare with those of single queries"
        )
    if hits.repeated_calls:
        notes.append(
            f"{hits.repeated_calls} calls of the search failed, and succeeded when they were made again: its "
            "milliseconds include that"
        )
    return notes
