"""What a search works with: the index and the queries of a batch, and the buffers of one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array, Int64Array, UInt32Array, UInt64Array
from harness.exact.guess import Sample
from harness.exact.levels import CODES
from harness.exact.maps import ROW_BLOCK, Maps
from harness.exact.postings import Postings, QueryRows, Rule

__all__ = ["AT_ONCE", "MOST_ROWS", "MOST_TERMS", "Found", "Levels", "Search", "Terms", "Workspace"]

MOST_TERMS, MOST_ROWS = 512, 64
AT_ONCE = 256
"""Postings that are waited for at once."""


class Terms(NamedTuple):
    """The terms of a query in order: first those that decide, last those that may never be added.

    ``places`` int64 (512,): where the query has each; ``slots`` int64: its map, -1 without one. ``rates`` float64:
    what they are ordered by. ``most`` float64 (513,): the most that this term and all after it can add to a document.
    ``heads`` uint64 (512,): the first posting that is not added yet.
    """

    places: Int64Array
    slots: Int64Array
    rates: Float64Array
    most: Float64Array
    heads: UInt64Array


class Found(NamedTuple):
    """Candidates; the buffers have a place more than there are documents.

    ``keys`` uint64: their rows, which become sort keys; ``sums`` float64: their sums, or the most that these can be;
    ``places`` uint32: places among them. ``postings`` uint64 (256,): postings of some of them.
    """

    keys: UInt64Array
    sums: Float64Array
    places: UInt32Array
    postings: UInt64Array


class Levels(NamedTuple):
    """What impact rows say.

    ``starts`` uint64 (64,): where each row begins. ``tables`` uint8 (64 * 16,): what each code of a row is worth, in
    units. ``sums`` uint8 (1024,): what the rows say of a block of documents.
    """

    starts: UInt64Array
    tables: npt.NDArray[np.uint8]
    sums: npt.NDArray[np.uint8]


class Workspace(NamedTuple):
    """Buffers of one thread: ``sums`` float64 (n,), ``empty`` between queries, and those above.

    The memory of ``sums`` goes on, empty, to the end of a block of documents.
    """

    sums: Float64Array
    found: Found
    terms: Terms
    levels: Levels

    @classmethod
    def empty(cls, documents: int, rule: Rule) -> Workspace:
        """Clean buffers for a collection of that size."""
        most = documents + 1
        padded = np.full(-(-documents // ROW_BLOCK) * ROW_BLOCK, rule.empty, dtype=np.uint64).view(np.float64)
        return cls(
            padded[:documents],
            Found(
                np.empty(most, np.uint64),
                np.empty(most, np.float64),
                np.empty(most, np.uint32),
                np.empty(AT_ONCE, np.uint64),
            ),
            Terms(
                np.empty(MOST_TERMS, np.int64),
                np.empty(MOST_TERMS, np.int64),
                np.empty(MOST_TERMS, np.float64),
                np.empty(MOST_TERMS + 1, np.float64),
                np.empty(MOST_TERMS, np.uint64),
            ),
            Levels(
                np.empty(MOST_ROWS, np.uint64),
                np.empty(MOST_ROWS * CODES, np.uint8),
                np.empty(ROW_BLOCK, np.uint8),
            ),
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
