"""Selection of the largest keys without sorting."""

from __future__ import annotations

import numpy as np

from harness.jit import inline_kernel
from harness.types import UInt64Array

__all__ = ["keep_largest", "nth_largest"]

_ONE = np.uint64(1)
_FEW = np.uint64(32)


@inline_kernel
def _median(first: np.uint64, second: np.uint64, third: np.uint64) -> np.uint64:
    return max(min(first, second), min(max(first, second), third))


@inline_kernel
def keep_largest(keys: UInt64Array, count: np.uint64) -> None:
    """Move the ``count`` largest keys to the front, in no particular order (Hoare's quickselect).

    ``count`` is at least 1 and at most ``len(keys)``. Equal keys may occur.
    """
    left, right = np.int64(0), np.int64(len(keys)) - 1
    target = np.int64(count) - 1
    while left < right:
        pivot = _median(keys[np.uint64(left)], keys[np.uint64((left + right) >> 1)], keys[np.uint64(right)])
        low, high = left, right
        while low <= high:
            while keys[np.uint64(low)] > pivot:
                low += 1
            while keys[np.uint64(high)] < pivot:
                high -= 1
            if low <= high:
                swap = keys[np.uint64(low)]
                keys[np.uint64(low)] = keys[np.uint64(high)]
                keys[np.uint64(high)] = swap
                low += 1
                high -= 1
        if target <= high:
            right = high
        elif target >= low:
            left = low
        else:
            return


@inline_kernel
def nth_largest(keys: UInt64Array, rank: np.uint64) -> np.uint64:
    """The ``rank``-th largest key (from 1), as many as that being moved to the front.

    A few largest are kept sorted by insertion: that takes one comparison for nearly every key, well predicted.
    """
    if rank > _FEW:
        keep_largest(keys, rank)
        worst = keys[np.uint64(0)]
        for place in range(_ONE, rank):
            worst = min(worst, keys[place])
        return np.uint64(worst)
    last = rank - _ONE
    for place in range(_ONE, np.uint64(len(keys))):
        key = keys[place]
        if place >= rank and key <= keys[last]:
            continue
        hole = np.uint64(place)
        if place >= rank:
            keys[place], hole = keys[last], last
        while hole > np.uint64(0) and keys[hole - _ONE] < key:
            keys[hole] = keys[hole - _ONE]
            hole -= _ONE
        keys[hole] = key
    return np.uint64(keys[last])
