"""What kernels ask of the processor, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from harness.data.jit import kernel
from harness.data.types import Float32Array, Float64Array, Int64Array
from harness.exact.instructions import (
    four_product_sums,
    four_square_sums,
    lowest_bit,
    product_sum,
    reaching,
    square_sum,
)

GENERATOR = np.random.default_rng(6)
# Whole numbers: their sums are exact, and so the same in every order.
WIDE = GENERATOR.integers(-99, 99, 80).astype(np.float64)
TABLE = GENERATOR.integers(-99, 99, (9, 80)).astype(np.float32)
ROWS = np.array([8, 0, 3, 3, 5, 1], dtype=np.int64)


@kernel
def _sums(wide: Float64Array, table: Float32Array, rows: Int64Array, count: int, sums: Float64Array) -> None:
    four_product_sums(wide, table, rows, np.uint64(1), np.uint64(count), sums[0])
    four_square_sums(wide, table, rows, np.uint64(1), np.uint64(count), sums[1])
    for place in (0, 5):
        sums[0, place] = product_sum(wide, table[rows[place]], np.uint64(count))
        sums[1, place] = square_sum(wide, table[rows[place]], np.uint64(count))


@kernel
def _reaching(line: Float32Array, factor: np.float32, others: Float32Array, start: int, floor: np.float32) -> np.uint64:
    return reaching(line, factor, others[0], others[1], np.uint64(start), floor)


@kernel
def _lowest(word: np.uint64) -> np.uint64:
    return lowest_bit(word)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 64, 79, 80])
def test_sums_are_those_of_the_first_so_many(count: int) -> None:
    sums = np.full((2, 6), np.nan)
    _sums(WIDE, TABLE, ROWS, count, sums)
    x, y = WIDE[:count], TABLE[ROWS, :count].astype(np.float64)
    assert np.array_equal(sums, [y @ x, np.square(x - y).sum(axis=1)])


@pytest.mark.parametrize("start", [0, 5, 36])
def test_the_bits_are_of_what_reaches_the_floor(start: int) -> None:
    line, others = GENERATOR.standard_normal(100).astype(np.float32), GENERATOR.standard_normal((2, 100))
    scale, shift = others.astype(np.float32)
    factor = np.float32(0.3)
    values = (line * factor * scale + shift)[start : start + 64]
    for floor in (values[17], values.max(), np.float32(-np.inf), np.float32(np.inf)):
        word = int(_reaching(line, factor, others.astype(np.float32), start, floor))
        assert [word >> bit & 1 for bit in range(64)] == (values >= floor).astype(int).tolist()


def test_the_lowest_bit_of_a_word() -> None:
    assert [int(_lowest(np.uint64(word))) for word in (1, 12, 2**63, 2**64 - 1)] == [0, 2, 63, 0]


def test_an_array_with_gaps_is_refused_when_the_kernel_is_compiled() -> None:
    with pytest.raises(TypingError, match="has gaps"):
        _sums(WIDE, TABLE[:, ::2], ROWS, 8, np.empty((2, 6)))
