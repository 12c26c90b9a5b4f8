"""Explain scores of sparse references: what each term adds, and why two documents or two backends differ.

Contributions come from the reference itself, queried with one term at a time, and add up to its score bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.document_rows import DocumentRows, row_blocks
from harness.data.types import (
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    Run,
    SparseVectors,
    TermCounts,
    offsets_of,
    owners,
)
from harness.exact import bm25_idf, document_frequencies
from harness.exact.bm25_models import Bm25Formula, idf_of, statistics_of, weigh_at_lengths
from harness.exact.lucene import QueryWeighing, byte_lengths, decoded_lengths
from harness.parity.causes import UNKNOWN
from harness.parity.recipes import Recipe, with_formula
from harness.parity.references import DenseReference, SparseReference
from harness.parity.scoring_differences import formula_parts
from harness.text.field_counts import of_field

ROUNDING = "rounding"
LENGTH = "length"
_MOST_ROUNDING = 1e-5
"""Differences of this part of a score are rounding; the bound of float32 sums over 100 terms is 1.2e-5."""


_PAIRS_AT_ONCE = 1 << 18
"""Contributions that are computed together."""

SAME_SCORES = frozenset({"approximate search", "fewer hits", "missing vectors", "zero-score padding"})
"""Causes that change which documents are returned, and no score."""


class TermScores(NamedTuple):
    """What each term of a query adds to documents.

    Attributes:
        columns: int32 (T,), the terms in the order of addition; if equal terms are added one by one, each occurs.
        weights: float32 (T,), their values in the query.
        values: float32 (T, D), their values in the documents: counts or weights of a model, 0 without the term.
        contributions: float32 (T, D).
        of_all: What every document gets, with these terms or without, added last; 0 for most formulas.
        scores: float32 (D,), the sums, which are the reference's scores.
    """

    columns: Int32Array
    weights: Float32Array
    values: Float32Array
    contributions: Float32Array
    of_all: np.float32
    scores: Float32Array


def term_scores(reference: SparseReference, rows: Int32Array) -> TermScores:
    """Return the contributions of the only query's terms to the documents ``rows``; as :func:`terms_of_queries`."""
    return next(terms_of_queries(reference, np.array([0, len(rows)], dtype=np.int64), rows))


def terms_of_queries(reference: SparseReference, indptr: Int64Array, rows: Int32Array) -> Iterator[TermScores]:
    """Yield for each query the contributions of its terms to its documents, ``rows[indptr[q]:indptr[q + 1]]``.

    They are added as the reference does: in float64 in ascending order of dimension, and rounded once to float32, for
    several fields once for each field with a weight too; in float32, each addition rounded, for a formula with such
    sums. Raises AssertionError if a sum is not the reference's score: a defect of the harness.
    """
    recipe, queries = reference.recipe, reference.recipe.queries
    indptr_of_queries, indices, values = map(np.asarray, (queries.indptr, queries.indices, queries.values))
    queries = SparseVectors(indptr_of_queries, indices, values, queries.dimensions)  # views of files are slow to slice
    in_float32 = recipe.formula is not None and recipe.formula.float32_sums
    if in_float32:
        counts = queries.values.astype(np.int64)
        starts, columns = offsets_of(counts)[queries.indptr], np.repeat(queries.indices, counts)
        queries = SparseVectors(starts, columns, np.ones(len(columns), dtype=np.float32), queries.dimensions)
    pairs = np.diff(queries.indptr) * np.diff(indptr)
    for start, stop in row_blocks(offsets_of(pairs), _PAIRS_AT_ONCE):
        block = slice(int(indptr[start]), int(indptr[stop]))
        yield from _terms_of_block(
            reference.of_queries(np.arange(start, stop, dtype=np.int32)),
            queries.slice(start, stop),
            indptr[start : stop + 1] - indptr[start],
            rows[block],
            np.dtype(np.float32 if in_float32 else np.float64),
        )


def _terms_of_block(
    reference: SparseReference, queries: SparseVectors, indptr: Int64Array, rows: Int32Array, sums: np.dtype[Any]
) -> Iterator[TermScores]:
    """Yield the term scores of some queries, whose terms are searched one by one; ``sums`` is the type of a sum."""
    recipe, terms = reference.recipe, np.diff(queries.indptr)
    singles = SparseVectors(np.arange(queries.nnz + 1), queries.indices, queries.values, queries.dimensions)
    lists = [rows[start:stop] for start, stop in pairwise(indptr.tolist())]
    starts = offsets_of(np.repeat(np.diff(indptr), terms))
    tiled = np.concatenate([np.tile(part, count) for part, count in zip(lists, terms.tolist(), strict=True)])
    search = reference.search_of_all(1)
    weighed = replace(search, queries=reference.weighted.weigh(singles), matching=None, absent=None)
    contributions = weighed.score(starts, tiled)
    content = recipe.counts.documents if recipe.counts is not None else recipe.documents
    values = _values(content, tiled, np.repeat(queries.indices, np.diff(starts)))
    expected = search.score(indptr, rows)
    for query, (start, stop) in enumerate(pairwise(indptr.tolist())):
        columns, weights = queries.row(query)
        block = slice(int(starts[queries.indptr[query]]), int(starts[queries.indptr[query + 1]]))
        shape = len(columns), stop - start
        of_query = contributions[block].reshape(shape)
        of_all = np.float32(0) if recipe.absent is None else recipe.absent[columns].sum()
        scores: Float32Array = _sum(reference, columns, of_query, sums).astype(np.float32) + of_all
        if not np.array_equal(scores, expected[start:stop]):
            raise AssertionError(f"contributions add up to {scores}, the reference's scores are {expected[start:stop]}")
        yield TermScores(columns, weights, values[block].reshape(shape), of_query, of_all, scores)


def _values(documents: DocumentRows, rows: Int32Array, columns: Int32Array) -> Float32Array:
    """Return the values of documents ``rows`` (N,) in ``columns`` (N,), float32 (N,), 0 if a document has none."""
    distinct, positions = np.unique(rows, return_inverse=True)
    content = documents.take(distinct)
    keys = owners(content.indptr) * content.dimensions + content.indices
    lookup = positions * content.dimensions + columns
    nearest = np.minimum(np.searchsorted(keys, lookup), len(keys) - 1)
    values: Float32Array = np.zeros(len(rows), dtype=np.float32)
    if len(keys):
        has = keys[nearest] == lookup
        values[has] = content.values[nearest[has]]
    return values


def term_names(recipe: Recipe, columns: Int32Array, terms: Mapping[int, str]) -> list[str]:
    """Return terms as texts: those that ``terms`` give the columns of learned vectors, other columns by number."""
    if recipe.counts is not None:
        return recipe.counts.vocabulary.take(columns)
    return [terms.get(column, str(column)) for column in columns.tolist()]


def _sum(
    reference: SparseReference, columns: Int32Array, contributions: Float32Array, dtype: np.dtype[Any]
) -> npt.NDArray[np.floating]:
    """Add up contributions in their order; the score of each field with a weight is rounded before it is added."""
    rounded = reference.weighted.rounded
    total: npt.NDArray[np.floating] = np.zeros(contributions.shape[1], dtype=dtype)
    part, last = np.zeros_like(total), -1
    for column, contribution in zip(columns.tolist(), contributions, strict=True):
        inside = (
            -1 if rounded is None else next((n for n, (first, end) in enumerate(rounded) if first <= column < end), -1)
        )
        if inside != last:
            total, part, last = total + part.astype(np.float32), np.zeros_like(total), inside
        if inside < 0:
            total = total + contribution
        else:
            part = part + contribution
    return total + part.astype(np.float32)


def score_rows(reference: SparseReference | DenseReference, rows: Int32Array) -> Float32Array:
    """Return the reference's scores of documents for its only query, without reading other documents' terms."""
    indptr: Int64Array = np.array([0, len(rows)], dtype=np.int64)
    if isinstance(reference, SparseReference):
        return reference.search_of_all(1).score(indptr, rows)
    recipe = reference.recipe
    return reference.score(Run(recipe.query_ids, recipe.doc_ids, indptr, rows, np.zeros(len(rows), dtype=np.float32)))


class Collection(NamedTuple):
    """Statistics behind a document's score: those of its shard, if there are several, and of the field of each term.

    ``documents`` int64 (V,) is N, ``df`` int64 (V,), ``idf`` float (V,) or None without an IDF, ``average`` float64
    (V,) is avgdl, None for vectors of a model.
    """

    documents: Int64Array
    df: Int64Array
    idf: Float32Array | Float64Array | None
    average: Float64Array | None


def collection_of(recipe: Recipe, shard: int = 0) -> Collection:
    """Return the statistics that a recipe's scores are made of, in one of its shards."""
    if recipe.shards is not None:
        rows = np.flatnonzero(recipe.shards == shard).astype(np.int32)
        counts = recipe.counts.of_documents(rows) if recipe.counts is not None else None
        idf = recipe.idf[shard] if isinstance(recipe.idf, np.ndarray) else recipe.idf
        recipe = replace(recipe, counts=counts, documents=recipe.documents.take(rows), idf=idf, shards=None)
    counts, idf = recipe.counts, recipe.idf
    if counts is not None and counts.field_weights is not None:
        fields = [_collection_of_field(recipe, counts, field) for field in range(counts.fields)]
        idfs = [np.asarray(part.idf, dtype=np.float64) for part in fields if part.idf is not None]
        documents, df = (np.concatenate([part[position] for part in fields]) for position in (0, 1))
        of_fields = [part.average for part in fields if part.average is not None]
        return Collection(documents, df, np.concatenate(idfs) if idfs else None, np.concatenate(of_fields))
    if isinstance(recipe.formula, Bm25Formula) and counts is not None:
        statistics = statistics_of(counts, recipe.formula)
        number = np.full(len(statistics.df), statistics.documents)
        averages = np.full(len(statistics.df), statistics.average)
        return Collection(number, statistics.df, idf_of(counts, recipe.formula), averages)
    df, filled = document_frequencies(recipe.documents)
    mean = counts.lengths.sum() / max(np.count_nonzero(counts.lengths), 1) if counts is not None else None
    average = None if mean is None else np.full(len(df), mean)
    return Collection(np.full(len(df), filled), df, bm25_idf(df, filled) if isinstance(idf, str) else idf, average)


def _collection_of_field(recipe: Recipe, counts: TermCounts, field: int) -> Collection:
    documents = of_field(counts.documents, counts.fields, field)
    return collection_of(
        replace(recipe, documents=documents, counts=replace(counts, documents=documents, field_weights=None))
    )


def recipe_formula(recipe: Recipe) -> Bm25Formula | None:
    """Return the BM25 formula that a recipe computes; None for other weights, and for several fields with weights."""
    if recipe.counts is not None and recipe.counts.field_weights is not None:
        return None
    if isinstance(recipe.formula, Bm25Formula):
        return recipe.formula
    if recipe.counts is None or recipe.formula is not None or not isinstance(recipe.idf, str):
        return None
    return Bm25Formula(recipe.k1, recipe.b, k1_plus_1=recipe.k1_plus_1, byte_lengths=recipe.mode == "lucene")


def stored_lengths(recipe: Recipe, rows: Int32Array) -> Int64Array | None:
    """Return the lengths with which documents are scored: rounded down to a byte if the engine stores a byte."""
    formula = recipe_formula(replace(recipe, idf="bm25"))
    if recipe.counts is None or formula is None:
        return None
    lengths = recipe.counts.lengths[rows]
    return decoded_lengths()[byte_lengths(lengths)].astype(np.int64) if formula.byte_lengths else lengths


def lucene_numbers(reference: SparseReference, collection: Collection, row: int) -> list[dict[str, float]]:
    """Return the numbers behind a document's score by their names in Lucene's explanations, for each term of a query.

    ``freq`` if the document has the term; of BM25 weights also ``n``, ``N``, ``dl``, ``avgdl``, ``k1``, ``b`` and
    ``idf``, and of Lucene's ``boost`` and ``tf``. ``collection`` is that of the document's shard.
    """
    recipe, rows = reference.recipe, np.array([row], dtype=np.int32)
    counts, columns = recipe.counts, recipe.queries.row(0)[0].tolist()
    values = _values_of(recipe.documents if counts is None else counts.documents, rows)
    numbers = [{"freq": values[column]} if column in values else {} for column in columns]
    formula = None if counts is None else recipe_formula(replace(recipe, counts=replace(counts, field_weights=None)))
    if counts is None or formula is None or collection.average is None:
        return numbers
    lengths = counts.of_documents(rows).field_lengths()[0]
    lengths = decoded_lengths()[byte_lengths(lengths)] if formula.byte_lengths else lengths
    for number, column in zip(numbers, columns, strict=True):
        number.update(n=float(collection.df[column]), N=float(collection.documents[column]), k1=formula.k1, b=formula.b)
        number["dl"] = float(lengths[column // counts.terms_per_field])
        number["avgdl"] = float(collection.average[column])
        if collection.idf is not None:
            number["idf"] = float(collection.idf[column])
    if recipe.mode == "lucene":
        plain = np.ones(recipe.queries.dimensions, dtype=np.float32)
        weighing = QueryWeighing(plain, recipe.k1, recipe.b, recipe.k1_plus_1, 1, counts.field_weights)
        factors = _values_of(reference.weighted.documents, rows, recipe.queries.dimensions)
        for number, column, boost in zip(numbers, columns, weighing.weigh(recipe.queries).values.tolist(), strict=True):
            number["boost"] = boost
            if column in factors:
                number["tf"] = float(np.float32(1) - np.float32(1) / np.float32(factors[column]))
    return numbers


def _values_of(documents: DocumentRows, rows: Int32Array, dimensions: int | None = None) -> dict[int, float]:
    """Return a document's values by column; with ``dimensions``, whose columns are repeated for each shard."""
    columns, values = documents.take(rows).row(0)
    columns = columns if dimensions is None else columns % dimensions
    return dict(zip(columns.tolist(), values.tolist(), strict=True))


class PairDifference(NamedTuple):
    """Why one document scores higher than another: ``terms`` float64 (T,) and ``length``, which add up to it."""

    terms: Float64Array
    length: float


def pair_difference(reference: SparseReference, scores: TermScores, rows: Int32Array) -> PairDifference:
    """Return the difference of the first two documents ``rows``, whose term scores are the first two of ``scores``.

    Counts of terms are compared at the length of the second document; the rest is the effect of the first document's
    length. Documents of equal length, and weights that no formula of lengths makes, differ by their terms only.
    """
    recipe, formula = reference.recipe, recipe_formula(reference.recipe)
    lengths = stored_lengths(recipe, rows)
    first, second = scores.contributions[:, 0].astype(np.float64), scores.contributions[:, 1].astype(np.float64)
    if formula is None or recipe.counts is None or lengths is None or recipe.shards is not None:
        return PairDifference(first - second, 0.0)
    if lengths[0] == lengths[1]:
        return PairDifference(first - second, 0.0)
    statistics = statistics_of(recipe.counts, formula)
    weights = np.zeros((2, len(scores.columns)))
    for position, row in enumerate(rows[:2]):
        block = recipe.counts.documents.take(np.array([row]))
        weighed = weigh_at_lengths(formula, statistics, block, np.full(block.nnz, float(lengths[1])))
        weight_of = dict(zip(block.indices.tolist(), weighed.tolist(), strict=True))
        weights[position] = [weight_of.get(column, 0.0) for column in scores.columns.tolist()]
    of_terms: Float64Array = scores.weights * (weights[0] - weights[1])
    return PairDifference(of_terms, float(np.float64(scores.scores[0]) - scores.scores[1] - of_terms.sum()))


@dataclass(frozen=True, slots=True)
class ScoreStep:
    """A step from one score to another: a part of the formula, ``before`` and ``after`` in words, and its amount."""

    name: str
    before: str
    after: str
    amount: float


@dataclass(frozen=True, eq=False, slots=True)
class ScoredDocument:
    """A document for one query in one backend.

    ``reference`` is of that query only, ``row`` the document's row in it. ``score`` is the engine's, None if it did not
    return the document; ``cause`` is the proven cause of the engine's difference from the reference, if any.
    """

    reference: SparseReference | DenseReference
    row: int
    score: float | None
    cause: str | None
    analyzer: str
    terms: object
    """Equal for backends with the same terms."""

    @property
    def recipe(self) -> Recipe:
        """The recipe of a sparse reference."""
        if not isinstance(self.reference, SparseReference):
            raise AssertionError("no recipe of terms")
        return self.reference.recipe

    @property
    def exact(self) -> float:
        """The reference's score."""
        return float(score_rows(self.reference, np.array([self.row], dtype=np.int32))[0])

    def rescored(self, recipe: Recipe) -> float:
        """Return the score by another recipe of terms."""
        return float(score_rows(SparseReference(recipe), np.array([self.row], dtype=np.int32))[0])


class _Level(NamedTuple):
    """A score on the way from an engine to its formula, and the name and words of the change that led to it."""

    score: float
    name: str = ""
    words: tuple[str, str] = ("", "")


def score_steps(first: ScoredDocument, second: ScoredDocument) -> list[ScoreStep]:
    """Return the steps from the first backend's score to the second's: their amounts add up to the difference.

    The order is fixed: the first engine's difference from its reference, its shards and a missing IDF; k1, b, length,
    IDF, N and avgdl, saturation, factor (k1 + 1); the analyzer; the same of the second engine, backwards; rounding
    last. Steps without effect on this document are left out.
    """
    down, first_recipe = _levels(first)
    up, second_recipe = _levels(second)
    steps = [ScoreStep(level.name, *level.words, level.score - before.score) for before, level in pairwise(down)]
    steps += _between(first, first_recipe, down[-1].score, second, second_recipe, up[-1].score)
    steps += [
        ScoreStep(level.name, *level.words[::-1], before.score - level.score)
        for before, level in reversed(list(pairwise(up)))
    ]
    return join_steps(steps, max(abs(down[0].score), abs(up[0].score)))


def step_name(cause: str | None) -> str:
    """Return the name of the step from an engine's score to its reference's, of the proven cause of a difference."""
    return ROUNDING if cause is None or cause in SAME_SCORES else cause


def _levels(document: ScoredDocument) -> tuple[list[_Level], Recipe]:
    """Return an engine's score, and each simplification of it; and the recipe of the last one."""
    recipe = document.recipe
    levels = [_Level(document.exact)]
    if document.score is not None:
        levels = [_Level(document.score), _Level(document.exact, step_name(document.cause))]
    if recipe.shards is not None and recipe.counts is not None and recipe_formula(recipe) is not None:
        unsharded = replace(recipe, shards=None)
        if recipe.formula is not None:
            unsharded = with_formula(unsharded, recipe.counts, recipe.formula)
        recipe = unsharded
        words = ("of each shard", "of all documents")
        levels.append(_Level(document.rescored(recipe), "statistics", words))
    if recipe.idf is None and recipe.formula is None and recipe.counts is not None and recipe.mode == "textbook":
        recipe = replace(recipe, idf="bm25")
        levels.append(_Level(document.rescored(recipe), "IDF", ("left out", "counted")))
    return levels, recipe


def _between(
    first: ScoredDocument, recipe: Recipe, score: float, second: ScoredDocument, target: Recipe, target_score: float
) -> Iterator[ScoreStep]:
    """Yield the steps between two recipes: parts of the formula, one after another, then the analyzer."""
    formula, target_formula = recipe_formula(recipe), recipe_formula(target)
    same_terms = first.terms == second.terms
    if formula is None or target_formula is None:
        yield ScoreStep("weights of terms", _weights(recipe), _weights(target), target_score - score)
        return
    if same_terms and next(formula_parts(formula, target_formula), None) is None:
        yield ScoreStep(ROUNDING, "", "", target_score - score)
        return
    now = _score_in_float64(first, recipe, formula)
    yield ScoreStep(ROUNDING, "", "", now - score)
    while (part := next(formula_parts(formula, target_formula), None)) is not None:
        name, changed, words = part
        if not isinstance(changed, Bm25Formula):
            raise AssertionError("a part of a BM25 formula is no formula")
        formula, before = changed, now
        now = _score_in_float64(first, recipe, formula)
        yield ScoreStep(name, *words, now - before)
    end = _score_in_float64(second, target, target_formula)
    if not same_terms:
        yield ScoreStep("analyzer", first.analyzer, second.analyzer, end - now)
        now = end
    yield ScoreStep(ROUNDING, "", "", target_score - now)


def _weights(recipe: Recipe) -> str:
    several = recipe.counts is not None and recipe.counts.field_weights is not None
    return f"{recipe.mode}, several fields" if several else recipe.mode


def _score_in_float64(document: ScoredDocument, recipe: Recipe, formula: Bm25Formula) -> float:
    """Return a document's score by a formula whose weights are computed in float64."""
    if recipe.counts is None:
        raise AssertionError("a formula without counts of terms")
    plain = replace(formula, arithmetic="float64", float32_sums=True)
    return document.rescored(_formula_recipe(recipe, recipe.counts, plain))


def _formula_recipe(recipe: Recipe, counts: TermCounts, formula: Bm25Formula) -> Recipe:
    base = Recipe("formula", recipe.doc_ids, recipe.query_ids, counts.documents, recipe.queries, None, counts)
    return with_formula(base, counts, formula)


def join_steps(steps: list[ScoreStep], scale: float) -> list[ScoreStep]:
    """Return steps with equal names and words as one, without those that change nothing; rounding comes last.

    More than rounding can be is called unknown.
    """
    joined: dict[tuple[str, str, str], float] = {}
    for step in steps:
        key = (step.name, step.before, step.after)
        joined[key] = joined.get(key, 0.0) + step.amount
    rounding = joined.pop((ROUNDING, "", ""), 0.0)
    joined[ROUNDING if abs(rounding) <= _MOST_ROUNDING * max(scale, 1.0) else UNKNOWN, "", ""] = rounding
    return [ScoreStep(*key, amount) for key, amount in joined.items() if amount]
