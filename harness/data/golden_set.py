"""A golden set in memory: questions, their expected ids, and the fields by which results are sliced."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from harness.data.filtering import NO_FILTER, Conditions, combine_filters
from harness.data.problems import Problems
from harness.data.types import LINE_ID, LabelModel, Qrels
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
    are ids that no backend may return, and ``excluded`` ids of documents that do not count as hits; the other readings
    of their cells are in ``forbidden_readings`` and ``excluded_readings``.
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
    forbidden_readings: tuple[tuple[str, ...], ...] = ()
    excluded_readings: tuple[tuple[str, ...], ...] = ()

    @property
    def has_readings(self) -> bool:
        """Whether a table's cell may be read in several ways."""
        return bool(self.readings or self.forbidden_readings or self.excluded_readings)

    @property
    def contradictions(self) -> list[str]:
        """A sentence for each id that is expected and forbidden, or expected and excluded, in every reading."""
        if not (self.forbidden or self.excluded):
            return []
        relevant = [{one.id for one in reading if one.grade > 0} for reading in (self.expected, *self.readings)]
        sentences = []
        for verb, readings in (
            ("forbidden", (self.forbidden, *self.forbidden_readings)),
            ("excluded", (self.excluded, *self.excluded_readings)),
        ):
            shared = [[name for name in ids if name in expected] for ids in readings for expected in relevant]
            if all(shared):
                sentences += [f"'{name}' is expected and {verb}" for name in shared[0]]
        return sentences

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


def _id_readings(question: GoldenQuestion, texts: bool) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield a noun for the ids of each kind that a question has, and the ways to read them."""
    if not texts:
        readings = (question.expected, *question.readings)
        yield "expected", [tuple(expected.id for expected in reading) for reading in readings]
    yield "forbidden", [question.forbidden, *question.forbidden_readings]
    yield "excluded", [question.excluded, *question.excluded_readings]


class _CellReader:
    """Reads cells of ids as a corpus with ``corpus_ids`` writes them; see :meth:`GoldenSet.with_known_ids`."""

    def __init__(self, corpus_ids: Set[str], texts: bool) -> None:
        self._corpus_ids, self._texts = corpus_ids, texts
        self._cells = list[str]()
        self._decimals: dict[str, list[str]] = {}

    def question(self, question: GoldenQuestion) -> GoldenQuestion:
        """Return the question with its cells read in one way."""
        chosen = {kind: self._choose(kind, readings) for kind, readings in _id_readings(question, self._texts)}
        expected = question.expected
        if not self._texts:
            position, names = chosen["expected"]
            reading = (question.expected, *question.readings)[position]
            renamed = (replace(one, id=name) for one, name in zip(reading, names, strict=True))
            expected = tuple({one.id: one for one in renamed}.values())
        return replace(
            question,
            expected=expected,
            readings=(),
            forbidden=tuple(dict.fromkeys(chosen["forbidden"][1])),
            excluded=tuple(dict.fromkeys(chosen["excluded"][1])),
            forbidden_readings=(),
            excluded_readings=(),
        )

    def _choose(self, kind: str, readings: Sequence[tuple[str, ...]]) -> tuple[int, list[str]]:
        """Return the position of the best reading, and its ids as the corpus writes them."""

        def share(position: int) -> float:
            return sum(name in self._corpus_ids for name in readings[position]) / max(len(readings[position]), 1)

        positions = list(range(len(readings)))
        best = max(reversed(positions) if self._texts else positions, key=share)
        if best:
            self._cells.append(readings[best][0])
        names = list(map(self._whole_number, readings[best]))
        changed = [name for name, number in zip(readings[best], names, strict=True) if number != name]
        self._decimals.setdefault(kind, []).extend(changed)
        return best, names

    def _whole_number(self, name: str) -> str:
        number = _without_decimals(name)
        return name if name in self._corpus_ids or number not in self._corpus_ids else number

    def notes(self) -> list[str]:
        """Return a sentence on the cells, and one on the whole numbers of each kind; none if nothing changed."""
        notes = []
        if self._cells:
            cells = counted(len(self._cells), "cell")
            notes.append(f"{cells} with ; or | read as the corpus writes ids: '{self._cells[0]}'")
        for kind, names in self._decimals.items():
            if names:
                ids, number = counted(len(names), f"{kind} id"), _without_decimals(names[0])
                notes.append(f"{ids} read as a whole number: '{names[0]}' as '{number}'")
        return notes


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A user's questions in the order of their file. Ids are unique, questions are not empty: the loader's duty.

    ``source`` is their origin, for messages; ``sha256`` is the file's. ``notes`` list accepted oddities. ``language``
    and ``analyzer`` come from the documents' dataset, None if it does not state them. ``columns`` are the fields that
    ``--columns`` names and a record has, by role. ``human`` is the set without expectations that models labelled, None
    if they labelled none; ``models`` are these models.
    """

    name: str
    source: str
    questions: tuple[GoldenQuestion, ...]
    sha256: str
    notes: tuple[str, ...] = field(default=())
    language: str | None = None
    analyzer: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    human: GoldenSet | None = None
    models: tuple[LabelModel, ...] = ()

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

    @property
    def expects_texts(self) -> bool:
        """Whether a question expects texts."""
        return any(question.texts for question in self.questions)

    @property
    def has_alternatives(self) -> bool:
        """Whether two expectations of a question are alternatives."""
        return any(question.has_alternatives for question in self.questions)

    @property
    def has_readings(self) -> bool:
        """Whether an id may be read in another way: a cell of several ids, or a number with decimals."""
        return any(
            question.has_readings
            or any(_DECIMAL.match(expected.id) for expected in question.expected)
            or any(map(_DECIMAL.match, (*question.forbidden, *question.excluded)))
            for question in self.questions
        )

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

    def with_known_ids(self, find_ids: Callable[[Set[str]], Set[str]], *, texts: bool = False) -> GoldenSet:
        """Return the set with each cell read in the way that makes the largest share of its ids known.

        ``1.0``, as pandas writes a whole number next to an empty cell, becomes ``1`` if only that is known. Both are
        noted. If nothing is better, ids stay as they are.

        Args:
            find_ids: returns the ids that a document has, or belongs to.
            texts: whether expectations are texts, which stay as they are; a cell of forbidden or excluded values is
                then one text unless documents have its ids.

        Raises:
            DataError: An id is expected and forbidden, or expected and excluded, as the cells are read.
        """
        names = {
            name for question in self for _, readings in _id_readings(question, texts) for name in chain(*readings)
        }
        if not any(question.has_readings for question in self) and not any(map(_DECIMAL.match, names)):
            return self
        reader = _CellReader(find_ids(names | {_without_decimals(name) for name in names}), texts)
        questions = tuple(map(reader.question, self.questions))
        problems = Problems(self.source)
        for question in questions:
            for contradiction in question.contradictions:
                problems.add(question.line, contradiction)
        problems.raise_if_any()
        notes = reader.notes()
        return replace(self, questions=questions, notes=(*self.notes, *notes)) if notes else self

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> GoldenSet:
        """Return the queries of a dataset as questions that expect the judged documents, with their grades.

        Negative grades are left out. Raises UsageError for a dataset without judgments and expected texts.
        """
        if dataset.qrels is None and not dataset.expected_texts:
            raise UsageError(
                f"the dataset '{dataset.name}' has no judgments", fix="a golden set names the expected documents"
            )
        expected = _expected_documents(dataset.qrels) if dataset.qrels is not None else {}
        questions = []
        for line, (query, text) in enumerate(
            zip(dataset.queries.ids, dataset.queries.texts.to_pylist(), strict=True), 1
        ):
            excluded = tuple((dataset.excluded or {}).get(query, ()))
            questions.append(
                GoldenQuestion(
                    query,
                    text,
                    expected.get(query, ()),
                    {**({"excluded_ids": excluded} if excluded else {}), **dataset.slices.get(query, {})},
                    line,
                    has_id=not is_line_id(query),
                    texts=dataset.expected_texts.get(query, ()),
                    filter=dataset.filters.get(query),
                    forbidden=tuple((dataset.forbidden or {}).get(query, ())),
                    excluded=excluded,
                )
            )
        content = f"{dataset.queries.digest}\n{[(question.id, question.expected) for question in questions]}"
        content += f"\n{[*dataset.expected_texts.items()]}" if dataset.expected_texts else ""
        return cls(
            dataset.name,
            dataset.name,
            tuple(questions),
            hashlib.sha256(content.encode()).hexdigest(),
            language=dataset.language,
            analyzer=dataset.analyzer,
        )


def _expected_documents(qrels: Qrels) -> dict[str, tuple[Expectation, ...]]:
    """Return the documents that judgments do not grade below 0, by query."""
    expected = {}
    for row, query in enumerate(qrels.query_ids):
        cut = slice(int(qrels.indptr[row]), int(qrels.indptr[row + 1]))
        groups = qrels.groups[cut].tolist() if qrels.groups is not None else [None] * len(qrels.grades[cut])
        graded = zip(qrels.doc_ids.take(qrels.rows[cut]), qrels.grades[cut].tolist(), groups, strict=True)
        expected[query] = tuple(Expectation(document, grade, group) for document, grade, group in graded if grade >= 0)
    return expected
