"""What is looked at before anything is scored: signs that figures would say nothing of the retriever.

An *error* makes a subject invalid: it gets no scores, and is never 0.0. A *warning* is shown beside the scores, because
clean collections have it too. ``docs/how-to/check-what-you-already-run.md`` lists which is which, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from harness.data.arrow import take_rows
from harness.data.golden_set import GoldenQuestion, GoldenSet
from harness.data.problems import Finding
from harness.data.ranking import TieRule
from harness.data.types import Corpus, Run
from harness.engines.callable.answers import Answer
from harness.pipeline.check.id_kinds import kinds_of
from harness.pipeline.check.id_match import Match
from harness.wording import counted

__all__ = ["Looked", "answers_of", "preflight"]

_SHOWN = 5
_ALIKE = 3
"""Fewer equal lists happen: paraphrases have them."""
_MANY = 10
"""So many questions without one id that anything expects is no bad luck."""


class Looked(NamedTuple):
    """What the rules look at: questions with their answers, and how they are judged.

    ``documents`` is the number of documents that can be found, None where nobody knows.
    """

    asked: tuple[tuple[GoldenQuestion, Answer], ...]
    k: int
    ties: TieRule
    match: Match
    documents: int | None

    @property
    def answered(self) -> list[tuple[GoldenQuestion, Answer]]:
        """Questions with at least one hit."""
        return [(question, answer) for question, answer in self.asked if answer.ids]

    @property
    def expecting(self) -> list[tuple[GoldenQuestion, Answer]]:
        """Questions that expect something."""
        return [(question, answer) for question, answer in self.asked if question.expected]


def preflight(looked: Looked) -> list[Finding]:
    """Everything that is odd about the answers, errors first."""
    found = [finding for rule in _RULES for finding in rule(looked)]
    return sorted(found, key=lambda one: one.severity)


def answers_of(run: Run, golden: GoldenSet, k: int, corpus: Corpus | None) -> list[tuple[GoldenQuestion, Answer]]:
    """The first ``k`` hits of a run as answers, with texts where the ``corpus`` that its rows count is known.

    A question that the run does not name found nothing: files of runs leave such out, and hold more hits than ``k``.
    """
    places = {name: place for place, name in enumerate(run.query_ids)}
    made = []
    for question in golden:
        place = places.get(question.id)
        if place is None:
            made.append((question, Answer()))
            continue
        cut = run.of_query(place)
        rows, scores = run.rows[cut][:k], run.scores[cut][:k]
        texts = take_rows(corpus.texts, rows).to_pylist() if corpus is not None else [None] * len(rows)
        answer = Answer(tuple(run.doc_ids.take(rows)), tuple(scores.tolist()), tuple(texts))
        made.append((question, answer))
    return made


def _failed(looked: Looked) -> Iterator[Finding]:
    failed = [(question, answer) for question, answer in looked.asked if answer.failure is not None]
    if not failed:
        return
    text = "\n".join(answer.failure or "" for _, answer in failed)
    fix = "mend the retriever: a question without an answer cannot be scored"
    if "dimension" in text.lower():
        fix = "the index has vectors of another model: encode questions with the one that it was made with"
    yield Finding(
        "failed-queries", "error", f"{_counted(len(failed), looked)} failed", fix, _said(failed, lambda a: a.failure)
    )


def _empty(looked: Looked) -> Iterator[Finding]:
    empty = [(question, answer) for question, answer in looked.asked if answer.failure is None and not answer.ids]
    if not empty:
        return
    missed = [(question, answer) for question, answer in empty if question.expected]
    nothing_at_all = len(empty) == len(looked.asked)
    if nothing_at_all or (missed and len(missed) == len(looked.expecting)):
        what = "" if nothing_at_all else ", all that expect something,"
        yield Finding(
            "no-hits",
            "error",
            f"{_counted(len(empty if nothing_at_all else missed), looked)}{what} got no hits",
            "look whether the index is empty, and whether questions are analysed or encoded as its documents are",
        )
        return
    if missed:  # to a question that nothing answers, no hits are the right answer
        yield Finding(
            "no-hits",
            "warning",
            f"{_counted(len(missed), looked)} got no hits, and count as 0",
            "nothing to do where no document shares a word with them; else look at why",
            _said(missed, lambda _: None),
        )


def _same_list(looked: Looked) -> Iterator[Finding]:
    answered = looked.answered
    lists, texts = {answer.ids for _, answer in answered}, {_plain(question.question) for question, _ in answered}
    expected = {frozenset(one.id for one in question.expected) for question, _ in answered if question.expected}
    if len(lists) != 1 or len(texts) < _ALIKE or len(expected) < 2:
        return
    (ids,) = lists
    owned = {owner for one in ids for owner in looked.match.owners(one)}
    if frozenset.union(*expected) <= owned or (looked.documents is not None and looked.documents <= len(ids)):
        return  # all that there is to find
    yield Finding(
        "same-list",
        "error",
        f"all {len(answered):,} answers are the same {len(ids)} hit{'' if len(ids) == 1 else 's'}: {_listed(ids)}",
        "look whether the question reaches the index: a constant vector, an encoder that fails, a cached answer",
    )


def _repeated(looked: Looked) -> Iterator[Finding]:
    twice = [(question, answer) for question, answer in looked.asked if len(set(answer.ids)) < len(answer.ids)]
    if twice:
        yield Finding(
            "duplicates",
            "error",
            f"{_counted(len(twice), looked)} got a document twice",
            "return each id once; where they are documents of which several chunks were found, return the chunks' ids "
            "and use --match document --delimiter",
            _said(twice, lambda answer: _listed(sorted({one for one in answer.ids if answer.ids.count(one) > 1}))),
        )


def _too_long(looked: Looked) -> Iterator[Finding]:
    long = [(question, answer) for question, answer in looked.asked if len(answer.ids) > looked.k]
    if long:
        most = max(len(answer.ids) for _, answer in long)
        yield Finding(
            "too-many-hits",
            "error",
            f"{_counted(len(long), looked)} got more than the {looked.k} hits that were asked for, up to {most}",
            f"have the retriever heed k, or ask for what it gives: --k {most}",
            _said(long, lambda answer: f"{counted(len(answer.ids), 'hit')}"),
        )


def _unsorted(looked: Looked) -> Iterator[Finding]:
    scored = [
        (question, answer, np.diff(np.array(answer.scores, dtype=np.float32)))
        for question, answer in looked.asked
        if answer.scores is not None
    ]
    wrong = [(question, answer) for question, answer, steps in scored if (steps > 0).any()]
    if not wrong:
        return
    rising = not any((steps < 0).any() for *_, steps in scored)
    if rising and looked.ties is TieRule.ENGINE:
        yield Finding(
            "rising-scores",
            "warning",
            "scores rise from the first hit on: they are taken for distances, and the order stays",
            "return the negative distance, or ids alone",
        )
        return
    yield Finding(
        "unsorted-scores",
        "error",
        f"{_counted(len(wrong), looked)} got hits that are not in the order of their scores",
        "sort the hits by score, the best first; where the order is meant (a reranker's, MMR), return ids alone"
        + ("; of distances, return the negative" if rising else ""),
        _said(wrong, lambda answer: ", ".join(f"{one:.6g}" for one in (answer.scores or ())[:_SHOWN])),
    )


def _itself(looked: Looked) -> Iterator[Finding]:
    """The question among its own hits, where it does not expect it: by its text, or where that is unknown by its id.

    An id counts as the first hit alone, where an equal text would be: questions and documents may both be numbered.
    """
    found = []
    for question, answer in looked.answered:
        expected = {one.id for one in question.expected}
        for place, doc_id in enumerate(answer.ids):
            text = answer.texts[place] if answer.texts else None
            same = place == 0 and doc_id == question.id if text is None else _plain(text) == _plain(question.question)
            if same and looked.match.owner(doc_id, dict.fromkeys(expected)) is None:
                found.append((question, answer))
                break
    if not found:
        return
    most = len(found) >= 2 and 2 * len(found) >= len(looked.answered)
    yield Finding(
        "query-in-results",
        "error" if most else "warning",
        f"{_counted(len(found), looked)} found itself among its hits",
        "take the questions out of the collection: each of them holds a place of an answer",
        _said(found, lambda _: None),
    )


def _foreign(looked: Looked) -> Iterator[Finding]:
    """Where nobody can list the documents: no hit is anything that any question expects.

    That is an error where the ids are of two kinds, however few questions there are, or where many were missed: of ten
    questions, even a retriever that finds a quarter of what is expected misses all in 6 % of cases only.
    """
    if looked.documents is not None:
        return
    expecting = [(question, answer) for question, answer in looked.answered if question.expected]
    named = {one.id for question, _ in expecting for one in question.expected}
    hits = {doc_id for _, answer in expecting for doc_id in answer.ids}
    if not expecting or any(owner in named for doc_id in hits for owner in looked.match.owners(doc_id)):
        return
    count = "the one question" if len(expecting) == 1 else f"any of {len(expecting):,} questions"
    message = (
        f"no hit of {count} has an id that the golden set names: it names {_listed(sorted(named))}, and the hits are "
        f"{_listed(sorted(hits))}"
    )
    kinds = kinds_of(named, hits)
    if kinds is not None:
        yield Finding("missing-ids", "error", f"{message}; {kinds.reason}", kinds.fix)
        return
    yield Finding(
        "missing-ids",
        "error" if len(expecting) >= _MANY else "warning",
        message,
        "look whether the retriever returns the ids that the golden set names (a key of the metadata, perhaps), or "
        "chunks of them: --match document --delimiter",
    )


_RULES: tuple[Callable[[Looked], Iterator[Finding]], ...] = (
    _failed,
    _empty,
    _same_list,
    _repeated,
    _too_long,
    _unsorted,
    _itself,
    _foreign,
)


def _counted(count: int, looked: Looked) -> str:
    return f"{count:,} of {counted(len(looked.asked), 'question')}"


def _said(about: Sequence[tuple[GoldenQuestion, Answer]], what: Callable[[Answer], str | None]) -> tuple[str, ...]:
    """The first questions with what is said of each, those of whom the same is said together."""
    told: dict[str | None, list[str]] = {}
    for question, answer in about:
        told.setdefault(what(answer), []).append(question.id)
    lines = []
    for said, ids in list(told.items())[:_SHOWN]:
        who = f"question '{ids[0]}'" if len(ids) == 1 else f"questions {_listed(ids)}"
        lines.append(who if said is None else f"{who}: {said}")
    left = sum(len(ids) for ids in list(told.values())[_SHOWN:])
    return (*lines, *((f"… and {left:,} more",) if left else ()))


def _listed(ids: Sequence[str]) -> str:
    return ", ".join(f"'{one}'" for one in ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
