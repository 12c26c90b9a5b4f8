"""References of an index that was changed: the exact result over the documents that are there, and what is left over.

A document is a row of the workload and holds the content of some row of the corpus. The reference of a state has one
row for each document that is there; its statistics (N, df and avgdl of a BM25) are theirs. The cause that changes add
to the others is a reference whose statistics count deleted content as well: its rows come after those of the documents,
and a search never returns them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, cast

import numpy as np

from harness.data.arrow import numbers
from harness.data.types import Ids, Int32Array, Run, Similarity
from harness.engines.interface import Hits
from harness.exact.qdrant_model import qdrant_idf
from harness.exact.qdrant_shards import shards_of
from harness.parity.causes import HYPOTHESES, Hypothesis
from harness.parity.fused_lists import compare_hybrid
from harness.parity.levels import Parity
from harness.parity.recipes import DenseRecipe, Recipe, idf_by_shard, make_recipe
from harness.parity.references import DenseReference, Reference, SparseReference, references_of_compared
from harness.parity.run_comparison import compare_run
from harness.parity.trial_causes import causes_of_trial, rescored_by, rows_outside_the_index
from harness.plan.plan import Trial
from harness.registry.cards import ReferenceRule
from harness.registry.parameters import ParameterValue
from harness.worker.jobs import TrialRecord
from harness.worker.vectors import Vectors

DELETED_IN_STATISTICS = "deleted documents in the statistics"
"""The cause where N, df and avgdl count documents that are deleted and not yet merged or cleaned away."""


@dataclass(frozen=True, eq=False, slots=True)
class ChangedIndex:
    """A state of an index that is changed.

    Attributes:
        ids: Ids of all rows, of those deleted too.
        content: int32 (n,), the corpus row that each row holds; -1 for none.
        leftovers: Contents (int32, corpus rows) that statistics may still count; the engine's own account, or else
            guesses, the likeliest first.
        order: Rows in the order in which equal scores come, None for that of the rows.
        shards: int32 (n,), the shard of each row where the engine says it, else that of Qdrant where there are several.
        unindexed: Rows (int32) of documents that are there and in no index.
        left_rows: Rows (int32) of the only ``leftovers``, where the engine tells: they are in the shards of these.
    """

    ids: Ids
    content: Int32Array
    leftovers: tuple[Int32Array, ...] = ()
    order: Int32Array | None = None
    shards: Int32Array | None = None
    unindexed: Int32Array | None = None
    left_rows: Int32Array | None = None

    @property
    def present(self) -> Int32Array:
        """Rows of documents that are there (int32, ascending)."""
        return np.flatnonzero(self.content >= 0).astype(np.int32)


def compare_state(
    trial: Trial, run: Run, record: TrialRecord, state: ChangedIndex, rule: ReferenceRule, vectors: Vectors
) -> tuple[Parity, Run]:
    """Compare a run over all rows with the exact result over the documents that are there; return both.

    Args:
        trial: The backend.
        run: The engine's hits, none of a row that is deleted.
        record: The trial's, with what the engine says in this state, over all rows, and no placement.
        state: The index at that time.
        rule: The card's reference.
        vectors: Those of the whole corpus.
    """
    numbered = _numbered(state)
    present, ids, place = numbered
    own = replace(run, doc_ids=ids, rows=place[run.rows])
    record = replace(record, lists=_placed(record.lists, place), remeasured=_placed(record.remeasured, place))
    references: dict[str, Reference] = {}
    changed: dict[str, Sequence[Hypothesis]] = {}
    if rule.kind != "dense":
        name = "sparse" if rule.scoring is None else "terms"
        references[name], changed[name] = _with_hypotheses(
            numbered, run.query_ids, rule, vectors, trial.parameters, state
        )
    if rule.kind in ("dense", "hybrid"):
        content = state.content[present]
        references["dense"] = DenseReference(_dense(ids, run.query_ids, vectors, trial.parameters, content))
    if rule.kind == "hybrid":
        parity, exact = compare_hybrid(trial, own, record, references, rule, k=record.k, hypotheses=changed)
        return parity, replace(exact, doc_ids=ids)
    ((name, reference),) = references.items()
    compared = record.compared
    if compared is not None:
        compared = compared.of_documents(lambda documents: np.ascontiguousarray(documents[present]))
    scored, ordered = references_of_compared(reference, compared)
    axes = own.query_ids, own.doc_ids
    suggested = causes_of_trial(name, reference, record, trial.parameters, axes)
    parity = compare_run(
        own,
        reference,
        k=record.k,
        tolerance=rule.tolerance,
        missing_rows=place[record.index.missing_rows],
        approximate=record.index.approximate,
        compared=scored,
        ordered=ordered,
        hypotheses=(*changed.get(name, ()), *suggested, *HYPOTHESES),
    )
    return parity, replace(reference.retrieve(record.k), doc_ids=ids)


def _placed(lists: Mapping[str, Hits], place: Int32Array) -> dict[str, Hits]:
    return {name: hits._replace(rows=place[hits.rows]) for name, hits in lists.items()}


class _Numbered(NamedTuple):
    """Rows of documents that are there, their ids, and the place among them of every row, -1 for the others."""

    present: Int32Array
    ids: Ids
    place: Int32Array


def _numbered(state: ChangedIndex) -> _Numbered:
    present = state.present
    place = np.full(len(state.content), -1, dtype=np.int32)
    place[present] = np.arange(len(present), dtype=np.int32)
    return _Numbered(present, Ids(state.ids.values.take(numbers(present))), place)


def _with_hypotheses(
    numbered: _Numbered,
    queries: Ids,
    rule: ReferenceRule,
    vectors: Vectors,
    parameters: Mapping[str, ParameterValue],
    state: ChangedIndex,
) -> tuple[SparseReference, tuple[Hypothesis, ...]]:
    """Return the exact result of terms or sparse vectors, and the causes to try: those of changes first."""
    recipe_of = partial(_sparse, numbered, queries, rule, vectors, parameters, state)
    recipe = recipe_of(None)
    reference = SparseReference(recipe)
    if recipe.shards is not None and (state.shards is None or state.left_rows is None):
        return reference, ()
    stale = [recipe_of(leftover) for leftover in state.leftovers if len(leftover)]
    changed = [cause for recipe in stale for cause in _stale(recipe)]
    if state.unindexed is not None and len(state.unindexed):
        outside = numbered.place[state.unindexed]
        changed += rows_outside_the_index(recipe, outside)
        changed += [
            cause for recipe in stale for cause in rows_outside_the_index(recipe, outside, DELETED_IN_STATISTICS)
        ]
    return reference, tuple(changed)


def _stale(recipe: Recipe) -> Iterator[Hypothesis]:
    """Yield the causes that statistics are those of a recipe with deleted content, and that its IDF is rounded too."""
    meaning = "N, df and avgdl count documents that are deleted and whose segments are not merged or cleaned yet"
    yield Hypothesis(DELETED_IN_STATISTICS, meaning, rescored_by(SparseReference(recipe)))
    if recipe.mode == "textbook" and recipe.idf == "bm25":
        idf = idf_by_shard(recipe, lambda containing, documents: qdrant_idf(documents, containing))
        rounded = SparseReference(replace(recipe, idf=idf))
        name = f"{DELETED_IN_STATISTICS}, float32 IDF"
        yield Hypothesis(name, f"{meaning}, and every step of the IDF is rounded to float32", rescored_by(rounded))


def _dense(
    ids: Ids, queries: Ids, vectors: Vectors, parameters: Mapping[str, ParameterValue], content: Int32Array
) -> DenseRecipe:
    if vectors.dense is None:
        raise AssertionError("a dense reference without dense vectors")
    return DenseRecipe(
        ids,
        queries,
        np.ascontiguousarray(vectors.dense.documents[content]),
        vectors.dense.queries,
        cast("Similarity", parameters["similarity"]),
        missing=np.empty(0, dtype=np.int32),
    )


def _sparse(
    numbered: _Numbered,
    queries: Ids,
    rule: ReferenceRule,
    vectors: Vectors,
    parameters: Mapping[str, ParameterValue],
    state: ChangedIndex,
    leftover: Int32Array | None,
) -> Recipe:
    """Return the recipe of a state; with ``leftover`` its statistics count these contents too."""
    present, ids, place = numbered
    content = state.content[present]
    matching = order = None
    if state.order is not None:
        listed = place[state.order]
        order = np.concatenate([listed, np.setdiff1d(np.arange(len(present)), listed)]).astype(np.int32)
    if leftover is not None:
        matching = np.arange(len(present) + len(leftover)) < len(present)
        content = np.concatenate([content, leftover])
        names = [f"\\0deleted {number}" for number in range(len(leftover))]
        ids = Ids.of([*ids.to_list(), *names])
        if order is not None:
            order = np.concatenate([order, np.arange(len(present), len(content), dtype=np.int32)])
    counts = vectors.terms.counts.of_documents(content) if vectors.terms is not None else None
    documents = query_vectors = None
    if vectors.sparse is not None:
        documents = vectors.sparse.documents.take(content) if vectors.sparse.documents is not None else None
        query_vectors = vectors.sparse.queries
    placed, shards = state.shards, int(parameters.get("shards", 1))
    if placed is None and shards > 1:
        placed = shards_of(len(state.content), shards)
    recipe = make_recipe(
        "sparse" if rule.kind == "hybrid" else rule.kind,
        doc_ids=ids,
        query_ids=queries,
        counts=counts,
        documents=documents,
        queries=query_vectors,
        parameters=parameters,
        shards=_shards(state, placed, leftover) if placed is not None and placed.any() else None,
        scoring=rule.scoring,
    )
    return replace(recipe, order=order, matching=matching)


def _shards(state: ChangedIndex, placed: Int32Array, leftover: Int32Array | None) -> Int32Array:
    """Return the shard of each document that is there, and of each content in ``leftover``."""
    shards = placed[state.present]
    return shards if leftover is None or state.left_rows is None else np.concatenate([shards, placed[state.left_rows]])
