"""Vectors and their nearest neighbours in one HDF5 file, as ann-benchmarks distributes its datasets.

``train`` (n, d) are the vectors of the documents, ``test`` (q, d) the vectors of the queries, and ``neighbors`` (q, K)
the rows of each query's nearest documents, the nearest first. The attribute ``distance`` names the distance of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from harness.data.problems import Problems
from harness.data.types import Float32Array, Int32Array, Int64Array, Similarity
from harness.errors import DataError
from harness.registry.optional import require
from harness.store.decompression import expanded_limit

ENDINGS = (".hdf5", ".h5")
"""The endings of HDF5 files."""
SIMILARITIES: Mapping[str, Similarity] = MappingProxyType(
    {"angular": "cosine", "cosine": "cosine", "euclidean": "l2", "l2": "l2", "dot": "dot", "ip": "dot"}
)
"""Distances that can be measured, with the similarity that orders documents as they do."""
SIGNATURE = b"\x89HDF\r\n\x1a\n"
"""The first bytes of HDF5 files."""
ENTRIES: Mapping[str, str] = MappingProxyType(
    {
        "`train`": "the documents' vectors: numbers of shape (n, d)",
        "`test`": "the queries' vectors: numbers of shape (q, d)",
        "`neighbors`": "rows of `train`, the nearest first: whole numbers of shape (q, K), -1 for none; "
        "without it there are no judgments",
        "attribute `distance`": "the distance between vectors",
        "attributes `dimension`, `type`, `point_type`": "if given, d, `dense` and `float`",
        "`distances`": "not read",
    }
)
"""Entries of a file, and their content in Markdown."""
_DATASETS = {"documents": "train", "queries": "test"}
_NEIGHBOURS = "neighbors"
_ATTRIBUTES = ("distance", "dimension", "point_type", "type")
_LAYOUT = "the file has 'train', 'test' and 'neighbors', and the attribute 'distance', as ann-benchmarks writes them"
_ONLY_DENSE = f"dense vectors of numbers are read, with one of the distances {', '.join(SIMILARITIES)}"
_MOST_ROWS = 2**31 - 1


def is_neighbour_file(path: Path) -> bool:
    """Return whether a path is an HDF5 file, by its first bytes or its ending."""
    if not path.is_file():
        return False
    if path.suffix.lower() in ENDINGS:
        return True
    try:
        with path.open("rb") as stream:
            return stream.read(len(SIGNATURE)) == SIGNATURE
    except OSError:  # the reader of another format reports it
        return False


class NeighbourFile:
    """An open file, whose vectors are read in parts; closed by :meth:`close` or a ``with`` statement.

    ``documents``, ``queries`` and ``dimensions`` count rows and columns.
    """

    def __init__(self, path: Path) -> None:
        """Open a file and check its shapes.

        Raises:
            DataError: it is not an HDF5 file, is damaged, or lacks dense vectors of documents and queries.
            MissingExtraError: the package h5py is not installed.
        """
        h5py = require("h5py", extra="files", feature=f"'{path.name}', an HDF5 file,")
        self._path = path
        with ExitStack() as unless_checked, self._readable():
            self._file = unless_checked.enter_context(h5py.File(path, "r"))
            stored = self._file.attrs
            self.attributes = {name: _plain(stored[name]) for name in _ATTRIBUTES if name in stored}
            self._refuse_other_points()
            shapes = [self._vectors(role).shape for role in ("documents", "queries")]
            (self.documents, self.dimensions), (self.queries, dimensions) = shapes
            self._refuse_widths(dimensions)
            unless_checked.pop_all()

    def __enter__(self) -> NeighbourFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    @property
    def name(self) -> str:
        """The path of the file, for messages."""
        return str(self._path)

    @property
    def distance(self) -> str:
        """The name of the distance; raises DataError for an unnamed one, and for one that is not measured."""
        measured = ", ".join(SIMILARITIES)
        if "distance" not in self.attributes:
            problem = "has no attribute 'distance', which names the distance between vectors"
            raise DataError(str(self._path), [problem], fix=f"set it with h5py to one of {measured}")
        distance = str(self.attributes["distance"])
        if distance not in SIMILARITIES:
            problem = f"its distance is '{distance}', and the distances that can be measured are {measured}"
            raise DataError(str(self._path), [problem], fix="take a dataset with one of these")
        return distance

    def vectors(self, role: Literal["documents", "queries"], rows: Int32Array | Int64Array) -> Float32Array:
        """Return the vectors of rows, in their order and float32 (n, d); consecutive rows are read fastest."""
        with self._readable(), np.errstate(over="ignore"):  # the caller refuses infinite values
            dataset = self._vectors(role)
            if not len(rows):
                return np.empty((0, self.dimensions), dtype=np.float32)
            first, end = int(rows[0]), int(rows[0]) + len(rows)
            if np.array_equal(rows, np.arange(first, end)):
                return np.ascontiguousarray(dataset[first:end], dtype=np.float32)
            ascending, positions = np.unique(rows, return_inverse=True)
            return np.ascontiguousarray(dataset[ascending][positions], dtype=np.float32)

    @property
    def depth(self) -> int:
        """The number of neighbours of each query; 0 if the file has none."""
        with self._readable():
            return int(self._neighbours().shape[1]) if _NEIGHBOURS in self._file else 0

    def neighbours(self) -> Int64Array:
        """Return the rows of each query's neighbours (q, K), the nearest first; -1 fills rows that have fewer.

        Raises DataError for rows that do not exist, and for a neighbour that occurs twice.
        """
        with self._readable():
            rows: Int64Array = self._neighbours()[:].astype(np.int64)
        problems = Problems(str(self._path))
        for query, column in np.argwhere((rows < -1) | (rows >= self.documents)).tolist():
            row = int(rows[query, column])
            problems.add(
                None, f"query {query}: its neighbour {row} is not a row of 'train' (0 to {self.documents - 1})"
            )
        ordered = np.sort(rows, axis=1)
        repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
        for query, column in np.argwhere(repeated).tolist():
            problems.add(None, f"query {query}: its neighbour {ordered[query, column]} occurs twice")
        problems.raise_if_any(fix="make 'neighbors' again from 'train' and 'test'; -1 fills rows with fewer neighbours")
        return rows

    def _refuse_other_points(self) -> None:
        point_type, kind = self.attributes.get("point_type", "float"), self.attributes.get("type", "dense")
        if kind == "sparse":
            raise DataError(str(self._path), ["holds sets of different sizes (type 'sparse')"], fix=_ONLY_DENSE)
        if point_type == "bit":
            raise DataError(str(self._path), ["holds vectors of bits (point_type 'bit')"], fix=_ONLY_DENSE)

    def _refuse_widths(self, dimensions: int) -> None:
        """Refuse queries of another width than the documents, and a wrong width in the attributes."""
        problems = []
        if dimensions != self.dimensions:
            problems.append(f"'train' has {self.dimensions} dimensions, and 'test' has {dimensions}")
        stated = self.attributes.get("dimension", self.dimensions)
        if stated != self.dimensions:
            problems.append(f"the attribute 'dimension' is {stated!r}, and 'train' has {self.dimensions} dimensions")
        if problems:
            raise DataError(str(self._path), problems, fix=_LAYOUT)

    def _vectors(self, role: Literal["documents", "queries"]) -> Any:
        """Return the dataset of a role; raises DataError unless it holds numbers of shape (n, d)."""
        name = _DATASETS[role]
        dataset = self._dataset(name)
        if dataset.ndim != 2 or dataset.dtype.kind not in "fiu":
            problem = f"'{name}' holds {dataset.dtype} of shape {dataset.shape}, expected numbers of shape (n, d)"
            raise DataError(str(self._path), [problem], fix=_ONLY_DENSE)
        if not dataset.size:
            raise DataError(str(self._path), [f"'{name}' is empty: its shape is {dataset.shape}"], fix=_LAYOUT)
        return dataset

    def _neighbours(self) -> Any:
        dataset = self._dataset(_NEIGHBOURS)
        if dataset.ndim != 2 or dataset.dtype.kind not in "iu" or len(dataset) != self.queries or not dataset.shape[1]:
            problem = (
                f"'{_NEIGHBOURS}' holds {dataset.dtype} of shape {dataset.shape}, "
                f"expected whole numbers of shape ({self.queries}, K)"
            )
            raise DataError(str(self._path), [problem], fix=_LAYOUT)
        return dataset

    def _dataset(self, name: str) -> Any:
        """Return a dataset whose numbers are in this file; raises DataError for any other object."""
        dataset = self._file.get(name)
        if not hasattr(dataset, "shape") or dataset.shape is None:
            names = ", ".join(f"'{stored}'" for stored in sorted(self._file)[:10]) or "nothing"
            raise DataError(str(self._path), [f"has no dataset '{name}'; its entries are {names}"], fix=_LAYOUT)
        is_elsewhere = (
            dataset.external or dataset.is_virtual or Path(dataset.file.filename) != Path(self._file.filename)
        )
        if is_elsewhere:
            problem = f"the numbers of '{name}' are in another file"
            raise DataError(str(self._path), [problem], fix="copy them into this one")
        if dataset.ndim and len(dataset) > _MOST_ROWS:
            problem = f"'{name}' has {len(dataset):,} rows, at most {_MOST_ROWS:,} are read"
            raise DataError(str(self._path), [problem])
        if dataset.nbytes > expanded_limit(self._path.stat().st_size):
            problem = (
                f"'{name}' states {dataset.nbytes:,} bytes of numbers, which is very much for the size of the file"
            )
            raise DataError(str(self._path), [problem], fix="write the file again")
        return dataset

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Translate exceptions of h5py, which damaged content causes."""
        try:
            yield
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError) as error:
            raise DataError(
                str(self._path), [f"cannot be read as HDF5: {error}"], fix="copy it, download it or write it again"
            ) from error


def _plain(value: Any) -> Any:
    """Return an attribute as text or number."""
    if isinstance(value, np.ndarray):
        value = value.reshape(())[()] if value.size == 1 else str(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    return value.item() if isinstance(value, np.generic) else value
