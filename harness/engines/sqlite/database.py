"""The database file of an index: opened, filled and changed in one transaction, filtered by SQL."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.progress import Progress
from harness.data.types import Int32Array
from harness.engines.base import Column, Documents, Filterable
from harness.engines.changeable import Changeable, Changes
from harness.engines.index_folder import field_columns, saved_fields
from harness.registry.optional import require

__all__ = ["SqliteEngine"]

_FILE = "index.db"
_KIBIBYTES = 1024
_INSERT = "INSERT INTO metadata VALUES ({})"


class SqliteEngine(Filterable[Column], Changeable[Column]):
    """An engine in one file, whose table ``documents`` has the rows as its ``rowid``; a subclass says what is in it."""

    faults: tuple[type[Exception], ...] = (RuntimeError, OSError, ValueError)
    packages = ("apsw", "sqlite-vec")
    search_parameters: ClassVar[frozenset[str]] = frozenset({"cache_mb"})

    apsw: Any
    database: Any
    condition = ""
    values: tuple[str, ...] = ()

    def start(self) -> None:
        """Import the client, whose errors are the engine's from then on."""
        self.apsw = require("apsw", extra="sqlite", feature=f"backend {self.name}")
        self.faults = (*self.faults, self.apsw.Error)

    @property
    def version(self) -> str:
        """Return the version of SQLite, not of its client."""
        return str(self.apsw.sqlite_lib_version())

    def connect(self, folder: Path, *, writing: bool) -> Any:  # noqa: ANN401 - of the client
        """Open the file, for reading only unless ``writing``; it is closed with the engine."""
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

    def finish(self, database: Any, documents: Documents[Column], progress: Progress) -> None:  # noqa: ANN401
        """Get ready, once documents are in: nothing, unless it is overridden."""

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

    def _insert(self, database: Any, rows: Int32Array, documents: Documents[Column], progress: Progress) -> None:  # noqa: ANN401
        statement, values = self.insertion(rows, documents)
        database.executemany(statement, _counted(values, progress))

    def filter_table(self, database: Any, metadata: pa.Table | None) -> None:  # noqa: ANN401 - of the client
        """Write the metadata of documents into a table of their own, with an index on each field."""
        if metadata is None:
            return
        names = list(field_columns(metadata.column_names).values())
        columns = ", ".join(["row INTEGER PRIMARY KEY", *(f"{name} TEXT" for name in names)])
        database.execute(f"CREATE TABLE metadata({columns})")
        database.executemany(_INSERT.format(", ".join("?" * (len(names) + 1))), _numbered(metadata))
        for name in names:
            database.execute(f"CREATE INDEX of_{name} ON metadata({name})")

    def filter(self, wanted: Mapping[str, str]) -> None:
        """Keep the condition in SQL, and its values."""
        columns = field_columns(saved_fields(self.folder))
        self.condition = " AND ".join(f"{columns[name]} = ?" for name in wanted)
        self.values = tuple(wanted.values())


def _counted(values: Iterable[tuple[Any, ...]], progress: Progress) -> Iterator[tuple[Any, ...]]:
    for value in values:
        yield value
        progress.advance(1)


def _numbered(metadata: pa.Table) -> Iterator[tuple[int | str | None, ...]]:
    columns = metadata.to_pydict().values()
    return ((row, *values) for row, values in enumerate(zip(*columns, strict=True)))
