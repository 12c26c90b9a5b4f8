"""Chroma's engine inside the process: ``PersistentClient``, on a folder of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import orjson

from harness.data.progress import Progress
from harness.engines.chroma.client import PACKAGE, persistent_client, require_chroma
from harness.engines.chroma.settings import ChromaSettings, ExternalChroma
from harness.engines.chroma.store import ChromaStore
from harness.engines.disk import allocated_bytes
from harness.engines.external_index import theirs
from harness.engines.faults import shown
from harness.engines.interface import EngineInfo, Storage
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError, RejectedInputError
from harness.store.disk import copy_folder

__all__ = ["EmbeddedStore"]

_FOLDER = "chroma"
_COLLECTION = "harness"
_DATABASE = "chroma.sqlite3"
_SIZES = "chroma-files.json"
_JOURNALS = ("-wal", "-shm", "-journal")
"""How files of SQLite end that come and go."""
_REBUILD = "delete the index folder and index again"
_NO_ROOM = ("No space left", "disk is full", "File too large", "disk I/O error")
_NOBODY = "harness-flush-"
_NAMED = 10


class EmbeddedStore(ChromaStore):
    """A collection in a folder. Opened by :meth:`create`, :meth:`load` or :meth:`attach`."""

    def __init__(self, client: Any, collection: Any, settings: ChromaSettings, folder: Path) -> None:  # noqa: ANN401
        super().__init__(client, collection, settings, EngineInfo("Chroma", version(PACKAGE), "embedded"))
        self._folder = folder

    @classmethod
    def create(cls, folder: Path, settings: ChromaSettings) -> EmbeddedStore:
        """A new, empty collection below ``folder``; raises EngineUnavailableError."""
        folder = folder / _FOLDER
        with _translated(lambda: f"creating a collection in '{folder}'", EngineUnavailableError):
            client = persistent_client(folder, settings.server.database)
            try:
                hnsw = {"hnsw": settings.hnsw}
                made = client.create_collection(_COLLECTION, embedding_function=None, configuration=hnsw)
            except BaseException:
                client.close()
                raise
        return cls(client, made, settings, folder)

    @classmethod
    def load(cls, folder: Path, settings: ChromaSettings) -> EmbeddedStore:
        """The collection below ``folder``, searched with the ``ef_search`` of ``settings``.

        Chroma takes a changed ``ef_search`` when it opens a folder and not before. Raises EngineUnavailableError for a
        damaged index.
        """
        _check_sizes(folder)
        store = cls._opened(folder / _FOLDER, _COLLECTION, settings)
        if store.configured().get("ef_search") == settings.ef_search:
            return store
        store.change_ef_search()
        store.close()
        return cls._opened(folder / _FOLDER, _COLLECTION, settings)

    @classmethod
    def attach(
        cls, external: ExternalChroma, source: Path, folder: Path, settings: ChromaSettings, progress: Progress
    ) -> EmbeddedStore:
        """A copy below ``folder`` of somebody's folder: Chroma writes to one that it opens.

        Raises EngineUnavailableError for a folder that is none of Chroma's, RejectedInputError for one without such a
        collection.
        """
        if not (source / _DATABASE).is_file():
            raise EngineUnavailableError(
                f"'{source}' is not a folder of Chroma: it has no {_DATABASE}",
                fix="name what PersistentClient was given",
            )
        copy = folder / _FOLDER
        copy.mkdir()
        copy_folder(source, copy, progress)
        with theirs(_REBUILD, "it is left as it was: see whether this version of Chroma can read it"):
            store = cls._opened(copy, external.collection, settings, source)
        store.info = EngineInfo(store.info.name, store.info.version, "embedded, a copy of an external folder")
        return store

    @classmethod
    def _opened(cls, folder: Path, name: str, settings: ChromaSettings, source: Path | None = None) -> Self:
        """``source`` is what ``folder`` is a copy of, and what messages name then."""
        doing = f"opening the collection '{name}' in '{source or folder}'"
        with _translated(lambda: doing, EngineUnavailableError):
            client = persistent_client(folder, settings.server.database)
            try:
                if source is not None:
                    _require_collection(client, name, source)
                found = client.get_collection(name, embedding_function=None)
                found.count()  # the folder is read when something is asked, not before
            except BaseException:
                client.close()
                raise
        return cls(client, found, settings, folder)

    def change_ef_search(self) -> None:
        """Store the ``ef_search`` of the settings, to be in effect when the folder is opened again."""
        with self.translated(lambda: "changing ef_search"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "legacy embedding function config": the collection has none
            self._collection.modify(configuration={"hnsw": {"ef_search": self._settings.ef_search}})

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """The context in which to call :meth:`query`."""
        return _translated(doing)

    def flush(self) -> None:
        """Have the whole graph written.

        Chroma writes it when ``sync_threshold`` records have come, whatever they are: these ask it to delete what it
        does not have, and change nothing else.
        """
        threshold, step = self._settings.sync_threshold, self._largest_batch()
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
        own = self._settings.external is None
        return 0 if own and self._settings.flush else super().unwritten()

    def storage(self) -> Storage:
        """Allocated bytes of the folder. The log is inside Chroma's SQLite file, and not told apart."""
        return Storage(allocated_bytes(self._folder), 0)

    def close(self) -> None:
        """Let go of the folder: a client left open would be served again for the same path, whatever is there then."""
        with self.translated(lambda: "closing"):
            self._client.close()


def _check_sizes(folder: Path) -> None:
    """Raise EngineUnavailableError for a file that is gone or shorter than when the index was finished."""
    path = folder / _SIZES
    try:
        sizes: dict[str, int] = orjson.loads(path.read_bytes())
        found = {name: (folder / _FOLDER / name).stat().st_size for name in sizes}
    except (OSError, orjson.JSONDecodeError) as error:
        raise EngineUnavailableError(f"the index in '{folder}' is damaged: {error}", fix=_REBUILD) from error
    for name, size in found.items():
        if size < sizes[name]:
            raise EngineUnavailableError(
                f"the index in '{folder}' is damaged: '{name}' has {size:,} of the {sizes[name]:,} bytes that it had",
                fix=_REBUILD,
            )


def _require_collection(client: Any, name: str, source: Path) -> None:  # noqa: ANN401 - the client is untyped
    """Raise RejectedInputError, with the names of those that are there, when there is no such collection."""
    names = sorted(str(one.name) for one in client.list_collections())
    if name not in names:
        named = ", ".join(f"'{one}'" for one in names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        raise RejectedInputError(
            f"there is no collection '{name}' in '{source}'",
            fix=f"name one that is there (collection=): {named or 'there is none'}",
        )


@contextmanager
def _translated(doing: Callable[[], str], kind: type[HarnessError] = EngineFailureError) -> Iterator[None]:
    """Turn what the client raises into ``kind``; a panic of its Rust code is a ``BaseException`` that has no name."""
    try:
        yield
    except BaseException as error:
        if not _is_the_clients(error):
            raise
        said = shown(str(error) or type(error).__name__, None)
        raise kind(f"Chroma failed while {doing()}: {said}", fix=_remedy(str(error))) from error


def _is_the_clients(error: BaseException) -> bool:
    errors = require_chroma("chromadb.errors")
    panic = type(error).__module__ == "pyo3_runtime"
    return panic or isinstance(error, errors.ChromaError | ValueError | TypeError)


def _remedy(message: str) -> str:
    if any(sign in message for sign in _NO_ROOM):
        return "free disk space, or raise the limit on file sizes, then index again"
    if "locked" in message:
        return "another process writes to this index: close it first"
    return _REBUILD
