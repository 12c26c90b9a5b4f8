"""References: the exact result of the scoring function that a backend claims to compute, on the same vectors."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from harness.data import ranking
from harness.data.ranking import TieBreak
from harness.data.types import Float32Array, Float64Array, Ids, Int32Array, Int64Array, Run, SparseVectors
from harness.engines.interface import ComparedVectors
from harness.errors import BackendError, DataError
from harness.exact import DenseIndex, LuceneIndex, SparseIndex, TopK, bm25_idf
from harness.exact.dense import FilteredDenseIndex, vector_lengths
from harness.exact.float32_sums import Float32SumIndex
from harness.exact.lucene import LuceneWeights
from harness.exact.shards import shard_count, spread_documents, spread_queries
from harness.exact.weights import with_idf
from harness.parity.recipes import DenseRecipe, Recipe, idf_by_shard
from harness.worker.exact_search import DividedSearch, score_rows
from harness.worker.failure import RemoteError
from harness.worker.jobs import DenseSearchJob, SparseSearchJob

_log = logging.getLogger("harness")
Fuse = Callable[[Sequence[Run], int | None], Run]
"""Fuses runs, cut to so many hits a query; None cuts nothing."""


@runtime_checkable
class Reference(Protocol):
    """The exact result for a fixed list of queries over a fixed corpus."""

    @property
    def name(self) -> str:
        """Kind of computation: ``sparse``, ``dense`` or ``fusion``."""

    @property
    def mode(self) -> str:
        """Arithmetic: ``textbook``, ``lucene`` or the name of an engine's own BM25; the similarity; the fusion."""

    def retrieve(self, k: int) -> Run:
        """Return the exact best ``k`` of every query, in the reference's own order of ties."""

    def score(self, run: Run) -> Float32Array:
        """Return the exact score of every hit of ``run``, retrieved by the reference or not: float32 (H,)."""

    def of_queries(self, rows: Int32Array) -> Self:
        """Return the same reference for some of its queries."""

    @property
    def scale(self) -> Float64Array | None:
        """Base of relative tolerances, float64 (Q,), where it is above the scores; None: the scores themselves."""


class _IndexReference(ABC):
    """A reference that searches an index, built when first needed; the last retrieval is kept.

    ``divided`` searches the documents in parts where there are enough of them: no index of all is built then.
    """

    recipe: Recipe | DenseRecipe
    _divided: DividedSearch | None = None
    retrieved: tuple[int, Run] | None = None
    """The last k, and its run."""

    def retrieve(self, k: int) -> Run:
        """Return the exact best ``k`` of every query, in the reference's own order of ties."""
        if self.retrieved is None or self.retrieved[0] != k:
            self.retrieved = k, self._search(k)
        return self.retrieved[1]

    @abstractmethod
    def _search(self, k: int) -> Run: ...

    def _best(self, k: int) -> Run:
        """Return the best ``k`` of the documents that a filter leaves, found in parts, or here where a part fails."""
        top = None
        if self._parts is not None:
            try:
                top = self._best_in_parts(self._parts, k)
            except BackendError as error:
                # malformed data raises again here, where the error names the rows of the corpus, not those of a part
                if not isinstance(error, RemoteError) or error.type_name != DataError.__name__:
                    _log.warning("a part of the exact reference failed (%s): searched here instead", error.what)
                self._divided = None
        if top is None:
            top = self._best_here(k)
        return Run(self.recipe.query_ids, self.recipe.doc_ids, top.indptr, top.rows, top.scores)

    @property
    def _parts(self) -> DividedSearch | None:
        """Return the search of the documents in parts; None where they are searched at once."""
        divided = self._divided
        return divided if divided is not None and divided.divides(len(self.recipe.doc_ids)) else None

    @abstractmethod
    def _best_here(self, k: int) -> TopK: ...

    @abstractmethod
    def _best_in_parts(self, parts: DividedSearch, k: int) -> TopK: ...

    def _retrieved_of(self, rows: Int32Array) -> tuple[int, Run] | None:
        """Return the last retrieval for some of the queries."""
        return None if self.retrieved is None else (self.retrieved[0], self.retrieved[1].of_queries(rows))


class SparseReference(_IndexReference):
    """The reference of a sparse recipe.

    Equal scores come by descending id, in ``lucene`` mode in the recipe's order, and for an engine's own BM25 by row.
    ``threads`` and ``divided`` are for retrieval and change no bit of the result; ``whole`` is a reference with the
    same documents, whose index is shared.
    """

    name = "sparse"
    scale = None

    def __init__(
        self,
        recipe: Recipe,
        *,
        threads: int = 1,
        whole: SparseReference | None = None,
        divided: DividedSearch | None = None,
    ) -> None:
        self.recipe: Recipe = recipe
        self._threads, self._whole, self._divided = threads, whole, divided

    @property
    def mode(self) -> str:
        """``textbook``, ``lucene``, or the name of an engine's own BM25."""
        return self.recipe.mode

    def _search(self, k: int) -> Run:
        recipe = self.recipe
        if recipe.candidates is None:
            return self._best(k)
        listed = recipe.candidates if recipe.order is None else _listed_by(recipe.candidates, recipe.order)
        run = listed.with_scores(self.score(listed))
        hits = ranking.hits_at(run, np.flatnonzero(run.scores))  # a document that scores 0 is no hit
        ordered = ranking.order(hits) if self.mode == "textbook" else ranking.order_as(hits, TieBreak.LISTED)
        return ranking.cut(ordered, k)

    def _best_here(self, k: int) -> TopK:
        return self.searched.retrieve(self._queries, k, threads=self._threads)

    def _best_in_parts(self, parts: DividedSearch, k: int) -> TopK:
        return parts.retrieve_sparse(replace(self.job, k=k))

    def score(self, run: Run) -> Float32Array:
        """Return the exact score of every hit of ``run``: float32 (H,)."""
        if self._parts is not None:
            return score_rows(self.job, run.indptr, run.rows)
        return self.index.score(self._queries, run.indptr, run.rows)

    def of_queries(self, rows: Int32Array) -> SparseReference:
        """Return the same reference for some of its queries, sharing its index."""
        recipe = self.recipe
        part = replace(
            recipe,
            query_ids=Ids.of(recipe.query_ids.take(rows)),
            queries=recipe.queries.take(rows),
            candidates=recipe.candidates.of_queries(rows) if recipe.candidates is not None else None,
        )
        reference = SparseReference(part, threads=self._threads, whole=self, divided=self._divided)
        reference.retrieved = self._retrieved_of(rows)
        return reference

    @cached_property
    def index(self) -> SparseIndex | LuceneIndex | Float32SumIndex:
        """The index of all documents."""
        if self._whole is not None:
            return self._whole.index
        recipe = self.recipe
        if recipe.mode == "lucene" and recipe.counts is not None:
            counts = replace(recipe.counts, documents=recipe.documents)
            return LuceneIndex.build(
                counts,
                k1=recipe.k1,
                b=recipe.b,
                k1_plus_1=recipe.k1_plus_1,
                shards=recipe.shards,
                order=recipe.order,
            )
        if recipe.formula is not None:
            if recipe.formula.float32_sums:
                return Float32SumIndex.build(recipe.documents, recipe.absent)
            return SparseIndex.build(recipe.documents)
        documents, idf = self._columns
        return SparseIndex.build(documents, idf=idf, tie_break=recipe.doc_ids.tie_rank)

    @cached_property
    def job(self) -> SparseSearchJob:
        """The search of all documents, which may be divided; its ``k`` is yet to be said."""
        recipe = self.recipe
        if self._whole is not None:
            whole = self._whole.job
            rows = self._whole.recipe.query_ids.rows_of(recipe.query_ids)
            return replace(whole, queries=whole.queries.take(rows))
        ties = ~np.arange(len(recipe.documents), dtype=np.uint32)
        if recipe.mode == "lucene" and recipe.counts is not None:
            if recipe.order is not None:
                ties[recipe.order] = ~np.arange(len(recipe.order), dtype=np.uint32)
            weights = LuceneWeights.of(
                replace(recipe.counts, documents=recipe.documents),
                k1=recipe.k1,
                b=recipe.b,
                k1_plus_1=recipe.k1_plus_1,
                shards=recipe.shards,
            )
            queries = weights.queries.weigh(recipe.queries)
            return SparseSearchJob(weights.documents, queries, "lucene", ties, 0, recipe.matching)
        if recipe.formula is not None:
            kind: Literal["float32", "textbook"] = "float32" if recipe.formula.float32_sums else "textbook"
            return SparseSearchJob(recipe.documents, recipe.queries, kind, ties, 0, recipe.matching, recipe.absent)
        documents, idf = self._columns
        queries = self._queries if idf is None else with_idf(self._queries, idf)
        return SparseSearchJob(documents, queries, "textbook", recipe.doc_ids.tie_rank, 0, recipe.matching)

    @property
    def _columns(self) -> tuple[SparseVectors, Float32Array | None]:
        """Return the documents over the columns of all shards, and the IDF of these."""
        recipe = self.recipe
        idf = idf_by_shard(recipe, bm25_idf) if isinstance(recipe.idf, str) else recipe.idf
        if recipe.shards is None or recipe.mode != "textbook":
            return recipe.documents, idf
        return spread_documents(recipe.documents, recipe.shards), None if idf is None else idf.ravel()

    @cached_property
    def searched(self) -> SparseIndex | LuceneIndex | Float32SumIndex:
        """The index, or the part of it that a filter leaves."""
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
        return spread_queries(recipe.queries, shard_count(recipe.shards))


class DenseReference(_IndexReference):
    """Exact cosine, dot product or negative squared distance; equal scores come by descending id.

    ``threads``, ``whole`` and ``divided`` as in :class:`SparseReference`.
    """

    name = "dense"

    def __init__(
        self,
        recipe: DenseRecipe,
        *,
        threads: int = 1,
        whole: DenseReference | None = None,
        divided: DividedSearch | None = None,
    ) -> None:
        self.recipe: DenseRecipe = recipe
        self._threads, self._whole, self._divided = threads, whole, divided

    @property
    def mode(self) -> str:
        """``cosine``, ``dot`` or ``l2``."""
        return self.recipe.similarity

    def _search(self, k: int) -> Run:
        recipe = self.recipe
        if recipe.candidates is not None:
            run = ranking.order(recipe.candidates.with_scores(self.score(recipe.candidates)))
        else:
            run = self._best(k + len(recipe.missing))
        if len(recipe.missing):
            run = ranking.hits_at(run, np.flatnonzero(~np.isin(run.rows, recipe.missing)))
        return ranking.cut(run, k)

    def _best_here(self, k: int) -> TopK:
        recipe = self.recipe
        return self.searched.retrieve(recipe.queries, k, self._threads, similarity=recipe.similarity, device="auto")

    def _best_in_parts(self, parts: DividedSearch, k: int) -> TopK:
        recipe = self.recipe
        ties, rows = recipe.doc_ids.tie_rank, len(recipe.documents)
        return parts.retrieve_dense(
            recipe.documents,
            DenseSearchJob(Path(), 0, rows, recipe.queries, recipe.similarity, ties, k, recipe.matching),
        )

    def score(self, run: Run) -> Float32Array:
        """Return the exact score of every hit of ``run``: float32 (H,)."""
        queries, similarity = self.recipe.queries, self.recipe.similarity
        if self._parts is not None:
            rows, places = np.unique(run.rows, return_inverse=True)
            index = DenseIndex.build(self.recipe.documents[rows])
            return index.score(queries, run.indptr, places.astype(np.int32), similarity=similarity)
        return self.index.score(queries, run.indptr, run.rows, similarity=similarity)

    def of_queries(self, rows: Int32Array) -> DenseReference:
        """Return the same reference for some of its queries, sharing its index."""
        recipe = self.recipe
        part = replace(
            recipe,
            query_ids=Ids.of(recipe.query_ids.take(rows)),
            queries=np.ascontiguousarray(recipe.queries[rows]),
            candidates=recipe.candidates.of_queries(rows) if recipe.candidates is not None else None,
        )
        reference = DenseReference(part, threads=self._threads, whole=self, divided=self._divided)
        reference.retrieved = self._retrieved_of(rows)
        return reference

    def without(self, missing: Int32Array) -> DenseReference:
        """Return the same reference, which never returns some rows."""
        return DenseReference(
            replace(self.recipe, missing=missing), threads=self._threads, whole=self, divided=self._divided
        )

    @cached_property
    def index(self) -> DenseIndex:
        """The index of all documents."""
        if self._whole is not None:
            return self._whole.index
        return DenseIndex.build(self.recipe.documents, tie_break=self.recipe.doc_ids.tie_rank)

    @cached_property
    def searched(self) -> DenseIndex | FilteredDenseIndex:
        """The index, or the part of it that a filter leaves."""
        if self._whole is not None:
            return self._whole.searched
        matching = self.recipe.matching
        return self.index if matching is None else self.index.filtered(matching)

    @cached_property
    def scale(self) -> Float64Array:
        """Largest possible score of each query, float64 (Q,).

        1 for cosine, |q| max|d| for the dot product, and (|q| + max|d|)² for l2. A float32 sum of products that cancel
        is off by a part of that, not of the score.
        """
        lengths = vector_lengths(self.recipe.queries)
        if self.recipe.similarity == "cosine":
            return np.ones(len(lengths))
        longest = float(vector_lengths(self.recipe.documents).max(initial=0.0))
        scale: Float64Array = lengths * longest if self.recipe.similarity == "dot" else np.square(lengths + longest)
        return scale


class Part(NamedTuple):
    """One component of a fusion: its ``exact`` hits and its ``actual`` ones, both over the same columns."""

    label: str
    exact: Run
    actual: Run


@dataclass(frozen=True)
class FusedReference:
    """The fusion of its components' exact hits; components are ``parts``."""

    mode: str
    parts: tuple[Part, ...]
    fuse: Fuse
    name: str = "fusion"
    scale = None

    def retrieve(self, k: int) -> Run:
        """Return the best ``k`` of every query, in the one ordering."""
        return self.fuse([part.exact for part in self.parts], k)

    def score(self, run: Run) -> Float32Array:
        """Return the score of every hit of ``run``: float32 (H,); 0 for a document that is in no exact list."""
        fused = self._uncut
        scores = np.zeros(run.hits, dtype=np.float32)
        if not fused.hits:
            return scores
        fused_keys, keys = hit_keys(fused), hit_keys(run)
        order = np.argsort(fused_keys)
        places = np.searchsorted(fused_keys, keys, sorter=order)
        nearest = order[np.minimum(places, len(order) - 1)]
        known = fused_keys[nearest] == keys
        scores[known] = fused.scores[nearest[known]]
        return scores

    def of_queries(self, rows: Int32Array) -> Self:
        """Return the same reference for some of its queries."""
        parts = ((label, exact.of_queries(rows), actual.of_queries(rows)) for label, exact, actual in self.parts)
        return replace(self, parts=tuple(Part(*part) for part in parts))

    @cached_property
    def _uncut(self) -> Run:
        return self.fuse([part.exact for part in self.parts], None)


def _listed_by(run: Run, order: Int32Array) -> Run:
    """Return the hits of each query in the order in which their rows stand in ``order``."""
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    query = np.repeat(np.arange(len(run.query_ids)), np.diff(run.indptr))
    listed = np.lexsort((places[run.rows], query))
    return replace(run, rows=run.rows[listed], scores=run.scores[listed])


def hit_keys(run: Run) -> Int64Array:
    """Number each hit by query and document."""
    query = np.repeat(np.arange(len(run.query_ids), dtype=np.int64), np.diff(run.indptr))
    return query * len(run.doc_ids) + run.rows


def references_of_compared(
    reference: Reference, compared: ComparedVectors | None, threads: int = 1
) -> tuple[DenseReference | None, DenseReference | None]:
    """Return the references of the vectors that the engine's scores are made of, and of those that its index compares.

    None where these are the reference's own, or not others than the former.
    """
    if compared is None or not isinstance(reference, DenseReference):
        return None, None
    recipe = replace(
        reference.recipe,
        documents=compared.documents,
        queries=compared.queries,
        similarity=compared.similarity,
    )
    scored, ordered = DenseReference(recipe, threads=threads), None
    documents, queries, similarity = compared.index_documents, compared.index_queries, compared.index_similarity
    if documents is not None and queries is not None and similarity is not None:
        in_index = replace(recipe, documents=documents, queries=queries, similarity=similarity)
        ordered = DenseReference(in_index, threads=threads)
    return scored, ordered
