"""Settings in the words of ``qdrant-client``: the configuration of a collection, and the parameters of a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.engines.qdrant.points import DENSE, TERMS, path_of
from harness.engines.qdrant.settings import QdrantSettings
from harness.engines.qdrant.vector_settings import (
    QDRANT_RRF_K,
    DenseSettings,
    FusionSettings,
    Quantisation,
    SparseSettings,
)

__all__ = ["collection_of", "filter_of", "fusion_of", "search_parameters"]

_DISTANCES = {"cosine": "Cosine", "dot": "Dot", "l2": "Euclid"}


def collection_of(models: Any, settings: QdrantSettings, dimensions: int | None) -> dict[str, Any]:  # noqa: ANN401
    """What ``create_collection`` is given; ``dimensions`` are those of the dense vectors, None without any."""
    dense, sparse = settings.dense, settings.sparse
    optimisers = models.OptimizersConfigDiff(
        default_segment_number=settings.default_segment_number,
        max_segment_size=settings.max_segment_size_kb,
        indexing_threshold=settings.indexing_threshold_kb,
    )
    return {
        "vectors_config": {DENSE: _dense(models, dense, dimensions)} if dense is not None else {},
        "sparse_vectors_config": {TERMS: _sparse(models, sparse)} if sparse is not None else None,
        "optimizers_config": optimisers,
        "shard_number": settings.server.shards,
        "replication_factor": settings.server.replicas,
    }


def filter_of(models: Any, wanted: Mapping[str, str]) -> Any:  # noqa: ANN401 - the client is imported late
    """The points whose payload has these values; None for all points."""
    match, condition = models.MatchValue, models.FieldCondition
    must = [condition(key=path_of(field), match=match(value=value)) for field, value in wanted.items()]
    return models.Filter(must=must) if must else None


def search_parameters(models: Any, dense: DenseSettings) -> Any:  # noqa: ANN401 - the client is imported late
    """How a dense vector is searched for."""
    quantisation = dense.quantisation
    return models.SearchParams(
        hnsw_ef=dense.hnsw_ef,
        exact=dense.exact,
        quantization=None
        if quantisation is None
        else models.QuantizationSearchParams(
            ignore=quantisation.ignore, rescore=quantisation.rescore, oversampling=quantisation.oversampling
        ),
    )


def fusion_of(models: Any, fusion: FusionSettings) -> Any:  # noqa: ANN401 - the client is imported late
    """How lists are fused; servers before 1.16 do not know a constant, so that Qdrant's own is left out."""
    if fusion.method == "rrf" and fusion.rrf_k != QDRANT_RRF_K:
        return models.RrfQuery(rrf=models.Rrf(k=fusion.rrf_k))
    return models.FusionQuery(fusion=models.Fusion(fusion.method))


def _sparse(models: Any, sparse: SparseSettings) -> Any:  # noqa: ANN401 - the client is imported late
    index = models.SparseIndexParams(
        full_scan_threshold=sparse.full_scan_threshold,
        on_disk=sparse.on_disk,
        datatype=models.Datatype(sparse.datatype),
    )
    return models.SparseVectorParams(index=index, modifier=models.Modifier.IDF if sparse.idf else None)


def _dense(models: Any, dense: DenseSettings, dimensions: int | None) -> Any:  # noqa: ANN401 - imported late
    graph = models.HnswConfigDiff(
        m=dense.m,
        ef_construct=dense.ef_construct,
        full_scan_threshold=dense.full_scan_threshold_kb,
        max_indexing_threads=dense.indexing_threads,
        on_disk=dense.graph_on_disk,
    )
    return models.VectorParams(
        size=dimensions,
        distance=models.Distance(_DISTANCES[dense.similarity]),
        on_disk=dense.on_disk,
        datatype=models.Datatype(dense.datatype),
        quantization_config=_quantisation(models, dense.quantisation),
        hnsw_config=graph,
    )


def _quantisation(models: Any, wanted: Quantisation | None) -> Any:  # noqa: ANN401 - the client is imported late
    if wanted is None:
        return None
    ram = {"always_ram": wanted.always_ram}
    if wanted.kind == "scalar":
        inner = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=wanted.quantile, **ram)
        return models.ScalarQuantization(scalar=inner)
    if wanted.kind == "product":
        ratio = models.CompressionRatio(wanted.compression)
        return models.ProductQuantization(product=models.ProductQuantizationConfig(compression=ratio, **ram))
    if wanted.kind == "binary":
        encodings = {"encoding": wanted.encoding or None, "query_encoding": wanted.query_encoding or None}
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(**encodings, **ram))
    return models.TurboQuantization(turbo=models.TurboQuantQuantizationConfig(bits=wanted.bits or None, **ram))
