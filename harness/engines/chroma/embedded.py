"""Chroma's engine inside the process: ``PersistentClient``, on its own folder.

A user's folder is searched in a copy, because opening it writes to its files.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import version
from pathlib import Path

import orjson

from harness.data.progress import Progress
from harness.engines.chroma.collection import Collection
from harness.engines.chroma.connection import PACKAGE, persistent_client, require_chroma
from harness.engines.external_index import foreign_index_errors
from harness.engines.index_folder import REBUILD, allocated_bytes
from harness.engines.interface import EngineInfo, Storage
from harness.engines.remote_server import redact
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError, RejectedInputError
from harness.store.disk import copy_folder

_FOLDER = "chroma"
_COLLECTION = "harness"
_DATABASE = "chroma.sqlite3"
_SIZES = "chroma-files.json"
_JOURNALS = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's temporary files."""
_NOBODY = "harness-flush-"
_NO_ROOM = ("No space left", "disk is full", "File too large", "disk I/O error")


class EmbeddedCollection(Collection):
    """A collection in a folder, in Chroma's engine inside the process."""

    name = _COLLECTION
    _folder: Path
    _mode = "embedded"

    @property
    def info(self) -> EngineInfo:
        """Return the version of the package."""
        return EngineInfo("Chroma", version(PACKAGE), self._mode)

    def create(self, folder: Path) -> None:
        """Make a new, empty collection below ``folder``; raises EngineUnavailableError."""
        self._folder = folder / _FOLDER
        with _embedded_errors(lambda: f"creating a collection in '{self._folder}'", EngineUnavailableError):
            self._client = persistent_client(self._folder, self.parameters.database)
            hnsw = {"hnsw": self.parameters.hnsw}
            self._collection = self._client.create_collection(self.name, embedding_function=None, configuration=hnsw)

    def load(self, folder: Path) -> None:
        """Open the collection below ``folder``; raises EngineUnavailableError for a damaged index.

        Chroma applies a changed ``ef_search`` only when it opens a folder.
        """
        _require_sizes(folder)
        self._open(folder / _FOLDER)
        requested = self.parameters.ef_search
        if self.configured().get("ef_search") == requested:
            return
        with self.translated(lambda: "changing ef_search"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "legacy embedding function config": the collection has no such function
            self._collection.modify(configuration={"hnsw": {"ef_search": requested}})
        self.close()
        self._open(folder / _FOLDER)

    def attach(self, folder: Path, progress: Progress) -> None:
        """Open a copy of the user's folder below ``folder``: Chroma writes to the folders that it opens.

        Raises:
            EngineUnavailableError: It is not a folder of Chroma's.
            RejectedInputError: It has no such collection.
        """
        source = self.parameters.source
        if source is None or not (source / _DATABASE).is_file():
            raise EngineUnavailableError(
                f"'{source}' is not a folder of Chroma: it has no {_DATABASE}",
                fix="pass the path that PersistentClient got",
            )
        copy = folder / _FOLDER
        copy.mkdir()
        copy_folder(source, copy, progress)
        self.name, self._mode = self.parameters.collection, "embedded, a copy of an external folder"
        with foreign_index_errors(REBUILD, "it is left as it was: see whether this version of Chroma can read it"):
            self._open(copy, source)

    def _open(self, folder: Path, source: Path | None = None) -> None:
        """Open the collection in ``folder``; ``source`` is the original of a copy, which messages name."""
        self._folder, doing = folder, f"opening the collection '{self.name}' in '{source or folder}'"
        with _embedded_errors(lambda: doing, EngineUnavailableError):
            self._client = persistent_client(folder, self.parameters.database)
            if source is not None:
                names = sorted(str(collection.name) for collection in self._client.list_collections())
                if self.name not in names:
                    collections = ", ".join(f"'{name}'" for name in names) or "there is none"
                    raise RejectedInputError(
                        f"there is no collection '{self.name}' in '{source}'",
                        fix=f"name an existing one (collection=): {collections}",
                    )
            self._collection = self._client.get_collection(self.name, embedding_function=None)
            self._collection.count()  # the folder is not read before the first call

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""
        return _embedded_errors(doing)

    def flush(self) -> None:
        """Have the whole graph written.

        Chroma writes it after ``sync_threshold`` records of any kind: these records request deletions of unknown ids,
        and change nothing else.
        """
        threshold, step = self.parameters.sync_threshold, self._largest_batch()
        with self.translated(lambda: "writing the graph to disk"):
            for start in range(0, threshold, step):
                stop = min(start + step, threshold)
                self._collection.delete(ids=[f"{_NOBODY}{number}" for number in range(start, stop)])

    def finish(self) -> None:
        """Record the lengths of Chroma's files: it opens files that became shorter, and answers from the rest."""
        files = (path for path in self._folder.rglob("*") if path.is_file() and not path.name.endswith(_JOURNALS))
        sizes = {str(path.relative_to(self._folder)): path.stat().st_size for path in files}
        (self._folder.parent / _SIZES).write_bytes(orjson.dumps(sizes))

    def storage(self) -> Storage:
        """Return the allocated bytes of the folder. They include the log, which is in Chroma's SQLite file."""
        return Storage(allocated_bytes(self._folder), 0)

    def close(self) -> None:
        """Release the folder: a client left open would be reused for the same path, even with other content."""
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


@contextmanager
def _embedded_errors(doing: Callable[[], str], kind: type[HarnessError] = EngineFailureError) -> Iterator[None]:
    """Turn errors of the embedded engine into ``kind``.

    A panic of its Rust code is a ``BaseException`` that cannot be imported.
    """
    try:
        yield
    except BaseException as error:
        panic = type(error).__module__ == "pyo3_runtime"
        if not panic and not isinstance(error, require_chroma("chromadb.errors").ChromaError | ValueError | TypeError):
            raise
        message, fix = str(error), REBUILD
        if any(sign in message for sign in _NO_ROOM):
            fix = "free disk space, or raise the limit on file sizes, then index again"
        elif "locked" in message:
            fix = "another process writes to this index: close it first"
        text = redact(message or type(error).__name__, None)
        raise kind(f"Chroma failed while {doing()}: {text}", fix=fix) from error
