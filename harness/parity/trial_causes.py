"""Causes that facts of a trial suggest, tried before the general causes: its parameters, and its engine's reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np

from harness.data.document_rows import all_rows, values_per_row, with_values
from harness.data.types import Float64Array, Ids, Int32Array, Run, SparseVectors
from harness.exact.bm25_models import Bm25Formula, idf_of, weigh
from harness.parity.causes import Case, Hypothesis, Rescore, RescoredRun, rescore_returned, rescore_with_reference
from harness.parity.recipes import Recipe
from harness.parity.references import DenseReference, Reference, SparseReference, hit_keys
from harness.registry.parameters import ParameterValue
from harness.worker.jobs import TrialRecord

OUTSIDE_THE_INDEX = "rows outside the index"
"""The cause if documents that no index has taken in yet are scored by other statistics than the index's."""
QUANTISED_SCORES = "quantised scores"
"""The cause if an engine that scores codes gives exact scores to the same documents once it measures vectors."""
SMALL_WEIGHTS = "small query weights left out"
"""The cause if a search leaves out the smallest weights of its query (Milvus's ``drop_ratio_search``)."""


def causes_of_trial(
    name: str,
    reference: Reference,
    record: TrialRecord,
    parameters: Mapping[str, ParameterValue],
    axes: tuple[Ids, Ids],
) -> Iterator[Hypothesis]:
    """Yield possible causes of a difference of a trial, or of the list ``name`` of an engine that fuses.

    ``axes`` are the ids of queries and documents.
    """
    if name in record.remeasured:
        measured = record.remeasured[name]
        yield _quantised_scores(Run(*axes, measured.indptr, measured.rows, measured.scores))
    ratio = float(parameters.get("drop_ratio_search", 0.0))
    if not isinstance(reference, SparseReference):
        return
    if ratio:
        yield _small_weights_left_out(reference, ratio)
    unindexed = record.placement.unindexed if record.placement is not None else None
    if unindexed is not None and len(unindexed):
        yield from rows_outside_the_index(reference.recipe, unindexed)


def rescored_by(reference: SparseReference) -> Rescore:
    """Return the change that replaces the case's reference by a reference of all queries."""
    return lambda case: _rescored(reference, case)


def _rescored(reference: SparseReference, case: Case) -> RescoredRun:
    return rescore_with_reference(case, reference.of_queries(reference.recipe.query_ids.rows_of(case.run.query_ids)))


def rows_outside_the_index(recipe: Recipe, rows: Int32Array, beside: str = "") -> Iterator[Hypothesis]:
    """Yield the cause that statistics of all contents score ``rows``, and statistics of the rest score the rest.

    ``beside`` names another cause that the recipe holds already. Nothing for an engine without its own BM25.
    """
    counts, formula = recipe.counts, recipe.formula
    if counts is None or formula is None:
        return

    def rescore(case: Case) -> RescoredRun:
        indexed = np.setdiff1d(np.arange(len(counts.documents)), rows).astype(np.int32)
        documents = all_rows(recipe.documents)
        values = np.array(documents.values)
        inside = values_per_row(np.isin(np.arange(len(documents)), indexed), documents)
        values[inside] = weigh(counts.of_documents(indexed), formula).documents.values
        changed = replace(recipe, documents=with_values(documents, values))
        return _rescored(SparseReference(changed), case)

    meaning = "statistics that count them score documents that are in no index yet, those of the index the others"
    yield Hypothesis(f"{OUTSIDE_THE_INDEX}, {beside}" if beside else OUTSIDE_THE_INDEX, meaning, rescore)


def _quantised_scores(measured: Run) -> Hypothesis:
    """Return the cause that scores are computed from codes: ``measured`` are the hits with their vectors measured."""

    def rescore(case: Case) -> RescoredRun | None:
        if not isinstance(case.reference, DenseReference):
            return None
        run = measured.of_queries(measured.query_ids.rows_of(case.run.query_ids))
        rescored = rescore_returned(replace(case, run=run), case.reference)
        differing = np.setxor1d(hit_keys(run), hit_keys(case.run)) // max(len(run.doc_ids), 1)
        tolerance = rescored.score_tolerance.copy()
        tolerance[differing] = -1.0  # no score agrees: if other documents were returned, nothing is proven
        return rescored._replace(score_tolerance=tolerance)

    meaning = (
        "the index scores codes: the same documents have the reference's scores and order once the engine measures "
        "their vectors; the index may have missed better ones"
    )
    return Hypothesis(QUANTISED_SCORES, meaning, rescore)


def _small_weights_left_out(reference: SparseReference, ratio: float) -> Hypothesis:
    """Return the cause that weights below the ``⌊ratio · n⌋ + 1``-th smallest of each query's n are left out.

    Measured on Milvus Lite 2.5.1, whose weights of terms have the IDF in them.
    """

    def rescore(case: Case) -> RescoredRun:
        recipe = reference.recipe
        queries, weights = recipe.queries, np.abs(recipe.queries.values.astype(np.float64))
        if isinstance(recipe.formula, Bm25Formula) and recipe.counts is not None:
            weights *= idf_of(recipe.counts, recipe.formula)[queries.indices]
        changed = replace(recipe, queries=_without_smallest(queries, weights, np.float32(ratio)))
        return _rescored(SparseReference(changed, complete=reference), case)

    meaning = "the search leaves out the share drop_ratio_search of each query's weights, the smallest"
    return Hypothesis(SMALL_WEIGHTS, meaning, rescore)


def _without_smallest(queries: SparseVectors, weights: Float64Array, ratio: np.float32) -> SparseVectors:
    mask = np.ones(queries.nnz, dtype=np.bool_)
    for start, stop in pairwise(queries.indptr):
        dropped = int(ratio * np.float32(stop - start))
        if dropped:
            mask[start:stop] = weights[start:stop] >= np.sort(weights[start:stop])[dropped]
    return queries.only(mask)
