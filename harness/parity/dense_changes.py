"""What can be changed of a dense oracle: each is one possible cause of a difference.

A function returns the oracle with this one thing changed, or None where it would change nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.data.types import Float32Array, Int32Array, Similarity
from harness.exact.dense import vector_lengths
from harness.parity.dense_oracle import DenseOracle, DenseRecipe

__all__ = ["dot_product", "float16_documents", "float16_vectors", "missing_vectors"]


def missing_vectors(oracle: DenseOracle, missing_rows: Int32Array) -> DenseOracle | None:
    """The engine does not hold these documents."""
    return oracle.without(missing_rows) if len(missing_rows) else None


def float16_documents(oracle: DenseOracle, missing_rows: Int32Array) -> DenseOracle | None:  # noqa: ARG001
    """The engine stores documents as float16; under cosine it divides them by their lengths before."""
    documents, queries = _normalised(oracle.recipe)
    return _of(oracle.recipe, _halved(documents), queries)


def float16_vectors(oracle: DenseOracle, missing_rows: Int32Array) -> DenseOracle | None:  # noqa: ARG001
    """As :func:`float16_documents`, and queries are rounded too."""
    documents, queries = _normalised(oracle.recipe)
    return _of(oracle.recipe, _halved(documents), _halved(queries))


def dot_product(oracle: DenseOracle, missing_rows: Int32Array) -> DenseOracle | None:  # noqa: ARG001
    """The engine takes the dot product where the cosine was asked for: it does not divide by the lengths."""
    if oracle.recipe.similarity != "cosine":
        return None
    return DenseOracle(replace(oracle.recipe, similarity="dot"), whole=oracle)


def _normalised(recipe: DenseRecipe) -> tuple[Float32Array, Float32Array]:
    if recipe.similarity != "cosine":
        return recipe.documents, recipe.queries
    return _directions(recipe.documents), _directions(recipe.queries)


def _directions(vectors: Float32Array) -> Float32Array:
    divided: Float32Array = (vectors / vector_lengths(vectors)[:, None]).astype(np.float32)
    return divided


def _halved(vectors: Float32Array) -> Float32Array | None:
    with np.errstate(over="ignore"):
        rounded = vectors.astype(np.float16).astype(np.float32)
    return rounded if np.isfinite(rounded).all() else None


def _of(recipe: DenseRecipe, documents: Float32Array | None, queries: Float32Array | None) -> DenseOracle | None:
    """Vectors that are divided by their lengths already are scored by their dot product."""
    if documents is None or queries is None:
        return None
    similarity: Similarity = "l2" if recipe.similarity == "l2" else "dot"
    return DenseOracle(replace(recipe, documents=documents, queries=queries, similarity=similarity))
