"""Impact rows: what each document can gain from a frequent dimension, in one byte, rounded up.

A dimension that many documents store is expensive to add posting by posting. Its impact row has one byte for every
document; rows of several dimensions are added with vector instructions, sixteen documents at once, to an upper bound
of what they contribute. Only documents whose bound reaches the best k are then scored exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.jit import kernel
from harness.reference.postings import Postings, read_only
from harness.types import Float32Array, Float64Array, Int32Array, UInt32Array

__all__ = ["DIRECTORY_SHIFT", "Impacts", "build_impacts", "extremes", "no_impacts"]

UInt8Array = npt.NDArray[np.uint8]

DIRECTORY_SHIFT = 7
"""The directory holds the first posting of every block of 128 documents."""
_FREQUENT = 16
"""Dimensions in more than one document in this many get a row: below, adding the postings is as cheap."""
_BUDGET = 0.15
"""Rows take at most this share of the bytes of the postings; the most frequent dimensions go first."""
_LEVELS = 255.0
_RELUCTANCE = 1.3
"""Rows must promise to be clearly cheaper: they have a smaller part in the caches than the estimate knows."""


class Impacts(NamedTuple):
    """Impact rows of the dimensions in ``columns`` (int32 (T,), ascending).

    ``levels`` uint8 (T * n,): a value of the dimension is at most its level times ``steps`` float64 (T,); level 0 means
    that the document does not store it. ``directory`` uint32 (T * (blocks + 1),): where in the dimension's postings
    each block of documents begins. ``smallest`` and ``largest`` are the extreme absolute values of all postings, zeros
    left out. ``reluctance`` multiplies the estimated cost of using rows: 0.0 always uses them, infinity never.
    """

    columns: Int32Array
    levels: UInt8Array
    steps: Float64Array
    directory: UInt32Array
    smallest: float
    largest: float
    reluctance: float

    @property
    def nbytes(self) -> int:
        """Bytes of all rows and directories."""
        return self.columns.nbytes + self.levels.nbytes + self.steps.nbytes + self.directory.nbytes


def build_impacts(postings: Postings, documents: int) -> Impacts:
    """Rows of the most frequent dimensions; none when a value is negative, for then a bound bounds nothing."""
    smallest, largest, negative = extremes(postings.values)
    frequencies = postings.document_frequencies()
    affordable = int(_BUDGET * 8 * len(postings.values)) // max(1, documents)
    frequent = np.flatnonzero(frequencies * _FREQUENT > documents)
    if negative or not affordable or not len(frequent) or smallest == 0.0:
        return no_impacts(smallest, largest)
    chosen = frequent[np.argsort(-frequencies[frequent], kind="stable")[:affordable]]
    columns = np.sort(chosen).astype(np.int32)
    blocks = ((documents - 1) >> DIRECTORY_SHIFT) + 1
    levels = np.zeros(len(columns) * documents, dtype=np.uint8)
    directory = np.zeros(len(columns) * (blocks + 1), dtype=np.uint32)
    steps = np.zeros(len(columns), dtype=np.float64)
    _fill(postings, columns, documents, blocks, levels, steps, directory)
    return Impacts(
        read_only(columns), read_only(levels), read_only(steps), read_only(directory), smallest, largest, _RELUCTANCE
    )


def no_impacts(smallest: float, largest: float) -> Impacts:
    """No rows at all: every posting is added. Given are the extremes of the postings' values."""
    return Impacts(
        read_only(np.empty(0, dtype=np.int32)),
        read_only(np.empty(0, dtype=np.uint8)),
        read_only(np.empty(0, dtype=np.float64)),
        read_only(np.empty(0, dtype=np.uint32)),
        smallest,
        largest,
        float("inf"),
    )


@kernel
def extremes(values: Float32Array) -> tuple[float, float, bool]:
    """Smallest and largest absolute value other than zero (0.0 without any), and whether one is negative."""
    smallest, largest, negative = np.inf, 0.0, False
    for place in range(len(values)):
        size = abs(np.float64(values[place]))
        negative |= values[place] < 0.0
        if size > 0.0:
            smallest = min(smallest, size)
            largest = max(largest, size)
    return (smallest if largest > 0.0 else 0.0), largest, negative


@kernel
def _fill(
    postings: Postings,
    columns: Int32Array,
    documents: int,
    blocks: int,
    levels: UInt8Array,
    steps: Float64Array,
    directory: UInt32Array,
) -> None:
    for slot in range(len(columns)):
        start, stop = np.int64(postings.columns[columns[slot]]), np.int64(postings.columns[columns[slot] + 1])
        highest = np.float64(0.0)
        for posting in range(start, stop):
            highest = max(highest, np.float64(postings.values[posting]))
        step = highest / _LEVELS
        steps[slot] = step
        for posting in range(start, stop):
            value = np.float64(postings.values[posting])
            if value > 0.0:
                level = min(np.ceil(value / step), _LEVELS)
                levels[slot * documents + np.int64(postings.rows[posting])] = np.uint8(level)
            directory[slot * (blocks + 1) + (np.int64(postings.rows[posting]) >> DIRECTORY_SHIFT) + 1] += np.uint32(1)
        for block in range(slot * (blocks + 1) + 1, (slot + 1) * (blocks + 1)):
            directory[block] += directory[block - 1]
