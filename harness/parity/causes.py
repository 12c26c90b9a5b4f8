"""Causes of a difference between an engine and its reference: each scores the queries again with one thing changed.

A hypothesis is proven for a query if the engine's ranking is tie-equivalent to the new ranking *and* every score of the
engine agrees with it, within the tolerance. Each cause is a function here, and they are tried in this order; a function
returns None if its change does not apply or would change nothing. The last cause proves less than the others: it
changes nothing and widens the tolerance to the possible extent of rounding.

Causes of fusions lie in their components: :func:`hits_of_components`, :func:`causes_in_lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.data import ranking
from harness.data.document_rows import DocumentRows, blocks_of
from harness.data.filtering import BoolArray
from harness.data.types import (
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    Run,
    Similarity,
    TermCounts,
    offsets_of,
    ranks_in,
)
from harness.encoders import bm25
from harness.exact import bm25_idf, document_frequencies
from harness.exact.bm25_models import Bm25Formula, weigh
from harness.exact.dense import vector_lengths
from harness.exact.lucene import byte_lengths as encode_lengths
from harness.exact.lucene import decoded_lengths
from harness.exact.qdrant_model import qdrant_idf, qdrant_rows
from harness.parity.recipes import DenseRecipe, Recipe, empty_rows, idf_by_shard, with_formula
from harness.parity.references import DenseReference, Fuse, FusedReference, Part, Reference, SparseReference

UNKNOWN = "unknown"
"""The name of a cause that no hypothesis proves: a defect of the harness, counted."""
FLOAT32_FUSION = "float32 fusion"
"""The cause if :data:`WITHIN_LISTS` holds once the fusion rounds each step to float32."""
WITHIN_LISTS = "ties and rounding in the lists"
"""The cause of a difference if every list is exact up to equal scores and the stated tolerance."""
_UNIT_ROUNDOFF = 2.0**-24


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """Queries that need an explanation: the engine's run, its reference for the same queries, and known facts.

    ``missing_rows`` are documents that the engine is known not to hold; ``approximate`` says that its search may miss
    some that it holds. ``compared`` are the vectors from which its scores are computed, if they differ from the
    reference's, and ``ordered`` the vectors that its index compares, if these differ from both.
    """

    run: Run
    reference: Reference
    k: int
    tolerance: float
    missing_rows: Int32Array
    approximate: bool = False
    compared: DenseReference | None = None
    ordered: DenseReference | None = None

    def of_queries(self, rows: Int32Array) -> Case:
        """Return the case of some of its queries."""
        compared, ordered = (
            part.of_queries(rows) if part is not None else None for part in (self.compared, self.ordered)
        )
        run, reference = self.run.of_queries(rows), self.reference.of_queries(rows)
        return replace(self, run=run, reference=reference, compared=compared, ordered=ordered)


class RescoredRun(NamedTuple):
    """The case under one changed assumption.

    ``run`` are the engine's hits that count, ``exact`` the exact ranking, ``true_scores`` float32 aligned with
    ``run``; per query: ``k`` int64, and the relative tolerances of the ranking and of the scores, float64.
    """

    run: Run
    exact: Run
    true_scores: Float32Array
    k: Int64Array
    tie_tolerance: Float64Array
    score_tolerance: Float64Array


Rescore = Callable[[Case], RescoredRun | None]
"""Changes a single aspect of a case; None if it cannot be changed or would change nothing."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A possible cause of a difference: its name in reports, its meaning in one sentence, and the change."""

    name: str
    meaning: str
    rescore: Rescore


def rescore_with_reference(case: Case, reference: Reference) -> RescoredRun:
    """Score the case's run by another reference, with its own k and tolerance."""
    queries = len(case.run.query_ids)
    tolerance = np.full(queries, case.tolerance)
    k = np.full(queries, case.k, dtype=np.int64)
    return RescoredRun(case.run, reference.retrieve(case.k), reference.score(case.run), k, tolerance, tolerance)


_tried: list[Hypothesis] = []


def _cause(name: str, meaning: str) -> Callable[[Rescore], Rescore]:
    """Declare a cause: its name in reports, and its meaning in one sentence. Causes are tried in this file's order."""

    def declare(rescore: Rescore) -> Rescore:
        _tried.append(Hypothesis(name, meaning, rescore))
        return rescore

    return declare


def _recipe_cause(name: str, meaning: str) -> Callable[[Callable[[Recipe], Recipe | None]], object]:
    """Declare a cause by a change of the recipe of sparse vectors."""
    return lambda change: _cause(name, meaning)(lambda case: _rescore_with_recipe(case, change))


def _rescore_with_recipe(case: Case, change: Callable[[Recipe], Recipe | None]) -> RescoredRun | None:
    recipe = change(case.reference.recipe) if isinstance(case.reference, SparseReference) else None
    return None if recipe is None else rescore_with_reference(case, SparseReference(recipe))


def _vector_cause(name: str, meaning: str) -> Callable[[Callable[[DenseReference], DenseReference | None]], object]:
    """Declare a cause by a changed reference of dense vectors."""

    def declare(change: Callable[[DenseReference], DenseReference | None]) -> None:
        @_cause(name, meaning)
        def rescore(case: Case) -> RescoredRun | None:
            reference = change(case.reference) if isinstance(case.reference, DenseReference) else None
            return None if reference is None else rescore_with_reference(case, reference)

    return declare


@_recipe_cause("float32 IDF", "every step of the IDF is rounded to float32, as Qdrant does")
def _float32_idf(recipe: Recipe) -> Recipe | None:
    if not _has_bm25_idf(recipe):
        return None
    return replace(recipe, idf=idf_by_shard(recipe, lambda containing, documents: qdrant_idf(documents, containing)))


def _has_bm25_idf(recipe: Recipe) -> bool:
    return recipe.mode == "textbook" and recipe.idf == "bm25"


@_cause("missing documents", "the engine does not hold these documents, and counts without them")
def _missing_documents(case: Case) -> RescoredRun | None:
    def change(recipe: Recipe) -> Recipe | None:
        # weights that were made before stay; an engine with its own BM25 makes them from its contents
        changed = _without(recipe, case.missing_rows)
        if changed is None or recipe.formula is None or recipe.counts is None:
            return changed
        present = np.setdiff1d(np.arange(len(recipe.counts.documents)), case.missing_rows).astype(np.int32)
        weighted = weigh(recipe.counts.of_documents(present), recipe.formula)
        lengths = np.zeros(len(recipe.doc_ids), dtype=np.int64)
        lengths[present] = np.diff(weighted.documents.indptr)
        documents: DocumentRows = replace(weighted.documents, indptr=offsets_of(lengths))
        return replace(changed, documents=documents, absent=weighted.absent)

    return _rescore_with_recipe(case, change)


def _without(recipe: Recipe, missing: Int32Array) -> Recipe | None:
    lost = missing[np.diff(recipe.documents.take(missing).indptr) > 0]
    return replace(recipe, documents=empty_rows(recipe.documents, lost)) if len(lost) else None


@_cause("missing documents, IDF kept", "the engine does not return these documents, but its IDF still counts them")
def _missing_documents_same_idf(case: Case) -> RescoredRun | None:
    def change(recipe: Recipe) -> Recipe | None:
        # deleted and not yet cleaned up
        changed = _without(recipe, case.missing_rows)
        if changed is None or recipe.formula is not None:
            return changed
        return replace(changed, idf=idf_by_shard(recipe, bm25_idf)) if _has_bm25_idf(recipe) else None

    return _rescore_with_recipe(case, change)


@_cause("fewer hits", "the engine returned the right documents, and stopped early")
def _fewer_hits(case: Case) -> RescoredRun | None:
    same = rescore_with_reference(case, case.reference)
    returned = np.diff(case.run.indptr)
    if not ((returned > 0) & (returned < np.diff(same.exact.indptr))).any():
        return None
    k: Int64Array = np.where(returned > 0, returned, case.k)
    return same._replace(exact=ranking.cut(same.exact, k), k=k)


@_cause("missing vectors", "the engine does not hold these documents")
def _missing_vectors(case: Case) -> RescoredRun | None:
    if not len(case.missing_rows) or not isinstance(case.reference, DenseReference):
        return None
    return rescore_with_reference(case, case.reference.without(case.missing_rows))


@_cause(
    "approximate search",
    "the right documents of those that were found, in their order with their scores; the index missed better ones",
)
def _approximate_search(case: Case) -> RescoredRun | None:
    # a graph finds the neighbours of the nodes that it visits, and lists are visited in part
    if not case.approximate or isinstance(case.reference, FusedReference):
        return None
    return rescore_returned(case, case.reference)


def rescore_returned(case: Case, reference: Reference) -> RescoredRun:
    """Score the hits by the reference, and take them in its order for the exact ranking."""
    same = rescore_with_reference(case, reference)
    returned = ranking.order(case.run.with_scores(same.true_scores))
    return same._replace(exact=returned, k=np.diff(returned.indptr))


@_cause("quantisation", "the index keeps compressed vectors, and these have exactly the scores and the order returned")
def _quantisation(case: Case) -> RescoredRun | None:
    return rescore_with_reference(case, case.compared) if case.compared is not None else None


@_cause(
    "quantisation, approximate search",
    "the documents found, in the order of their compressed vectors with their scores; the index missed better ones",
)
def _quantisation_and_approximate_search(case: Case) -> RescoredRun | None:
    if case.compared is None or not case.approximate:
        return None
    return rescore_returned(case, case.compared)


@_cause(
    "quantisation in the index, approximate search",
    "the documents found with the scores of their compressed vectors, in the order of those that the index compares, "
    "which are rounded once more; the index missed better ones",
)
def _quantisation_in_the_index(case: Case) -> RescoredRun | None:
    if case.compared is None or case.ordered is None or not case.approximate:
        return None
    rescored = rescore_returned(case, case.ordered)
    off = case.run.scores - case.compared.score(case.run)  # how far the scores are from theirs is judged all the same
    return rescored._replace(run=case.run.with_scores(rescored.true_scores + off))


@_vector_cause("float16 documents", "the index stores documents as float16, for cosine after normalising")
def _float16_documents(reference: DenseReference) -> DenseReference | None:
    documents, queries = _normalised(reference.recipe)
    return _rescore_normalised(reference.recipe, _float16(documents), queries)


@_vector_cause("float16 vectors", "documents and queries are rounded to float16")
def _float16_vectors(reference: DenseReference) -> DenseReference | None:
    documents, queries = _normalised(reference.recipe)
    return _rescore_normalised(reference.recipe, _float16(documents), _float16(queries))


@_vector_cause("dot product", "the engine does not divide by the lengths")
def _dot_product(reference: DenseReference) -> DenseReference | None:
    if reference.recipe.similarity != "cosine":
        return None
    return DenseReference(replace(reference.recipe, similarity="dot"), complete=reference)


def _normalised(recipe: DenseRecipe) -> tuple[Float32Array, Float32Array]:
    if recipe.similarity != "cosine":
        return recipe.documents, recipe.queries
    documents, queries = (
        (vectors / vector_lengths(vectors)[:, None]).astype(np.float32)
        for vectors in (recipe.documents, recipe.queries)
    )
    return documents, queries


def _float16(vectors: Float32Array) -> Float32Array | None:
    with np.errstate(over="ignore"):
        rounded = vectors.astype(np.float16).astype(np.float32)
    return rounded if np.isfinite(rounded).all() else None


def _rescore_normalised(
    recipe: DenseRecipe, documents: Float32Array | None, queries: Float32Array | None
) -> DenseReference | None:
    """Return the reference of changed vectors; for cosine they are of unit length, so their dot product scores them."""
    if documents is None or queries is None:
        return None
    similarity: Similarity = "l2" if recipe.similarity == "l2" else "dot"
    return DenseReference(replace(recipe, documents=documents, queries=queries, similarity=similarity))


@_cause("zero-score padding", "documents that match nothing fill the list up to k")
def _zero_score_padding(case: Case) -> RescoredRun | None:
    if not isinstance(case.reference, SparseReference):
        return None
    same = rescore_with_reference(case, case.reference)
    matching = np.flatnonzero(same.true_scores)
    if len(matching) == case.run.hits:
        return None
    return same._replace(run=ranking.select_hits(case.run, matching), true_scores=same.true_scores[matching])


@_recipe_cause("IDF over all documents", "N counts documents without terms too")
def _idf_over_all_documents(recipe: Recipe) -> Recipe | None:
    if isinstance(recipe.formula, Bm25Formula) and not recipe.formula.all_documents:
        return _change_formula(recipe, all_documents=True)
    if not _has_bm25_idf(recipe) or document_frequencies(recipe.documents)[1] == len(recipe.documents):
        return None
    return replace(recipe, idf=idf_by_shard(recipe, bm25_idf, over_all=True))


@_recipe_cause("statistics of documents with terms", "N and avgdl leave out documents without terms")
def _statistics_of_filled_documents(recipe: Recipe) -> Recipe | None:
    if not isinstance(recipe.formula, Bm25Formula) or not recipe.formula.all_documents:
        return None
    return _change_formula(recipe, all_documents=False)


def _change_formula(recipe: Recipe, **fields: Any) -> Recipe | None:
    """Return the recipe of an engine's own BM25 with one thing about its formula changed; None for a function."""
    if not isinstance(recipe.formula, Bm25Formula) or recipe.counts is None:
        return None
    return with_formula(recipe, recipe.counts, replace(recipe.formula, **fields))


@_recipe_cause("one IDF for all shards", "N and df are those of the whole dataset")
def _one_idf_for_all_shards(recipe: Recipe) -> Recipe | None:
    if recipe.shards is None:
        return None
    unsharded = replace(recipe, shards=None)
    if recipe.formula is not None and recipe.counts is not None:
        return with_formula(unsharded, recipe.counts, recipe.formula)
    return unsharded if recipe.idf == "bm25" else None


@_recipe_cause("no IDF", "the engine leaves the IDF out")
def _no_idf(recipe: Recipe) -> Recipe | None:
    return replace(recipe, idf=None) if recipe.mode == "textbook" and recipe.idf is not None else None


@_recipe_cause("query counts ignored", "a repeated query term counts once")
def _query_counts_ignored(recipe: Recipe) -> Recipe | None:
    if recipe.counts is None or (recipe.queries.values == 1).all():
        return None
    return replace(recipe, queries=replace(recipe.queries, values=np.ones_like(recipe.queries.values)))


@_recipe_cause("factor (k1 + 1)", "the constant factor is left out, or put in")
def _other_constant_factor(recipe: Recipe) -> Recipe | None:
    if isinstance(recipe.formula, Bm25Formula):
        return _change_formula(recipe, k1_plus_1=not recipe.formula.k1_plus_1)
    if recipe.mode not in ("textbook", "lucene") or recipe.counts is None:
        return None
    changed = replace(recipe, k1_plus_1=not recipe.k1_plus_1)
    return changed if recipe.mode == "lucene" else replace(changed, documents=_weights(changed, recipe.counts))


def _weights(recipe: Recipe, counts: TermCounts, lengths: Int64Array | None = None) -> DocumentRows:
    return bm25.weighed_rows(counts, k1=recipe.k1, b=recipe.b, k1_plus_1=recipe.k1_plus_1, lengths=lengths)


@_recipe_cause("byte lengths", "document lengths are rounded to Lucene's single byte")
def _byte_lengths(recipe: Recipe) -> Recipe | None:
    if isinstance(recipe.formula, Bm25Formula):
        return None if recipe.formula.byte_lengths else _change_formula(recipe, byte_lengths=True)
    if recipe.mode != "textbook" or recipe.counts is None:
        return None
    lengths = decoded_lengths()[encode_lengths(recipe.counts.lengths)].astype(np.int64)
    return replace(recipe, documents=_weights(recipe, recipe.counts, lengths=lengths))


@_recipe_cause("Lucene's arithmetic", "byte lengths, no (k1 + 1), float32 in Lucene's order")
def _lucene_arithmetic(recipe: Recipe) -> Recipe | None:
    if recipe.mode != "textbook" or recipe.counts is None:
        return None
    return replace(recipe, mode="lucene", documents=recipe.counts.documents, idf="bm25", k1_plus_1=False)


@_recipe_cause("exact lengths", "document lengths are not rounded to a byte")
def _textbook_arithmetic(recipe: Recipe) -> Recipe | None:
    if isinstance(recipe.formula, Bm25Formula):
        return _change_formula(recipe, byte_lengths=False) if recipe.formula.byte_lengths else None
    if recipe.mode != "lucene" or recipe.counts is None or recipe.counts.field_weights is not None:
        return None
    return replace(recipe, mode="textbook", documents=_weights(recipe, recipe.counts))


@_recipe_cause("float16 weights", "the index stores weights as float16")
def _float16_weights(recipe: Recipe) -> Recipe | None:
    return _stored_as(recipe, "float16")


@_recipe_cause("uint8 weights", "the index stores weights as uint8, scaled per posting list")
def _uint8_weights(recipe: Recipe) -> Recipe | None:
    # so does a single segment; several segments have separate limits
    return _stored_as(recipe, "uint8")


def _stored_as(recipe: Recipe, datatype: str) -> Recipe | None:
    return replace(recipe, documents=qdrant_rows(recipe.documents, datatype)) if recipe.mode == "textbook" else None


@_cause(
    "within float32 rounding",
    "nothing is scored again: the scores lie within the error bound of float32 sums in any order",
)
def _float32_rounding(case: Case) -> RescoredRun | None:
    # each of two documents that change places may be off by the error bound of its score
    reference = case.reference
    if isinstance(reference, DenseReference):
        error = _error_of_vectors(reference)
    elif isinstance(reference, SparseReference) and _all_positive(reference.recipe):
        error = _error_of_terms(reference.recipe)
    else:
        return None
    return rescore_with_reference(case, reference)._replace(
        tie_tolerance=np.maximum(case.tolerance, 2 * error), score_tolerance=np.maximum(case.tolerance, error)
    )


def _all_positive(recipe: Recipe) -> bool:
    queries = recipe.queries
    if not queries.nnz or queries.values.min() < 0:
        return False
    return all(block.values.min(initial=0.0) >= 0 for _, block in blocks_of(recipe.documents))


def _error_of_terms(recipe: Recipe) -> Float64Array:
    """Return the bound of relative errors of sums of non-negative terms.

    Higham, "Accuracy and Stability of Numerical Algorithms" (2002), equation 4.4: for n such terms added in float32 in
    any order the relative error is at most (n - 1) u; one u each for a fused product and the reference's own rounding.
    """
    return _relative_error(np.diff(recipe.queries.indptr) + 1)


def _error_of_vectors(reference: DenseReference) -> Float64Array:
    """Return the bound of errors of dot products, relative to the product of the lengths.

    Equation 3.5 there: for vectors of d dimensions it is d u, in any order. Dividing by lengths takes two such sums,
    each counting half, and a few more roundings.
    """
    dimensions = reference.recipe.queries.shape[1]
    steps = (2 if reference.mode == "cosine" else 1) * dimensions + 16
    return _relative_error(np.full(len(reference.recipe.query_ids), steps))


def _relative_error(steps: Int64Array) -> Float64Array:
    error: Float64Array = steps * _UNIT_ROUNDOFF / (1 - steps * _UNIT_ROUNDOFF)
    return error


HYPOTHESES: tuple[Hypothesis, ...] = tuple(_tried)
"""Every cause that can be proven, in the order in which they are tried."""


def hits_of_components(parts: Sequence[Part]) -> tuple[Hypothesis, ...]:
    """Return the causes of a fusion's difference: the hits of one component, or else of several."""

    def actual_hits(name: str, meaning: str, labels: Sequence[str]) -> Hypothesis:
        actual = [np.full(len(part.actual.query_ids), part.label in labels) for part in parts]
        return Hypothesis(name, meaning, _rescore_actual_hits(parts, actual))

    labels = [part.label for part in parts]
    single = [actual_hits(f"hits of {label}", f"{label} did not return its exact hits", [label]) for label in labels]
    meaning = "more than one component did not return its exact hits"
    return (*single, actual_hits("hits of several components", meaning, labels))


def causes_in_lists(
    parts: Sequence[Part], causes: Mapping[str, Sequence[str | None]], fuse_as_engine: Fuse
) -> Iterator[Hypothesis]:
    """Yield the causes of a difference of an engine that fuses ranked lists itself.

    ``causes`` are each list's own, one for each query, None if the list is the exact list within its tolerance. Ties
    and rounding in the lists come first, then each cause of each list, then several at once.
    """
    within = [_flags(cause is None for cause in causes[part.label]) for part in parts]
    meaning = "the lists are the exact ones up to equal scores and rounding, whose order and bits the fusion shows"
    yield Hypothesis(WITHIN_LISTS, meaning, _rescore_actual_hits(parts, within))
    as_engine = _rescore_actual_hits(parts, within, fuse_as_engine)
    yield Hypothesis(FLOAT32_FUSION, f"{meaning}, and the engine fuses them in float32", as_engine)
    for position, part in enumerate(parts):
        of_list = causes[part.label]
        for name in sorted({cause for cause in of_list if cause is not None} - {UNKNOWN}):
            actual = list(within)
            actual[position] = within[position] | _flags(cause == name for cause in of_list)
            rescore = _rescore_actual_hits(parts, actual, fuse_as_engine)
            yield Hypothesis(f"{name} in the {part.label} list", f"in the {part.label} list: {name}", rescore)
    is_explained = [_flags(cause != UNKNOWN for cause in causes[part.label]) for part in parts]
    rescore = _rescore_actual_hits(parts, is_explained, fuse_as_engine)
    yield Hypothesis("causes in several lists", "more than one list differs from the exact one", rescore)


def _flags(values: Iterable[bool]) -> BoolArray:
    return np.array(list(values), dtype=np.bool_)


def _rescore_actual_hits(parts: Sequence[Part], actual: Sequence[BoolArray], fuse: Fuse | None = None) -> Rescore:
    """Fuse the parts' actual hits instead of the exact hits, for the queries that ``actual`` (one a part) marks.

    If that reproduces the engine's result, the cause of the difference lies in these hits. ``fuse`` replaces the
    reference's own fusion.
    """

    def rescore(case: Case) -> RescoredRun | None:
        if not isinstance(case.reference, FusedReference):
            return None
        rows = parts[0].exact.query_ids.rows_of(case.run.query_ids)
        changed = tuple(
            Part(part.label, _choose(part.actual, part.exact, flags).of_queries(rows), part.actual.of_queries(rows))
            for part, flags in zip(parts, actual, strict=True)
        )
        return rescore_with_reference(case, replace(case.reference, parts=changed, fuse=fuse or case.reference.fuse))

    return rescore


def _choose(run: Run, other: Run, from_run: BoolArray) -> Run:
    """Take each query's hits from ``run`` if ``from_run`` says so, else from ``other``."""
    lengths = np.where(from_run, np.diff(run.indptr), np.diff(other.indptr))
    indptr = offsets_of(lengths)
    starts = np.where(from_run, run.indptr[:-1], other.indptr[:-1] + run.hits)
    positions = np.repeat(starts, lengths) + ranks_in(indptr)
    rows, scores = np.concatenate([run.rows, other.rows]), np.concatenate([run.scores, other.scores])
    return Run(run.query_ids, run.doc_ids, indptr, rows[positions], scores[positions])
