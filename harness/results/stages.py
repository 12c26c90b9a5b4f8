"""What a backend that is made of others took, as the report tells it."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.plan.plan import Plan
from harness.remote.calls import calls_in_words
from harness.results import schema
from harness.results.ceiling import ceiling
from harness.stats.timing import latency
from harness.worker.outcome import Outcome

__all__ = ["stage_notes", "stage_stats"]

_NS_PER_MS = 1e6
_NS_PER_S = 1e9


def stage_stats(outcome: Outcome, dataset: Dataset, plan: Plan) -> schema.StageStats | None:
    """The stages of one backend, without times unless the plan took them; None for one that is made of no others."""
    combined, timed = outcome.combined, plan.execution.timing
    if combined is None:
        return None
    first, own_ns = (combined.first_ns, combined.own_ns) if timed else (None, None)
    return schema.StageStats(
        method=combined.method,
        of=list(combined.of),
        first_ms=schema.LatencyStats(**asdict(latency(first))) if first is not None and first.size else None,
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
        ceiling=ceiling(run, qrels, plan.measures, plan.queries, relevance) if qrels is not None else {},
        facts=dict(reranked.facts),
    )


def stage_notes(outcome: Outcome, plan: Plan) -> list[str]:
    """What a reader must know of a backend that is made of others, one sentence each."""
    if outcome.combined is None:
        return []
    notes = ["not measured cold or under load: what it is made of was"] if plan.load.wanted else []
    reranked = outcome.combined.reranked
    if reranked is not None and reranked.scored < len(reranked.scores):
        known = len(reranked.scores) - reranked.scored
        notes.append(f"{known:,} of {len(reranked.scores):,} scores were in the cache, so its own time is not told")
    if reranked is not None and "calls" in reranked.facts:
        notes.append(calls_in_words(reranked.facts))
    return notes
