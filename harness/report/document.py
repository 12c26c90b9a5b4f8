"""Describe what a verb found as a document that every renderer shows: verdicts, sections, tables, figures and notes.

A document is built once from a result. Terminal, Markdown and HTML show the same tables, verdicts and notes from it;
CSV prints its values. All texts are plain: each renderer escapes them in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.report.figures import Drawing

__all__ = [
    "Block",
    "Cell",
    "Column",
    "Document",
    "Facts",
    "Figure",
    "Notes",
    "Section",
    "Table",
    "Tone",
    "Value",
    "Verdict",
]

Tone = Literal["good", "bad", "unsure", "plain"]
"""How a statement is meant. Each tone has a sign of its own as well as a colour."""
Best = Literal["highest", "lowest"]
"""Which value of a column is the best."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """State one finding in a line, and in ``detail`` what it rests on."""

    tone: Tone
    headline: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """Head a column of a table.

    Args:
        name: Its heading.
        numeric: Set flush right in figures of one width.
        help: A sentence that explains the name.
        best: Which value is marked as the best; None marks none.
        priority: 0 stays whatever the width; where a table is too wide, columns of the highest priority go first.
    """

    name: str
    numeric: bool = True
    help: str = ""
    best: Best | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """Fill one place of a table.

    Args:
        text: What is shown.
        mark: A sign beside it, which the table's legend explains.
        below: A smaller line below it (in parentheses where there is one line only).
        tone: Whether it is good or bad news.
        value: The exact number behind the text, by which rows sort and the best is found; None sorts last.
        ties: The range that ties leave the number, as text; a footnote where there is no room beside it.
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

    ``legend`` explains marks, one line each. ``detail`` tables are left out of short forms.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[str] = ()
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing with its title, and a note on what is drawn."""

    title: str
    drawing: Drawing
    note: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values, folded away unless ``open``."""

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

    ``anchor`` is its place in links, ``lead`` one paragraph above its blocks. ``detail`` sections are left out of short
    forms, and stand after the list of queries on a page.
    """

    anchor: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """Hold one number of the result, for machines.

    ``low`` and ``high`` bound the interval of the mean and are None where there is none; ``n`` counts the queries or
    samples behind it.
    """

    dataset: str
    backend: str
    metric: str
    mean: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Hold everything that is shown of a result.

    Args:
        title: One line that names it.
        subtitle: On what data, how much of it, and under which rules.
        verdicts: The answer, the most pressing first.
        sections: Tables, figures and notes in reading order.
        command: The command lines that make it again.
        made_by: Program, version and time.
        labels: Short labels that cells use -> the full label, where they differ.
        values: Every number, one a dataset, backend and metric.
    """

    title: str
    subtitle: str
    verdicts: Sequence[Verdict]
    sections: Sequence[Section]
    command: Sequence[str]
    made_by: str
    labels: Mapping[str, str] = field(default_factory=dict)
    values: Sequence[Value] = ()
