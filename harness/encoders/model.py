"""What encodes: one interface for sentence-transformers, files, endpoints and anybody's own objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, SparseVectors
from harness.encoders.settings import Role, Settings
from harness.registry.parameters import ParameterValue

__all__ = ["Facts", "Model", "Rows", "create_model"]

Rows = Float32Array | SparseVectors
"""Vectors of some texts, one row a text: dense (n, d), or sparse."""
Facts = Mapping[str, ParameterValue]


class Model(Protocol):
    """Encodes texts, in whatever batches suit it; the same chunk of texts always gives the same vectors."""

    @property
    def facts(self) -> Facts:
        """What a reader of the vectors should know: device, versions, what was cut. Never part of a key."""

    def encode(self, texts: Inputs, role: Role) -> Rows:
        """Vectors of ``texts`` (ids and texts), in their order, neither truncated nor normalised.

        Raises DataError, or EngineUnavailableError where an endpoint is not to be reached.
        """


def create_model(settings: Settings) -> Model:
    """The model that the settings name, loaded; runs in a worker. Raises HarnessError."""
    match settings.source.kind:
        case "precomputed":
            from harness.encoders.precomputed import Precomputed

            return Precomputed(settings)
        case "random":
            from harness.encoders.random_vectors import RandomVectors

            return RandomVectors(settings)
        case "python":
            from harness.encoders.own_object import OwnObject

            return OwnObject(settings)
        case "http":
            from harness.encoders.http_endpoint import EndpointModel

            return EndpointModel(settings)
        case _:
            from harness.encoders.sentence_transformer import create

            return create(settings)
