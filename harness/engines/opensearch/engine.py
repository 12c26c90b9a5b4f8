"""The engines on OpenSearch and Elasticsearch: BM25 of analysed terms, by statistics of one shard or all shards.

The harness's analyzer makes the terms, for the server's ``whitespace`` analyzer. An external index has its own
analyzer: it gets the text of the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import orjson
import pyarrow as pa

from harness.data.inputs import Inputs, columns_of
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import ClientEngine, Documents, External, ExternalIndex, Filterable, LoadedIndex
from harness.engines.changeable import Changeable, Changes, DroppedContents
from harness.engines.checks import require_terms, require_texts
from harness.engines.index_folder import ID_FIELD
from harness.engines.interface import (
    Capabilities,
    EngineInfo,
    ExpectedContent,
    Placement,
    Remains,
    ScoreTree,
    ScoreTrees,
    Storage,
)
from harness.engines.opensearch.conditions import clauses_of
from harness.engines.opensearch.connection import ELASTICSEARCH, OPENSEARCH, Connection, Product, address_of, connect
from harness.engines.opensearch.external_index import ExternalDocuments
from harness.engines.opensearch.index import METADATA, TERMS, ServerIndex, field_name, text_field
from harness.engines.remote_server import ServerKind
from harness.engines.server_collection import new_name, save_name, saved_name
from harness.errors import EngineFailureError, RejectedInputError
from harness.registry.field_weights import fields_of
from harness.registry.parameters import ParameterValue

__all__ = ["ElasticsearchEngine", "OpenSearchEngine"]

_TEXT_FIELD = "text"
"""The default of ``text_field``."""
_BATCH_BYTES = 8 << 20
"""Largest body of a bulk request, except for a single larger document."""
_ROWS_PER_BLOCK = 1000


class OpenSearchEngine(
    ClientEngine[pa.ChunkedArray],
    Filterable[pa.ChunkedArray],
    ExternalIndex[pa.ChunkedArray],
    Changeable[pa.ChunkedArray],
):
    """An index of analysed terms on an OpenSearch server.

    Equal scores come shard by shard, and within a shard in the order of Lucene's document numbers. Merging may change
    these from build to build, so :meth:`placement` reads them from the server. Statistics count deleted documents until
    their segment is merged.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms",
        external_input="text",
        exact=True,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=True,
        threads=True,
        warm_up_queries=1000,
        filters_external=True,
        fields=True,
        gaps={"test_external_index_of_the_collection_is_proven": "an external index has its own analyzer"},
    )
    name = "opensearch"
    product: ClassVar[Product] = OPENSEARCH
    search_parameters = frozenset(
        {"url", "api_key_env", "keep", "batch_size", "timeout_s", "retry_s", "ready_timeout_s", "search_type"}
    )

    _index: ServerIndex
    _documents: ExternalDocuments
    _deletes: int = 0
    _shards: Int32Array = np.empty(0, dtype=np.int32)
    """The shard of each row, even a deleted row, as of the last call of :meth:`remains`."""

    def require_address(self) -> None:
        """Raise EngineUnavailableError if no server is named."""
        address_of(self.product, str(self.parameters["url"]), str(self.parameters["api_key_env"]))

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        if parameters["external"] and not parameters["index"]:
            raise RejectedInputError("no external index is named", fix="give index= with url=")
        fields = fields_of(parameters)
        if fields and parameters["external"] and parameters["text_field"] != _TEXT_FIELD:
            raise RejectedInputError(
                "text_field and fields name searched fields twice", fix="name all of them in fields="
            )
        self._searched = {field.name if parameters["external"] else text_field(field.name): field for field in fields}
        """The searched fields of the index, by their names there; empty if a single field is searched."""
        self._filters: list[Mapping[str, Any]] = []

    @property
    def _field(self) -> str:
        """Name of the only searched field."""
        return str(self.parameters["text_field"]) if self.parameters["external"] else TERMS

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return the address and the version that the server reports; raises EngineUnavailableError."""
        connection = cls._connect(parameters)
        connection.close()
        return {"url": connection.address.url, cls.name: connection.version}

    def info(self) -> EngineInfo:
        """Connect, and find the index of the folder, or choose the name of a new index."""
        # index names have no capitals
        self._use_index(saved_name(self.folder) if self.finished else new_name(self.folder).lower())
        if self.finished:
            self._index.find()
        return self._info("server")

    def _info(self, mode: str) -> EngineInfo:
        return EngineInfo(self.product.name, self._index.connection.version, mode)

    @classmethod
    def server_kind(cls) -> ServerKind:
        """Return the description of the product's servers."""
        return ServerKind(cls.product.server, cls._connect)

    @classmethod
    def _connect(cls, parameters: Mapping[str, ParameterValue]) -> Connection:
        url, key = str(parameters["url"]), str(parameters["api_key_env"])
        return connect(cls.product, url, key, float(parameters["timeout_s"]))

    def _use_index(self, name: str) -> None:
        self._index = self.use(ServerIndex(self._connect(self.parameters), self.parameters, name))

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> pa.ChunkedArray:
        """Return the terms or, for an external index with its own analyzer, the texts."""
        return require_texts(inputs, role) if self.parameters["external"] else require_terms(inputs, role)

    def create(self, folder: Path, documents: Documents[pa.ChunkedArray]) -> None:
        """Make the empty index."""
        save_name(folder, self._index.name)
        self._index.create(len(documents), documents.fields, tuple(self._searched) or (TERMS,))

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        """Send all documents in batches; getting ready means refreshing, merging, and writing to disk."""
        self._send(self._writes(np.arange(len(documents), dtype=np.int32), documents), progress)
        self._finish(progress)

    def change(self, folder: Path, changes: Changes[pa.ChunkedArray], progress: Progress) -> None:
        """Delete documents and index others, in batches; getting ready is the same as after a build."""
        self._deletes += len(changes.deleted)
        deletes = (orjson.dumps({"delete": {"_id": str(row)}}) + b"\n" for row in changes.deleted.tolist())
        self._send(deletes, progress)
        self._send(self._writes(changes.rows, changes.written), progress)
        self._finish(progress)

    def _send(self, operations: Iterable[bytes], progress: Progress) -> None:
        """Send operations in requests of limited number and size."""
        most, batch, taken = int(self.parameters["batch_size"]), list[bytes](), 0
        for operation in operations:
            if len(batch) == most or (batch and taken + len(operation) > _BATCH_BYTES):
                self._index.send(batch)
                progress.advance(len(batch))
                batch, taken = [], 0
            batch.append(operation)
            taken += len(operation)
        if batch:
            self._index.send(batch)
            progress.advance(len(batch))

    def remains(self) -> Remains:
        """Return where documents are, and the deleted contents if the server counts either all or none of them.

        Lucene also counts a document without terms for each delete. Merging to a single segment keeps both, as long as
        the shard retains its history of operations.
        """
        placed, counted = self.placement(), int(self.loaded.state["deleted_documents"])
        all_or_none = counted in (0, len(self.dropped.rows) + self._deletes)
        rows, written = self.dropped if counted else DroppedContents.of([], [])
        left = Remains(rows, written) if all_or_none else Remains()
        shards = np.zeros(len(self.ids), dtype=np.int32)
        shards[: len(self._shards)] = self._shards  # a row and its earlier content stay in their shard
        if placed.shards is not None:
            shards[placed.order] = placed.shards[placed.order]
        self._shards = shards
        return replace(left, order=placed.order, shards=shards)

    def _finish(self, progress: Progress) -> None:
        progress.start("merge", None)
        self._index.finish()

    def _writes(self, rows: Int32Array, documents: Documents[pa.ChunkedArray]) -> Iterator[bytes]:
        """Yield the operation that writes each document; its ``_id`` is its row."""
        for start in range(0, len(documents), _ROWS_PER_BLOCK):
            columns = columns_of(documents.column.slice(start, _ROWS_PER_BLOCK)).values()
            texts = list(zip(*(column.to_pylist() for column in columns), strict=True))
            ids = documents.ids.values.slice(start, _ROWS_PER_BLOCK).to_pylist()
            records = documents.records(start, start + len(texts))
            numbers = rows[start : start + _ROWS_PER_BLOCK].tolist()
            for row, text, doc_id, record in zip(numbers, texts, ids, records, strict=True):
                fields: dict[str, Any] = dict(zip(self._searched or (TERMS,), text, strict=True))
                if record:
                    fields[METADATA] = {field_name(name): value for name, value in record.items()}
                if self.parameters["keep"]:
                    fields[ID_FIELD] = doc_id
                yield orjson.dumps({"index": {"_id": str(row)}}) + b"\n" + orjson.dumps(fields) + b"\n"

    def load(self, folder: Path) -> LoadedIndex:
        """Count the documents, and list the just sent documents that are missing."""
        documents = self._index.count()
        missing = self.absent_rows(documents, self._rows_by_shard)
        return LoadedIndex(documents, self._index.state(), missing=missing)

    def _rows_by_shard(self) -> list[Int32Array]:
        """Return the rows (int32) of each shard in the order of Lucene's document numbers."""
        return [
            np.array([int(hit["_id"]) for page in self._index.pages(shard) for hit in page], dtype=np.int32)
            for shard in range(self._index.shards)
        ]

    def placement(self) -> Placement:
        """Read from the server which shard holds each document, and in which order."""
        by_shard = self._rows_by_shard()
        order = np.concatenate(by_shard)
        if self.parameters["search_type"] == "dfs_query_then_fetch" or self._index.shards == 1:
            return Placement(None, order)
        shards = np.zeros(len(self.ids), dtype=np.int32)  # it is meaningless for a missing document
        for shard, rows in enumerate(by_shard):
            shards[rows] = shard
        return Placement(shards, order)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> list[bytes | None]:
        """Make the body of each query's request; None for a query without terms, which is not sent.

        Raises RejectedInputError if the server would refuse all of them.
        """
        if k > self._index.window:
            raise RejectedInputError(
                f"the index '{self._index.name}' returns at most {self._index.window:,} of the {k:,} documents that a "
                "search requests (its setting max_result_window)",
                fix=f"take --k {self._index.window}, or raise index.max_result_window on the server",
            )
        weighted = [f"{name}^{field.weight:.9g}" for name, field in self._searched.items()]
        bodies = []
        for text in queries.to_pylist():
            query: Mapping[str, Any] = {"match": {self._field: {"query": text}}}
            if weighted:
                query = {"multi_match": {"query": text, "type": "most_fields", "fields": weighted}}
            if self._filters:
                query = {"bool": {"must": [query], "filter": self._filters}}
            body = {"query": query, "size": k, "_source": False}
            bodies.append(orjson.dumps(body) if text.strip() else None)
        return bodies

    def retrieve(self, query: bytes, k: int) -> bytes:
        """Send the query."""
        return self._index.search(query)

    def columns(self, answer: bytes) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of an answer; raises EngineFailureError if some shards did not answer."""
        hits = self._hits(answer)
        return self._rows(hits), np.fromiter((hit["_score"] for hit in hits), dtype=np.float32, count=len(hits))

    def _hits(self, answer: bytes) -> list[Mapping[str, Any]]:
        content = orjson.loads(answer)
        shards = content["_shards"]
        if content["timed_out"] or shards["failed"]:
            raise EngineFailureError(
                f"{self.product.name} answered without {shards['failed']} of its {shards['total']} shards"
                f"{', in time' if content['timed_out'] else ''}",
                fix="the server's log says why",
            )
        hits: list[Mapping[str, Any]] = content["hits"]["hits"]
        return hits

    def _rows(self, hits: Sequence[Mapping[str, Any]]) -> Int32Array:
        if self.parameters["external"]:
            return self._documents.rows(hit["_id"] for hit in hits)
        return np.fromiter((int(hit["_id"]) for hit in hits), dtype=np.int32, count=len(hits))

    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        """Return the server's own explanation of scores, of the same search, whose other hits are left out."""
        names = {f"{name}:": f"{field.name}:" for name, field in self._searched.items()} or {f"{self._field}:": ""}
        keys = self._documents.keys(rows) if self.parameters["external"] else [str(row) for row in rows.tolist()]
        with self.translated(lambda: f"explaining scores of query '{query.ids[0]}'"):
            (body,) = self.prepare(self.check(query, "query", None), max(len(keys), 1))
            if body is None:
                return ScoreTrees((None,) * len(keys), names)
            only: dict[str, Any] = {"explain": True, "post_filter": {"ids": {"values": keys}}}
            hits = self._hits(self._index.search(orjson.dumps(orjson.loads(body) | only)))
            trees = {row: _score_tree(hit["_explanation"]) for row, hit in zip(self._rows(hits), hits, strict=True)}
        return ScoreTrees(tuple(map(trees.get, rows.tolist())), names)

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter by exact terms, in clauses that do not score."""
        if self.parameters["external"]:
            self._filters = clauses_of(conditions, self._documents.mapping)
            return
        self._filters = [
            {"term": {f"{METADATA}.{field_name(name)}": {"value": value}}} for name, value in conditions.items()
        ]

    def size(self, folder: Path) -> Storage:
        """Return the server's own account of its files, with the write-ahead log separate."""
        return self._index.storage()

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open a user's index with read-only calls."""
        self._use_index(str(self.parameters["index"]))
        self._index.find()
        progress.start("attach", None)
        self._documents = ExternalDocuments(self._index, self.parameters, tuple(self._searched))
        documents, info = self._documents, self._info("server, an external index")
        fields, analyzers = ", ".join(documents.fields), ", ".join(dict.fromkeys(documents.analyzers))
        state = {**self._index.state(), "text_field": fields, "analyzer": analyzers}
        loaded = LoadedIndex(len(documents.ids), state)
        return External(
            info, documents.ids, loaded, folder, documents.changed, values=documents.values, metadata=documents
        )

    def stored_texts(self, rows: Int32Array) -> list[str | None]:
        """Return the texts of documents in the searched field, None for an index that keeps no sources."""
        return self._documents.texts(rows)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Return that nothing can be compared: the index makes terms by its own analyzer."""
        documents = self._documents
        fields, analyzers = ", ".join(documents.fields), ", ".join(dict.fromkeys(documents.analyzers))
        subject = "field" if len(documents.fields) == 1 else "fields"
        return f"the index makes terms of the {subject} '{fields}' by its own analyzer ('{analyzers}')"


def _score_tree(content: Mapping[str, Any]) -> ScoreTree:
    return ScoreTree(
        float(content["value"]), str(content["description"]), tuple(map(_score_tree, content.get("details", ())))
    )


class ElasticsearchEngine(OpenSearchEngine):
    """An index of analysed terms on an Elasticsearch server: the same calls, the same similarity."""

    name = "elasticsearch"
    product = ELASTICSEARCH
