"""The engines on PostgreSQL with pgvector: dense and sparse vectors.

A table is written and searched on the worker's private server or on an existing server (``url=``); for the engines they
differ only in the connection.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Similarity, SparseVectors
from harness.engines.base import (
    ClientEngine,
    Documents,
    External,
    ExternalVectorIndex,
    Filterable,
    LoadedIndex,
    as_backend_errors,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.checks import require_sparse
from harness.engines.index_folder import ID_FIELD, field_columns, saved_fields
from harness.engines.interface import Capabilities, Caveats, ComparedVectors, EngineInfo, Storage
from harness.engines.pgvector.conditions import BoundValues, condition_on
from harness.engines.pgvector.external_index import TableRows
from harness.engines.pgvector.private_server import DISTRIBUTION, PrivateServer
from harness.engines.pgvector.session import ADDRESS_RULES, Binary, Session, address_of, quoted
from harness.engines.pgvector.vectors import (
    MOST_COLUMNS,
    OPERATORS,
    dense_bytes,
    dense_vectors,
    sparse_bytes,
    sparse_vectors,
)
from harness.engines.remote_server import ServerKind
from harness.engines.server_collection import new_name, remove_collection, save_name, saved_name
from harness.errors import RejectedInputError
from harness.exact import bm25_idf
from harness.registry.optional import versions_of
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_column

__all__ = ["PgvectorEngine", "PgvectorSparseEngine"]

_DATA = "postgres"
_FREQUENCIES = "columns.npy", "frequencies.npy"
"""The columns of documents, int32 (C,) ascending, and the number of documents with each, int64 (C,).

Column -1 belongs to every document that has any other column.
"""
_MOST_EF, _DEFAULT_EF = 1000, 40
_BATCH = 1000
_OTHER_VALUES = 2
"""Values of a statement besides those of conditions: the query, and the number of hits."""
_COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_COPY_END = b"\xff\xff"
_DELETE = "DELETE FROM {table} WHERE row = ANY($1)"


class _TableEngine(ClientEngine[Any], Filterable[Any], ExternalVectorIndex[Any], Changeable[Any]):
    """The common base of both engines; a subclass defines the content of a row."""

    search_parameters = frozenset(
        {"url", "keep", "timeout_s", "retry_s"}
        | {"ef_search", "probes", "iterative_scan", "max_scan_tuples", "exact", "force_index"}
    )

    _session: Session
    _server: PrivateServer | None = None
    _table: str = ""
    _type: str
    _column: str = "vector"
    _id_column: str = "row"
    _index: str | None = None
    _conditions: Sequence[str] = ()
    _filtered_by: Sequence[object] = ()
    """Conditions in SQL, and the values of their placeholders."""
    _last: tuple[str, tuple[object, ...]] | None = None
    _dimensions: int = 0
    _rows: TableRows

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self.similarity = cast("Similarity", str(parameters.get("similarity", "dot")))

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return the version of the package with the server, or the address and version of an existing server.

        Raises EngineUnavailableError if the server does not answer.
        """
        if not _is_remote(parameters):
            return versions_of(DISTRIBUTION)
        with closing(Session.of_server(parameters)) as session:
            return {"url": session.address.url, "postgresql": _versions(session)}

    @classmethod
    def server_kind(cls) -> ServerKind:
        """Return the description of PostgreSQL's servers."""
        return ServerKind(ADDRESS_RULES, Session.of_server)

    def require_address(self) -> None:
        """Raise EngineUnavailableError if a server is to be searched but is not named."""
        if _is_remote(self.parameters):
            address_of(str(self.parameters["url"]))

    def info(self) -> EngineInfo:
        """Start or reach the server, and read its version of pgvector."""
        if _is_remote(self.parameters):
            self._session = self.use(Session.of_server(self.parameters))
            return self._connected("server")
        shared = int(self.parameters["shared_buffers_mb"])
        self._server = PrivateServer(self.folder / _DATA, {"shared_buffers": f"{shared}MB"} if shared else {})
        self.resources.callback(self._server.stop)
        self._server.start()
        self._session = self.use(Session.of_private(self._server, self.parameters))
        if not self.finished:
            self._session.rows("making the extension", "CREATE EXTENSION IF NOT EXISTS vector")
        return self._connected("server, the worker's own")

    def _connected(self, mode: str) -> EngineInfo:
        self._session.use_type(self._type)
        return EngineInfo("PostgreSQL with pgvector", _versions(self._session), mode)

    # The content of a row.

    @abstractmethod
    def _values(self, column: Any, start: int, stop: int) -> Iterator[bytes]:
        """Yield the vectors of rows in pgvector's binary form."""

    @abstractmethod
    def _width(self, column: Any) -> int:
        """Return the dimensions of the table's vectors."""

    # Building.

    def create(self, folder: Path, documents: Documents[Any]) -> None:
        """Make the empty table, which closing removes unless it is to be kept."""
        self._table, self._dimensions = new_name(folder).lower().replace("-", "_"), self._width(documents.column)
        save_name(folder, self._table)
        if self._server is None and not self.parameters["keep"]:
            self.resources.callback(remove_collection, self._session, self._table)
        fields = "".join(f", {column} text" for column in self._fields(documents).values())
        vector = f"vector {self._type}({self._dimensions})"
        self._ask("making the table", f"CREATE TABLE {{table}} (row integer PRIMARY KEY, {vector}{fields})")

    @property
    def _quoted(self) -> str:
        return quoted(*self._table.split("."))

    def _ask(self, doing: str, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, in which ``{table}`` is a placeholder for the table."""
        return self._session.rows(doing, statement.format(table=self._quoted), values)

    def _fields(self, documents: Documents[Any]) -> dict[str, str]:
        """Return the column of each field of the metadata, and of the ids if the table is to be kept."""
        columns = field_columns(documents.fields)
        return {**columns, ID_FIELD: ID_FIELD} if self.parameters["keep"] else columns

    def build(self, folder: Path, documents: Documents[Any], progress: Progress) -> None:
        """Copy all rows in batches; getting ready means making the indexes and analysing the table for the planner."""
        self._store(np.arange(len(documents), dtype=np.int32), documents, progress)
        progress.start("make indexes", None)
        self._make_indexes(documents)

    def change(self, folder: Path, changes: Changes[Any], progress: Progress) -> None:
        """Delete rows and copy others; getting ready means a vacuum and analysing the table for the planner."""
        self._ask("deleting documents", _DELETE, (changes.outdated.tolist(),))
        progress.advance(len(changes.deleted))
        self._store(changes.rows, changes.written, progress)
        progress.start("vacuum", None)
        vacuum = "VACUUM (ANALYZE) {table}" if self.parameters["vacuum"] else "ANALYZE {table}"
        self._ask("clearing deleted rows", vacuum)

    def _stored(self, rows: npt.NDArray[np.integer]) -> list[bytes]:
        """Return the vectors of ascending rows in pgvector's binary form."""
        select = "SELECT vector FROM {table} WHERE row = ANY($1) ORDER BY row"
        return [value for (value,) in self._ask("reading", select, (rows.tolist(),))]

    def _store(self, rows: Int32Array, documents: Documents[Any], progress: Progress) -> None:
        stored = documents.with_ids() if self.parameters["keep"] else documents
        for start, stop in stored.batches(_BATCH, progress):
            numbers, values = rows[start:stop].tolist(), self._values(stored.column, start, stop)
            copied = [
                _copied(row, value, [record.get(name) for name in stored.fields])
                for row, value, record in zip(numbers, values, stored.records(start, stop), strict=True)
            ]
            self._copy(_COPY_HEAD + b"".join(copied) + _COPY_END, numbers)

    def _copy(self, data: bytes, rows: list[int]) -> None:
        tries = 0

        def copy() -> None:
            nonlocal tries
            tries += 1
            connection = self._session.connection()
            with connection.transaction(), connection.cursor() as cursor:
                if tries > 1:  # the first answer may have been lost
                    cursor.execute(_DELETE.format(table=self._quoted), (rows,))
                with cursor.copy(f"COPY {self._quoted} FROM STDIN (FORMAT BINARY)") as writing:
                    writing.write(data)

        with self._session.translated(lambda: f"storing documents {rows[0]} to {rows[-1]}"):
            self._session.call(copy)

    def _make_indexes(self, documents: Documents[Any]) -> None:
        parameters, method = self.parameters, self.parameters["index"]
        self._session.set({"max_parallel_maintenance_workers": str(parameters["build_workers"])})
        if parameters["maintenance_mb"]:
            self._session.set({"maintenance_work_mem": f"{parameters['maintenance_mb']}MB"})
        if parameters["index_fields"]:
            for column in self._fields(documents).values():
                self._ask("indexing a field", f"CREATE INDEX ON {{table}} USING hash ({column})")
        if method != "none":
            names = ("m", "ef_construction") if method == "hnsw" else ("lists",)
            chosen = ", ".join(f"{name} = {parameters[name]}" for name in names if parameters[name])
            indexed = f"{method} (vector {self._type}_{OPERATORS[self.similarity].word}_ops)"
            options = f" WITH ({chosen})" if chosen else ""
            self._ask("making the index", f"CREATE INDEX ON {{table}} USING {indexed}{options}")
        self._ask("counting for the planner", "ANALYZE {table}")

    # Searching.

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open the user's table in a read-only transaction."""
        self._session = self.use(Session.of_server(self.parameters))
        self._session.reading = True
        self._rows = rows = TableRows(self._session, self.parameters, self._type, progress)
        self._type, self._table = rows.type, str(self.parameters["table"])
        self._column, self._id_column = rows.column, rows.id_column
        self.similarity, self._dimensions = rows.similarity, rows.dimensions
        info = self._connected("server, an external table")
        loaded = self._described(len(rows.ids), np.empty(0, dtype=np.int32))
        return External(info, rows.ids, loaded, folder, rows.changed, rows, rows.values, metadata=rows)

    def load(self, folder: Path) -> LoadedIndex:
        """Find the table, count its rows, and describe its index."""
        self._table = saved_name(folder)
        row_table = self._ask("listing the rows", "SELECT row FROM {table} ORDER BY row")
        stored = np.array([row for (row,) in row_table], dtype=np.int32)
        return self._described(len(stored), self.absent_rows(len(stored), lambda: [stored]))

    def _described(self, documents: int, missing: Int32Array) -> LoadedIndex:
        self._index, method, state = self._index_state()
        if not self._dimensions:
            query = "SELECT atttypmod FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2"
            ((self._dimensions,),) = self._ask("asking for the dimensions", query, (self._quoted, self._column))
        self._session.set(self._search_settings(method))
        description: dict[str, ParameterValue] = {"server": self._session.address.url, "table": self._table}
        if self._server is None and not self.parameters["external"]:
            description |= {"kept": bool(self.parameters["keep"]), "repeated_calls": self._session.repeated}
        state = {
            **description,
            "type": self._type,
            "similarity": self.similarity,
            "dimensions": self._dimensions,
            **state,
        }
        dimensions = None if self._type == "sparsevec" else self._dimensions
        return LoadedIndex(documents, {**state, **self._memory()}, dimensions, missing)

    def _memory(self) -> dict[str, ParameterValue]:
        memory_bytes = None if self._server is None else self._server.memory_bytes()
        return {} if memory_bytes is None else {"server_memory_bytes": memory_bytes}

    def _index_state(self) -> tuple[str | None, str, dict[str, ParameterValue]]:
        """Return the name, the method and the state of the index of the vectors."""
        index_rows = self._ask(
            "asking for the index",
            "SELECT c.relname, a.amname, pg_relation_size(c.oid), c.reltuples::bigint, "
            "coalesce(array_to_string(c.reloptions, ' '), '') "
            "FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
            "JOIN pg_attribute t ON t.attrelid = i.indrelid AND t.attnum = i.indkey[0] "
            "WHERE i.indrelid = $1::regclass AND t.attname = $2 AND a.amname IN ('hnsw', 'ivfflat') AND i.indisvalid",
            (self._quoted, self._column),
        )
        ((size,),) = self._ask("measuring the table", "SELECT pg_table_size($1::regclass)", (self._quoted,))
        table: dict[str, ParameterValue] = {"table_bytes": int(size)}
        if not index_rows:
            return None, "", {"index": "none", **table, "vectors_in_graph": 0, "vectors_in_lists": 0}
        name, method, size, tuples, options = index_rows[0]
        counted, graph = max(0, int(tuples)), method == "hnsw"
        state: dict[str, ParameterValue] = {
            "index": method,
            "index_options": str(options),
            **table,
            "index_bytes": int(size),
            "vectors_in_graph": counted if graph else 0,
            "vectors_in_lists": 0 if graph else counted,
        }
        memory_notices = [notice for notice in self._session.notices if "maintenance_work_mem" in notice]
        return str(name), str(method), {**state, "notice": memory_notices[-1]} if memory_notices else state

    def _search_settings(self, method: str) -> dict[str, str]:
        """Return the settings that pgvector reads at each search; ``ef_search`` is set when k is known."""
        parameters = self.parameters
        settings = {"enable_indexscan": "off"} if parameters["exact"] else {}
        if parameters["force_index"] and not parameters["exact"]:
            settings["enable_seqscan"] = "off"
        if method:
            settings[f"{method}.iterative_scan"] = str(parameters["iterative_scan"])
        if method == "hnsw" and parameters["max_scan_tuples"]:
            settings["hnsw.max_scan_tuples"] = str(parameters["max_scan_tuples"])
        if method == "ivfflat" and parameters.get("probes"):
            settings["ivfflat.probes"] = str(parameters["probes"])
        return settings

    def _ef(self, k: int) -> int:
        """Return the number of candidates that a graph search keeps: the parameter, else at least k, up to 1000."""
        return int(self.parameters["ef_search"]) or min(_MOST_EF, max(_DEFAULT_EF, k))

    def prepare(self, queries: Any, k: int) -> Iterable[Any]:
        """Make the values for the statement, which is the same for every query."""
        if self._index is not None:
            self._session.set({"hnsw.ef_search": str(self._ef(k))})
        statement = self._statement()
        for value in self._vectors(queries):
            yield None if value is None else (statement, (Binary(value), k, *self._filtered_by))

    @abstractmethod
    def _vectors(self, queries: Any) -> Iterator[bytes | None]:
        """Yield each query in pgvector's binary form; None for a query that finds nothing."""

    def _statement(self) -> str:
        return f"{self._distances()} ORDER BY distance LIMIT $2"

    def _distances(self) -> str:
        """Return the statement of all rows that match, as ids and distances: $1 is the query, $2 the number of hits."""
        vector = quoted(self._column)
        conditions = [*self._conditions]
        if self.parameters["external"]:  # a row without a vector has no distance
            conditions.append(f"{vector} IS NOT NULL")
        distance = f"{vector} {OPERATORS[self.similarity].sign} $1 AS distance"
        clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"SELECT {quoted(self._id_column)}, {distance} FROM {self._quoted}{clause}"

    def retrieve(self, query: tuple[str, tuple[object, ...]], k: int) -> list[tuple[Any, ...]]:
        """Query PostgreSQL, which returns rows as tuples."""
        self._last = query
        return self._session.ask(*query)

    def columns(self, answer: Sequence[tuple[Any, ...]]) -> tuple[Int32Array, Float64Array]:
        """Return rows, and scores of pgvector's distances."""
        ids = [hit[0] for hit in answer]
        rows = self._rows.rows(ids) if self.parameters["external"] else np.array(ids, dtype=np.int32)
        distances = np.array([hit[1] for hit in answer], dtype=np.float64)
        if self.similarity == "cosine":
            return rows, 1.0 - distances
        return rows, -(distances if self.similarity == "dot" else np.square(distances))

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter with SQL's WHERE."""
        bound = BoundValues(first=_OTHER_VALUES + 1)
        if self.parameters["external"]:
            self._conditions = condition_on(conditions, self._rows.columns, self._rows.lists, bound)
        else:
            columns = field_columns(saved_fields(self.folder))
            self._conditions = [f"{columns[field]} = {bound.bind(value)}" for field, value in conditions.items()]
        self._filtered_by = bound.values

    def size(self, folder: Path) -> Storage:
        """Return PostgreSQL's bytes of the table with its indexes, and of the log of a private server."""
        ((size,),) = self._ask("measuring the table", "SELECT pg_total_relation_size($1::regclass)", (self._quoted,))
        return Storage(int(size), 0 if self._server is None else self._server.log_bytes())

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the plan of the last search: PostgreSQL decides whether it uses an index."""
        plan = self._plan()
        if plan is None:
            return {}
        state: dict[str, ParameterValue] = {"plan": f"index scan using {plan}" if plan else "scan of all rows"}
        if not plan:
            state |= {"vectors_in_graph": 0, "vectors_in_lists": 0}
        elif self.loaded.state["index"] == "hnsw":
            state["ef_search"] = self._ef(k)
        return {**state, **self._memory()}

    def _plan(self) -> str | None:
        """Return the index of vectors that the last statement uses, "" without an index; None before a search."""
        if self._last is None:
            return None
        statement, values = self._last
        ((plans,),) = self._session.rows("asking for the plan", f"EXPLAIN (FORMAT JSON) {statement}", values)
        return next((name for name in _index_scans(plans[0]["Plan"]) if name == self._index), "")

    def caveats(self, k: int) -> Caveats:
        """Note if no index was used, or if an index gives fewer than ``k`` hits, and list parameters without effect."""
        plan, method = self._plan(), "" if self._index is None else str(self.loaded.state["index"])
        notes = []
        if self._index is not None and plan == "" and not self.parameters["exact"]:
            notes.append(
                "PostgreSQL's planner did not take the index of the vectors, and compared the rows one by one: "
                "force_index=true makes it use the index"
            )
        limited = self.parameters["iterative_scan"] == "off"
        if plan and limited and method == "hnsw" and self._ef(k) < k:
            notes.append(f"its graph gives at most ef_search={self._ef(k)} hits, of {k:,}: iterative_scan goes on")
        if plan and limited and self._conditions:
            notes.append(
                "the filter is applied to the results of the index, so queries may get fewer hits than documents match"
            )
        unused = {} if method == "hnsw" else {"ef_search": "no graph is searched", "max_scan_tuples": "no graph is"}
        if method != "ivfflat":
            unused["probes"] = "no lists are searched"
        return Caveats(tuple(notes), unused)


class PgvectorEngine(_TableEngine):
    """Dense vectors in a table of PostgreSQL, as ``vector`` or ``halfvec``.

    Without an index every row is compared, exactly; with one, PostgreSQL's planner decides whether it is used. Scores
    are the cosine, the dot product, and the negative squared distance. ``halfvec`` rounds vectors to float16, also in
    queries. Two graphs from the same vectors differ.
    """

    name = "pgvector"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=False, deterministic=False, reopens=True, keeps_k_prefix=False, filters_external=True
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._type = str(parameters["type"])

    def _values(self, column: Float32Array, start: int, stop: int) -> Iterator[bytes]:
        return dense_bytes(column[start:stop], self._type)

    def _width(self, column: Float32Array) -> int:
        return int(column.shape[1])

    def _vectors(self, queries: Float32Array) -> Iterator[bytes | None]:
        return dense_bytes(queries, self._type)

    def compared_vectors(self, queries: Inputs) -> ComparedVectors | None:
        """Return the vectors as ``halfvec`` rounds them, also of queries; None for ``vector``.

        For cosine a pgvector index keeps them normalised, and so rounded twice, and computes dot products of these
        vectors.
        """
        if self._type != "halfvec" or queries.dense is None or self.parameters["external"]:
            return None
        documents = np.zeros((len(self.ids), self._dimensions), dtype=np.float32)
        for low in range(0, len(self.ids), _BATCH):
            rows = np.setdiff1d(np.arange(low, min(low + _BATCH, len(self.ids))), self.deleted)
            if len(rows):
                documents[rows] = dense_vectors(self._stored(rows), self._type, self._dimensions)
        sent = _halved(queries.dense)
        if self._index is None or self.similarity != "cosine":
            return ComparedVectors(documents, sent, self.similarity)
        in_index = _halved(_normalised(documents)), _halved(_normalised(sent))
        return ComparedVectors(documents, sent, self.similarity, *in_index, "dot")


class PgvectorSparseEngine(_TableEngine):
    """Sparse vectors in a table of PostgreSQL, as ``sparsevec``, by dot product.

    pgvector has no idf: the harness multiplies the values of queries by the idf of the documents, as Qdrant does. An
    existing table is searched by plain dot products. Documents with score 0 are not hits: without an index, the
    statement leaves them out.
    """

    name = "pgvector-sparse"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=False, deterministic=False, reopens=True, keeps_k_prefix=False, filters_external=True
    )
    _type = "sparsevec"
    _frequencies: tuple[Int32Array, Int64Array]
    _idf: tuple[Int32Array, Float32Array]

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> SparseVectors:
        """Return the vectors; raises RejectedInputError for a column number that pgvector cannot store."""
        vectors = require_sparse(inputs, role)
        if role == "document" and vectors.nnz and int(vectors.indices.max()) >= MOST_COLUMNS:
            raise RejectedInputError(
                f"the documents have column {int(vectors.indices.max()):,}, a sparsevec fewer than {MOST_COLUMNS:,}",
                fix="take an encoder with fewer columns",
            )
        return vectors

    def create(self, folder: Path, documents: Documents[SparseVectors]) -> None:
        """Make the table, and store the frequencies of its columns."""
        super().create(folder, documents)
        columns = _columns(documents.column)
        self._keep_frequencies(folder, columns, np.ones(len(columns)))

    def note(self, changes: Changes[SparseVectors]) -> None:
        """Also record the resulting frequencies before timing starts: documents to delete are read for that."""
        super().note(changes)
        gone = _columns(sparse_vectors(self._stored(changes.outdated), self._dimensions))
        written, (columns, counts) = _columns(changes.written.column), self._frequencies
        added = [counts, np.full(len(gone), -1), np.ones(len(written))]
        self._keep_frequencies(self.folder, np.concatenate([columns, gone, written]), np.concatenate(added))

    def _keep_frequencies(self, folder: Path, columns: Int32Array, counts: npt.NDArray[Any]) -> None:
        """Store and use the number of documents with each column: the sum of its counts."""
        distinct, positions = np.unique(columns, return_inverse=True)
        sums = np.bincount(positions, weights=counts, minlength=len(distinct)).astype(np.int64)
        columns, counts = distinct[sums > 0].astype(np.int32), sums[sums > 0]
        self._use_frequencies(columns, counts)
        np.save(folder / _FREQUENCIES[0], columns, allow_pickle=False)
        np.save(folder / _FREQUENCIES[1], counts, allow_pickle=False)

    def _use_frequencies(self, columns: Int32Array, counts: Int64Array) -> None:
        self._frequencies = columns, counts
        self._idf = columns[1:], bm25_idf(counts[1:], int(counts[:1].sum()))

    def load(self, folder: Path) -> LoadedIndex:
        """Find the table, and the frequencies of an index that is opened again."""
        if self.finished:
            with as_backend_errors():
                self._use_frequencies(*(load_column(folder / name) for name in _FREQUENCIES))
        return super().load(folder)

    def _values(self, column: SparseVectors, start: int, stop: int) -> Iterator[bytes]:
        return (sparse_bytes(*column.row(row), self._dimensions) for row in range(start, stop))

    def _width(self, column: SparseVectors) -> int:
        return max(1, min(MOST_COLUMNS, column.dimensions))

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open the user's table; raises RejectedInputError for idf=true: only the harness's own tables have an idf."""
        if self.parameters["idf"]:
            raise RejectedInputError(
                "pgvector has no idf, and the harness knows it only for tables that it made", fix="say idf=false"
            )
        return super().open_external(folder, progress)

    def _vectors(self, queries: SparseVectors) -> Iterator[bytes | None]:
        for row in range(len(queries)):
            indices, weights = self._weighed(*queries.row(row))
            yield sparse_bytes(indices, weights, self._dimensions) if len(indices) else None

    def _weighed(self, indices: Int32Array, values: Float32Array) -> tuple[Int32Array, Float32Array]:
        """Return the columns of a query that documents can have, and its weights, times idf if ``idf`` is true."""
        if self.parameters["external"]:
            is_stored = indices < self._dimensions
            return indices[is_stored], values[is_stored]
        columns, idf = self._idf
        positions = np.minimum(np.searchsorted(columns, indices), max(0, len(columns) - 1))
        is_stored = columns[positions] == indices if len(columns) else np.zeros(len(indices), dtype=bool)
        weights = values[is_stored] * idf[positions[is_stored]] if self.parameters["idf"] else values[is_stored]
        return indices[is_stored], weights

    def _statement(self) -> str:
        """Return the statement; without an index, it leaves out documents of score 0 before it cuts."""
        if self._index is not None and not self.parameters["exact"]:
            return super()._statement()
        # OFFSET 0 keeps PostgreSQL from computing the distance twice
        ranked = f"({self._distances()} OFFSET 0) scored WHERE distance <> 0 ORDER BY distance"
        return f"SELECT * FROM {ranked} LIMIT $2"

    def columns(self, answer: Sequence[tuple[Any, ...]]) -> tuple[Int32Array, Float64Array]:
        """Return rows and scores, without hits of score 0."""
        return super().columns([hit for hit in answer if hit[1] != 0])


def _columns(vectors: SparseVectors) -> Int32Array:
    """Return the columns of all documents, and -1 for each document with any column."""
    return np.concatenate([vectors.indices, np.full(len(vectors.nonempty_rows), -1, dtype=np.int32)])


def _halved(vectors: Float32Array) -> Float32Array:
    """Return vectors as ``halfvec`` keeps them."""
    return vectors.astype(np.float16).astype(np.float32)


def _normalised(vectors: Float32Array) -> Float32Array:
    """Return vectors of length 1 as pgvector makes them: divided by a length in float64; zeros of deleted rows stay."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    scaled: Float32Array = (vectors / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
    return scaled


def _is_remote(parameters: Mapping[str, ParameterValue]) -> bool:
    return bool(parameters["url"] or parameters["external"] or parameters["mode"] == "server")


def _versions(session: Session) -> str:
    ((server, extension),) = session.rows(
        "asking for its version",
        "SELECT current_setting('server_version'), (SELECT extversion FROM pg_extension WHERE extname = 'vector')",
    )
    return f"{str(server).split()[0]}, pgvector {extension}"


def _copied(row: int, vector: bytes, fields: Sequence[str | None]) -> bytes:
    """Return a row in the binary form of COPY: the number of fields, and each with its length, -1 for none."""
    parts = [struct.pack("!hii", 2 + len(fields), 4, row), struct.pack("!i", len(vector)), vector]
    for field in fields:
        text = None if field is None else field.encode()
        parts += [b"\xff\xff\xff\xff"] if text is None else [struct.pack("!i", len(text)), text]
    return b"".join(parts)


def _index_scans(plan: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the indexes that a plan scans in their own order."""
    if plan["Node Type"] == "Index Scan":
        yield str(plan["Index Name"])
    for part in plan.get("Plans", ()):
        yield from _index_scans(part)
