"""Qdrant as an engine of sparse vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from harness.data.inputs import Inputs
from harness.engines.base import Capabilities
from harness.engines.checks import require_sparse
from harness.engines.qdrant.engine import PointsEngine
from harness.engines.qdrant.settings import QdrantSettings
from harness.engines.qdrant.vector_settings import SparseSettings
from harness.registry.parameters import ParameterValue

__all__ = ["QdrantEngine"]


class QdrantEngine(PointsEngine):
    """Sparse vectors in Qdrant, searched exactly through its inverted index, with its own idf on request.

    Equal scores come in no fixed order: in a segment that the optimiser has not touched it changes from build to
    build, and the top 3 need not begin the top 5.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=False, reopens=True, keeps_k_prefix=False
    )
    name = "qdrant"

    @classmethod
    def settings_of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """Of points with one sparse vector."""
        return QdrantSettings.of(parameters, sparse=SparseSettings.of(parameters))

    def check(self, inputs: Inputs, what: str, dimensions: int | None) -> Inputs:  # noqa: ARG002 - of dense ones
        """Return inputs with sparse vectors; see :func:`require_sparse`."""
        require_sparse(inputs, what)
        return inputs

    def state_of(self, documents: Inputs) -> Mapping[str, ParameterValue]:
        """How many documents Qdrant's idf counts, and how many it does not."""
        with_terms = len(require_sparse(documents, "document").nonempty_rows)
        return {"idf_documents": with_terms, "empty_vectors": len(documents) - with_terms}
