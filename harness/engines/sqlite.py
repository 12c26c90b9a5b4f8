"""SQLite, through apsw, whose wheel brings a current SQLite: full text by its FTS5, and vectors by sqlite-vec.

FTS5's bm25() fixes k1 = 1.2 and b = 0.75, counts all rows in N and avgdl, gives a term that is in half of the rows or
more an IDF of 1e-6, and computes in float64 (``ext/fts5/fts5_aux.c``). Its scores are negative, the lowest being the
best; equal scores come by row. The index keeps no texts (``content=''``) and, as FTS5's default, positions. A delete
leaves a tombstone in it, and its statistics do not count deleted rows. sqlite-vec scans all vectors: it has no graph.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.inputs import columns_of
from harness.data.progress import Progress
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array
from harness.engines.base import Column, Documents, Filterable, LoadedIndex
from harness.engines.changeable import Changeable, Changes
from harness.engines.index_folder import field_columns, saved_fields
from harness.engines.interface import Capabilities, EngineInfo
from harness.registry.field_weights import fields_of
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = ["SqliteEngine", "SqliteFullTextEngine", "SqliteVectorEngine"]

_FILE = "index.db"
_INSERT = "INSERT INTO metadata VALUES ({})"
_KIBIBYTES = 1024
_SEARCH = "SELECT rowid, rank FROM documents WHERE documents MATCH ?{} ORDER BY rank LIMIT ?"
_WEIGHTED = " AND rank MATCH 'bm25({})'"
_MATCHING = " AND +rowid IN (SELECT row FROM metadata WHERE {})"
"""The plus keeps SQLite from looking up each of these rows separately."""
_NEAREST = "SELECT rowid, distance FROM documents WHERE embedding MATCH ?{also} AND k = ?"
_SORTED = """
    SELECT rowid, vec_distance_{}(embedding, ?) AS distance FROM documents WHERE true{{also}} ORDER BY distance LIMIT ?
"""
_LARGEST_K = 4096
"""Largest k that sqlite-vec accepts; for more, every distance is computed and sorted in SQL."""


class SqliteEngine(Filterable[Column], Changeable[Column]):
    """An engine in one file, whose table ``documents`` has the rows as its ``rowid``; subclasses define its columns."""

    faults: tuple[type[Exception], ...] = (RuntimeError, OSError, ValueError)
    packages = ("apsw", "sqlite-vec")
    search_parameters: ClassVar[frozenset[str]] = frozenset({"cache_mb"})

    apsw: Any
    database: Any
    condition = ""
    values: tuple[str, ...] = ()

    def start(self) -> None:
        """Import the client, and start to translate its errors."""
        self.apsw = require("apsw", extra="sqlite", feature=f"backend {self.name}")
        self.faults = (*self.faults, self.apsw.Error)

    @property
    def version(self) -> str:
        """Return the version of SQLite, not of its client."""
        return str(self.apsw.sqlite_lib_version())

    def connect(self, folder: Path, *, writing: bool) -> Any:
        """Open the file, read-only unless ``writing``; it is closed with the engine."""
        flags = self.apsw.SQLITE_OPEN_READONLY
        if writing:
            flags = self.apsw.SQLITE_OPEN_READWRITE | self.apsw.SQLITE_OPEN_CREATE
        database = self.apsw.Connection(str(folder / _FILE), flags=flags)
        self.resources.callback(database.close)
        database.execute(f"PRAGMA cache_size = {-int(self.parameters['cache_mb']) * _KIBIBYTES}")
        return database

    @abstractmethod
    def definition(self, documents: Documents[Column]) -> str:
        """Return the statement that makes the table."""

    @abstractmethod
    def insertion(self, rows: Int32Array, documents: Documents[Column]) -> tuple[str, Iterable[tuple[Any, ...]]]:
        """Return the statement that inserts a document, and its values for each."""

    def finish(self, database: Any, documents: Documents[Column], progress: Progress) -> None:
        """Get ready after documents are inserted; by default, do nothing."""

    def build(self, folder: Path, documents: Documents[Column], progress: Progress) -> None:
        """Insert documents in one transaction."""
        database = self.connect(folder, writing=True)
        with database:
            database.execute(self.definition(documents))
            self._insert(database, np.arange(len(documents), dtype=np.int32), documents, progress)
        self.finish(database, documents, progress)
        database.close()

    def change(self, folder: Path, changes: Changes[Column], progress: Progress) -> None:
        """Delete and insert documents in one transaction."""
        self.database.close()
        database = self.connect(folder, writing=True)
        with database:
            database.executemany("DELETE FROM documents WHERE rowid = ?", ((row,) for row in changes.outdated.tolist()))
            progress.advance(len(changes.deleted))
            self._insert(database, changes.rows, changes.written, progress)
        self.finish(database, changes.written, progress)
        database.close()

    def _insert(self, database: Any, rows: Int32Array, documents: Documents[Column], progress: Progress) -> None:
        statement, values = self.insertion(rows, documents)

        def counted() -> Iterator[tuple[Any, ...]]:
            for value in values:
                yield value
                progress.advance(1)

        database.executemany(statement, counted())

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Keep the condition in SQL, and its values."""
        columns = field_columns(saved_fields(self.folder))
        self.condition = " AND ".join(f"{columns[name]} = ?" for name in conditions)
        self.values = tuple(conditions.values())


class SqliteFullTextEngine(SqliteEngine[pa.ChunkedArray]):
    """A table of FTS5; a query is a disjunction of its terms, each as often as it has it.

    Each field of documents with several is a column. bm25() adds a term's counts in all columns, each multiplied by the
    column's weight, and has one IDF and one length for all of them.
    """

    name = "sqlite"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, shares_index=True, fields=True
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        fields = fields_of(parameters)
        self._columns = [f"terms_{number}" for number in range(len(fields))] or ["terms"]
        self._weights = ", ".join(f"{field.weight:.9f}" for field in fields)

    def info(self) -> EngineInfo:
        """Import the client."""
        self.start()
        return EngineInfo("SQLite FTS5", self.version, "embedded")

    def definition(self, documents: Documents[pa.ChunkedArray]) -> str:
        """Return the statement that makes the table."""
        options = "content='', contentless_delete=1, tokenize='unicode61'"
        return f"CREATE VIRTUAL TABLE documents USING fts5({', '.join(self._columns)}, {options})"

    def insertion(
        self, rows: Int32Array, documents: Documents[pa.ChunkedArray]
    ) -> tuple[str, Iterable[tuple[Any, ...]]]:
        """Return the statement that inserts a document, and rows and the terms of each field."""
        values = (
            (row, *(terms.as_py() for terms in texts))
            for row, *texts in zip(rows.tolist(), *columns_of(documents.column).values(), strict=True)
        )
        marks = ", ".join("?" * (1 + len(self._columns)))
        return f"INSERT INTO documents(rowid, {', '.join(self._columns)}) VALUES ({marks})", values

    def finish(self, database: Any, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        """Merge segments, and make the table to filter by."""
        progress.start("merge", None)
        with database:
            if self.parameters["optimize"]:
                database.execute("INSERT INTO documents(documents) VALUES ('optimize')")
            if documents.metadata is not None:
                self._store_metadata(database, documents.metadata)

    @staticmethod
    def _store_metadata(database: Any, metadata: pa.Table) -> None:
        """Write the metadata of documents into a separate table, with an index on each field."""
        names = list(field_columns(metadata.column_names).values())
        columns = ", ".join(["row INTEGER PRIMARY KEY", *(f"{name} TEXT" for name in names)])
        database.execute(f"CREATE TABLE metadata({columns})")
        values = zip(range(len(metadata)), *metadata.to_pydict().values(), strict=True)
        database.executemany(_INSERT.format(", ".join("?" * (len(names) + 1))), values)
        for name in names:
            database.execute(f"CREATE INDEX of_{name} ON metadata({name})")

    def load(self, folder: Path) -> LoadedIndex:
        """Open the file read-only, and count its rows and segments."""
        self.database = self.connect(folder, writing=False)
        ((documents,),) = self.database.execute("SELECT count(*) FROM documents_docsize")
        ((segments,),) = self.database.execute("SELECT count(DISTINCT segid) FROM documents_idx")
        return LoadedIndex(documents, {"segments": segments, "apsw": str(self.apsw.apsw_version())})

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterable[str | None]:
        """Return expressions of FTS5, with every term in quotes, since it may be an operator of FTS5."""
        texts = (text.as_py() for text in queries)
        return (" OR ".join(f'"{term}"' for term in terms.split(" ")) if terms else None for terms in texts)

    def retrieve(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return rows and ranks."""
        matching = _MATCHING.format(self.condition) if self.condition else ""
        if self._weights:
            matching = _WEIGHTED.format(self._weights) + matching
        hits: list[tuple[int, float]] = self.database.execute(
            _SEARCH.format(matching), (query, *self.values, k)
        ).fetchall()
        return hits

    def columns(self, answer: list[tuple[int, float]]) -> tuple[Int64Array, Float64Array]:
        """Turn ranks into scores."""
        rows, ranks = _pairs(answer)
        return rows, -ranks


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

    def connect(self, folder: Path, *, writing: bool) -> Any:
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
            (row, vector.tobytes(), *(_stored(column[position]) for column in columns))
            for position, (row, vector) in enumerate(zip(rows.tolist(), documents.column, strict=True))
        )
        return f"INSERT INTO documents({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", values

    def load(self, folder: Path) -> LoadedIndex:
        """Open the file read-only, and count its rows."""
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
        rows, distances = _pairs(answer)
        return rows, 1.0 - distances if self.parameters["similarity"] == "cosine" else -np.square(distances)


def _stored(value: str | None) -> str:
    """Return a field's value as it is stored: sqlite-vec's columns hold no NULL."""
    return "" if value is None else f"={value}"


def _pairs(answer: list[tuple[int, float]]) -> tuple[Int64Array, Float64Array]:
    """Return the columns of an answer."""
    table: Any = np.array(answer, dtype=np.float64).reshape(len(answer), 2)
    return table[:, 0].astype(np.int64), table[:, 1]
