"""The probe of backends that are made of others: the costs of the others, and the processing of their hits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.types import Qrels, Run
from harness.document.cells import BACKEND, count, milliseconds, number, seconds, text
from harness.document.model import Column, Table
from harness.metrics import Metric, QuerySet, score
from harness.pipeline.probes.probe import Probe, label_cell, latency_stats
from harness.plan.plan import Plan
from harness.results.schema import RerankingStats, StageStats, TrialResult
from harness.results.scored import ScoredTrial
from harness.worker.outcome import Outcome

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_BEST_BY_GRADE = "nDCG"


class CombiningProbe(Probe[None]):
    """Sum up the work of fusions and second stages."""

    name = "combining"
    kinds = frozenset({"fusion", "rerank"})
    fields = frozenset({"stages"})

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return the field ``stages``; without times unless the plan took them."""
        return {"stages": _stages(scored.outcome, dataset, plan)}

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate the components of backends, and the pairs that second stages scored."""
        return [_stage_table(trials), _reranking_table(trials)]


def _stages(outcome: Outcome, dataset: Dataset, plan: Plan) -> StageStats | None:
    """Return the costs of a backend made of others, without times unless the plan took them; else None."""
    combined, timed = outcome.combined, plan.request.timing
    if combined is None:
        return None
    first, stage_ns = (combined.first_ns, combined.stage_ns) if timed else (None, None)
    return StageStats(
        method=combined.method,
        components=list(combined.of),
        components_ms=latency_stats(first) if first is not None else None,
        method_ms=stage_ns / max(len(dataset.queries), 1) / _NS_PER_MS if stage_ns is not None else None,
        reranking=_reranking(outcome, dataset, plan),
    )


def _reranking(outcome: Outcome, dataset: Dataset, plan: Plan) -> RerankingStats | None:
    if outcome.combined is None or outcome.combined.reranked is None or outcome.run is None:
        return None
    reranked, timed = outcome.combined.reranked, plan.request.timing and outcome.combined.reranked.scored > 0
    run = outcome.run
    if dataset.candidates is not None:  # all of them were scored, and the run is cut
        run = ranking.all_candidates(run, dataset.candidates, dataset.queries.ids, dataset.corpus.ids)
    qrels, relevance = dataset.qrels, plan.request.relevance
    return RerankingStats(
        candidates=int(np.diff(run.indptr).max(initial=0)),
        pairs=len(reranked.scores),
        scored=reranked.scored,
        load_seconds=reranked.load_ns / _NS_PER_S if timed else None,
        pairs_per_second=reranked.scored / max(reranked.score_ns / _NS_PER_S, 1e-9) if timed else None,
        upper_bound=rerank_upper_bound(run, qrels, plan.measures, plan.queries, relevance) if qrels is not None else {},
        facts=dict(reranked.facts),
    )


def rerank_upper_bound(
    run: Run, qrels: Qrels, measures: Sequence[Metric], queries: QuerySet, relevance: int
) -> dict[str, float]:
    """Return every nDCG among ``measures`` of the best order of the run's hits, by name.

    No second stage can exceed these values; empty if nothing is evaluated.
    """
    chosen = [measure for measure in measures if measure.name == _BEST_BY_GRADE]
    if not chosen or not run.hits:
        return {}
    scores = score(best_order(run, qrels), qrels, chosen, queries=queries, relevance=relevance, unjudged=True)
    if not len(scores.query_ids):
        return {}
    return {str(summary.measure): summary.value for summary in scores.means()}


def best_order(run: Run, qrels: Qrels) -> Run:
    """Return the same hits, scored by their grades: the highest grade first, unjudged hits as grade 0."""
    queries = qrels.query_ids.rows_of(run.query_ids).astype(np.int64)
    documents = qrels.doc_ids.rows_of(run.doc_ids)[run.rows].astype(np.int64)
    query = np.repeat(queries, np.diff(run.indptr))
    width = len(qrels.doc_ids)
    judged = np.repeat(np.arange(len(qrels.query_ids), dtype=np.int64), np.diff(qrels.indptr)) * width + qrels.rows
    order = np.argsort(judged)
    keys = query * width + documents
    positions = order[np.minimum(np.searchsorted(judged, keys, sorter=order), len(judged) - 1)]
    judged_too = (query >= 0) & (documents >= 0) & (judged[positions] == keys)
    return run.with_scores(np.where(judged_too, qrels.grades[positions], 0).astype(np.float32))


def _stage_table(trials: Sequence[TrialResult]) -> Table:
    """Tabulate backends that are made of others: the costs of the others, and the processing of their hits."""
    columns = [
        BACKEND,
        Column("of", numeric=False),
        *(Column(name, timed=True) for name in ("of these, p50 ms", "p95 ms", "own ms/query")),
    ]
    rows = []
    for trial in trials:
        if trial.stages is not None:
            first = trial.stages.components_ms
            times = (first.p50, first.p95) if first is not None else (None, None)
            cells = map(milliseconds, (*times, trial.stages.method_ms))
            rows.append([label_cell(trial), text(" + ".join(trial.stages.components)), *cells])
    return Table("Made of other backends", columns, rows, detail=True)


def _reranking_table(trials: Sequence[TrialResult]) -> Table:
    """Tabulate second stages: how many pairs they scored, and how fast."""
    columns = [
        BACKEND,
        *map(Column, ("candidates", "pairs", "scored now")),
        Column("pairs/s", timed=True),
        Column("load s", timed=True),
    ]
    rows = []
    for trial in trials:
        stats = trial.stages.reranking if trial.stages is not None else None
        if stats is not None:
            counts = (stats.candidates, stats.pairs, stats.scored)
            cells = [*map(count, counts), number(stats.pairs_per_second, ",.0f"), seconds(stats.load_seconds)]
            rows.append([label_cell(trial), *cells])
    return Table("Second stages", columns, rows, detail=True)
