"""What a search works with: the index and the queries of a batch, and the buffers of one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.reference.guess import Sample
from harness.reference.maps import BLOCK, Maps
from harness.reference.postings import Postings, QueryRows, Rule
from harness.types import Float64Array, Int64Array, UInt32Array, UInt64Array

__all__ = ["MOST_ROWS", "MOST_TERMS", "Found", "Levels", "Search", "Terms", "Workspace"]

MOST_TERMS, MOST_ROWS = 512, 64


class Terms(NamedTuple):
    """The terms of a query in order: first those that decide, last those that may never be added.

    ``places`` int64 (512,): where the query has each; ``slots`` int64: its map, -1 without one. ``rates`` float64:
    what they are ordered by. ``most`` float64 (513,): the most that this term and all after it can add to a document.
    """

    places: Int64Array
    slots: Int64Array
    rates: Float64Array
    most: Float64Array


class Found(NamedTuple):
    """Candidates, each buffer of shape (n + 1,).

    ``keys`` uint64: their rows, which become sort keys; ``sums`` float64: their sums, or the most that these can be;
    ``places`` uint32: places among them.
    """

    keys: UInt64Array
    sums: Float64Array
    places: UInt32Array


class Levels(NamedTuple):
    """What each impact row counts, uint16 (64,), and the bounds of the block of documents at hand, uint16 (256,)."""

    multipliers: npt.NDArray[np.uint16]
    sums: npt.NDArray[np.uint16]


class Workspace(NamedTuple):
    """Buffers of one thread: ``sums`` float64 (n,), ``empty`` between queries, and those above."""

    sums: Float64Array
    found: Found
    terms: Terms
    levels: Levels

    @classmethod
    def empty(cls, documents: int, rule: Rule) -> Workspace:
        """Clean buffers for a collection of that size."""
        most = documents + 1
        return cls(
            np.full(documents, rule.empty, dtype=np.uint64).view(np.float64),
            Found(np.empty(most, np.uint64), np.empty(most, np.float64), np.empty(most, np.uint32)),
            Terms(
                np.empty(MOST_TERMS, np.int64),
                np.empty(MOST_TERMS, np.int64),
                np.empty(MOST_TERMS, np.float64),
                np.empty(MOST_TERMS + 1, np.float64),
            ),
            Levels(np.empty(MOST_ROWS, np.uint16), np.empty(BLOCK, np.uint16)),
        )


class Search(NamedTuple):
    """All that stays the same while the queries of a batch are searched for the best ``width`` documents of each."""

    postings: Postings
    maps: Maps
    queries: QueryRows
    rule: Rule
    sample: Sample
    width: np.uint64
    sums: Float64Array
    found: Found
    terms: Terms
    levels: Levels
