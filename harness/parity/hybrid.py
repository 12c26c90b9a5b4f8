"""Holds the result of an engine's own hybrid query against the fusion of the exact lists, as Qdrant fuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from harness.data import ranking
from harness.data.types import Run
from harness.errors import EngineFailureError
from harness.exact.qdrant_model import qdrant_normalised
from harness.parity import Oracle, Parity
from harness.parity.fused import Fuse
from harness.parity.lists import EngineLists, compare_fused
from harness.plan.plan import Trial
from harness.rerank import fusion
from harness.worker.jobs import TrialRecord

__all__ = ["fuse_like_qdrant", "hold_hybrid"]


def hold_hybrid(
    trial: Trial,
    run: Run,
    record: TrialRecord,
    oracles: Mapping[str, Oracle],
    candidates: Mapping[str, Sequence[str]] | None = None,
    *,
    k: int,
    tolerance: float,
) -> tuple[Parity, Run]:
    """Parity of a hybrid with the fusion of the exact lists, and that fusion.

    ``oracles`` are those of the lists, by column. Where each query is ranked among ``candidates``, the engine fused
    lists of all documents, and so does its oracle: others are left out of both afterwards. Raises EngineFailureError
    where the engine told none of its lists.
    """
    if record.lists.keys() != oracles.keys():
        raise EngineFailureError(
            f"the adapter told the lists {', '.join(record.lists) or 'none'}, not {', '.join(oracles)}",
            fix="this is a defect of the adapter: it must be a harness.engines.interface.Fusing",
        )
    method, constant = str(trial.parameters["fusion"]), int(trial.parameters["rrf_k"])
    lists = EngineLists(
        actual={name: Run(run.query_ids, run.doc_ids, *hits) for name, hits in record.lists.items()},
        oracles=oracles,
        depth=int(trial.parameters["candidates"]),
        by_rank=method == "rrf",
        as_engine=_among(partial(_in_float32, method, constant), candidates),
        graph=int(record.index.state.get("vectors_in_graph", 0)) > 0,
    )
    fuse = _among(partial(fuse_like_qdrant, method, constant), candidates)
    held = compare_fused(run, lists, method, fuse, k=k, tolerance=tolerance)
    return held.parity, held.exact


def _among(fuse: Fuse, candidates: Mapping[str, Sequence[str]] | None) -> Fuse:
    """The same fusion, of whose hits only candidates are kept before the cut."""
    if candidates is None:
        return fuse

    def fused(runs: Sequence[Run], k: int | None) -> Run:
        kept = ranking.among_candidates(fuse(runs, None), candidates)
        return kept if k is None else ranking.cut(kept, k)

    return fused


def fuse_like_qdrant(method: str, constant: int, runs: Sequence[Run], k: int | None) -> Run:
    """The fusion, cut to ``k`` hits a query (None: not).

    Qdrant's ``rrf`` counts places from 0: with its constant 2 the first one is 1/2, which is 1 / (1 + rank).
    """
    fused = fusion.rrf(runs, k=constant - 1) if method == "rrf" else fusion.dbsf(runs)
    return fused if k is None else ranking.cut(fused, k)


def _in_float32(method: str, constant: int, runs: Sequence[Run], k: int | None) -> Run:
    """The same with Qdrant's arithmetic; sums of ranks are as good in any."""
    if method == "rrf":
        return fuse_like_qdrant(method, constant, runs, k)
    normalised = [run.with_scores(qdrant_normalised(run.indptr, run.scores)) for run in runs]
    fused = fusion.comb_sum(normalised)
    return fused if k is None else ranking.cut(fused, k)
