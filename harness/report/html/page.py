"""What an HTML report holds, whatever it reports on: comparisons, checks and regressions all become such a page.

Nothing here knows of backends or of the stored result. Every text is plain text and is escaped when it is drawn; only a
:class:`Picture` carries markup, which `harness.report.html.svg` builds and escapes itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.report.html.explorer import Explorer
from harness.report.html.svg import Svg

__all__ = ["Block", "Cell", "Column", "Facts", "Notes", "Page", "Picture", "Section", "Table", "Tone", "Verdict"]

Tone = Literal["good", "bad", "unsure", "plain"]
"""How something is to be taken. Each tone has a sign of its own as well as a colour."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the verdict: what was found, and below it what that rests on."""

    tone: Tone
    headline: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; ``numeric`` ones are set flush right in figures of one width. ``help`` explains the name."""

    name: str
    numeric: bool = True
    help: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: its text, a sign beside it that the table's legend explains, and a smaller line below it."""

    text: str
    mark: str = ""
    below: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first cell of every row names it. ``legend`` explains marks, one line each."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    legend: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing with its title, and a line below it on what is drawn. ``svg`` carries the text alternative."""

    title: str
    svg: Svg
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


Block = Table | Picture | Facts | Notes


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: ``anchor`` is its place in links, ``lead`` one paragraph above its blocks."""

    anchor: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report. ``command`` reproduces it. Without ``explorer`` the page has no list of queries.

    Sections come in the order given: those before the explorer in ``sections``, those after it in ``appendix``.
    """

    title: str
    subtitle: str
    verdicts: Sequence[Verdict]
    sections: Sequence[Section]
    command: Sequence[str]
    made_by: str
    explorer: Explorer | None = None
    appendix: Sequence[Section] = field(default=())
