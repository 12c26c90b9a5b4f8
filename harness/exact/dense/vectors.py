"""Dense vectors as they come, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.data.types import Float32Array, Float64Array
from harness.errors import DataError, UsageError

__all__ = ["as_dense", "refuse_zero"]

_ROWS_AT_ONCE = 4096


def as_dense(vectors: Any, source: str) -> Float32Array:  # noqa: ANN401 - whatever NumPy takes
    """C-contiguous float32 (n, d), the same array where it is that already.

    Raises UsageError for another shape, no dimensions or values that are no numbers; DataError naming rows (of
    ``source``) with NaN, infinite values or values beyond float32.
    """
    given = np.asarray(vectors)
    if given.ndim != 2 or not given.shape[1] or given.dtype.kind not in "fiub":
        raise UsageError(
            f"{source} are an array of {given.dtype} of shape {given.shape}",
            fix="give real numbers in the shape (number of vectors, dimensions)",
        )
    with np.errstate(over="ignore"):
        array: Float32Array = np.ascontiguousarray(given, dtype=np.float32)
    broken: list[int] = []
    for start in range(0, len(array), _ROWS_AT_ONCE):
        finite = np.isfinite(array[start : start + _ROWS_AT_ONCE]).all(axis=1)
        broken += (np.flatnonzero(~finite) + start).tolist()
    if broken:
        raise DataError(source, [f"row {row}: NaN, infinite or beyond float32" for row in broken])
    return array


def refuse_zero(lengths: Float64Array, source: str) -> None:
    """Raises DataError naming the rows that are zero: they have no direction, and so no cosine with anything."""
    zero = np.flatnonzero(lengths == 0.0)
    if len(zero):
        raise DataError(source, [f"row {row}: a zero vector has no cosine" for row in zero.tolist()])
