"""Describe a verb's findings as a document that every renderer shows: verdicts, sections, tables, figures and notes.

A document is built once from a result. Terminal, Markdown and HTML show the same tables, verdicts and notes from it;
CSV prints its values, JUnit its suites, GitHub its annotations. All texts are plain: each renderer escapes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, NamedTuple

from harness.document.figures import Drawing
from harness.errors import UnknownNameError

Tone = Literal["good", "bad", "unsure", "plain"]
"""How a statement is meant. Each tone has its own sign as well as a colour."""
TIES = "the range of the mean over all orders of tied documents"
"""The meaning of the tie ranges of cells."""
Best = Literal["highest", "lowest"]
"""Which value of a column is the best."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """State one finding in a line, and its grounds in ``detail``.

    ``answers`` marks the answer to the user's question, which a page shows at once; it folds other findings.
    """

    tone: Tone
    headline: str
    detail: str = ""
    answers: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """Head a column of a table.

    Args:
        name: Its heading.
        numeric: Set flush right in figures of one width; otherwise the cells are texts, which may be broken.
        help: A sentence that explains the name.
        best: Which value is marked as the best; None marks none.
        priority: 0 stays at any width; if a table is too wide, columns of the highest priority go first.
        below: Heading of the cells' second lines, if they become a separate column.
        below_priority: As ``priority``, for that column.
        follows: It belongs to the column before it, and stays with it.
        names: It names the rows together with the first column, and is repeated with it if a table continues.
        unfolded: Its texts are names to copy, which a terminal never breaks.
        folds: Its texts are sentences, which go below their rows if a terminal has no room next to them.
        timed: Its numbers come from the clock: none is the best if the machine was busy.
    """

    name: str
    numeric: bool = True
    help: str = ""
    best: Best | None = None
    priority: int = 0
    below: str = ""
    below_priority: int = 0
    follows: bool = False
    names: bool = False
    unfolded: bool = False
    folds: bool = False
    timed: bool = False

    @property
    def sort_name(self) -> str:
        """The sort key of rows: the name without the mark of a footnote."""
        return self.name.removesuffix("*")


@dataclass(frozen=True, slots=True)
class Cell:
    """Fill one place of a table.

    Args:
        text: The displayed text.
        mark: A sign next to it, which the table's legend explains.
        below: A smaller second line, such as an interval.
        tone: Whether it is good or bad news.
        value: The exact number behind the text, used for sorting and for the best value; None sorts last.
        ties: The range that ties leave the number, as text; a footnote if there is no room next to it.
    """

    text: str
    mark: str = ""
    below: str = ""
    tone: Tone = "plain"
    value: float | None = None
    ties: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first cell of every row names it.

    ``legend`` explains marks and columns, one line each. ``detail`` tables are left out of short forms, which show the
    first ``most`` rows of the others.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[str] = ()
    detail: bool = False
    most: int | None = None

    def best(self, column: int) -> float | None:
        """Return the best value of a column; None if the column has no best, or only one row has a value."""
        direction = self.columns[column].best
        values = [row[column].value for row in self.rows]
        present = [value for value in values if value is not None]
        if direction is None or len(present) < 2 or min(present) == max(present):
            return None
        return max(present) if direction == "highest" else min(present)

    def expanded(self) -> Table:
        """Return the same table with the second lines of cells in separate columns."""
        if not self.rows:
            return self
        columns: list[Column] = []
        cells: list[Sequence[Cell]] = []
        for column, of_column in zip(self.columns, zip(*self.rows, strict=True), strict=True):
            columns.append(column)
            cells.append([replace(cell, below="") for cell in of_column])
            if any(cell.below for cell in of_column):
                columns.append(Column(column.below, column.numeric, priority=column.below_priority, follows=True))
                cells.append([Cell(cell.below) for cell in of_column])
        return replace(self, columns=columns, rows=list(zip(*cells, strict=True)))

    def sorted_by(self, name: str) -> Table:
        """Return the same table with its rows sorted by the column of that name, best or greatest first.

        Rows without a value come last; a table that has no such column stays as it is.
        """
        names = [column.sort_name for column in self.columns]
        if name not in names:
            return self
        position = names.index(name)
        if not self.columns[position].numeric:
            return replace(self, rows=sorted(self.rows, key=lambda row: row[position].text))
        sign = 1 if self.columns[position].best == "lowest" else -1
        key = [(value is None, sign * (value or 0.0)) for value in (row[position].value for row in self.rows)]
        order = sorted(range(len(self.rows)), key=lambda number: key[number])
        return replace(self, rows=[self.rows[number] for number in order])


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its title, and a note on its content."""

    title: str
    drawing: Drawing
    note: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, folded away unless ``open``; without a title they describe the whole document."""

    title: str
    rows: Sequence[tuple[str, str]]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Notes:
    """Lines that a reader must know."""

    lines: Sequence[str]


Block = Table | Figure | Facts | Notes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the document.

    ``anchor`` is its place in links. ``detail`` sections are left out of short forms, and follow the list of queries on
    a page. ``open`` sections are shown whole on a page, which folds most blocks of other sections.
    """

    anchor: str
    title: str
    blocks: Sequence[Block]
    detail: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """Hold one number of the result, for machines.

    ``low`` and ``high`` bound the interval of the mean and are None without an interval; ``n`` counts the queries or
    samples behind it.
    """

    dataset: str
    backend: str
    metric: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None


class Outcome(StrEnum):
    """The outcome of a case; the values of all but ``PASSED`` are the names of their elements in JUnit's XML."""

    PASSED = "passed"
    FAILURE = "failure"
    """A requirement that does not hold."""
    ERROR = "error"
    """It could not be judged."""
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Case:
    """A test case. ``message`` is one line, ``text`` all there is to say; both are for outcomes but ``PASSED``.

    ``seconds`` is 0 if nothing was measured. ``detail`` cases are written only if every query is requested.
    """

    name: str
    classname: str
    outcome: Outcome = Outcome.PASSED
    message: str = ""
    text: str = ""
    seconds: float = 0.0
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases that belong together, with facts about all of them. ``timestamp`` is ISO 8601; an offset is left out.

    ``shared`` are the seconds that all cases took together, if they share a measurement; else they are added.
    """

    name: str
    cases: Sequence[Case]
    timestamp: str
    properties: Mapping[str, str] = field(default_factory=dict)
    shared: float | None = None

    def count(self, outcome: Outcome) -> int:
        """Return the number of cases that ended so."""
        return sum(case.outcome is outcome for case in self.cases)

    @property
    def seconds(self) -> float:
        """The time of all cases."""
        return sum(case.seconds for case in self.cases) if self.shared is None else self.shared


class Annotation(NamedTuple):
    """An error, perhaps about a line of a file, counted from 1."""

    title: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Hold everything that is shown of a result.

    Args:
        title: One line that names it.
        subtitle: The data, its size, and the rules.
        verdicts: The findings, the most pressing first; some answer the user's question.
        sections: Tables, figures and notes in reading order.
        command: The command lines that make it again.
        made_by: Program, version and time.
        kind: The verb that made it, and ``name`` the data: together they name it for programs.
        outcome: How it ended, in a word: ``passed``; empty without requirements.
        labels: Long labels of backends, as texts use them -> short ones, for narrow spaces.
        values: Every number, one a dataset, backend and metric.
        suites: The judged requirements, as test cases.
        annotations: Problems, with the lines of the golden set that they concern.
        records: The rows that CSV prints in place of ``values``, each with its columns by name.
        has_page: Whether the result has an HTML report too.
    """

    title: str
    subtitle: str
    verdicts: Sequence[Verdict] = ()
    sections: Sequence[Section] = ()
    command: Sequence[str] = ()
    made_by: str = ""
    kind: str = ""
    name: str = ""
    outcome: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Sequence[Value] = ()
    suites: Sequence[Suite] = ()
    annotations: Sequence[Annotation] = ()
    records: Sequence[Mapping[str, str | float | None]] = ()
    has_page: bool = True

    def tables(self) -> Iterator[Table]:
        """Yield the tables in reading order."""
        for section in self.sections:
            yield from (block for block in section.blocks if isinstance(block, Table))

    @property
    def sort_names(self) -> list[str]:
        """The possible sort columns of its tables."""
        return list(dict.fromkeys(column.sort_name for table in self.tables() for column in table.columns))

    def check_sort(self, name: str) -> None:
        """Raise UnknownNameError unless a table has a column of that name."""
        if name not in self.sort_names:
            raise UnknownNameError("column to sort by", name, self.sort_names)

    def sorted_by(self, name: str) -> Document:
        """Return the same document with the rows of its tables in the order of the column of that name, best first.

        The first table that has the column decides; tables whose rows have the same names follow it, and a table of
        other rows is sorted by its own column of that name. Raises UnknownNameError if there is no such column.
        """
        self.check_sort(name)
        first = next(table for table in self.tables() if name in [column.sort_name for column in table.columns])
        position_of = {row[0].text: position for position, row in reversed(list(enumerate(first.sorted_by(name).rows)))}

        def ordered(table: Table) -> Table:
            if any(row[0].text not in position_of for row in table.rows):
                return table.sorted_by(name)
            return replace(table, rows=sorted(table.rows, key=lambda row: position_of[row[0].text]))

        return replace(
            self,
            sections=[
                replace(
                    section, blocks=[ordered(block) if isinstance(block, Table) else block for block in section.blocks]
                )
                for section in self.sections
            ],
        )
