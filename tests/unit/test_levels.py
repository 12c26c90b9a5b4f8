"""The levels of impact rows, and what vectors say of them, against plain loops."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.sparse import csr_array

from harness.data.jit import kernel
from harness.data.types import Float32Array, Float64Array, UInt64Array
from harness.exact.jit_bounds import ROW_PART, add_rows, bounds_reaching
from harness.exact.levels import CODES, choose_levels
from harness.exact.postings import Postings, as_sparse, transpose


def levels_of(values: list[float]) -> Float32Array:
    column = np.array(values, dtype=np.float32)
    postings: Postings = transpose(as_sparse(csr_array(column.reshape(-1, 1)), "here"), None)
    columns = np.zeros(1, dtype=np.int32)
    return choose_levels(postings, columns, np.array([column.max()], dtype=np.float32))


def excess(values: list[float], levels: list[float]) -> float:
    """What the values, each counting as much as it is, are rounded up by."""
    return sum(value * (min(level for level in levels if level >= value) - value) for value in values)


def test_as_many_different_values_as_levels_are_levels() -> None:
    values = [float(value * value) for value in range(1, 16)]
    assert levels_of([*values, *values[3:9]]).tolist() == [0.0, *values]


def test_one_value_fills_all_levels_but_the_first() -> None:
    assert levels_of([2.5, 2.5]).tolist() == [0.0] + [2.5] * 15


def test_no_other_levels_have_less_excess() -> None:
    values = [128.0, *np.random.default_rng(3).choice(np.arange(1.0, 128.0), 17, replace=False).tolist()]
    best = min(excess(values, [*chosen, max(values)]) for chosen in combinations(sorted(values)[:-1], 14))
    assert excess(values, levels_of(values).tolist()) == pytest.approx(best, rel=1e-6)


def test_levels_ascend_and_the_last_is_the_highest_value() -> None:
    values = np.random.default_rng(4).lognormal(0.0, 1.0, 5_000).astype(np.float32)
    levels = levels_of(values.tolist())
    assert levels[0] == 0.0
    assert np.all(np.diff(levels) >= 0.0)
    assert levels[-1] == values.max()
    even = [values.max() * step / 15 for step in range(16)]
    assert excess(values.tolist(), levels.tolist()) < excess(values.tolist(), even)


Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


@kernel
def all_rows(codes: Bytes, starts: UInt64Array, tables: Bytes, sums: Bytes) -> None:
    for place in range(np.uint64(0), np.uint64(len(sums)) // np.uint64(2), np.uint64(ROW_PART)):
        add_rows(codes, starts, tables, np.uint64(len(starts)), place, sums, place)


@kernel
def reaching(sums: Float64Array, levels: Bytes, unit: np.float32, floor: np.float32) -> np.uint64:
    return bounds_reaching(sums, np.uint64(3), levels, np.uint64(5), unit, floor)


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_rows_are_looked_up_and_added(rows: int) -> None:
    generator = np.random.default_rng(rows)
    codes = generator.integers(0, 256, 4 * 256, dtype=np.uint8)
    starts = generator.integers(0, 3, rows).astype(np.uint64) * np.uint64(256) + np.uint64(17)
    tables = generator.integers(0, 256, rows * CODES, dtype=np.uint8)
    sums = np.zeros(512, dtype=np.uint8)
    all_rows(codes, starts, tables, sums)
    taken = np.stack([codes[int(start) : int(start) + 256] for start in starts])
    halves = np.concatenate([taken & 15, taken >> 4], axis=1)
    expected = np.take_along_axis(tables.reshape(rows, CODES), halves.astype(np.int64), axis=1).sum(axis=0)
    assert sums.tolist() == (expected % 256).tolist()


def test_bounds_are_compared_in_float32() -> None:
    generator = np.random.default_rng(9)
    sums, levels = generator.normal(0.0, 9.0, 70), generator.integers(0, 256, 70, dtype=np.uint8)
    unit = np.float32(0.07)
    bounds = sums[3:67].astype(np.float32) + levels[5:69].astype(np.float32) * unit
    for floor in (*np.sort(bounds)[::9], np.float32(-99.0), np.float32(99.0)):
        found = reaching(sums, levels, unit, floor)
        assert [found >> place & 1 for place in range(64)] == (bounds >= floor).tolist()
