"""The largest keys, against sorting."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.jit import kernel
from harness.data.types import UInt64Array
from harness.exact import selection

SIZES = [1, 2, 31, 128, 129, 1_000, 5_000]
SHAPES = {
    "different": lambda generator, size: generator.permutation(size),
    "few": lambda generator, size: generator.integers(0, 4, size),
    "equal": lambda _generator, size: np.full(size, 7),
    "sorted": lambda _generator, size: np.arange(size),
    "sorted backwards": lambda _generator, size: np.arange(size)[::-1],
    "one below": lambda _generator, size: np.where(np.arange(size) == size // 2, 0, 9),
}


# what only kernels call is called by a kernel


@kernel
def keep_largest(keys: UInt64Array, count: np.uint64) -> None:
    selection.keep_largest(keys, count)


@kernel
def keep_largest_beside(keys: UInt64Array, count: np.uint64, spare: UInt64Array) -> None:
    selection.keep_largest_beside(keys, count, spare)


@kernel
def nth_largest(keys: UInt64Array, rank: np.uint64, spare: UInt64Array) -> np.uint64:
    return selection.nth_largest(keys, rank, spare)


def keys_of(shape: str, size: int) -> UInt64Array:
    keys: UInt64Array = SHAPES[shape](np.random.default_rng(size), size).astype(np.uint64)
    return keys


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_largest_come_to_the_front(shape: str, size: int) -> None:
    keys = keys_of(shape, size)
    expected = np.sort(keys)[::-1]
    for count in sorted({1, min(size, 33), size // 2 + 1, size - 1 or 1, size}):
        plain, parted, ranked = keys.copy(), keys.copy(), keys.copy()
        keep_largest(plain, np.uint64(count))
        keep_largest_beside(parted, np.uint64(count), np.zeros(size + 15, dtype=np.uint64))
        found = nth_largest(ranked, np.uint64(count), np.zeros(size + 15, dtype=np.uint64))
        for front in (plain[:count], parted[:count], ranked[:count]):
            assert np.sort(front)[::-1].tolist() == expected[:count].tolist()
        assert found == expected[count - 1]
        assert np.sort(plain).tolist() == np.sort(keys).tolist()
