"""Explanations of the hits that a page shows: every backend's, for all queries at once, stored with the result.

They are made of the same parts as those of :func:`harness.explain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers, numbers_or_null, strings, take_or_null
from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.shown_hits import SHOWN_HITS
from harness.data.types import Float64Array, Int32Array, Int64Array, Qrels, Run, owners
from harness.parity.contributions import collection_of, stored_lengths, term_names, terms_of_queries
from harness.parity.outcome_parity import OutcomeParity
from harness.parity.recipes import DenseRecipe, Recipe
from harness.parity.references import DenseReference, Reference, SparseReference
from harness.pipeline.vectors_and_lists import (
    RankedList,
    compared_reference,
    engine_lists,
    fused_lists,
    hits_of,
    terms_of_columns,
    vector_scores,
)
from harness.plan.plan import Plan
from harness.results.explanation import Kind
from harness.results.hit_rules import HitRules
from harness.results.pools import pools_of, ranks_of_keys, top_of
from harness.results.stored import EXPLANATION_SCHEMA
from harness.store.cache import Cache
from harness.worker.jobs import TrialRecord
from harness.worker.outcome import Outcome

MOST = 50_000
"""Documents, of all backends and queries together, that a result explains."""
MISSED = "missed by the index"
NO_STAGE = "not among the candidates of the second stage"
_NONE = np.zeros(0, dtype=np.int64)
_ABSENCES = (
    "not in the index",
    "it has no text",
    "lost: the engine does not hold it",
    "left out by the filter",
    "not among the query's candidates",
    "left out by a rule of the dataset",
    "no hit: it has none of the query's terms",
)


def absences(
    recipe: Recipe | DenseRecipe,
    record: TrialRecord | None,
    empty: Int32Array,
    queries: Int64Array,
    rows: Int32Array,
    ranked: BoolArray,
    left_out: BoolArray,
) -> list[str]:
    """Return why documents cannot be hits, empty for those that can.

    Args:
        recipe: That of the backend's reference.
        record: The backend's record.
        empty: Rows of the corpus without a text.
        queries: The rows of the documents' queries (P,).
        rows: The documents' rows in the reference (P,), -1 for a document that it lacks.
        ranked: Which documents the reference ranks, bool (P,).
        left_out: Which of them the dataset's rules leave out, bool (P,).
    """
    indexed = record is not None and record.external is None
    missing = record.index.missing_rows if record is not None and indexed else ()
    always = np.ones(len(rows), dtype=np.bool_)
    matches = recipe.matching.of_hits(queries, rows) if recipe.matching is not None else always
    competes = always
    if recipe.candidates is not None:
        width, among = len(recipe.doc_ids), recipe.candidates
        competes = np.isin(queries * width + rows, owners(among.indptr) * width + among.rows)
    reasons = [
        rows < 0,
        np.isin(rows, empty) & (~ranked | left_out) & indexed,
        np.isin(rows, missing),
        ~matches,
        ~competes,
        left_out,
        ~ranked,
    ]
    absence: list[str] = np.select(reasons, _ABSENCES, default="").tolist()
    return absence


_Columns = dict[str, npt.NDArray[Any]]
"""Values of documents or of parts by column, NaN for none."""


class _Parts(NamedTuple):
    """Parts of explanations: ``pairs`` int64 (N,) are their documents, ``names`` int64 (N,) into ``vocabulary``."""

    pairs: Int64Array
    names: npt.NDArray[np.integer[Any]]
    vocabulary: pa.Array
    columns: _Columns


class _Explanation(NamedTuple):
    """Explanations of a backend: ``columns`` and ``notes`` are of documents."""

    kind: Kind
    columns: _Columns
    notes: Sequence[str]
    parts: _Parts


class HitExplainer:
    """Explains the first hits of every backend, and expected documents, in all backends.

    Queries on which the backends' first hits differ most come first if there are more than ``MOST`` documents.
    """

    def __init__(self, outcomes: Sequence[Outcome], plan: Plan, dataset: Dataset, qrels: Qrels | None) -> None:
        self.dataset, self.rules = dataset, HitRules.of(dataset)
        self._k = self.rules.deepened(plan).request.k
        self._of_reference: WeakKeyDictionary[SparseReference, tuple[_Columns, _Parts]] = WeakKeyDictionary()
        """Explanations by each reference that several backends may share, as long as it lives."""
        self._outcomes = {outcome.trial.label: outcome for outcome in outcomes}
        runs = {
            label: self.rules.filter_hits(outcome.run, plan.request.k if outcome.trial.spec.kind != "run" else None)
            for label, outcome in self._outcomes.items()
            if outcome.run is not None
        }
        query_ids, relevance = dataset.queries.ids, plan.request.relevance
        top = top_of(list(runs.values()), query_ids, qrels, relevance)
        pools = pools_of(top, list(runs.values()), query_ids, qrels, relevance)
        visible, owner = pools.visible, pools.owners
        counts = np.bincount(owner[visible], minlength=len(query_ids))
        order = np.argsort(-counts, kind="stable")
        explained = np.zeros(len(query_ids), dtype=np.bool_)
        explained[order[np.cumsum(counts[order]) * len(runs) <= MOST]] = True
        chosen = np.flatnonzero(visible & explained[owner])
        self.doc_ids, self.owner, self.docs = top.ids, owner[chosen], pools.docs[chosen]
        self.runs = dict(zip(runs, zip(runs.values(), pools.ranks[:, chosen], strict=True), strict=True))

    @cached_property
    def _keys(self) -> tuple[Int64Array, Int64Array, int]:
        width = max(len(self.doc_ids), 1)
        keys = self.owner * width + self.docs
        order = np.argsort(keys)
        return keys[order], order, width

    @cached_property
    def _left_out(self) -> BoolArray:
        """Which documents the rules of the dataset leave out, bool (P,)."""
        scores = np.arange(len(self.docs), dtype=np.float32)
        run = Run(self.dataset.queries.ids, self.doc_ids, self._indptr(self.owner), self.docs.astype(np.int32), scores)
        counting = self.rules.filter_hits(run, None)
        return ~np.isin(np.arange(len(self.docs)), counting.scores)

    def _indptr(self, owner: Int64Array) -> Int64Array:
        return np.searchsorted(owner, np.arange(len(self.dataset.queries.ids) + 1))

    def _ranked(self, run: Run, ranks: Int32Array | None = None) -> tuple[Float64Array, Float64Array]:
        """Return ranks and scores of all documents in a run, NaN for documents that it lacks."""
        if ranks is None:
            keys, order, width = self._keys
            ranks = np.zeros(len(order), dtype=np.int32)
            ranks[order] = ranks_of_keys(run, self.dataset.queries.ids, self.doc_ids, keys, width)
        hits = np.flatnonzero(ranks)
        rows = run.query_ids.rows_of(self.dataset.queries.ids)[self.owner[hits]]
        scores = np.full(len(ranks), np.nan)
        scores[hits] = run.scores[run.indptr[rows] + ranks[hits] - 1]
        return np.where(ranks > 0, ranks, np.nan), scores

    def explain(
        self, outcome: Outcome, references: Mapping[str, Reference], parity: OutcomeParity | None
    ) -> pa.Table | None:
        """Return the explanations of one backend; None for one that has nothing to explain.

        ``references`` are the backend's, and ``parity`` is its comparison with them.
        """
        label, reference = outcome.trial.label, next(iter(references.values()), None)
        if label not in self.runs:
            return None
        if outcome.trial.spec.kind == "rerank":
            explained = self._second_stage(outcome)
        elif outcome.trial.spec.kind == "fusion" or len(references) > 1:
            explained = self._fusion(outcome, parity.exact if parity is not None else None)
        elif isinstance(reference, SparseReference):
            explained = self._terms(outcome, reference)
        elif isinstance(reference, DenseReference):
            explained = self._vectors(outcome, reference)
        else:
            return None
        rank, score = self._ranked(*self.runs[label])
        return self._table(label, explained._replace(columns={"rank": rank, "score": score, **explained.columns}))

    def _rows(self, reference: SparseReference | DenseReference) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Return the documents' rows in a reference, -1 if it lacks them; the documents that it has; each query's."""
        rows = reference.recipe.doc_ids.rows_of(self.doc_ids)[self.docs]
        present = np.flatnonzero(rows >= 0)
        return rows, present, self._indptr(self.owner[present])

    def _terms(self, outcome: Outcome, reference: SparseReference) -> _Explanation:
        """Explain a backend whose reference is sparse."""
        recipe, (rows, present, indptr) = reference.recipe, self._rows(reference)
        if reference not in self._of_reference:
            terms = terms_of_columns(outcome.trial, Cache()) if recipe.counts is None else {}
            self._of_reference[reference] = self._contributions(reference, rows, present, indptr, terms)
        columns, parts = self._of_reference[reference]
        notes = self._notes(outcome, recipe, rows, columns["exact_score"] != 0)
        return _Explanation("terms", columns, notes, parts)

    def _contributions(
        self,
        reference: SparseReference,
        rows: Int32Array,
        present: Int64Array,
        indptr: Int64Array,
        term_of: Mapping[int, str],
    ) -> tuple[_Columns, _Parts]:
        """Return what a sparse reference computes; arguments as :meth:`_rows` and ``terms_of_columns`` return them."""
        recipe = reference.recipe
        length, stored = (np.full(len(rows), np.nan) for _ in range(2))
        if recipe.counts is not None:
            length[present] = recipe.counts.lengths[rows[present]]
            stored_length = stored_lengths(recipe, rows[present])
            stored[present] = length[present] if stored_length is None else stored_length
        exact, of_all = (np.full(len(rows), np.nan) for _ in range(2))
        pairs, columns, of_parts = [], [], []
        for start, scores in zip(
            indptr.tolist(), terms_of_queries(reference, indptr, rows[present].astype(np.int32)), strict=False
        ):
            of_query = present[start : start + len(scores.scores)]
            exact[of_query], of_all[of_query] = scores.scores, scores.of_all or np.nan
            documents, terms = np.nonzero(scores.values.T)
            pairs.append(of_query[documents])
            columns.append(scores.columns[terms])
            of_parts.append(
                np.stack(
                    [scores.weights[terms], scores.values[terms, documents], scores.contributions[terms, documents]]
                )
            )
        pair, column = np.concatenate([*pairs, _NONE]), np.concatenate([*columns, _NONE])
        weight, tf, contribution = np.concatenate([*of_parts, np.zeros((3, 0))], axis=1)
        distinct, names = np.unique(column, return_inverse=True)
        parts = _Parts(
            pair,
            names,
            strings(term_names(recipe, distinct.astype(np.int32), term_of)),
            {
                "weight": weight,
                "tf": tf,
                "contribution": contribution,
                **self._statistics(recipe, rows[pair], column),
            },
        )
        columns_of_documents: _Columns = {
            "exact_rank": self._exact_ranks(reference)[0],
            "exact_score": exact,
            "length": length,
            "stored_length": stored,
            "of_all_documents": of_all,
        }
        return columns_of_documents, parts

    def _statistics(self, recipe: Recipe, rows: Int32Array, columns: Int64Array) -> _Columns:
        """Return df, N and IDF of terms, each in its document's shard."""
        df, documents, idf = (np.full(len(rows), np.nan) for _ in range(3))
        shards = recipe.shards[rows] if recipe.shards is not None else np.zeros(len(rows), dtype=np.int32)
        for shard in np.unique(shards).tolist():
            of_shard = np.flatnonzero(shards == shard)
            collection, terms = collection_of(recipe, shard), columns[of_shard]
            df[of_shard], documents[of_shard] = collection.df[terms], collection.documents[terms]
            if collection.idf is not None:
                idf[of_shard] = collection.idf[terms]
        return {"df": df, "documents": documents, "idf": idf}

    def _exact_ranks(self, reference: SparseReference | DenseReference) -> tuple[Float64Array, Run]:
        """Return the documents' ranks among the first hits of a reference, which are returned too."""
        exact = self.rules.filter_hits(reference.retrieve(self._k), None)
        return self._ranked(exact)[0], exact

    def _notes(self, outcome: Outcome, recipe: Recipe | DenseRecipe, rows: Int32Array, ranked: BoolArray) -> list[str]:
        empty = self.dataset.corpus.empty_rows
        return absences(recipe, outcome.record, empty, self.owner, rows, ranked, self._left_out)

    def _vectors(self, outcome: Outcome, reference: DenseReference) -> _Explanation:
        """Explain a backend of dense vectors."""
        rows, present, indptr = self._rows(reference)
        exact_rank, exact_run = self._exact_ranks(reference)
        compared, run = compared_reference(outcome, reference), self.runs[outcome.trial.label][0]
        exact, norm, quantised = (np.full(len(rows), np.nan) for _ in range(3))
        notes = self._notes(outcome, reference.recipe, rows, np.ones(len(rows), dtype=np.bool_))
        pairs, instead = list[int](), list[str]()
        exact[present] = reference.score(self._pool_run(reference, indptr, rows[present]))
        for query, (start, stop) in enumerate(pairwise(indptr.tolist())):
            if start == stop:
                continue
            of_query, name = present[start:stop], self.dataset.queries.ids[query]
            ranks = {document: hit.rank for document, hit in hits_of(exact_run, name).items()}
            scores = vector_scores(
                reference, compared, query, rows[of_query], hits_of(run, name), ranks, neighbours=False
            )
            for pair, score in zip(of_query.tolist(), scores, strict=True):
                norm[pair] = score.norm
                quantised[pair] = np.nan if score.quantised is None else score.quantised
                if score.missed:
                    notes[pair] = MISSED
                    names = score.instead[:SHOWN_HITS]
                    pairs += [pair] * len(names)
                    instead += names
        parts = _Parts(np.array(pairs, dtype=np.int64), np.arange(len(pairs)), strings(instead), {})
        columns: _Columns = {"exact_rank": exact_rank, "exact_score": exact, "norm": norm, "quantised": quantised}
        return _Explanation("vectors", columns, notes, parts)

    def _pool_run(self, reference: DenseReference, indptr: Int64Array, rows: Int32Array) -> Run:
        scores = np.zeros(len(rows), dtype=np.float32)
        return Run(reference.recipe.query_ids, reference.recipe.doc_ids, indptr, rows, scores)

    def _fusion(self, outcome: Outcome, exact: Run | None) -> _Explanation:
        """Explain a fusion: of other backends' lists, or of the lists that its engine makes."""
        runs = self._parts_of(outcome)
        lists = fused_lists(outcome.trial.spec, runs) if runs else engine_lists(outcome)
        columns: _Columns = {}
        if exact is not None:
            columns["exact_rank"], columns["exact_score"] = self._ranked(self.rules.filter_hits(exact, None))
        return _Explanation("fusion", columns, [""] * len(self.docs), self._list_parts(lists))

    def _second_stage(self, outcome: Outcome) -> _Explanation:
        """Explain a second stage: the rank before it, and whether the document was among its candidates."""
        parts = self._list_parts([RankedList(label, run) for label, run in self._parts_of(outcome).items()])
        reranked = outcome.combined.reranked if outcome.combined is not None else None
        scored = self.runs[outcome.trial.label][1] > 0
        if reranked is not None and reranked.pairs is not None:
            rows, width = self.dataset.corpus.ids.rows_of(self.doc_ids)[self.docs], len(self.dataset.corpus)
            keys = np.asarray(reranked.pairs.queries, dtype=np.int64) * width + reranked.pairs.documents
            scored = np.isin(self.owner * width + rows, keys)
        return _Explanation("second stage", {}, ["" if one else NO_STAGE for one in scored.tolist()], parts)

    def _parts_of(self, outcome: Outcome) -> dict[str, Run]:
        """Return the hits of the backends that a fusion or a second stage takes, by label."""
        labels = outcome.combined.of if outcome.combined is not None else ()
        return {label: run for label in labels if (run := self._outcomes[label].run) is not None}

    def _list_parts(self, lists: Sequence[RankedList]) -> _Parts:
        """Return each document's rank, score and contribution in each list, NaN if the list lacks it."""
        columns: dict[str, list[Float64Array]] = {"list_rank": [], "list_score": [], "contribution": []}
        for part in lists:
            rank, score = self._ranked(part.run)
            shares = (
                part.weight * self._ranked(part.shares)[1] if part.shares is not None else np.full(len(rank), np.nan)
            )
            for values, of_list in zip(columns.values(), (rank, score, shares), strict=True):
                values.append(of_list)
        count = len(self.docs)
        return _Parts(
            np.tile(np.arange(count), len(lists)),
            np.repeat(np.arange(len(lists)), count),
            strings(part.name for part in lists),
            {name: np.concatenate([*values, _NONE]) for name, values in columns.items()},
        )

    def _table(self, label: str, explained: _Explanation) -> pa.Table:
        """Return a row for each document and part, and one for a document without parts."""
        kind, columns, notes, parts = explained
        bare = np.setdiff1d(np.arange(len(self.docs)), parts.pairs)
        pairs = np.concatenate([parts.pairs, bare])
        order = np.argsort(pairs, kind="stable")
        pairs, part = pairs[order], np.where(order < len(parts.pairs), order, -1)
        names = np.concatenate([parts.names, np.full(len(bare), -1)])[order]
        texts = {
            "dataset": strings([self.dataset.name]).take(numbers(np.zeros_like(pairs))),
            "backend": strings([label]).take(numbers(np.zeros_like(pairs))),
            "query_id": self.dataset.queries.ids.values.take(numbers(self.owner[pairs])),
            "doc_id": self.doc_ids.values.take(numbers(self.docs[pairs])),
            "kind": strings([kind]).take(numbers(np.zeros_like(pairs))),
            "note": strings(note or None for note in notes).take(numbers(pairs)),
            "part": take_or_null(parts.vocabulary, names)
            if len(parts.vocabulary)
            else pa.nulls(len(pairs), pa.string()),
        }
        values = {name: column[pairs] for name, column in columns.items()}
        values |= {name: np.append(column, np.nan)[part] for name, column in parts.columns.items()}
        arrays = []
        for field in EXPLANATION_SCHEMA:
            if field.name in texts:
                arrays.append(texts[field.name])
            elif field.name in values:
                arrays.append(numbers_or_null(values[field.name].astype(np.float64)).cast(field.type))
            else:
                arrays.append(pa.nulls(len(pairs), field.type))
        return pa.Table.from_arrays(arrays, schema=EXPLANATION_SCHEMA)
