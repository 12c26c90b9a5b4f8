"""Which document of a ranking is what a question expects, and the judgments that follow from it.

A golden set may name chunks as the corpus does, or documents of which the corpus holds chunks. A document belongs to at
most one expectation of a question: to the most specific one that it matches. Several hits for one expectation count
once, at the first of them; those after it keep their rank and are not relevant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from harness.data import ranking
from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.data.ranking import TieRule
from harness.data.types import Ids, Qrels, Run
from harness.errors import UsageError

__all__ = ["Expected", "FirstHit", "Match", "MatchRule", "Missing", "ideal_run", "plain_judgments"]


class MatchRule(StrEnum):
    """How an expected id is compared with the id of a document."""

    EXACT = "exact"
    """They are the same."""
    DOCUMENT = "document"
    """They are the same, or the expected id is what stands before the last delimiter: ``a#1`` is a chunk of ``a``."""
    PREFIX = "prefix"
    """They are the same, or the expected id is what stands before any delimiter: ``a#1#2`` belongs to ``a`` too."""


@dataclass(frozen=True, slots=True)
class Match:
    """A rule with its delimiter. ``chunk-1`` never matches ``chunk-10``: a delimiter has to stand between."""

    rule: MatchRule = MatchRule.EXACT
    delimiter: str = ""

    @classmethod
    def of(cls, rule: str, delimiter: str | None) -> Match:
        """Return a rule by its name; raises UsageError for a missing delimiter, and one that would do nothing."""
        if rule == MatchRule.EXACT and delimiter:
            raise UsageError("--delimiter with --match exact: it would change nothing", fix="add --match document")
        if rule != MatchRule.EXACT and not delimiter:
            fix = "say what stands between a document's id and its chunk's: --delimiter '#'"
            raise UsageError(f"--match {rule} without --delimiter", fix=fix)
        return cls(MatchRule(rule), delimiter or "")

    def require_order(self, ties: TieRule) -> None:
        """Raise UsageError for ``average``, under which no hit is the first, unless ids match exactly."""
        if ties is TieRule.AVERAGE and self.rule is not MatchRule.EXACT:
            what = f"--ties average with --match {self.rule}: no hit of an expectation is the first"
            raise UsageError(what, fix="use --ties engine, or expect the ids of chunks")

    def owners(self, doc_id: str) -> Iterator[str]:
        """Every expected id that a document matches, the most specific first: itself, then what its id begins with."""
        yield doc_id
        end = doc_id.rfind(self.delimiter) if self.rule is not MatchRule.EXACT else -1
        while end > 0:
            yield doc_id[:end]
            before = end + len(self.delimiter) - 1  # delimiters may overlap: `--` occurs twice in `a---b`
            end = doc_id.rfind(self.delimiter, 0, before) if self.rule is MatchRule.PREFIX else -1

    def owner(self, doc_id: str, expected: Mapping[str, object]) -> str | None:
        """The one of the ``expected`` ids that a document belongs to, None for a document that matches none."""
        return next((owner for owner in self.owners(doc_id) if owner in expected), None)


class Missing(NamedTuple):
    """An expectation to which no document of a corpus belongs."""

    question: GoldenQuestion
    expectation: Expectation


class FirstHit(NamedTuple):
    """Where a ranking first has a document that belongs to an expectation; ``rank`` counts from 1."""

    rank: int
    doc_id: str


class Expected:
    """The expectations of a golden set against the documents of one corpus.

    ``corpus_ids`` is None where the documents are not known (a backend that only answers questions): then nothing
    can be found missing.
    """

    def __init__(self, golden: GoldenSet, match: Match, corpus_ids: Ids | None) -> None:
        self.golden, self.match, self.corpus_ids = golden, match, corpus_ids
        self._wanted = {question.id: {one.id: one for one in question.expected} for question in golden}
        self._members = None if corpus_ids is None else self._held(corpus_ids)

    def _held(self, corpus_ids: Ids) -> dict[str, list[str]]:
        """The documents that match each expected id."""
        named = {one.id for question in self.golden for one in question.expected}
        if self.match.rule is MatchRule.EXACT:
            there = corpus_ids.rows_of(Ids.of(sorted(named))) >= 0
            return {name: [name] for name, held in zip(sorted(named), there.tolist(), strict=True) if held}
        held: dict[str, list[str]] = {}
        for doc_id in corpus_ids:
            for owner in self.match.owners(doc_id):
                if owner in named:
                    held.setdefault(owner, []).append(doc_id)
        return held

    @property
    def missing(self) -> list[Missing]:
        """Every expectation that no document of the corpus can meet, in the order of the golden set."""
        if self._members is None:
            return []
        return [
            Missing(question, one)
            for question in self.golden
            for one in question.expected
            if self._stand_in(question, one) is None
        ]

    def _stand_in(self, question: GoldenQuestion, expectation: Expectation) -> str | None:
        """A document that belongs to an expectation; the expected id itself where the documents are not known."""
        if self._members is None:
            return expectation.id
        wanted = self._wanted[question.id]
        held = self._members.get(expectation.id, ())
        return next((doc_id for doc_id in held if self.match.owner(doc_id, wanted) == expectation.id), None)

    def first_hits(self, question: GoldenQuestion, ranked: Sequence[str]) -> dict[str, FirstHit]:
        """Expected id -> its first hit among the ``ranked`` documents; without those that were not found."""
        wanted = self._wanted[question.id]
        found: dict[str, FirstHit] = {}
        for rank, doc_id in enumerate(ranked, 1):
            owner = self.match.owner(doc_id, wanted)
            if owner is not None and owner not in found:
                found[owner] = FirstHit(rank, doc_id)
        return found

    def judgments(self, run: Run, ties: TieRule) -> Qrels:
        """Judgments by which to score a run: each expectation is stood for by the document that the run found first.

        One that was not found is stood for by any other document that belongs to it. Questions without an expectation
        are unjudged.
        """
        ordered = run
        if self.match.rule is not MatchRule.EXACT and ties is TieRule.TREC_EVAL:
            ordered = ranking.order(run)
        places = dict(zip(run.query_ids, range(len(run.query_ids)), strict=True))
        rows: list[tuple[str, list[tuple[str, int]]]] = []
        for question in self.golden:
            if not question.expected:
                continue
            place = places.get(question.id)
            hits = ordered.rows[ordered.of_query(place)] if place is not None else ordered.rows[:0]
            found = self.first_hits(question, ordered.doc_ids.take(hits))
            rows.append((question.id, [(self._judged(question, one, found), one.grade) for one in question.expected]))
        return _qrels(rows)

    def _judged(self, question: GoldenQuestion, one: Expectation, found: Mapping[str, FirstHit]) -> str:
        if one.id in found:
            return found[one.id].doc_id
        return self._stand_in(question, one) or one.id


def plain_judgments(golden: GoldenSet) -> Qrels:
    """The expectations as judgments of the expected ids themselves."""
    return _qrels([(q.id, [(one.id, one.grade) for one in q.expected]) for q in golden if q.expected])


def ideal_run(golden: GoldenSet, k: int) -> Run:
    """The best ranking of at most ``k`` hits that there is for each question: every expectation once, by grade."""
    asked = [question for question in golden if question.expected]
    best = [sorted(question.expected, key=lambda one: -one.grade)[:k] for question in asked]
    ids = Ids.of(dict.fromkeys(one.id for hits in best for one in hits))
    indptr = np.cumsum([0, *map(len, best)], dtype=np.int64)
    rows = ids.rows_of(Ids.of([one.id for hits in best for one in hits])).astype(np.int32)
    scores = np.concatenate([-np.arange(len(hits), dtype=np.float32) for hits in best]) if best else _NO_SCORES
    return Run(Ids.of([question.id for question in asked]), ids, indptr, rows, scores)


_NO_SCORES = np.zeros(0, dtype=np.float32)


def _qrels(rows: Sequence[tuple[str, Sequence[tuple[str, int]]]]) -> Qrels:
    """Judgments of queries, each with its documents and their grades."""
    flat = [(doc_id, grade) for _, judged in rows for doc_id, grade in judged]
    doc_ids = Ids.of(dict.fromkeys(doc_id for doc_id, _ in flat))
    places = {doc_id: row for row, doc_id in enumerate(doc_ids)}
    return Qrels(
        query_ids=Ids.of([query for query, _ in rows]),
        doc_ids=doc_ids,
        indptr=np.cumsum([0, *(len(judged) for _, judged in rows)], dtype=np.int64),
        rows=np.array([places[doc_id] for doc_id, _ in flat], dtype=np.int32),
        grades=np.array([grade for _, grade in flat], dtype=np.int32),
    )
