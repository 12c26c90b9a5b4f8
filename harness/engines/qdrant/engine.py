"""Qdrant as an engine: what is sent, what came of it, what it answers, whatever vectors its points have.

How Qdrant is reached is behind :class:`~harness.engines.qdrant.store.QdrantStore`: :mod:`harness.engines.qdrant.edge`
is the engine in the process, :mod:`harness.engines.qdrant.client_store` a server, or the Python re-implementation in
its client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Int32Array
from harness.engines.base import (
    Documents,
    EngineInfo,
    External,
    ExternalIndex,
    Filterable,
    LoadedIndex,
    Storage,
)
from harness.engines.hits import HitCollector
from harness.engines.interface import Caveats, ExpectedContent, SearchResult, StoredDocuments
from harness.engines.qdrant.external_index import ExternalPoints
from harness.engines.qdrant.points import Vectors, query_of
from harness.engines.qdrant.segments import caveats_of
from harness.engines.qdrant.settings import QdrantSettings, ServerSettings, mode_of
from harness.engines.qdrant.store import BatchingStore, QdrantStore, open_external, open_store
from harness.engines.stored_metadata import with_ids
from harness.errors import BackendError, EngineFailureError, EngineTimeoutError
from harness.registry.parameters import ParameterValue

__all__ = ["PointsEngine"]

_NANOSECONDS = 1_000_000_000

Ask = Callable[[Vectors, int], Any]
"""The vectors of a query, and how many hits it may have, to a query in the client's own form."""


class PointsEngine(Filterable[Inputs], ExternalIndex[Inputs]):
    """What engines on Qdrant have in common; a subclass says which vectors a point has."""

    search_parameters = frozenset(
        {
            *("threads", "optimize_timeout_s"),
            *("url", "transport", "grpc_port", "api_key_env", "keep"),
            *("timeout_s", "retry_s", "upload_threads", "search_batch"),
            *("hnsw_ef", "exact", "rescore", "oversampling", "ignore_quantization"),
            *("fusion", "rrf_k", "candidates"),
        }
    )

    _store: QdrantStore
    _points: ExternalPoints

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._settings = self.settings_of(parameters)

    @classmethod
    def settings_of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """The card's parameters, typed."""
        raise NotImplementedError

    def state_of(self, documents: Inputs) -> Mapping[str, ParameterValue]:  # noqa: ARG002 - of subclasses
        """What the report says beside the store's own account of the index."""
        return {}

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """The mode and the version of what answers, found without loading an engine; a server is asked.

        Raises EngineUnavailableError when the server does not answer.
        """
        from harness.engines.qdrant import edge as qdrant_edge

        mode = mode_of(parameters)
        if mode == "edge":
            return {"mode": mode, **_version_of(qdrant_edge.PACKAGE)}
        from harness.engines.qdrant.address import address_of
        from harness.engines.qdrant.connect import connect

        server = ServerSettings.of(parameters)
        address = address_of(server)
        found = connect(address, server)
        found.client.close()
        return {"mode": mode, "url": address.url, "qdrant": found.version}

    def info(self) -> EngineInfo:
        """Open the collection of the folder, or make ready to make one."""
        return self._use(open_store(self.folder, self._settings, exists=self.finished)).info

    def _use(self, store: QdrantStore) -> QdrantStore:
        self.resources.callback(store.close)
        self._store = store
        return store

    def create(self, folder: Path, documents: Documents[Inputs]) -> None:  # noqa: ARG002 - the store knows
        """Make the collection, with an index of keywords for each field of the metadata."""
        dense = documents.column.dense
        self._store.make(None if self._settings.dense is None or dense is None else dense.shape[1])
        if documents.metadata is not None:
            self._store.index_fields(documents.metadata.column_names)
        self._built_state = self.state_of(documents.column)

    _built_state: Mapping[str, ParameterValue] = {}

    def build(self, folder: Path, documents: Documents[Inputs], progress: Progress) -> None:  # noqa: ARG002
        """Send all documents in batches; getting ready is optimising until idle, and writing to disk.

        Documents without terms are sent too, with an empty vector: Qdrant counts them as points, and its idf does not.
        """
        inputs = documents.column
        if self._settings.server.keep:
            inputs = replace(inputs, metadata=with_ids(inputs.metadata, documents.ids))
        self._send(inputs, progress)
        progress.start("optimise", None)
        self._optimise_until_idle()
        self._store.flush()

    def _send(self, documents: Inputs, progress: Progress) -> None:
        size, every = self._settings.batch_size, self._settings.optimize_every
        batches = [(start, min(start + size, len(documents))) for start in range(0, len(documents), size)]
        if self._settings.senders > 1:
            self._send_at_once(documents, batches, progress)
            return
        for start, stop in batches:
            self._store.upsert(documents, start, stop)
            if every and start // every != stop // every:
                self._store.optimise()
            progress.advance(stop - start)

    def _send_at_once(self, documents: Inputs, batches: Sequence[tuple[int, int]], progress: Progress) -> None:
        pool = ThreadPoolExecutor(self._settings.senders, thread_name_prefix="upload")
        try:
            sent = {pool.submit(self._store.upsert, documents, *batch): batch for batch in batches}
            for done in as_completed(sent):
                done.result()
                start, stop = sent[done]
                progress.advance(stop - start)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after a failure, what waits for a retry is not waited for

    def _optimise_until_idle(self) -> None:
        deadline = time.monotonic() + self._settings.optimize_timeout_s
        while self._store.optimise():
            if time.monotonic() > deadline:
                raise EngineTimeoutError(
                    f"Qdrant was still optimising after {self._settings.optimize_timeout_s:g} s",
                    fix="raise 'optimize_timeout_s'",
                )

    def load(self, folder: Path) -> LoadedIndex:  # noqa: ARG002 - the store is open
        """Count the points, and list what is missing of those that were just sent."""
        documents, state = self._store.count(), {**self._store.state(), **self._built_state}
        missing = np.empty(0, dtype=np.int32)
        if not self.finished and documents != len(self.ids):
            stored = np.zeros(len(self.ids), dtype=bool)
            stored[np.fromiter(self._store.rows(), dtype=np.int64)] = True
            missing = np.flatnonzero(~stored).astype(np.int32)
        return LoadedIndex(documents, state, self._store.dimensions, missing)

    def prepare(self, queries: Inputs, k: int) -> list[Any]:
        """Make queries in the client's own form; a query without a vector is not sent."""
        return self.requests(queries, k, self._store.request if self._settings.fusion is None else self._store.fused)

    def requests(self, queries: Inputs, k: int, ask: Ask) -> list[Any]:
        """Ask for each query that has a vector; None for the others."""
        vectors = [query_of(queries, row) for row in range(len(queries))]
        return [ask(one, k) if one else None for one in vectors]

    def retrieve(self, query: Any, k: int) -> list[Any]:  # noqa: ANN401, ARG002 - in the client's own form
        """Ask Qdrant, which makes a list of Python hits inside its own call: their making counts as search."""
        return self._store.query(query)

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        """One call for each query, or one for several: each of them is given an equal share of the call's time."""
        size = self._settings.server.search_batch
        if size == 1:
            return super().search_prepared(prepared, ids, k, clock)
        collector, store = HitCollector(len(ids)), cast("BatchingStore", self._store)
        for start in range(0, len(ids), size):
            requests = prepared[start : start + size]
            sent = [request for request in requests if request is not None]
            first, last = ids[start], ids[start + len(requests) - 1]
            with store.translated(lambda: f"searching for queries '{first}' to '{last}'"):  # noqa: B023 - used inside
                started = clock()
                answers = iter(store.query_batch(sent) if sent else [])
                searched = clock()
            found = [self.arrays(next(answers) if request is not None else []) for request in requests]
            transferred = clock() - searched
            for rows, scores in found:
                collector.add(rows, scores, (searched - started) // len(found), transferred // len(found))
        return collector.result(queries_per_call=size)

    def columns(self, answer: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Make arrays of hits; those of an external index are numbered as its store lists them."""
        if self.parameters["external"]:
            return self._points.columns(answer)
        rows = np.fromiter([hit.id for hit in answer], dtype=np.int32, count=len(answer))
        return rows, np.fromiter([hit.score for hit in answer], dtype=np.float32, count=len(answer))

    def translated(
        self,
        doing: Callable[[], str],
        kind: type[BackendError] = EngineFailureError,  # noqa: ARG002 - the store decides
        fix: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Raise the client's errors as ours."""
        return self._store.translated(doing) if hasattr(self, "_store") else nullcontext()

    @property
    def repeated_calls(self) -> int:
        """Calls that the client made again so far."""
        return self._store.repeated

    def filter(self, wanted: Mapping[str, str]) -> None:
        """Filter by payload."""
        self._store.restrict(wanted)

    def size(self, folder: Path) -> Storage:  # noqa: ARG002 - the store knows
        """Return the bytes of the shard, its write-ahead log apart; a server's own estimate, without a log."""
        return self._store.storage()

    @property
    def source(self) -> Path | None:
        """The folder of the user's shard; None for a collection on a server."""
        return self._settings.external.folder if self._settings.external is not None else None

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open a copy of the user's shard, or look at a collection by calls that only read."""
        external = self._settings.external
        if external is None:
            raise AssertionError("an external index that the settings do not name")
        store, changed = open_external(external, folder, self._settings, progress)
        self._use(store)
        self._settings = store.settings
        self._points = ExternalPoints(store, external, progress)
        dense = self._settings.dense
        read: Mapping[str, ParameterValue] = {} if dense is None else {"similarity": dense.similarity}
        ids = self._points.ids
        loaded = LoadedIndex(len(ids), {**read, **store.state()}, store.dimensions)
        return External(store.info, ids, loaded, folder, changed)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector, and the idf; the columns of sparse ones must be the encoder's."""
        return self._points.mismatch(content, progress)

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return some points of the attached index, with the texts in their payloads."""
        return self._points.stored_documents(count)

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:  # noqa: ARG002 - Qdrant looks at no k
        """No vector is found by a graph where every search scans."""
        dense = self._settings.dense
        return {"vectors_in_graph": 0} if dense is not None and dense.exact else {}

    def caveats(self, k: int) -> Caveats:  # noqa: ARG002 - Qdrant looks at no k
        """Parameters that changed nothing, because no segment is optimised, compressed or searched by a graph."""
        return caveats_of(self._settings, self._store.index_state())


def _version_of(package: str) -> dict[str, str]:
    try:
        return {package: version(package)}
    except PackageNotFoundError:
        return {package: "not installed"}
