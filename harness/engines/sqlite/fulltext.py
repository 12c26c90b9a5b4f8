"""SQLite's FTS5: its bm25() over analysed terms.

FTS5 fixes k1 = 1.2 and b = 0.75, counts all rows in N and avgdl, gives a term that is in half of the rows or more an
IDF of 1e-6, and computes in float64 (``ext/fts5/fts5_aux.c``). Its scores are negative, the best the lowest; equal ones
come by row. The index keeps no texts (``content=''``) and, as FTS5's default, positions. A delete leaves a tombstone in
it, and its statistics do not count what was deleted.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.progress import Progress
from harness.data.types import Float64Array, Int32Array, Int64Array
from harness.engines.base import Capabilities, Documents, EngineInfo, LoadedIndex
from harness.engines.sqlite.database import SqliteEngine

__all__ = ["SqliteFullTextEngine"]

_SEARCH = "SELECT rowid, rank FROM documents WHERE documents MATCH ?{} ORDER BY rank LIMIT ?"
_MATCHING = " AND +rowid IN (SELECT row FROM metadata WHERE {})"
"""The plus keeps SQLite from asking for each of these rows by itself."""


class SqliteFullTextEngine(SqliteEngine[pa.ChunkedArray]):
    """A table of FTS5; a query is a disjunction of its terms, each as often as it has it."""

    name = "sqlite"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, shares_index=True
    )

    def info(self) -> EngineInfo:
        """Import the client."""
        self.start()
        return EngineInfo("SQLite FTS5", self.version, "embedded")

    def definition(self, documents: Documents[pa.ChunkedArray]) -> str:  # noqa: ARG002 - for all the same
        """Return the statement that makes the table."""
        return (
            "CREATE VIRTUAL TABLE documents USING fts5(terms, content='', contentless_delete=1, tokenize='unicode61')"
        )

    def insertion(
        self, rows: Int32Array, documents: Documents[pa.ChunkedArray]
    ) -> tuple[str, Iterable[tuple[int, str]]]:
        """Return the statement that inserts a document, and rows and terms."""
        values = ((row, terms.as_py()) for row, terms in zip(rows.tolist(), documents.column, strict=True))
        return "INSERT INTO documents(rowid, terms) VALUES (?, ?)", values

    def finish(self, database: Any, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:  # noqa: ANN401
        """Merge segments, and make the table to filter by."""
        progress.start("merge", None)
        with database:
            if self.parameters["optimize"]:
                database.execute("INSERT INTO documents(documents) VALUES ('optimize')")
            self.filter_table(database, documents.metadata)

    def load(self, folder: Path) -> LoadedIndex:
        """Open the file for reading only, and count its rows and segments."""
        self.database = self.connect(folder, writing=False)
        ((documents,),) = self.database.execute("SELECT count(*) FROM documents_docsize")
        ((segments,),) = self.database.execute("SELECT count(DISTINCT segid) FROM documents_idx")
        return LoadedIndex(documents, {"segments": segments, "apsw": str(self.apsw.apsw_version())})

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterable[str | None]:  # noqa: ARG002 - the same for every k
        """Return expressions of FTS5, with every term in quotes: a term may be one of its words."""
        texts = (text.as_py() for text in queries)
        return (" OR ".join(f'"{term}"' for term in terms.split(" ")) if terms else None for terms in texts)

    def retrieve(self, query: str, k: int) -> list[tuple[int, float]]:
        """Return rows and ranks."""
        matching = _MATCHING.format(self.condition) if self.condition else ""
        hits: list[tuple[int, float]] = self.database.execute(
            _SEARCH.format(matching), (query, *self.values, k)
        ).fetchall()
        return hits

    def columns(self, answer: list[tuple[int, float]]) -> tuple[Int64Array, Float64Array]:
        """Turn ranks into scores."""
        table: Any = np.array(answer, dtype=np.float64).reshape(len(answer), 2)
        return table[:, 0].astype(np.int64), -table[:, 1]
