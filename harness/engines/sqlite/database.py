"""The database file of an index: opened, filled in one transaction, filtered by SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from harness.engines.base import Column, Filterable
from harness.engines.index_folder import field_columns, saved_fields
from harness.registry.optional import require

__all__ = ["SqliteEngine"]

_FILE = "index.db"
_KIBIBYTES = 1024
_INSERT = "INSERT INTO metadata VALUES ({})"


class SqliteEngine(Filterable[Column]):
    """An engine in one file; metadata is a table of its own, with an index on every field."""

    faults: tuple[type[Exception], ...] = (RuntimeError, OSError, ValueError)
    packages = ("apsw", "sqlite-vec")
    search_parameters: ClassVar[frozenset[str]] = frozenset({"cache_mb"})

    apsw: Any
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

    def filter_table(self, database: Any, metadata: pa.Table | None) -> None:  # noqa: ANN401 - of the client
        """Write the metadata of documents: a row for each, with a column for each field."""
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


def _numbered(metadata: pa.Table) -> Iterator[tuple[int | str | None, ...]]:
    columns = metadata.to_pydict().values()
    return ((row, *values) for row, values in enumerate(zip(*columns, strict=True)))
