"""What a search works with: the index and the queries of a batch, and the buffers of one thread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.reference.guess import Sample
from harness.reference.maps import ROW_BLOCK, Maps
from harness.reference.postings import Postings, QueryRows, Rule
from harness.types import Float32Array, Float64Array, Int64Array, UInt32Array, UInt64Array

__all__ = ["AT_ONCE", "FOLD", "LANES", "MOST_ROWS", "MOST_TERMS", "Found", "Levels", "Search", "Terms", "Workspace"]

MOST_TERMS, MOST_ROWS = 512, 64
AT_ONCE = 256
"""Postings that are waited for at once."""
LANES, FOLD = 16, 128
"""Every 16th document of a block is in one group, of which only the highest bound is looked at first."""


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
    """Candidates; the buffers have a place more than there are documents (or peaks, where these are more).

    ``keys`` uint64: their rows, which become sort keys; ``sums`` float64: their sums, or the most that these can be;
    ``places`` uint32: places among them. ``postings`` uint64 (256,): postings of some of them.
    """

    keys: UInt64Array
    sums: Float64Array
    places: UInt32Array
    postings: UInt64Array


class Levels(NamedTuple):
    """What impact rows say.

    ``multipliers`` uint16 (64,): what each row counts; ``sums`` uint16 (1024,): what they say of a block of documents.
    ``bounds`` float32 (n, and zeros up to a whole block): the most that each document can reach; ``peaks`` float32 (16
    a block): the highest of every 16th document of a block; ``folded`` uint32 (128,): half way to them.
    """

    multipliers: npt.NDArray[np.uint16]
    sums: npt.NDArray[np.uint16]
    bounds: Float32Array
    peaks: Float32Array
    folded: UInt32Array


class Workspace(NamedTuple):
    """Buffers of one thread: ``sums`` float64 (n,), ``empty`` between queries, and those above."""

    sums: Float64Array
    found: Found
    terms: Terms
    levels: Levels

    @classmethod
    def empty(cls, documents: int, rule: Rule) -> Workspace:
        """Clean buffers for a collection of that size."""
        blocks = -(-documents // ROW_BLOCK)
        most = max(documents, blocks * LANES) + 1
        return cls(
            np.full(documents, rule.empty, dtype=np.uint64).view(np.float64),
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
            ),
            Levels(
                np.empty(MOST_ROWS, np.uint16),
                np.empty(ROW_BLOCK, np.uint16),
                np.zeros(blocks * ROW_BLOCK, np.float32),
                np.empty(blocks * LANES, np.float32),
                np.empty(FOLD, np.uint32),
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
