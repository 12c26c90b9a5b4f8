"""Selection of the largest keys without sorting."""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.data.types import UInt64Array

_ONE = np.uint64(1)
_FEW = np.uint64(32)
_SAMPLE, _MANY = np.uint64(15), np.uint64(128)


@inner_kernel
def _median(first: np.uint64, second: np.uint64, third: np.uint64) -> np.uint64:
    return max(min(first, second), min(max(first, second), third))


@inner_kernel
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


@inner_kernel
def _pivot(keys: UInt64Array, count: np.uint64, sample: UInt64Array) -> np.uint64:
    """Return a key that is probably close to the ``count``-th largest, by a sample at equal distances."""
    step = np.uint64(len(keys)) // _SAMPLE
    for position in range(_SAMPLE):
        key, hole = keys[position * step], np.uint64(position)
        while hole > np.uint64(0) and sample[hole - _ONE] < key:
            sample[hole] = sample[hole - _ONE]
            hole -= _ONE
        sample[hole] = key
    return np.uint64(sample[min(count * _SAMPLE // np.uint64(len(keys)), _SAMPLE - _ONE)])


@inner_kernel
def keep_largest_beside(keys: UInt64Array, count: np.uint64, spare: UInt64Array) -> None:
    """Move the ``count`` largest keys to the front, in no particular order; the rest is undefined.

    ``count`` is at least 1 and at most ``len(keys)``; ``spare`` is at least as long as ``keys``. Equal keys may occur.
    Keys are partitioned without a branch, which would be mispredicted for every second key.
    """
    left, right = np.uint64(0), np.uint64(len(keys))
    while left < count < right and right - left > _MANY:
        pivot = _pivot(keys[left:right], count - left, spare)
        high, low = left, np.uint64(0)
        for position in range(left, right):
            key = keys[position]
            # written to both sides, and counted on one: a comparison becomes a number, not a jump
            keys[high], spare[low] = key, key
            high += np.uint64(key >= pivot)
            low += np.uint64(key < pivot)
        if high == right:  # all keys reach the pivot, and would do so again
            break
        if high >= count:
            right = high
        else:
            left, right = high, high + low
            for position in range(low):
                keys[high + position] = spare[position]
    if left < count < right:
        keep_largest(keys[left:right], count - left)


@inner_kernel
def smallest(keys: UInt64Array) -> np.uint64:
    """Return the smallest of at least one key."""
    least = keys[np.uint64(0)]
    for position in range(_ONE, np.uint64(len(keys))):
        least = min(least, keys[position])
    return np.uint64(least)


@inner_kernel
def nth_largest(keys: UInt64Array, rank: np.uint64, spare: UInt64Array) -> np.uint64:
    """Return the ``rank``-th largest key (from 1); the keys are overwritten, and ``spare`` is at least as long.

    A few largest are kept sorted by insertion: that takes one comparison for nearly every key, well predicted.
    """
    if rank > _FEW:
        keep_largest_beside(keys, rank, spare)
        return smallest(keys[:rank])
    last = rank - _ONE
    for position in range(_ONE, np.uint64(len(keys))):
        key = keys[position]
        if position >= rank and key <= keys[last]:
            continue
        hole = np.uint64(position)
        if position >= rank:
            keys[position], hole = keys[last], last
        while hole > np.uint64(0) and keys[hole - _ONE] < key:
            keys[hole] = keys[hole - _ONE]
            hole -= _ONE
        keys[hole] = key
    return np.uint64(keys[last])
