"""A dense index on disk: ``.npy`` arrays and a JSON header, nothing pickled."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Float64Array, Int32Array
from harness.exact.storage import begin, damaged, finish, load_optional, open_header, save_optional
from harness.store.columns import load_column, save_column

__all__ = ["StoredDense", "load_dense", "save_dense"]

_KIND = "dense"


class StoredDense(NamedTuple):
    """What an index consists of: vectors (n, d), their lengths (n,), rows in the order of ties (n,) or None."""

    documents: Float32Array
    lengths: Float64Array
    order: Int32Array | None


def save_dense(folder: Path, documents: Float32Array, lengths: Float64Array, order: Int32Array | None) -> None:
    """Write an index; the header comes last, so that an interrupted save is noticed."""
    begin(folder)
    save_column(folder / "vectors.npy", documents)
    save_column(folder / "lengths.npy", lengths)
    save_optional(folder, "order", order)
    finish(folder, _KIND, {"counts": {"documents": documents.shape[0], "dimensions": documents.shape[1]}})


def load_dense(folder: Path, *, verify: bool) -> StoredDense:
    """Memory-map an index; see :meth:`DenseIndex.load`."""
    header = open_header(folder, _KIND, verify=verify)
    documents, lengths = load_column(folder / "vectors.npy"), load_column(folder / "lengths.npy")
    order = load_optional(folder, "order", header)
    count, dimensions = header["counts"]["documents"], header["counts"]["dimensions"]
    kinds = (documents.dtype.str, lengths.dtype.str, "<i4" if order is None else order.dtype.str)
    shapes = (documents.shape, lengths.shape, (count,) if order is None else order.shape)
    if kinds != ("<f4", "<f8", "<i4") or shapes != ((count, dimensions), (count,), (count,)):
        raise damaged(folder, f"arrays of shape {shapes}, the header says {count} documents of {dimensions} dimensions")
    if order is not None and not np.array_equal(np.sort(order), np.arange(count)):
        raise damaged(folder, "the order of ties is none")
    return StoredDense(documents, lengths, order)
