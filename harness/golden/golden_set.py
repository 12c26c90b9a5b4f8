"""A golden set in memory: questions, what each expects, and the fields by which results are sliced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Expectation", "GoldenQuestion", "GoldenSet"]


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
    it is odd.
    """

    name: str
    source: str
    questions: tuple[GoldenQuestion, ...]
    sha256: str
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[GoldenQuestion]:
        return iter(self.questions)

    @property
    def fields(self) -> tuple[str, ...]:
        """Every field by which the set can be sliced, in the order in which they first occur."""
        return tuple(dict.fromkeys(name for question in self.questions for name in question.fields))

    def values(self, name: str) -> tuple[str, ...]:
        """The values of one field, sorted; empty for a field that no question has."""
        return tuple(sorted({value for question in self.questions for value in question.fields.get(name, ())}))

    def expecting(self, relevance: int = 1) -> tuple[GoldenQuestion, ...]:
        """The questions that expect something of at least that grade: those that means are taken over."""
        return tuple(
            question for question in self.questions if any(one.grade >= relevance for one in question.expected)
        )
