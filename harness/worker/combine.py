"""Backends that are made of others' hits: what they take, what comes out, and what it cost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.data import ranking
from harness.data.types import Int64Array, Run
from harness.plan.backend_spec import BackendSpec
from harness.plan.stages import parse_weights
from harness.rerank import fusion
from harness.rerank.stage import Reranked
from harness.worker.jobs import TrialRecord

__all__ = ["Combined", "fuse", "fuse_runs", "second_stage", "total_ns"]


@dataclass(frozen=True, eq=False, slots=True)
class Combined:
    """How a run was made of others.

    ``of`` are their labels. ``first_ns`` int64 (repeats, Q) is what they took for each query, all together: they were
    searched one after another; None where one of them was not timed. ``own_ns`` is what was done with their hits, all
    queries together; None where a part of it was done before. ``reranked`` is set for a second stage.
    """

    method: str
    of: tuple[str, ...]
    first_ns: Int64Array | None
    own_ns: int | None
    reranked: Reranked | None = None


def fuse(
    spec: BackendSpec, of: Sequence[str], runs: Sequence[Run], times: Sequence[Int64Array | None], k: int
) -> tuple[Run, Combined]:
    """The fusion that ``spec`` names of ``runs``, cut to ``k`` hits a query.

    ``of`` are the labels of the runs, ``times`` what each took (:func:`total_ns`).
    """
    started = time.perf_counter_ns()
    fused = fuse_runs(spec, runs, k)
    own_ns = time.perf_counter_ns() - started
    return fused, Combined(spec.name, tuple(of), _sum(times), own_ns)


def second_stage(spec: BackendSpec, of: str, reranked: Reranked, first_ns: Int64Array | None) -> Combined:
    """What a reranked backend took: the stage before it, ``of``, and its own."""
    own_ns = reranked.score_ns if reranked.scored == len(reranked.scores) else None
    return Combined(spec.name, (of,), first_ns, own_ns, reranked)


def fuse_runs(spec: BackendSpec, runs: Sequence[Run], k: int | None) -> Run:
    """Return the fusion that ``spec`` names, cut to ``k`` hits a query (None: not).

    Raises as :mod:`harness.rerank.fusion` does.
    """
    weights = parse_weights(str(spec.parameters["weights"]))
    match spec.name:
        case "rrf":
            fused = fusion.rrf(runs, k=float(spec.parameters["k"]), weights=weights)
        case "minmax":
            fused = fusion.min_max(runs, weights=weights)
        case "dbsf":
            fused = fusion.dbsf(runs, weights=weights)
        case other:
            raise AssertionError(f"unknown fusion: {other}")
    return fused if k is None else ranking.cut(fused, k)


def total_ns(record: TrialRecord | None, combined: Combined | None) -> Int64Array | None:
    """What a backend took for each query, int64 (repeats, Q): search and transfer, or what it is made of and its own.

    What a combination did with all queries together is shared equally among them. None for a run that was read, what
    is made of one, and a second stage that found scores in the cache.
    """
    if record is not None:
        taken: Int64Array = record.search_ns + record.transfer_ns
        return taken
    if combined is None or combined.first_ns is None or combined.own_ns is None:
        return None
    total: Int64Array = combined.first_ns + combined.own_ns // max(combined.first_ns.shape[1], 1)
    return total


def _sum(times: Sequence[Int64Array | None]) -> Int64Array | None:
    """Query by query, over the passes that all have; None where one is missing."""
    known = [one for one in times if one is not None]
    if len(known) < len(times):
        return None
    passes = min(len(one) for one in known)
    total: Int64Array = np.stack([one[:passes] for one in known]).sum(axis=0)
    return total
