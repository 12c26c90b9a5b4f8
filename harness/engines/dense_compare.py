"""Whether the dense vectors that an index stores are those that the encoder gives."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from harness.data.types import Float32Array, Int32Array
from harness.engines.external_index import other_vectors
from harness.engines.interface import ExpectedContent
from harness.errors import RejectedInputError
from harness.exact.dense import vector_lengths

__all__ = ["DenseComparison", "Kept", "same_vectors"]

Kept: TypeAlias = Literal["bits", "unit", "direction"]
"""How an index keeps a vector: as it came, divided by its length, or times any number above 0."""
_ROUNDOFF, _HALF_ROUNDOFF = 2.0**-24, 2.0**-11
_AS_IT_IS = 1e-6
"""Qdrant leaves a vector as it is whose squared length is within this of 1."""
_STEPS = 2
"""Steps of its datatype by which a number may differ: of its own rounding, and of what it is compared with."""


class DenseComparison:
    """Every stored vector of a document that the collection knows, batch by batch."""

    def __init__(self, content: ExpectedContent, kept: Kept, *, half: bool = False) -> None:
        """``half``: the index keeps float16. Raises RejectedInputError where there are no vectors to compare with."""
        documents, queries = content.documents.dense, content.queries.dense
        if documents is None or queries is None:
            raise RejectedInputError("there are no dense vectors to compare the index with", fix="encode them")
        self._expected, self._dimensions, self._ids = documents, queries.shape[1], content.documents.ids
        self._kept, self._half = kept, half
        self._seen = np.zeros(len(documents), dtype=np.bool_)
        self._strange = [np.empty(0, dtype=np.int32)]

    def add(self, stored: Float32Array, places: Int32Array) -> None:
        """Compare ``stored`` (n, d), the vectors of documents ``places`` of the collection.

        Raises RejectedInputError for other dimensions than the encoder's.
        """
        if stored.shape[1] != self._dimensions:
            raise RejectedInputError(
                f"the index has vectors of {stored.shape[1]} dimensions, the encoder gives {self._dimensions}",
                fix="name the model and the truncate_dim that the index was made with",
            )
        self._seen[places] = True
        same = same_vectors(stored, self._expected[places], self._kept, half=self._half)
        self._strange.append(places[~same])

    def reason(self) -> str | None:
        """Which documents differ, or have no vector, so that no search finds them; None where none do."""
        without, strange = np.flatnonzero(~self._seen), np.sort(np.concatenate(self._strange))
        if len(without):
            return f"{len(without):,} documents have no such vector, '{self._ids[int(without[0])]}' first"
        return other_vectors(strange, self._ids) if len(strange) else None


def same_vectors(
    stored: Float32Array, expected: Float32Array, kept: Kept, *, half: bool = False
) -> npt.NDArray[np.bool_]:
    """Which rows of ``stored`` (n, d) are those of ``expected`` (n, d), kept so.

    A length is summed in float32 in an order that is not known. So a vector that was divided by it may have a common
    factor, as far from 1 as the rounding of that sum can be; each value is then within two steps of the datatype,
    float32 or (``half``) float16.
    """
    if kept == "bits":
        whole = expected.astype(np.float16).astype(np.float32) if half else expected
        return np.asarray((stored == whole).all(axis=1))
    lengths = vector_lengths(np.ascontiguousarray(expected))
    directions = expected / np.where(lengths > 0, lengths, 1)[:, None]
    factors = (stored * directions).sum(axis=1)
    nearest = factors[:, None] * directions
    step = np.spacing(np.abs(nearest).astype(np.float16 if half else np.float32)).astype(np.float64)
    close = (np.abs(stored - nearest) <= _STEPS * step).all(axis=1)
    if kept == "direction":
        return np.asarray(close & (factors > 0))
    # each of d squares and their sum are rounded, the root halves that error, and is rounded itself
    allowed = max(_AS_IT_IS, (expected.shape[1] / 2 + 2) * _ROUNDOFF) + (_HALF_ROUNDOFF if half else _ROUNDOFF)
    return np.asarray(close & (np.abs(factors - 1) <= allowed))
