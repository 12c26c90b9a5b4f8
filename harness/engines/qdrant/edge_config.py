"""Settings in the words of ``qdrant-edge-py``: the configuration of a shard, and the parameters of a search."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from harness.engines.qdrant.points import DENSE, TERMS
from harness.engines.qdrant.settings import QdrantSettings
from harness.engines.qdrant.vector_settings import DenseSettings, Quantisation, SparseSettings

__all__ = ["config_of", "search_parameters"]

_DISTANCES = {"cosine": "Cosine", "dot": "Dot", "l2": "Euclid"}
_ENCODINGS = {"one_bit": "OneBit", "two_bits": "TwoBits", "one_and_half_bits": "OneAndHalfBits"}
_QUERY_ENCODINGS = {
    "default": "Default",
    "binary": "Binary",
    "scalar4bits": "Scalar4Bits",
    "scalar8bits": "Scalar8Bits",
}


def config_of(client: ModuleType, settings: QdrantSettings, dimensions: int | None) -> Any:  # noqa: ANN401 - untyped
    """The configuration of a shard; ``dimensions`` are those of its dense vectors, None without any."""
    dense, sparse = settings.dense, settings.sparse
    optimisers = client.EdgeOptimizersConfig(
        default_segment_number=settings.default_segment_number,
        max_segment_size=settings.max_segment_size_kb,
        indexing_threshold=settings.indexing_threshold_kb,
    )
    return client.EdgeConfig(
        vectors={DENSE: _dense(client, dense, dimensions)} if dense is not None and dimensions is not None else None,
        sparse_vectors={TERMS: _sparse(client, sparse)} if sparse is not None else None,
        optimizers=optimisers,
        max_search_threads=settings.threads or None,
        wal_enabled=settings.wal,
    )


def search_parameters(client: ModuleType, dense: DenseSettings) -> Any:  # noqa: ANN401 - the client is untyped
    """How a dense vector is searched for."""
    quantisation = dense.quantisation
    return client.SearchParams(
        hnsw_ef=dense.hnsw_ef,
        exact=dense.exact,
        quantization=None
        if quantisation is None
        else client.QuantizationSearchParams(
            ignore=quantisation.ignore, rescore=quantisation.rescore, oversampling=quantisation.oversampling
        ),
    )


def _sparse(client: ModuleType, sparse: SparseSettings) -> Any:  # noqa: ANN401 - the client is untyped
    return client.EdgeSparseVectorParams(
        modifier=client.Modifier.Idf if sparse.idf else None,
        datatype=_datatypes(client)[sparse.datatype],
        on_disk=sparse.on_disk,
        full_scan_threshold=sparse.full_scan_threshold,
    )


def _dense(client: ModuleType, dense: DenseSettings, dimensions: int) -> Any:  # noqa: ANN401 - the client is untyped
    graph = client.HnswIndexConfig(
        m=dense.m,
        ef_construct=dense.ef_construct,
        full_scan_threshold=dense.full_scan_threshold_kb,
        max_indexing_threads=dense.indexing_threads,
        on_disk=dense.graph_on_disk,
    )
    return client.EdgeVectorParams(
        size=dimensions,
        distance=getattr(client.Distance, _DISTANCES[dense.similarity]),
        on_disk=dense.on_disk,
        datatype=_datatypes(client)[dense.datatype],
        quantization_config=_quantisation(client, dense.quantisation),
        hnsw_config=graph,
    )


def _quantisation(client: ModuleType, wanted: Quantisation | None) -> Any:  # noqa: ANN401 - the client is untyped
    if wanted is None:
        return None
    if wanted.kind == "scalar":
        kind = client.ScalarType.Int8
        return client.ScalarQuantizationConfig(kind, quantile=wanted.quantile, always_ram=wanted.always_ram)
    if wanted.kind == "product":
        ratio = getattr(client.CompressionRatio, wanted.compression.upper())
        return client.ProductQuantizationConfig(ratio, always_ram=wanted.always_ram)
    if wanted.kind == "binary":
        return client.BinaryQuantizationConfig(
            always_ram=wanted.always_ram,
            encoding=_member(client.BinaryQuantizationEncoding, _ENCODINGS, wanted.encoding),
            query_encoding=_member(client.BinaryQuantizationQueryEncoding, _QUERY_ENCODINGS, wanted.query_encoding),
        )
    bits = {name.lower(): name for name in ("Bits1", "Bits1_5", "Bits2", "Bits4", "Bits8")}
    return client.TurboQuantQuantizationConfig(
        always_ram=wanted.always_ram, bits=_member(client.TurboQuantBitSize, bits, wanted.bits)
    )


def _member(kind: Any, names: Mapping[str, str], wanted: str) -> Any:  # noqa: ANN401 - enumerations of the client
    return getattr(kind, names[wanted]) if wanted else None


def _datatypes(client: ModuleType) -> Mapping[str, Any]:
    kinds = client.VectorStorageDatatype
    return {"float32": kinds.Float32, "float16": kinds.Float16, "uint8": kinds.Uint8}
