"""The engines on Milvus: dense vectors, sparse vectors, and terms that Milvus weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Float64Array, Int32Array, SparseVectors
from harness.engines.base import (
    ClientEngine,
    Documents,
    External,
    ExternalIndex,
    ExternalVectorIndex,
    Filterable,
    LoadedIndex,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.checks import require_sparse, require_texts
from harness.engines.interface import Capabilities, Caveats, EngineInfo, ExpectedContent, Storage
from harness.engines.milvus.collection import (
    GRAPH,
    LARGEST_K,
    METRICS,
    ROW,
    VECTOR,
    Collection,
    IndexSettings,
    is_server,
)
from harness.engines.milvus.connection import ADDRESS_RULES, PACKAGE, address_of, connect
from harness.engines.milvus.external_index import ExternalEntities, Kind, choose_vector
from harness.engines.milvus.lite import PACKAGE as LITE
from harness.engines.remote_server import ServerKind
from harness.errors import RejectedInputError
from harness.registry.optional import versions_of
from harness.registry.parameters import ParameterValue

__all__ = ["CollectionEngine", "MilvusBm25Engine", "MilvusEngine", "MilvusSparseEngine"]

Column = TypeVar("Column", Float32Array, SparseVectors, pa.ChunkedArray)
_LONGEST_BYTES = 65_535
"""Milvus's limit for a text in a field, which Milvus Lite does not enforce."""
_SCANS = (
    "Milvus Lite makes no index of this type: it scans every vector, and somewhere above 66,000 of them searches an "
    "IVF index with its own settings"
)

_TAKEN_BY = {"ef": GRAPH, "nprobe": "IVF_"}
"""Parameters of searches of dense vectors -> prefix of the names of the index types that take them."""


class CollectionEngine(ClientEngine[Column], Filterable[Column], ExternalIndex[Column], Changeable[Column]):
    """The common base of engines on Milvus; a subclass defines the searched field."""

    search_parameters = frozenset(
        {"url", "api_key_env", "keep", "timeout_s", "retry_s", "optimize_timeout_s"}
        | {"nprobe", "ef", "drop_ratio_search", "k1", "b"}
    )
    collection: Collection
    index_type: str
    """Milvus's name of the searched index; for an external collection it is read."""
    kind: ClassVar[Kind]
    """The kind of fields that can be searched in a user's collection."""
    _external: ExternalEntities

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._settings, self._batch = self.index_settings(), int(parameters["insert_batch"])
        self.index_type = self._settings.type
        self._on_server, path = is_server(parameters), parameters["path"]
        if not self._on_server:
            self._refuse_unsupported_by_lite()
        if parameters["external"] and bool(path) == self._on_server:
            raise RejectedInputError(
                f"{'a file is opened by Milvus Lite' if path else 'no file is named'}, and "
                f"mode={'server' if self._on_server else 'lite'}",
                fix="give collection= with path= for a file of Milvus Lite, or with url= for a server",
            )

    def require_address(self) -> None:
        """Raise EngineUnavailableError if a server is to be searched but is not named."""
        if self._on_server:
            address_of(self.parameters)

    @abstractmethod
    def index_settings(self) -> IndexSettings:
        """Return the index that the card's parameters describe."""

    def inverted_index(self, metric: str, **weighing: ParameterValue) -> IndexSettings:
        """Return an index of sparse vectors or of terms."""
        building = {"inverted_index_algo": self.parameters["algorithm"], **weighing}
        return IndexSettings("SPARSE_INVERTED_INDEX", metric, building)

    def searching(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the parameters of a search of the best ``k``; unless overridden, for an inverted index."""
        return {"drop_ratio_search": self.parameters["drop_ratio_search"]}

    def _refuse_unsupported_by_lite(self) -> None:
        wrong = ", ".join(name for name in ("url", "keep", "database") if self.parameters[name])
        if wrong:
            raise RejectedInputError(
                f"{wrong} cannot be set with mode=lite", fix="leave it out, or take a server: url=http://HOST:19530"
            )
        if self._settings.type == "HNSW":
            raise RejectedInputError(
                "Milvus Lite has no HNSW: it makes FLAT and IVF_FLAT only",
                fix="take index=FLAT, or a server: url=http://HOST:19530",
            )

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return the mode and the versions of the client and server; a server reports its own.

        Raises EngineUnavailableError if the server does not answer.
        """
        if not is_server(parameters):
            return {"mode": "lite", **versions_of(PACKAGE, LITE)}
        connection = connect(parameters)
        connection.close()
        return {"mode": "server", "url": connection.address.url, "milvus": connection.version}

    @classmethod
    def server_kind(cls) -> ServerKind:
        """Return the description of Milvus's servers."""
        return ServerKind(ADDRESS_RULES, connect)

    stored_field: ClassVar[str] = VECTOR
    """The field that holds :meth:`values`."""
    _dimensions: int | None = None

    @abstractmethod
    def define(self, schema: Any, types: Any) -> None:
        """Add the searched fields to the schema."""

    @abstractmethod
    def values(self, column: Column, start: int, stop: int) -> Sequence[Any]:
        """Return the stored values of documents ``start`` to ``stop``, in the client's form."""

    def _new_collection(self) -> Collection:
        self.collection = self.use(Collection(self.parameters, self._settings))
        return self.collection

    def info(self) -> EngineInfo:
        """Open the collection of the folder, or start on an empty folder."""
        collection = self._new_collection()
        opened = collection.load(self.folder) if self.finished else collection.create(self.folder)
        return opened.info

    def create(self, folder: Path, documents: Documents[Column]) -> None:
        """Make the empty collection; raises RejectedInputError for metadata with reserved names."""
        reserved = [name for name in documents.fields if name in (ROW, self.stored_field) or name.startswith("$")]
        if reserved:
            raise RejectedInputError(
                f"Milvus's collection has its own field '{reserved[0]}'", fix="give the metadata field another name"
            )
        self._dimensions = documents.column.shape[1] if isinstance(documents.column, np.ndarray) else None
        self.collection.define(self.define)

    def build(self, folder: Path, documents: Documents[Column], progress: Progress) -> None:
        """Insert all documents in batches; getting ready means flushing, making the index and loading it."""
        self._store(np.arange(len(documents), dtype=np.int32), documents, progress)
        progress.start("make the index", None)
        self.collection.finish()

    def change(self, folder: Path, changes: Changes[Column], progress: Progress) -> None:
        """Delete and upsert entities in batches; getting ready means flushing and loading."""
        deleted, size = changes.deleted.tolist(), self._batch
        for start in range(0, len(deleted), size):
            self.collection.delete(deleted[start : start + size])
            progress.advance(len(deleted[start : start + size]))
        self._store(changes.rows, changes.written, progress, replacing=True)
        progress.start("flush", None)
        self.collection.flush()
        self.collection.make_ready()

    def _store(
        self, rows: Int32Array, documents: Documents[Column], progress: Progress, *, replacing: bool = False
    ) -> None:
        documents = documents.with_ids() if self.parameters["keep"] else documents
        for start, stop in documents.batches(self._batch, progress):
            values, records = self.values(documents.column, start, stop), documents.records(start, stop)
            numbers = rows[start:stop].tolist()
            self.collection.insert(numbers, values, self.stored_field, records, replacing=replacing)

    def load(self, folder: Path) -> LoadedIndex:
        """Count the entities, and list the just sent entities that are missing."""
        collection = self.collection
        documents = collection.count()
        missing = self.absent_rows(documents, lambda: ([entity[ROW] for entity in page] for page in collection.pages()))
        dimensions = collection.schema().dimensions.get(collection.field)
        state = {**collection.state(), "insert_batch": self._batch}
        return LoadedIndex(documents, state, dimensions, missing)

    def prepare(self, queries: Column, k: int) -> Iterable[Any]:
        """Make queries in the client's form; None for a query without terms, which is not sent."""
        if k > LARGEST_K:
            raise RejectedInputError(
                f"k is {k:,}, and Milvus returns at most {LARGEST_K:,} hits of a query", fix="ask for fewer: --k"
            )
        self.collection.searching = self.searching(k)
        return [
            query or None if isinstance(query, dict | str) else query for query in self.values(queries, 0, len(queries))
        ]

    def retrieve(self, query: Any, k: int) -> Any:
        """Query Milvus; the client makes a dictionary of every hit inside its own call, which counts as search."""
        return self.collection.search(query, k)

    def columns(self, answer: Any) -> tuple[Int32Array, Float64Array]:
        """Return rows and scores: Milvus's distances, or negative squared distances."""
        is_built = not self.parameters["external"]  # entities of an external index are numbered in Milvus's order
        rows = np.array(answer.ids, dtype=np.int32) if is_built else self._external.rows(answer.ids)
        distances = np.array(answer.distances, dtype=np.float64)
        return rows, -distances if self.parameters.get("similarity") == "l2" else distances

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter by metadata, with an expression."""
        self.collection.restrict(conditions, self._external.lists if self.parameters["external"] else ())

    def size(self, folder: Path) -> Storage:
        """Return the allocated bytes of the file; unknown for a server."""
        return self.collection.storage()

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the memory of Milvus Lite's server after the searches."""
        return self.collection.memory()

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open a copy of the user's file, or a server's collection with read-only calls."""
        collection = self._new_collection().attach(folder, progress)
        similarity = choose_vector(collection, self.kind, str(self.parameters.get("similarity", "")))
        if similarity is not None:
            self.parameters["similarity"] = similarity
        self._external = ExternalEntities(collection, self.kind, progress)
        ids, dimensions = self._external.ids, collection.schema().dimensions.get(collection.field)
        read: dict[str, ParameterValue] = {} if similarity is None else {"similarity": similarity}
        index = collection.index()
        read |= {name: str(value) for name, value in index.items() if name in ("bm25_k1", "bm25_b")}
        self.index_type = str(index.get("index_type", ""))
        loaded = LoadedIndex(len(ids), {**read, **collection.state()}, dimensions)
        changed = collection.changed if self._on_server else None
        entities = self._external
        return External(collection.info, ids, loaded, folder, changed, entities, entities.values, metadata=entities)


class MilvusEngine(CollectionEngine[Float32Array], ExternalVectorIndex[Float32Array]):
    """Dense vectors in Milvus: a scan of all vectors (FLAT), IVF_FLAT, or HNSW (only on a server).

    Milvus's scores are cosines and dot products; for squared distances the score is the negative.
    """

    name = "milvus"
    kind = "dense"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        threads=True,
        filters_external=True,
        gaps={"test_a_graph_is_searched": "Milvus Lite, which the suite runs, makes no graph: HNSW is a server's"},
    )

    def index_settings(self) -> IndexSettings:
        """Return an index of dense vectors."""
        parameters, kind = self.parameters, str(self.parameters["index"])
        building: dict[str, ParameterValue] = {}
        if kind == "IVF_FLAT":
            building = {"nlist": parameters["nlist"]}
        elif kind == "HNSW":
            building = {"M": parameters["m"], "efConstruction": parameters["ef_construction"]}
        metrics: Mapping[Any, str] = METRICS
        return IndexSettings(kind, metrics.get(parameters["similarity"], ""), building)

    def searching(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the parameters of a search; Milvus refuses a graph search with fewer candidates than ``k``."""
        values: dict[str, ParameterValue] = {**self.parameters, "ef": max(int(self.parameters["ef"]), k)}
        return {name: values[name] for name, prefix in _TAKEN_BY.items() if self.index_type.startswith(prefix)}

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return also the number of candidates that these searches of a graph kept."""
        settings = {name: value for name, value in self.searching(k).items() if name == "ef"}
        return {**super().searched_state(k), **settings}

    def caveats(self, k: int) -> Caveats:
        """Return the search parameters of other index types, and of indexes that Milvus Lite does not make."""
        searching = self.searching(k)
        unused = {
            name: f"it is sent for types of index that begin with {prefix}, and this is {self.index_type}"
            for name, prefix in _TAKEN_BY.items()
            if name not in searching
        }
        if not self._on_server and self.index_type == "IVF_FLAT":
            unused |= dict.fromkeys(("index", *self._settings.building, *searching), _SCANS)
        return Caveats(without_effect=unused)

    def define(self, schema: Any, types: Any) -> None:
        """Add a field of float32 vectors."""
        schema.add_field(VECTOR, types.DataType.FLOAT_VECTOR, dim=self._dimensions)

    def values(self, column: Float32Array, start: int, stop: int) -> Sequence[Any]:
        """Return arrays, which the client accepts."""
        return list(column[start:stop])


class MilvusSparseEngine(CollectionEngine[SparseVectors], ExternalVectorIndex[SparseVectors]):
    """Sparse vectors in Milvus's inverted index, by inner products: exact, unless query weights are dropped.

    Weights below 0 are refused: Milvus silently stores them, and refuses them in queries.
    """

    name = "milvus-sparse"
    kind = "sparse"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse",
        exact=True,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        threads=True,
        filters_external=True,
    )

    def index_settings(self) -> IndexSettings:
        """Return an index of sparse vectors; raises RejectedInputError for idf=true, which Milvus does not have."""
        if self.parameters["idf"]:
            raise RejectedInputError(
                "Milvus multiplies sparse vectors by no idf", fix="leave idf out, or take milvus-bm25 for texts"
            )
        return self.inverted_index("IP")

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> SparseVectors:
        """Also refuse weights below 0."""
        vectors = require_sparse(inputs, role)
        negative = np.flatnonzero(vectors.values < 0)
        if len(negative):
            row = int(np.searchsorted(vectors.indptr, negative[0], side="right")) - 1
            raise RejectedInputError(
                f"the vector of {role} '{inputs.ids[row]}' has a weight below 0",
                fix="Milvus searches no such weights: take csr-splade or qdrant-splade",
            )
        return vectors

    def define(self, schema: Any, types: Any) -> None:
        """Add a field of sparse vectors."""
        schema.add_field(VECTOR, types.DataType.SPARSE_FLOAT_VECTOR)

    def values(self, column: SparseVectors, start: int, stop: int) -> Sequence[Any]:
        """Return a dictionary for each vector."""
        low, high = int(column.indptr[start]), int(column.indptr[stop])
        indices, weights = column.indices[low:high].tolist(), column.values[low:high].tolist()
        bounds = (column.indptr[start : stop + 1] - low).tolist()
        return [dict(zip(indices[a:b], weights[a:b], strict=True)) for a, b in pairwise(bounds)]


class MilvusBm25Engine(CollectionEngine[pa.ChunkedArray]):
    """Analysed terms, which Milvus weights by its own BM25.

    It counts all documents in N and avgdl, even documents without terms, and multiplies by k1 + 1. A user's collection
    is queried with the texts of the queries, which Milvus analyses by the collection's analyzer.
    """

    name = "milvus-bm25"
    kind = "function"
    stored_field = "harness_terms"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms",
        external_input="text",
        exact=True,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        threads=True,
        filters_external=True,
        gaps={"test_external_index_of_the_collection_is_proven": "an external index has its own analyzer"},
    )

    def index_settings(self) -> IndexSettings:
        """Return an index of terms that Milvus weights."""
        return self.inverted_index("BM25", bm25_k1=self.parameters["k1"], bm25_b=self.parameters["b"])

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> pa.ChunkedArray:
        """Also refuse texts that are too long for a field."""
        column = require_texts(inputs, role) if self.parameters["external"] else super().check(inputs, role, dimensions)
        lengths = pc.binary_length(column).to_numpy()
        if len(lengths) and lengths.max() > _LONGEST_BYTES:
            row = int(lengths.argmax())
            raise RejectedInputError(
                f"the terms of {role} '{inputs.ids[row]}' take {lengths[row]:,} bytes, and a field of Milvus has at "
                f"most {_LONGEST_BYTES:,}",
                fix="split the text, or take another backend",
            )
        return column

    def define(self, schema: Any, types: Any) -> None:
        """Add a field of texts, which Milvus splits at spaces, and a field of the term counts of these texts."""
        text, kinds = self.stored_field, types.DataType
        analyzer = {"tokenizer": "whitespace"}
        schema.add_field(text, kinds.VARCHAR, max_length=_LONGEST_BYTES, enable_analyzer=True, analyzer_params=analyzer)
        schema.add_field(VECTOR, kinds.SPARSE_FLOAT_VECTOR)
        weighing = types.Function(
            name="bm25", function_type=types.FunctionType.BM25, input_field_names=[text], output_field_names=[VECTOR]
        )
        schema.add_function(weighing)

    def values(self, column: pa.ChunkedArray, start: int, stop: int) -> Sequence[Any]:
        """Return the texts."""
        texts: list[str] = column.slice(start, stop - start).to_pylist()
        return texts

    def stored_texts(self, rows: Int32Array) -> list[str | None]:
        """Return the texts of documents in the field that Milvus analyses, None if Milvus does not name it."""
        return self._external.texts(rows) if self._external.text_field else super().stored_texts(rows)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Return that nothing can be compared: Milvus makes terms by the collection's analyzer."""
        return f"Milvus makes terms of the field '{self._external.text_field}' by an analyzer of the collection's own"
