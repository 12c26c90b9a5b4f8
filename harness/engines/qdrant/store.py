"""What the adapter needs of a Qdrant, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.engines.interface import EngineInfo, Storage
from harness.engines.qdrant.points import StoredPoint, Vectors
from harness.engines.qdrant.segments import IndexState
from harness.engines.qdrant.settings import ExternalQdrant, QdrantSettings
from harness.registry.parameters import ParameterValue

__all__ = ["BatchingStore", "HoldingStore", "QdrantStore", "open_external", "open_store"]


class QdrantStore(Protocol):
    """One collection. Errors come translated, but for :meth:`query`."""

    info: EngineInfo
    settings: QdrantSettings

    @property
    def repeated(self) -> int:
        """Calls that were made again so far, because the first answer was an error that may pass."""

    @property
    def dimensions(self) -> int | None:
        """Of the dense vectors that it holds; None before there is a collection, and where it has none."""

    def make(self, dimensions: int | None) -> None:
        """Make the empty collection, for dense vectors of ``dimensions`` (None: for none)."""

    def index_fields(self, fields: Sequence[str]) -> None:
        """Keep an index of keywords of these fields of the payloads; called before there are points."""

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Answer with points whose payload has these values; with all points for none."""

    def upsert(self, documents: Inputs, start: int, stop: int) -> None:
        """Store rows ``start`` to ``stop`` as points of those numbers, with their metadata as payload."""

    def optimise(self) -> bool:
        """Run the optimisers that are due; False when there was nothing to do."""

    def flush(self) -> None:
        """Bring everything to disk."""

    def count(self) -> int:
        """Number of points."""

    def rows(self) -> Iterator[int]:
        """Row numbers of all points."""

    def state(self) -> Mapping[str, ParameterValue]:
        """The engine's account of its index."""

    def index_state(self) -> IndexState:
        """How the index keeps its vectors now, as far as the engine tells."""

    def request(self, vectors: Vectors, k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form: for the nearest points to its only vector."""

    def fused(self, vectors: Vectors, k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form: for the fusion of the nearest points to each of its vectors."""

    def query(self, request: Any) -> list[Any]:  # noqa: ANN401
        """Hits, best first, each with ``id`` and ``score``."""

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """The context in which to call :meth:`query`."""

    def storage(self) -> Storage:
        """Allocated bytes."""

    def close(self) -> None:
        """Let go of everything."""


class HoldingStore(QdrantStore, Protocol):
    """A store that holds the user's points."""

    def points(self, *, key: str | None, vectors: bool) -> Iterator[list[StoredPoint]]:
        """All points page by page: their ids, the payload under ``key``, and the vectors searched, as asked for."""

    def retrieve(self, ids: Sequence[Hashable]) -> list[StoredPoint]:
        """The points of these ids, with their whole payload and the vectors searched."""


class BatchingStore(QdrantStore, Protocol):
    """A store that answers several queries in one call; errors are the caller's to translate."""

    def query_batch(self, requests: Sequence[Any]) -> list[list[Any]]:
        """Hits of each request."""


def open_store(folder: Path, settings: QdrantSettings, *, exists: bool) -> QdrantStore:
    """The store of the mode: with a collection when ``folder`` has one, else without, ready to make one."""
    if settings.mode == "edge":
        from harness.engines.qdrant.edge import EdgeStore

        return EdgeStore.load(folder, settings) if exists else EdgeStore.create(folder, settings)
    from harness.engines.qdrant.client_store import ClientStore

    return ClientStore.load(folder, settings) if exists else ClientStore.create(folder, settings)


def open_external(
    external: ExternalQdrant, folder: Path, settings: QdrantSettings, progress: Progress
) -> tuple[HoldingStore, Callable[[], str | None] | None]:
    """The user's own shard, as a copy below ``folder``, or collection, and how to see that this one changed.

    Raises EngineUnavailableError for one that is not there or cannot be read, and what
    :func:`harness.engines.qdrant.found.choose` raises.
    """
    if external.folder is not None:
        from harness.engines.qdrant.shard import ExternalShard

        return ExternalShard.attach(external.folder, folder, settings, progress), None
    from harness.engines.qdrant.collection import ExternalCollection

    found = ExternalCollection.attach(external.collection, settings)
    return found, found.changed
