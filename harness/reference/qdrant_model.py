"""What Qdrant does to numbers, so that an oracle can do the same: its idf in float32, its datatypes for weights.

Found by measuring Qdrant Edge 0.9.0 and held to it by ``tests/integration/test_qdrant_model.py``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.errors import UnknownNameError
from harness.types import Float32Array, SparseVectors

__all__ = ["DATATYPES", "qdrant_idf", "qdrant_weights"]

DATATYPES = ("float32", "float16", "uint8")
_LEVELS = np.float32(255)


def qdrant_idf(documents: int, containing: npt.ArrayLike) -> Float32Array:
    """``ln((N - df + 0.5) / (df + 0.5) + 1)`` with every step in float32; float32, in the shape of ``containing``.

    ``documents`` is the number of points with a non-empty vector. Adding 1 in float32 loses what makes the idf of a
    very frequent term: 3e-6 of its value where 98 of 100 documents hold the term, more beyond. Rare terms have theirs
    to 1e-7.
    """
    one, half = np.float32(1), np.float32(0.5)
    df = np.asarray(containing).astype(np.float32)
    ratio = (np.float32(documents) - df + half) / (df + half) + one
    idf: Float32Array = np.log(ratio.astype(np.float64)).astype(np.float32)
    return idf


def qdrant_weights(vectors: SparseVectors, datatype: str) -> SparseVectors:
    """Document vectors as an optimised segment of ``datatype`` holds them, for all documents in one segment.

    ``float16`` rounds each weight to the nearest half-precision number. ``uint8`` maps the weights of each dimension
    linearly to 0…255 between the smallest and the largest weight that the dimension has. Raises UnknownNameError.
    """
    if datatype not in DATATYPES:
        raise UnknownNameError("datatype", datatype, DATATYPES)
    if datatype == "float32":
        return vectors
    values = np.asarray(vectors.values)
    if datatype == "float16":
        held = values.astype(np.float16).astype(np.float32)
    else:
        held = _to_255_levels(values, np.asarray(vectors.indices), vectors.dimensions)
    return SparseVectors(vectors.indptr, vectors.indices, held, vectors.dimensions)


def _to_255_levels(values: Float32Array, columns: npt.NDArray[np.int32], dimensions: int) -> Float32Array:
    lowest = np.full(dimensions, np.inf, dtype=np.float32)
    highest = np.full(dimensions, -np.inf, dtype=np.float32)
    np.minimum.at(lowest, columns, values)
    np.maximum.at(highest, columns, values)
    low, high = lowest[columns], highest[columns]
    step = (high - low) / _LEVELS
    levels = np.divide(values - low, step, out=np.zeros_like(values), where=step > 0)
    held: Float32Array = low + np.floor(np.clip(levels, 0, _LEVELS) + np.float32(0.5)) * step
    return held
