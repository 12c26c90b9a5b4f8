"""A PostgreSQL server with pgvector for tests: reached over TCP, and tables as another program makes them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

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
) -> None:
    """Write ids and vectors into a new table; ``index`` is what stands behind USING.

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
        if index:
            connection.execute(f"CREATE INDEX ON {name} USING {index}")
        connection.execute(f"ANALYZE {name}")


def _sparse_literals(vectors: SparseVectors) -> list[str | None]:
    """Return each vector as SQL writes it, where columns count from 1."""
    rows = [zip(*(part.tolist() for part in vectors.row(row)), strict=True) for row in range(len(vectors))]
    entries = [",".join(f"{column + 1}:{weight!r}" for column, weight in row) for row in rows]
    return [f"{{{listed}}}/{vectors.dimensions}" if listed else None for listed in entries]
