"""Qdrant as an engine of dense vectors: an HNSW graph, or a scan of all vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import Capabilities
from harness.engines.checks import require_dense
from harness.engines.qdrant.engine import PointsEngine
from harness.engines.qdrant.settings import QdrantSettings
from harness.engines.qdrant.vector_settings import LEAST_SQUARE, DenseSettings
from harness.registry.parameters import ParameterValue

__all__ = ["QdrantDenseEngine"]


class QdrantDenseEngine(PointsEngine):
    """Dense vectors in Qdrant.

    Segments below ``indexing_threshold_kb`` have no graph, and those below ``full_scan_threshold_kb`` are scanned even
    if they have one: the state's ``vectors_in_graph`` says how many vectors are found by a graph. Graphs differ from
    build to build. Scores are Qdrant's own for cosine and dot product; for ``l2`` it gives the distance ``d``, and the
    score is ``-d²``.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=False, deterministic=False, reopens=True, keeps_k_prefix=False
    )
    name = "qdrant-dense"

    @classmethod
    def settings_of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """Of points with one dense vector."""
        return QdrantSettings.of(parameters, dense=DenseSettings.of(parameters))

    def check(self, inputs: Inputs, what: str, dimensions: int | None) -> Inputs:
        """Return inputs with dense vectors; see :func:`require_dense`."""
        require_dense(inputs, what, cosine=self._similarity == "cosine", dimensions=dimensions, least=LEAST_SQUARE)
        return inputs

    def columns(self, answer: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of hits, higher being better."""
        rows, scores = super().columns(answer)
        return rows, -np.square(scores) if self._similarity == "l2" else scores

    @property
    def _similarity(self) -> str:
        return self._settings.dense.similarity if self._settings.dense is not None else ""
