"""Columns on disk: sparse vectors as ``.npy`` files, string columns as uncompressed Arrow IPC files.

Both open memory-mapped: a few milliseconds and no additional memory. Nothing here is ever pickled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.document_rows import DocumentRows, blocks_of
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.errors import CacheError

_READING = threading.Lock()
"""One header at a time: NumPy parses it by ``ast``, which fails in threads of CPython before 3.11.8 (gh-106905)."""
_ZEROS = 1 << 20
"""Bytes that are written at a time if the system cannot reserve space."""


def save_table(path: Path, table: pa.Table) -> None:
    """Write an Arrow table as an uncompressed IPC file, which can be memory-mapped; see :func:`save_column`."""
    path.unlink(missing_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def load_table(path: Path) -> pa.Table:
    """Memory-map a table that :func:`save_table` wrote; raises CacheError when the file is missing or damaged."""
    with readable(path):
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def save_ids(path: Path, ids: Ids) -> None:
    """Write an id column."""
    save_table(path, pa.table({"id": ids.values}))


def load_ids(path: Path) -> Ids:
    """Memory-map an id column that :func:`save_ids` wrote."""
    column = load_table(path).column("id").combine_chunks()
    return Ids(column)


def save_sparse(folder: Path, name: str, vectors: SparseVectors) -> None:
    """Write ``name.indptr.npy``, ``name.indices.npy``, ``name.values.npy`` and ``name.dimensions.npy``."""
    save_column(folder / f"{name}.indptr.npy", vectors.indptr)
    save_column(folder / f"{name}.indices.npy", vectors.indices)
    save_column(folder / f"{name}.values.npy", vectors.values)
    save_column(folder / f"{name}.dimensions.npy", np.array(vectors.dimensions, dtype=np.int64))


def save_rows(folder: Path, name: str, documents: DocumentRows) -> None:
    """Write weights as :func:`save_sparse` does, a block at a time; every stored value must have a weight.

    Raises OSError if the disk has no room.
    """
    indptr = documents.indptr
    save_column(folder / f"{name}.indptr.npy", indptr)
    save_column(folder / f"{name}.dimensions.npy", np.array(documents.dimensions, dtype=np.int64))
    indices = reserved_column(folder / f"{name}.indices.npy", np.dtype(np.int32), int(indptr[-1]))
    values = reserved_column(folder / f"{name}.values.npy", np.dtype(np.float32), int(indptr[-1]))
    for start, block in blocks_of(documents):
        first = int(indptr[start])
        indices[first : first + block.nnz] = block.indices
        values[first : first + block.nnz] = block.values
    for column in (indices, values):
        column.flush()


def load_sparse(folder: Path, name: str) -> SparseVectors:
    """Memory-map vectors that :func:`save_sparse` wrote; raises CacheError when a file is missing or damaged."""
    indptr, indices, values, dimensions = (
        load_column(folder / f"{name}.{part}.npy") for part in ("indptr", "indices", "values", "dimensions")
    )
    return SparseVectors(indptr, indices, values, int(dimensions))


def load_vectors(folder: Path, name: str) -> SparseVectors | Float32Array:
    """Memory-map the vectors ``name`` of a folder: dense vectors of ``name.npy``, C-contiguous (n, d), or sparse ones.

    Raises CacheError when a file is missing or damaged.
    """
    dense = folder / f"{name}.npy"
    return load_column(dense) if dense.exists() else load_sparse(folder, name)


def save_column(path: Path, array: npt.NDArray[Any]) -> None:
    """Write one ``.npy`` file, always a new one: mappings of an earlier one, ``array`` too, keep their content."""
    path.unlink(missing_ok=True)
    np.save(path, array, allow_pickle=False)


def reserved_column(path: Path, dtype: np.dtype[Any], count: int) -> np.memmap[Any, Any]:
    """Return a new ``.npy`` file of ``count`` values, mapped for writing.

    Its space is reserved on the disk: writing to a mapping without space would end the process with SIGBUS. Raises
    OSError if there is not enough.
    """
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    with path.open("xb") as file:
        # NumPy maps a file only if it has its full length: it gets the header now, and the values later
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        size = file.tell() + count * dtype.itemsize
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            zeros = bytes(_ZEROS)
            for start in range(file.tell(), size, _ZEROS):
                file.write(zeros[: size - start])
    column: np.memmap[Any, Any] = np.load(path, mmap_mode="r+", allow_pickle=False)
    return column


def load_column(path: Path) -> npt.NDArray[Any]:
    """Memory-map one ``.npy`` file; raises CacheError when it is missing or damaged."""
    with readable(path):
        try:
            return read_array(path, mapped=True)
        except ValueError:  # of an array without elements, which cannot be mapped, or of a damaged one
            return read_array(path)


def read_array(path: Path, *, mapped: bool = False) -> npt.NDArray[Any]:
    """Return the array of one ``.npy`` file, read into memory or mapped; raises NumPy's exceptions."""
    with _READING:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    return array


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn any exception of reading a file into a CacheError that names the file."""
    try:
        yield
    except (OSError, ValueError, EOFError, pa.ArrowException) as error:
        raise CacheError(f"cannot read '{path}': {error}", fix="delete its folder; it is rebuilt") from error
