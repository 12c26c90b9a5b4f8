"""pgvector's types of vectors: their binary form, their content, and the operators that compare them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Similarity, SparseVectors

__all__ = [
    "MOST_COLUMNS",
    "OPERATORS",
    "Operator",
    "dense_bytes",
    "dense_vectors",
    "sparse_bytes",
    "sparse_vectors",
]

MOST_COLUMNS = 1_000_000_000
"""Maximum number of dimensions of a ``sparsevec``."""
_HEAD = 4
_SPARSE_HEAD = "!iii"
"""The header of a ``sparsevec``: dimensions, entries, and a zero; the entries' columns and weights follow."""
_NUMBERS: Mapping[str, str] = {"vector": ">f4", "halfvec": ">f2"}
"""Number formats of the types, after the dimensions and a zero of two bytes each."""


class Operator(NamedTuple):
    """An operator of pgvector, and the word for it in the names of operator classes."""

    sign: str
    word: str


OPERATORS: Mapping[Similarity, Operator] = {
    "cosine": Operator("<=>", "cosine"),
    "dot": Operator("<#>", "ip"),
    "l2": Operator("<->", "l2"),
}


def dense_bytes(vectors: Float32Array, kind: str) -> Iterator[bytes]:
    """Yield each row in the binary form of ``vector`` or ``halfvec``: dimensions, a zero, big-endian numbers."""
    head = struct.pack("!HH", vectors.shape[1], 0)
    numbers = vectors.astype(_NUMBERS[kind])
    return (head + row.tobytes() for row in numbers)


def sparse_bytes(indices: np.ndarray, values: np.ndarray, dimensions: int) -> bytes:
    """Return one vector in the binary form of ``sparsevec``; its columns ascend from 0. Zeros are left out."""
    stored = values != 0  # pgvector refuses zeros
    indices, values = indices[stored], values[stored]
    head = struct.pack(_SPARSE_HEAD, dimensions, len(indices), 0)
    return head + indices.astype(">i4").tobytes() + values.astype(">f4").tobytes()


def sparse_vectors(values: Sequence[bytes | None], dimensions: int) -> SparseVectors:
    """Return vectors from the binary form of ``sparsevec``; None is a vector without entries."""
    present = [value or sparse_bytes(np.empty(0), np.empty(0), dimensions) for value in values]
    counts = [struct.unpack_from(_SPARSE_HEAD, value)[1] for value in present]
    start = struct.calcsize(_SPARSE_HEAD)
    pairs = list(zip(present, counts, strict=True))
    indices = [np.frombuffer(value, dtype=">i4", count=count, offset=start) for value, count in pairs]
    weights = [np.frombuffer(value, dtype=">f4", count=count, offset=start + 4 * count) for value, count in pairs]
    return SparseVectors(
        np.cumsum([0, *counts], dtype=np.int64),
        np.concatenate([np.empty(0, dtype=np.int32), *indices], dtype=np.int32),
        np.concatenate([np.empty(0, dtype=np.float32), *weights], dtype=np.float32),
        dimensions,
    )


def dense_vectors(values: Sequence[bytes], kind: str, dimensions: int) -> Float32Array:
    """Return vectors float32 (n, d) from their binary form."""
    numbers = b"".join(value[_HEAD:] for value in values)
    return np.frombuffer(numbers, dtype=_NUMBERS[kind]).reshape(len(values), dimensions).astype(np.float32)
