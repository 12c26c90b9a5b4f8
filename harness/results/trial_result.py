"""Make the stored result of a trial: configuration, measurements, scores, and notes for the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Protocol, cast

import numpy as np
from pydantic import JsonValue

from harness.data.dataset import Dataset
from harness.data.types import Ids, Run, TermCounts
from harness.engines.interface import SearchResult
from harness.exact.bm25_models import Bm25Formula, formula_of
from harness.metrics import Scores, is_mean
from harness.plan.backend_spec import BackendSpec, spell
from harness.plan.plan import Plan, Trial
from harness.registry.lookup import load_engine
from harness.remote.calls import calls_in_words
from harness.results import schema, schema_base, schema_costs
from harness.results.differences import metric_losses
from harness.results.scored import QrelsOf, ScoredTrial
from harness.results.truncation import truncation_stats
from harness.stats import mean_interval
from harness.store.cpu_use import OtherProcesses
from harness.wording import counted
from harness.worker.jobs import ExternalIndexRecord, TrialRecord
from harness.worker.outcome import CombinedRuns, Measurements, Outcome, external_matching
from harness.worker.vectors import Terms, Vectors

SEARCH = "search"
"""The phase of searching with one client."""
_MAX_NAMES = 20
_STRANGERS = 3


class Summary(Protocol):
    """A part of a trial's result that another module makes: a probe, of its measurements."""

    def summaries(self, scored: Sequence[ScoredTrial], dataset: Dataset, plan: Plan) -> Sequence[Mapping[str, object]]:
        """Return fields of each trial's result by name, and further content for ``probes``."""

    def notes(self, scored: ScoredTrial, plan: Plan) -> list[str]:
        """Return what a reader must know of it, one sentence each."""

    def other_processes(self, measurements: Measurements) -> Sequence[OtherProcesses]:
        """Return the other processes' use of the cores while it was measured, by phase."""


def trial_results(
    scored: Sequence[ScoredTrial],
    dataset: Dataset,
    plan: Plan,
    summaries: Sequence[Summary],
    judge: QrelsOf | None = None,
) -> list[schema.TrialResult]:
    """Return one result per backend, in the plan's order.

    ``judge`` returns the judgments of a run, None for the dataset's; it is a check's, which adds the metrics itself.
    """
    made = [summary.summaries(scored, dataset, plan) for summary in summaries]
    parts = [
        {name: value for of_summary in made for name, value in of_summary[position].items()}
        for position in range(len(scored))
    ]
    results: dict[str, schema.TrialResult] = {}
    for backend, of_backend in zip(scored, parts, strict=True):
        result = _trial_result(
            backend, of_backend, dataset, plan, summaries, scores=backend.scores if judge is None else None
        )
        changes, vectors, run = dict[str, object](), backend.outcome.vectors, backend.outcome.run
        if backend.outcome.combined is not None or (vectors is not None and vectors.texts):
            qrels = dataset.qrels if judge is None or run is None else judge(run)
            changes["truncation"] = truncation_stats(backend.outcome, dataset, qrels, plan.request.relevance)
        if result.stages is not None:  # its times include its components', which come before it
            components = [results[label] for label in result.stages.components if label in results]
            changes["other_processes"] = [
                phase for part in components for phase in part.other_processes if phase.phase == SEARCH
            ]
        results[result.label] = result.model_copy(update=changes)
    return list(results.values())


def _trial_result(
    scored: ScoredTrial,
    parts: Mapping[str, object],
    dataset: Dataset,
    plan: Plan,
    summaries: Sequence[Summary],
    scores: Scores | None,
) -> schema.TrialResult:
    """Return the result of a trial, with metrics of its ``scores``."""
    outcome, trial, seed = scored.outcome, scored.outcome.trial, plan.request.seed
    field_names = schema.TrialResult.model_fields
    engine = outcome.record.engine if outcome.record is not None else None
    result = schema.TrialResult(
        dataset=dataset.name,
        name=trial.spec.name,
        label=trial.label,
        status="failed" if outcome.failure is not None else "ok",
        measured_at=outcome.measured,
        reused=outcome.reused,
        error=schema_base.ErrorInfo.model_validate(outcome.failure, from_attributes=True) if outcome.failure else None,
        engine=schema_base.EngineDescription(name=engine.name, version=engine.version, mode=engine.mode)
        if engine is not None
        else None,
        encoder=dict(outcome.vectors.facts) if outcome.vectors is not None else {},
        parameters=dict(trial.parameters),
        queries=schema_base.EvaluatedCounts(**scored.scores.counts._asdict()) if scored.scores is not None else None,
        metrics=_metrics(scores, seed) if scores is not None else {},
        parity=_parity(scored, seed),
        deterministic=_deterministic(trial.spec) if outcome.failure is None else None,
        other_processes=_other_processes(outcome, summaries) if plan.request.timing else [],
        probes={name: cast("JsonValue", value) for name, value in parts.items() if name not in field_names},
        notes=[
            *_notes_on_trial(scored, dataset),
            *(_notes_on_stages(outcome.combined) if outcome.combined is not None else ()),
            *(note for summary in summaries for note in summary.notes(scored, plan)),
        ],
    )
    return result.model_copy(update={name: value for name, value in parts.items() if name in field_names})


def _other_processes(outcome: Outcome, summaries: Sequence[Summary]) -> list[schema_costs.OtherProcessesInfo]:
    """Return the other processes' use of the cores during each phase of a trial."""
    of_trial = outcome.record.other_processes if outcome.record is not None else ()
    of_calls = outcome.answers.other_processes if outcome.answers is not None else None
    phases = [*of_trial, *([of_calls] if of_calls is not None else [])]
    if outcome.measurements:
        phases += [phase for summary in summaries for phase in summary.other_processes(outcome.measurements)]
    return [schema_costs.OtherProcessesInfo(**asdict(phase), busy=phase.busy) for phase in phases]


def failed_result(trial: Trial, dataset: str, error: schema_base.ErrorInfo) -> schema.TrialResult:
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
    """Return whether every build of a backend and its parts gives the same rankings; None if nothing is built."""
    if spec.components:
        parts = [_deterministic(component) for component in spec.components]
        return False if False in parts else next((part for part in parts if part is not None), None)
    if spec.card is None or spec.parameters.get("external", False):
        return None
    return load_engine(spec.card).capabilities.deterministic


def _metrics(scores: Scores, seed: int) -> dict[str, schema_base.MetricValue]:
    if not len(scores.query_ids):
        return {}
    values, if_relevant = {}, scores.means_if_relevant() if scores.if_relevant is not None else {}
    several = len(scores.query_ids) > 1  # a single value has no interval
    for column, summary in enumerate(scores.means()):
        has_interval = several and is_mean(summary.measure)
        interval = mean_interval(scores.values[:, column], seed) if has_interval else None
        values[str(summary.measure)] = schema_base.MetricValue(
            metric=str(summary.measure),
            mean=summary.value,
            min=None if np.isnan(summary.low) else summary.low,
            max=None if np.isnan(summary.high) else summary.high,
            ci_low=interval.low if interval is not None else None,
            ci_high=interval.high if interval is not None else None,
            n=len(scores.query_ids),
            if_unjudged_relevant=if_relevant.get(summary.measure),
            **(scores.human_mean(column)._asdict() if scores.human is not None else {}),
        )
    return values


def _parity(scored: ScoredTrial, seed: int) -> schema_base.ParityStats | None:
    parity = scored.parity
    if parity is None:
        return None
    names = schema_base.ParityStats.model_fields.keys() - {"overlap", "causes", "loss"}
    return schema_base.ParityStats(
        **{name: getattr(parity, name) for name in names},
        overlap={str(depth): share for depth, share in parity.overlap.items()},
        causes=dict(parity.causes),
        loss=metric_losses(scored, seed) if scored.exact is not None else {},
    )


def _notes_on_trial(scored: ScoredTrial, dataset: Dataset) -> list[str]:
    outcome, record, vectors, run = scored.outcome, scored.outcome.record, scored.outcome.vectors, scored.outcome.run
    notes = list(outcome.notes)
    if record is not None:
        notes += _notes_on_record(record, outcome.trial, dataset)
    if scored.scores is not None and len(scored.scores.query_ids) == 0:
        notes.append(f"no query could be evaluated, so there are no metrics{_grades_text(dataset)}")
    if vectors is not None:
        notes += vectors.notes
    if vectors is not None and vectors.terms is not None:
        external = record is not None and record.external is not None
        notes += _notes_on_terms(vectors, vectors.terms, outcome.trial, external=external)
    if run is not None and outcome.trial.spec.kind in ("run", "callable"):
        notes += _notes_on_strangers(run, dataset)
    if run is not None and (run.doc_ids.hold_white_space or run.query_ids.hold_white_space):
        notes.append("ids hold white space, which TREC's format cannot: the run is stored as Parquet")
    return notes


def _notes_on_record(record: TrialRecord, trial: Trial, dataset: Dataset) -> list[str]:
    notes = [record.engine.note] if record.engine.note else []
    if record.built_by is not None:
        notes.append(f"searched the index that '{record.built_by}' built: indexing figures are from that build")
    if record.hits.repeated_calls or record.hits.queries_per_call > 1:
        notes += _notes_on_calls(record.hits)
    if record.input == "dense":
        notes += [*_notes_on_unmatched_filters(record, dataset), *_notes_on_short_lists(record, dataset)]
    notes += record.caveats.notes
    if record.caveats.without_effect:
        notes += _notes_on_parameters(record.caveats.without_effect, trial.spec)
    if record.external is not None:
        card = trial.spec.card
        has_reference = card is not None and card.reference.applies(trial.parameters)
        notes += _notes_on_external_index(record, record.external, dataset, has_reference=has_reference)
    elif len(record.index.missing_rows):
        missing = dataset.corpus.ids.take(record.index.missing_rows[:_MAX_NAMES])
        indexed = f"{record.index.indexed:,} of {counted(record.index.sent, 'document')} are in the index"
        notes.append(f"{indexed}; not there, because they are empty: {', '.join(missing)}")
    return notes


def _grades_text(dataset: Dataset) -> str:
    """Return, as the end of a sentence, that no judgment has a grade above 0; nothing if a judgment has."""
    if dataset.qrels is None or not len(dataset.qrels) or (dataset.qrels.grades > 0).any():
        return ""
    return f": each of the {len(dataset.qrels):,} judgments has grade 0 or less; relevant documents need 1 or more"


def _notes_on_strangers(run: Run, dataset: Dataset) -> list[str]:
    """Name documents of a user's run that the dataset lacks: it may be a run of another dataset."""
    hit_ids = run.doc_ids.take(np.unique(run.rows))
    strangers = np.flatnonzero(dataset.corpus.ids.rows_of(Ids.of(hit_ids)) < 0)
    if not len(strangers):
        return []
    examples = ", ".join(hit_ids[row] for row in strangers[:_STRANGERS])
    more = ", …" if len(strangers) > _STRANGERS else ""
    of = f"{len(strangers):,} of its {counted(len(hit_ids), 'document')}"
    return [f"{of} are not in the dataset ({examples}{more}): their hits keep their ranks"]


def _notes_on_statistics(counts: TermCounts, trial: Trial) -> list[str]:
    """Count the documents in the statistics of BM25, if documents without terms are left out of them."""
    card = trial.spec.card
    if card is not None and card.reference.scoring is not None:
        formula = formula_of(card.reference.scoring, trial.parameters)
        if not isinstance(formula, Bm25Formula) or formula.all_documents:
            return []
    names = [field.name for field in trial.fields] if counts.field_weights is not None else [""]
    with_terms = np.count_nonzero(counts.field_lengths(), axis=0).tolist()
    return [
        f"N, df and avgdl{f' of {name}' if name else ''} count the "
        f"{counted(count, 'document with a term', 'documents with a term')}"
        for name, count in zip(names, with_terms, strict=True)
        if count < len(counts.documents)
    ]


def _notes_on_terms(vectors: Vectors, terms: Terms, trial: Trial, *, external: bool) -> list[str]:
    notes, counts = list[str](), terms.counts
    if not external and (counts.field_weights is not None or not counts.lengths.all()):
        notes += _notes_on_statistics(counts, trial)
    unknown = int(np.count_nonzero(np.diff(counts.queries.indptr) == 0))
    if unknown:
        so = "no hits, and no part in times and queries/s" if vectors.dense is None else "hits of only dense vectors"
        queries = counted(unknown, "query without a known term has", "queries without a known term have")
        notes.append(f"{queries} {so}")
    return notes


def _notes_on_short_lists(record: TrialRecord, dataset: Dataset) -> list[str]:
    """Count lists shorter than k, or than the number of documents that the filter of the query leaves.

    Every dense vector matches every other, so short lists are the engine's doing. For candidates, another note counts
    those that were not returned.
    """
    filtered = dataset.filtered
    if dataset.candidates is not None:
        return []
    searchable = min(record.k, record.index.indexed)
    matching = (external_matching(record, filtered) or filtered.matching) if filtered is not None else None
    expected_hits = np.minimum(matching.counts, searchable) if matching is not None else searchable
    short = int(np.count_nonzero(np.diff(record.hits.indptr) < expected_hits))
    if not short:
        return []
    queries = f"{short:,} of {counted(len(record.hits.indptr) - 1, 'query')}"
    if np.ndim(expected_hits) and np.ptp(expected_hits):
        return [f"{queries} got fewer hits than documents match their filter, and nothing was added"]
    return [f"{queries} got fewer than the {np.max(expected_hits):,} requested hits, and nothing was added"]


def _notes_on_unmatched_filters(record: TrialRecord, dataset: Dataset) -> list[str]:
    """Name the first query whose filter no document of an external index matches, and why; ``check`` names each."""
    external, filtered = record.external, dataset.filtered
    if external is None or filtered is None or not len(dataset.corpus):
        return []
    queries = [query for query, group in enumerate(filtered.group_of.tolist()) if external.unmatched[group]]
    if not queries:
        return []
    first = queries[0]
    problem = external.unmatched[int(filtered.group_of[first])]
    have = counted(len(queries), "query has a filter", "queries have filters")
    return [f"{have} that no document of the index matches: query '{dataset.queries.ids[first]}': {problem}"]


def _notes_on_parameters(without_effect: Mapping[str, str], spec: BackendSpec) -> list[str]:
    """Name parameters that the user set to another value than the default, and that changed nothing."""
    defaults = spec.card.defaults if spec.card is not None else {}
    by_reason: dict[str, list[str]] = {}
    for name, value in spec.overrides.items():
        if name in without_effect and value != defaults[name]:
            by_reason.setdefault(without_effect[name], []).append(f"{name}={spell(value)}")
    return [f"{', '.join(parameter_names)} had no effect: {reason}" for reason, parameter_names in by_reason.items()]


def _notes_on_calls(hits: SearchResult) -> list[str]:
    notes = []
    if hits.queries_per_call > 1:
        notes.append(
            f"{hits.queries_per_call} queries were sent in one call: milliseconds are equal shares of its time, "
            "not latencies to compare with those of single queries"
        )
    if hits.repeated_calls:
        notes.append(
            f"{hits.repeated_calls} search calls failed and succeeded when repeated: milliseconds include that"
        )
    return notes


def _notes_on_external_index(
    record: TrialRecord, external: ExternalIndexRecord, dataset: Dataset, *, has_reference: bool
) -> list[str]:
    """Say which documents differ, that nothing was changed, and why there is no parity.

    ``has_reference`` is False if the backend would have no reference with an index of its own either.
    """
    strangers = np.flatnonzero(external.rows < 0)
    notes = [f"an external index of {len(external.rows):,} documents, searched as it is"]
    if external.files is not None and external.file_bytes is not None:
        size = f"{counted(external.files, 'file')} ({external.file_bytes:,} bytes)"
        notes.append(f"its {size} had the same SHA-256 before and after")
    if not len(dataset.corpus):
        if external.no_reference is not None:
            return [*notes, f"not compared with a reference: {external.no_reference}"]
        return [*notes, "compared with exact search of the vectors that it returns: there is no dataset to encode"]
    if len(strangers):
        ids_text = _join_ids(external.ids.take(strangers[:_MAX_NAMES]), len(strangers))
        notes.append(f"{len(strangers):,} of its documents are not in the dataset: {ids_text}")
    absent = record.index.missing_rows
    if len(absent):
        empty = set(dataset.corpus.empty_rows.tolist())
        because = ", because they are empty" if set(absent.tolist()) <= empty else ""
        ids_text = _join_ids(dataset.corpus.ids.take(absent[:_MAX_NAMES]), len(absent))
        notes.append(f"{len(absent):,} documents of the dataset are not in it{because}: {ids_text}")
    if has_reference and external.no_reference is not None:
        notes.append(f"not compared with a reference: {external.no_reference}")
    return notes


def _join_ids(ids: list[str], count: int) -> str:
    more = f" and {count - len(ids):,} more" if count > len(ids) else ""
    return ", ".join(ids) + more


def _notes_on_stages(combined: CombinedRuns) -> list[str]:
    notes, reranked = list[str](), combined.reranked
    if reranked is not None and reranked.scored < len(reranked.scores):
        from_cache = len(reranked.scores) - reranked.scored
        notes.append(
            f"{from_cache:,} of {len(reranked.scores):,} scores were in the cache, so its own time is not told"
        )
    if reranked is not None and "calls" in reranked.facts:
        notes.append(calls_in_words(reranked.facts))
    return notes
