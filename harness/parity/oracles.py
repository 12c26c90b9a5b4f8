"""Oracles: the exact result of what a backend claims to compute, on the same vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Protocol, Self, runtime_checkable

from harness.analysis.terms import TermCounts
from harness.parity.recipe import Recipe, make_recipe
from harness.protocols import ParameterValue
from harness.reference import LuceneIndex, SparseIndex
from harness.types import Float32Array, Ids, Int32Array, Run, SparseVectors

__all__ = ["Oracle", "SparseOracle", "make_oracle"]


@runtime_checkable
class Oracle(Protocol):
    """The exact result for a fixed list of queries over a fixed corpus."""

    @property
    def name(self) -> str:
        """What computes it: ``sparse``."""

    @property
    def mode(self) -> str:
        """Whose arithmetic it follows: ``textbook`` or ``lucene``."""

    def retrieve(self, k: int) -> Run:
        """The exact best ``k`` of every query, in its own order of ties."""

    def score(self, run: Run) -> Float32Array:
        """The exact score of every hit of ``run`` (float32, aligned with its rows), retrieved by the oracle or not."""

    def of_queries(self, rows: Int32Array) -> Self:
        """The same oracle for some of its queries."""


class SparseOracle:
    """The oracle of a recipe. Its index is built when first needed."""

    name = "sparse"

    def __init__(self, recipe: Recipe, *, threads: int = 1, whole: SparseOracle | None = None) -> None:
        self.recipe, self._threads, self._whole = recipe, threads, whole

    @property
    def mode(self) -> str:
        """``textbook`` or ``lucene``."""
        return self.recipe.mode

    def retrieve(self, k: int) -> Run:
        """The exact best ``k`` of every query; equal scores by descending id, in ``lucene`` mode by ascending row."""
        top = self.index.retrieve(self.recipe.queries, k, threads=self._threads)
        return Run(self.recipe.query_ids, self.recipe.doc_ids, top.indptr, top.rows, top.scores)

    def score(self, run: Run) -> Float32Array:
        """The exact score of every hit of ``run``: float32 (H,)."""
        return self.index.score(self.recipe.queries, run.indptr, run.rows)

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
        return SparseIndex.build(recipe.documents, idf=recipe.idf, tie_break=recipe.doc_ids.tie_rank)


def make_oracle(
    kind: str,
    *,
    doc_ids: Ids,
    query_ids: Ids,
    counts: TermCounts | None = None,
    documents: SparseVectors | None = None,
    queries: SparseVectors | None = None,
    parameters: Mapping[str, ParameterValue],
    threads: int = 1,
) -> SparseOracle:
    """The oracle that a backend's card names; arguments and errors as in :func:`harness.parity.recipe.make_recipe`.

    ``threads`` is for retrieval; it changes no bit of the result.
    """
    recipe = make_recipe(
        kind,
        doc_ids=doc_ids,
        query_ids=query_ids,
        counts=counts,
        documents=documents,
        queries=queries,
        parameters=parameters,
    )
    return SparseOracle(recipe, threads=threads)
