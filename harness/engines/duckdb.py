"""DuckDB: exact dense search by the array functions of SQL, filtered in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import Documents, Filterable, LoadedIndex
from harness.engines.changeable import Changeable, Changes
from harness.engines.index_folder import field_columns, saved_fields
from harness.engines.interface import Capabilities, EngineInfo
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = ["DuckdbEngine"]

_FILE = "vectors.duckdb"
_ROWS_PER_BLOCK = 4096
_OFFLINE = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
"""DuckDB would download extensions that a query needs; the built-in extensions are enough."""
_SCORES = {
    "cosine": "array_cosine_similarity",
    "dot": "array_inner_product",
    "l2": "-array_distance",
}


class DuckdbEngine(Filterable[Float32Array], Changeable[Float32Array]):
    """Every vector is scored, by SQL: ``ORDER BY score DESC, document LIMIT k`` over a column of arrays.

    Equal scores come by row ascending. For l2 DuckDB gives the distance, and the score is its negative square.
    """

    name = "duckdb"
    packages = ("duckdb",)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, shares_index=True
    )

    _connection: Any = None
    _search: str
    _values: Mapping[str, str]

    def info(self) -> EngineInfo:
        """Import the library, and start to translate its errors."""
        self._library = require("duckdb", extra="duckdb", feature="the backend 'duckdb'")
        self.faults = (*self.faults, self._library.Error)
        return EngineInfo("DuckDB", self._library.__version__, "embedded")

    def _attach(self, folder: Path, *, read_only: bool) -> None:
        """ATTACH the file to the engine's only in-memory database; opening another is slow."""
        file = str(folder / _FILE)
        if self._connection is None:
            settings = {**_OFFLINE, "threads": int(self.parameters["threads"]), "temp_directory": f"{file}.tmp"}
            self._connection = self._library.connect(config=settings)
            self.resources.callback(self._close)
        quoted, access = file.replace("'", "''"), "READ_ONLY" if read_only else "READ_WRITE"
        self._connection.execute(f"ATTACH '{quoted}' AS stored ({access}); USE stored")

    def _detach(self) -> None:
        self._connection.execute("USE memory; DETACH stored")

    def _close(self) -> None:
        self._connection.close()
        self._connection = None

    def create(self, folder: Path, documents: Documents[Float32Array]) -> None:
        """Make the table: vectors, and a column for each field of the metadata."""
        columns = "".join(f", {column} VARCHAR" for column in field_columns(documents.fields).values())
        self._attach(folder, read_only=False)
        vector = f"FLOAT[{documents.column.shape[1]}]"
        self._connection.execute(f"CREATE TABLE documents (document INTEGER, vector {vector}{columns})")

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Insert in batches; getting ready means moving the log into the file."""
        self._insert(np.arange(len(documents), dtype=np.int32), documents, progress)
        self._finish(progress)

    def change(self, folder: Path, changes: Changes[Float32Array], progress: Progress) -> None:
        """Delete and insert in batches; getting ready is the same as after a build."""
        self._detach()
        self._attach(folder, read_only=False)
        self._connection.execute("DELETE FROM documents WHERE document IN (SELECT unnest(?))", [changes.outdated])
        progress.advance(len(changes.deleted))
        self._insert(changes.rows, changes.written, progress)
        self._finish(progress)

    def _insert(self, rows: Int32Array, documents: Documents[Float32Array], progress: Progress) -> None:
        names, metadata = field_columns(documents.fields).values(), documents.metadata
        for start, stop in documents.batches(_ROWS_PER_BLOCK, progress):
            batch = documents.column[start:stop]
            columns = {
                "document": numbers(rows[start:stop]),
                "vector": pa.FixedSizeListArray.from_arrays(numbers(batch.ravel()), batch.shape[1]),
            }
            fields = [] if metadata is None else metadata.slice(start, stop - start).columns
            columns |= {name: field.combine_chunks() for name, field in zip(names, fields, strict=True)}
            self._connection.register("batch", pa.table(columns))
            self._connection.execute("INSERT INTO documents SELECT * FROM batch")
            self._connection.unregister("batch")

    def _finish(self, progress: Progress) -> None:
        progress.start("checkpoint", None)
        self._connection.execute("CHECKPOINT")
        self._detach()

    def load(self, folder: Path) -> LoadedIndex:
        """Open the file read-only, so that several processes can open it."""
        self._attach(folder, read_only=True)
        (count,) = self._connection.execute("SELECT count(*) FROM documents").fetchone()
        (column,) = self._connection.execute("SELECT vector FROM documents LIMIT 0").description
        dimensions = self._dimensions = int(column[1].children[1][1])  # of its type, FLOAT[n]
        self.filter({})
        groups = self._connection.execute(
            "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('documents')"
        ).fetchone()
        state: dict[str, ParameterValue] = {
            "dimensions": dimensions,
            "vectors_in_graph": 0,
            "row_groups": groups[0],
            "memory_limit": self._connection.execute("SELECT current_setting('memory_limit')").fetchone()[0],
        }
        return LoadedIndex(count, state, dimensions)

    def filter(self, fields: Mapping[str, str]) -> None:
        """Put the fields into the WHERE of every search."""
        columns = field_columns(saved_fields(self.folder))
        conditions = [f"{columns[field]} = $value{number}" for number, field in enumerate(fields)]
        self._values = {f"value{number}": value for number, value in enumerate(fields.values())}
        clause = f"WHERE {' AND '.join(conditions)} " if conditions else ""
        score = f"{_SCORES[str(self.parameters['similarity'])]}(vector, $query::FLOAT[{self._dimensions}])"
        self._search = (
            f"SELECT document, {score} AS score FROM documents {clause}ORDER BY score DESC, document LIMIT $k"
        )

    def retrieve(self, query: Float32Array, k: int) -> Any:
        """Run the statement to its end; the answer stays in DuckDB's form."""
        return self._connection.execute(self._search, {"query": query[0], "k": k, **self._values}).fetchnumpy()

    def columns(self, answer: Mapping[str, npt.NDArray[Any]]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return rows and scores."""
        scores = answer["score"]
        return answer["document"], -np.square(scores) if self.parameters["similarity"] == "l2" else scores
