"""Match hits with the documents that questions expect, and advise on expected ids that no document has.

A golden set may name chunks as the corpus does, documents that the corpus holds as chunks, values of a field such as
the file of a chunk, or texts. A document belongs to at most one expected id of a question, the most specific that it
matches, and to every expected text that it matches. Several hits for the same expectation count once, at the first of
them; later hits keep their rank and are not relevant. A hit that is the first for several texts counts once. So do
hits for alternatives (:attr:`harness.data.golden_set.Expectation.group`).
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data import ranking
from harness.data.arrow import strings
from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet, excluded_documents
from harness.data.grouping import build_qrels
from harness.data.id_spelling import respellings, spelled_otherwise
from harness.data.memory import run_from_dict
from harness.data.problems import Problems
from harness.data.ranking import TieRule
from harness.data.types import DocumentContent, Ids, Qrels, Run
from harness.errors import UsageError
from harness.pipeline.check.containment import normalize_text
from harness.pipeline.check.text_match import TextMatch, expected_texts, match_texts
from harness.plan.option_values import MatchExpression
from harness.wording import RANDOM_ID, id_list

_NUMBER = re.compile(r"\d{1,31}")
_DELIMITER = re.compile(r"[\W_]+")
_CHUNK = re.compile(r"[^\W\d_]*[\W_]*\d+")
"""The end of a chunk's id, after a document's id and a delimiter: ``3``, ``p12``, ``chunk_3``."""
_DECIMAL = re.compile(r"\d+\.0+")
"""An integer as pandas writes it next to an empty cell, and not chunk ``0`` of a document."""
_SUFFIX = re.compile(r"\.[a-z]{1,5}\d?$")
_DIGITS = re.compile(r"\d+")
_SAMPLED_IDS = 20
_MOST = 5_000
"""Nearest spellings are searched among this many documents: 20 ids without digits then take about a second."""
_NEAR = 0.8


class MatchRule(StrEnum):
    """How an expectation is compared with a document."""

    EXACT = "exact"
    """The expected id is the document's."""
    DOCUMENT = "document"
    """They are the same, or the expected id is the part before the last delimiter: ``a#1`` is a chunk of ``a``."""
    PREFIX = "prefix"
    """They are the same, or the expected id is the part before any delimiter: ``a#1#2`` belongs to ``a`` too."""
    TEXT = "text"
    """One text contains the other, or both share enough words in the same order."""
    FIELD = "field"
    """The expected id is the value of a field of the document."""


_BY_ID = (MatchRule.EXACT, MatchRule.DOCUMENT, MatchRule.PREFIX)


@dataclass(frozen=True, slots=True)
class Match:
    """A rule with its delimiter. ``chunk-1`` never matches ``chunk-10``: there must be a delimiter between.

    Attributes:
        rule: The rule for expected ids. Expected texts are matched by text under every rule.
        delimiter: Delimiter between a document's id and its chunk's.
        field: The field that is compared by :attr:`MatchRule.FIELD`.
        share: Least share of words in order by which a text matches; 1 if one text must contain the other.
        values: The value that is compared in place of a document's id, by id: of the field, or of the field from which
            a backend read ids although several documents share its values.
        texts: How each document matches expected texts: by its id, then by the expectation's id.
        further_texts: The forbidden and excluded texts that each document matches, by its id.
    """

    rule: MatchRule = MatchRule.EXACT
    delimiter: str = ""
    field: str = ""
    share: float = 1.0
    values: Mapping[str, str] = dataclass_field(default_factory=dict, compare=False, repr=False)
    texts: Mapping[str, Mapping[str, TextMatch]] = dataclass_field(default_factory=dict, compare=False, repr=False)
    further_texts: Mapping[str, Collection[str]] = dataclass_field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, expression: MatchExpression, delimiter: str | None) -> Match:
        """Return the rule of an expression; raises UsageError for a missing delimiter, or a useless one."""
        rule, argument = expression
        takes_delimiter = rule in ("document", "prefix")
        if delimiter and not takes_delimiter:
            raise UsageError(
                f"--delimiter with --match {expression}: it would change nothing", fix="add --match document"
            )
        if takes_delimiter and not delimiter:
            fix = "name the delimiter between a document's id and its chunk's: --delimiter '#'"
            raise UsageError(f"--match {rule} without --delimiter", fix=fix)
        share = float(argument) if rule == MatchRule.TEXT and argument else 1.0
        return cls(MatchRule(rule), delimiter or "", argument if rule == MatchRule.FIELD else "", share)

    def __str__(self) -> str:
        """Return the expression of the rule."""
        if self.rule is MatchRule.TEXT and self.share < 1:
            return f"{self.rule}:{self.share:g}"
        return f"{self.rule}:{self.field}" if self.rule is MatchRule.FIELD else str(self.rule)

    @property
    def by_id(self) -> bool:
        """Return whether expected ids are compared with ids, not with texts or with a field."""
        return self.rule in _BY_ID

    def require_order(self, *, texts: bool = False) -> None:
        """Raise UsageError for ties under ``average``, where no hit is the first, unless ids match exactly.

        ``texts`` is whether the golden set expects texts.
        """
        if texts or self.rule is not MatchRule.EXACT:
            problem = (
                f"--ties average with {'expected texts' if texts else f'--match {self}'}: no hit of an expectation"
            )
            raise UsageError(f"{problem} is the first", fix="use --ties engine, or expect the ids of chunks")

    def owners(self, doc_id: str) -> Iterator[str]:
        """Yield every expectation that a document matches: its id or value, then prefixes of it, then texts."""
        yield from self.owners_by_id(doc_id)
        yield from self.texts.get(doc_id, ())

    def owners_by_id(self, doc_id: str) -> Iterator[str]:
        """Yield a document's id, or the value in its place, then prefixes of it, the longest first."""
        if self.rule is MatchRule.TEXT or (self.rule is MatchRule.FIELD and doc_id not in self.values):
            return
        name = self.values.get(doc_id, doc_id)
        yield name
        end = name.rfind(self.delimiter) if self.delimiter else -1
        while end > 0:
            yield name[:end]
            before = end + len(self.delimiter) - 1  # delimiters may overlap: `--` occurs twice in `a---b`
            end = name.rfind(self.delimiter, 0, before) if self.rule is MatchRule.PREFIX else -1

    def names(self, doc_id: str) -> Iterator[str]:
        """Yield the names that may forbid or exclude a document: its id, the compared value, and texts."""
        yield doc_id
        yield from self.owners_by_id(doc_id)
        yield from self.further_texts.get(doc_id, ())

    def owner(self, doc_id: str, expected: Mapping[str, object]) -> str | None:
        """Return which of the ``expected`` ids a document belongs to, None for a document that matches none."""
        return next(iter(self.owners_among(doc_id, expected)), None)

    def owners_among(self, doc_id: str, expected: Mapping[str, object]) -> list[str]:
        """Return the ``expected`` ids that a document meets: of ids the most specific, and every text."""
        if self.rule is MatchRule.EXACT and not self.values and not self.texts:  # most hits match nothing
            return [doc_id] if doc_id in expected else []
        first = next((owner for owner in self.owners_by_id(doc_id) if owner in expected), None)
        texts = [owner for owner in self.texts.get(doc_id, ()) if owner in expected]
        return texts if first is None else [first, *texts]


class Missing(NamedTuple):
    """An expectation to which no document of a corpus belongs."""

    question: GoldenQuestion
    expectation: Expectation


class FirstHit(NamedTuple):
    """The first document in a ranking that belongs to an expectation; ``rank`` counts from 1."""

    rank: int
    doc_id: str


class ExpectedDocuments:
    """The expectations of a golden set against the documents of one corpus.

    ``corpus_ids`` is None if the documents are not known (a backend that only answers questions): then no missing id
    can be found. Without ``all_texts`` only the texts of hits are known, and no missing text can be found.
    """

    def __init__(self, golden: GoldenSet, match: Match, corpus_ids: Ids | None, *, all_texts: bool = True) -> None:
        self.golden, self.match, self.corpus_ids = golden, match, corpus_ids
        self.texts = expected_texts(golden) if golden.expects_texts else {}
        self._all_texts = all_texts
        self._expectations = {
            question.id: {expectation.id: expectation for expectation in question.expected} for question in golden
        }
        self._members = None if corpus_ids is None else self._documents_of_each(corpus_ids)

    def _documents_of_each(self, corpus_ids: Ids) -> dict[str, list[str]]:
        """Return the documents that match each expected id."""
        expected_ids = {expectation.id for question in self.golden for expectation in question.expected}
        documents: dict[str, list[str]] = {}
        for doc_id, labels in self.match.texts.items():
            for label in labels:
                documents.setdefault(label, []).append(doc_id)
        if self.match.rule is MatchRule.TEXT:
            return documents
        if self.match.rule is MatchRule.EXACT and not self.match.values:
            names = sorted(expected_ids - documents.keys())
            present = corpus_ids.rows_of(Ids.of(names)) >= 0
            documents.update(
                (name, [name]) for name, is_present in zip(names, present.tolist(), strict=True) if is_present
            )
            return documents
        for doc_id in corpus_ids:
            for owner in self.match.owners_by_id(doc_id):
                if owner in expected_ids:
                    documents.setdefault(owner, []).append(doc_id)
        return documents

    @property
    def is_exact(self) -> bool:
        """True if every expectation is the id of its only document."""
        return self.match.rule is MatchRule.EXACT and not self.match.values and not self.match.texts

    def matched_by(self, expectation: Expectation, doc_id: str) -> str | None:
        """Return how a document matches an expected text or value; None if ids are compared."""
        if expectation.id in self.texts:
            match = self.match.texts.get(doc_id, {}).get(expectation.id)
            return str(match) if match is not None else None
        return "field" if doc_id in self.match.values else None

    def matching_documents(self, expectation: Expectation) -> Sequence[str]:
        """Return the known documents that match an expected text or value; none if ids are compared."""
        by_content = expectation.id in self.texts or self.match.rule is MatchRule.FIELD
        return self.members(expectation) if by_content else ()

    def members(self, expectation: Expectation) -> Sequence[str]:
        """Return the documents that match an expectation; none if the documents are not known."""
        return (self._members or {}).get(expectation.id, ())

    def documents(self, question: GoldenQuestion) -> list[str]:
        """Return the documents of the corpus that match what a question expects; none if they are not known."""
        return [doc_id for expectation in question.expected for doc_id in self.members(expectation)]

    @cached_property
    def missing(self) -> list[Missing]:
        """Every expectation that no document of the corpus can meet, in the order of the golden set."""
        if self._members is None:
            return []
        return [
            Missing(question, expectation)
            for question in self.golden
            for expectation in question.expected
            if next(self._met_by(question, expectation), None) is None
            and (self._all_texts or expectation.id not in self.texts)
        ]

    def _met_by(self, question: GoldenQuestion, expectation: Expectation) -> Iterator[str]:
        """Yield the documents that belong to an expectation; the expected id if the documents are not known."""
        if self._members is None:
            yield expectation.id
            return
        expectations = self._expectations[question.id]
        for doc_id in self._members.get(expectation.id, ()):
            if expectation.id in self.match.owners_among(doc_id, expectations):
                yield doc_id

    def refuse_contradictions(self) -> None:
        """Raise DataError if a question forbids or excludes every document that belongs to one of its expectations.

        Ids, values and texts are compared as the rule matches them; equal ids are found when a golden set is read.
        """
        problems = Problems(self.golden.source)
        for question in self.golden:
            if question.forbidden or question.excluded:
                for contradiction in self._contradictions(question):
                    problems.add(question.line, contradiction)
        problems.raise_if_any(fix="expect other documents, or leave these out of the forbidden or excluded ids")

    def _contradictions(self, question: GoldenQuestion) -> Iterator[str]:
        """Yield a sentence for each expectation whose documents are all forbidden, or all excluded."""
        kinds = ("forbidden", frozenset(question.forbidden)), ("excluded", frozenset(question.excluded))
        for expectation in question.expected:
            if expectation.grade <= 0 or (expectation.id in self.texts and not self._all_texts):
                continue
            documents = list(self._met_by(question, expectation))
            for verb, ids in kinds:
                names = [next(filter(ids.__contains__, self.match.names(doc_id)), None) for doc_id in documents]
                if names and None not in names:
                    causes = [f"'{name}'" for name in dict.fromkeys(names) if name != expectation.id]
                    if self.match.rule is MatchRule.TEXT:
                        causes = []  # a stored failure may not hold texts
                    by = f", by {id_list(causes)}" if causes else ""
                    yield f"'{expectation.id}' is expected and {verb}{by}"

    def first_hits(self, question: GoldenQuestion, ranked: Sequence[str]) -> dict[str, FirstHit]:
        """Return the first hit of each expected id among the ``ranked`` documents, without ids that have no hit."""
        expectations = self._expectations[question.id]
        hits: dict[str, FirstHit] = {}
        for rank, doc_id in enumerate(ranked, 1):
            for owner in self.match.owners_among(doc_id, expectations):
                hits.setdefault(owner, FirstHit(rank, doc_id))
            if len(hits) == len(expectations):
                break
        return hits

    def judgments(self, run: Run, ties: TieRule) -> Qrels:
        """Return judgments by which to score a run: of the first document that it has for each expectation.

        If the ranking has none, any other document that belongs to the expectation takes its place. A document that is
        the first hit of several expectations has the highest grade of them. Questions without an expectation are
        unjudged.
        """
        ordered = run
        if not self.is_exact and ties is not TieRule.ENGINE:
            ordered = ranking.order(run, wide=ties is TieRule.TREC_EVAL_10)
        position_of = dict(zip(run.query_ids, range(len(run.query_ids)), strict=True))
        judged: dict[str, dict[str, int]] = {}
        groups: dict[str, dict[str, int | None]] = {}
        for question in self.golden:
            if not question.expected:
                continue
            position = position_of.get(question.id)
            hits = ordered.rows[ordered.of_query(position)] if position is not None else ordered.rows[:0]
            first = self.first_hits(question, ordered.doc_ids.take(hits))
            of_question = judged.setdefault(question.id, {})
            taken = {hit.doc_id for hit in first.values()}
            for expectation in question.expected:
                hit = first.get(expectation.id)
                doc_id = hit.doc_id if hit is not None else next(self._met_by(question, expectation), None)
                if doc_id is None or (hit is None and doc_id in taken):
                    doc_id = expectation.id
                taken.add(doc_id)
                of_question[doc_id] = max(expectation.grade, of_question.get(doc_id, expectation.grade))
                groups.setdefault(question.id, {}).setdefault(doc_id, expectation.group)
        judgments = _judgments_of(judged)
        judgments = judgments.with_groups(groups) if self.golden.has_alternatives else judgments
        if self.golden.human is None:
            return judgments
        by_people = ExpectedDocuments(self.golden.human, self.match, self.corpus_ids)
        return replace(judgments, human=by_people.judgments(run, ties), models=dict.fromkeys(self.golden.models))

    def forbidden(self, run: Run) -> Qrels:
        """Return the hits of a run that its questions forbid, as judgments with grade 1.

        If a question forbids none of its hits, its forbidden ids are judged. Questions that forbid nothing are
        unjudged.
        """
        judged = {}
        position_of = dict(zip(run.query_ids, range(len(run.query_ids)), strict=True))
        for question in self.golden:
            if question.forbidden:
                position = position_of.get(question.id)
                hits = run.rows[run.of_query(position)] if position is not None else run.rows[:0]
                judged[question.id] = dict.fromkeys(self.forbidden_hits(question, run.doc_ids.take(hits)), 1) or (
                    dict.fromkeys(question.forbidden, 1)
                )
        return _judgments_of(judged)

    def forbidden_hits(self, question: GoldenQuestion, ranked: Sequence[str]) -> list[str]:
        """Return the ``ranked`` documents that a question forbids, in their order."""
        forbidden = frozenset(question.forbidden)
        return [doc_id for doc_id in ranked if not forbidden.isdisjoint(self.match.names(doc_id))]

    @cached_property
    def excluded(self) -> dict[str, tuple[str, ...]]:
        """The documents that each question excludes, and excluded ids that no document has, in the question's order.

        Documents are all of the corpus. Only questions that exclude something are in it.
        """
        excluded = excluded_documents(self.golden)
        names = {name for ids in excluded.values() for name in ids}
        if not names or self.corpus_ids is None or self._compares_ids_only:
            return excluded
        documents: dict[str, list[str]] = {}
        for doc_id in self.corpus_ids:
            for name in names.intersection(self.match.names(doc_id)):
                documents.setdefault(name, []).append(doc_id)
        return {
            question: tuple(dict.fromkeys(doc_id for name in ids for doc_id in documents.get(name, [name])))
            for question, ids in excluded.items()
        }

    def unknown(self, ids: Iterable[str]) -> list[str]:
        """Return the forbidden or excluded ids that no document of the corpus has, each once.

        There are none if the documents, or the texts that are compared, are not known.
        """
        distinct, by_text = dict.fromkeys(ids), self.match.rule is MatchRule.TEXT
        if self.corpus_ids is None or not distinct or (by_text and not self._all_texts):
            return []
        present = set(self.corpus_ids)
        if not self._compares_ids_only:
            present.update(name for doc_id in self.corpus_ids for name in self.match.names(doc_id))
        return [doc_id for doc_id in distinct if doc_id not in present]

    @property
    def _compares_ids_only(self) -> bool:
        """True if forbidden and excluded ids are those of documents."""
        return self.match.rule is MatchRule.EXACT and not self.match.values


def _judgments_of(grades_by_question: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Return the judgments of questions: the grade of each document by its id."""
    pairs = [(question, doc_id) for question, grades in grades_by_question.items() for doc_id in grades]
    questions, documents = (pa.chunked_array([strings(pair[side] for pair in pairs)]) for side in (0, 1))
    grades = np.array([grades_by_question[question][doc_id] for question, doc_id in pairs], dtype=np.int32)
    return build_qrels(questions, documents, grades)


def bind_content(match: Match, golden: GoldenSet, ids: Ids, content: DocumentContent) -> Match:
    """Return a rule that knows how documents match by their ``content``: by the compared field, and by text."""
    values: dict[str, str] = {}
    if content.values is not None and (match.rule is MatchRule.FIELD or content.repeats):
        pairs = zip(ids, content.values.to_pylist(), strict=True)
        values = {doc_id: value for doc_id, value in pairs if value is not None}
    match = replace(match, values=values)
    if content.texts is None:
        return match
    texts = expected_texts(golden)
    if match.rule is MatchRule.TEXT and (further := _further_texts(golden, ids)):
        match = replace(match, further_texts=match_texts(further, ids, content.texts, match.share))
    return replace(match, texts=match_texts(texts, ids, content.texts, match.share)) if texts else match


def _further_texts(golden: GoldenSet, ids: Ids) -> dict[str, str]:
    """Return the normalised text of each forbidden or excluded value that is not a document's id."""
    values = list(dict.fromkeys(value for question in golden for value in (*question.forbidden, *question.excluded)))
    rows = ids.rows_of(Ids.of(values)).tolist()
    return {value: normalize_text(value) for value, row in zip(values, rows, strict=True) if row < 0}


def resolve_ids(golden: GoldenSet, match: Match, corpora: Iterable[Ids]) -> GoldenSet:
    """Return a golden set whose expected ids are read as the corpora write them; unchanged without any corpus.

    ``corpora`` are the ids of their documents, or the values of the field by which they are matched. If texts are
    matched, only forbidden and excluded ids are read so.
    """
    ids = list(corpora)

    def find_ids(names: Set[str]) -> Set[str]:
        candidates = sorted(names)
        if not match.delimiter:
            present = [corpus.rows_of(Ids.of(candidates)) >= 0 for corpus in ids]
            return {name for row, name in enumerate(candidates) if any(rows[row] for rows in present)}
        return {owner for corpus in ids for doc_id in corpus for owner in match.owners(doc_id) if owner in names}

    return golden.with_known_ids(find_ids, texts=match.rule is MatchRule.TEXT) if ids else golden


def plain_judgments(golden: GoldenSet) -> Qrels:
    """Return the expectations as judgments of the expected ids themselves."""
    judged = {question.id: {one.id: one.grade for one in question.expected} for question in golden}
    groups = {question.id: {one.id: one.group for one in question.expected} for question in golden}
    return _judgments_of(judged).with_groups(groups)


def ideal_run(golden: GoldenSet, k: int) -> Run:
    """Return the best ranking of at most ``k`` hits for each question: an expectation of each group, by grade."""
    best = {
        question.id: _first_of_groups(sorted(question.expected, key=lambda expectation: -expectation.grade))[:k]
        for question in golden
        if question.expected
    }
    return run_from_dict({query: [expectation.id for expectation in hits] for query, hits in best.items()})


def _first_of_groups(expectations: Sequence[Expectation]) -> list[Expectation]:
    """Return the expectations without those whose group an earlier one has."""
    first: dict[str | int, Expectation] = {}
    for expectation in expectations:
        first.setdefault(expectation.id if expectation.group is None else expectation.group, expectation)
    return list(first.values())


class IdKinds(NamedTuple):
    """A clause of a sentence on how two sets of ids differ in kind, and advice."""

    reason: str
    fix: str


class _Chunk(NamedTuple):
    chunk: str
    document: str
    delimiter: str


def id_kinds(expected_ids: Set[str], hits: Set[str]) -> IdKinds | None:
    """Say why none of the ids that a golden set has ``expected_ids`` was among ``hits``; None if there is no evidence.

    Reasons are another spelling of an id, ids of different forms (numbers, UUIDs and hashes, other ids), and chunks of
    named documents or documents of named chunks. Neither set is empty, and they share no id.
    """
    spelled = _spelled(expected_ids, hits)
    if spelled is not None:
        return spelled
    forms = [sorted({_form(doc_id) for doc_id in side}) for side in (expected_ids, hits)]
    if not set(forms[0]) & set(forms[1]):
        return IdKinds(
            f"expected ids are {' and '.join(forms[0])}, and the ids of hits are {' and '.join(forms[1])}",
            "return the ids that the golden set names: a key of the metadata, perhaps",
        )
    part = _chunk_of(sorted(hits), expected_ids)
    if part is not None:
        return IdKinds(
            f"the hit '{part.chunk}' is called like a chunk of '{part.document}'",
            f"if hits are chunks of the documents that the golden set names: --match document --delimiter "
            f"'{part.delimiter}'",
        )
    part = _chunk_of(sorted(expected_ids), hits)
    if part is not None:
        return IdKinds(
            f"the expected '{part.chunk}' is called like a chunk of the hit '{part.document}'",
            "return the ids of chunks, or have the golden set name documents",
        )
    return None


def _form(doc_id: str) -> str:
    if _NUMBER.fullmatch(doc_id):
        return "numbers"
    return "UUIDs or hashes" if RANDOM_ID.fullmatch(doc_id) else "names"


def _chunk_of(names: Sequence[str], documents: Set[str] | Ids) -> _Chunk | None:
    """Return the first of ``names`` that is called like one of ``documents``, a delimiter, and a number."""
    for name in (name for name in names if not _DECIMAL.fullmatch(name)):
        for delimiter in _DELIMITER.finditer(name):
            document = name[: delimiter.start()]
            if not _CHUNK.fullmatch(name, delimiter.end()):
                continue
            if _has_all(documents, [document]) if isinstance(documents, Ids) else document in documents:
                return _Chunk(name, document, delimiter[0])
    return None


def _has_all(corpus: Ids, ids: Iterable[str]) -> bool:
    return bool((corpus.rows_of(Ids.of(ids)) >= 0).all())


def _spelled(expected_ids: Set[str], hits: Set[str]) -> IdKinds | None:
    """Say whether some hit is a named id in another spelling; folders or suffix of both are never left out at once.

    ``a/index.md`` and ``b/index.md`` are two documents.
    """
    fix = "return the ids as the golden set spells them"
    spelling = spelled_otherwise(sorted(hits), Ids.of(sorted(expected_ids)))
    if spelling is not None:
        return IdKinds(f"the hit {spelling.example} in another spelling, the same {spelling.rule}", fix)
    plain = {_plain(name): name for name in sorted(expected_ids)}
    shorter = {form: name for name in sorted(expected_ids) for form in _shorter(name)}
    for hit in sorted(hits):
        forms = [shorter.get(_plain(hit)), *(plain.get(form) for form in _shorter(hit))]
        same = next(filter(None, forms), None)
        if same is not None:
            return IdKinds(f"the hit '{hit}' is '{same}' in another spelling", fix)
    return None


def _plain(doc_id: str) -> str:
    return doc_id.strip().casefold()


def _shorter(doc_id: str) -> Iterator[str]:
    """Yield an id without case and folders, and without a suffix too."""
    name = re.split(r"[/\\]", _plain(doc_id))[-1]
    yield name
    yield _SUFFIX.sub("", name)


class IdAdvice(NamedTuple):
    """A fix, "" if there is no evidence, and for each missing id the id of a document with nearly the same spelling."""

    fix: str
    nearest: Mapping[str, str]


def id_advice(golden: GoldenSet, missing: Sequence[str], corpus: Ids) -> IdAdvice:
    """Advise on the first of the ``missing`` ids of a golden set, which names its ids exactly.

    An id may join several ids, name a document that the corpus holds as chunks, name a chunk of a document that it
    holds whole, match by a rule of spelling, or be misspelt. Each cause is named, with the number of its ids if there
    are several causes. Ids whose numbers differ are never near: ``page-3`` is not a misspelt ``page-2``.
    """
    cell = _cell_of_one_id(golden, corpus)
    if cell is not None:
        return IdAdvice(f"'{cell}' in a cell of CSV is several ids; write [\"{cell}\"] for one", {})
    distinct = list(dict.fromkeys(missing))
    causes = _causes(golden, distinct, corpus)
    explained = {name for cause in causes for name in cause.names}
    spellings = respellings([name for name in distinct if name not in explained], corpus, any_number=True)
    explained.update(name for spelling in spellings for name in spelling.names)
    several = len(causes) + bool(spellings) > 1
    fixes = [f"{len(cause.names):,} of them: {cause.fix}" if several else cause.fix for cause in causes]
    fixes += [*map(str, spellings), *(["write ids alike in both"] if spellings else [])]
    left = [name for name in distinct if name not in explained][:_SAMPLED_IDS] if spellings or not causes else []
    return IdAdvice("; ".join(fixes), _spelled_nearly(left, corpus) if len(corpus) <= _MOST else {})


def value_advice(missing: Sequence[str], values: Ids) -> IdAdvice:
    """Advise on expected ids that no document has as its ``values`` of the compared field, by their spelling."""
    distinct = list(dict.fromkeys(missing))
    spellings = respellings(distinct, values, any_number=True)
    explained = {name for spelling in spellings for name in spelling.names}
    left = [name for name in distinct if name not in explained][:_SAMPLED_IDS]
    fixes = [*map(str, spellings), *(["write ids alike in both"] if spellings else [])]
    return IdAdvice("; ".join(fixes), _spelled_nearly(left, values) if len(values) <= _MOST else {})


class _Cause(NamedTuple):
    """A cause of missing expected ids, other than their spelling, and advice."""

    names: Sequence[str]
    fix: str


def _causes(golden: GoldenSet, distinct: Sequence[str], corpus: Ids) -> list[_Cause]:
    """Return the common features of the missing ids, each id under the first cause that fits."""
    causes, left = list[_Cause](), list(distinct)
    joined = next((name for name in left[:_SAMPLED_IDS] if _is_several(name, corpus)), None)
    if joined is not None:
        fix = f"'{joined}' holds several ids: separate them with ; or | in CSV, and write a list in JSON"
        several = {name for name in left if _is_several(name, corpus)}
        causes.append(_Cause(sorted(several), fix))
        left = [name for name in left if name not in several]
    match = _chunks(golden, left[:_SAMPLED_IDS], corpus)
    if match is not None:
        unmet = {unmet.expectation.id for unmet in ExpectedDocuments(golden, match, corpus).missing}
        option = f"--match {match.rule} --delimiter '{match.delimiter}'"
        fix = f"if it names documents whose chunks are in the corpus: {option}"
        causes.append(_Cause([name for name in left if name not in unmet], fix))
        left = [name for name in left if name in unmet]
    part = _chunk_of(left[:_SAMPLED_IDS], corpus)
    if part is not None:
        cause = f"'{part.chunk}' is called like a chunk of '{part.document}', which the corpus has whole"
        fix = f"{cause}: give the corpus of chunks, or have the golden set name documents"
        causes.append(_Cause([name for name in left if _chunk_of([name], corpus) is not None], fix))
    return causes


def _cell_of_one_id(golden: GoldenSet, corpus: Ids) -> str | None:
    """Return the first cell of several expected ids that is one id of the corpus; None for none."""
    cells = [question.readings[-1][0].id for question in golden if question.readings]
    rows = corpus.rows_of(Ids.of(cells)).tolist() if cells else []
    return next((cell for cell, row in zip(cells, rows, strict=True) if row >= 0), None)


def _is_several(name: str, corpus: Ids) -> bool:
    parts = dict.fromkeys(part.strip() for part in name.split(","))
    return len(parts) > 1 and _has_all(corpus, parts)


def _chunks(golden: GoldenSet, names: Sequence[str], corpus: Ids) -> Match | None:
    """Return the rule by which most of the missing ids have chunks; None if it does not match more than no rule."""
    seen: Counter[str] = Counter()
    for name in names:
        begun = corpus.values.filter(pc.starts_with(corpus.values, pattern=name)).to_pylist()
        begun = [] if all(map(_DECIMAL.fullmatch, begun)) else begun
        seen.update({match[0] for doc_id in begun if (match := _DELIMITER.match(doc_id, len(name))) is not None})
    if not seen:
        return None
    delimiter = max(sorted(seen), key=seen.__getitem__)
    rules = [Match(MatchRule.DOCUMENT, delimiter), Match(MatchRule.PREFIX, delimiter)]
    left = {rule: len(ExpectedDocuments(golden, rule, corpus).missing) for rule in rules}
    best = min(rules, key=left.__getitem__)
    return best if left[best] < len(ExpectedDocuments(golden, Match(), corpus).missing) else None


def _spelled_nearly(names: Sequence[str], corpus: Ids) -> dict[str, str]:
    alike: dict[tuple[str, ...], dict[str, str]] = {}
    for doc_id in corpus:
        alike.setdefault(_numbers(doc_id), {}).setdefault(doc_id.casefold(), doc_id)
    nearest: dict[str, str] = {}
    for name in names:
        candidates = alike.get(_numbers(name), {})
        near = difflib.get_close_matches(name.casefold(), candidates, n=1, cutoff=_NEAR)
        nearest.update((name, candidates[spelling]) for spelling in near)
    return nearest


def _numbers(doc_id: str) -> tuple[str, ...]:
    return tuple(digits.lstrip("0") for digits in _DIGITS.findall(doc_id))
