"""References of an index that was changed: the exact result over the present documents, and leftover content.

A document is a row of the workload and holds the content of some row of the corpus. The reference of a state has one
row for each present document; its statistics (N, df and avgdl of a BM25) are taken over these. The cause that changes
add to the others is a reference whose statistics count deleted content as well: its rows come after the documents'
rows, and a search never returns them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from harness.data.arrow import numbers
from harness.data.filtering import BoolArray, Matching
from harness.data.types import Ids, Int32Array, Run, Similarity
from harness.engines.interface import Hits
from harness.exact.bm25_models import Bm25Formula
from harness.exact.lucene import byte_lengths, decoded_lengths
from harness.exact.qdrant_model import qdrant_idf
from harness.exact.qdrant_shards import shards_of
from harness.parity.causes import HYPOTHESES, Hypothesis
from harness.parity.fused_lists import compare_hybrid
from harness.parity.recipes import DenseRecipe, Recipe, idf_by_shard, make_recipe, with_formula
from harness.parity.references import DenseReference, Reference, SparseReference, references_of_compared
from harness.parity.run_comparison import Parity, compare_run
from harness.parity.trial_causes import causes_of_trial, rescored_by, rows_outside_the_index
from harness.plan.plan import Trial
from harness.registry.cards import ReferenceRule
from harness.worker.jobs import TrialRecord
from harness.worker.vectors import Vectors

ROUNDED_IN_THE_MEAN = "rounded lengths in the mean"
"""The cause if avgdl counts stored lengths, which are rounded down to a byte."""
DELETED_IN_STATISTICS = "deleted documents in the statistics"
"""The cause if N, df and avgdl count documents that are deleted and not yet merged or cleaned away."""


@dataclass(frozen=True, eq=False, slots=True)
class ChangedIndex:
    """A state of an index that is changed.

    Attributes:
        ids: Ids of all rows, including deleted rows.
        content: int32 (n,), the corpus row that each row holds; -1 for none.
        leftovers: Contents (int32, corpus rows) that statistics may still count; as the engine reports them, or else
            guesses, the likeliest first.
        order: Rows in the order in which equal scores come, None for the order of the rows.
        shards: int32 (n,), the shard of each row if the engine reports it, else as in Qdrant if there are several.
        unindexed: Rows (int32) of present documents that no index holds.
        left_rows: Rows (int32) of the only ``leftovers``, if the engine reports them: they are in the shards of these.
        rounded: Rows (int32) of present documents whose lengths avgdl counts rounded to a byte, and which of the only
            ``leftovers`` (bool) too; None for none.
    """

    ids: Ids
    content: Int32Array
    leftovers: tuple[Int32Array, ...] = ()
    order: Int32Array | None = None
    shards: Int32Array | None = None
    unindexed: Int32Array | None = None
    left_rows: Int32Array | None = None
    rounded: tuple[Int32Array, BoolArray] | None = None


def compare_state(
    trial: Trial, run: Run, record: TrialRecord, state: ChangedIndex, rule: ReferenceRule, vectors: Vectors
) -> tuple[Parity, Run]:
    """Compare a run over all rows with the exact result over the present documents; return both.

    Args:
        trial: The backend.
        run: The engine's hits, without deleted rows.
        record: The trial's, with the engine's report of this state, over all rows, and without placement.
        state: The index at that time.
        rule: The card's reference.
        vectors: Of the whole corpus.
    """
    recipes = _Recipes(trial, run.query_ids, state, rule, vectors)
    ids, position_of = recipes.ids, recipes.position_of
    run_of_state = replace(run, doc_ids=ids, rows=position_of[run.rows])
    record = replace(
        record, lists=_placed(record.lists, position_of), remeasured=_placed(record.remeasured, position_of)
    )
    references: dict[str, Reference] = {}
    changed: dict[str, Sequence[Hypothesis]] = {}
    if rule.kind != "dense":
        name = "sparse" if rule.scoring is None else "terms"
        recipe = recipes.sparse(None)
        references[name], changed[name] = SparseReference(recipe), tuple(_causes_of_changes(recipe, recipes))
    if rule.kind in ("dense", "hybrid"):
        references["dense"] = DenseReference(recipes.dense())
    if rule.kind == "hybrid":
        parity, exact = compare_hybrid(trial, run_of_state, record, references, rule, k=record.k, hypotheses=changed)
        return parity, replace(exact, doc_ids=ids)
    ((name, reference),) = references.items()
    scored = ordered = None
    if record.compared is not None:
        compared = record.compared.of_documents(lambda documents: np.ascontiguousarray(documents[recipes.present]))
        scored, ordered = references_of_compared(reference, compared)
    suggested = causes_of_trial(
        name, reference, record, trial.parameters, (run_of_state.query_ids, run_of_state.doc_ids)
    )
    parity = compare_run(
        run_of_state,
        reference,
        k=record.k,
        tolerance=rule.tolerance,
        missing_rows=position_of[record.index.missing_rows],
        approximate=record.index.approximate,
        compared=scored,
        ordered=ordered,
        hypotheses=(*changed.get(name, ()), *suggested, *HYPOTHESES),
    )
    return parity, replace(reference.retrieve(record.k), doc_ids=ids)


def _placed(lists: Mapping[str, Hits], position_of: Int32Array) -> dict[str, Hits]:
    return {name: hits._replace(rows=position_of[hits.rows]) for name, hits in lists.items()}


@dataclass(frozen=True, eq=False)
class _Recipes:
    """Recipes of a state of a trial's index: their rows are the present documents.

    ``vectors`` are of the whole corpus.
    """

    trial: Trial
    queries: Ids
    state: ChangedIndex
    rule: ReferenceRule
    vectors: Vectors

    @cached_property
    def present(self) -> Int32Array:
        """Rows of the present documents (int32, ascending)."""
        return np.flatnonzero(self.state.content >= 0).astype(np.int32)

    @cached_property
    def ids(self) -> Ids:
        """The ids of these documents."""
        return Ids(self.state.ids.values.take(numbers(self.present)))

    @cached_property
    def position_of(self) -> Int32Array:
        """The position of every row among these documents, -1 for other rows."""
        position_of = np.full(len(self.state.content), -1, dtype=np.int32)
        position_of[self.present] = np.arange(len(self.present), dtype=np.int32)
        return position_of

    def dense(self) -> DenseRecipe:
        """Return the recipe of dense vectors."""
        if self.vectors.dense is None:
            raise AssertionError("a dense reference without dense vectors")
        return DenseRecipe(
            self.ids,
            self.queries,
            np.ascontiguousarray(self.vectors.dense.documents[self.state.content[self.present]]),
            self.vectors.dense.queries,
            cast("Similarity", self.trial.parameters["similarity"]),
            missing=np.empty(0, dtype=np.int32),
        )

    def sparse(self, leftover: Int32Array | None) -> Recipe:
        """Return the recipe of terms or sparse vectors; with ``leftover`` its statistics count these contents too."""
        state, vectors, parameters, count = self.state, self.vectors, self.trial.parameters, len(self.present)
        content, ids, order, matching = state.content[self.present], self.ids, None, None
        if state.order is not None:
            ordered = self.position_of[state.order]
            order = np.concatenate([ordered, np.setdiff1d(np.arange(count), ordered)]).astype(np.int32)
        if leftover is not None:
            matching = Matching.of_all(np.arange(count + len(leftover)) < count, len(self.queries))
            content = np.concatenate([content, leftover])
            ids = Ids.of([*ids.to_list(), *(f"\\0deleted {number}" for number in range(len(leftover)))])
            if order is not None:
                order = np.concatenate([order, np.arange(count, len(content), dtype=np.int32)])
        documents = query_vectors = None
        if vectors.sparse is not None:
            documents = vectors.sparse.documents.take(content) if vectors.sparse.documents is not None else None
            query_vectors = vectors.sparse.queries
        recipe = make_recipe(
            "sparse" if self.rule.kind == "hybrid" else self.rule.kind,
            doc_ids=ids,
            query_ids=self.queries,
            counts=vectors.terms.counts.of_documents(content) if vectors.terms is not None else None,
            documents=documents,
            queries=query_vectors,
            parameters=parameters,
            shards=self._shards(leftover),
            scoring=self.rule.scoring,
        )
        return replace(recipe, order=order, matching=matching)

    def _shards(self, leftover: Int32Array | None) -> Int32Array | None:
        """Return the shard of each present document, and of each content in ``leftover``; None for one shard."""
        state, shards = self.state, int(self.trial.parameters.get("shards", 1))
        placed = shards_of(len(state.content), shards) if state.shards is None and shards > 1 else state.shards
        if placed is None or not placed.any():
            return None
        of_left = () if leftover is None or state.left_rows is None else (placed[state.left_rows],)
        return np.concatenate([placed[self.present], *of_left])


def _causes_of_changes(recipe: Recipe, recipes: _Recipes) -> Iterator[Hypothesis]:
    """Yield the causes that changes add: deleted content that is still counted, and documents in no index yet."""
    state = recipes.state
    if recipe.shards is not None and (state.shards is None or state.left_rows is None):
        return
    stale = [recipes.sparse(leftover) for leftover in state.leftovers if len(leftover)]
    for counted in stale:
        yield from _stale(counted)
    if state.rounded is not None and len(state.rounded[0]):
        yield from _rounded(recipe, recipes.position_of[state.rounded[0]])
        for counted in stale:
            left = (len(recipe.doc_ids) + np.flatnonzero(state.rounded[1])).astype(np.int32)
            yield from _rounded(
                counted, np.concatenate([recipes.position_of[state.rounded[0]], left]), DELETED_IN_STATISTICS
            )
    if state.unindexed is not None and len(state.unindexed):
        outside = recipes.position_of[state.unindexed]
        yield from rows_outside_the_index(recipe, outside)
        for counted in stale:
            yield from rows_outside_the_index(counted, outside, DELETED_IN_STATISTICS)


def _rounded(recipe: Recipe, rows: Int32Array, beside: str = "") -> Iterator[Hypothesis]:
    """Yield the cause that avgdl counts these rows of a recipe with the lengths that the index stores for them."""
    if not isinstance(recipe.formula, Bm25Formula) or recipe.counts is None:
        return
    lengths = recipe.counts.field_lengths().copy()
    lengths[rows] = decoded_lengths()[byte_lengths(lengths[rows])]
    formula = replace(recipe.formula, total_lengths=tuple(lengths.sum(axis=0).tolist()))
    changed = SparseReference(with_formula(recipe, recipe.counts, formula))
    name = f"{ROUNDED_IN_THE_MEAN}, {beside}" if beside else ROUNDED_IN_THE_MEAN
    meaning = "avgdl counts documents of merged segments with the lengths that are stored, rounded down to a byte"
    yield Hypothesis(name, meaning, rescored_by(changed))


def _stale(recipe: Recipe) -> Iterator[Hypothesis]:
    """Yield the causes that a recipe with deleted content gives the statistics, and that its IDF is rounded too."""
    meaning = "N, df and avgdl count documents that are deleted and whose segments are not merged or cleaned yet"
    yield Hypothesis(DELETED_IN_STATISTICS, meaning, rescored_by(SparseReference(recipe)))
    if recipe.mode == "textbook" and recipe.idf == "bm25":
        idf = idf_by_shard(recipe, lambda containing, documents: qdrant_idf(documents, containing))
        rounded = SparseReference(replace(recipe, idf=idf))
        name = f"{DELETED_IN_STATISTICS}, float32 IDF"
        yield Hypothesis(name, f"{meaning}, and every step of the IDF is rounded to float32", rescored_by(rounded))
