"""The parameters of the opensearch and elasticsearch backends, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, cast

from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["SearchParameters"]


@dataclass(frozen=True, slots=True)
class SearchParameters:
    """The card's parameters of the engine, each by its name."""

    k1: float
    b: float
    k1_plus_1: bool
    url: str
    api_key_env: str
    shards: int
    segments: str
    search_type: str
    keep: bool
    batch_size: int
    timeout_s: int
    retry_s: float
    ready_timeout_s: float
    external: bool
    index: str
    text_field: str
    id_field: str

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """Read the card's complete parameters; raises RejectedInputError for an external index without a name."""
        if parameters["external"] and not parameters["index"]:
            raise RejectedInputError("no external index is named", fix="give index= with url=")
        return cls(**cast("Any", {field.name: parameters[field.name] for field in fields(cls)}))
