"""Examine answers before anything is scored, for signs that figures would say nothing about the backend.

An *error* makes a trial invalid: it gets no scores, and is never 0.0. A *warning* is shown next to the scores, because
clean collections have it too. ``docs/explanation/pitfalls.md`` lists the errors and warnings, with reasons. Errors that
guess what answers mean (:data:`harness.plan.config.ACCEPTABLE_CHECKS`) become warnings if the user accepts them by
name.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings, take_rows
from harness.data.field_paths import field_names, fields_having
from harness.data.filtering import QueryFilters, format_filter
from harness.data.golden_set import GoldenQuestion, GoldenSet, excluded_documents, forbidden_documents
from harness.data.id_spelling import respellings
from harness.data.problems import Finding
from harness.data.ranking import TieRule
from harness.data.types import Corpus, DocumentContent, Ids, Qrels, Run
from harness.engines.callable.answers import Answer
from harness.errors import nearest
from harness.metrics import Metric, Scores, score, score_forbidden
from harness.pipeline.check.id_match import (
    ExpectedDocuments,
    IdAdvice,
    Match,
    MatchRule,
    Missing,
    bind_content,
    id_advice,
    id_kinds,
    value_advice,
)
from harness.pipeline.check.text_match import nearest_documents
from harness.plan.config import ACCEPTABLE_CHECKS
from harness.results.check_schema import PreflightProblem
from harness.results.scored import GoldenRun
from harness.wording import counted

_MAX_EXAMPLES = 5
_ALIKE = 3
"""Fewer equal lists happen: paraphrases have them."""
_EXAMPLES = 20
_SEVERAL = 2
_ALMOST = 0.5
_FEW_WORDS = 3
"""Expected texts that all have fewer words look like ids."""
_MANY = 10
"""This many questions without any expected id cannot be chance."""


class Answers(NamedTuple):
    """Pairs of question and answer, and how they are judged: the input of every rule.

    ``documents`` is the number of documents that can be found, None if it is not known. ``expected_texts`` returns the
    texts of the documents that a question expects, as far as they are known. ``drops_itself`` says that hits with their
    question's id were left out. ``corpora`` are the ids of the corpora at hand, which decide about hits that no
    question expects if ``documents`` is None.
    """

    pairs: tuple[tuple[GoldenQuestion, Answer], ...]
    k: int
    ties: TieRule
    match: Match
    documents: int | None
    expected_texts: Callable[[GoldenQuestion], Sequence[str]] = lambda _: ()
    drops_itself: bool = False
    corpora: tuple[Ids, ...] = ()

    @property
    def answered(self) -> list[tuple[GoldenQuestion, Answer]]:
        """Questions with at least one hit."""
        return [(question, answer) for question, answer in self.pairs if answer.ids]

    @property
    def expecting(self) -> list[tuple[GoldenQuestion, Answer]]:
        """Questions that expect something."""
        return [(question, answer) for question, answer in self.pairs if question.expected]

    def is_in_corpora(self, hits: Collection[str]) -> bool:
        """Return whether one of the hits, or a document that it is a chunk of, is in a corpus at hand."""
        names = Ids.of({owner for doc_id in hits for owner in (doc_id, *self.match.owners(doc_id))})
        return any(bool((corpus.rows_of(names) >= 0).any()) for corpus in self.corpora)


def preflight(answers: Answers, accept: Collection[str] = (), earlier: Sequence[Finding] = ()) -> list[Finding]:
    """Return ``earlier`` findings and all about the answers, errors first; checks to ``accept`` are warnings."""
    rules = _RULES if answers.documents is not None else (*_RULES, *_RULES_OF_UNKNOWN_DOCUMENTS)
    findings = [*earlier, *(_accepted(finding, accept) for rule in rules for finding in rule(answers))]
    findings = findings or list(_nothing_judged(answers))  # another finding explains it
    return sorted(findings, key=lambda finding: finding.severity)


def _accepted(finding: Finding, accept: Collection[str]) -> Finding:
    """Return an error as a warning if its check is accepted, else with the option that accepts it."""
    if finding.severity == "warning" or finding.check not in ACCEPTABLE_CHECKS:
        return finding
    if finding.check in accept:
        return finding._replace(severity="warning")
    return finding._replace(fix=f"{finding.fix}; to score it all the same: --accept {finding.check}")


def answers_of(run: Run, golden: GoldenSet, k: int, corpus: Corpus | None) -> list[tuple[GoldenQuestion, Answer]]:
    """Return the first ``k`` hits of a run as answers, with texts if the ``corpus`` that its rows count is known.

    A question that the run does not name found nothing: files of runs leave such out, and hold more hits than ``k``.
    """
    position_of = {name: position for position, name in enumerate(run.query_ids)}
    made = []
    for question in golden:
        position = position_of.get(question.id)
        if position is None:
            made.append((question, Answer()))
            continue
        cut = run.of_query(position)
        rows, scores = run.rows[cut][:k], run.scores[cut][:k]
        texts = take_rows(corpus.texts, rows).to_pylist() if corpus is not None else [None] * len(rows)
        answer = Answer(tuple(run.doc_ids.take(rows)), tuple(scores.tolist()), tuple(texts))
        made.append((question, answer))
    return made


_LEFT_OUT = (
    "hits that have their question's id are left out; if questions and documents are numbered independently, keep such "
    "hits (--identical-ids keep), otherwise check whether the index holds more than the questions"
)


def _failed(answers: Answers) -> Iterator[Finding]:
    failed = [(question, answer) for question, answer in answers.pairs if answer.failure is not None]
    if not failed:
        return
    text = "\n".join(answer.failure or "" for _, answer in failed)
    fix = "correct the backend: a question without an answer cannot be scored"
    if "dimension" in text.lower():
        fix = "the index has vectors of another model: encode questions with the model that made it"
    yield Finding(
        "failed-queries",
        "error",
        f"{_counted(len(failed), answers)} failed",
        fix,
        _group_by_text(failed, lambda a: a.failure),
    )


def _empty(answers: Answers) -> Iterator[Finding]:
    empty = [(question, answer) for question, answer in answers.pairs if answer.failure is None and not answer.ids]
    if not empty:
        return
    missed = [(question, answer) for question, answer in empty if question.expected]
    all_empty = len(empty) == len(answers.pairs)
    if all_empty or (missed and len(missed) == len(answers.expecting)):
        clause = "" if all_empty else ", all that expect something,"
        yield Finding(
            "no-hits",
            "error",
            f"{_counted(len(empty if all_empty else missed), answers)}{clause} got no hits",
            _LEFT_OUT
            if answers.drops_itself
            else "look whether the index is empty, and whether questions are analysed or encoded as its documents are",
        )
        return
    if missed:  # to a question that nothing answers, no hits are the right answer
        yield Finding(
            "no-hits",
            "warning",
            f"{_counted(len(missed), answers)} got no hits, and count as 0",
            _LEFT_OUT
            if answers.drops_itself
            else "of a sparse backend, compare their words with those of the documents that they expect: if they share "
            "none, only a dense backend can find these; of another backend, look for a filter or a lowest score",
            _group_by_text(missed, lambda _: None),
        )


def _same_list(answers: Answers) -> Iterator[Finding]:
    answered = answers.answered
    lists, texts = {answer.ids for _, answer in answered}, {_plain(question.question) for question, _ in answered}
    expected = {
        frozenset(expectation.id for expectation in question.expected) for question, _ in answered if question.expected
    }
    if len(lists) != 1 or len(texts) < _ALIKE or len(expected) < 2:
        return
    (ids,) = lists
    owned = {owner for doc_id in ids for owner in answers.match.owners(doc_id)}
    if frozenset.union(*expected) <= owned or (answers.documents is not None and answers.documents <= len(ids)):
        return  # all that there is to find
    yield Finding(
        "same-list",
        "error",
        f"all {len(answered):,} answers are the same {len(ids)} hit{'' if len(ids) == 1 else 's'}: {_join_ids(ids)}",
        "look whether the question reaches the index: a constant vector, an encoder that fails, a cached answer",
    )


def _repeated(answers: Answers) -> Iterator[Finding]:
    twice = [(question, answer) for question, answer in answers.pairs if len(set(answer.ids)) < len(answer.ids)]
    if twice:
        yield Finding(
            "duplicates",
            "error",
            f"{_counted(len(twice), answers)} got a document twice",
            "return each id once; if several chunks of a document were found, return the chunks' ids"
            + (" and use --match document --delimiter '#'" if answers.match.rule is MatchRule.EXACT else ""),
            _group_by_text(
                twice,
                lambda answer: _join_ids(sorted({doc_id for doc_id in answer.ids if answer.ids.count(doc_id) > 1})),
            ),
        )


def _too_long(answers: Answers) -> Iterator[Finding]:
    long = [(question, answer) for question, answer in answers.pairs if len(answer.ids) > answers.k]
    if long:
        most = max(len(answer.ids) for _, answer in long)
        yield Finding(
            "too-many-hits",
            "error",
            f"{_counted(len(long), answers)} got more than the {answers.k} requested hits, up to {most}",
            f"make the backend respect k, or request as many as it returns: --k {most}",
            _group_by_text(long, lambda answer: f"{counted(len(answer.ids), 'hit')}"),
        )


def _unsorted(answers: Answers) -> Iterator[Finding]:
    scored = [
        (question, answer, np.diff(np.array(answer.scores, dtype=np.float32)))
        for question, answer in answers.pairs
        if answer.scores is not None
    ]
    wrong = [(question, answer) for question, answer, steps in scored if (steps > 0).any()]
    if not wrong:
        return
    rising = not any((steps < 0).any() for *_, steps in scored)
    if rising and answers.ties is TieRule.ENGINE:
        yield Finding(
            "rising-scores",
            "warning",
            "scores rise from the first hit on: they are taken for distances, and the order stays",
            "return the negative distance, or ids without scores",
        )
        return
    yield Finding(
        "unsorted-scores",
        "error",
        f"{_counted(len(wrong), answers)} got hits that are not in the order of their scores",
        "sort the hits by score, best first; if the order counts (a reranker's, MMR), return ids without scores"
        + ("; of distances, return the negative" if rising else ""),
        _group_by_text(
            wrong, lambda answer: ", ".join(f"{score:.6g}" for score in (answer.scores or ())[:_MAX_EXAMPLES])
        ),
    )


def _itself(answers: Answers) -> Iterator[Finding]:
    """Find questions among their own hits that do not expect themselves: by text, or by id if the text is unknown.

    An id counts only as the first hit, because questions and documents may both be numbered; an equal text counts at
    any rank. It is an error only if nothing else can be meant: several documents with the same text, or an expected
    document with the question's text, are documents that read like questions (an FAQ), and none of them is the
    question.
    """
    itself, sure, by_id = [], 0, 0
    for question, answer in answers.answered:
        expected = {expectation.id for expectation in question.expected}
        plain = _plain(question.question)
        texts = answer.texts or (None,) * len(answer.ids)
        alike = [
            doc_id
            for position, (doc_id, text) in enumerate(zip(answer.ids, texts, strict=True))
            if (position == 0 and doc_id == question.id if text is None else _plain(text) == plain)
        ]
        unexpected = [doc_id for doc_id in alike if answers.match.owner(doc_id, dict.fromkeys(expected)) is None]
        if not unexpected:
            continue
        itself.append((question, answer))
        by_id += question.id in unexpected
        sure += len(alike) == 1 and plain not in map(_plain, answers.expected_texts(question))
    if not itself:
        return
    most = sure >= 2 and 2 * sure >= len(answers.answered)
    fix = "take the questions out of the corpus: each of them holds a place of an answer"
    if by_id == len(itself) and answers.documents is not None:
        fix = f"leave hits that have their question's id out: --identical-ids drop; or {fix}"
    if not most:
        fix = f"if these documents are the questions themselves, {fix}; answers that read like questions may stay"
    verb = "found itself among its hits" if len(itself) == 1 else "found themselves among their hits"
    yield Finding(
        "query-in-results",
        "error" if most else "warning",
        f"{_counted(len(itself), answers)} {verb}",
        fix,
        _group_by_text(itself, lambda _: None),
    )


def _split_ids(answers: Answers) -> Iterator[Finding]:
    """Find hits that have a cell of CSV as their id, which was read as several expected ids."""
    cells = [(question, question.readings[-1][0].id) for question, _ in answers.pairs if question.readings]
    if not cells:
        return
    owners = {
        owner for _, answer in answers.answered for doc_id in answer.ids for owner in answers.match.owners(doc_id)
    }
    split = [(question, cell) for question, cell in cells if cell in owners]
    if split:
        cell = split[0][1]
        yield Finding(
            "split-ids",
            "error",
            f"{_counted(len(split), answers)} expected an id with ; or |, '{cell}', which a cell of CSV was cut at",
            f'write a list in JSON into the cell: ["{cell}"]',
            tuple(f"question '{question.id}'" for question, _ in split[:_MAX_EXAMPLES]),
        )


def _foreign(answers: Answers) -> Iterator[Finding]:
    """Find that no hit is expected by any question, if the documents cannot be listed.

    With corpora at hand their ids decide: an error if they have none of the hits. Without corpora, an error if the ids
    are of two kinds, however few questions there are, or if many were missed: with ten questions, even a backend that
    finds a quarter of the expected documents misses all in only 6 % of cases.
    """
    if any(_split_ids(answers)):
        return
    expecting = [(question, answer) for question, answer in answers.answered if question.expected]
    expected_ids = {expectation.id for question, _ in expecting for expectation in question.expected}
    hits = {doc_id for _, answer in expecting for doc_id in answer.ids}
    if not expecting or any(owner in expected_ids for doc_id in hits for owner in answers.match.owners(doc_id)):
        return
    if answers.is_in_corpora(hits):
        return
    if all(question.texts for question, _ in expecting):
        yield _no_text_matched(answers, len(expecting))
        return
    hits = {answers.match.values.get(doc_id, doc_id) for doc_id in hits}
    count = "the one question" if len(expecting) == 1 else f"any of {len(expecting):,} questions"
    nor_corpus = " or that is in the corpus" if answers.corpora else ""
    message = (
        f"no hit of {count} has an id that the golden set names{nor_corpus}: it names "
        f"{_join_ids(sorted(expected_ids))}, and "
        f"the hits are {_join_ids(sorted(hits))}"
    )
    kinds, advice = id_kinds(expected_ids, hits), _metadata_advice(expecting)
    if kinds is not None:
        yield Finding("missing-ids", "error", f"{message}; {kinds.reason}", advice or kinds.fix)
        return
    yield Finding(
        "missing-ids",
        "error" if answers.corpora or len(expecting) >= _MANY else "warning",
        message,
        advice
        or "look whether the backend returns the ids that the golden set names (a key of the metadata, perhaps)"
        + (", or chunks of them: --match document --delimiter '#'" if answers.match.rule is MatchRule.EXACT else ""),
    )


def _metadata_advice(expecting: Sequence[tuple[GoldenQuestion, Answer]]) -> str:
    """Advise to match by the field of hits that is an expected id of a question for which they were found; "" if none.

    Unlike the documents of a corpus, hits need not have every expected value.
    """
    fields = Counter[str]()
    for question, answer in expecting:
        expected = {expectation.id for expectation in question.expected}
        fields.update({path for record in answer.metadata for path in fields_having(record, expected)})
    if not fields:
        return ""
    field, count = max(fields.items(), key=lambda item: item[1])
    option = f"--match {shlex.quote(f'field:{field}')}"
    return f"hits for {counted(count, 'question')} have an expected id in their field '{field}': {option}"


def _no_text_matched(answers: Answers, count: int) -> Finding:
    """Return the finding that no hit matches any expected text."""
    questions = "the one question" if count == 1 else f"any of {count:,} questions"
    return Finding(
        "missing-texts",
        "error" if count >= _MANY else "warning",
        f"no hit of {questions} contains an expected text, or is a part of one",
        "look whether the backend searches the documents that the golden set was made from, and returns their texts "
        "unchanged"
        + ("" if answers.match.share < 1 else "; to take documents with most of a text's words: --match text:0.8"),
    )


def _spelled_otherwise(answers: Answers) -> Iterator[Finding]:
    """Find expected ids that hits have in another spelling, if the documents cannot be listed and some ids match."""
    by_id = [question for question, _ in answers.expecting if not question.texts]
    expected_ids = {expectation.id for question in by_id for expectation in question.expected}
    hits = {owner for _, answer in answers.answered for doc_id in answer.ids for owner in answers.match.owners(doc_id)}
    missing = sorted(expected_ids - hits)
    spellings = respellings(missing, Ids.of(sorted(hits))) if len(missing) < len(expected_ids) else []
    if spellings:
        verb = "is" if len(missing) == 1 else "are"
        yield Finding(
            "ids-spelled-otherwise",
            "warning",
            f"{len(missing):,} of {counted(len(expected_ids), 'expected id')} {verb} in no hit, and "
            f"{', and '.join(map(str, spellings))}",
            "write ids alike in the golden set and in the backend: an id in another spelling counts as another id",
        )


def _nothing_judged(answers: Answers) -> Iterator[Finding]:
    """Find several questions with hits and no hit that any question expects, if the documents are known."""
    expecting = [(question, answer) for question, answer in answers.answered if question.expected]
    expected_ids = {expectation.id for question, _ in expecting for expectation in question.expected}
    hits = {doc_id for _, answer in expecting for doc_id in answer.ids}
    if len(expecting) < _SEVERAL or (answers.documents is None and not answers.is_in_corpora(hits)):
        return
    if any(owner in expected_ids for doc_id in hits for owner in answers.match.owners(doc_id)):
        return
    yield Finding(
        "nothing-judged",
        "warning",
        f"no hit of any of {len(expecting):,} questions is expected by any question, so every metric is 0: expected "
        f"are {_join_ids(sorted(expected_ids))}, and the hits are {_join_ids(sorted(hits))}",
        "check that the backend searches these documents, and that it encodes questions as it does documents",
    )


_RULES: tuple[Callable[[Answers], Iterator[Finding]], ...] = (
    _failed,
    _empty,
    _same_list,
    _repeated,
    _too_long,
    _unsorted,
    _itself,
    _split_ids,
)
_RULES_OF_UNKNOWN_DOCUMENTS: tuple[Callable[[Answers], Iterator[Finding]], ...] = (_foreign, _spelled_otherwise)
"""Rules about ids, for documents that cannot be listed: otherwise the expected ids were compared with theirs before."""


def _counted(count: int, answers: Answers) -> str:
    return f"{count:,} of {counted(len(answers.pairs), 'question')}"


def _group_by_text(
    about: Sequence[tuple[GoldenQuestion, Answer]], describe: Callable[[Answer], str | None]
) -> tuple[str, ...]:
    """List the first questions with a description of each, grouped by equal descriptions."""
    ids_by_text: dict[str | None, list[str]] = {}
    for question, answer in about:
        ids_by_text.setdefault(describe(answer), []).append(question.id)
    lines = []
    for text, ids in list(ids_by_text.items())[:_MAX_EXAMPLES]:
        who = f"question '{ids[0]}'" if len(ids) == 1 else f"questions {_join_ids(ids)}"
        lines.append(who if text is None else f"{who}: {text}")
    left = sum(len(ids) for ids in list(ids_by_text.values())[_MAX_EXAMPLES:])
    return (*lines, *((f"… and {left:,} more",) if left else ()))


def _join_ids(ids: Sequence[str]) -> str:
    return ", ".join(f"'{doc_id}'" for doc_id in ids[:_MAX_EXAMPLES]) + (", …" if len(ids) > _MAX_EXAMPLES else "")


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


class LoadedContent(NamedTuple):
    """A corpus that was loaded: its ids, and the content by which its documents match."""

    ids: Ids
    content: DocumentContent

    def complete(self, values: list[str | None], ids: Ids, name: str) -> None:
        """Fill in the missing texts or values of documents by their ids; ``name`` is a column of the content."""
        column = getattr(self.content, name)
        if column is None:
            return
        rows = self.ids.rows_of(ids)
        absent = [position for position, value in enumerate(values) if value is None and rows[position] >= 0]
        for position, value in zip(absent, take_rows(column, rows[absent]).to_pylist(), strict=True):
            values[position] = value


def _column(column: pa.ChunkedArray | None, run: Run) -> pa.ChunkedArray:
    return column if column is not None else pa.chunked_array([strings([None] * len(run.doc_ids))])


def _absent(column: pa.ChunkedArray, noun: str, fix: str) -> list[Finding]:
    """Find documents without content by which they could match: an error if none has it."""
    if not column.null_count:
        return []
    all_absent = column.null_count == len(column)
    count = (
        f"none of {counted(len(column), 'returned document')} has"
        if all_absent
        else (f"{column.null_count:,} of {len(column):,} returned documents have no")
    )
    return [
        Finding(
            "no-content",
            "error" if all_absent else "warning",
            f"{count} {noun}, so {'nothing can match' if all_absent else 'these match nothing'}",
            fix,
        )
    ]


class CheckFindings(NamedTuple):
    """Answers of a backend, its questions' expectations, and the findings before it was scored."""

    answered: GoldenRun
    expected: ExpectedDocuments
    findings: tuple[Finding, ...]


@dataclass(frozen=True, eq=False)
class Examiner:
    """Examines runs of a golden set. ``corpus`` is None if a backend has its own documents.

    Checks to ``accept`` are warnings. ``drops_itself`` says that hits with their question's id are left out.
    ``loaded`` are corpora whose documents backends with their own documents may share. ``forbidden_metrics`` count
    the documents that questions forbid. ``if_relevant`` also scores answers as if every unjudged hit were relevant.
    ``most_matching`` is the largest number of documents that the filter of a question leaves, None without filters.
    """

    golden: GoldenSet
    match: Match
    k: int
    ties: TieRule
    expected: ExpectedDocuments
    corpus: Corpus | None = None
    accept: Collection[str] = ()
    drops_itself: bool = False
    loaded: tuple[LoadedContent, ...] = ()
    forbidden_metrics: tuple[Metric, ...] = ()
    if_relevant: bool = False
    most_matching: int | None = None
    _findings: WeakKeyDictionary[Run, tuple[Finding, ...]] = field(default_factory=WeakKeyDictionary, init=False)
    _expected: WeakKeyDictionary[Ids, ExpectedDocuments] = field(default_factory=WeakKeyDictionary, init=False)

    def judge(self, run: Run) -> Qrels | None:
        """Return judgments by which to score a run; None for a run that cannot be scored."""
        findings = self.findings(run)
        return None if _errors(findings) else self._expected_of(run).judgments(run, self.ties)

    def findings(self, run: Run) -> tuple[Finding, ...]:
        """Return the anomalies of an engine's run."""
        if run not in self._findings:
            corpus = self.corpus if self.corpus is not None and run.doc_ids is self.corpus.ids else None
            documents = len(self.corpus) if self.corpus is not None else len(run.doc_ids)
            documents = documents if self.most_matching is None else min(documents, self.most_matching)
            missing, unknown, expected = list[Finding](), list[Finding](), self._expected_of(run)
            if self.corpus is None:
                expected.refuse_contradictions()
                missing = [
                    *self._unmatchable(run),
                    *missing_ids(self.golden, expected, "the index", self.accept, external=True),
                ]
                unknown = unknown_names(expected, "the index")
            pairs = answers_of(run, self.golden, self.k, corpus)
            self._findings[run] = (*self._preflight(pairs, documents, missing, expected), *unknown)
        return self._findings[run]

    def examined(self, answered: GoldenRun) -> CheckFindings:
        """Return a backend with the findings about its run; one that :meth:`judge` refused has no scores already."""
        if answered.run is None:
            return CheckFindings(answered, self.expected, tuple(_failure_findings(answered)))
        findings, expected = self.findings(answered.run), self._expected_of(answered.run)
        errors = _errors(findings)
        forbidden = self._forbidden(answered.run, expected) if self.forbidden_metrics and not errors else None
        return CheckFindings(replace(answered, problems=errors, forbidden=forbidden), expected, findings)

    def _forbidden(self, run: Run, expected: ExpectedDocuments) -> Scores:
        return score_forbidden(run, expected.forbidden(run), self.forbidden_metrics, ties=self.ties)

    def excluded(self, run: Run) -> Mapping[str, Sequence[str]]:
        """Return the documents of a run that each question excludes, and excluded ids that none of them has."""
        match = bind_content(self.match, self.golden, run.doc_ids, self._content_of(run))
        return ExpectedDocuments(self.golden, match, run.doc_ids).excluded

    def examined_answers(
        self, answered: GoldenRun, answers: Sequence[Answer], metrics: Sequence[Metric], relevance: int
    ) -> CheckFindings:
        """Examine a backend by its ``answers``; score it if nothing is wrong."""
        if answered.run is None:
            return CheckFindings(answered, self.expected, ())
        pairs = list(zip(self.golden, answers, strict=True))
        expected = self._expected_of(answered.run, has_all=False)
        fields = field_names(record for answer in answers for record in answer.metadata)
        findings = tuple(self._preflight(pairs, None, self._unmatchable(answered.run, fields), expected))
        if not _errors(findings):
            judged = expected.judgments(answered.run, self.ties)
            scores = score(
                answered.run,
                judged,
                list(metrics),
                ties=self.ties,
                relevance=relevance,
                if_relevant=self.if_relevant,
            )
            forbidden = self._forbidden(answered.run, expected) if self.forbidden_metrics else None
            no_scores = _why_no_scores(answers, findings)
            answered = replace(answered, scores=scores, forbidden=forbidden, no_scores=no_scores)
        return CheckFindings(replace(answered, problems=_errors(findings)), expected, findings)

    def _expected_of(self, run: Run, *, has_all: bool = True) -> ExpectedDocuments:
        """Return the expectations against the documents of a run; ``has_all`` says that it lists every document."""
        if self.corpus is not None:
            return self.expected
        if run.doc_ids not in self._expected:
            content = self._content_of(run)
            match = bind_content(self.match, self.golden, run.doc_ids, content)
            self._expected[run.doc_ids] = ExpectedDocuments(
                self.golden, match, run.doc_ids if has_all else None, all_texts=content.complete
            )
        return self._expected[run.doc_ids]

    def _content_of(self, run: Run) -> DocumentContent:
        """Return the content of a run's documents: from the backend, or else by their ids from loaded corpora."""
        content = run.content if run.content is not None else DocumentContent()
        if self.match.by_id and not self.expected.texts:
            return content
        columns = {}
        for name in ("values", "texts"):
            column = getattr(content, name)
            values = [None] * len(run.doc_ids) if column is None else column.to_pylist()
            for corpus in self.loaded if None in values else ():
                corpus.complete(values, run.doc_ids, name)
            columns[name] = pa.chunked_array([strings(values)])
        return replace(content, **columns)

    def _unmatchable(self, run: Run, fields: Collection[str] = ()) -> list[Finding]:
        """Find hits that cannot match because their text or the compared field is not known.

        ``fields`` are fields that hits without the compared field have.
        """
        hits = np.unique(run.rows)
        if not len(hits):
            return []
        content, findings = self._content_of(run), []
        if self.match.rule is MatchRule.FIELD:
            findings += _absent(
                take_rows(_column(content.values, run), hits),
                f"'{self.match.field}'{nearest(self.match.field, fields)}",
                "return documents with that field, give the corpus that has it (--corpus), or name another field "
                "(--match field:NAME)",
            )
        if self.golden.expects_texts:
            findings += _absent(
                take_rows(_column(content.texts, run), hits),
                "text",
                "expected texts need the texts of hits: return them (page_content or text of an object, texts= of an "
                "endpoint), or give the corpus that has them (--corpus)",
            )
        return findings

    def _preflight(
        self,
        pairs: Sequence[tuple[GoldenQuestion, Answer]],
        documents: int | None,
        earlier: Sequence[Finding],
        expected: ExpectedDocuments,
    ) -> list[Finding]:
        answers = Answers(
            tuple(pairs),
            self.k,
            self.ties,
            expected.match,
            documents,
            self._expected_texts,
            self.drops_itself,
            tuple(corpus.ids for corpus in self.loaded),
        )
        return preflight(answers, self.accept, earlier)

    def _expected_texts(self, question: GoldenQuestion) -> list[str]:
        """Return the texts of the documents that a question expects; none if the corpus is not known."""
        if self.corpus is None:
            return []
        rows = self.corpus.ids.rows_of(Ids.of(self.expected.documents(question)))
        texts: list[str] = take_rows(self.corpus.texts, rows).to_pylist()
        return texts


def _why_no_scores(answers: Sequence[Answer], findings: Sequence[Finding]) -> str:
    """Say why the hits of a backend have no scores that a threshold could be compared with; empty if they have."""
    if any(answer.ids and answer.scores is None for answer in answers):
        return "returns no scores"
    if any(finding.check == "rising-scores" for finding in findings):
        return "returns scores that rise, which are distances"
    return ""


def repeated_questions(golden: GoldenSet) -> list[Finding]:
    """Find texts that several questions ask: each counts, and no answer fits all if they expect different documents."""
    by_text: dict[tuple[str, str], dict[str, frozenset[str]]] = {}
    for question in golden:
        expected = frozenset(expectation.id for expectation in question.expected)
        # the same text among other documents is another question
        meaning = _plain(question.question), str(sorted((question.filter or {}).items()))
        by_text.setdefault(meaning, {})[question.id] = expected
    several = [expected for expected in by_text.values() if len(expected) > 1]
    unlike = [expected for expected in several if len(set(expected.values())) > 1]
    if not several:
        return []
    which = ", which expect different documents" if unlike else ": each counts by itself"
    fix = "make each a single question that expects all of them: no answer can be right for several"
    examples = [
        "; ".join(f"question '{name}' expects {_join_ids(sorted(ids)) or 'nothing'}" for name, ids in expected.items())
        for expected in (unlike or several)[:_MAX_EXAMPLES]
    ]
    return [
        Finding(
            "repeated-questions",
            "warning",
            f"{counted(len(unlike or several), 'text is', 'texts are')} shared by several questions{which}",
            fix
            if unlike
            else "keep one of each, or leave their ids out: rows with the same text are then one question",
            tuple(examples),
        )
    ]


def missing_ids(
    golden: GoldenSet,
    expected: ExpectedDocuments,
    corpus_name: str,
    accept: Collection[str] = (),
    *,
    external: bool = False,
    field_of_values: Callable[[Collection[str]], str | None] = lambda _: None,
) -> list[Finding]:
    """Find expected ids that no document can meet: questions that nothing could answer rightly.

    See :func:`missing_texts` for expected texts.

    If all are missing, it is another corpus, which the user cannot ``accept``; the ids of an ``external`` index or
    store may have changed when its documents were indexed again. ``field_of_values`` returns a field of the documents
    that holds all of some values, None if no field does: such a field is proposed if it holds every expected id.
    """
    by_id = [unmet for unmet in expected.missing if unmet.expectation.id not in expected.texts]
    if not by_id:
        return []
    match = expected.match
    rule = {
        MatchRule.EXACT: "no document has the id",
        MatchRule.DOCUMENT: f"no document is called so, or so before its last '{match.delimiter}'",
        MatchRule.PREFIX: f"no document is called so, or begins so before a '{match.delimiter}'",
        MatchRule.FIELD: f"no document has it in '{match.field}'",
    }[match.rule]
    advice = IdAdvice("", {})
    missing_names = [unmet.expectation.id for unmet in by_id]
    if match.values:
        advice = value_advice(missing_names, Ids.of(dict.fromkeys(match.values.values())))
    elif match.rule is MatchRule.EXACT and expected.corpus_ids is not None:
        advice = id_advice(golden, missing_names, expected.corpus_ids)
    fix = "correct the ids of the golden set, or give the documents that it was made for"
    count = "1 expected id is" if len(by_id) == 1 else f"{len(by_id):,} expected ids are"
    message = f"{count} not in {corpus_name}: {rule}"
    all_missing = len(by_id) == sum(len(question.expected) for question in golden)
    all_new = external and all_missing and len(by_id) >= _SEVERAL and match.by_id and advice == IdAdvice("", {})
    if all_new and expected.corpus_ids is not None:
        ids = _join_ids(expected.corpus_ids.take(np.arange(min(_ALIKE, len(expected.corpus_ids)))))
        message = (
            f"no expected id is in {corpus_name}: all of its ids differ ({ids} …); they are new if it was indexed again"
        )
        fix = (
            "expect a field of the metadata that stays the same whenever documents are indexed, and name it "
            "(--match field:NAME), or index them under your own ids; if it holds other documents, name the right index"
        )
    hints = {name: f" (did you mean '{near}'?)" for name, near in advice.nearest.items()}
    finding = Finding(
        "missing-ids",
        "error",
        message,
        "; ".join(filter(None, (fix, advice.fix, _field_advice(golden, expected, field_of_values)))),
        _missing_examples(golden, by_id, hints),
    )
    return [finding if all_missing else _accepted(finding, accept)]


def _field_advice(
    golden: GoldenSet, expected: ExpectedDocuments, field_of_values: Callable[[Collection[str]], str | None]
) -> str:
    """Advise to match by the field of the documents that holds every expected id; "" if no field does."""
    ids = {expectation.id for question in golden for expectation in question.expected} - expected.texts.keys()
    field = field_of_values(ids)
    if field is None:
        return ""
    return f"every expected id is a value of the documents' field '{field}': --match {shlex.quote(f'field:{field}')}"


def missing_texts(
    golden: GoldenSet,
    expected: ExpectedDocuments,
    texts: pa.ChunkedArray,
    corpus_name: str,
    accept: Collection[str] = (),
) -> list[Finding]:
    """Find expected texts that no document holds, each with the nearest document.

    A warning, because texts are rarely cut alike for long; an error from half of the texts on, which are then of other
    documents. If all are missing, the user cannot ``accept`` it.
    """
    unmet = [missing for missing in expected.missing if missing.expectation.id in expected.texts]
    if not unmet or expected.corpus_ids is None:
        return []
    names = list(dict.fromkeys(missing.expectation.id for missing in unmet))
    some = {name: expected.texts[name] for name in names[:_EXAMPLES]}
    nearest = nearest_documents(some, expected.corpus_ids, texts)
    hints = {
        name: f"; nearest is document '{near.doc_id}' with {near.share:.0%} of the words: '{near.beginning}'"
        for name, near in nearest.items()
    }
    total, match = len(expected.texts), expected.match
    verb = "1 expected text is" if len(names) == 1 else f"{len(names):,} of {counted(total, 'expected text')} are"
    how = (
        "no document contains it or is a part of it" if len(names) == 1 else "no document contains or is a part of them"
    )
    share = f", nor has {match.share:.0%} of the words in order" if match.share < 1 else ""
    least = min((near.share for near in nearest.values()), default=0.0)
    fix = "take the golden set's texts from these documents"
    if match.rule is MatchRule.TEXT and all(len(text.split()) < _FEW_WORDS for text in expected.texts.values()):
        fix = (
            "they look like ids: leave --match text out, or name the field of the texts (--columns "
            "expected_texts=FIELD)"
        )
    elif least >= _ALMOST and match.share > least:
        fix = f"{fix}; to take documents with most of a text's words: --match text:{math.floor(least * 10) / 10:g}"
    finding = Finding(
        "missing-texts",
        "error" if 2 * len(names) >= total else "warning",
        f"{verb} not in {corpus_name}: {how}{share}",
        fix,
        _missing_examples(golden, unmet, hints),
    )
    return [finding if len(names) == total else _accepted(finding, accept)]


def _missing_examples(golden: GoldenSet, missing: Sequence[Missing], hints: Mapping[str, str]) -> tuple[str, ...]:
    examples = [
        f"{golden.source}, line {question.line}: question '{question.id}' expects '{expectation.id}'"
        f"{hints.get(expectation.id, '')}"
        for question, expectation in missing[:_EXAMPLES]
    ]
    left = len(missing) - _EXAMPLES
    return (*examples, *((f"… and {left:,} more",) if left > 0 else ()))


def unknown_names(expected: ExpectedDocuments, corpus_name: str) -> list[Finding]:
    """Find forbidden and excluded ids that no document has: they change nothing, and may be misspelt."""
    questions = expected.golden
    kinds = {
        "forbidden": (forbidden_documents(questions), "no backend can return them"),
        "excluded": (excluded_documents(questions), "they leave no hit out"),
    }
    findings = []
    for kind, (ids, effect) in kinds.items():
        unknown = expected.unknown(chain.from_iterable(ids.values()))
        count = f"1 {kind} id is" if len(unknown) == 1 else f"{len(unknown):,} {kind} ids are"
        if unknown:
            finding = f"{count} not in {corpus_name}: {_join_ids(unknown)}"
            fix = f"correct them if they are misspelt; {effect}"
            findings.append(Finding(f"unknown-{kind}-ids", "warning", finding, fix))
    return findings


def excluded_by_filters(golden: GoldenSet, expected: ExpectedDocuments, filtered: QueryFilters) -> list[Finding]:
    """Find expected documents that the filter of their own question excludes: no backend can return them."""
    if expected.corpus_ids is None:
        return []
    excluded = []
    for number, question in enumerate(golden):
        documents = expected.documents(question)
        rows = expected.corpus_ids.rows_of(Ids.of(documents))
        matching = filtered.groups[int(filtered.group_of[number])].matching
        outside = [doc_id for doc_id, row in zip(documents, rows.tolist(), strict=True) if not matching[row]]
        if outside:
            conditions = format_filter(question.filter or {})
            location = f"{golden.source}, line {question.line}: question '{question.id}'"
            excluded.append(f"{location}, {conditions}, expects {_join_ids(outside)}")
    if not excluded:
        return []
    more = [f"… and {len(excluded) - _EXAMPLES:,} more"] if len(excluded) > _EXAMPLES else []
    return [
        Finding(
            "excluded-by-filter",
            "warning",
            f"{counted(len(excluded), 'question expects', 'questions expect')} documents that the question's own "
            "filter excludes: no backend can return them",
            "correct the filter or the expected ids of these questions",
            (*excluded[:_EXAMPLES], *more),
        )
    ]


def unmatched_filters(golden: GoldenSet, problems: Sequence[str]) -> list[Finding]:
    """Find questions whose filter no document of an external index matches; ``problems`` say why, "" if one does."""
    unmatched = [(question, problem) for question, problem in zip(golden, problems, strict=bool(problems)) if problem]
    if not unmatched:
        return []
    more = [f"… and {len(unmatched) - _EXAMPLES:,} more"] if len(unmatched) > _EXAMPLES else []
    return [
        Finding(
            "filter-without-documents",
            "warning",
            f"{counted(len(unmatched), 'question has a filter', 'questions have filters')} that no document of the "
            "index matches",
            "correct the filters, or name the index that has these documents",
            (
                *(
                    f"{golden.source}, line {question.line}: question '{question.id}': {problem}"
                    for question, problem in unmatched[:_EXAMPLES]
                ),
                *more,
            ),
        )
    ]


def problem_of(finding: Finding, *, backend: str | None = None, dataset: str | None = None) -> PreflightProblem:
    """Return a finding as the report stores it."""
    return PreflightProblem(
        check=finding.check,
        backend=backend,
        dataset=dataset,
        message=finding.message,
        fix=finding.fix,
        examples=list(finding.examples),
    )


def _errors(findings: Sequence[Finding]) -> tuple[str, ...]:
    return tuple(finding.check for finding in findings if finding.severity == "error")


def _failure_findings(answered: GoldenRun) -> list[Finding]:
    """Find an index that was refused because its vectors have other dimensions than the model gives."""
    error = answered.trial.error
    if error is None or error.type != "RejectedInputError" or "dimensions" not in error.message:
        return []
    reason, _, fix = error.message.partition("\n")
    return [Finding("dimension", "error", reason, fix.strip() or "name the model that the index was made with: model=")]
