"""The answers of an engine: the right documents, ties, short and long lists, batches, and filtered answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import strings
from harness.data.types import Ids
from harness.engines.interface import EngineInterface, SearchResult
from harness.errors import RejectedInputError
from harness.testing.mapped_samples import mapped
from harness.testing.samples import StepClock, random_texts, word
from harness.testing.suite import (
    Base,
    Collection,
    assert_scores,
    assert_well_formed,
    has_filters,
    has_terms,
    offers,
    only_for,
    run_if,
    select,
)

_DOCUMENTS = 300
_FILTERED = 240
_BEST = 20
_COLOURS = ("red", "red", "red", "Red", "blue", "dark red", "\u7ea2", None)
_SIZES = ("1", "1", "1", "01", "1.0", "true", None)
_TEXTS_TO_FILTER = random_texts(31, _FILTERED)
_QUERIES = [word(n) for n in range(6)]
_FILTERS: tuple[Mapping[str, str], ...] = (
    {"colour": "red"},
    {"colour": "dark red"},
    {"colour": "\u7ea2"},
    {"size.mm [x]": "1"},
    {"size.mm [x]": "true"},
    {"colour": "red", "size.mm [x]": "1"},
)


class ResultContract(Base):
    """Tests of search results."""

    def test_finds_the_right_documents(self, tmp_path: Path) -> None:
        """300 texts, 40 queries of 1 to 12 words with repeats: best documents and scores, at three depths."""
        sample = self.collection(random_texts(11, _DOCUMENTS), random_texts(12, 40, longest=12))
        with self.built(tmp_path, sample.documents) as (engine, _):
            for k in (1, 10, 1000):
                self.search_rightly(engine, sample, k)

    @run_if(has_terms)
    def test_pads_nothing(self, tmp_path: Path) -> None:
        """Documents that share no term with the query are never returned, even if k is larger."""
        sample = self.collection([word(1), word(2), f"{word(1)} {word(3)}"], [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search_rightly(engine, sample, 3)
        assert set(hits.rows.tolist()) <= {0, 2}, "a document without the query's term was returned"

    def test_k_beyond_the_documents(self, tmp_path: Path) -> None:
        """A k far above the number of documents returns all matching documents."""
        sample = self.collection([word(1)] * 3 + [word(2)], [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            self.search_rightly(engine, sample, 100_000)

    def test_refuses_k_below_one(self, tmp_path: Path) -> None:
        """k = 0 and k = -1 are refused with RejectedInputError."""
        sample = self.collection([word(1)], [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            for k in (0, -1):
                with pytest.raises(RejectedInputError):
                    self.query(engine, sample.queries, k)

    def test_equal_scores(self, tmp_path: Path) -> None:
        """Twenty equal documents all score the same, to the last bit."""
        sample = self.collection([f"{word(1)} {word(2)}"] * 20 + [word(3)], [f"{word(2)} {word(1)}"])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search_rightly(engine, sample, 50)
        assert len(set(hits.scores[hits.rows < 20].tolist())) <= 1, "equal documents have different scores"

    def test_k_cuts_a_tie_group(self, tmp_path: Path) -> None:
        """A tie group cut by k is returned in part: any of its members, and no document ranked below it."""
        texts = [f"{word(1)} {word(1)}"] * 4 + [f"{word(1)} {word(2)}"] * 6 + [f"{word(1)} {word(2)} {word(3)}"] * 4
        sample = self.collection(texts, [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            for k in range(1, len(texts) + 1):
                self.search_rightly(engine, sample, k)

    @run_if(lambda capabilities: capabilities.keeps_k_prefix)
    def test_keeps_the_prefix_where_declared(self, tmp_path: Path) -> None:
        """A shorter list is the beginning of a longer one, ties included."""
        sample = self.collection(random_texts(13, 120, longest=3, vocabulary=5), [word(0), f"{word(1)} {word(2)}"])
        with self.built(tmp_path, sample.documents) as (engine, _):
            complete = self.search(engine, sample.queries, 120, 120)
            for k in (1, 2, 3, 5, 17, 50):
                part = self.search(engine, sample.queries, 120, k)
                for query in range(len(sample.queries)):
                    got = part.rows[part.indptr[query] : part.indptr[query + 1]]
                    start = int(complete.indptr[query])
                    assert np.array_equal(got, complete.rows[start : start + len(got)]), f"the top {k} is not a prefix"

    @run_if(has_terms)
    def test_empty_query(self, tmp_path: Path) -> None:
        """A query without terms has no hits, and its neighbours keep their hits."""
        sample = self.collection(random_texts(14, 30), [word(0), "", word(1), ""])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search_rightly(engine, sample, 10)
        assert np.diff(hits.indptr)[[1, 3]].tolist() == [0, 0], "an empty query has hits"

    @run_if(has_terms)
    def test_unknown_term(self, tmp_path: Path) -> None:
        """A term that occurs in no document finds nothing by itself, and changes nothing next to other terms."""
        unknown = word(9999)
        sample = self.collection(random_texts(15, 30), [unknown, f"{word(0)} {unknown}", word(0)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search_rightly(engine, sample, 30)
        first, second, third = np.diff(hits.indptr).tolist()
        assert first == 0, "a query of unknown terms has hits"
        assert second == third, "an unknown term changed the hits"

    def test_repeated_query_terms(self, tmp_path: Path) -> None:
        """A term counts as often as it occurs in the query."""
        queries = [f"{word(0)} {word(1)}", f"{word(0)} {word(0)} {word(0)} {word(1)}"]
        sample = self.collection(random_texts(16, 60), queries)
        with self.built(tmp_path, sample.documents) as (engine, _):
            self.search_rightly(engine, sample, 60)

    def test_one_document(self, tmp_path: Path) -> None:
        """A collection of one document gives answers: its idf is small but positive."""
        sample = self.collection([f"{word(1)} {word(2)}"], [word(1), word(3)])
        with self.built(tmp_path, sample.documents) as (engine, report):
            assert report.indexed == 1, f"{report.indexed} documents indexed, not 1"
            self.search_rightly(engine, sample, 5)

    def test_empty_documents(self, tmp_path: Path) -> None:
        """Documents without terms shift neither the rows nor the statistics of the others, and match no term."""
        texts = ["", f"{word(1)} {word(2)}", "", word(1), f"{word(2)} {word(2)}", ""]
        sample = self.collection(texts, [word(1), word(2)])
        with self.built(tmp_path, sample.documents) as (engine, report):
            may_miss = {0, 2, 5} if has_terms(self.engine.capabilities) else set()
            assert set(report.missing_rows.tolist()) <= may_miss, "a document with terms, or a vector, is missing"
            self.search_rightly(engine, sample, 6)

    def test_no_queries(self, tmp_path: Path) -> None:
        """A batch without queries gives empty arrays."""
        sample = self.collection([word(1)], [word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search(engine, select(sample.queries, []), 1, 5)
        assert hits.indptr.tolist() == [0], "hits without queries"

    def test_batches_change_nothing(self, tmp_path: Path) -> None:
        """A query sent by itself, twice in a batch, or in another order has the same hits."""
        sample = self.collection(random_texts(17, 100), random_texts(18, 6, longest=5))
        with self.built(tmp_path, sample.documents) as (engine, _):
            complete = self.search(engine, sample.queries, 100, 10)
            order, queries = [5, 0, 3, 3, 1], mapped(sample.queries)
            mixed = self.search(engine, select(sample.queries, order), 100, 10)
            for position, query in enumerate(order):
                alone = engine.search(queries.slice(query, query + 1), 10, StepClock())  # as batches are cut
                assert_well_formed(alone, 1, 100, 10)
                self.assert_repeated(_hits_of_query(complete, query), alone, f"query {query} alone")
                self.assert_repeated(
                    _hits_of_query(complete, query), _hits_of_query(mixed, position), f"query {query} in another batch"
                )

    @only_for(lambda engine: offers(engine, "explain"))
    def test_explains_the_scores_of_hits(self, tmp_path: Path) -> None:
        """An explanation of a hit gives its score to the last bit; documents that do not match have none."""
        sample = self.collection(["", *random_texts(19, 100)], [*random_texts(20, 6, longest=5), "", word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            for query in range(len(sample.queries)):
                of_query = select(sample.queries, [query])
                hits = self.search(engine, of_query, len(sample.documents), len(sample.documents))
                rows = np.arange(len(sample.documents), dtype=np.int32)[::-1].copy()
                trees = engine.explain(mapped(of_query), rows).trees
                assert len(trees) == len(rows), f"query {query}: {len(trees)} explanations of {len(rows)} documents"
                values = {row: tree.value for row, tree in zip(rows.tolist(), trees, strict=True) if tree is not None}
                assert sorted(values) == sorted(hits.rows.tolist()), f"query {query}: other documents are explained"
                explained = np.array([values[row] for row in hits.rows.tolist()], dtype=np.float32)
                assert np.array_equal(explained, hits.scores), f"query {query}: the explained scores are others"

    def test_results_speak_of_rows(self, tmp_path: Path) -> None:
        """Each document has its own word: a query for it finds the document's row number at any position."""
        texts = [f"{word(n)} {word(500)}" for n in range(40)]
        sample = self.collection(texts, [word(n) for n in range(40)])
        shuffled = Ids.of(sorted(sample.documents.ids.to_list(), reverse=True))
        documents = replace(sample.documents, ids=shuffled)
        with self.built(tmp_path, documents) as (engine, _):
            hits = self.search_rightly(engine, sample._replace(documents=documents), 5)
        if self.engine.capabilities.exact:
            best = hits.rows[hits.indptr[:-1]]
            assert best.tolist() == list(range(40)), "hits are not the rows of their documents"


def _hits_of_query(result: SearchResult, query: int) -> SearchResult:
    hits = slice(int(result.indptr[query]), int(result.indptr[query + 1]))
    indptr = result.indptr[query : query + 2] - result.indptr[query]
    times = slice(query, query + 1)
    return SearchResult(
        indptr, result.rows[hits], result.scores[hits], result.search_ns[times], result.transfer_ns[times]
    )


class FilterContract(Base):
    """Tests of filters: documents have one of five colours and one of four sizes, or lack them."""

    def test_filters_is_what_the_class_is(self) -> None:
        """``filters`` is declared if and only if ``restrict`` exists."""
        declared, offered = self.engine.capabilities.filters, offers(self.engine, "restrict")
        assert declared == offered, "'filters' is declared without 'restrict', or the other way round"

    @has_filters
    def test_returns_what_matches(self, tmp_path: Path) -> None:
        """A filter gives the best k of the matching documents with their unfiltered scores; no filter gives all.

        Each filter replaces the one before. Scores of an engine that fuses lists come from the lists without the other
        documents.
        """
        sample = self._sample()
        with self.built(tmp_path, sample.documents) as (engine, _):
            for conditions in _FILTERS:
                engine.restrict(conditions)
                only = self._only(sample, conditions)
                try:
                    for k in (1, _BEST, _FILTERED):
                        self._search_filtered(engine, only, k, fields=len(conditions))
                except AssertionError as error:
                    error.add_note(f"filtered by {dict(conditions)}")
                    raise
            engine.restrict({})
            self.search_rightly(engine, sample, _BEST)

    @has_filters
    def test_filters_when_opened_again(self, tmp_path: Path) -> None:
        """The fields are in the index: it can be filtered by them after it is closed and reopened."""
        sample, conditions = self._sample(), {"colour": "blue"}
        with self.built(tmp_path, sample.documents):
            pass
        with self.opened(tmp_path, sample.documents.ids) as engine:
            engine.restrict(conditions)
            self.search_rightly(engine, self._only(sample, conditions), _BEST)

    @has_filters
    def test_refuses_a_field_that_it_does_not_hold(self, tmp_path: Path) -> None:
        """A field that was not indexed is refused: it would silently match nothing."""
        sample = self._sample()
        with self.built(tmp_path, sample.documents) as (engine, _), pytest.raises(RejectedInputError, match="shape"):
            engine.restrict({"shape": "round"})

    def _search_filtered(self, engine: EngineInterface, sample: Collection, k: int, *, fields: int) -> None:
        """With a combination of fields a graph may lose more than its usual recall allows, but it must find some."""
        if self.engine.capabilities.exact or fields == 1:
            self.search_rightly(engine, sample, k)
            return
        hits = self.search(engine, sample.queries, _FILTERED, k)
        assert_scores(hits, sample.expected, self.tolerance)
        assert np.all(np.diff(hits.indptr) > 0), "a query has no hits, and documents match the filter"

    def _sample(self) -> Collection:
        sample = self.collection(_TEXTS_TO_FILTER, _QUERIES)
        chance = np.random.default_rng(32)
        columns = {
            name: strings(values[n] for n in chance.integers(len(values), size=_FILTERED))
            for name, values in (("colour", _COLOURS), ("size.mm [x]", _SIZES))
        }
        return sample._replace(documents=replace(sample.documents, metadata=pa.table(columns)))

    def _only(self, sample: Collection, conditions: Mapping[str, str]) -> Collection:
        table = sample.documents.metadata
        assert table is not None
        left = np.array([all(row[name] == value for name, value in conditions.items()) for row in table.to_pylist()])
        if len(self.engine.capabilities.columns) > 1:
            lists = self.expected_lists(_TEXTS_TO_FILTER, _QUERIES)
            fused = self.expected_fusion([part._replace(matches=part.matches & left) for part in lists])
            return sample._replace(expected=fused)
        return sample._replace(expected=sample.expected._replace(matches=sample.expected.matches & left))
