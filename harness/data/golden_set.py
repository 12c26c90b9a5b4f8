"""A golden set in memory: questions, what each expects, and the fields by which results are sliced."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.data.dataset import Dataset
from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Expectation:
    """One id that a question expects: of a document or of a chunk, with its grade (1 unless the file grades)."""

    id: str
    grade: int = 1


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """One line of a golden set.

    ``expected`` is empty for a question that nothing answers. ``fields`` are the line's other fields as text: a list
    has one value an element, so that a question can stand in several slices; an object is kept as its JSON. ``line`` is
    its line in the file, counted from 1.
    """

    id: str
    question: str
    expected: tuple[Expectation, ...]
    fields: Mapping[str, tuple[str, ...]]
    line: int


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """A user's questions in the order of their file. Ids are unique, questions are not empty: the loader's duty.

    ``source`` is where they come from, for messages; ``sha256`` is the file's. ``notes`` say what was accepted although
    it is odd. ``language`` and ``analyzer`` are what the dataset that it came with says of its documents, None for what
    it does not say.
    """

    name: str
    source: str
    questions: tuple[GoldenQuestion, ...]
    sha256: str
    notes: tuple[str, ...] = field(default=())
    language: str | None = None
    analyzer: str | None = None

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[GoldenQuestion]:
        return iter(self.questions)

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field by which the set can be sliced, in the order in which they first occur."""
        return tuple(dict.fromkeys(name for question in self.questions for name in question.fields))

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of one field, sorted; empty for a field that no question has."""
        return tuple(sorted({value for question in self.questions for value in question.fields.get(name, ())}))

    def expecting(self, relevance: int = 1) -> tuple[GoldenQuestion, ...]:
        """Return the questions that expect a document of at least that grade; means are taken over them."""
        return tuple(
            question
            for question in self.questions
            if any(document.grade >= relevance for document in question.expected)
        )

    @classmethod
    def of_dataset(cls, dataset: Dataset) -> GoldenSet:
        """Return the queries of a dataset as questions that expect what is judged, with its grades.

        Negative grades are left out. Raises UsageError for a dataset without judgments.
        """
        qrels = dataset.qrels
        if qrels is None:
            raise UsageError(f"the dataset '{dataset.name}' has no judgments", fix="a golden set says what is expected")
        judged = qrels.query_ids.rows_of(dataset.queries.ids).tolist()
        questions = []
        for line, (row, query, text) in enumerate(
            zip(judged, dataset.queries.ids, dataset.queries.texts.to_pylist(), strict=True), 1
        ):
            cut = slice(int(qrels.indptr[row]), int(qrels.indptr[row + 1])) if row >= 0 else slice(0)
            graded = zip(qrels.doc_ids.take(qrels.rows[cut]), qrels.grades[cut].tolist(), strict=True)
            expected = tuple(Expectation(document, grade) for document, grade in graded if grade >= 0)
            questions.append(GoldenQuestion(query, text, expected, {}, line))
        content = f"{dataset.queries.digest}\n{[(question.id, question.expected) for question in questions]}"
        return cls(
            dataset.name,
            dataset.name,
            tuple(questions),
            hashlib.sha256(content.encode()).hexdigest(),
            language=dataset.language,
            analyzer=dataset.analyzer,
        )
