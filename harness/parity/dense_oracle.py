"""The oracle of engines of dense vectors: exact search over the same vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.data import ranking
from harness.data.filtering import BoolArray
from harness.data.types import Float32Array, Float64Array, Ids, Int32Array, Run, Similarity
from harness.exact import DenseIndex
from harness.exact.dense import FilteredDenseIndex, vector_lengths

__all__ = ["DenseOracle", "DenseRecipe"]


@dataclass(frozen=True, eq=False)
class DenseRecipe:
    """Everything that decides a dense oracle's scores: the vectors, float32 (n, d) and (Q, d), and how they compare.

    ``missing`` int32 are rows that are never returned; ``matching`` bool (n,) are the documents that a filter leaves,
    None for all of them. ``candidates`` are the hits that each query may have, None for all documents; their scores
    mean nothing.
    """

    doc_ids: Ids
    query_ids: Ids
    documents: Float32Array
    queries: Float32Array
    similarity: Similarity
    missing: Int32Array
    matching: BoolArray | None = None
    candidates: Run | None = None


class DenseOracle:
    """Exact cosine, dot product or negative squared distance. What it retrieved last is kept.

    ``threads`` is for retrieval; it changes no bit of the result.
    """

    name = "dense"

    def __init__(self, recipe: DenseRecipe, *, threads: int = 1, whole: DenseOracle | None = None) -> None:
        self.recipe, self._threads, self._whole = recipe, threads, whole
        self._retrieved: tuple[int, Run] | None = None

    @property
    def mode(self) -> str:
        """``cosine``, ``dot`` or ``l2``."""
        return self.recipe.similarity

    def retrieve(self, k: int) -> Run:
        """The exact best ``k`` of every query; equal scores by descending id."""
        if self._retrieved is None or self._retrieved[0] != k:
            recipe = self.recipe
            if recipe.candidates is not None:
                run = ranking.order(recipe.candidates.with_scores(self.score(recipe.candidates)))
            else:
                deep = k + len(recipe.missing)
                top = self.searched.retrieve(
                    recipe.queries, deep, self._threads, similarity=recipe.similarity, device="auto"
                )
                run = Run(recipe.query_ids, recipe.doc_ids, top.indptr, top.rows, top.scores)
            self._retrieved = k, ranking.cut(_without(run, recipe.missing), k)
        return self._retrieved[1]

    def score(self, run: Run) -> Float32Array:
        """The exact score of every hit of ``run``: float32 (H,)."""
        return self.index.score(self.recipe.queries, run.indptr, run.rows, similarity=self.recipe.similarity)

    def of_queries(self, rows: Int32Array) -> DenseOracle:
        """The same oracle for some of its queries, sharing its index."""
        recipe = self.recipe
        ids = Ids.of(recipe.query_ids.take(rows))
        candidates = recipe.candidates.of_queries(rows) if recipe.candidates is not None else None
        queries = np.ascontiguousarray(recipe.queries[rows])
        part = replace(recipe, query_ids=ids, queries=queries, candidates=candidates)
        return DenseOracle(part, threads=self._threads, whole=self)

    def without(self, missing: Int32Array) -> DenseOracle:
        """The same oracle, never returning some rows."""
        return DenseOracle(replace(self.recipe, missing=missing), threads=self._threads, whole=self)

    @cached_property
    def index(self) -> DenseIndex:
        """The index that does the work."""
        if self._whole is not None:
            return self._whole.index
        return DenseIndex.build(self.recipe.documents, tie_break=self.recipe.doc_ids.tie_rank)

    @cached_property
    def searched(self) -> DenseIndex | FilteredDenseIndex:
        """The index, or what a filter leaves of it."""
        if self._whole is not None:
            return self._whole.searched
        matching = self.recipe.matching
        return self.index if matching is None else self.index.filtered(matching)

    @cached_property
    def scale(self) -> Float64Array:
        """Each query's largest possible score, float64 (Q,): 1 for cosine, |q| max|d| for the dot product, and
        (|q| + max|d|)² for l2. A float32 sum of products that cancel is off by a part of that, not of the score.
        """
        asked = vector_lengths(self.recipe.queries)
        if self.recipe.similarity == "cosine":
            return np.ones(len(asked))
        longest = float(vector_lengths(self.recipe.documents).max(initial=0.0))
        scale: Float64Array = asked * longest if self.recipe.similarity == "dot" else np.square(asked + longest)
        return scale


def _without(run: Run, missing: Int32Array) -> Run:
    if len(missing) == 0:
        return run
    return ranking.hits_at(run, np.flatnonzero(~np.isin(run.rows, missing)))
