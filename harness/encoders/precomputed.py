"""``precomputed:FOLDER``: stored vectors of the user, selected by id and checked against the collection."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import as_numpy, read_parquet
from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.encoders.settings import Facts, Role, Rows, Settings
from harness.errors import DataError
from harness.exact.postings import as_sparse

_SUFFIXES = (".npy", ".npz", ".parquet")
_IDS = ".ids.txt"
_SHOWN = 20
_NO_IDS = "no ids say whose vectors these are"
_LAYOUT = (
    "the folder holds documents.npy, .npz or .parquet and the same for queries; .npy and SciPy's .npz have their ids, "
    "one a line, in documents.ids.txt and queries.ids.txt"
)


class _Stored(NamedTuple):
    """Vectors of one file and the row of each id.

    A dictionary, about 150 bytes an id: looking up a few ids in an Arrow column would hash the whole column each time.
    """

    file: Path
    rows: Mapping[str, int]
    vectors: Float32Array | SparseVectors


class Precomputed:
    """Vectors of a folder, read when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        self._folder, self._encoder = Path(settings.source.name), settings.encoder
        self._read: dict[Role, _Stored] = {}

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
            self._read[source] = _read(self._folder, source, sparse=self._encoder == "splade")
        stored = self._read[source]
        rows = np.array([stored.rows.get(name, -1) for name in texts.ids.to_list()], dtype=np.int32)
        missing = texts.ids.take(np.flatnonzero(rows < 0))
        if missing:
            problem = f"has no vector for {len(missing)} or more {role}: {', '.join(missing[:_SHOWN])}"
            raise DataError(str(stored.file), [problem], fix="make vectors of these, too")
        if isinstance(stored.vectors, SparseVectors):
            return stored.vectors.take(rows)
        return np.ascontiguousarray(stored.vectors[rows], dtype=np.float32)


def find_files(folder: Path, role: Role, *, needed: bool = True) -> list[Path]:
    """Return the file of vectors of ``role`` and, if they are separate, the file of their ids.

    Raises DataError for two files of vectors, and for none if they are ``needed``.
    """
    files = [path for suffix in _SUFFIXES if (path := folder / f"{role}{suffix}").is_file()]
    if not files and not needed:
        return []
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        raise DataError(str(folder), [f"one file of vectors of {role} is needed, there is {names}"], fix=_LAYOUT)
    ids = folder / f"{role}{_IDS}"
    return [*files, *([ids] if files[0].suffix != ".parquet" and ids.is_file() else [])]


def require_files(folder: Path, role: Role) -> None:
    """Raise DataError if a folder lacks the vectors of ``role``, or a file of their ids where they need one."""
    vectors, *ids = find_files(folder, role)
    if vectors.suffix == ".npy" and not ids:
        raise DataError(str(vectors), [_NO_IDS], fix=_LAYOUT)


def _read(folder: Path, role: Role, *, sparse: bool) -> _Stored:
    file, *ids_file = find_files(folder, role)
    ids: Ids | None
    try:
        if file.suffix == ".parquet":
            ids, vectors = _parquet(file)
        else:
            loaded = np.load(file, mmap_mode="r", allow_pickle=False)
            vectors, ids = (loaded, None) if file.suffix == ".npy" else _npz(file, loaded)
            ids = Ids.of(ids_file[0].read_text(encoding="utf-8").splitlines()) if ids_file else ids
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, pa.ArrowException) as error:
        raise DataError(str(file), [f"cannot be read: {error}"], fix=_LAYOUT) from error
    if ids is None:
        raise DataError(str(file), [_NO_IDS], fix=_LAYOUT)
    rows = {name: row for row, name in enumerate(ids.to_list())}
    _check(file, ids, vectors, distinct=len(rows), sparse=sparse)
    return _Stored(file, rows, vectors)


def _npz(file: Path, arrays: Any) -> tuple[Any, Ids | None]:  # noqa: ANN401 - NumPy's archive
    """Return ``vectors`` (n, d), or the matrix of ``scipy.sparse.save_npz``, and the ids if the file holds them."""
    ids = Ids.of(map(str, arrays["ids"].tolist())) if "ids" in arrays else None
    if "vectors" in arrays:
        return arrays["vectors"], ids
    from scipy.sparse import csr_array

    if not {"data", "indices", "indptr", "shape"} <= set(arrays):
        raise DataError(str(file), [f"holds {', '.join(arrays)}: neither 'vectors' nor a CSR matrix"], fix=_LAYOUT)
    matrix = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
    return as_sparse(matrix, str(file)), ids


def _parquet(file: Path) -> tuple[Ids, Any]:
    """Read columns ``id`` and ``vector`` (lists of numbers), or ``id``, ``indices`` and ``values`` (lists)."""
    table = read_parquet(file)
    names = table.column_names
    ids = Ids.of(map(str, table.column("id").to_pylist()))
    if "vector" in names:
        lists = table.column("vector").combine_chunks()
        lengths = set(lists.value_lengths().unique().to_pylist())
        if len(lengths) > 1:
            raise DataError(str(file), [f"vectors of {sorted(map(str, lengths))} dimensions"], fix="all need the same")
        return ids, as_numpy(lists.flatten(), null=np.nan).reshape(len(ids), -1)
    if {"indices", "values"} <= set(names):
        return ids, _lists_to_sparse(file, table)
    raise DataError(str(file), [f"columns are {', '.join(names)}"], fix="id and vector, or id, indices and values")


def _lists_to_sparse(file: Path, table: pa.Table) -> SparseVectors:
    from scipy.sparse import csr_array

    indices, values = (table.column(name).combine_chunks() for name in ("indices", "values"))
    if not indices.value_lengths().equals(values.value_lengths()):
        raise DataError(str(file), ["a row has another number of indices than of values"])
    columns = as_numpy(indices.flatten())
    indptr = np.concatenate([[0], np.cumsum(as_numpy(indices.value_lengths()))])
    if len(columns) and int(columns.min()) < 0:
        raise DataError(str(file), ["an index is below 0"])
    shape = (len(table), int(columns.max(initial=-1)) + 1)
    weights = as_numpy(values.flatten(), null=np.nan)
    return as_sparse(csr_array((weights, columns, indptr), shape=shape), str(file))


def _check(file: Path, ids: Ids, vectors: Any, *, distinct: int, sparse: bool) -> None:  # noqa: ANN401 - either kind
    """Raise DataError for another number of ids than rows, repeated ids, and vectors of the other kind."""
    problems = []
    if len(ids) != len(vectors):
        problems.append(f"{len(ids)} ids for {len(vectors)} vectors")
    if distinct != len(ids):
        problems.append("an id occurs twice")
    if isinstance(vectors, SparseVectors) != sparse:
        kinds = ("sparse", "dense") if sparse else ("dense", "sparse")
        problems.append(f"{kinds[0]} vectors are wanted, and these are {kinds[1]}")
    elif not sparse and (vectors.ndim != 2 or vectors.dtype.kind not in "fiu"):
        problems.append(f"numbers of shape (n, d) are wanted: {vectors.dtype} of shape {vectors.shape}")
    if problems:
        raise DataError(str(file), problems, fix=_LAYOUT)
