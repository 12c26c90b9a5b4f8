"""The parameters of the backends on Qdrant, typed: vectors, the index, the way to a server, an external index.

A class has the names of the card's parameters for its fields wherever both mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from harness.data.types import Similarity
from harness.engines.external_index import source_folder
from harness.engines.interface import InputKind
from harness.engines.server_collection import mode_of
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue

TERMS, DENSE = "terms", "dense"
"""The names of the sparse and of the dense vector in a collection of the harness's own."""

DISTANCES: Mapping[Similarity, str] = {"cosine": "Cosine", "dot": "Dot", "l2": "Euclid"}
"""Qdrant's names of the similarities."""
LEAST_SQUARE = 2.0**-23
"""Qdrant leaves a vector unchanged under cosine if its squared length is below this; scores are then not cosines."""
STORED = "stored"
"""The kind for any quantisation of an external index."""
QDRANT_RRF_K = 2
"""Qdrant's own default, in servers of any version."""

NEUTRAL: Mapping[str, Mapping[str, ParameterValue]] = {
    "edge": {"url": "", "shards": 1, "replicas": 1, "keep": False, "search_batch": 1},
    "server": {"wal": True, "optimize_every": 0},
}
"""Parameters that a mode cannot honour, with their only allowed value."""
OF_QUANTISATION: Mapping[str, tuple[ParameterValue, str]] = {
    "quantile": (-1.0, "scalar"),
    "compression": ("", "product"),
    "binary_encoding": ("", "binary"),
    "binary_query_encoding": ("", "binary"),
    "turbo_bits": ("", "turbo"),
    "quantized_always_ram": (False, ""),
    "rescore": ("", ""),
    "oversampling": (1.0, ""),
    "ignore_quantization": (False, ""),
}
"""The parameters of a quantisation: the value that means unset, and the only kind that has it ("" for all)."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SparseSettings:
    """The sparse vector: idf by Qdrant or not, and how an optimised segment keeps the weights."""

    idf: bool
    datatype: str
    on_disk: bool
    full_scan_threshold: int | None


@dataclass(frozen=True, slots=True)
class Quantisation:
    """Compression of vectors, and its use in searches.

    Attributes:
        kind: ``scalar``, ``product``, ``binary`` or ``turbo``; for an external index always :data:`STORED`, and only
            the search settings count.
        rescore: Whether hits get the scores of the original vectors. Here and elsewhere None and "" leave a choice to
            Qdrant.
    """

    kind: str
    quantile: float | None
    compression: str
    binary_encoding: str
    binary_query_encoding: str
    turbo_bits: str
    quantized_always_ram: bool
    rescore: bool | None
    oversampling: float
    ignore_quantization: bool

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> Quantisation | None:
        """Read the card's complete parameters; raises RejectedInputError for incompatible parameters."""
        kind = str(parameters["quantization"]) or (STORED if parameters.get("external") else "")
        other = [
            name
            for name, (neutral, owner) in OF_QUANTISATION.items()
            if parameters[name] != neutral and (not kind or owner not in ("", kind))
        ]
        if other:
            raise RejectedInputError(
                f"{', '.join(other)} cannot be set with quantization={kind or 'none'}",
                fix=f"choose another quantization, or leave {'it' if len(other) == 1 else 'them'} out",
            )
        if not kind:
            return None
        quantile, rescore = float(parameters["quantile"]), str(parameters["rescore"])
        return _filled(
            cls,
            parameters,
            kind=kind,
            quantile=None if quantile < 0 else quantile,
            compression=str(parameters["compression"]) or "x4",
            rescore=None if not rescore else rescore == "true",
        )

    def config(self, client: Any) -> Any:
        """Return the compression as an object of either client library."""
        ram = {"always_ram": self.quantized_always_ram}
        if self.kind == "scalar":
            kind = member(client.ScalarType, "int8")
            return client.ScalarQuantizationConfig(type=kind, quantile=self.quantile, **ram)
        if self.kind == "product":
            ratio = member(client.CompressionRatio, self.compression)
            return client.ProductQuantizationConfig(compression=ratio, **ram)
        if self.kind == "binary":
            encoding = member(client.BinaryQuantizationEncoding, self.binary_encoding)
            of_queries = member(client.BinaryQuantizationQueryEncoding, self.binary_query_encoding)
            return client.BinaryQuantizationConfig(encoding=encoding, query_encoding=of_queries, **ram)
        return client.TurboQuantQuantizationConfig(bits=member(client.TurboQuantBitSize, self.turbo_bits), **ram)


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """The dense vector: its similarity, its storage, its graph, and the search of the graph.

    ``hnsw_ef`` is None for Qdrant's own choice; ``exact`` scans all vectors and ignores any graph.
    """

    similarity: Similarity
    datatype: str
    on_disk: bool
    m: int
    ef_construct: int
    full_scan_threshold_kb: int
    graph_on_disk: bool
    indexing_threads: int
    hnsw_ef: int | None
    exact: bool
    quantisation: Quantisation | None

    @property
    def graph(self) -> Mapping[str, Any]:
        """The parameters of the graph, as both client libraries take them."""
        return {
            "m": self.m,
            "ef_construct": self.ef_construct,
            "full_scan_threshold": self.full_scan_threshold_kb,
            "max_indexing_threads": self.indexing_threads,
            "on_disk": self.graph_on_disk,
        }

    def search_parameters(self, client: Any) -> Any:
        """Return the parameters of a search as an object of either client library."""
        compressed = self.quantisation
        quantisation = compressed and client.QuantizationSearchParams(
            ignore=compressed.ignore_quantization, rescore=compressed.rescore, oversampling=compressed.oversampling
        )
        return client.SearchParams(hnsw_ef=self.hnsw_ef, exact=self.exact, quantization=quantisation)


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """Fusion of the best ``candidates`` of each vector: ``rrf``, with its constant, or ``dbsf``."""

    fusion: str
    rrf_k: int
    candidates: int

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> FusionSettings:
        """Read the card's complete parameters; raises RejectedInputError for a constant without the method."""
        settings = _filled(cls, parameters)
        if settings.fusion != "rrf" and settings.rrf_k != QDRANT_RRF_K:
            raise RejectedInputError(
                f"rrf_k cannot be set with fusion={settings.fusion}", fix="leave it out, or take fusion=rrf"
            )
        return settings


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Address and use of a server; times in seconds. ``grpc_port`` is None for the port after the REST port."""

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
        """Read the card's complete parameters."""
        return _filled(cls, parameters, grpc_port=int(parameters["grpc_port"]) or None)


@dataclass(frozen=True, slots=True)
class ExternalSettings:
    """A user's existing index.

    Attributes:
        folder: Folder of a shard; None for a collection on a server.
        collection: Name of the collection on the server, empty for a shard.
        vector: Name of the only vector, or of the dense vector of a hybrid; empty for the only vector of its kind.
        sparse_vector: The same for the sparse vector.
        id_key: Key of the payload for the documents' ids; empty for the ids of the points.
        text_key: Key of the payload for their texts; empty for the usual keys.
    """

    folder: Path | None
    collection: str
    vector: str
    sparse_vector: str
    id_key: str
    text_key: str

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue], mode: str) -> ExternalSettings:
        """Read the card's complete parameters; raises RejectedInputError if ``mode`` cannot have such an index."""
        collection = str(parameters["collection"])
        if mode != ("server" if collection else "edge"):
            requirement = "a collection is on a server" if collection else "a shard's folder is opened in the process"
            raise RejectedInputError(
                f"{requirement}, and mode={mode}",
                fix="give url= with collection=, and neither url= nor mode= with path=",
            )
        return _filled(
            cls,
            parameters,
            folder=None if collection else source_folder(parameters),
            sparse_vector=str(parameters.get("sparse_vector", parameters["vector"])),
            text_key=str(parameters.get("text_key", "")),
        )


@dataclass(frozen=True, slots=True)
class QdrantSettings:
    """All that a card of Qdrant declares for the engine; None leaves a setting to Qdrant.

    ``sparse`` and ``dense`` describe the vectors of a point: None for a vector that it does not have. ``fusion`` is set
    for a hybrid of both, ``external`` for an index made outside the harness.
    """

    mode: str
    sparse: SparseSettings | None
    dense: DenseSettings | None
    fusion: FusionSettings | None
    batch_size: int
    default_segment_number: int | None
    max_segment_size_kb: int | None
    indexing_threshold_kb: int | None
    optimize_every: int
    optimize_timeout_s: float
    wal: bool
    threads: int
    server: ServerSettings
    external: ExternalSettings | None

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue], vectors: InputKind) -> QdrantSettings:
        """Read the card's complete parameters, in which -1 leaves a choice to Qdrant; raises as :func:`mode_of`.

        ``vectors`` are the vectors of a point: ``sparse``, ``dense``, or both for a ``hybrid``.
        """
        mode, hybrid = mode_of(parameters, NEUTRAL), vectors == "hybrid"
        chosen: dict[str, Any] = {
            name: None if isinstance(value, int | float) and value < 0 else value for name, value in parameters.items()
        }
        # a hybrid distinguishes the parameters of its two vectors by a prefix
        sparse_options = {
            name.removeprefix("sparse_"): value for name, value in chosen.items() if name.startswith("sparse_")
        }
        sparse = _filled(SparseSettings, {**chosen, **sparse_options}) if vectors != "dense" else None
        dense = None
        if vectors != "sparse":
            ef = chosen["hnsw_ef"] or None
            dense = _filled(DenseSettings, chosen, hnsw_ef=ef, quantisation=Quantisation.of(parameters))
        return _filled(
            cls,
            chosen,
            mode=mode,
            sparse=sparse,
            dense=dense,
            fusion=FusionSettings.of(parameters) if hybrid else None,
            # encoders that run a model have their own batch_size
            batch_size=int(parameters["upsert_batch" if "upsert_batch" in parameters else "batch_size"]),
            server=ServerSettings.of(parameters),
            external=ExternalSettings.of(parameters, mode) if parameters.get("external") else None,
        )

    @property
    def optimisers(self) -> Mapping[str, Any]:
        """The parameters of the optimisers, as both client libraries take them."""
        return {
            "default_segment_number": self.default_segment_number,
            "max_segment_size": self.max_segment_size_kb,
            "indexing_threshold": self.indexing_threshold_kb,
        }

    @property
    def senders(self) -> int:
        """Number of batches that may be in flight at once: only a server accepts several."""
        return self.server.upload_threads if self.mode == "server" else 1


def member(kind: Any, name: str) -> Any:
    """Return the enumeration member that a parameter names, in any spelling; None for ""."""
    members = {spelling.replace("_", "").lower(): spelling for spelling in dir(kind)}
    return getattr(kind, members[name.replace("_", "")]) if name else None


def _filled(settings: Callable[..., T], parameters: Mapping[str, ParameterValue], /, **special: object) -> T:
    """Make a settings class from the parameters with its fields' names, except the ``special`` parameters."""
    names = [field.name for field in fields(cast("Any", settings)) if field.name not in special]
    return settings(**{name: parameters[name] for name in names}, **special)
