"""References: the exact result of the scoring function that a backend claims to compute, on the same vectors."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from harness.data import ranking
from harness.data.document_rows import DocumentRows, all_rows
from harness.data.filtering import BoolArray
from harness.data.ranking import TieBreak
from harness.data.types import (
    Float32Array,
    Float64Array,
    Ids,
    Int32Array,
    Int64Array,
    Run,
    SparseVectors,
    UInt32Array,
    owners,
)
from harness.engines.interface import ComparedVectors
from harness.errors import BackendError, DataError
from harness.exact import DenseIndex, TopK, bm25_idf
from harness.exact.dense import FilteredDenseIndex, vector_lengths
from harness.exact.lucene import LuceneWeights
from harness.exact.shards import shard_count, spread_documents, spread_queries
from harness.exact.weights import with_idf
from harness.parity.recipes import DenseRecipe, Recipe, idf_by_shard
from harness.worker.divided_search import DividedSearch
from harness.worker.exact_search import ExactIndex, SparseSearch, exact_index
from harness.worker.failure import RemoteError
from harness.worker.jobs import Arithmetic, DenseSearchJob

_log = logging.getLogger("harness")
_SEVERAL = 2
Fuse = Callable[[Sequence[Run], int | None], Run]
"""Fuses runs, cut to this many hits a query; None cuts nothing."""


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
        """Base of relative tolerances, float64 (Q,), if it is above the scores; None: the scores themselves."""


AnyRecipe = TypeVar("AnyRecipe", Recipe, DenseRecipe)


class _IndexReference(ABC, Generic[AnyRecipe]):
    """A reference that searches an index, built when first needed; its deepest retrieval is kept.

    ``threads`` and ``divided`` are for retrieval and change no bit of the result. ``divided`` searches the documents in
    parts if there are enough of them: no index of all is built then. ``complete`` is a reference with the same
    documents, whose index is shared.
    """

    def __init__(
        self,
        recipe: AnyRecipe,
        *,
        threads: int = 1,
        complete: Self | None = None,
        divided: DividedSearch | None = None,
    ) -> None:
        self.recipe: AnyRecipe = recipe
        self.mode: str = recipe.similarity if isinstance(recipe, DenseRecipe) else recipe.mode
        self._threads, self._divided = threads, divided
        self._parts = divided if divided is not None and divided.divides(len(recipe.doc_ids)) else None
        """The search of the documents in parts; None if they are searched at once."""
        masks = recipe.matching.masks if recipe.matching is not None else ()
        self._filters = len(masks)
        self.mask: BoolArray | None = masks[0] if len(masks) == 1 else None
        """The documents that the one filter of the queries leaves; None without a filter, and for several filters."""
        self.complete: Self | None = complete if complete is None or complete.complete is None else complete.complete
        self.retrieved: tuple[int, Run] | None = None
        """The deepest retrieval: its k, and its run."""

    def retrieve(self, k: int) -> Run:
        """Return the exact best ``k`` of every query, in the reference's own order of ties."""
        if self.retrieved is None or self.retrieved[0] < k:
            self.retrieved = k, self._search(k)
        depth, run = self.retrieved
        return run if depth == k else ranking.cut(run, k)

    @abstractmethod
    def _search(self, k: int) -> Run: ...

    def _best_of_groups(self, k: int) -> Run:
        """Return the best ``k`` of the documents that the filter of each query leaves, if there are several filters."""
        matching = self.recipe.matching
        if matching is None:
            raise AssertionError("groups of queries without filters")
        rows = [np.flatnonzero(matching.group_of == group) for group in range(len(matching.masks))]
        parts = [self.of_queries(group.astype(np.int32)).best_of_group(k) for group in rows]
        joined = TopK.joined([TopK(part.indptr, part.rows, part.scores) for part in parts])
        run = Run(self.recipe.query_ids, self.recipe.doc_ids, joined.indptr, joined.rows, joined.scores)
        return replace(run.of_queries(np.argsort(np.concatenate(rows), kind="stable")), query_ids=run.query_ids)

    def best_of_group(self, k: int) -> Run:
        """Return the best ``k`` under the one filter of the queries, found in parts, or here if a part fails."""
        top = None
        if self._parts is not None:
            try:
                top = self._best_in_parts(self._parts, k)
            except BackendError as error:
                # malformed data raises again here, with an error that names the rows of the corpus, not of a part
                if not isinstance(error, RemoteError) or error.type_name != DataError.__name__:
                    _log.warning("a part of the exact reference failed (%s): searched here instead", error.problem)
                self._divided = self._parts = None
        if top is None:
            top = self._search_locally(k)
        return Run(self.recipe.query_ids, self.recipe.doc_ids, top.indptr, top.rows, top.scores)

    @abstractmethod
    def _search_locally(self, k: int) -> TopK: ...

    @abstractmethod
    def _best_in_parts(self, parts: DividedSearch, k: int) -> TopK: ...

    def of_queries(self, rows: Int32Array) -> Self:
        """Return the same reference for some of its queries, sharing its index."""
        recipe = self.recipe
        part = replace(
            recipe,
            query_ids=Ids.of(recipe.query_ids.take(rows)),
            queries=recipe.queries.take(rows, axis=0) if isinstance(recipe, DenseRecipe) else recipe.queries.take(rows),
            candidates=recipe.candidates.of_queries(rows) if recipe.candidates is not None else None,
            matching=recipe.matching.of_queries(rows) if recipe.matching is not None else None,
        )
        reference = type(self)(part, threads=self._threads, complete=self, divided=self._divided)
        if self.retrieved is not None:
            k, run = self.retrieved
            reference.retrieved = k, run.of_queries(rows)
        return reference


class _WeightedVectors(NamedTuple):
    """Documents weighted as a recipe says, the weighing of queries, and the formula that turns both into scores."""

    documents: DocumentRows
    weigh: Callable[[SparseVectors], SparseVectors]
    arithmetic: Arithmetic
    tie_break: UInt32Array
    rounded: Int64Array | None = None


class SparseReference(_IndexReference[Recipe]):
    """The reference of a sparse recipe.

    Equal scores come by descending id, in ``lucene`` mode in the recipe's order, and for an engine's own BM25 by row.
    """

    name = "sparse"
    scale = None

    def _search(self, k: int) -> Run:
        recipe = self.recipe
        if recipe.candidates is None:
            return self.best_of_group(k) if self._filters < _SEVERAL else self._best_of_groups(k)
        candidates = recipe.candidates if recipe.order is None else _reorder(recipe.candidates, recipe.order)
        run = candidates.with_scores(self.score(candidates))
        hits = ranking.select_hits(run, np.flatnonzero(run.scores))  # a document that scores 0 is not a hit
        ordered = ranking.order(hits) if self.mode == "textbook" else ranking.order_as(hits, TieBreak.RUN_ORDER)
        return ranking.cut(ordered, k)

    def _search_locally(self, k: int) -> TopK:
        search = self.search_of_all(k)
        blocks = self._blocks(search)
        if blocks is not None:
            return search.retrieve(blocks, self._threads)
        index = self.indexed if self.mask is None else self.searched
        return index.retrieve(search.queries, k, threads=self._threads)

    def _best_in_parts(self, parts: DividedSearch, k: int) -> TopK:
        return parts.retrieve(self.search_of_all(k))

    def score(self, run: Run) -> Float32Array:
        """Return the exact score of every hit of ``run``: float32 (H,)."""
        search = self.search_of_all(1)
        if self._parts is not None or self._blocks(search) is not None:
            return search.score(run.indptr, run.rows)
        return self.indexed.score(search.queries, run.indptr, run.rows)

    @cached_property
    def weighted(self) -> _WeightedVectors:
        """Documents and queries weighted so that a document's score depends on no other document any more."""
        if self.complete is not None:
            return self.complete.weighted
        recipe = self.recipe
        ties = ~np.arange(len(recipe.documents), dtype=np.uint32)
        if recipe.mode == "lucene" and recipe.counts is not None:
            if recipe.order is not None:
                ties[recipe.order] = ~np.arange(len(recipe.order), dtype=np.uint32)
            counts = recipe.counts
            if recipe.documents is not counts.documents:
                counts = replace(counts, documents=all_rows(recipe.documents))
            documents, queries = LuceneWeights.of(
                counts, k1=recipe.k1, b=recipe.b, k1_plus_1=recipe.k1_plus_1, shards=recipe.shards
            )
            rounded = None
            if counts.field_weights is not None:
                from harness.exact.field_sums import rounded_columns

                rounded = rounded_columns(counts.field_weights, counts.terms_per_field, queries.shards)
            return _WeightedVectors(documents, queries.weigh, "lucene", ties, rounded)
        if recipe.formula is not None:
            arithmetic: Arithmetic = "float32" if recipe.formula.float32_sums else "textbook"
            return _WeightedVectors(recipe.documents, lambda queries: queries, arithmetic, ties)
        idf = idf_by_shard(recipe, bm25_idf) if isinstance(recipe.idf, str) else recipe.idf
        documents, shards = recipe.documents, recipe.shards
        if shards is not None:
            documents = spread_documents(documents, shards)

        def weigh(queries: SparseVectors) -> SparseVectors:
            spread = queries if shards is None else spread_queries(queries, shard_count(shards))
            return spread if idf is None else with_idf(spread, idf.ravel())

        return _WeightedVectors(documents, weigh, "textbook", recipe.doc_ids.tie_rank)

    def search_of_all(self, k: int) -> SparseSearch:
        """Return the search of all documents for every query."""
        documents, weigh, arithmetic, ties, rounded = self.weighted
        recipe = self.recipe
        return SparseSearch(documents, weigh(recipe.queries), arithmetic, ties, k, self.mask, recipe.absent, rounded)

    def _blocks(self, search: SparseSearch) -> list[tuple[int, int]] | None:
        """Return the blocks of documents that are searched one after another; None if a single index holds all."""
        if "indexed" in vars(self.complete or self):
            return None
        blocks = search.blocks()
        return blocks if len(blocks) > 1 else None

    @cached_property
    def indexed(self) -> ExactIndex:
        """The index of all documents."""
        if self.complete is not None:
            return self.complete.indexed
        documents, _, arithmetic, ties, rounded = self.weighted
        return exact_index(all_rows(documents), arithmetic, ties, self.recipe.absent, rounded)

    @cached_property
    def searched(self) -> ExactIndex:
        """The index, or the part of it that the filter of the queries leaves."""
        if self.complete is not None and self.complete.mask is self.mask:
            return self.complete.searched
        mask, index = self.mask, self.indexed
        return index if mask is None or mask.all() else index.filtered(mask)


class DenseReference(_IndexReference[DenseRecipe]):
    """Exact cosine, dot product or negative squared distance; equal scores come by descending id."""

    name = "dense"

    def _search(self, k: int) -> Run:
        recipe = self.recipe
        if recipe.candidates is not None:
            run = ranking.order(recipe.candidates.with_scores(self.score(recipe.candidates)))
        else:
            depth = k + len(recipe.missing)
            run = self.best_of_group(depth) if self._filters < _SEVERAL else self._best_of_groups(depth)
        if len(recipe.missing):
            run = ranking.select_hits(run, np.flatnonzero(~np.isin(run.rows, recipe.missing)))
        return ranking.cut(run, k)

    def _search_locally(self, k: int) -> TopK:
        recipe, index = self.recipe, self.index if self.mask is None else self.searched
        return index.retrieve(recipe.queries, k, self._threads, similarity=recipe.similarity, device="auto")

    def _best_in_parts(self, parts: DividedSearch, k: int) -> TopK:
        recipe = self.recipe
        rows, ties = len(recipe.documents), recipe.doc_ids.tie_rank
        with parts.file_of(recipe.documents) as vectors:
            job = DenseSearchJob(vectors, 0, rows, recipe.queries, recipe.similarity, ties, k, self.mask)
            return parts.retrieve(job)

    def score(self, run: Run) -> Float32Array:
        """Return the exact score of every hit of ``run``: float32 (H,)."""
        queries, similarity = self.recipe.queries, self.recipe.similarity
        if self._parts is not None:
            rows, positions = np.unique(run.rows, return_inverse=True)
            index = DenseIndex.build(self.recipe.documents[rows])
            return index.score(queries, run.indptr, positions.astype(np.int32), similarity=similarity)
        return self.index.score(queries, run.indptr, run.rows, similarity=similarity)

    def without(self, missing: Int32Array) -> DenseReference:
        """Return the same reference, which never returns some rows."""
        recipe = replace(self.recipe, missing=missing)
        return DenseReference(recipe, threads=self._threads, complete=self, divided=self._divided)

    @cached_property
    def index(self) -> DenseIndex:
        """The index of all documents."""
        if self.complete is not None:
            return self.complete.index
        return DenseIndex.build(self.recipe.documents, tie_break=self.recipe.doc_ids.tie_rank)

    @cached_property
    def searched(self) -> DenseIndex | FilteredDenseIndex:
        """The index, or the part of it that the filter of the queries leaves."""
        if self.complete is not None and self.complete.mask is self.mask:
            return self.complete.searched
        mask, index = self.mask, self.index
        return index if mask is None or mask.all() else index.filtered(mask)

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
        positions = np.searchsorted(fused_keys, keys, sorter=order)
        nearest = order[np.minimum(positions, len(order) - 1)]
        is_fused = fused_keys[nearest] == keys
        scores[is_fused] = fused.scores[nearest[is_fused]]
        return scores

    def of_queries(self, rows: Int32Array) -> Self:
        """Return the same reference for some of its queries."""
        parts = ((label, exact.of_queries(rows), actual.of_queries(rows)) for label, exact, actual in self.parts)
        return replace(self, parts=tuple(Part(*part) for part in parts))

    @cached_property
    def _uncut(self) -> Run:
        return self.fuse([part.exact for part in self.parts], None)


def _reorder(run: Run, order: Int32Array) -> Run:
    """Return the hits of each query in the order in which their rows appear in ``order``."""
    position_of = np.empty(len(order), dtype=np.int64)
    position_of[order] = np.arange(len(order))
    order_of_hits = np.lexsort((position_of[run.rows], owners(run.indptr)))
    return replace(run, rows=run.rows[order_of_hits], scores=run.scores[order_of_hits])


def hit_keys(run: Run) -> Int64Array:
    """Number each hit by query and document."""
    return owners(run.indptr) * len(run.doc_ids) + run.rows


def references_of_compared(
    reference: Reference, compared: ComparedVectors, threads: int = 1
) -> tuple[DenseReference | None, DenseReference | None]:
    """Return the references of the vectors that give the engine's scores, and of the vectors that its index compares.

    None if these are the reference's own, or do not differ from the former.
    """
    if not isinstance(reference, DenseReference):
        return None, None
    documents, queries, similarity = compared.documents, compared.queries, compared.similarity
    recipe = replace(reference.recipe, documents=documents, queries=queries, similarity=similarity)
    scored = DenseReference(recipe, threads=threads)
    if compared.index_documents is None or compared.index_queries is None or compared.index_similarity is None:
        return scored, None
    documents, queries, similarity = compared.index_documents, compared.index_queries, compared.index_similarity
    in_index = replace(recipe, documents=documents, queries=queries, similarity=similarity)
    return scored, DenseReference(in_index, threads=threads)
