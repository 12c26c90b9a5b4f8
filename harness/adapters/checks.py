"""What adapters refuse before an engine sees it, because the engine would take it silently and answer wrongly."""

from __future__ import annotations

import numpy as np

from harness.errors import RejectedInputError
from harness.jit import kernel
from harness.protocols import Inputs
from harness.types import Float32Array, Ids, Int32Array, Int64Array, SparseVectors

__all__ = ["require_announced_ids", "require_positive_k", "require_sparse"]

_REASONS = (
    "has a value that is NaN or infinite",
    "has column numbers that repeat or fall",
    "has a column number below 0 or beyond its {dimensions} dimensions",
)


def require_positive_k(k: int) -> None:
    """Refuse k below 1: engines answer it with nothing, without a word."""
    if k < 1:
        raise RejectedInputError(f"k is {k}", fix="ask for at least one document: k must be 1 or more")


def require_announced_ids(documents: Inputs, announced: Ids) -> None:
    """Refuse documents other than those announced to ``open``: results would name the wrong ones."""
    if not documents.ids.values.equals(announced.values):
        raise RejectedInputError(
            f"{len(documents)} documents came for an engine that was opened for {len(announced)} others",
            fix="open the engine with the ids of the documents that it will index",
        )


def require_sparse(inputs: Inputs, what: str) -> SparseVectors:
    """The sparse vectors of ``inputs``; ``what`` is ``"document"`` or ``"query"``.

    Raises RejectedInputError when there are none, when their number is not that of the ids, and for the first row
    with NaN or infinite values or with column numbers that repeat, fall, or lie outside the dimensions.
    """
    vectors = inputs.sparse
    if vectors is None:
        raise RejectedInputError(f"the {what} inputs hold no sparse vectors", fix="encode them, with bm25 for example")
    if len(vectors) != len(inputs.ids):
        raise RejectedInputError(f"{len(vectors)} vectors came with {len(inputs.ids)} {what} ids")
    row, reason = _first_bad_row(
        vectors.indptr, np.asarray(vectors.indices), np.asarray(vectors.values), vectors.dimensions
    )
    if row >= 0:
        raise RejectedInputError(
            f"the vector of {what} '{inputs.ids[row]}' {_REASONS[reason].format(dimensions=vectors.dimensions)}",
            fix="the engine would take it and answer wrongly: mend the encoder, or leave the row out",
        )
    return vectors


@kernel
def _first_bad_row(indptr: Int64Array, indices: Int32Array, values: Float32Array, dimensions: int) -> tuple[int, int]:
    for row in range(len(indptr) - 1):
        previous = -1
        for place in range(indptr[row], indptr[row + 1]):
            column = indices[place]
            if not np.isfinite(values[place]):
                return row, 0
            if column < 0 or column >= dimensions:
                return row, 2
            if column <= previous:
                return row, 1
            previous = column
    return -1, 0
