"""The parameters of the backends on Qdrant, typed: those of the index, and those of the way to a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from harness.engines.external_index import source_folder
from harness.engines.qdrant.points import DENSE, TERMS
from harness.engines.qdrant.vector_settings import DenseSettings, FusionSettings, SparseSettings, unless_negative
from harness.errors import RejectedInputError, UnknownNameError
from harness.registry.parameters import ParameterValue

__all__ = [
    "MODES",
    "ExternalQdrant",
    "QdrantSettings",
    "ServerSettings",
    "WantedVector",
    "mode_of",
]

MODES = ("edge", "server")
_NEUTRAL: Mapping[str, Mapping[str, ParameterValue]] = {
    "edge": {"url": "", "shards": 1, "replicas": 1, "keep": False, "search_batch": 1},
    "server": {"wal": True, "optimize_every": 0},
}
"""What a mode cannot do, as the only value that its parameter may have there."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How a server is reached and used; times in seconds. ``grpc_port`` is None for the port after the REST port."""

    url: str
    transport: str
    grpc_port: int | None
    api_key_env: str
    shards: int
    replicas: int
    keep: bool
    timeout_s: int
    retry_s: float
    upload_threads: int
    search_batch: int

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> ServerSettings:
        """From the card's complete parameters."""
        return cls(
            url=str(parameters["url"]),
            transport=str(parameters["transport"]),
            grpc_port=int(parameters["grpc_port"]) or None,
            api_key_env=str(parameters["api_key_env"]),
            shards=int(parameters["shards"]),
            replicas=int(parameters["replicas"]),
            keep=bool(parameters["keep"]),
            timeout_s=int(parameters["timeout_s"]),
            retry_s=float(parameters["retry_s"]),
            upload_threads=int(parameters["upload_threads"]),
            search_batch=int(parameters["search_batch"]),
        )


class WantedVector(NamedTuple):
    """The name of a vector, empty for the only one of its kind, and the parameter that gives it."""

    name: str
    parameter: str


@dataclass(frozen=True, slots=True)
class ExternalQdrant:
    """What the user already has: the folder of a shard, or (None then) a collection on a server.

    ``vectors`` are those to search, by what they are to the harness; ``id_key`` is the payload's key for the documents'
    ids, empty for the ids of the points; ``text_key`` the one for their texts, empty for the usual ones.
    """

    folder: Path | None
    collection: str
    vectors: Mapping[str, WantedVector]
    id_key: str
    text_key: str

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue], mode: str) -> ExternalQdrant:
        """From the card's complete parameters; raises RejectedInputError when ``mode`` cannot have such an index.

        ``vector`` is the only vector, or the dense one beside that of ``sparse_vector``.
        """
        collection = str(parameters["collection"])
        needed = "server" if collection else "edge"
        if mode != needed:
            said = "a collection is on a server" if collection else "a shard's folder is opened in the process"
            raise RejectedInputError(
                f"{said}, and mode={mode}", fix="give url= with collection=, and neither url= nor mode= with path="
            )
        folder = None if collection else source_folder(parameters)
        of_terms = "sparse_vector" if "sparse_vector" in parameters else "vector"
        places = {TERMS: of_terms, DENSE: "vector"}
        wanted = {kind: WantedVector(str(parameters[name]), name) for kind, name in places.items()}
        return cls(folder, collection, wanted, str(parameters["id_key"]), str(parameters.get("text_key", "")))


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    """What a card of Qdrant declares for the engine; None leaves a setting to the engine.

    ``sparse`` and ``dense`` say which vectors a point has: None for those that it has not. ``fusion`` is set for a
    hybrid of both.
    """

    mode: str
    sparse: SparseSettings | None
    dense: DenseSettings | None
    batch_size: int
    default_segment_number: int | None
    max_segment_size_kb: int | None
    indexing_threshold_kb: int | None
    optimize_every: int
    optimize_timeout_s: float
    wal: bool
    threads: int
    server: ServerSettings
    external: ExternalQdrant | None
    fusion: FusionSettings | None = None

    @classmethod
    def of(
        cls,
        parameters: Mapping[str, ParameterValue],
        *,
        sparse: SparseSettings | None = None,
        dense: DenseSettings | None = None,
        fusion: FusionSettings | None = None,
    ) -> QdrantSettings:
        """From the card's complete parameters, -1 meaning "left to the engine".

        Raises UnknownNameError, and RejectedInputError for a parameter that the mode cannot honour.
        """
        mode = mode_of(parameters)
        return cls(
            mode=mode,
            sparse=sparse,
            dense=dense,
            # encoders that run a model have a batch_size of their own
            batch_size=int(parameters["upsert_batch" if "upsert_batch" in parameters else "batch_size"]),
            default_segment_number=unless_negative(parameters["default_segment_number"]),
            max_segment_size_kb=unless_negative(parameters["max_segment_size_kb"]),
            indexing_threshold_kb=unless_negative(parameters["indexing_threshold_kb"]),
            optimize_every=int(parameters["optimize_every"]),
            optimize_timeout_s=float(parameters["optimize_timeout_s"]),
            wal=bool(parameters["wal"]),
            threads=int(parameters["threads"]),
            server=ServerSettings.of(parameters),
            external=ExternalQdrant.of(parameters, mode) if parameters.get("external") else None,
            fusion=fusion,
        )

    @property
    def senders(self) -> int:
        """How many batches may be on their way at once: only a server takes several."""
        return self.server.upload_threads if self.mode == "server" else 1


def mode_of(parameters: Mapping[str, ParameterValue]) -> str:
    """How Qdrant is reached; raises UnknownNameError, and RejectedInputError for parameters that it cannot honour."""
    mode = str(parameters["mode"]) or ("server" if parameters["url"] else "edge")
    if mode not in MODES:
        raise UnknownNameError("mode", mode, MODES)
    _refuse_what_the_mode_lacks(mode, parameters)
    return mode


def _refuse_what_the_mode_lacks(mode: str, parameters: Mapping[str, ParameterValue]) -> None:
    wrong = [name for name, neutral in _NEUTRAL[mode].items() if parameters[name] != neutral]
    if wrong:
        raise RejectedInputError(
            f"{', '.join(wrong)} cannot be set with mode={mode}",
            fix=f"leave {'it' if len(wrong) == 1 else 'them'} out, or choose another mode: {', '.join(MODES)}",
        )
