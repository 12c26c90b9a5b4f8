"""Inspect a FAISS index: its parts, the vectors that they keep, and their search parameters.

An index of FAISS is a chain: a transformation before an index, lists around a quantiser, a graph over a storage, exact
vectors that refine another index's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from harness.data.types import Float32Array, Int32Array
from harness.errors import RejectedInputError
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = [
    "compared_vectors",
    "components",
    "exact_vectors",
    "few_training_documents",
    "index_state",
    "is_approximate",
    "load_library",
    "numbering",
    "refuse_estimated_scores",
    "refuse_unusable",
    "search_parameters",
    "seed",
    "with_direct_map",
]

_CHILDREN = ("index", "base_index", "quantizer", "storage")
_TRAINING_DOCUMENTS = 39
"""Training documents per centroid below which FAISS itself warns."""
_EXACT_STORAGE = ("IndexFlat", "IndexFlatIP", "IndexFlatL2", "IndexFlat1D", "IndexIVFFlat", "IndexIVFFlatDedup")


def load_library() -> Any:
    """Import FAISS; raises MissingDependencyError that names the extra."""
    return require("faiss", extra="faiss", feature="the backend 'faiss'")


def components(index: Any) -> Iterator[Any]:
    """Yield the index and its inner indexes, each by its own class; the outer index must stay referenced."""
    typed_index = load_library().downcast_index(index)
    yield typed_index
    for name in _CHILDREN:
        child = getattr(typed_index, name, None)
        if child is not None:
            yield from components(child)


def _downcast(index: Any) -> tuple[Any, Any]:
    """Return FAISS, and the index by its own class."""
    faiss = load_library()
    return faiss, faiss.downcast_index(index)


def exact_vectors(index: Any) -> bool:
    """Return whether scores come from the vectors as added, not compressed or transformed."""
    faiss, typed_index = _downcast(index)
    if isinstance(typed_index, faiss.IndexRefine):
        return exact_vectors(typed_index.refine_index)
    if isinstance(typed_index, faiss.IndexPreTransform):
        return False
    if isinstance(typed_index, (faiss.IndexHNSW, faiss.IndexNSG)):
        return exact_vectors(typed_index.storage)
    return type(typed_index).__name__ in _EXACT_STORAGE


def is_approximate(index: Any, nprobe: int) -> bool:
    """Return whether a search may miss documents: by a graph, by unprobed lists, or by candidates to refine."""
    faiss, typed_index = _downcast(index)
    if isinstance(typed_index, faiss.IndexRefine):
        return is_approximate(typed_index.base_index, nprobe) or not exact_vectors(typed_index.base_index)
    if isinstance(typed_index, faiss.IndexPreTransform):
        return is_approximate(typed_index.index, nprobe)
    if isinstance(typed_index, faiss.IndexIVF):
        return bool(nprobe < typed_index.nlist)
    return isinstance(typed_index, (faiss.IndexHNSW, faiss.IndexNSG))


def numbering(index: Any) -> Literal["ids", "places"] | None:
    """Return how an index numbers its vectors after removals; None if FAISS cannot remove any.

    Lists keep the id assigned to each vector. Other indexes number by position, and vectors after a removed vector move
    up.
    """
    faiss, typed_index = _downcast(index)
    if isinstance(typed_index, faiss.IndexPreTransform):
        return numbering(typed_index.index)
    if isinstance(typed_index, faiss.IndexIVF):
        return "ids"
    return "places" if isinstance(typed_index, faiss.IndexFlatCodes) else None


def refuse_estimated_scores(index: Any) -> None:
    """Refuse indexes whose scores are estimates that stored vectors do not explain, unless exact vectors refine them.

    Fast-scan rounds each query's table of distances to eight bits, RaBitQ estimates products from signs, and LSH counts
    bits. Raises RejectedInputError.
    """
    faiss, typed_index = _downcast(index)
    if isinstance(typed_index, faiss.IndexRefine):
        return
    for part in components(typed_index):
        name = type(part).__name__
        if any(word in name for word in ("FastScan", "RaBitQ", "LSH")):
            raise RejectedInputError(
                f"the scores of FAISS's {name} are estimates, and no vector that it stores has them",
                fix="append ',RFlat' to the index: the best of them are scored again by whole vectors",
            )


def refuse_unusable(index: Any) -> None:
    """Refuse indexes of FAISS's factory that cannot be filled or searched: they would fail or crash later.

    Raises RejectedInputError.
    """
    faiss = load_library()
    for part in components(index):
        name, lacking = type(part).__name__, None
        if isinstance(part, faiss.IndexIVF) and part.nlist == 0:
            lacking = "has no lists", "give it one or more, as in 'IVF64,Flat'"
        elif isinstance(part, faiss.IndexHNSW) and part.hnsw.cum_nneighbor_per_level.size() <= 1:
            lacking = "has fewer than two links for each vector, and FAISS makes no graph of these", "take HNSW32"
        elif isinstance(part, faiss.IndexIDMap):
            lacking = "is for user-defined ids, but the harness numbers documents itself", "leave IDMap out"
        if lacking is not None:
            raise RejectedInputError(f"this {name} {lacking[0]}", fix=lacking[1])


def seed(index: Any, value: int) -> None:
    """Draw centroids and levels of graphs from this seed, and let training take few documents without a warning."""
    faiss = load_library()
    for part in components(index):
        for clustering in (getattr(part, "cp", None), getattr(getattr(part, "pq", None), "cp", None)):
            if clustering is not None:
                clustering.seed, clustering.min_points_per_centroid = value, 1
        if isinstance(part, faiss.IndexHNSW):
            part.hnsw.rng = faiss.RandomGenerator(value)


def search_parameters(
    index: Any,
    requested: Mapping[str, ParameterValue],
    selector: Any = None,
) -> Any:
    """Return FAISS's search parameters for the whole chain: ``nprobe``, ``ef`` and ``k_factor`` of ``requested``.

    ``selector`` keeps the documents that may be found; None keeps all. Returns None for a plain index without a
    selector.
    """
    faiss, typed_index = _downcast(index)
    chosen = {} if selector is None else {"sel": selector}
    if isinstance(typed_index, faiss.IndexPreTransform):
        return faiss.SearchParametersPreTransform(
            index_params=search_parameters(typed_index.index, requested, selector)
        )
    if isinstance(typed_index, faiss.IndexRefine):
        base = search_parameters(typed_index.base_index, requested, selector)
        return faiss.IndexRefineSearchParameters(k_factor=float(requested["k_factor"]), base_index_params=base)
    if isinstance(typed_index, faiss.IndexIVF):
        coarse = search_parameters(typed_index.quantizer, requested)
        lists = {} if coarse is None else {"quantizer_params": coarse}
        kind = faiss.IVFPQSearchParameters if isinstance(typed_index, faiss.IndexIVFPQ) else faiss.SearchParametersIVF
        return kind(nprobe=int(requested["nprobe"]), **lists, **chosen)
    if isinstance(typed_index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(efSearch=int(requested["ef"]), **chosen)
    return faiss.SearchParameters(**chosen) if chosen else None


def index_state(index: Any) -> dict[str, ParameterValue]:
    """Return FAISS's own account of the index: its classes, training, graph, lists and codes."""
    faiss = load_library()
    parts = list(components(index))
    outer = parts[0]
    state: dict[str, ParameterValue] = {
        "index": " > ".join(type(part).__name__ for part in parts),
        "dimensions": outer.d,
        "trained": bool(outer.is_trained),
        "exact_vectors": exact_vectors(outer),
        "vectors_in_graph": 0,
    }
    searched = _searched(outer)
    if isinstance(searched, faiss.IndexHNSW):
        graph = searched.hnsw
        state |= {"vectors_in_graph": _linked(graph), "graph_levels": graph.max_level + 1}
        state |= {"ef_construction": graph.efConstruction, "graph_links": graph.nb_neighbors(1)}
    elif isinstance(searched, faiss.IndexIVF):
        sizes = [searched.invlists.list_size(number) for number in range(searched.nlist)]
        state |= {"lists": searched.nlist, "empty_lists": sizes.count(0), "largest_list": max(sizes)}
        state |= {"vectors_in_lists": sum(sizes), "list_imbalance": round(searched.invlists.imbalance_factor(), 3)}
    stored = searched.storage if isinstance(searched, (faiss.IndexHNSW, faiss.IndexNSG)) else searched
    stored = faiss.downcast_index(stored)
    code = getattr(stored, "code_size", None)
    if code is not None:
        state["code_bytes"] = int(code)
    return state


def few_training_documents(index: Any, documents: int) -> str | None:
    """Return a note on parts trained with fewer documents than FAISS recommends; None if there are none."""
    faiss = load_library()
    for part in components(index):
        quantiser = getattr(part, "pq", None)
        centroids = [part.nlist] if isinstance(part, faiss.IndexIVF) else []
        centroids += [quantiser.ksub] if quantiser is not None else []
        recommended = max(centroids, default=0) * _TRAINING_DOCUMENTS
        if documents < recommended:
            return (
                f"{type(part).__name__} was trained with {documents:,} documents for {max(centroids):,} centroids, "
                f"but FAISS needs {recommended:,} or more: its lists or codes fit other data badly"
            )
    return None


def compared_vectors(
    index: Any,
    numbers: Int32Array,
    queries: Float32Array,
) -> tuple[Float32Array, Float32Array]:
    """Return the documents of these numbers in the index, decoded, and ``queries`` as the index compares them."""
    faiss, typed_index = _downcast(index)
    if isinstance(typed_index, faiss.IndexRefine):
        return compared_vectors(typed_index.refine_index, numbers, queries)
    if isinstance(typed_index, faiss.IndexPreTransform):
        for number in range(typed_index.chain.size()):
            queries = faiss.downcast_VectorTransform(typed_index.chain.at(number)).apply(queries)
        return compared_vectors(typed_index.index, numbers, queries)
    if isinstance(typed_index, (faiss.IndexHNSW, faiss.IndexNSG)):
        return compared_vectors(typed_index.storage, numbers, queries)
    quantiser = getattr(typed_index, "sq", None)
    if quantiser is not None and quantiser.qtype == faiss.ScalarQuantizer.QT_bf16 and _rounds_queries(typed_index):
        queries = _bfloat16(queries)
    documents = with_direct_map(typed_index).reconstruct_batch(numbers)
    if isinstance(typed_index, faiss.IndexIVF):
        typed_index.set_direct_map_type(faiss.DirectMap.NoMap)  # with a map, FAISS refuses to remove vectors
    return documents, queries


def with_direct_map(index: Any) -> Any:
    """Make vectors readable by number, in memory only: lists do not record the position of a number."""
    faiss = load_library()
    for part in components(index):
        if isinstance(part, faiss.IndexIVF):
            part.set_direct_map_type(faiss.DirectMap.Hashtable)
            break
    return index


def _searched(index: Any) -> Any:
    """Return the part that finds documents: after transformations, and before any refinement."""
    faiss, typed_index = _downcast(index)
    if isinstance(typed_index, faiss.IndexPreTransform):
        return _searched(typed_index.index)
    return _searched(typed_index.base_index) if isinstance(typed_index, faiss.IndexRefine) else typed_index


def _linked(graph: Any) -> int:
    """Count the vectors that have a neighbour in the lowest layer."""
    faiss = load_library()
    neighbours, offsets = faiss.vector_to_array(graph.neighbors), faiss.vector_to_array(graph.offsets)
    return int(np.count_nonzero(neighbours[offsets[:-1].astype(np.int64)] >= 0))


def _rounds_queries(index: Any) -> bool:
    """Return whether bfloat16 codes are compared with rounded queries: FAISS does so only on some processors."""
    faiss = load_library()
    probe = faiss.IndexScalarQuantizer(index.d, faiss.ScalarQuantizer.QT_bf16, index.metric_type)
    probe.add(np.ones((1, index.d), dtype=np.float32))
    query = np.full((1, index.d), 1 + 2**-9, dtype=np.float32)
    return bool(probe.search(query, 1)[0] == probe.search(_bfloat16(query), 1)[0])


def _bfloat16(vectors: Float32Array) -> Float32Array:
    """Round to bfloat16, half to even."""
    bits = vectors.astype(np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    result: Float32Array = rounded.view(np.float32)
    return result
