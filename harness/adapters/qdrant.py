"""Qdrant as an engine of sparse vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from harness.adapters.checks import require_sparse
from harness.adapters.qdrant_engine import PointsEngine
from harness.adapters.qdrant_existing import ExistingPoints, HoldingStore
from harness.adapters.qdrant_settings import QdrantSettings
from harness.adapters.qdrant_store import QdrantStore
from harness.adapters.qdrant_vector_settings import SparseSettings
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.protocols import Attached, Capabilities, Content, Inputs, ParameterValue, Progress
from harness.types import Float32Array, Int32Array

__all__ = ["QdrantEngine"]


class QdrantEngine(PointsEngine):
    """Sparse vectors in Qdrant, searched exactly through its inverted index, with its own idf on request.

    Equal scores come in no fixed order: in a segment that the optimiser has not touched it changes from build to
    build, and the top 3 need not begin the top 5.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=False, reopens=True, keeps_k_prefix=False, existing=True, filters=True
    )
    name = "qdrant"

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._held: ExistingPoints | None = None

    @classmethod
    def settings_of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """Of points with one sparse vector."""
        return QdrantSettings.of(parameters, sparse=SparseSettings.of(parameters))

    def require(self, inputs: Inputs, what: str, dimensions: int | None) -> int | None:  # noqa: ARG002 - of dense ones
        """Sparse vectors; see :func:`require_sparse`."""
        require_sparse(inputs, what)
        return None

    def state_of(self, documents: Inputs) -> Mapping[str, ParameterValue]:
        """How many documents Qdrant's idf counts, and how many it does not."""
        with_terms = len(require_sparse(documents, "document").nonempty_rows)
        return {"idf_documents": with_terms, "empty_vectors": len(documents) - with_terms}

    @property
    def source(self) -> Path | None:
        """The folder of the user's shard; None for a collection on a server."""
        return self._settings.existing.folder if self._settings.existing is not None else None

    def attach(self, folder: Path, progress: Progress) -> Attached:
        """Open a copy of the user's shard, or look at a collection by calls that only read."""
        existing = self._settings.existing
        if existing is None:
            raise RejectedInputError("no existing index is named", fix="give existing=true and path= or collection=")
        if existing.folder is not None:
            from harness.adapters.qdrant_edge import EdgeStore

            shard = EdgeStore.attach(existing.folder, folder, self._settings, progress)
            return self._attached(shard, shard, existing.id_key, progress, None)
        from harness.adapters.qdrant_collection import ExistingCollection

        found = ExistingCollection.attach(existing, self._settings)
        return self._attached(found, found, existing.id_key, progress, found.changed)

    def _attached(
        self,
        store: QdrantStore,
        holding: HoldingStore,
        id_key: str,
        progress: Progress,
        changed: Callable[[], str | None] | None,
    ) -> Attached:
        self._store = store
        held = ExistingPoints(holding, id_key, progress)
        self._held, self._ids, self._indexed = held, held.ids, True
        return Attached(store.info, held.ids, store.state(), changed)

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares every stored vector; the columns of all must be the encoder's."""
        self._opened()
        if self._held is None:
            raise EngineUnavailableError("no existing index is attached", fix="call attach first")
        return self._held.differs(content, progress)

    def columns(self, hits: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Rows and scores of hits; those of an existing index are numbered as its store lists them."""
        return super().columns(hits) if self._held is None else self._held.columns(hits)

    def close(self) -> None:
        """Release the shard, and remove the server's collection where this engine made it; again does nothing."""
        self._held = None
        super().close()
