"""Dense sample vectors made of words, and what an engine of dense vectors should answer to them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Float64Array, Similarity
from harness.testing.oracle import Expected

__all__ = ["DenseSample", "dense_scores", "embed_words", "random_unit_vectors"]

_DIMENSIONS = 64
_EMPTY = 0.05


class DenseSample(NamedTuple):
    """Vectors of documents and queries, float32 (n, d) and (q, d)."""

    documents: Float32Array
    queries: Float32Array


@lru_cache(maxsize=4096)
def _vector_of(word: str) -> Float64Array:
    vector: Float64Array = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(_DIMENSIONS)
    vector.setflags(write=False)
    return vector


def embed_words(texts: Sequence[str]) -> Float32Array:
    """One vector a text, float32 (n, 64): the sum of its words' vectors, which are normal and seeded by the word.

    A little of one more direction is in every vector, so that a text without words has a vector too, as encoders give
    it. Equal bags of words have equal vectors, bit for bit; lengths differ, so that cosine, dot product and l2 do.
    """
    vectors = np.zeros((len(texts), _DIMENSIONS))
    for row, text in enumerate(texts):
        vectors[row] += _EMPTY * _vector_of("")
        for word in sorted(text.split()):
            vectors[row] += _vector_of(word)
    return vectors.astype(np.float32)


def random_unit_vectors(seed: int, count: int, dimensions: int = _DIMENSIONS) -> Float32Array:
    """Directions drawn evenly, float32 (count, dimensions): the hardest case for a graph, which has no clusters."""
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions))
    vectors: Float32Array = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def dense_scores(sample: DenseSample, similarity: Similarity) -> Expected:
    """Every document's score, by NumPy in float64: cosine, dot product, or the negative squared distance.

    Every document matches every query. Errors are judged relative to the query's largest possible score, because a
    sum of products that cancel is no more exact than its largest parts: 1 for cosine, ``|q| max|d|`` for the dot
    product, ``(|q| + max|d|)²`` for l2.
    """
    documents, queries = (vectors.astype(np.float64) for vectors in sample)
    of_documents, of_queries = np.linalg.norm(documents, axis=1), np.linalg.norm(queries, axis=1)
    longest = of_documents.max(initial=0.0)
    scores: Float64Array
    scale: Float64Array
    if similarity == "l2":
        scores = np.empty((len(queries), len(documents)))
        for place, query in enumerate(queries):
            scores[place] = -np.square(documents - query).sum(axis=1)
        scale = np.square(of_queries + longest)
    else:
        scores = queries @ documents.T
        scale = of_queries * longest
    if similarity == "cosine":
        scores = scores / np.outer(of_queries, of_documents)
        scale = np.ones(len(queries))
    return Expected(scores, np.ones(scores.shape, dtype=np.bool_), scale)
