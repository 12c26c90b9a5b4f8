"""A PostgreSQL server with pgvector for tests: reached over TCP, and tables as another program makes them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from harness.data.inputs import Inputs
from harness.data.types import SparseVectors
from harness.engines.pgvector.private_server import USER, PrivateServer

__all__ = ["serving", "write_table"]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Serve from a new folder; the URL of the database, in which the extension is. ``PGUSER`` names its user."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port), "fsync": "off"}
    server = PrivateServer(folder / "data", settings)
    server.start()
    try:
        url = f"postgresql://127.0.0.1:{port}/postgres"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PGUSER", USER)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("CREATE EXTENSION vector")
            yield url
    finally:
        server.stop()


def write_table(
    url: str,
    name: str,
    documents: Inputs,
    *,
    kind: str = "vector",
    index: str = "",
    texts: Sequence[str] | None = None,
    records: Sequence[Mapping[str, Any]] = (),
    metadata: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write ids and vectors into a new table; ``index`` is what stands behind USING.

    ``records`` are fields of documents for typed columns, and for ``cmetadata``, as LangChain's; ``metadata`` are JSON.

    Sparse ones become ``sparsevec``, and NULL where a document has no weights.
    """
    if documents.sparse is not None:
        kind, dimensions = "sparsevec", documents.sparse.dimensions
        vectors = _sparse_literals(documents.sparse)
    else:
        assert documents.dense is not None
        dimensions, vectors = documents.dense.shape[1], list(map(str, documents.dense.tolist()))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} (id text, embedding {kind}({dimensions}), page int, content text)")
        for row, (doc_id, vector) in enumerate(zip(documents.ids, vectors, strict=True)):
            values = (doc_id, vector, row, texts[row] if texts is not None else None)
            connection.execute(f"INSERT INTO {name} VALUES (%s, %s, %s, %s)", values)
        for row, record in enumerate(records or metadata):
            _add_fields(connection, name, row, record, typed=bool(records))
        if index:
            connection.execute(f"CREATE INDEX ON {name} USING {index}")
        connection.execute(f"ANALYZE {name}")


_TYPES = {
    "tenant": "varchar(100)",
    "year": "bigint",
    "score": "real",
    "scores": "real[]",
    "flag": "boolean",
    "tags": "text[]",
}


def _add_fields(connection: Any, table: str, row: int, record: Mapping[str, Any], *, typed: bool) -> None:
    """Set the fields of a row, in columns that its first row adds."""
    values = {field: record[field] for field in _TYPES} | {"made": f"2024-02-0{row + 2}"} if typed else {}
    column = "cmetadata" if typed else "metadata"
    kinds = {**({**_TYPES, "made": "date"} if typed else {}), column: "jsonb" if typed else "json"}
    for name, kind in kinds.items() if not row else ():
        connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    for name, value in {**values, column: json.dumps(record)}.items():
        connection.execute(f"UPDATE {table} SET {name} = %s WHERE page = %s", (value, row))


def _sparse_literals(vectors: SparseVectors) -> list[str | None]:
    """Return each vector as SQL writes it, where columns count from 1."""
    rows = [zip(*(part.tolist() for part in vectors.row(row)), strict=True) for row in range(len(vectors))]
    entries = [",".join(f"{column + 1}:{weight!r}" for column, weight in row) for row in rows]
    return [f"{{{listed}}}/{vectors.dimensions}" if listed else None for listed in entries]
