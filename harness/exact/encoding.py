"""Convert any model's vectors to checked CSR rows, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import numpy as np

from harness.data.python_values import as_array
from harness.data.types import Float32Array, Int32Array, SparseVectors, offsets_of, owners
from harness.errors import DataError, UsageError
from harness.exact.postings import as_sparse

_DIMENSIONS = int(np.iinfo(np.int32).max)


class EncodesTexts(Protocol):
    """A model: for a list of texts, a dense array (n, d), a SciPy sparse matrix (n, d), or n mappings {dim: weight}."""

    def encode_documents(self, texts: list[str]) -> Any:
        """Return the vectors of documents, in order."""

    def encode_queries(self, texts: list[str]) -> Any:
        """Return the vectors of queries, in order."""


def encode_documents(
    model: EncodesTexts, texts: Iterable[str], *, batch_size: int = 256, dimensions: int | None = None
) -> SparseVectors:
    """Encode documents with ``model.encode_documents``, batch by batch, as float32 CSR rows.

    Of dense arrays the values other than zero are kept. Any real dtype is cast to float32. No texts give no rows.

    Args:
        model: encodes one batch of texts.
        texts: the documents, in order.
        batch_size: texts of one call.
        dimensions: width of the result; None takes the model's own width, and for mappings the highest index plus one.

    Raises:
        DataError: the model returns another number of rows than texts, widths that differ between batches, or rows with
            NaN or infinite values.
        UsageError: the batch size is below 1, or ``texts`` is one string.
    """
    return _encode(model.encode_documents, texts, batch_size, dimensions, "documents")


def encode_queries(
    model: EncodesTexts, texts: Iterable[str], *, batch_size: int = 256, dimensions: int | None = None
) -> SparseVectors:
    """Encode queries with ``model.encode_queries``; see :func:`encode_documents`."""
    return _encode(model.encode_queries, texts, batch_size, dimensions, "queries")


def widen(vectors: SparseVectors, dimensions: int) -> SparseVectors:
    """Return the same rows over at least ``dimensions`` dimensions; arrays are shared."""
    return replace(vectors, dimensions=max(dimensions, vectors.dimensions))


def _encode(
    encode: Callable[[list[str]], Any], texts: Iterable[str], batch_size: int, dimensions: int | None, source: str
) -> SparseVectors:
    if batch_size < 1:
        raise UsageError(f"batch_size is {batch_size}", fix="batch_size must be at least 1")
    if isinstance(texts, str):
        raise UsageError(f"the {source} are one string", fix="give a list of texts")
    parts: list[SparseVectors] = []
    first = 0
    for batch in _batches(texts, batch_size):
        rows = _rows(encode(batch), source, first)
        if len(rows) != len(batch):
            raise DataError(source, [f"the model gave {len(rows)} rows for the {len(batch)} texts from row {first} on"])
        parts.append(rows)
        first += len(batch)
    return _stack(parts, dimensions, source)


def _batches(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    stream = iter(texts)
    while batch := list(islice(stream, size)):
        yield batch


def _rows(encoded: Any, source: str, first: int) -> SparseVectors:
    """Convert one batch to unchecked CSR rows; the width of mappings stays open (0)."""
    from scipy.sparse import csr_array, issparse

    if issparse(encoded) or isinstance(encoded, SparseVectors):
        return as_sparse(encoded, source, first)
    if isinstance(encoded, Iterator):
        encoded = list(encoded)
    if isinstance(encoded, Sequence) and all(isinstance(row, Mapping) for row in encoded):
        return _rows_from_mappings(encoded, source, first)
    array = as_array(encoded)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        form = f"{type(encoded).__name__} of shape {array.shape} and dtype {array.dtype}"
        raise DataError(
            source,
            [f"from row {first} on the model gave {form}"],
            fix="give a dense array (n, d), a SciPy sparse matrix, or a list of {dim: weight}",
        )
    with np.errstate(over="ignore"):  # an overflow is refused with its row
        return as_sparse(csr_array(array.astype(np.float32, copy=False)), source, first)


def _rows_from_mappings(rows: Sequence[Mapping[int, float]], source: str, first: int) -> SparseVectors:
    indptr = offsets_of(np.array([len(row) for row in rows], dtype=np.int64))
    try:
        wide = np.fromiter((index for row in rows for index in row), np.float64, int(indptr[-1]))
        with np.errstate(over="ignore"):
            weights = np.fromiter((weight for row in rows for weight in row.values()), np.float64).astype(np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(source, [f"from row {first} on: not {{whole number: weight}}: {error}"]) from error
    if not ((wide >= 0) & (wide < _DIMENSIONS) & (wide == np.floor(wide))).all():
        raise DataError(
            source, [f"from row {first} on: an index is not a whole number, or outside 0 to {_DIMENSIONS - 1}"]
        )
    order = np.lexsort((wide, owners(indptr)))
    indices: Int32Array = wide[order].astype(np.int32)
    values: Float32Array = weights[order]
    width = int(wide.max(initial=-1)) + 1
    checked = as_sparse(SparseVectors(indptr, indices, values, width), source, first)
    return replace(checked, dimensions=0)


def _stack(parts: list[SparseVectors], dimensions: int | None, source: str) -> SparseVectors:
    widths = {part.dimensions for part in parts} - {0}
    if len(widths) > 1:
        raise DataError(source, [f"the model gave rows of different widths: {sorted(widths)}"])
    highest = max((int(part.indices.max(initial=-1)) + 1 for part in parts), default=0)
    width = dimensions if dimensions is not None else max(widths, default=highest)
    if highest > width:
        raise DataError(source, [f"index {highest - 1} is outside the {width} dimensions"])
    offsets = np.cumsum([0, *(part.nnz for part in parts)])
    indptr = [part.indptr[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
    return SparseVectors(
        np.concatenate([*indptr, offsets[-1:]]).astype(np.int64),
        np.concatenate([np.empty(0, dtype=np.int32), *(part.indices for part in parts)]),
        np.concatenate([np.empty(0, dtype=np.float32), *(part.values for part in parts)]),
        width,
    )
