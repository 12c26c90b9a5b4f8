"""Engines that break the contract in their answers and in what they accept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from contract_fakes import FakeEngine, FakeSparse, FakeText
from contract_kills import breaks, sparse_of

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Int32Array
from harness.engines.interface import IndexReport, ScoreTree, ScoreTrees, SearchResult
from harness.errors import BackendError, RejectedInputError
from harness.testing import Bm25, ExpectedScores, StepClock
from harness.testing.expected import SparseSample, bm25_idf, bm25_scores, sparse_scores


class Answers(FakeSparse):
    """Changes the hits of each query: rows and scores as lists, best first."""

    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        raise NotImplementedError

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        right = super().search(queries, k, clock)
        rows, scores, indptr = [], [], [0]
        for start, stop in zip(right.indptr, right.indptr[1:], strict=False):
            new = self.change(right.rows[start:stop].tolist(), right.scores[start:stop].tolist(), k)
            rows += new[0]
            scores += new[1]
            indptr.append(len(rows))
        return right._replace(
            indptr=np.array(indptr, dtype=np.int64),
            rows=np.array(rows, dtype=np.int32),
            scores=np.array(scores, dtype=np.float32),
        )


FINDS = "test_finds_the_right_documents"


@breaks(FINDS)
class DropsTheBest(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        return rows[1:], scores[1:]


@breaks(FINDS)
class ReturnsTheNextBest(Answers):
    """As many hits as asked for, each with its own score, and one that should have been there is not."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        return super().search(queries, k if k < 1 else k + 1, clock)

    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        left_out = 0 if len(rows) == k else len(rows)
        kept = [place for place in range(len(rows)) if place != left_out]
        return [rows[place] for place in kept], [scores[place] for place in kept]


@breaks(FINDS)
class RanksByRow(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        order = sorted(range(len(rows)), key=rows.__getitem__)
        return [rows[i] for i in order], [scores[i] for i in order]


@breaks(FINDS)
class RepeatsADocument(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        return rows[:1] + rows[:-1], scores[:1] + scores[:-1]


@breaks(FINDS)
class RoundsScores(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        return rows, [round(score, 4) for score in scores]


@breaks(FINDS)
class ReturnsOneMore(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        return super().search(queries, k + 1, clock) if k > 0 else super().search(queries, k, clock)


@breaks("test_k_cuts_a_tie_group")
class DropsTheCutGroup(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        kept = sum(score != scores[-1] for score in scores) if len(scores) == k else len(scores)
        return rows[:kept], scores[:kept]


@breaks("test_equal_scores")
class PerturbsTies(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        return rows, [score * (1 - 3e-8 * rank) for rank, score in enumerate(scores)]


class Fields(FakeSparse):
    """Changes one field of every result."""

    def change(self, result: SearchResult) -> SearchResult:
        raise NotImplementedError

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        return self.change(super().search(queries, k, clock))


def field_mutant(name: str, change: Callable[[SearchResult], Any]) -> type[FakeEngine]:
    return breaks(FINDS)(type(name, (Fields,), {"change": lambda _, result: change(result)}))


field_mutant("LongRows", lambda result: result._replace(rows=result.rows.astype(np.int64)))
field_mutant("DoubleScores", lambda result: result._replace(scores=result.scores.astype(np.float64)))
field_mutant("ShortIndptr", lambda result: result._replace(indptr=result.indptr[:-1]))
field_mutant("IntIndptr", lambda result: result._replace(indptr=result.indptr.astype(np.int32)))
field_mutant("ShiftedIndptr", lambda result: result._replace(indptr=result.indptr + 1))
field_mutant("UnknownRows", lambda result: result._replace(rows=result.rows + np.int32(100_000)))
field_mutant("NanScores", lambda result: result._replace(scores=result.scores * np.float32("nan")))
field_mutant("NoSearchTime", lambda result: result._replace(search_ns=result.search_ns * 0))
field_mutant("OneTimeForAll", lambda result: result._replace(search_ns=result.search_ns[:1]))
field_mutant("FloatTimes", lambda result: result._replace(transfer_ns=result.transfer_ns / 1e3))
field_mutant("NegativeTransfer", lambda result: result._replace(transfer_ns=-result.transfer_ns))
field_mutant("AnotherClock", lambda result: result._replace(transfer_ns=result.transfer_ns + 1))


@breaks("test_pads_nothing", "test_k_beyond_the_documents", "test_empty_query", "test_unknown_term")
class PadsWithZeros(FakeSparse):
    def score(self, queries: Inputs) -> ExpectedScores:
        right = super().score(queries)
        return right._replace(matches=np.ones_like(right.matches))


@breaks("test_k_beyond_the_documents")
class CrashesBeyondTheDocuments(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if k > len(self.documents):
            raise BackendError("kth out of bounds")
        return super().search(queries, k, clock)


@breaks("test_refuses_k_below_one")
class AnswersZero(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, max(k, 1), clock)
        if k < 1:
            return found._replace(indptr=found.indptr * 0, rows=found.rows[:0], scores=found.scores[:0])
        return found


@breaks("test_keeps_the_prefix_where_declared")
class TiesDependOnK(Answers):
    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        order = sorted(range(len(rows)), key=lambda i: (-scores[i], rows[i] if k % 2 else -rows[i]))
        return [rows[i] for i in order], [scores[i] for i in order]


@breaks("test_is_deterministic_where_declared")
class TurnsTiesRound(Answers):
    """Every other search gives equal scores in the opposite order."""

    backwards: ClassVar[bool] = False

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        TurnsTiesRound.backwards = not TurnsTiesRound.backwards
        return super().search(queries, k, clock)

    def change(self, rows: list[int], scores: list[float], k: int) -> tuple[list[int], list[float]]:
        order = sorted(range(len(rows)), key=lambda i: (-scores[i], -rows[i] if self.backwards else rows[i]))
        return [rows[i] for i in order], [scores[i] for i in order]


@breaks("test_unknown_term")
class WantsAllTerms(FakeSparse):
    def score(self, queries: Inputs) -> ExpectedScores:
        right = super().score(queries)
        wanted = sparse_of(queries).to_scipy().astype(bool).astype(int)
        shared = (wanted @ self.documents.to_scipy().astype(bool).astype(int).T).toarray()
        return right._replace(matches=shared == wanted.sum(axis=1)[:, None])


@breaks("test_repeated_query_terms")
class IgnoresRepeats(FakeText):
    def score(self, queries: Inputs) -> ExpectedScores:
        assert queries.texts is not None
        unique = [" ".join(sorted(set(text.split()))) for text in queries.texts.to_pylist()]
        return bm25_scores(self.texts, unique, Bm25())


@breaks("test_one_document")
class NegativeIdf(FakeSparse):
    def score(self, queries: Inputs) -> ExpectedScores:
        right = super().score(queries)
        return right._replace(scores=right.scores - 1.0) if len(self.documents) == 1 else right


@breaks("test_empty_documents")
class CountsEmptyDocuments(FakeSparse):
    def score(self, queries: Inputs) -> ExpectedScores:
        size = len(self.documents)
        return sparse_scores(
            SparseSample(self.documents, sparse_of(queries)), lambda _, containing: bm25_idf(size, containing)
        )


@breaks("test_empty_documents")
class ShiftsRows(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, k, clock)
        position = np.cumsum(np.diff(self.documents.indptr) > 0) - 1
        return found._replace(rows=position[found.rows].astype(np.int32))


@breaks("test_no_queries")
class NeedsQueries(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if not len(queries):
            raise ValueError("need at least one array to concatenate")
        return super().search(queries, k, clock)


@breaks("test_batches_change_nothing")
class NormalisesByBatch(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, k, clock)
        return found._replace(scores=found.scores / max(found.scores, default=np.float32(1)))


@breaks("test_results_speak_of_rows")
class SpeaksOfSortedIds(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, k, clock)
        return found._replace(rows=self.ids.tie_rank[found.rows].astype(np.int32))


@breaks("test_unicode_words")
class FoldsToAscii(FakeText):
    def score(self, queries: Inputs) -> ExpectedScores:
        def fold(text: str) -> str:
            return text.encode("ascii", "ignore").decode()

        assert queries.texts is not None
        return bm25_scores([fold(text) for text in self.texts], [fold(t) for t in queries.texts.to_pylist()], Bm25())


@breaks("test_wide_dimensions")
class FoldsColumns(FakeSparse):
    def take(self, documents: Inputs) -> None:
        super().take(documents)
        self.documents = replace(self.documents, indices=np.minimum(self.documents.indices, 65_535))


@breaks(
    "test_refuses_bad_values_in_documents",
    "test_refuses_bad_indices_in_documents",
)
class TakesAnyDocument(FakeSparse):
    def take(self, documents: Inputs) -> None:
        self.documents = sparse_of(documents)


@breaks(
    "test_refuses_bad_values_in_queries",
    "test_refuses_bad_indices_in_queries",
)
class TakesAnyQuery(FakeSparse):
    def score(self, queries: Inputs) -> ExpectedScores:
        shape = (len(queries), len(self.documents))
        return ExpectedScores(np.zeros(shape), np.zeros(shape, dtype=bool))


@breaks("test_refuses_bad_values_in_queries", "test_refuses_bad_values_in_documents")
class NamesNobody(FakeSparse):
    def take(self, documents: Inputs) -> None:
        self._refuse(documents)
        super().take(documents)

    def score(self, queries: Inputs) -> ExpectedScores:
        self._refuse(queries)
        return super().score(queries)

    def _refuse(self, inputs: Inputs) -> None:
        if inputs.sparse is not None and not np.isfinite(inputs.sparse.values).all():
            raise RejectedInputError("some value is not finite")


@breaks("test_refuses_another_column")
class CrashesWithoutAColumn(FakeSparse):
    def take(self, documents: Inputs) -> None:
        self.documents = replace(documents.sparse)  # type: ignore[type-var]


@breaks("test_refuses_other_ids_than_it_was_opened_with")
class TakesOtherIds(FakeSparse):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        self.ids = documents.ids
        return super().index(documents, progress, clock)


class Explains(FakeText):
    """Explains scores: a tree of a single number for each document that matches."""

    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        hits = self.search(query, len(self.texts), StepClock())
        score_of = dict(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))
        return ScoreTrees(tuple(ScoreTree(score_of[row], "BM25") if row in score_of else None for row in rows.tolist()))


EXPLAINS = "test_explains_the_scores_of_hits"


@breaks(EXPLAINS)
class ExplainsRoundedScores(Explains):
    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        trees = super().explain(query, rows).trees
        return ScoreTrees(tuple(None if tree is None else replace(tree, value=round(tree.value, 5)) for tree in trees))


@breaks(EXPLAINS)
class ExplainsInItsOwnOrder(Explains):
    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        return super().explain(query, np.sort(rows))


@breaks(EXPLAINS)
class ExplainsHitsAlone(Explains):
    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        return ScoreTrees(tuple(tree for tree in super().explain(query, rows).trees if tree is not None))


@breaks(EXPLAINS)
class ExplainsEverything(Explains):
    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        return ScoreTrees(tuple(tree or ScoreTree(0.0, "no match") for tree in super().explain(query, rows).trees))
