"""Guessing which score the k-th best document has, from a sample of the sums.

A guess is only a guess: whoever uses it counts the documents that reach it, and starts again without one when they are
fewer than wanted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.data.jit import inline_kernel
from harness.data.ranking import unpack_score
from harness.data.types import UInt64Array
from harness.exact.selection import nth_largest

__all__ = ["Sample", "lowest_reaching", "rank_for", "threshold_of"]

_LARGE_COLLECTION = 131_072
_STEP, _LARGE_STEP = 32, 128
_ONE = np.uint64(1)


class Sample(NamedTuple):
    """One sum in ``step`` is looked at; the ``rank``-th best of them is the guess (0: never guess).

    ``touched_rank`` is the same for a sample of a query's postings; 0: by the size of that sample.
    """

    step: int
    rank: int
    touched_rank: int

    @classmethod
    def of(cls, wanted: int, documents: int) -> Sample:
        """For the best ``wanted`` of ``documents``."""
        step = _STEP if documents < _LARGE_COLLECTION else _LARGE_STEP
        return cls(step, rank_for(wanted / step), 0)

    @classmethod
    def never(cls) -> Sample:
        """No guess: every hit is collected."""
        return cls(1, 0, 0)


@inline_kernel
def rank_for(expected: float) -> int:
    """A rank so low that the guess is right nearly always: three standard deviations below the expected one."""
    return math.ceil(expected + 3.0 * math.sqrt(expected)) + 1


@inline_kernel
def lowest_reaching(score: np.float32) -> np.float64:
    """The smallest float64 that rounds to at least ``score`` (positive and finite) in float32."""
    bits = np.float32(score).view(np.uint32)
    below = np.uint32(bits - np.uint32(1)).view(np.float32)
    middle = (np.float64(score) + np.float64(below)) * 0.5
    if bits & np.uint32(1):  # a value in the middle rounds to the even neighbour, which is the lower one here
        return np.uint64(np.float64(middle).view(np.uint64) + _ONE).view(np.float64)
    return middle


@inline_kernel
def threshold_of(sample: UInt64Array, rank: np.uint64, spare: UInt64Array) -> np.float64:
    """The ``rank``-th best of a sample (keys; their order changes) as a threshold; 0.0 for none.

    There is none where the sample is smaller, nor where that score is 0 or less, or infinite. ``spare`` is no shorter
    than the sample.
    """
    if np.uint64(len(sample)) < rank:
        return np.float64(0.0)
    score = unpack_score(nth_largest(sample, rank, spare))
    return lowest_reaching(score) if np.float32(0.0) < score < np.float32(np.inf) else np.float64(0.0)
