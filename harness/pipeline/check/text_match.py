"""Match documents with expected texts: the golden set names texts, as ragas and deepeval do, and no ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.data.types import Ids
from harness.pipeline.check.containment import containments, normalize_text
from harness.pipeline.check.word_share import nearest_texts, shares

__all__ = ["NearestText", "TextMatch", "expect_texts", "expected_texts", "match_texts", "nearest_documents"]

CONTAINS, PART, SHARE = "contains", "part", "share"
_LABEL_LENGTH = 60
_BEGINNING = 46
_DIGEST = 8
_BATCH_ROWS = 4096
_PENDING_BYTES = 1 << 24


class TextMatch(NamedTuple):
    """The way in which a document matches an expected text.

    ``rule`` is ``contains`` for a document that contains the text, ``part`` for a document that is a part of it, and
    ``share`` for a document with a ``share`` of its words.
    """

    rule: str
    share: float = 1.0

    def __str__(self) -> str:
        """Return the rule, and the share of words if it decides."""
        return f"{self.rule} {self.share:.2f}" if self.rule == SHARE else self.rule


class NearestText(NamedTuple):
    """The document with the largest share of a text's words, and the beginning of its text."""

    doc_id: str
    share: float
    beginning: str


def expect_texts(golden: GoldenSet, *, all_questions: bool, keep_text: bool) -> GoldenSet:
    """Return a golden set whose expected texts are expectations, each with a short id that shows its beginning.

    ``texts`` of a question are then aligned with its expectations; the rest of a text is not stored anywhere. With
    ``all_questions``, expected ids are read as texts too (``--match text``). Without ``keep_text`` the ids show only a
    digest.
    """
    questions = [_expect_texts_of(question, all_questions=all_questions, keep_text=keep_text) for question in golden]
    return replace(golden, questions=tuple(questions))


def _expect_texts_of(question: GoldenQuestion, *, all_questions: bool, keep_text: bool) -> GoldenQuestion:
    expected: Sequence[Expectation]
    if question.texts:
        expected = [Expectation(text) for text in question.texts] if all_questions or not question.expected else ()
    else:
        # the last reading of a table's cell is the whole cell: a text may hold any separator
        expected = (question.readings[-1] if question.readings else question.expected) if all_questions else ()
    if not expected:
        return replace(question, texts=()) if question.texts else question
    texts: dict[str, Expectation] = {}
    for expectation in expected:
        text = normalize_text(expectation.id)
        if text:
            texts.setdefault(text, replace(expectation, id=_label(text, keep_text=keep_text)))
    return replace(question, expected=tuple(texts.values()), texts=tuple(texts), readings=())


def _label(text: str, *, keep_text: bool) -> str:
    if keep_text and len(text) <= _LABEL_LENGTH and text.isprintable():
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
    beginning = "".join(filter(str.isprintable, text[:_BEGINNING])).strip() if keep_text else "text"
    return f"{beginning} … #{digest}"


def expected_texts(golden: GoldenSet) -> dict[str, str]:
    """Return the normalised text of every expectation that is a text, by the expectation's id."""
    return {
        expectation.id: text
        for question in golden
        if question.texts
        for expectation, text in zip(question.expected, question.texts, strict=True)
    }


@dataclass(frozen=True, slots=True)
class _Documents:
    """Texts of documents in normalised batches, which can be read several times."""

    texts: pa.ChunkedArray

    def __iter__(self) -> Iterator[list[str]]:
        for start in range(0, len(self.texts), _BATCH_ROWS):
            batch = self.texts.slice(start, _BATCH_ROWS).to_pylist()
            yield [normalize_text(text) if text else "" for text in batch]


def match_texts(
    expected: Mapping[str, str], ids: Ids, texts: pa.ChunkedArray, share: float
) -> dict[str, dict[str, TextMatch]]:
    """Return how documents match expected texts, by document and expectation, in the documents' order.

    A document matches a text that it contains or that contains it; a text that no document matches so also by at least
    the ``share`` of words in order, below 1. Memory is bounded by the expected texts and a batch of documents.

    Args:
        expected: Normalised texts by the ids of their expectations.
        ids: Ids of the documents.
        texts: Their texts, null for an unknown text.
        share: Least share of words, see :mod:`harness.pipeline.check.word_share`.
    """
    labels: dict[str, list[str]] = {}
    for label, text in expected.items():
        labels.setdefault(text, []).append(label)
    distinct, documents = list(labels), _Documents(texts)
    pairs = {(row, number): TextMatch(rule) for row, number, rule in _contained(distinct, documents)}
    if share < 1:
        met = {number for _, number in pairs}
        left = [number for number in range(len(distinct)) if number not in met]
        for pair in shares([distinct[number] for number in left], documents, share) if left else ():
            pairs[pair.document, left[pair.text]] = TextMatch(SHARE, pair.share)
    matches: dict[str, dict[str, TextMatch]] = {}
    for row, number in sorted(pairs):
        of_document = matches.setdefault(ids[row], {})
        of_document.update(dict.fromkeys(labels[distinct[number]], pairs[row, number]))
    return matches


def _contained(texts: Sequence[str], documents: Iterable[Sequence[str]]) -> Iterator[tuple[int, int, str]]:
    """Yield the row of a document, the number of a text, and which contains the other; equal texts once."""
    longest = max(map(len, texts), default=0)
    pending: list[tuple[int, str]] = []
    size, first = 0, 0
    for batch in documents:
        for number, position in containments(texts, batch):
            yield first + position, number, CONTAINS
        short = [(first + position, text) for position, text in enumerate(batch) if 0 < len(text) < longest]
        pending += short
        size += sum(len(text) for _, text in short)
        if size > _PENDING_BYTES:
            yield from _parts(pending, texts)
            pending, size = [], 0
        first += len(batch)
    yield from _parts(pending, texts)


def _parts(documents: Sequence[tuple[int, str]], texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    rows, patterns = [row for row, _ in documents], [text for _, text in documents]
    for position, number in containments(patterns, texts):
        if len(patterns[position]) < len(texts[number]):
            yield rows[position], number, PART


def nearest_documents(expected: Mapping[str, str], ids: Ids, texts: pa.ChunkedArray) -> dict[str, NearestText]:
    """Return the document nearest to each expected text, without texts that share no word with any document."""
    documents, labels = _Documents(texts), list(expected)
    nearest: dict[str, NearestText] = {}
    for label, pair in zip(labels, nearest_texts(list(expected.values()), documents), strict=True):
        if pair is not None:
            text = normalize_text(texts[pair.document].as_py())
            beginning = text if len(text) <= _LABEL_LENGTH else f"{text[:_LABEL_LENGTH].rstrip()} …"
            nearest[label] = NearestText(ids[pair.document], pair.share, beginning)
    return nearest
