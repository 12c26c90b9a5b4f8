"""Parity of an engine that fuses several ranked lists itself, and returns each of them on request.

Its reference is the fusion of the exact lists. Each of the engine's own lists is compared with the exact one too, and
gets the cause of its difference there. A cause of the result is then proven by fusing the engine's own lists in place
of the exact ones where they differ by that cause alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from harness.data import ranking
from harness.data.types import Run
from harness.errors import EngineFailureError
from harness.exact.qdrant_model import qdrant_normalised
from harness.parity.causes import causes_in_lists
from harness.parity.levels import Parity
from harness.parity.references import Fuse, FusedReference, Part, Reference
from harness.parity.run_comparison import compare_run
from harness.plan.plan import Trial
from harness.rerank import fusion
from harness.worker.jobs import TrialRecord

__all__ = ["EngineLists", "FusedParity", "compare_fused", "compare_hybrid", "fuse_like_qdrant"]


@dataclass(frozen=True, eq=False, slots=True)
class EngineLists:
    """The lists that an engine fuses: the ``actual`` ones and their ``references``, by name; ``depth`` hits of each.

    ``by_rank`` says that the fusion takes ranks and no scores: equal scores then count in the engine's own order.
    ``as_engine`` fuses as the engine does, to the bit where that is known.
    """

    actual: Mapping[str, Run]
    references: Mapping[str, Reference]
    depth: int
    by_rank: bool
    as_engine: Fuse
    approximate: bool = False


class FusedParity(NamedTuple):
    """How an engine's fusion relates to its reference, and the ``exact`` run of that."""

    parity: Parity
    exact: Run


def compare_hybrid(
    trial: Trial,
    run: Run,
    record: TrialRecord,
    references: Mapping[str, Reference],
    candidates: Mapping[str, Sequence[str]] | None = None,
    *,
    k: int,
    tolerance: float,
) -> FusedParity:
    """Compare the result of an engine's hybrid query with the fusion of the exact lists, as Qdrant fuses.

    ``references`` are those of the lists, by column. Where each query is ranked among ``candidates``, the engine fused
    lists of all documents, and so does the reference: both drop other documents afterwards.

    Raises:
        EngineFailureError: The engine did not return its lists.
    """
    if record.lists.keys() != references.keys():
        raise EngineFailureError(
            f"the engine told the lists {', '.join(record.lists) or 'none'}, not {', '.join(references)}",
            fix="this is a defect of the engine: it must be a harness.engines.interface.Fusing",
        )
    method, constant = str(trial.parameters["fusion"]), int(trial.parameters["rrf_k"])
    lists = EngineLists(
        actual={name: Run(run.query_ids, run.doc_ids, *hits) for name, hits in record.lists.items()},
        references=references,
        depth=int(trial.parameters["candidates"]),
        by_rank=method == "rrf",
        as_engine=_among(partial(_fuse_in_float32, method, constant), candidates),
        approximate=record.index.approximate,
    )
    fuse = _among(partial(fuse_like_qdrant, method, constant), candidates)
    return compare_fused(run, lists, method, fuse, k=k, tolerance=tolerance)


def compare_fused(run: Run, lists: EngineLists, mode: str, fuse: Fuse, *, k: int, tolerance: float) -> FusedParity:
    """Compare an engine's ``run`` of ``k`` hits with the fusion of the exact lists.

    ``tolerance`` is that of the lists and of the result alike. Raises as :func:`harness.parity.compare_run` does.
    """
    parts: list[Part] = []
    causes: dict[str, Sequence[str | None]] = {}
    for name, actual in lists.actual.items():
        reference = lists.references[name]
        parity = compare_run(actual, reference, k=lists.depth, tolerance=tolerance, approximate=lists.approximate)
        causes[name] = parity.per_query.cause
        exact = reference.retrieve(lists.depth)
        parts.append(Part(name, exact, _scored_by_rank(actual) if lists.by_rank else actual))
    fused = FusedReference(mode, tuple(parts), fuse)
    hypotheses = tuple(causes_in_lists(parts, causes, lists.as_engine))
    return FusedParity(compare_run(run, fused, k=k, tolerance=tolerance, hypotheses=hypotheses), fused.retrieve(k))


def _scored_by_rank(run: Run) -> Run:
    """Return the same hits with scores that fall by one from hit to hit: equal scores keep their order."""
    places = np.arange(run.hits) - np.repeat(run.indptr[:-1], np.diff(run.indptr))
    return run.with_scores((-places).astype(np.float32))


def _among(fuse: Fuse, candidates: Mapping[str, Sequence[str]] | None) -> Fuse:
    """Return a fusion that drops all hits but the candidates before the cut."""
    if candidates is None:
        return fuse

    def fuse_candidates(runs: Sequence[Run], k: int | None) -> Run:
        return _cut(ranking.among_candidates(fuse(runs, None), candidates), k)

    return fuse_candidates


def fuse_like_qdrant(method: str, constant: int, runs: Sequence[Run], k: int | None) -> Run:
    """Fuse as Qdrant does, cut to ``k`` hits a query (None: not).

    Qdrant's ``rrf`` counts places from 0: with its constant 2 the first one is 1/2, which is 1 / (1 + rank).
    """
    return _cut(fusion.rrf(runs, k=constant - 1) if method == "rrf" else fusion.dbsf(runs), k)


def _fuse_in_float32(method: str, constant: int, runs: Sequence[Run], k: int | None) -> Run:
    """Fuse with Qdrant's arithmetic; sums of ranks are the same in any."""
    if method == "rrf":
        return fuse_like_qdrant(method, constant, runs, k)
    normalised = [run.with_scores(qdrant_normalised(run.indptr, run.scores)) for run in runs]
    return _cut(fusion.comb_sum(normalised), k)


def _cut(run: Run, k: int | None) -> Run:
    return run if k is None else ranking.cut(run, k)
