"""Checks of documents and queries that an engine would silently accept and answer wrongly."""

from __future__ import annotations

from collections.abc import Sized
from typing import TypeVar

import numpy as np
import pyarrow as pa

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors, faulty_rows
from harness.errors import RejectedInputError

_ROWS_PER_BLOCK = 4096
_WRONG_ANSWERS = "the engine would accept it and answer wrongly: correct the encoder, or leave the row out"
C = TypeVar("C", bound=Sized)
_LEAST_SQUARE = float(np.finfo(np.float32).tiny)


def require_positive_k(k: int) -> None:
    """Refuse k below 1: engines silently return nothing."""
    if k < 1:
        raise RejectedInputError(f"k is {k}", fix="ask for at least one document: k must be 1 or more")


def require_announced_ids(documents: Inputs, announced: Ids) -> None:
    """Refuse an empty collection, and documents not announced to ``open``: results would name wrong documents."""
    if not documents.ids.values.equals(announced.values):
        raise RejectedInputError(
            f"{len(documents)} documents were passed to an engine that was opened for {len(announced)} others",
            fix="open the engine with the ids of the documents that it will index",
        )
    if not len(documents):  # without documents, some libraries make no index, others an index that they cannot search
        raise RejectedInputError("there are no documents to index", fix="pass at least one document")


def require_texts(inputs: Inputs, role: str) -> pa.ChunkedArray:
    """Return the texts of ``inputs``, an Arrow column; ``role`` is ``"document"`` or ``"query"``.

    Raises RejectedInputError if there are no texts, or not as many as ids.
    """
    return _column(inputs, inputs.texts, role, "texts", "the engine analyses texts by itself: pass them")


def require_terms(inputs: Inputs, role: str) -> pa.ChunkedArray:
    """Return the analysed terms of ``inputs``, an Arrow column of texts; otherwise as :func:`require_texts`."""
    return _column(inputs, inputs.terms, role, "terms", "analyse the texts: encoder = 'bm25'")


def require_sparse(inputs: Inputs, role: str) -> SparseVectors:
    """Return the sparse vectors of ``inputs``; ``role`` is ``"document"`` or ``"query"``.

    Raises RejectedInputError if there are no vectors, if their number differs from the ids', and for the first row with
    NaN or infinite values or with column numbers that repeat, fall, or lie outside the dimensions.
    """
    vectors = _column(inputs, inputs.sparse, role, "sparse vectors", "encode them, with bm25 for example")
    for row, words in faulty_rows(vectors):
        raise RejectedInputError(f"the vector of {role} '{inputs.ids[row]}' {words}", fix=_WRONG_ANSWERS)
    return vectors


def _column(inputs: Inputs, column: C | None, role: str, name: str, fix: str) -> C:
    """Return ``column``, which must exist and have as many rows as there are ids."""
    if column is None:
        raise RejectedInputError(f"the {role} inputs hold no {name}", fix=fix)
    if len(column) != len(inputs.ids):
        raise RejectedInputError(f"{len(column)} {name.rsplit(maxsplit=1)[-1]} came with {len(inputs.ids)} {role} ids")
    return column


def require_dense(
    inputs: Inputs, role: str, *, cosine: bool, dimensions: int | None = None, least: float = _LEAST_SQUARE
) -> Float32Array:
    """Return the dense vectors of ``inputs``, float32 (n, d); ``role`` is ``"document"`` or ``"query"``.

    Raises RejectedInputError if there are no vectors, if their number differs from the ids', if they do not have
    ``dimensions`` dimensions (None: any number above 0), and for the first row with NaN or infinite values. With
    ``cosine`` also for the first row whose squared length is not a float32 number of at least ``least``: engines
    normalise in float32, and get nothing, NaN or an arbitrary direction; some leave short vectors as they are.
    """
    vectors = _column(inputs, inputs.dense, role, "dense vectors", "encode them with a dense model")
    if vectors.dtype != np.float32 or vectors.ndim != 2 or not vectors.flags.c_contiguous or not vectors.shape[1]:
        raise RejectedInputError(
            f"the {role} vectors are an array of {vectors.dtype} of shape {vectors.shape}",
            fix="hand over C-contiguous float32 of shape (number, dimensions)",
        )
    if dimensions is not None and vectors.shape[1] != dimensions:
        raise RejectedInputError(
            f"the {role} vectors have {vectors.shape[1]} dimensions, the index has {dimensions}",
            fix="encode documents and queries with one model and one truncate_dim",
        )
    for start in range(0, len(vectors), _ROWS_PER_BLOCK):
        _require_good_rows(vectors[start : start + _ROWS_PER_BLOCK], inputs.ids, start, role, least if cosine else None)
    return vectors


def _require_good_rows(rows: Float32Array, ids: Ids, start: int, role: str, least: float | None) -> None:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise RejectedInputError(
            f"the vector of {role} '{ids[start + int(np.argmin(finite))]}' has a value that is NaN or infinite",
            fix=_WRONG_ANSWERS,
        )
    if least is None:
        return
    squared = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    directed = (squared >= least) & (squared <= np.finfo(np.float32).max)
    if not directed.all():
        row = int(np.argmin(directed))
        raise RejectedInputError(
            f"the vector of {role} '{ids[start + row]}' has the length {np.sqrt(squared[row]):.3g}: it has no cosine",
            fix="leave the row out, let the encoder normalise, or take the similarity dot or l2",
        )
