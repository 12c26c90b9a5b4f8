"""Store indexes and encoded matrices on disk: ``.npy`` columns and a small JSON header, nothing pickled."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors
from harness.errors import CacheError, DataError, UsageError
from harness.exact.postings import Postings, freeze
from harness.store.columns import load_ids, load_sparse, save_column, save_ids, save_sparse

_FORMAT = "harness.reference"
"""The name in stored headers, which is older than the package's."""
_VERSION = 1
_HEADER = "header.json"
_SPARSE, _ENCODED = "sparse", "encoded"
_CHUNK_BYTES = 1 << 22
_DAMAGED = "delete the folder and save it again"


@dataclass(frozen=True, eq=False)
class StoredIndex:
    """Content of a :class:`harness.exact.SparseIndex`: postings, and rows in the order of ties and the IDF, if any."""

    postings: Postings
    documents: int
    order: Int32Array | None
    idf: Float32Array | None


@dataclass(frozen=True, eq=False)
class EncodedDocuments:
    """Encoded documents: the matrix, one id a row, and the IDF of each dimension when there is one (float32)."""

    vectors: SparseVectors
    ids: Ids
    idf: Float32Array | None = None


def save_index(folder: Path, index: StoredIndex) -> None:
    """Write an index."""
    columns, rows, values, _ = index.postings
    counts = {"documents": index.documents, "dimensions": len(columns) - 1, "postings": len(values)}
    with writing(folder, _SPARSE, counts):
        by_column = SparseVectors(columns.view(np.int64), rows.view(np.int32), values, index.documents)
        save_sparse(folder, "postings", by_column)
        save_optional(folder, order=index.order, idf=index.idf)


def load_index(folder: Path, *, verify: bool) -> StoredIndex:
    """Memory-map an index; see :meth:`SparseIndex.load`."""
    header = open_header(folder, _SPARSE, verify=verify)
    counts = header["counts"]
    by_column = load_sparse(folder, "postings")
    order, idf = (load_optional(folder, name, header) for name in ("order", "idf"))
    _check_shape(folder, by_column, (counts["documents"], counts["dimensions"], counts["postings"]))
    if (order is not None and len(order) != counts["documents"]) or (idf is not None and len(idf) != len(by_column)):
        raise damaged(folder, "an array has another length than the header says")
    postings = freeze(by_column.indptr.view(np.uint64), by_column.indices.view(np.uint32), by_column.values)
    return StoredIndex(postings, by_column.dimensions, order, idf)


def save_encoded(folder: Path | str, encoded: EncodedDocuments) -> None:
    """Write a matrix with its ids and IDF into ``folder`` (made when missing). Raises UsageError when they disagree."""
    folder, vectors = Path(folder), encoded.vectors
    if len(encoded.ids) != len(vectors):
        raise UsageError(
            f"{len(encoded.ids)} ids for {len(vectors)} rows", fix="give one id for each row of the matrix"
        )
    with writing(
        folder,
        _ENCODED,
        {"documents": len(vectors), "dimensions": vectors.dimensions, "postings": vectors.nnz},
    ):
        save_sparse(folder, "vectors", vectors)
        save_ids(folder / "ids.arrow", encoded.ids)
        save_optional(folder, idf=encoded.idf)


def load_encoded(folder: Path | str, *, verify: bool = True) -> EncodedDocuments:
    """Memory-map the arrays that :func:`save_encoded` wrote.

    ``verify`` reads everything once to compare checksums. Raises CacheError for a missing or damaged file, DataError
    for a folder that holds something else or a newer format.
    """
    folder = Path(folder)
    header = open_header(folder, _ENCODED, verify=verify)
    counts = header["counts"]
    vectors, ids, idf = (
        load_sparse(folder, "vectors"),
        load_ids(folder / "ids.arrow"),
        load_optional(folder, "idf", header),
    )
    _check_shape(folder, vectors, (counts["dimensions"], counts["documents"], counts["postings"]))
    if len(ids) != len(vectors) or (idf is not None and len(idf) != vectors.dimensions):
        raise damaged(folder, "an array has another length than the header says")
    return EncodedDocuments(vectors, ids, idf)


@contextmanager
def writing(folder: Path, kind: str, counts: Mapping[str, int]) -> Iterator[None]:
    """Make ``folder`` for files that the block writes; the header with their checksums follows, atomically.

    The files by which a reader recognises a finished folder are removed first, so that an interrupted save is noticed.
    Raises CacheError if the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (_HEADER, "order.npy", "idf.npy"):
            (folder / name).unlink(missing_ok=True)
        yield
        files = {path.name: _checksum(path) for path in sorted(folder.iterdir()) if path.suffix in (".npy", ".arrow")}
        header = {"format": f"{_FORMAT}.{kind}", "version": _VERSION, "counts": counts, "files": files}
        temporary = folder / f"{_HEADER}.{os.getpid()}"
        temporary.write_text(json.dumps(header, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        temporary.replace(folder / _HEADER)
    except OSError as error:
        raise CacheError(
            f"nothing can be saved in '{folder}': {error}", fix="name a folder that can be written"
        ) from error


def open_header(folder: Path, kind: str, *, verify: bool) -> dict[str, Any]:
    """Read the header of a folder of ``kind``; raises CacheError for damaged files, DataError for another kind."""
    if not (folder / _HEADER).exists():
        raise CacheError(
            f"there is no saved index in '{folder}': it has no {_HEADER}",
            fix="name a folder that an index was saved in, or save again if saving was interrupted",
        )
    try:
        header = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CacheError(f"cannot read '{folder / _HEADER}': {error}", fix=_DAMAGED) from error
    identity = (header.get("format"), header.get("version")) if isinstance(header, dict) else (None, None)
    if identity != (f"{_FORMAT}.{kind}", _VERSION):
        raise DataError(
            str(folder / _HEADER),
            [f"holds {identity[0]} version {identity[1]}, expected {_FORMAT}.{kind} version {_VERSION}"],
        )
    if not {"counts", "files"} <= header.keys():
        raise damaged(folder, "the header is incomplete")
    for name, (size, checksum) in header["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise damaged(folder, f"'{name}' is missing or has another size")
        if verify and _checksum(path)[1] != checksum:
            raise damaged(folder, f"the checksum of '{name}' differs")
    result: dict[str, Any] = header
    return result


def _check_shape(folder: Path, vectors: SparseVectors, expected: tuple[int, int, int]) -> None:
    """Compare (width, rows, stored values) with the header: kernels do not check their indices."""
    indptr, shape = vectors.indptr, (vectors.dimensions, len(vectors), vectors.nnz)
    kinds = [array.dtype.str for array in (indptr, vectors.indices, vectors.values)]
    if shape != expected or kinds != ["<i8", "<i4", "<f4"]:
        raise damaged(folder, f"arrays of shape {shape}, the header says {expected}")
    if len(vectors.indices) != vectors.nnz or indptr[0] != 0 or indptr[-1] != vectors.nnz:
        raise damaged(folder, "indptr does not fit the values")


def _checksum(path: Path) -> list[int]:
    """Return [bytes, CRC-32] of a file."""
    checksum = 0
    with path.open("rb") as stream:
        while block := stream.read(_CHUNK_BYTES):
            checksum = zlib.crc32(block, checksum)
    return [path.stat().st_size, checksum]


def save_optional(folder: Path, **arrays: npt.NDArray[Any] | None) -> None:
    """Write ``name.npy`` for each array that is not None."""
    for name, array in arrays.items():
        if array is not None:
            save_column(folder / f"{name}.npy", array)


def load_optional(folder: Path, name: str, header: Mapping[str, Any]) -> Any:
    """Load the column that :func:`save_optional` wrote, None when it wrote none."""
    if f"{name}.npy" not in header["files"]:
        return None
    return np.load(folder / f"{name}.npy", allow_pickle=False)


def damaged(folder: Path, problem: str) -> CacheError:
    """Return the error for a folder whose files contradict one another."""
    return CacheError(f"'{folder}' is damaged: {problem}", fix=_DAMAGED)
