"""The levels of an impact row: which sixteen numbers bound the values of a dimension best.

A value is rounded up to the next level, and what it is rounded up by is what bounds are too high by. A dimension's
values are seldom spread evenly (the highest of many log-normal weights is ten times the usual one), so the levels are
those whose excess over all postings is the smallest. Each posting counts as much as its value, for it is the documents
with high values that a bound must tell apart.
"""

from __future__ import annotations

import numpy as np

from harness.data.jit import inline_kernel, kernel
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array
from harness.exact.postings import Postings

__all__ = ["CODES", "choose_levels"]

CODES = 16
"""Levels of a row; half a byte names one."""
_PARTS = 128
"""Only the largest value of each of so many equal parts, from 0 to the highest value, can be a level."""


def choose_levels(postings: Postings, columns: Int32Array, highest: Float32Array) -> Float32Array:
    """Levels of each of ``columns``, float32 (R * 16,), ascending from 0 to the column's ``highest`` value, above 0."""
    levels = np.zeros(len(columns) * CODES, dtype=np.float32)
    _choose_all(postings, columns, highest, levels)
    return levels


@kernel
def _choose_all(postings: Postings, columns: Int32Array, highest: Float32Array, levels: Float32Array) -> None:
    for row in range(len(columns)):
        column = columns[row]
        values = postings.values[postings.columns[column] : postings.columns[column + 1]]
        _choose(values, highest[column], levels[row * CODES : (row + 1) * CODES])


@inline_kernel
def _choose(values: Float32Array, highest: np.float32, levels: Float32Array) -> None:
    """Choose by dynamic programming: with one level after the other, what the first parts cost at least."""
    tops, mass = np.zeros(_PARTS + 1, dtype=np.float32), np.zeros(_PARTS + 1, dtype=np.float64)
    for value in values:
        part = min(_PARTS, 1 + int(np.float64(value) * _PARTS / np.float64(highest))) if value > 0.0 else 0
        tops[part] = max(tops[part], value)
        mass[part] += np.float64(value)
    for part in range(1, _PARTS + 1):
        tops[part] = max(tops[part], tops[part - 1])
        mass[part] += mass[part - 1]
    costs = np.full(_PARTS + 1, np.inf)
    costs[0] = 0.0
    begins = np.zeros((CODES, _PARTS + 1), dtype=np.int64)
    for level in range(1, CODES):
        costs = _with_one_more(costs, tops, mass, begins[level])
    part = _PARTS
    for level in range(CODES - 1, 0, -1):
        levels[level] = tops[part]
        part = begins[level, part]


@inline_kernel
def _with_one_more(costs: Float64Array, tops: Float32Array, mass: Float64Array, begins: Int64Array) -> Float64Array:
    """The least that the first parts cost, float64 (129,), with one level more, the highest value of the last of them.

    ``begins`` int64 (129,) receives where the parts begin that it bounds: at the end where it bounds none, as there are
    fewer different values than levels.
    """
    least = costs.copy()
    for end in range(len(costs)):
        begins[end] = end
        for begin in range(end):
            cost = costs[begin] + np.float64(tops[end]) * (mass[end] - mass[begin])
            if cost < least[end]:
                least[end], begins[end] = cost, begin
    return least
