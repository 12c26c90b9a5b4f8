"""One collection of Chroma, in the process or on a server: what is written to it, read from it and asked of it."""

from __future__ import annotations

import logging
import re
import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
import pyarrow as pa

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.engines.chroma.connection import (
    address_of,
    close_http_client,
    connect,
    http_session,
    persistent_client,
    within,
)
from harness.engines.chroma.errors import PACKAGE, REBUILD, Retrier, embedded_errors, server_errors
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.external_index import foreign_index_errors
from harness.engines.index_folder import allocated_bytes, records_of
from harness.engines.interface import LEFT_BEHIND, EngineInfo, Storage
from harness.engines.remote_server import Cause, FaultError, redact
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.store.disk import copy_folder

__all__ = ["Collection", "EmbeddedCollection", "ServerCollection"]

T = TypeVar("T")

_NOT_TOLD = "num_threads, batch_size"
_COUNTED = "the count of records: Chroma does not tell"
"""It has no other index of dense vectors, and puts every record into the graph, on disk or in memory."""
_FOLDER = "chroma"
_COLLECTION = "harness"
_DATABASE = "chroma.sqlite3"
_SIZES = "chroma-files.json"
_JOURNALS = ("-wal", "-shm", "-journal")
"""How files of SQLite end that come and go."""
_NOBODY = "harness-flush-"
_NAMED = 10
_COLLECTION_FILE = "collection.json"
"""Beside the manifest: which collection of the server holds the index."""
_GONE_S = 1.5
_ANSWER_S = 2.0
"""Both are shorter than the grace that a worker is given to end: what is left must still be said."""
_log = logging.getLogger("harness")


class Collection(ABC):
    """Ids are row numbers in a collection of the harness's own. Errors come translated, but for :meth:`query`.

    It is opened once, by :meth:`create`, :meth:`load` or :meth:`attach`.
    """

    name: str

    def __init__(self, parameters: ChromaParameters) -> None:
        self.parameters = parameters
        self._client: Any = None
        self._collection: Any = None
        self._where: Mapping[str, Any] | None = None

    @property
    def repeated(self) -> int:
        """Calls that were made again so far, because the first answer was an error that may pass."""
        return 0

    @property
    @abstractmethod
    def info(self) -> EngineInfo:
        """Say what runs, once it is open."""

    @abstractmethod
    def create(self, folder: Path) -> None:
        """Make a new, empty collection for the index in ``folder``."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Open the collection of the index in ``folder``, to be searched with the ``ef_search`` of the parameters."""

    @abstractmethod
    def attach(self, folder: Path, progress: Progress) -> None:
        """Open the user's collection that the parameters name, and write nothing to it; ``folder`` is for copies."""

    @abstractmethod
    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""

    @abstractmethod
    def storage(self) -> Storage:
        """Return the allocated bytes."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""

    def flush(self) -> None:  # noqa: B027 - a server writes by its own schedule
        """Bring everything to disk, where that can be asked for."""

    def finish(self) -> None:  # noqa: B027 - a server needs nothing
        """Note what tells later whether the index is still whole."""

    def changed(self) -> str | None:
        """Say what changed in a user's collection since it was attached; None when nothing did."""
        return None

    def unwritten(self) -> int | None:
        """Return how many records are in the log and not in the files of the graph, None where Chroma does not tell.

        Of fewer records than ``sync_threshold`` none were written yet; of more, the count does not tell how many.
        """
        count, threshold = self.count(), self.configured().get("sync_threshold")
        return count if threshold is not None and count < int(threshold) else None

    def call(self, operation: Callable[[], T]) -> T:
        """Call the client."""
        return operation()

    @property
    def dimensions(self) -> int | None:
        """Dimensions of the vectors that the collection held when it was opened; None when it held none."""
        known = self._collection.get_model().dimension
        return None if known is None else int(known)

    @property
    def batch(self) -> int:
        """Documents in one upsert: as many as asked for, at most what the client takes."""
        return max(1, min(self.parameters.upsert_batch, self._largest_batch()))

    def _largest_batch(self) -> int:
        with self.translated(lambda: "asking how much it takes at once"):
            return int(self.call(self._client.get_max_batch_size))

    def upsert(self, vectors: Float32Array, start: int, stop: int, metadata: pa.Table | None) -> None:
        """Store rows ``start`` to ``stop`` under these numbers. ``add`` would leave out ids that it knows, silently."""
        ids, rows = [str(row) for row in range(start, stop)], np.asarray(vectors[start:stop])
        # Chroma takes None for a record without metadata, and refuses an empty dictionary
        records = None if metadata is None else [record or None for record in records_of(metadata, start, stop)]
        with self.translated(lambda: f"storing documents {start} to {stop - 1}"):
            self.call(lambda: self._collection.upsert(ids=ids, embeddings=rows, metadatas=records))

    def count(self) -> int:
        """Return the number of records."""
        with self.translated(lambda: "counting the records"):
            return int(self.call(self._collection.count))

    def get(self, doing: str = "reading some records", **wanted: Any) -> Mapping[str, Any]:  # noqa: ANN401 - the client's
        """Return records, by the parameters of Chroma's own ``get``."""
        with self.translated(lambda: doing):
            answer: Mapping[str, Any] = self.call(lambda: self._collection.get(**wanted))
        return answer

    def pages(self, size: int, *include: str) -> Iterator[Mapping[str, Any]]:
        """Yield all records, ``size`` at a time, with their ids and what else to ``include``."""
        start = 0
        while (page := self.get("listing the records", limit=size, offset=start, include=list(include)))["ids"]:
            yield page
            start += len(page["ids"])

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Answer queries with records whose metadata have these values; with all records for none."""
        conditions = [{field: {"$eq": value}} for field, value in wanted.items()]
        self._where = {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)

    def query(self, vector: Float32Array, k: int, *include: str) -> Mapping[str, Any]:
        """Return Chroma's answer to one query vector, float32 (1, d): ``k`` ids, and what else to ``include``."""
        wanted, where = list(include), self._where
        answer: Mapping[str, Any] = self.call(
            lambda: self._collection.query(query_embeddings=vector, n_results=k, where=where, include=wanted)
        )
        return answer

    def state(self) -> Mapping[str, ParameterValue]:
        """Return what Chroma says of the graph's parameters, which it does not say, and how many vectors it has."""
        said = {name: value for name, value in self.configured().items() if value is not None}
        graph: dict[str, ParameterValue] = {"vectors_in_graph": self.count(), "vectors_in_graph_from": _COUNTED}
        return {**said, "not_told": _NOT_TOLD, "max_batch_size": self._largest_batch(), **graph}

    def configured(self) -> Mapping[str, Any]:
        """Return Chroma's own account of the graph's parameters; empty where there is no HNSW graph."""
        return dict(self._collection.configuration_json.get("hnsw") or {})


class EmbeddedCollection(Collection):
    """A collection in a folder, by Chroma's engine inside the process."""

    name = _COLLECTION
    _folder: Path
    _mode = "embedded"

    @property
    def info(self) -> EngineInfo:
        """Name the version of the package."""
        return EngineInfo("Chroma", version(PACKAGE), self._mode)

    def create(self, folder: Path) -> None:
        """Make a new, empty collection below ``folder``; raises EngineUnavailableError."""
        self._folder = folder / _FOLDER
        with embedded_errors(lambda: f"creating a collection in '{self._folder}'", EngineUnavailableError):
            self._client = persistent_client(self._folder, self.parameters.database)
            hnsw = {"hnsw": self.parameters.hnsw}
            self._collection = self._client.create_collection(self.name, embedding_function=None, configuration=hnsw)

    def load(self, folder: Path) -> None:
        """Open the collection below ``folder``; raises EngineUnavailableError for a damaged index.

        Chroma takes a changed ``ef_search`` when it opens a folder and not before.
        """
        _require_sizes(folder)
        self._open(folder / _FOLDER)
        wanted = self.parameters.ef_search
        if self.configured().get("ef_search") == wanted:
            return
        with self.translated(lambda: "changing ef_search"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "legacy embedding function config": the collection has none
            self._collection.modify(configuration={"hnsw": {"ef_search": wanted}})
        self.close()
        self._open(folder / _FOLDER)

    def attach(self, folder: Path, progress: Progress) -> None:
        """Open a copy below ``folder`` of somebody's folder: Chroma writes to one that it opens.

        Raises:
            EngineUnavailableError: It is no folder of Chroma's.
            RejectedInputError: It has no such collection.
        """
        source = self.parameters.source
        if source is None or not (source / _DATABASE).is_file():
            raise EngineUnavailableError(
                f"'{source}' is not a folder of Chroma: it has no {_DATABASE}",
                fix="name what PersistentClient was given",
            )
        copy = folder / _FOLDER
        copy.mkdir()
        copy_folder(source, copy, progress)
        self.name, self._mode = self.parameters.collection, "embedded, a copy of an external folder"
        with foreign_index_errors(REBUILD, "it is left as it was: see whether this version of Chroma can read it"):
            self._open(copy, source)

    def _open(self, folder: Path, source: Path | None = None) -> None:
        """Open the collection in ``folder``; ``source`` is what that is a copy of, and what messages name then."""
        self._folder, doing = folder, f"opening the collection '{self.name}' in '{source or folder}'"
        with embedded_errors(lambda: doing, EngineUnavailableError):
            self._client = persistent_client(folder, self.parameters.database)
            if source is not None:
                self._require_collection(source)
            self._collection = self._client.get_collection(self.name, embedding_function=None)
            self._collection.count()  # the folder is read when something is asked, not before

    def _require_collection(self, source: Path) -> None:
        """Raise RejectedInputError, with the names of those that are there, when there is no such collection."""
        names = sorted(str(collection.name) for collection in self._client.list_collections())
        if self.name not in names:
            known = ", ".join(f"'{name}'" for name in names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
            raise RejectedInputError(
                f"there is no collection '{self.name}' in '{source}'",
                fix=f"name one that is there (collection=): {known or 'there is none'}",
            )

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""
        return embedded_errors(doing)

    def flush(self) -> None:
        """Have the whole graph written.

        Chroma writes it when ``sync_threshold`` records have come, whatever they are: these ask it to delete what it
        does not have, and change nothing else.
        """
        threshold, step = self.parameters.sync_threshold, self._largest_batch()
        with self.translated(lambda: "writing the graph to disk"):
            for start in range(0, threshold, step):
                stop = min(start + step, threshold)
                self._collection.delete(ids=[f"{_NOBODY}{number}" for number in range(start, stop)])

    def finish(self) -> None:
        """Remember how long Chroma's files are: it opens files that became shorter, and answers from what is left."""
        files = (path for path in self._folder.rglob("*") if path.is_file() and not path.name.endswith(_JOURNALS))
        sizes = {str(path.relative_to(self._folder)): path.stat().st_size for path in files}
        (self._folder.parent / _SIZES).write_bytes(orjson.dumps(sizes))

    def unwritten(self) -> int | None:
        """Return 0 where the harness had everything written; else what the count and ``sync_threshold`` tell."""
        return 0 if self.parameters.flush and not self.parameters.external else super().unwritten()

    def storage(self) -> Storage:
        """Return the allocated bytes of the folder. The log is inside Chroma's SQLite file, and not told apart."""
        return Storage(allocated_bytes(self._folder), 0)

    def close(self) -> None:
        """Let go of the folder: a client left open would be served again for the same path, whatever is there then."""
        client, self._client = self._client, None
        if client is not None:
            with self.translated(lambda: "closing"):
                client.close()


def _require_sizes(folder: Path) -> None:
    """Raise EngineUnavailableError for a file that is gone or shorter than when the index was finished."""
    path = folder / _SIZES
    try:
        sizes: dict[str, int] = orjson.loads(path.read_bytes())
        present = {name: (folder / _FOLDER / name).stat().st_size for name in sizes}
    except (OSError, orjson.JSONDecodeError) as error:
        raise EngineUnavailableError(f"the index in '{folder}' is damaged: {error}", fix=REBUILD) from error
    for name, size in present.items():
        if size < sizes[name]:
            raise EngineUnavailableError(
                f"the index in '{folder}' is damaged: '{name}' has {size:,} of the {sizes[name]:,} bytes that it had",
                fix=REBUILD,
            )


class ServerCollection(Collection):
    """A collection on a server. One that it created it removes when it is closed, unless it is to be kept."""

    def __init__(self, parameters: ChromaParameters) -> None:
        super().__init__(parameters)
        self._address, self._retrier = address_of(parameters), Retrier(parameters.retry_s)
        self._owns = False
        self._attached: tuple[int, str] | None = None

    def _connect(self, collection: str) -> None:
        self._client, self._version, self._doubt = connect(self._address, self.parameters, self._retrier)
        self.name = collection

    @property
    def info(self) -> EngineInfo:
        """Name the version that the server gives, and what is doubtful about it."""
        mode = "server" if self._attached is None else "server, an external collection"
        return EngineInfo("Chroma", self._version, mode, self._doubt)

    @property
    def repeated(self) -> int:
        """Calls that were made again so far."""
        return self._retrier.repeated

    def create(self, folder: Path) -> None:
        """Make a new, empty collection, named after ``folder``; an answer that was lost on the way does not matter."""
        key = re.sub(r"[^A-Za-z0-9_-]", "", folder.name)[:40]
        self._connect(f"harness-{key}-{secrets.token_hex(4)}")
        self._owns = True
        (folder / _COLLECTION_FILE).write_bytes(orjson.dumps({"collection": self.name}))
        options = {"embedding_function": None, "configuration": {"hnsw": self.parameters.hnsw}}
        with self.translated(lambda: f"creating the collection '{self.name}'"):
            try:
                self._collection = self.call(lambda: self._client.create_collection(self.name, **options))
            except FaultError as error:
                # the name is random: what exists was made by a try whose answer was lost
                if error.fault.cause is not Cause.CONFLICT or error.tries == 1:
                    raise
                self._find()

    def load(self, folder: Path) -> None:
        """Find the collection that ``folder`` names.

        Raises:
            EngineUnavailableError: It is gone or cannot be told, or it is searched with another ``ef_search``: a server
                takes a new one when it is started again, not before.
        """
        self._connect(_name_in(folder))
        self._find()
        stored, wanted = self.configured().get("ef_search"), self.parameters.ef_search
        if stored != wanted:
            raise EngineUnavailableError(
                f"the server searches the collection '{self.name}' with ef_search={stored}, not {wanted}",
                fix="build it with that ef_search: a server takes another one only when it is started again",
            )

    def attach(self, folder: Path, progress: Progress) -> None:  # noqa: ARG002 - nothing is copied
        """Find somebody's collection, and note what it holds; raises EngineUnavailableError when there is none."""
        self._connect(self.parameters.collection)
        self._find("name one that is there: collection=")
        self._attached = self._content()

    def _find(
        self, fix: str = "one that the harness made is removed when its engine closes: build it with keep=true"
    ) -> None:
        """Look the collection up; raises EngineUnavailableError, with the remedy ``fix``, when it is not there."""
        with self.translated(lambda: f"looking for the collection '{self.name}'"):
            try:
                self._collection = self.call(lambda: self._client.get_collection(self.name, embedding_function=None))
            except FaultError as error:
                if error.fault.cause is not Cause.MISSING:
                    raise
                database = self.parameters.database
                raise EngineUnavailableError(
                    f"there is no collection '{self.name}' on the server, in the database '{database}'", fix=fix
                ) from error

    def call(self, operation: Callable[[], T]) -> T:
        """Call the client, again while the fault may pass; raises FaultError."""
        return self._retrier.call(operation)

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""
        return server_errors(self._address, doing)

    def state(self) -> Mapping[str, ParameterValue]:
        """Say where the index is, what the server says of it, and how often a call had to be made again."""
        own = {"kept": self.parameters.keep, "repeated_calls": self.repeated} if self._attached is None else {}
        placed: dict[str, ParameterValue] = {"server": self._address.url, "collection": self.name}
        return {**placed, "authentication": self._address.authentication, **own, **super().state()}

    def changed(self) -> str | None:
        """Say how many records there are now, or that the configuration is another; None when both are as they were."""
        before, now = self._attached, self._content()
        if before is None or before == now:
            return None
        if before[0] != now[0]:
            return f"the collection '{self.name}' held {before[0]} records and now holds {now[0]}"
        return f"the configuration of the collection '{self.name}' is another"

    def _content(self) -> tuple[int, str]:
        self._find()
        return self.count(), str(sorted(self.configured().items()))

    def storage(self) -> Storage:
        """Return nothing known: a server tells nothing about its disk."""
        return Storage(None, 0)

    def close(self) -> None:
        """Remove the collection when it is to be removed, and let go of the client."""
        self._retrier.give_up()
        client, self._client = self._client, None
        if client is None:
            return
        try:
            if self._owns and not self.parameters.keep:
                self._remove(client)
        finally:
            close_http_client(client)

    def _remove(self, client: Any) -> None:  # noqa: ANN401 - the client is untyped
        """Remove the collection, after failures too: nothing hides those, and nobody waits for a server that hangs."""
        removing = Retrier(_GONE_S)

        def remove() -> None:
            try:
                removing.call(lambda: client.delete_collection(self.name))
            except FaultError as error:
                if error.fault.cause is not Cause.MISSING:
                    raise

        http_session(client).event_hooks = {"response": [removing.remember]}
        try:
            within(_ANSWER_S, remove)
        except FaultError as error:
            _log.warning(
                "%sthe collection '%s' could not be removed: %s; "
                "'harness doctor --chroma-url %s --remove-left-collections' does it",
                *(LEFT_BEHIND, self.name, redact(str(error), self._address), self._address.url),
            )


def _name_in(folder: Path) -> str:
    path = folder / _COLLECTION_FILE
    try:
        return str(orjson.loads(path.read_bytes())["collection"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise EngineUnavailableError(
            f"'{path}' does not say which collection holds the index: {error}", fix="delete the folder and index again"
        ) from error
