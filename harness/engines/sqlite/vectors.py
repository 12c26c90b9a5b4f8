"""sqlite-vec in SQLite: exact search over dense vectors, without a graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array
from harness.engines.base import Capabilities, Documents, EngineInfo, LoadedIndex
from harness.engines.index_folder import field_columns
from harness.engines.sqlite.database import SqliteEngine
from harness.registry.optional import require

__all__ = ["SqliteVectorEngine"]

_NEAREST = "SELECT rowid, distance FROM documents WHERE embedding MATCH ?{also} AND k = ?"
_SORTED = """
    SELECT rowid, vec_distance_{}(embedding, ?) AS distance FROM documents WHERE true{{also}} ORDER BY distance LIMIT ?
"""
_LARGEST_K = 4096
"""What sqlite-vec answers at once; for more, every distance is computed and sorted in SQL."""


class SqliteVectorEngine(SqliteEngine[Float32Array]):
    """A ``vec0`` table of float32 vectors; metadata are columns of it, and a filter precedes the best k."""

    name = "sqlite-dense"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, shares_index=True
    )

    def info(self) -> EngineInfo:
        """Import the client and the extension."""
        self.start()
        self._extension: Any = require("sqlite_vec", extra="sqlite", feature=f"backend {self.name}")
        version = f"{self._extension.__version__} in SQLite {self.version}"
        return EngineInfo("sqlite-vec", version, "embedded")

    def connect(self, folder: Path, *, writing: bool) -> Any:  # noqa: ANN401 - of the client
        """Open the file, and load the extension into the connection."""
        database = super().connect(folder, writing=writing)
        database.enable_load_extension(True)
        database.load_extension(self._extension.loadable_path())
        return database

    def definition(self, documents: Documents[Float32Array]) -> str:
        """Return the statement that makes the table, with a column for each field of the metadata."""
        columns = [
            f"embedding float[{documents.column.shape[1]}] distance_metric={self.parameters['similarity']}",
            *(f"{name} text" for name in field_columns(documents.fields).values()),
        ]
        return f"CREATE VIRTUAL TABLE documents USING vec0({', '.join(columns)})"

    def insertion(self, rows: Int32Array, documents: Documents[Float32Array]) -> tuple[str, Iterator[tuple[Any, ...]]]:
        """Return the statement that inserts a document, and rows, vectors and metadata."""
        names = ["rowid", "embedding", *field_columns(documents.fields).values()]
        columns = [] if documents.metadata is None else list(documents.metadata.to_pydict().values())
        values = (
            (row, vector.tobytes(), *(_stored(column[place]) for column in columns))
            for place, (row, vector) in enumerate(zip(rows.tolist(), documents.column, strict=True))
        )
        return f"INSERT INTO documents({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values  # noqa: S608 - of names that are made here

    def load(self, folder: Path) -> LoadedIndex:
        """Open the file for reading only, and count its rows."""
        self.database = self.connect(folder, writing=False)
        ((documents,),) = self.database.execute("SELECT count(*) FROM documents_rowids")
        dimensions = None
        for (stored,) in self.database.execute("SELECT embedding FROM documents LIMIT 1"):
            dimensions = len(stored) // np.dtype(np.float32).itemsize
        return LoadedIndex(documents, {"dimensions": dimensions or 0, "vectors_in_graph": 0}, dimensions)

    def retrieve(self, query: Float32Array, k: int) -> list[tuple[int, float]]:
        """Return rows and distances."""
        values = tuple(_stored(value) for value in self.values)
        also = f" AND {self.condition}" if self.condition else ""
        search = _NEAREST if k <= _LARGEST_K else _SORTED.format(self.parameters["similarity"])
        cursor = self.database.execute(search.replace("{also}", also), (query.tobytes(), *values, k))
        hits: list[tuple[int, float]] = cursor.fetchall()
        return hits

    def columns(self, answer: list[tuple[int, float]]) -> tuple[Int64Array, Float64Array]:
        """Turn distances into cosines, or negative squared distances."""
        table: Any = np.array(answer, dtype=np.float64).reshape(len(answer), 2)
        distances = table[:, 1]
        scores = 1.0 - distances if self.parameters["similarity"] == "cosine" else -np.square(distances)
        return table[:, 0].astype(np.int64), scores


def _stored(value: str | None) -> str:
    """Return a field's value as it is stored: sqlite-vec's columns hold no NULL."""
    return "" if value is None else f"={value}"
