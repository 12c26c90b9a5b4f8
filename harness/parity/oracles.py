"""Oracles: the exact result of what a backend claims to compute, on the same vectors."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Protocol, Self, runtime_checkable

import numpy as np

from harness.data import ranking
from harness.data.ranking import TieBreak
from harness.data.types import Float32Array, Float64Array, Int32Array, Run, SparseVectors
from harness.exact import LuceneIndex, SparseIndex
from harness.parity.recipe import Recipe, spread_documents, spread_queries

__all__ = ["Oracle", "SparseOracle"]


@runtime_checkable
class Oracle(Protocol):
    """The exact result for a fixed list of queries over a fixed corpus."""

    @property
    def name(self) -> str:
        """What computes it: ``sparse`` or ``dense``."""

    @property
    def mode(self) -> str:
        """Whose arithmetic it follows: ``textbook`` or ``lucene``; the similarity of dense vectors."""

    def retrieve(self, k: int) -> Run:
        """The exact best ``k`` of every query, in its own order of ties."""

    def score(self, run: Run) -> Float32Array:
        """The exact score of every hit of ``run`` (float32, aligned with its rows), retrieved by the oracle or not."""

    def of_queries(self, rows: Int32Array) -> Self:
        """The same oracle for some of its queries."""

    @property
    def scale(self) -> Float64Array | None:
        """What tolerances are relative to, float64 (Q,), where it is above the scores; None: the scores themselves."""


class SparseOracle:
    """The oracle of a recipe. Its index is built when first needed, and what it retrieved last is kept.

    ``threads`` is for retrieval; it changes no bit of the result.
    """

    name = "sparse"
    scale = None

    def __init__(self, recipe: Recipe, *, threads: int = 1, whole: SparseOracle | None = None) -> None:
        self.recipe, self._threads, self._whole = recipe, threads, whole
        self._retrieved: tuple[int, Run] | None = None

    @property
    def mode(self) -> str:
        """``textbook`` or ``lucene``."""
        return self.recipe.mode

    def retrieve(self, k: int) -> Run:
        """The exact best ``k`` of every query; equal scores by descending id, in ``lucene`` mode by ascending row."""
        if self._retrieved is None or self._retrieved[0] != k:
            recipe = self.recipe
            if recipe.candidates is not None:
                run = ranking.cut(self._ordered(recipe.candidates), k)
            else:
                top = self.searched.retrieve(self._queries, k, threads=self._threads)
                run = Run(recipe.query_ids, recipe.doc_ids, top.indptr, top.rows, top.scores)
            self._retrieved = k, run
        return self._retrieved[1]

    def _ordered(self, candidates: Run) -> Run:
        """The candidates that are hits: those whose score is not zero."""
        run = candidates.with_scores(self.score(candidates))
        hits = ranking.hits_at(run, np.flatnonzero(run.scores))
        return ranking.order_as(hits, TieBreak.LISTED) if self.mode == "lucene" else ranking.order(hits)

    def score(self, run: Run) -> Float32Array:
        """The exact score of every hit of ``run``: float32 (H,)."""
        return self.index.score(self._queries, run.indptr, run.rows)

    def of_queries(self, rows: Int32Array) -> SparseOracle:
        """The same oracle for some of its queries, sharing its index."""
        return SparseOracle(self.recipe.with_queries(rows), threads=self._threads, whole=self)

    @cached_property
    def index(self) -> SparseIndex | LuceneIndex:
        """The reference index that does the work."""
        if self._whole is not None:
            return self._whole.index
        recipe = self.recipe
        if recipe.mode == "lucene" and recipe.counts is not None:
            counts = replace(recipe.counts, documents=recipe.documents)
            return LuceneIndex.build(counts, k1=recipe.k1, b=recipe.b)
        if recipe.shards is not None:
            documents, idf = spread_documents(recipe, recipe.shards)
            return SparseIndex.build(documents, idf=idf, tie_break=recipe.doc_ids.tie_rank)
        return SparseIndex.build(recipe.documents, idf=recipe.idf, tie_break=recipe.doc_ids.tie_rank)

    @cached_property
    def searched(self) -> SparseIndex | LuceneIndex:
        """The index, or what a filter leaves of it."""
        if self._whole is not None:
            return self._whole.searched
        matching = self.recipe.matching
        return self.index if matching is None else self.index.filtered(matching)

    @cached_property
    def _queries(self) -> SparseVectors:
        """The queries over the columns of the index."""
        recipe = self.recipe
        if recipe.shards is None or recipe.mode != "textbook":
            return recipe.queries
        return spread_queries(recipe.queries, recipe.shards)
