"""Explanations of documents: of the hits that a page shows, for all queries at once, and of those of one query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers, numbers_or_null, strings, take_or_null
from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.ranking import cut
from harness.data.shown_hits import SHOWN_HITS
from harness.data.types import Float64Array, Ids, Int32Array, Int64Array, Qrels, Run, owners
from harness.exact.dense import vector_lengths
from harness.parity.contributions import collection_of, score_rows, stored_lengths, term_names, terms_of_queries
from harness.parity.outcome_parity import OutcomeParity
from harness.parity.recipes import Recipe
from harness.parity.references import DenseReference, Reference, SparseReference
from harness.pipeline.vectors_and_lists import (
    RankedList,
    compared_reference,
    engine_lists,
    fused_lists,
    hits_of,
    terms_of_columns,
)
from harness.plan.plan import Plan
from harness.results.explanation import DocumentScore, Kind, ListScore, TermContribution, VectorScore
from harness.results.hit_rules import HitRules
from harness.results.pools import pools_of, ranks_of_keys, top_of
from harness.results.stored import EXPLANATION_SCHEMA
from harness.store.cache import Cache
from harness.worker.outcome import Outcome
from harness.worker.second_stages import fuse_runs

MOST = 50_000
"""Documents, of all backends and queries together, that a result explains."""
MISSED = "missed by the index"
_NO_STAGE = "not among the candidates of the second stage"
_NONE = np.zeros(0, dtype=np.int64)
_ABSENCES = (
    "not in the index",
    "it has no text",
    "left out by the filter",
    "not among the query's candidates",
    "left out by a rule of the dataset",
    "no hit: it has none of the query's terms",
)
"""Why a document cannot be a hit; the first that applies is given."""
_OF_LISTS = ("list_rank", "list_score", "contribution")
_INTEGERS = frozenset({"rank", "exact_rank", "length", "stored_length", "df", "documents", "list_rank"})
AnyReference = TypeVar("AnyReference", bound=Reference)
_Columns = dict[str, npt.NDArray[Any]]
"""Values of documents or of parts by column, NaN for none."""


class _Parts(NamedTuple):
    """Parts of explanations: ``pairs`` int64 (N,) are their documents, ``names`` int64 (N,) into ``vocabulary``."""

    pairs: Int64Array
    names: npt.NDArray[np.integer[Any]]
    vocabulary: pa.Array
    columns: _Columns


class HitExplanations(NamedTuple):
    """Explanations of a backend: ``columns`` are of documents, ``absences`` say why they cannot be hits."""

    kind: Kind
    columns: _Columns
    absences: Sequence[str]
    parts: _Parts

    def documents(self, names: Sequence[str]) -> Iterator[DocumentScore]:
        """Yield the explanation of each document; the words behind its terms are not known."""
        columns = {name: _values_or_none(name, values) for name, values in self.columns.items()}
        of_parts = {name: _values_or_none(name, values) for name, values in self.parts.columns.items()}
        parts_of: dict[int, list[tuple[str, dict[str, Any]]]] = {}
        part_names = self.parts.vocabulary.take(numbers(self.parts.names)).to_pylist()
        for part, (pair, name) in enumerate(zip(self.parts.pairs.tolist(), part_names, strict=True)):
            parts_of.setdefault(pair, []).append((name, {column: values[part] for column, values in of_parts.items()}))
        for position, (document, absence) in enumerate(zip(names, self.absences, strict=True)):
            value, parts = {name: values[position] for name, values in columns.items()}, parts_of.get(position, ())
            vector: VectorScore | None = None
            terms: tuple[TermContribution, ...] = ()
            lists: tuple[ListScore, ...] = ()
            if self.kind == "terms":
                terms = tuple(TermContribution(name, (), **values) for name, values in parts)
            elif self.kind != "vectors":
                lists = tuple(ListScore(name, *(values[column] for column in _OF_LISTS)) for name, values in parts)
            elif value["norm"] is not None:
                instead = tuple(name for name, _ in parts)
                vector = VectorScore(value["norm"], bool(value["missed"]), instead, value["quantised"])
            yield DocumentScore(
                document,
                rank=value["rank"],
                score=value["score"],
                exact_rank=value.get("exact_rank"),
                exact_score=value.get("exact_score"),
                absence=absence,
                length=value.get("length"),
                stored_length=value.get("stored_length"),
                of_all_documents=value.get("of_all_documents") or 0.0,
                terms=terms,
                vector=vector,
                lists=lists,
            )


def _values_or_none(name: str, values: npt.NDArray[Any]) -> list[Any]:
    """Return the values of a column, None for NaN."""
    kind = int if name in _INTEGERS else float
    return [None if value != value else kind(value) for value in values.tolist()]


class HitExplainer:
    """Explains documents of queries in every backend: ``docs`` int64 (P,) into ``doc_ids`` of queries ``owner`` (P,).

    ``runs`` are the hits by label, with the ranks of the documents if they are known. ``complete`` explanations have
    exact ranks at any depth, and the terms of the query that a document lacks.
    """

    def __init__(
        self,
        outcomes: Sequence[Outcome],
        plan: Plan,
        dataset: Dataset,
        runs: Mapping[str, tuple[Run, Int32Array | None]],
        doc_ids: Ids,
        owner: Int64Array,
        docs: Int64Array,
        *,
        complete: bool = False,
    ) -> None:
        self._dataset, self._rules, self._complete = dataset, HitRules.of(dataset), complete
        self._k = self._rules.deepened(plan).request.k
        self._outcomes = {outcome.trial.label: outcome for outcome in outcomes}
        self._runs, self.doc_ids, self.docs = runs, doc_ids, docs
        self._rows_of_queries = np.unique(owner) if len(owner) else np.arange(len(dataset.queries.ids))
        self._owner: Int64Array = np.searchsorted(self._rows_of_queries, owner)
        ids = dataset.queries.ids
        self._all_queries = len(self._rows_of_queries) == len(ids)
        self._query_ids = ids if self._all_queries else Ids(ids.values.take(numbers(self._rows_of_queries)))
        self._of_reference: WeakKeyDictionary[Reference, tuple[_Columns, _Parts]] = WeakKeyDictionary()
        """Explanations by each reference that several backends may share, as long as it lives."""
        self._fused = {label for outcome in outcomes if outcome.combined is not None for label in outcome.combined.of}
        self._exact: dict[str, Run] = {}
        """Exact hits of backends that others are made of."""
        self._absences: dict[str, list[list[str]]] = {}
        """Why documents cannot be hits, by each reference of a backend."""

    @classmethod
    def of_page(cls, outcomes: Sequence[Outcome], plan: Plan, dataset: Dataset, qrels: Qrels | None) -> HitExplainer:
        """Return the explainer of the first hits of every backend, and of expected documents, in all backends.

        Queries on which the backends' first hits differ most come first if there are more than ``MOST`` documents; a
        query that does not fit is left out.
        """
        rules, k = HitRules.of(dataset), plan.request.k
        runs = {
            outcome.trial.label: rules.filter_hits(outcome.run, k if outcome.trial.spec.kind != "run" else None)
            for outcome in outcomes
            if outcome.run is not None
        }
        query_ids, relevance = dataset.queries.ids, plan.request.relevance
        top = top_of(list(runs.values()), query_ids, qrels, relevance)
        pools = pools_of(top, list(runs.values()), query_ids, qrels, relevance)
        visible, owner = pools.visible, pools.owners
        counts = np.bincount(owner[visible], minlength=len(query_ids)) * len(runs)
        explained, room = np.zeros(len(query_ids), dtype=np.bool_), MOST
        for query in np.argsort(-counts, kind="stable").tolist():
            explained[query] = counts[query] <= room
            room -= int(counts[query]) if explained[query] else 0
        chosen = np.flatnonzero(visible & explained[owner])
        ranked = dict(zip(runs, zip(runs.values(), pools.ranks[:, chosen], strict=True), strict=True))
        return cls(outcomes, plan, dataset, ranked, top.ids, owner[chosen], pools.docs[chosen])

    @cached_property
    def _keys(self) -> tuple[Int64Array, Int64Array, int]:
        width = max(len(self.doc_ids), 1)
        keys = self._owner * width + self.docs
        order = np.argsort(keys)
        return keys[order], order, width

    @cached_property
    def _left_out(self) -> BoolArray:
        """Which documents the rules of the dataset leave out, bool (P,)."""
        order = np.arange(len(self.docs), dtype=np.float32)
        run = Run(self._query_ids, self.doc_ids, self._indptr(self._owner), self.docs.astype(np.int32), order)
        return ~np.isin(order, self._rules.filter_hits(run, None).scores)

    def _indptr(self, owner: Int64Array) -> Int64Array:
        return np.searchsorted(owner, np.arange(len(self._query_ids) + 1))

    def _select_explained(self, run: Run) -> Run:
        """Return the run of the explained queries."""
        if self._all_queries:
            return run
        rows = run.query_ids.rows_of(self._query_ids)
        return run.of_queries(rows[rows >= 0])

    def _ranked(self, run: Run, ranks: Int32Array | None = None) -> tuple[Float64Array, Float64Array]:
        """Return ranks and scores of all documents in a run, NaN for documents that it lacks."""
        if ranks is None:
            keys, order, width = self._keys
            ranks = np.zeros(len(order), dtype=np.int32)
            ranks[order] = ranks_of_keys(run, self._query_ids, self.doc_ids, keys, width)
        hits = np.flatnonzero(ranks)
        rows = run.query_ids.rows_of(self._query_ids)[self._owner[hits]]
        scores = np.full(len(ranks), np.nan)
        scores[hits] = run.scores[run.indptr[rows] + ranks[hits] - 1]
        return np.where(ranks > 0, ranks, np.nan), scores

    def explain(
        self, outcome: Outcome, references: Mapping[str, Reference], parity: OutcomeParity | None
    ) -> HitExplanations | None:
        """Return the explanations of one backend; None for a backend with nothing to explain.

        Backends come in the plan's order. ``references`` are the backend's, and ``parity`` is its comparison with them.
        """
        label, kind = outcome.trial.label, outcome.trial.spec.kind
        if label not in self._runs:
            return None
        if kind == "rerank":
            explained = self._second_stage(outcome)
        elif kind == "fusion" or len(references) > 1:
            explained = self._fusion(outcome, references, parity)
        else:
            explained = None
            for reference in references.values():
                explained = self._explain_single(outcome, reference)
        if explained is None:
            return None
        rank, score = self._ranked(*self._runs[label])
        return explained._replace(columns={"rank": rank, "score": score, **explained.columns})

    def _explain_single(self, outcome: Outcome, complete: Reference) -> HitExplanations | None:
        """Explain a backend with one reference, whose exact hits are kept if other backends are made of its hits."""
        if outcome.trial.label in self._fused:
            self._exact[outcome.trial.label] = self._part(complete).retrieve(self._k)
        if isinstance(complete, SparseReference):
            reference = self._part(complete)
            if complete not in self._of_reference:
                terms = terms_of_columns(outcome.trial, Cache()) if reference.recipe.counts is None else {}
                self._of_reference[complete] = self._contributions(reference, terms)
            columns, parts = self._of_reference[complete]
            absences = self._find_absences(outcome, reference, columns["exact_score"])
            return HitExplanations("terms", columns, absences, parts)
        if isinstance(complete, DenseReference):
            compared = compared_reference(outcome, complete)
            compared = self._part(compared) if compared is not None else None
            return self._vectors(outcome, self._part(complete), compared)
        return None

    def _part(self, reference: AnyReference) -> AnyReference:
        """Return the reference of the explained queries."""
        return reference if self._all_queries else reference.of_queries(self._rows_of_queries.astype(np.int32))

    def _rows(self, reference: SparseReference | DenseReference) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Return the documents' rows in a reference, -1 if it lacks them; the documents that it has; each query's."""
        rows = reference.recipe.doc_ids.rows_of(self.doc_ids)[self.docs]
        present = np.flatnonzero(rows >= 0)
        return rows, present, self._indptr(self._owner[present])

    def _exact_ranks(self, reference: SparseReference | DenseReference) -> tuple[Float64Array, Run]:
        """Return the documents' ranks among the first hits of a reference, or all of them; these are returned too."""
        k = max(len(reference.recipe.doc_ids), 1) if self._complete else self._k
        exact = self._rules.filter_hits(reference.retrieve(k), None)
        return self._ranked(exact)[0], exact

    def _scores(self, reference: SparseReference | DenseReference) -> Float64Array:
        """Return the documents' scores by a reference, NaN for documents that it lacks."""
        rows, present, indptr = self._rows(reference)
        recipe, scores = reference.recipe, np.full(len(rows), np.nan)
        run = Run(recipe.query_ids, recipe.doc_ids, indptr, rows[present], np.zeros(len(present), dtype=np.float32))
        scores[present] = reference.score(run)
        return scores

    def _find_absences(
        self, outcome: Outcome, reference: SparseReference | DenseReference, scores: Float64Array
    ) -> list[str]:
        """Return why documents cannot be hits of a reference, by their scores; empty for documents that can."""
        recipe, queries, (rows, _, _) = reference.recipe, self._owner, self._rows(reference)
        indexed = outcome.record is not None and outcome.record.external is None
        always = competes = np.ones(len(rows), dtype=np.bool_)
        ranked = scores != 0 if isinstance(reference, SparseReference) else always
        if recipe.candidates is not None:
            width, among = len(recipe.doc_ids), recipe.candidates
            competes = np.isin(queries * width + rows, owners(among.indptr) * width + among.rows)
        reasons = [
            rows < 0,
            np.isin(rows, self._dataset.corpus.empty_rows) & (~ranked | self._left_out) & indexed,
            ~(recipe.matching.of_hits(queries, rows) if recipe.matching is not None else always),
            ~competes,
            self._left_out,
            ~ranked,
        ]
        absence: list[str] = np.select(reasons, _ABSENCES, default="").tolist()
        self._absences.setdefault(outcome.trial.label, []).append(absence)
        return absence

    def _shared_absences(self, outcome: Outcome, labels: Sequence[str]) -> list[str]:
        """Return why documents are in no list of a backend, if the reason is the same for all; else empty.

        ``labels`` are the backends that it takes; a backend without a reference may return any document.
        """
        if any(label not in self._absences for label in labels):
            return [""] * len(self.docs)
        lists = [absences for label in labels for absences in self._absences[label]]
        self._absences[outcome.trial.label] = lists
        shared = [reasons[0] if len(set(reasons)) == 1 else "" for reasons in zip(*lists, strict=True)]
        return shared or [""] * len(self.docs)

    def _contributions(self, reference: SparseReference, term_of: Mapping[int, str]) -> tuple[_Columns, _Parts]:
        """Return the columns and parts that a sparse reference computes; ``term_of`` are the terms of its columns."""
        recipe, (rows, present, indptr) = reference.recipe, self._rows(reference)
        length, stored, exact, of_all = (np.full(len(rows), np.nan) for _ in range(4))
        if recipe.counts is not None:
            length[present] = recipe.counts.lengths[rows[present]]
            stored_length = stored_lengths(recipe, rows[present])
            stored[present] = length[present] if stored_length is None else stored_length
        pairs, columns, of_parts = [], [], []
        for start, scores in zip(
            indptr.tolist(), terms_of_queries(reference, indptr, rows[present].astype(np.int32)), strict=False
        ):
            of_query = present[start : start + len(scores.scores)]
            exact[of_query], of_all[of_query] = scores.scores, scores.of_all or np.nan
            values = scores.values.T
            documents, terms = np.nonzero(np.ones_like(values) if self._complete else values)
            pairs.append(of_query[documents])
            columns.append(scores.columns[terms])
            of_parts.append(
                np.stack([scores.weights[terms], values[documents, terms], scores.contributions[terms, documents]])
            )
        pair, column = np.concatenate([*pairs, _NONE]), np.concatenate([*columns, _NONE])
        weight, tf, contribution = np.concatenate([*of_parts, np.zeros((3, 0))], axis=1)
        distinct, names = np.unique(column, return_inverse=True)
        vocabulary = strings(term_names(recipe, distinct.astype(np.int32), term_of))
        parts: _Columns = {"weight": weight, "tf": np.where(tf == 0, np.nan, tf), "contribution": contribution}
        of_documents: _Columns = {
            "exact_rank": self._exact_ranks(reference)[0],
            "exact_score": exact,
            "length": length,
            "stored_length": stored,
            "of_all_documents": of_all,
        }
        return of_documents, _Parts(pair, names, vocabulary, {**parts, **_statistics(recipe, rows[pair], column)})

    def _vectors(self, outcome: Outcome, reference: DenseReference, compared: DenseReference | None) -> HitExplanations:
        """Explain a backend of dense vectors; ``compared`` is the reference by the vectors that its index compares."""
        (rows, present, indptr), run = self._rows(reference), self._runs[outcome.trial.label][0]
        (exact_rank, exact_run), exact = self._exact_ranks(reference), self._scores(reference)
        norm, missed = np.full(len(rows), np.nan), np.zeros(len(rows))
        pairs, instead = list[int](), list[str]()
        for query, (start, stop) in enumerate(pairwise(indptr.tolist())):
            of_query, name = present[start:stop], self._query_ids[query]
            norm[of_query] = vector_lengths(reference.recipe.documents[rows[of_query]])
            hits, best = hits_of(run, name), hits_of(exact_run, name)
            further = [hit for hit in hits if hit not in best or best[hit].rank > len(hits)]
            if not further:
                continue
            returned = reference.recipe.doc_ids.rows_of(Ids.of(hits))
            alone = reference.of_queries(np.array([query], dtype=np.int32))
            lowest = score_rows(alone, returned[returned >= 0]).min(initial=np.inf)
            replacing = further if self._complete else further[:SHOWN_HITS]
            names = self.doc_ids.take(self.docs[of_query])
            for pair, document in zip(of_query.tolist(), names, strict=True):
                in_reach = document in best and best[document].rank <= len(hits) and exact[pair] > lowest
                if document not in hits and in_reach:
                    missed[pair] = 1
                    pairs += [pair] * len(replacing)
                    instead += replacing
        parts = _Parts(np.array(pairs, dtype=np.int64), np.arange(len(pairs)), strings(instead), {})
        quantised = self._scores(compared) if compared is not None else np.full(len(rows), np.nan)
        columns: _Columns = {
            "exact_rank": exact_rank,
            "exact_score": exact,
            "norm": norm,
            "quantised": quantised,
            "missed": missed,
        }
        return HitExplanations("vectors", columns, self._find_absences(outcome, reference, exact), parts)

    def _fusion(
        self, outcome: Outcome, references: Mapping[str, Reference], parity: OutcomeParity | None
    ) -> HitExplanations:
        """Explain a fusion: of other backends' lists, or of the lists that its engine makes."""
        label, spec, runs = outcome.trial.label, outcome.trial.spec, self._parts_of(outcome)
        lists = fused_lists(spec, runs) if runs else engine_lists(outcome)
        for reference in references.values():
            if isinstance(reference, SparseReference | DenseReference):
                part = self._part(reference)
                self._find_absences(outcome, part, self._scores(part))
        exact = self._select_explained(parity.exact) if parity is not None and parity.exact is not None else None
        if runs and runs.keys() <= self._exact.keys():
            exact = fuse_runs(spec, [self._exact[part] for part in runs], None)
        columns: _Columns = {}
        if exact is not None:
            columns["exact_rank"], columns["exact_score"] = self._ranked(self._rules.filter_hits(exact, None))
            if label in self._fused:
                self._exact[label] = cut(exact, self._k)
        return HitExplanations(
            "fusion", columns, self._shared_absences(outcome, [*runs] or [label]), self._list_parts(lists)
        )

    def _second_stage(self, outcome: Outcome) -> HitExplanations:
        """Explain a second stage: the rank before it, and whether the document was among its candidates."""
        runs = self._parts_of(outcome)
        reranked = outcome.combined.reranked if outcome.combined is not None else None
        if reranked is not None and reranked.pairs is not None:
            rows, width = self._dataset.corpus.ids.rows_of(self.doc_ids)[self.docs], len(self._dataset.corpus)
            keys = np.asarray(reranked.pairs.queries, dtype=np.int64) * width + reranked.pairs.documents
            scored = (rows >= 0) & np.isin(self._rows_of_queries[self._owner] * width + rows, keys)
        else:
            scored = ~np.isnan(
                self._ranked(outcome.run if outcome.run is not None else self._runs[outcome.trial.label][0])[0]
            )
        reasons = zip(scored.tolist(), self._shared_absences(outcome, [*runs]), strict=True)
        absences = ["" if was_scored else absence or _NO_STAGE for was_scored, absence in reasons]
        parts = self._list_parts([RankedList(label, run) for label, run in runs.items()])
        return HitExplanations("second stage", {}, absences, parts)

    def _parts_of(self, outcome: Outcome) -> dict[str, Run]:
        """Return the hits of the backends that a fusion or a second stage takes, by label."""
        labels = outcome.combined.of if outcome.combined is not None else ()
        return {
            label: self._select_explained(run) for label in labels if (run := self._outcomes[label].run) is not None
        }

    def _list_parts(self, lists: Sequence[RankedList]) -> _Parts:
        """Return each document's rank, score and contribution in each list, NaN if the list lacks it."""
        columns: dict[str, list[Float64Array]] = {name: [] for name in _OF_LISTS}
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

    def table(self, label: str, explained: HitExplanations) -> pa.Table:
        """Return a row for each document and part of a backend's explanations, and for a document without parts."""
        kind, columns, absences, parts = explained
        notes = np.where(columns.get("missed", np.zeros(len(self.docs))) == 1, MISSED, absences).tolist()
        bare = np.setdiff1d(np.arange(len(self.docs)), parts.pairs)
        pairs = np.concatenate([parts.pairs, bare])
        order = np.argsort(pairs, kind="stable")
        pairs, part = pairs[order], np.where(order < len(parts.pairs), order, -1)
        names = np.concatenate([parts.names, np.full(len(bare), -1)])[order]
        texts = {
            "dataset": strings([self._dataset.name]).take(numbers(np.zeros_like(pairs))),
            "backend": strings([label]).take(numbers(np.zeros_like(pairs))),
            "query_id": self._query_ids.values.take(numbers(self._owner[pairs])),
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


def _statistics(recipe: Recipe, rows: Int32Array, columns: Int64Array) -> _Columns:
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
