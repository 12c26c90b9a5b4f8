"""What a comparison with an oracle says: levels of agreement, counts, and a row for every query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array

__all__ = ["Level", "Parity", "QueryParity"]

Int8Array = npt.NDArray[np.int8]


class Level(IntEnum):
    """How one query's ranking relates to its oracle's. Each level includes those above it in number."""

    DIFFERENT = 0
    """Some rank holds a document that the oracle scores otherwise, or the number of hits differs."""
    TIE_EQUIVALENT = 1
    """At every rank the oracle's scores of the two documents differ by at most the stated tolerance."""
    IDENTICAL = 2
    """The same documents in the same order."""
    BIT_EQUAL = 3
    """The same documents in the same order, with the same float32 scores, bit for bit."""


@dataclass(frozen=True, eq=False, slots=True)
class QueryParity:
    """One value for every query, in the run's order.

    ``level`` int8 (Q,) of :class:`Level`; ``overlap`` depth -> float64 (Q,); ``rbo`` float64 (Q,);
    ``max_abs_score_diff`` and ``max_rel_score_diff`` float64 (Q,), 0.0 for a query without hits; ``cause`` is None
    where the oracle agrees within the tolerance.
    """

    level: Int8Array
    overlap: Mapping[int, Float64Array]
    rbo: Float64Array
    max_abs_score_diff: Float64Array
    max_rel_score_diff: Float64Array
    cause: tuple[str | None, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Parity:
    """How a run relates to its oracle, over all queries.

    The counts are nested: a bit-equal query is identical, an identical one tie-equivalent;
    ``different = queries - tie_equivalent``. ``tolerance`` is the engine's stated relative tolerance of scores.
    ``overlap`` (depth -> mean) and ``rbo`` (mean, persistence ``rbo_p``) take rankings as they are, ties included, so
    a tie-equivalent run may stay below 1. Score differences compare the engine's score of each of its hits with the
    oracle's score of the same document; the relative one divides by the larger of the two, for dense vectors by the
    largest score that the query could have. Over no queries, means are
    1.0 and differences 0.0.

    ``causes`` counts the queries that are different or whose scores differ by more than the tolerance, by proven
    cause; ``unknown`` is a defect of the harness.
    """

    oracle: str
    mode: str
    tolerance: float
    k: int
    queries: int
    bit_equal: int
    identical: int
    tie_equivalent: int
    different: int
    overlap: Mapping[int, float]
    rbo: float
    rbo_p: float
    max_abs_score_diff: float
    max_rel_score_diff: float
    causes: Mapping[str, int]
    per_query: QueryParity = field(repr=False)
