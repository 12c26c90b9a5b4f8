"""The typed parameters of the chroma backend, and the parameters that a mode cannot honour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self, cast

from harness.data.types import Similarity
from harness.engines.external_index import source_folder
from harness.engines.server_collection import mode_of
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue

SPACES: Mapping[Similarity, str] = {"cosine": "cosine", "dot": "ip", "l2": "l2"}
"""Chroma's names of the similarities."""
_NEUTRAL: Mapping[str, Mapping[str, ParameterValue]] = {
    "embedded": {"url": "", "keep": False, "tenant": "default_tenant"},
    "server": {"flush": True},
}
"""Parameters that a mode cannot honour, with their only allowed value."""
_OF_CHROMA = ("ef_construction", "ef_search", "max_neighbors", "sync_threshold", "resize_factor")


@dataclass(frozen=True, slots=True)
class ChromaParameters:
    """The card's parameters of the engine, by name.

    Attributes:
        mode: ``embedded`` or ``server``, never empty.
        similarity: Empty for an external index until its similarity is read.
    """

    mode: str
    similarity: Similarity
    ef_construction: int
    ef_search: int
    max_neighbors: int
    num_threads: int
    hnsw_batch_size: int
    sync_threshold: int
    resize_factor: float
    upsert_batch: int
    flush: bool
    url: str
    tenant: str
    database: str
    api_key_env: str
    api_key_header: str
    keep: bool
    timeout_s: int
    retry_s: float
    external: bool
    path: str
    collection: str
    id_key: str

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> Self:
        """Read the card's complete parameters.

        Raises:
            RejectedInputError: The mode cannot honour a parameter.
        """
        external, path, mode = parameters["external"], parameters["path"], mode_of(parameters, _NEUTRAL)
        if external and bool(path) != (mode == "embedded"):
            raise RejectedInputError(
                f"{'a folder is opened in the process' if path else 'no folder is named'}, and mode={mode}",
                fix="give collection= with path= for a folder, or with url= for a server",
            )
        values = {field.name: parameters[field.name] for field in fields(cls)}
        return cls(**cast("Any", {**values, "mode": mode}))

    @property
    def source(self) -> Path | None:
        """The folder of an external index; None for a collection on a server or the harness's own collection."""
        return source_folder({"path": self.path}) if self.external and self.path else None

    @property
    def hnsw(self) -> dict[str, ParameterValue]:
        """Chroma's configuration of the graph, without values that are left to Chroma."""
        optional = {"num_threads": self.num_threads, "batch_size": self.hnsw_batch_size}
        chosen = {name: getattr(self, name) for name in _OF_CHROMA}
        return {"space": SPACES[self.similarity], **chosen} | {name: value for name, value in optional.items() if value}
