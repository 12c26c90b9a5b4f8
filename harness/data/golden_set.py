"""A golden set in memory: questions, their expected ids, and the fields by which results are sliced."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.data.filtering import NO_FILTER, Conditions, combine_filters
from harness.data.types import LINE_ID
from harness.errors import DataError, UsageError
from harness.wording import counted

if TYPE_CHECKING:
    from harness.data.dataset import Dataset

_DECIMAL = re.compile(r"^([0-9]+)\.0$")


@dataclass(frozen=True, slots=True)
class Expectation:
    """One id that a question expects: of a document or of a chunk, with its grade (1 unless the file grades).

    Expectations of a question with the same ``group`` are alternatives: one of them is enough to have all that is
    expected. An expectation without a group is a group of its own.
    """

    id: str
    grade: int = 1
    group: int | None = None


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """One line of a golden set.

    ``expected`` is empty for a question that nothing answers. ``readings`` are other ways to read a table's cell of
    several ids: cut at one of the separators, and the whole cell as one id. ``fields`` are the line's other fields as
    text: a list has one value an element, so that a question can belong to several slices; an object is kept as its
    JSON. ``line`` is its line in the file, counted from 1. Without ``has_id`` the file gave it no id, and its id is the
    :func:`line_id` of its line, which another file may have for another question.

    ``texts`` are expected texts; a question with expected ids too goes by these, unless texts are to be matched.
    ``filter`` maps fields of documents to values: the question asks only for documents that have them. ``forbidden``
    are ids that no backend may return, ``excluded`` ids of hits that count for nothing.
    """

    id: str
    question: str
    expected: tuple[Expectation, ...]
    fields: Mapping[str, tuple[str, ...]]
    line: int
    readings: tuple[tuple[Expectation, ...], ...] = ()
    has_id: bool = True
    texts: tuple[str, ...] = ()
    filter: Mapping[str, str] | None = None
    forbidden: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    @property
    def has_alternatives(self) -> bool:
        """Whether two of its expectations are alternatives."""
        groups = [expectation.group for expectation in self.expected if expectation.group is not None]
        return len(set(groups)) < len(groups)


def forbidden_documents(questions: Iterable[GoldenQuestion]) -> dict[str, tuple[str, ...]]:
    """Return the ids that questions forbid, by the question's id; only of questions that forbid any."""
    return {question.id: question.forbidden for question in questions if question.forbidden}


def excluded_documents(questions: Iterable[GoldenQuestion]) -> dict[str, tuple[str, ...]]:
    """Return the ids that questions exclude, by the question's id; only of questions that exclude any."""
    return {question.id: question.excluded for question in questions if question.excluded}


def line_id(line: int) -> str:
    """Return the id of a question to which its file gives none."""
    return f"{LINE_ID}{line}"


def is_line_id(name: str) -> bool:
    """Return whether an id has the form of :func:`line_id`."""
    return name.removeprefix(LINE_ID).isdecimal() and name.startswith(LINE_ID)


def _without_decimals(name: str) -> str:
    return _DECIMAL.sub(r"\1", name)


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A user's questions in the order of their file. Ids are unique, questions are not empty: the loader's duty.

    ``source`` is their origin, for messages; ``sha256`` is the file's. ``notes`` list accepted oddities. ``language``
    and ``analyzer`` come from the documents' dataset, None if it does not state them. ``columns`` are the fields that
    ``--columns`` names and a record has, by role.
    """

    name: str
    source: str
    questions: tuple[GoldenQuestion, ...]
    sha256: str
    notes: tuple[str, ...] = field(default=())
    language: str | None = None
    analyzer: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[GoldenQuestion]:
        return iter(self.questions)

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field that can slice the set, in the order of first occurrence."""
        return tuple(dict.fromkeys(name for question in self.questions for name in question.fields))

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of one field, sorted; empty for a field that no question has."""
        return tuple(sorted({value for question in self.questions for value in question.fields.get(name, ())}))

    def require_ids(self) -> GoldenSet:
        """Return the set; raises DataError for a question with expected texts, which are not matched to documents."""
        by_text = [question for question in self if question.texts and not question.expected]
        if not by_text:
            return self
        problem = f"line {by_text[0].line}: expected texts without ids, and so for {len(by_text):,} of {len(self):,}"
        raise DataError(
            self.source, [f"{problem} questions"], fix="name the ids of the documents: --columns expected=FIELD"
        )

    @property
    def filters(self) -> list[Conditions]:
        """The conditions of each question, none for a question without a filter; empty if no question has one."""
        filters = [question.filter or NO_FILTER for question in self.questions]
        return filters if any(filters) else []

    def with_filter(self, conditions: Conditions) -> GoldenSet:
        """Return the set with further conditions in the filter of every question.

        Raises UsageError for a question whose filter has another value of a field: nothing would match.
        """
        if not conditions:
            return self
        questions = (
            replace(question, filter=combine_filters(question.id, question.filter or NO_FILTER, conditions))
            for question in self.questions
        )
        return replace(self, questions=tuple(questions))

    def expecting(self, relevance: int = 1) -> tuple[GoldenQuestion, ...]:
        """Return the questions that expect a document of at least that grade; means are taken over them."""
        return tuple(
            question
            for question in self.questions
            if any(document.grade >= relevance for document in question.expected)
        )

    def with_known_ids(self, find_ids: Callable[[Set[str]], Set[str]]) -> GoldenSet:
        """Return the set with each cell read in the way that makes the largest share of its ids known.

        ``1.0``, as pandas writes a whole number next to an empty cell, becomes ``1`` if only that is known. Both are
        noted. If nothing is better, expected ids stay as they are.

        Args:
            find_ids: returns the ids that a document has, or belongs to.
        """
        readings = {question.id: (question.expected, *question.readings) for question in self}
        names = {expected.id for each in readings.values() for reading in each for expected in reading}
        if not any(question.readings for question in self) and not any(map(_DECIMAL.match, names)):
            return self
        corpus_ids = find_ids(names | {_without_decimals(name) for name in names})

        def share(reading: tuple[Expectation, ...]) -> float:
            return sum(expected.id in corpus_ids for expected in reading) / max(len(reading), 1)

        def whole_number(expected: Expectation) -> Expectation:
            number = _without_decimals(expected.id)
            return expected if expected.id in corpus_ids or number not in corpus_ids else replace(expected, id=number)

        questions, cells, decimals = list[GoldenQuestion](), list[str](), list[str]()
        for question in self:
            reading = max(readings[question.id], key=share)
            if reading != question.expected:
                cells.append(reading[0].id)
            plain = tuple({expected.id: expected for expected in map(whole_number, reading)}.values())
            decimals += [expected.id for expected in reading if whole_number(expected) != expected]
            questions.append(replace(question, expected=plain, readings=()))
        if not cells and not decimals:
            return self
        notes = list(self.notes)
        if cells:
            notes.append(f"{counted(len(cells), 'cell')} with ; or | read as the corpus writes ids: '{cells[0]}'")
        if decimals:
            number = _without_decimals(decimals[0])
            notes.append(
                f"{counted(len(decimals), 'expected id')} read as a whole number: '{decimals[0]}' as '{number}'"
            )
        return replace(self, questions=tuple(questions), notes=tuple(notes))

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> GoldenSet:
        """Return the queries of a dataset as questions that expect the judged documents, with their grades.

        Negative grades are left out. Raises UsageError for a dataset without judgments.
        """
        qrels = dataset.qrels
        if qrels is None:
            raise UsageError(
                f"the dataset '{dataset.name}' has no judgments", fix="a golden set names the expected documents"
            )
        judged = qrels.query_ids.rows_of(dataset.queries.ids).tolist()
        questions = []
        for line, (row, query, text) in enumerate(
            zip(judged, dataset.queries.ids, dataset.queries.texts.to_pylist(), strict=True), 1
        ):
            cut = slice(int(qrels.indptr[row]), int(qrels.indptr[row + 1])) if row >= 0 else slice(0)
            groups = qrels.groups[cut].tolist() if qrels.groups is not None else [None] * len(qrels.grades[cut])
            graded = zip(qrels.doc_ids.take(qrels.rows[cut]), qrels.grades[cut].tolist(), groups, strict=True)
            expected = tuple(Expectation(document, grade, group) for document, grade, group in graded if grade >= 0)
            excluded = tuple((dataset.excluded or {}).get(query, ()))
            questions.append(
                GoldenQuestion(
                    query,
                    text,
                    expected,
                    {"excluded_ids": excluded} if excluded else {},
                    line,
                    filter=dataset.filters.get(query),
                    forbidden=tuple((dataset.forbidden or {}).get(query, ())),
                    excluded=excluded,
                )
            )
        content = f"{dataset.queries.digest}\n{[(question.id, question.expected) for question in questions]}"
        return cls(
            dataset.name,
            dataset.name,
            tuple(questions),
            hashlib.sha256(content.encode()).hexdigest(),
            language=dataset.language,
            analyzer=dataset.analyzer,
        )
