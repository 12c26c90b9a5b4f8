"""The parameters of the chroma backend, typed: those of the graph, and those of the way to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from harness.data.types import Similarity
from harness.engines.external_index import source_folder
from harness.errors import RejectedInputError, UnknownNameError
from harness.registry.parameters import ParameterValue

__all__ = ["MODES", "SPACES", "ChromaSettings", "ExternalChroma", "ServerSettings"]

MODES = ("embedded", "server")
SPACES: Mapping[Similarity, str] = {"cosine": "cosine", "dot": "ip", "l2": "l2"}
"""What Chroma calls them."""
_NEUTRAL: Mapping[str, Mapping[str, ParameterValue]] = {
    "embedded": {"url": "", "keep": False, "tenant": "default_tenant"},
    "server": {"flush": True},
}
"""What a mode cannot do, as the only value that its parameter may have there."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server is reached and used; times in seconds."""

    url: str
    tenant: str
    database: str
    api_key_env: str
    api_key_header: str
    keep: bool
    timeout_s: int
    retry_s: float

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> ServerSettings:
        """From the card's complete parameters."""
        return cls(
            url=str(parameters["url"]),
            tenant=str(parameters["tenant"]),
            database=str(parameters["database"]),
            api_key_env=str(parameters["api_key_env"]),
            api_key_header=str(parameters["api_key_header"]),
            keep=bool(parameters["keep"]),
            timeout_s=int(parameters["timeout_s"]),
            retry_s=float(parameters["retry_s"]),
        )


@dataclass(frozen=True, slots=True)
class ExternalChroma:
    """A collection that the user already has: in a folder, or (None then) on a server.

    ``id_key`` is the metadata's key for the documents' ids, empty for Chroma's own ids.
    """

    folder: Path | None
    collection: str
    id_key: str

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue], mode: str) -> ExternalChroma:
        """From the card's complete parameters; raises RejectedInputError when ``mode`` cannot have such an index."""
        path = str(parameters["path"])
        if bool(path) != (mode == "embedded"):
            said = "a folder is opened in the process" if path else "no folder is named"
            raise RejectedInputError(
                f"{said}, and mode={mode}", fix="give collection= with path= for a folder, or with url= for a server"
            )
        return cls(
            source_folder(parameters) if path else None, str(parameters["collection"]), str(parameters["id_key"])
        )


@dataclass(frozen=True, slots=True)
class ChromaSettings:
    """What ``backends/chroma.toml`` declares for the engine; None leaves a setting to Chroma.

    ``similarity`` is None for that of an external collection, until it is read.
    """

    mode: str
    similarity: Similarity | None
    ef_construction: int
    ef_search: int
    max_neighbors: int
    num_threads: int | None
    hnsw_batch_size: int | None
    sync_threshold: int
    resize_factor: float
    upsert_batch: int
    flush: bool
    server: ServerSettings
    external: ExternalChroma | None

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> ChromaSettings:
        """From the card's complete parameters.

        Raises UnknownNameError, and RejectedInputError for a parameter that the mode cannot honour.
        """
        similarity = str(parameters["similarity"]) or None
        if similarity not in SPACES and not (similarity is None and parameters["external"]):
            raise UnknownNameError("similarity", similarity or "", SPACES)
        mode = str(parameters["mode"]) or ("server" if parameters["url"] else "embedded")
        if mode not in MODES:
            raise UnknownNameError("mode", mode, MODES)
        _refuse_what_the_mode_lacks(mode, parameters)
        return cls(
            mode=mode,
            similarity=cast("Similarity | None", similarity),
            ef_construction=int(parameters["ef_construction"]),
            ef_search=int(parameters["ef_search"]),
            max_neighbors=int(parameters["max_neighbors"]),
            num_threads=int(parameters["num_threads"]) or None,
            hnsw_batch_size=int(parameters["hnsw_batch_size"]) or None,
            sync_threshold=int(parameters["sync_threshold"]),
            resize_factor=float(parameters["resize_factor"]),
            upsert_batch=int(parameters["upsert_batch"]),
            flush=bool(parameters["flush"]),
            server=ServerSettings.of(parameters),
            external=ExternalChroma.of(parameters, mode) if parameters["external"] else None,
        )

    @property
    def space(self) -> str | None:
        """What Chroma calls the similarity."""
        return SPACES[self.similarity] if self.similarity is not None else None

    @property
    def hnsw(self) -> dict[str, ParameterValue]:
        """Chroma's configuration of the graph, by Chroma's names; what is left to it is left out."""
        wanted: dict[str, ParameterValue | None] = {
            "space": self.space,
            "ef_construction": self.ef_construction,
            "ef_search": self.ef_search,
            "max_neighbors": self.max_neighbors,
            "num_threads": self.num_threads,
            "batch_size": self.hnsw_batch_size,
            "sync_threshold": self.sync_threshold,
            "resize_factor": self.resize_factor,
        }
        return {name: value for name, value in wanted.items() if value is not None}


def _refuse_what_the_mode_lacks(mode: str, parameters: Mapping[str, ParameterValue]) -> None:
    wrong = [name for name, neutral in _NEUTRAL[mode].items() if parameters[name] != neutral]
    if wrong:
        raise RejectedInputError(
            f"{', '.join(wrong)} cannot be set with mode={mode}",
            fix=f"leave {'it' if len(wrong) == 1 else 'them'} out, or choose another mode: {', '.join(MODES)}",
        )
