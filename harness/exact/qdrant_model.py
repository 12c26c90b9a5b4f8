"""Qdrant's arithmetic for the reference: idf in float32, datatypes of weights, scores normalised before a fusion.

Measured on Qdrant Edge 0.9.0 and compared with it by ``tests/engines/qdrant/test_qdrant_model.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.document_rows import DocumentRows, WeighedRows, all_rows, blocks_of, with_values
from harness.data.jit import kernel
from harness.data.types import Float32Array, Int64Array, SparseVectors
from harness.errors import UnknownNameError

DATATYPES = ("float32", "float16", "uint8")
_LEVELS = np.float32(255)


def qdrant_idf(documents: int, containing: npt.ArrayLike) -> Float32Array:
    """Return Qdrant's idf, ``ln((N - df + 0.5) / (df + 0.5) + 1)`` with every step in float32.

    Adding 1 in float32 loses precision of very frequent terms: 3e-6 of the idf if 98 of 100 documents hold the term,
    more beyond. The idf of rare terms is precise to 1e-7.

    Args:
        documents: number of points with a non-empty vector.
        containing: number of points that hold each term.

    Returns:
        float32, in the shape of ``containing``.
    """
    unit, half = np.float32(1), np.float32(0.5)
    df = np.asarray(containing).astype(np.float32)
    ratio = (np.float32(documents) - df + half) / (df + half) + unit
    idf: Float32Array = np.log(ratio.astype(np.float64)).astype(np.float32)
    return idf


def qdrant_weights(vectors: SparseVectors, datatype: str) -> SparseVectors:
    """Round document vectors as an optimised segment of ``datatype`` does, for all documents in one segment.

    ``float16`` rounds each weight to the nearest half-precision number. ``uint8`` maps the weights of each dimension
    linearly to 0…255 between the smallest and the largest weight that the dimension has. Raises UnknownNameError.
    """
    return all_rows(qdrant_rows(vectors, datatype))


def qdrant_rows(documents: DocumentRows, datatype: str) -> DocumentRows:
    """Return the documents of :func:`qdrant_weights`, as rows that are rounded when they are read."""
    if datatype not in DATATYPES:
        raise UnknownNameError("datatype", datatype, DATATYPES)
    if datatype == "float32":
        return documents
    if datatype == "float16":
        return WeighedRows(documents, _to_float16, documents.dimensions)
    lowest = np.full(documents.dimensions, np.inf, dtype=np.float32)
    highest = np.full(documents.dimensions, -np.inf, dtype=np.float32)
    for _, block in blocks_of(documents):
        np.minimum.at(lowest, block.indices, block.values)
        np.maximum.at(highest, block.indices, block.values)

    def round_block(block: SparseVectors, _: npt.NDArray[Any]) -> SparseVectors:
        low, high = lowest[block.indices], highest[block.indices]
        return with_values(block, _quantise_to_255_levels(np.asarray(block.values), low, high))

    return WeighedRows(documents, round_block, documents.dimensions)


def _to_float16(block: SparseVectors, _: npt.NDArray[Any]) -> SparseVectors:
    return with_values(block, np.asarray(block.values).astype(np.float16).astype(np.float32))


def _quantise_to_255_levels(values: Float32Array, low: Float32Array, high: Float32Array) -> Float32Array:
    step = (high - low) / _LEVELS
    levels = np.divide(values - low, step, out=np.zeros_like(values), where=step > 0)
    rounded: Float32Array = low + np.floor(np.clip(levels, 0, _LEVELS) + np.float32(0.5)) * step
    return rounded


@kernel
def qdrant_normalised(indptr: Int64Array, scores: Float32Array) -> Float32Array:
    """Normalise the scores float32 (H,) of each query: ``(s - (m - 3 sd)) / (6 sd)``, every step in float32.

    Mean and sample variance are computed in one pass in the order of the hits (Welford), so the order affects the last
    bits, and more of them if ``sd`` is small compared with the scores. A single hit, and hits without any spread, get
    0.5.
    """
    normalised = np.full(len(scores), np.float32(0.5), dtype=np.float32)
    three = np.float32(3.0)
    for query in range(len(indptr) - 1):
        start, stop = indptr[query], indptr[query + 1]
        if stop - start < 2:
            continue
        mean, squares = np.float32(0.0), np.float32(0.0)
        for hit in range(start, stop):
            before = np.float32(scores[hit] - mean)
            mean = np.float32(mean + np.float32(before / np.float32(hit - start + 1)))
            squares = np.float32(squares + np.float32(before * np.float32(scores[hit] - mean)))
        deviation = np.float32(np.sqrt(np.float32(squares / np.float32(stop - start - 1))))
        low = np.float32(mean - np.float32(three * deviation))
        spread = np.float32(np.float32(mean + np.float32(three * deviation)) - low)
        if spread != np.float32(0.0):
            for hit in range(start, stop):
                normalised[hit] = np.float32(np.float32(scores[hit] - low) / spread)
    return normalised
