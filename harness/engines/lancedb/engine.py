"""Engines on a LanceDB table: their shared base, and dense vectors, either scanned or with an IVF or HNSW index."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import (
    Column,
    Documents,
    External,
    ExternalVectorIndex,
    Filterable,
    HitCollector,
    LoadedIndex,
    as_backend_errors,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.external_index import source_folder
from harness.engines.index_folder import field_columns, saved_fields
from harness.engines.interface import Capabilities, Caveats, EngineInfo, Hits
from harness.engines.lancedb.conditions import condition_on
from harness.engines.lancedb.external_index import ExternalTable
from harness.engines.lancedb.table import (
    PACKAGE,
    ROW_ID,
    IndexDescription,
    RowIds,
    describe_index,
    folder_of,
    open_table,
    require_lancedb,
    table_state,
)
from harness.errors import BackendError, EngineFailureError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["LanceDbEngine", "LanceEngine", "LanceVectorsEngine"]

TABLE, VECTOR = "documents", "vector"
_BATCH = 4096
_SHIFT = {"cosine": 1.0, "dot": 1.0, "l2": 0.0}
"""A score is this minus LanceDB's distance: 1 minus the product for dot, the squared distance for l2."""
_COMPRESSED = ("Sq", "Pq", "Rq")
"""Suffixes of the names of indexes that hold codes, not vectors."""
_CARGO = re.compile(r", \S*\.cargo/\S+")
"""The source location in an error of Lance."""


class LanceEngine(Filterable[Column], Changeable[Column]):
    """The common base of engines on a LanceDB table; a subclass defines the columns."""

    packages = (PACKAGE,)

    _table: Any
    _row_ids: RowIds
    _condition: str = ""

    def info(self) -> EngineInfo:
        """Load LanceDB, whose threads start with its first call."""
        require_lancedb(threads=int(self.parameters["threads"]))
        return EngineInfo("LanceDB", version(PACKAGE), "embedded")

    @abstractmethod
    def stored(self, column: Column) -> Mapping[str, pa.Array | pa.ChunkedArray]:
        """Return the columns that are searched, by name."""

    def write(self, documents: Documents[Column], progress: Progress) -> None:
        """Write all documents into a new table, ``rows_per_add`` at a time."""
        rows = self._rows(documents, np.arange(len(documents), dtype=np.int32))
        size = int(self.parameters["rows_per_add"]) or len(documents)
        for start in range(0, len(documents), size):
            reader = _counted(rows.slice(start, size), progress)
            if start:
                self._table.add(reader)
            else:
                self._table = require_lancedb().connect(str(self.folder)).create_table(TABLE, reader)
                self.begun()

    def begun(self) -> None:
        """Act on a table that has its first rows; by default, do nothing."""

    def _rows(self, documents: Documents[Column], rows: Int32Array) -> pa.Table:
        """Return documents with their rows, the columns that are searched, and the fields of their metadata."""
        fields = [] if documents.metadata is None else documents.metadata.columns
        metadata = {
            name: field.cast(pa.string())
            for name, field in zip(field_columns(documents.fields).values(), fields, strict=True)
        }
        return pa.table({"row": numbers(rows), **self.stored(documents.column), **metadata})

    def change(self, folder: Path, changes: Changes[Column], progress: Progress) -> None:
        """Delete and add rows; getting ready is ``optimize``, which updates the index."""
        if len(changes.outdated):
            self._table.delete(f"row IN ({', '.join(map(str, changes.outdated.tolist()))})")
        progress.advance(len(changes.deleted))
        if len(changes.written):
            self._table.add(_counted(self._rows(changes.written, changes.rows), progress))
        progress.start("optimize", None)
        if self.parameters["optimize"]:
            self._table.optimize()

    def open_built(self, folder: Path) -> None:
        """Open the table that :meth:`write` made, and list its rows."""
        self._table = open_table(folder, TABLE)
        row_table = self._table.search().select(["row"]).with_row_id(True).to_arrow()
        self._row_ids = RowIds(row_table[ROW_ID].to_numpy(), row_table["row"].to_numpy())

    def finished_query(self, query: Any, score: str) -> Any:
        """Return the query with the filter, for LanceDB's ids of rows and its column of scores or distances."""
        if self._condition:
            query = query.where(self._condition, prefilter=True)
        return query.select([score]).with_row_id(True)

    def retrieve(self, query: Any, k: int) -> pa.Table:
        """Query LanceDB, which answers with an Arrow table."""
        return query.to_arrow()

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter before searching, with SQL: the best of the matching rows that an index visits."""
        if self.parameters.get("external"):
            self._condition = condition_on(conditions, self._table.schema)
            return
        columns = field_columns(saved_fields(self.folder))
        self._condition = " AND ".join(
            f"{columns[field]} = '{value.replace(chr(39), chr(39) * 2)}'" for field, value in conditions.items()
        )

    @contextmanager
    def translated(
        self, doing: Callable[[], str], kind: type[BackendError] = EngineFailureError, fix: str | None = None
    ) -> Iterator[None]:
        """Raise LanceDB's errors as the harness's; a panic of its Rust code is an unimportable ``BaseException``."""
        try:
            with as_backend_errors():
                yield
        except BaseException as error:
            panic = type(error).__module__ == "pyo3_runtime"
            if not panic and not isinstance(error, RuntimeError | ValueError | OSError | pa.ArrowException):
                raise
            text = _CARGO.sub("", str(error) or type(error).__name__)
            raise kind(f"LanceDB failed while {doing()}: {text}", fix=fix) from error


def _counted(rows: pa.Table, progress: Progress) -> pa.RecordBatchReader:
    """Return rows as record batches, which count themselves as they are read."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in rows.to_batches(_BATCH):
            yield batch
            progress.advance(len(batch))

    return pa.RecordBatchReader.from_batches(rows.schema, batches())


class LanceVectorsEngine(LanceEngine[Column]):
    """The common base of engines whose table has a column of dense vectors, indexed or not."""

    search_parameters = frozenset({"nprobes", "ef", "refine_factor", "exact", "threads"})

    _index: IndexDescription | None = None
    _column: str = VECTOR

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._similarity = str(parameters["similarity"])

    def build(self, folder: Path, documents: Documents[Column], progress: Progress) -> None:
        """Write the rows, ``rows_per_add`` at a time; getting ready means making the index."""
        self.write(documents, progress)
        progress.start("index vectors", None)
        if self.parameters["index"] != "flat" and len(documents):
            self._table.create_index(VECTOR, config=self._config())

    @staticmethod
    def stored_vectors(vectors: Float32Array) -> Mapping[str, pa.Array]:
        """Return the column of vectors, as lists of a fixed size."""
        return {VECTOR: pa.FixedSizeListArray.from_arrays(numbers(vectors.reshape(-1)), vectors.shape[1])}

    def _config(self) -> Any:
        """Return LanceDB's configuration of the index, without the options that are left to LanceDB."""
        kind = str(self.parameters["index"])
        renamed = {"num_partitions": "partitions", "max_iterations": "max_iterations", "sample_rate": "sample_rate"}
        if kind.endswith("_pq"):
            renamed |= {"num_sub_vectors": "sub_vectors", "num_bits": "bits"}
        if kind.startswith("hnsw"):
            renamed |= {"m": "m", "ef_construction": "ef_construction"}
        chosen = {argument: self.parameters[ours] for argument, ours in renamed.items() if self.parameters[ours]}
        name = kind.title().replace("_", "")  # hnsw_pq is made by HnswPq
        return getattr(require_lancedb("lancedb.index"), name)(distance_type=self._similarity, **chosen)

    def load(self, folder: Path) -> LoadedIndex:
        """Open the table, list its rows, and describe its index."""
        self.open_built(folder)
        return self.opened_table()

    def opened_table(self) -> LoadedIndex:
        """Describe the open table and its index of vectors."""
        self._index = describe_index(self._table, self._column)
        dimensions = int(self._table.schema.field(self._column).type.list_size)
        indexed = 0 if self._index is None else self._index.indexed
        graph = self._index is not None and "Hnsw" in self._index.kind
        state: dict[str, ParameterValue] = {
            "similarity": self._similarity,
            "dimensions": dimensions,
            **table_state(self._table),
            **({"index_type": "none"} if self._index is None else self._index.state),
            "vectors_in_graph": indexed if graph else 0,
            "vectors_in_lists": 0 if graph else indexed,
        }
        return LoadedIndex(int(self._table.count_rows()), state, dimensions)

    def vector_query(self, vector: Float32Array, k: int) -> Any:
        """Return LanceDB's query for the nearest vectors."""
        query = self._table.search(vector, vector_column_name=self._column)
        return self.finished_query(self.tuned(query, k), "_distance")

    def tuned(self, query: Any, k: int) -> Any:
        """Return the query for ``k`` hits, with the parameters for comparing vectors and searching the index."""
        parameters, query = self.parameters, query.distance_type(self._similarity).limit(k)
        if parameters["exact"]:
            query = query.bypass_vector_index()
        if parameters["nprobes"]:
            query = query.nprobes(int(parameters["nprobes"]))
        if parameters["ef"]:
            query = query.ef(max(self._least_ef(k), int(parameters["ef"])))
        if parameters["refine_factor"]:
            query = query.refine_factor(int(parameters["refine_factor"]))
        return query

    def _least_ef(self, k: int) -> int:
        """Return the smallest ``ef`` that LanceDB accepts: the number of candidates that a search needs."""
        return k * max(1, int(self.parameters["refine_factor"]))

    def nearest(self, answer: pa.Table, *, measured: bool = False) -> tuple[Int32Array, Float32Array]:
        """Return rows, and scores of LanceDB's distances; ``measured`` means that they are of vectors in any case."""
        distances = answer["_distance"].to_numpy()
        if self._scores_codes and self._similarity == "cosine" and not measured:  # 2 - 2 cos instead of 1 - cos
            distances = distances / np.float32(2)
        return self._row_ids.rows(answer), np.float32(_SHIFT[self._similarity]) - distances

    @property
    def _scores_codes(self) -> bool:
        """Whether scores come from codes, not from vectors that LanceDB measures again.

        It also does so while some rows are outside the index. Under cosine, LanceDB 0.40 gives the squared distance of
        vectors of length 1 if it searches codes of them.
        """
        index = self._index
        return (
            index is not None
            and index.kind.endswith(_COMPRESSED)
            and not index.unindexed
            and not self.parameters["refine_factor"]
            and not self.parameters["exact"]
        )

    def depth(self, k: int) -> int:
        """Return the number of vectors that a search of the best ``k`` requests."""
        return min(k, self.loaded.documents)

    def remeasured(self, queries: Inputs, k: int) -> Mapping[str, Hits]:
        """Return the same hits with their vectors measured (``refine_factor`` 1), if scores are of codes."""
        if not self._scores_codes or queries.dense is None:
            return {}
        collector = HitCollector()
        with self.translated(lambda: "measuring the vectors of hits again"):
            for vector in queries.dense:
                answer = self.vector_query(vector, self.depth(k)).refine_factor(1).to_arrow()
                collector.add(*self.nearest(answer, measured=True), 0, 0)
        hits = collector.result()
        return {"dense": Hits(hits.indptr, hits.rows, hits.scores)}

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the number of vectors that a graph found, and the ``ef`` in effect if the parameter was too small."""
        requested, least = int(self.parameters["ef"]), self._least_ef(k)
        raised: dict[str, ParameterValue] = {"ef": least} if 0 < requested < least else {}
        return {**raised, "vectors_in_graph": 0, "vectors_in_lists": 0} if self.parameters["exact"] else raised

    def caveats(self, k: int) -> Caveats:
        """Return notes if scores are of codes, and the parameters without effect for lack of an index or a graph."""
        index, scanned = self._index, "every search scanned all vectors"
        if index is None or self.parameters["exact"]:
            return Caveats((), dict.fromkeys(("nprobes", "ef", "refine_factor"), scanned))
        notes = []
        if self._scores_codes:
            notes.append(
                f"scores are computed from the codes of its {index.kind} index, not from the vectors: with "
                "refine_factor the best are measured again"
            )
        if index.unindexed:
            notes.append(f"{index.unindexed:,} rows are in no index, and every search scans these")
        return Caveats(tuple(notes), {} if "Hnsw" in index.kind else {"ef": "the index has no graph"})


class LanceDbEngine(LanceVectorsEngine[Float32Array], ExternalVectorIndex[Float32Array]):
    """Dense vectors in a table of LanceDB.

    Without an index every vector is scanned. Scores are the cosine, the dot product, and the negative squared distance.
    An index that compresses (``_sq``, ``_pq``, ``_rq``) gives distances of its codes, which are close to these, except
    if ``refine_factor`` has the best hits measured again. Product and residual quantisation differ from build to build.
    """

    name = "lancedb"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
        filters_external=True,
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        if parameters["external"] and not parameters["table"]:
            raise RejectedInputError("no external table is named", fix="give table= with path=")

    def stored(self, column: Float32Array) -> Mapping[str, pa.Array]:
        """Return the column of vectors."""
        return self.stored_vectors(column)

    def prepare(self, queries: Float32Array, k: int) -> Iterator[Any]:
        """Make LanceDB's queries."""
        return (self.vector_query(vector, k) for vector in queries)

    def columns(self, answer: pa.Table) -> tuple[Int32Array, Float32Array]:
        """Return rows, and scores of LanceDB's distances."""
        return self.nearest(answer)

    @cached_property
    def source(self) -> Path:  # type: ignore[override]  # it may be assigned
        """Return the folder of the user's table."""
        return folder_of(source_folder(self.parameters), str(self.parameters["table"]))

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open the newest version of the user's table, without writing anything."""
        info = replace(self.info(), mode="embedded, an external table")
        content = ExternalTable(self.parameters, progress)
        self._table, self._column, self._row_ids = content.table, content.column, content.row_ids
        self._similarity = content.similarity
        return External(
            info, content.ids, self.opened_table(), self.source, None, content, content.values, metadata=content
        )
