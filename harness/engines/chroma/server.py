"""Chroma as a server, through ``HttpClient``."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson

from harness.engines.address import Address
from harness.engines.chroma.address import address_of
from harness.engines.chroma.client import close_http_client, http_sessions
from harness.engines.chroma.connect import Connection, connect, within
from harness.engines.chroma.faults import Retrier, translated
from harness.engines.chroma.settings import ChromaSettings
from harness.engines.chroma.store import ChromaStore
from harness.engines.faults import Cause, FaultError, shown
from harness.engines.interface import LEFT_BEHIND, EngineInfo, Storage
from harness.errors import EngineUnavailableError
from harness.registry.parameters import ParameterValue

__all__ = ["COLLECTION_FILE", "ServerStore"]

T = TypeVar("T")

COLLECTION_FILE = "collection.json"
"""Beside the manifest: which collection of the server holds the index."""

_GONE_S = 1.5
_ANSWER_S = 2.0
"""Both are shorter than the grace that a worker is given to end: what is left must still be said."""
_OURS = "one that the harness made is removed when its engine closes: build it with keep=true"
_log = logging.getLogger("harness")


class ServerStore(ChromaStore):
    """A collection on a server. A store that created it removes it when it is closed, unless it is to be kept."""

    def __init__(
        self,
        found: Connection,
        collection: str,
        settings: ChromaSettings,
        address: Address,
        retrier: Retrier,
        *,
        owns: bool,
    ) -> None:
        info = EngineInfo("Chroma", found.version, "server", found.doubt)
        super().__init__(found.client, None, settings, info)
        self._name, self._address, self._retrier, self._owns = collection, address, retrier, owns
        self._theirs: tuple[int, str] | None = None

    @classmethod
    def create(cls, folder: Path, settings: ChromaSettings) -> ServerStore:
        """A new, empty collection, named after ``folder``; raises what :func:`connect` and the server raise."""
        key = re.sub(r"[^A-Za-z0-9_-]", "", folder.name)[:40]
        name = f"harness-{key}-{secrets.token_hex(4)}"
        store = cls._connected(name, settings, owns=True)
        try:
            (folder / COLLECTION_FILE).write_bytes(orjson.dumps({"collection": name}))
            store.create_collection()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def load(cls, folder: Path, settings: ChromaSettings) -> ServerStore:
        """The collection that ``folder`` names; raises EngineUnavailableError when it is gone or cannot be told, or
        when it is searched with another ``ef_search``: a server takes a new one when it is started again, not before.
        """
        store = cls._connected(_read(folder), settings, owns=False)
        try:
            store.find()
            held = store.configured().get("ef_search")
            if held != settings.ef_search:
                raise EngineUnavailableError(
                    f"the server searches the collection '{store.name}' with ef_search={held}, not "
                    f"{settings.ef_search}",
                    fix="build it with that ef_search: a server takes another one only when it is started again",
                )
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def attach(cls, collection: str, settings: ChromaSettings) -> ServerStore:
        """Look at somebody's collection; raises EngineUnavailableError when there is none of that name."""
        store = cls._connected(collection, settings, owns=False)
        try:
            store.look()
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def _connected(cls, collection: str, settings: ChromaSettings, *, owns: bool) -> Self:
        address, retrier = address_of(settings.server), Retrier(settings.server.retry_s)
        return cls(connect(address, settings.server, retrier), collection, settings, address, retrier, owns=owns)

    def create_collection(self) -> None:
        """Make the empty collection; an answer that was lost on the way does not matter."""

        def create() -> Any:  # noqa: ANN401 - the client is untyped
            hnsw = {"hnsw": self._settings.hnsw}
            return self._client.create_collection(self._name, embedding_function=None, configuration=hnsw)

        with self.translated(lambda: f"creating the collection '{self._name}'"):
            try:
                self._collection = self.call(create)
            except FaultError as error:
                # the name is random: what exists was made by a try whose answer was lost
                if error.fault.cause is not Cause.CONFLICT or error.tries == 1:
                    raise
                self.find()

    def find(self, fix: str = _OURS) -> None:
        """Look the collection up; raises EngineUnavailableError, with the remedy ``fix``, when it is not there."""
        with self.translated(lambda: f"looking for the collection '{self._name}'"):
            try:
                self._collection = self.call(lambda: self._client.get_collection(self._name, embedding_function=None))
            except FaultError as error:
                if error.fault.cause is not Cause.MISSING:
                    raise
                raise EngineUnavailableError(
                    f"there is no collection '{self._name}' on the server, in the database "
                    f"'{self._settings.server.database}'",
                    fix=fix,
                ) from error

    def look(self) -> None:
        """Find a collection that is somebody else's, and note what it holds."""
        self.find("name one that is there: collection=")
        self.info = replace(self.info, mode=f"{self.info.mode}, an external collection")
        self._theirs = self._content()

    @property
    def name(self) -> str:
        """The collection's name."""
        return self._name

    @property
    def repeated(self) -> int:
        """Calls that were made again so far."""
        return self._retrier.repeated

    def call(self, operation: Callable[[], T]) -> T:
        """One call, made again while the fault may pass; raises FaultError."""
        return self._retrier.call(operation)

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """The context in which to call :meth:`query`."""
        return translated(self._address, doing)

    def flush(self) -> None:
        """Nothing to do: a server writes by its own schedule."""

    def state(self) -> Mapping[str, ParameterValue]:
        """Where the index is, what the server says of it, and how often a call had to be made again."""
        server = self._settings.server
        own = {"kept": server.keep, "repeated_calls": self.repeated} if self._theirs is None else {}
        placed: dict[str, ParameterValue] = {"server": self._address.url, "collection": self.name}
        return {**placed, "authentication": self._address.authentication, **own, **super().state()}

    def changed(self) -> str | None:
        """How many records there are now, or that the configuration is another; None when both are as they were."""
        before, now = self._theirs, self._content()
        if before is None or before == now:
            return None
        if before[0] != now[0]:
            return f"the collection '{self.name}' held {before[0]} records and now holds {now[0]}"
        return f"the configuration of the collection '{self.name}' is another"

    def _content(self) -> tuple[int, str]:
        self.find()
        return self.count(), str(sorted(self.configured().items()))

    def storage(self) -> Storage:
        """Unknown: a server tells nothing about its disk."""
        return Storage(None, 0)

    def close(self) -> None:
        """Remove the collection when it is this store's to remove, and let go of the client."""
        self._retrier.give_up()
        try:
            if self._owns and not self._settings.server.keep:
                self._remove()
        finally:
            close_http_client(self._client)

    def _remove(self) -> None:
        """Called after failures too: what fails here must not hide them, and nobody waits for a server that hangs."""
        removing = Retrier(_GONE_S)

        def remove() -> None:
            try:
                removing.call(lambda: self._client.delete_collection(self._name))
            except FaultError as error:
                if error.fault.cause is not Cause.MISSING:
                    raise

        session, _ = http_sessions(self._client)
        session.event_hooks = {"response": [removing.remember]}
        try:
            within(_ANSWER_S, remove)
        except FaultError as error:
            _log.warning(
                "%sthe collection '%s' could not be removed: %s; "
                "'harness doctor --chroma-url %s --remove-left-collections' does it",
                *(LEFT_BEHIND, self._name, shown(str(error), self._address), self._address.url),
            )


def _read(folder: Path) -> str:
    path = folder / COLLECTION_FILE
    try:
        return str(orjson.loads(path.read_bytes())["collection"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise EngineUnavailableError(
            f"'{path}' does not say which collection holds the index: {error}", fix="delete the folder and index again"
        ) from error
