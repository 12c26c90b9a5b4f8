"""Qdrant as an engine of points with a sparse and a dense vector, whose best hits it fuses itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Float32Array, SparseVectors
from harness.engines.base import Capabilities
from harness.engines.checks import require_dense, require_sparse
from harness.engines.interface import Hits
from harness.engines.qdrant.engine import PointsEngine
from harness.engines.qdrant.settings import QdrantSettings
from harness.engines.qdrant.vector_settings import LEAST_SQUARE, DenseSettings, FusionSettings, SparseSettings
from harness.registry.parameters import ParameterValue

__all__ = ["QdrantHybridEngine"]


class QdrantHybridEngine(PointsEngine):
    """Qdrant's own hybrid query: one query with two prefetches, fused by reciprocal ranks or by distributions.

    Each prefetch gives the best ``candidates`` of one vector; a query without terms has that of the dense vector only.
    So a query has at most twice as many hits as there are candidates. Reciprocal ranks tell documents of equal score
    apart by their places, and these come in no fixed order.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="hybrid",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        gaps={"test_equal_scores": "with fusion=rrf equal documents have different places, and so different scores"},
    )
    name = "qdrant-hybrid"

    @classmethod
    def settings_of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """Of points with a sparse and a dense vector."""
        return QdrantSettings.of(
            parameters,
            sparse=SparseSettings.of(parameters, prefix="sparse_"),
            dense=DenseSettings.of(parameters),
            fusion=FusionSettings.of(parameters),
        )

    def check(self, inputs: Inputs, what: str, dimensions: int | None) -> Inputs:
        """Return inputs with both vectors; see :func:`require_sparse` and :func:`require_dense`."""
        self._both(inputs, what, dimensions)
        return inputs

    def state_of(self, documents: Inputs) -> Mapping[str, ParameterValue]:
        """How many documents Qdrant's idf counts, and how many it does not."""
        with_terms = len(require_sparse(documents, "document").nonempty_rows)
        return {"idf_documents": with_terms, "empty_vectors": len(documents) - with_terms}

    def lists(self, queries: Inputs, clock: Clock) -> Mapping[str, Hits]:
        """What each prefetch finds: the best ``candidates`` of the sparse and of the dense vector of each query."""
        store, fusion = self._store, self._settings.fusion
        if fusion is None:
            raise AssertionError("a hybrid without a fusion")
        sparse, dense = self._both(queries, "query", store.dimensions)
        parts = {"sparse": Inputs(queries.ids, sparse=sparse), "dense": Inputs(queries.ids, dense=dense)}
        k, lists = min(fusion.candidates, self.loaded.documents), {}
        for name, part in parts.items():
            found = self.search_prepared(self.requests(part, k, store.request), queries.ids, k, clock)
            lists[name] = Hits(found.indptr, found.rows, found.scores)
        return lists

    def _both(self, inputs: Inputs, what: str, dimensions: int | None) -> tuple[SparseVectors, Float32Array]:
        cosine = self._settings.dense is not None and self._settings.dense.similarity == "cosine"
        return require_sparse(inputs, what), require_dense(
            inputs, what, cosine=cosine, dimensions=dimensions, least=LEAST_SQUARE
        )
