"""``precomputed:PATH``: stored vectors of the user, selected by id and checked against the collection."""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import as_numpy, python_values, read_parquet
from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, SparseVectors, offsets_of
from harness.encoders.json_vectors import SUFFIXES as JSON_LINES
from harness.encoders.json_vectors import read_json_vectors
from harness.encoders.settings import Facts, Role, Rows, Settings
from harness.errors import DataError
from harness.exact.postings import as_sparse
from harness.store.decompression import READ_ERRORS, unpacked
from harness.store.neighbour_file import NeighbourFile
from harness.wording import counted

_SUFFIXES = (".npy", ".npz", ".parquet", *JSON_LINES)
_IDS = ".ids.txt"
_MAX_EXAMPLES = 20
_OTHER_KIND = "{} vectors are wanted, and these are {}"
_ROW_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}")
_NO_IDS = "no ids say whose vectors these are"
_LAYOUT = (
    "the folder holds documents.npy, .npz, .parquet or .jsonl and the same for queries; .npy and SciPy's .npz have "
    "their ids, one per line, in documents.ids.txt and queries.ids.txt"
)


class _RowNumbers(NamedTuple):
    """Ids that are row numbers, below ``end``."""

    end: int

    def get(self, name: str, default: int) -> int:
        """Return the row of an id, or ``default``."""
        row = int(name) if _ROW_NUMBER.fullmatch(name) else default
        return row if row < self.end else default


class _VectorsOnDisk(NamedTuple):
    """Vectors of an HDF5 file; only requested rows are read."""

    file: NeighbourFile
    role: Role

    def take(self, rows: Int32Array) -> Float32Array:
        """Return rows, in their order."""
        return self.file.vectors(self.role, rows)


class _StoredVectors(NamedTuple):
    """Vectors of one file and the row of each id.

    A dictionary, about 150 bytes an id: looking up a few ids in an Arrow column would hash the whole column each time.
    """

    file: Path
    rows: Mapping[str, int] | _RowNumbers
    vectors: Float32Array | SparseVectors | _VectorsOnDisk


class PrecomputedEncoder:
    """Vectors of a folder or of an HDF5 file, read when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        self._path, self._encoder = Path(settings.source.name), settings.encoder
        self._read: dict[Role, _StoredVectors] = {}

    @property
    def facts(self) -> Facts:
        """Nothing: the model behind the vectors is not known."""
        return {}

    @property
    def lengths(self) -> None:
        """Nothing: the texts are not read."""
        return None

    def encode(self, texts: Inputs, role: Role) -> Rows:
        """Return the rows of the ids of ``texts``; raises DataError naming the ids that have none.

        Without texts (an external index has no documents) the file of queries decides kind and width of the result.
        """
        source = role if len(texts) else "queries"
        if source not in self._read:
            read = _read_hdf5 if self._path.is_file() else _read_folder
            self._read[source] = read(self._path, source, sparse=self._encoder == "splade")
        stored = self._read[source]
        rows = np.array([stored.rows.get(name, -1) for name in texts.ids.to_list()], dtype=np.int32)
        missing = texts.ids.take(np.flatnonzero(rows < 0))
        if missing:
            problem = f"has no vector for {len(missing)} or more {role}: {', '.join(missing[:_MAX_EXAMPLES])}"
            raise DataError(str(stored.file), [problem], fix="make vectors of these, too")
        if isinstance(stored.vectors, SparseVectors | _VectorsOnDisk):
            return stored.vectors.take(rows)
        return np.ascontiguousarray(stored.vectors[rows], dtype=np.float32)


def find_files(folder: Path, role: Role, *, needed: bool = True) -> list[Path]:
    """Return the file of vectors of ``role``, and a second file that they depend on: of their ids, or of other terms.

    Raises DataError for two files of vectors, and for none if they are ``needed``.
    """
    files = [path for suffix in _SUFFIXES if (path := folder / f"{role}{suffix}").is_file()]
    if not files and not needed:
        return []
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        raise DataError(str(folder), [f"one file of vectors of {role} is needed, but there are {names}"], fix=_LAYOUT)
    if files[0].name.endswith(JSON_LINES):  # the terms of the other role have columns too
        other = "queries" if role == "documents" else "documents"
        return [*files, *(path for suffix in JSON_LINES if (path := folder / f"{other}{suffix}").is_file())]
    ids = folder / f"{role}{_IDS}"
    return [*files, *([ids] if files[0].suffix != ".parquet" and ids.is_file() else [])]


def require_files(folder: Path, role: Role) -> None:
    """Raise DataError if a folder lacks the vectors of ``role``, or a file of their ids if they need one.

    An HDF5 file is not opened.
    """
    if folder.is_file():
        return
    vectors, *ids = find_files(folder, role)
    if vectors.suffix == ".npy" and not ids:
        raise DataError(str(vectors), [_NO_IDS], fix=_LAYOUT)


def _read_hdf5(path: Path, role: Role, *, sparse: bool) -> _StoredVectors:
    file = NeighbourFile(path)
    if sparse:
        file.close()
        raise DataError(str(path), [_OTHER_KIND.format("sparse", "dense")], fix="use a dense backend")
    return _StoredVectors(
        path, _RowNumbers(file.documents if role == "documents" else file.queries), _VectorsOnDisk(file, role)
    )


def _read_folder(folder: Path, role: Role, *, sparse: bool) -> _StoredVectors:
    file, *ids_file = find_files(folder, role)
    ids: Ids | None
    try:
        if file.suffix == ".parquet":
            ids, vectors = _parquet(file)
        elif file.name.endswith(JSON_LINES):
            ids, vectors = read_json_vectors(file, next(iter(ids_file), None))
        else:
            if file.suffix == ".npy":
                vectors, ids = np.load(file, mmap_mode="r", allow_pickle=False), None
            else:
                vectors, ids = _npz(file, _arrays_of_npz(file))
            ids = Ids.of(ids_file[0].read_text(encoding="utf-8").splitlines()) if ids_file else ids
    except (*READ_ERRORS, ValueError, KeyError, pa.ArrowException) as error:
        raise DataError(str(file), [f"cannot be read: {error}"], fix=_LAYOUT) from error
    if ids is None:
        raise DataError(str(file), [_NO_IDS], fix=_LAYOUT)
    rows = {name: row for row, name in enumerate(ids.to_list())}
    _check(file, ids, vectors, distinct=len(rows), sparse=sparse)
    return _StoredVectors(file, rows, vectors)


def _arrays_of_npz(file: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an archive by name.

    Raises DataError beyond the limits of decompressed content, and the exceptions of reading a damaged file.
    """
    arrays = {}
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            raw = cast("BinaryIO", archive.open(member))
            with unpacked(raw, f"{file}: {member.filename}", member.compress_size, lines=False) as stream:
                stated = _stated_bytes(stream)
                if stated > member.file_size:
                    problem = f"'{member.filename}' states {stated:,} bytes of numbers, and has {member.file_size:,}"
                    raise DataError(str(file), [problem], fix="write the file again")
                stream.seek(0)
                array = np.lib.format.read_array(stream, allow_pickle=False)
            arrays[member.filename.removesuffix(".npy")] = array
    return arrays


def _stated_bytes(stream: BinaryIO) -> int:
    """Return the bytes that the header of an array states; they are reserved before the first is read."""
    version = np.lib.format.read_magic(stream)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = header(stream)
    return math.prod(shape) * int(dtype.itemsize)


def _npz(file: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[Any, Ids | None]:
    """Return ``vectors`` (n, d), or the matrix of ``scipy.sparse.save_npz``, and the ids if the file holds them."""
    ids = Ids.of(map(str, arrays["ids"].tolist())) if "ids" in arrays else None
    if "vectors" in arrays:
        return arrays["vectors"], ids
    from scipy.sparse import csr_array

    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        raise DataError(str(file), [f"holds {', '.join(arrays)}: neither 'vectors' nor a CSR matrix"], fix=_LAYOUT)
    indices, indptr = (_as_integers(file, name, arrays[name]) for name in ("indices", "indptr"))
    matrix = csr_array((arrays["data"], indices, indptr), shape=tuple(arrays["shape"].tolist()))
    return as_sparse(matrix, str(file)), ids


def _as_integers(file: Path, name: str, array: Any) -> Int64Array:
    """Return whole numbers as int64; raises DataError for others, and for numbers that int64 does not hold."""
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(str(file), [f"'{name}' holds {array.dtype}, expected whole numbers"])
    if len(array) and int(array.max()) > np.iinfo(np.int64).max:
        raise DataError(str(file), [f"'{name}' holds {array.max()}, which is beyond 64 bits"])
    integers: Int64Array = array.astype(np.int64)
    return integers


def _parquet(file: Path) -> tuple[Ids, Any]:
    """Read columns ``id`` and ``vector`` (lists of numbers), or ``id``, ``indices`` and ``values`` (lists)."""
    table = read_parquet(file)
    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(str(file), [f"the column '{name}' occurs {names.count(name)} times" for name in repeated])
    ids = Ids.of(map(str, python_values(table.column("id"), "id")))
    if "vector" in names:
        lists = _lists(file, table, "vector")
        lengths = set(lists.value_lengths().unique().to_pylist())
        if len(lengths) > 1:
            raise DataError(str(file), [f"vectors of {sorted(map(str, lengths))} dimensions"], fix="all need the same")
        return ids, as_numpy(lists.flatten(), null=np.nan).reshape(len(ids), *map(int, lengths))
    if {"indices", "values"} <= set(names):
        return ids, _lists_to_sparse(file, table)
    raise DataError(str(file), [f"columns are {', '.join(names)}"], fix="id and vector, or id, indices and values")


def _lists(file: Path, table: pa.Table, name: str) -> pa.ListArray:
    """Return a column of lists of numbers in one piece; raises DataError for any other column and for nulls."""
    column = table.column(name)
    types = pa.types
    lists = types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)
    if not lists or not (types.is_integer(column.type.value_type) or types.is_floating(column.type.value_type)):
        raise DataError(str(file), [f"'{name}' holds {column.type}, expected lists of numbers"])
    if column.null_count:
        raise DataError(str(file), [f"'{name}' has {counted(column.null_count, 'row')} without a list"])
    return pa.concat_arrays(column.chunks or [pa.nulls(0, column.type)])


def _lists_to_sparse(file: Path, table: pa.Table) -> SparseVectors:
    from scipy.sparse import csr_array

    indices, values = (_lists(file, table, name) for name in ("indices", "values"))
    if not indices.value_lengths().equals(values.value_lengths()):
        raise DataError(str(file), ["a row has another number of indices than of values"])
    columns = _as_integers(file, "indices", as_numpy(indices.flatten()))
    indptr = offsets_of(as_numpy(indices.value_lengths()))
    if len(columns) and int(columns.min()) < 0:
        raise DataError(str(file), ["an index is below 0"])
    shape = (len(table), int(columns.max(initial=-1)) + 1)
    weights = as_numpy(values.flatten(), null=np.nan)
    return as_sparse(csr_array((weights, columns, indptr), shape=shape), str(file))


def _check(file: Path, ids: Ids, vectors: Any, *, distinct: int, sparse: bool) -> None:
    """Raise DataError for another number of ids than rows, repeated ids, and vectors of the other kind."""
    problems = []
    if len(ids) != len(vectors):
        problems.append(f"{len(ids)} ids for {len(vectors)} vectors")
    if distinct != len(ids):
        problems.append("an id occurs twice")
    if isinstance(vectors, SparseVectors) != sparse:
        kinds = ("sparse", "dense") if sparse else ("dense", "sparse")
        problems.append(_OTHER_KIND.format(*kinds))
    elif not sparse and (vectors.ndim != 2 or vectors.dtype.kind not in "fiu"):
        problems.append(f"numbers of shape (n, d) are wanted: {vectors.dtype} of shape {vectors.shape}")
    if problems:
        raise DataError(str(file), problems, fix=_LAYOUT)
