"""Parity of an engine that fuses several ranked lists itself, and lets each of them be asked for.

Its oracle is the fusion of the exact lists. Each of the engine's own lists is held against the exact one too, and gets
the cause of its difference there. A cause of the result is then proven by fusing anew, with the engine's own lists in
place of the exact ones where they differ by that cause alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from harness.data.types import Run
from harness.parity.case import Case, Hypothesis, Rescored, plain
from harness.parity.compare import UNKNOWN, compare_run
from harness.parity.fused import Fuse, FusedOracle, Part
from harness.parity.oracles import Oracle
from harness.parity.result import Parity

__all__ = ["FLOAT32_FUSION", "WITHIN_LISTS", "EngineLists", "FusedParity", "compare_fused"]

_Flags = npt.NDArray[np.bool_]

FLOAT32_FUSION = "float32 fusion"
"""The cause where that holds, and the fusion rounds each step besides."""
WITHIN_LISTS = "ties and rounding in the lists"
"""The cause of a difference where every list is the exact one up to equal scores and the stated tolerance."""


@dataclass(frozen=True, eq=False, slots=True)
class EngineLists:
    """What an engine fuses: the ``actual`` lists and their ``oracles``, by the same names; ``depth`` hits of each.

    ``by_rank`` says that the fusion takes places and no scores: equal scores then count in the engine's own order.
    ``as_engine`` fuses as the engine does, to the bit where that is known.
    """

    actual: Mapping[str, Run]
    oracles: Mapping[str, Oracle]
    depth: int
    by_rank: bool
    as_engine: Fuse
    graph: bool = False


def compare_fused(run: Run, lists: EngineLists, mode: str, fuse: Fuse, *, k: int, tolerance: float) -> FusedParity:
    """Compare an engine's ``run``, asked for ``k`` hits, with the fusion of the exact lists.

    ``tolerance`` is that of the lists and of the result alike. Raises as :func:`harness.parity.compare_run` does.
    """
    parts = tuple(
        Part(name, lists.oracles[name].retrieve(lists.depth), _by_rank(actual) if lists.by_rank else actual)
        for name, actual in lists.actual.items()
    )
    oracle = FusedOracle(mode, parts, fuse)
    hypotheses = tuple(_causes_in_lists(lists, parts, tolerance))
    return FusedParity(compare_run(run, oracle, k=k, tolerance=tolerance, hypotheses=hypotheses), oracle.retrieve(k))


@dataclass(frozen=True, eq=False, slots=True)
class FusedParity:
    """How an engine's fusion relates to its oracle, and the oracle's own run."""

    parity: Parity
    exact: Run


@dataclass(frozen=True, eq=False, slots=True)
class _OwnLists:
    """A cause that lies in the lists: with the engine's own hits, where ``own`` says so, the fusion is what it is."""

    name: str
    meaning: str
    parts: tuple[Part, ...]
    own: tuple[_Flags, ...]
    fuse: Fuse | None = None

    def rescore(self, case: Case) -> Rescored | None:
        """The case against the fusion of these lists."""
        if not isinstance(case.oracle, FusedOracle):
            return None
        rows = self.parts[0].exact.query_ids.rows_of(case.run.query_ids)
        taken = tuple(
            part._replace(
                exact=_either(part.actual, part.exact, own).of_queries(rows), actual=part.actual.of_queries(rows)
            )
            for part, own in zip(self.parts, self.own, strict=True)
        )
        return plain(case, case.run, replace(case.oracle, parts=taken, fuse=self.fuse or case.oracle.fuse))


def _causes_in_lists(lists: EngineLists, parts: tuple[Part, ...], tolerance: float) -> Iterator[Hypothesis]:
    """Why the fusion may differ: ties and rounding, then each cause of each list, then several at once."""
    fuse = lists.as_engine
    causes = {name: _causes_of(lists, name, tolerance) for name in lists.actual}
    same = tuple(_flags(cause is None for cause in found) for found in causes.values())
    meaning = "the lists are the exact ones up to equal scores and rounding, whose order and bits the fusion shows"
    yield _OwnLists(WITHIN_LISTS, meaning, parts, same)
    yield _OwnLists(FLOAT32_FUSION, f"{meaning}, and the engine fuses them in float32", parts, same, fuse)
    for place, (name, found) in enumerate(causes.items()):
        for cause in sorted({cause for cause in found if cause is not None} - {UNKNOWN}):
            own = list(same)
            own[place] = same[place] | _flags(one == cause for one in found)
            yield _OwnLists(f"{cause} in the {name} list", f"in the {name} list: {cause}", parts, tuple(own), fuse)
    known = tuple(_flags(cause != UNKNOWN for cause in found) for found in causes.values())
    yield _OwnLists("causes in several lists", "more than one list differs from the exact one", parts, known, fuse)


def _flags(values: Iterable[bool]) -> _Flags:
    return np.array(list(values), dtype=np.bool_)


def _causes_of(lists: EngineLists, name: str, tolerance: float) -> Sequence[str | None]:
    actual, oracle = lists.actual[name], lists.oracles[name]
    return compare_run(actual, oracle, k=lists.depth, tolerance=tolerance, graph=lists.graph).per_query.cause


def _by_rank(run: Run) -> Run:
    """The same hits, with scores that fall by one from hit to hit: equal scores keep the order that they have."""
    places = np.arange(run.hits) - np.repeat(run.indptr[:-1], np.diff(run.indptr))
    return run.with_scores((-places).astype(np.float32))


def _either(one: Run, other: Run, first: _Flags) -> Run:
    """For each query the hits of ``one`` where ``first`` says so, else those of ``other``."""
    lengths = np.where(first, np.diff(one.indptr), np.diff(other.indptr))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    starts = np.where(first, one.indptr[:-1], other.indptr[:-1] + one.hits)
    places = np.repeat(starts - indptr[:-1], lengths) + np.arange(indptr[-1])
    rows, scores = np.concatenate([one.rows, other.rows]), np.concatenate([one.scores, other.scores])
    return Run(one.query_ids, one.doc_ids, indptr, rows[places], scores[places])
