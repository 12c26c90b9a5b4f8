"""Chroma through ``HttpClient``: a collection on a server.

A user's collection is only read, never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from harness.data.progress import Progress
from harness.engines.chroma.collection import Collection
from harness.engines.chroma.connection import Connection, Retrier, address_of, connect
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.interface import EngineInfo, Storage
from harness.engines.remote_server import Cause, FaultError, ServerClient
from harness.engines.server_collection import (
    create_collection,
    new_name,
    remove_collection,
    save_name,
    saved_name,
)
from harness.errors import EngineUnavailableError
from harness.registry.parameters import ParameterValue

T = TypeVar("T")

_OURS = "a collection that the harness made is removed when its engine closes: build it with keep=true"


class ServerCollection(ServerClient, Collection):
    """A collection on a server. On closing, a collection that was created here is removed unless it is to be kept."""

    retrier: Retrier
    _server: Connection

    def __init__(self, parameters: ChromaParameters) -> None:
        super().__init__(parameters)
        self.address, self.retrier = address_of(parameters), Retrier(parameters.retry_s)
        self._owns = False
        self._attached: tuple[int, str] | None = None

    def _connect(self, collection: str) -> None:
        self._server = connect(self.address, self.parameters)
        self._client = self._server.client
        self.name = collection

    @property
    def info(self) -> EngineInfo:
        """Return the version that the server reports, with any doubt about it."""
        mode = "server" if self._attached is None else "server, an external collection"
        return EngineInfo("Chroma", self._server.version, mode, self._server.note)

    def create(self, folder: Path) -> None:
        """Make a new, empty collection, named after ``folder``; a lost answer does not matter."""
        self._connect(new_name(folder))
        self._owns = True
        save_name(folder, self.name)
        options = {"embedding_function": None, "configuration": {"hnsw": self.parameters.hnsw}}
        with self.translated(lambda: f"creating the collection '{self.name}'"):
            create_collection(self.retrier, lambda: self._client.create_collection(self.name, **options))
        self._find()

    def load(self, folder: Path) -> None:
        """Find the collection that ``folder`` names.

        Raises:
            EngineUnavailableError: It is gone or not known, or it is searched with another ``ef_search``: a server
                applies a new value only when it is restarted.
        """
        self._connect(saved_name(folder))
        self._find()
        stored, requested = self.configured().get("ef_search"), self.parameters.ef_search
        if stored != requested:
            raise EngineUnavailableError(
                f"the server searches the collection '{self.name}' with ef_search={stored}, not {requested}",
                fix="build it with that ef_search: a server changes it only when it is restarted",
            )

    def attach(self, folder: Path, progress: Progress) -> None:
        """Find the user's collection and record its state; raises EngineUnavailableError if it does not exist."""
        self._connect(self.parameters.collection)
        self._find(ours=False)
        self._attached = self._content()

    def _find(self, *, ours: bool = True) -> None:
        """Look up the collection, ``ours`` or the user's; raises EngineUnavailableError if it does not exist."""
        with self.translated(lambda: f"looking for the collection '{self.name}'"):
            try:
                self._collection = self.call(lambda: self._client.get_collection(self.name, embedding_function=None))
            except FaultError as error:
                if error.fault.cause is not Cause.MISSING:
                    raise
                location, fix = f"on the server, in the database '{self.parameters.database}'", _OURS
                if not ours:
                    names = sorted(str(collection.name) for collection in self.call(self._client.list_collections))
                    fix = f"name an existing one (collection=): {', '.join(names) or 'there is none'}"
                raise EngineUnavailableError(f"there is no collection '{self.name}' {location}", fix=fix) from error

    def call(self, operation: Callable[[], T]) -> T:
        """Call the client, and repeat while the fault may be transient; raises FaultError."""
        return self.retrier.call(operation)

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the index's location, the server's account of it, and the number of repeated calls."""
        settings = {"kept": self.parameters.keep, "repeated_calls": self.repeated} if self._attached is None else {}
        placed: dict[str, ParameterValue] = {"server": self.address.url, "collection": self.name}
        return {**placed, "authentication": self.address.authentication, **settings, **super().state()}

    def changed(self) -> str | None:
        """Return the change in the number of records or in the configuration; None if neither changed."""
        before, now = self._attached, self._content()
        if before is None or before == now:
            return None
        if before[0] != now[0]:
            return f"the collection '{self.name}' held {before[0]} records and now holds {now[0]}"
        return f"the configuration of the collection '{self.name}' is another"

    def _content(self) -> tuple[int, str]:
        self._find(ours=False)
        return self.count(), str(sorted(self.configured().items()))

    def storage(self) -> Storage:
        """Return unknown bytes: a server does not report its disk usage."""
        return Storage(None, 0)

    def close(self) -> None:
        """Remove the collection unless it is kept, and close the client."""
        self.retrier.give_up()
        client, self._client = self._client, None
        if client is None:
            return
        try:
            if self._owns and not self.parameters.keep:
                remove_collection(self._server, self.name)
        finally:
            self._server.close()
