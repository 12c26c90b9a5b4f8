"""Render a document for a terminal: short unless everything is wanted, and no wider than the terminal is."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from harness.document.model import TIES, Block, Cell, Column, Document, Facts, Notes, Table, Tone, Verdict
from harness.wording import counted, readable, shortened

_UNLIMITED = 10_000
_RULE = "──"
_GAP = 2
_NARROWEST, _NARROWEST_NAME = 16, 24
"""Columns of the terminal that a column of texts keeps at least, and the first one, which names the rows."""
_LABEL_WIDTH = 44
_LEAST_BESIDE = 40
"""Columns that sentences need to fit next to the rest of their row."""
_SIGNS: dict[Tone, tuple[str, str]] = {
    "good": ("✓", "green"),
    "bad": ("✕", "red"),
    "unsure": ("?", "yellow"),
    "plain": ("·", ""),
}


def render_terminal(
    document: Document, *, width: int | None = None, verbose: bool = False, styled: bool = False
) -> str:
    """Return the document as text.

    Args:
        document: The document to print.
        width: Columns of the terminal; None for lines of any length.
        verbose: All tables and notes; otherwise verdicts and the tables that answer the question.
        styled: Write escape sequences for bold and colours (NO_COLOR is honoured).
    """
    sink = io.StringIO()
    console = Console(file=sink, width=_UNLIMITED, force_terminal=styled, highlight=False, emoji=False, markup=False)
    labels = document.labels if width is not None else {}
    page = _Page(console, width, labels)
    for text, style in ((document.title, "bold"), (document.subtitle, "")):
        if text:
            page.line(text, style)
    for verdict in document.verdicts:
        page.verdict(verdict)
    hidden = 0
    for section in document.sections:
        shown = [
            block
            for block in section.blocks
            if verbose or not (section.detail or (isinstance(block, Table) and block.detail))
        ]
        hidden += sum(isinstance(block, Table | Notes) for block in section.blocks if block not in shown)
        page.blocks(shown, verbose=verbose)
    if labels:
        console.print()
        for full, short in labels.items():
            console.print(Text(folded(f"{short} = {shortened(full)}", width)))
    if hidden:
        console.print()
        page.line(f"--verbose shows {counted(hidden, 'more table')} and notes, the HTML report every query", "dim")
    lines = (line.rstrip() for line in sink.getvalue().splitlines())
    return "\n".join(line[:width] if line.startswith(_RULE) else line for line in lines) + "\n"


def folded(line: str, width: int | None, hang: int = 2) -> str:
    """Return a line in ``width`` columns, continued with ``hang`` more indent; a word or a path stays whole."""
    if width is None:
        return line
    start = len(line) - len(line.lstrip())
    indent = start + hang
    first, *words = line.lstrip().split(" ")
    rows = [f"{' ' * start}{first}"]
    for word in words:
        if rows[-1].strip() and cell_len(rows[-1]) + 1 + cell_len(word) > width:
            rows.append(f"{' ' * indent}{word}")
        else:
            rows[-1] += f" {word}"
    return "\n".join(rows)


class _Page:
    """Print the parts of a document on a console, in at most ``width`` columns, with ``labels`` replaced by others."""

    def __init__(self, console: Console, width: int | None, labels: Mapping[str, str]) -> None:
        self._console, self._width = console, width
        self._labels = sorted(labels.items(), key=lambda pair: -len(pair[0]))  # a label may begin with another
        self._explained: set[str] = set()

    def _short(self, text: str) -> str:
        for full, short in self._labels:
            text = text.replace(full, short)
        return text

    def line(self, text: str, style: str = "") -> None:
        """Print a paragraph; line breaks in it stay."""
        for part in readable(self._short(text)).split("\n"):
            self._console.print(Text(folded(part, self._width), style=style))

    def verdict(self, verdict: Verdict) -> None:
        """Print a verdict with its sign, and its grounds below it."""
        sign, style = _SIGNS[verdict.tone]
        headline = folded(f"{sign} {readable(self._short(verdict.headline))}", self._width)
        self._console.print(Text(headline, style=f"bold {style}".strip()))
        if verdict.detail:
            self.line(f"  {verdict.detail}")

    def blocks(self, blocks: Sequence[Block], *, verbose: bool) -> None:
        """Print the blocks that text can show."""
        for block in blocks:
            match block:
                case Table() if block.rows:
                    self.table(block, whole=verbose)
                case Notes() if block.lines:
                    self._console.print()
                    for line in block.lines:
                        self.line(line)
                case Facts() if block.open and block.rows:
                    self._console.print()
                    self.facts(block)

    def facts(self, facts: Facts) -> None:
        """Print names and values; without a title each value is below the one before."""
        if facts.title:
            self.line(facts.title, "bold")
        wide = 0 if facts.title else max(cell_len(name) for name, _ in facts.rows) + _GAP
        for name, value in facts.rows:
            label = f"{name:<{wide}}" if wide else f"{name}: " if name else ""
            for part in readable(self._short(f"  {label}{value}")).split("\n"):
                self._console.print(Text(folded(part, self._width, max(wide, _GAP))))

    def table(self, table: Table, *, whole: bool) -> None:
        """Print a table in as many columns as there is room for; with ``whole`` the others follow below."""
        columns = [replace(column, name=self._short(column.name)) for column in table.columns]
        rows = [[replace(cell, text=self._short(cell.text)) for cell in row] for row in table.rows]
        left = [] if whole or table.most is None else rows[table.most :]
        rows = rows[: len(rows) - len(left)]
        drawing = _Drawing(replace(table, columns=columns, rows=rows))
        lines = drawing.fit(self._width)
        for number, places in enumerate(drawing.parts(self._width, whole=whole)):
            self._console.print()
            title = table.title if number == 0 else f"{table.title} (continued)"
            if title:
                self.line(title, "bold")
            for drawn in drawing.drawn(places, self._width):
                self._console.print(drawn)
        lines += drawing.left_out(self._width) if not whole else []
        if left:
            lines.append(f"… and {counted(len(left), 'more row')} with --verbose")
        for line in [*lines, *table.legend]:
            if line not in self._explained:
                self._explained.add(line)
                self.line(f"  {line}", "dim")


class _Drawing:
    """Lay a table out: its columns, their widths, and the place of tie ranges; second lines are separate columns."""

    def __init__(self, table: Table) -> None:
        self._table = table.expanded()
        self._columns = self._table.columns
        self._best = [self._table.best(at) for at in range(len(self._columns))]
        self._texts = self._written(ties=True)

    def _written(self, *, ties: bool) -> list[list[str]]:
        """Return the texts of each column, with or without the ranges that ties leave."""
        written = []
        for at, column in enumerate(self._columns):
            cells = [row[at] for row in self._table.rows]
            marked = any(cell.mark for cell in cells)
            texts = [_text(column, cell, ties=ties, marked=marked) for cell in cells]
            written.append([_broken(text, _LABEL_WIDTH) for text in texts] if at == 0 and not column.whole else texts)
        return written

    def _width(self, at: int) -> int:
        """Return the columns of the terminal that a column takes."""
        texts = [self._columns[at].name, *self._texts[at]]
        return max(cell_len(line) for text in texts for line in text.split("\n"))

    def fit(self, width: int | None) -> list[str]:
        """Put tie ranges into a footnote if there is no room for them; return the explanation of the ranges."""
        if not any(cell.ties for row in self._table.rows for cell in row):
            return []
        if width is None or self._natural(range(len(self._columns))) <= width:
            return [f"[low–high]: {TIES}"]
        self._texts = self._written(ties=False)
        ranges, naming = [], [at for at, column in enumerate(self._columns) if at == 0 or column.names]
        rows = [(" ".join(row[at].text for at in naming), row) for row in self._table.rows]
        for at, column in enumerate(self._columns):
            of_column = [f"{name} {row[at].ties}" for name, row in rows if row[at].ties]
            ranges += [f"{column.name} of {', '.join(of_column)}"] if of_column else []
        return [f"{TIES}: {'; '.join(ranges)}"]

    def parts(self, width: int | None, *, whole: bool) -> list[list[int]]:
        """Return the columns to draw, in one or, with ``whole``, as many parts as it takes."""
        places = list(range(len(self._columns)))
        if not whole:
            return [self._kept(width)]
        if width is None or self._narrowest(places) <= width or self._foldable(places, width) is not None:
            return [places]
        names = [at for at in places if at == 0 or self._columns[at].names]
        made: list[list[int]] = [list(names)]
        for group in self._groups():
            if len(made[-1]) > len(names) and self._narrowest([*made[-1], *group]) > width:
                made.append(list(names))
            made[-1] += group
        return made

    def _groups(self) -> list[list[int]]:
        """Return the columns that do not name the rows, related columns in one list."""
        groups: list[list[int]] = []
        for at, column in enumerate(self._columns):
            if column.follows and groups:
                groups[-1].append(at)
            elif at > 0 and not column.names:
                groups.append([at])
        return groups

    def left_out(self, width: int | None) -> list[str]:
        """Name the columns for which there is no room; columns that follow another one by that column's name."""
        kept = self._kept(width)
        missing = [at for at in range(len(self._columns)) if at not in kept]
        names: dict[str, None] = {}
        owners: dict[str, None] = {}
        for first, *others in self._groups():
            heading = self._columns[first].name
            if first not in kept:
                names[heading] = None
            elif any(at not in kept for at in others):
                owners[heading] = None
        said = [*names, *([f"more on {', '.join(owners)}"] if owners else [])]
        return [f"no room for {counted(len(missing), 'more column')}: {', '.join(said)}"] if missing else []

    def _kept(self, width: int | None) -> list[int]:
        places = list(range(len(self._columns)))
        while width is not None and self._narrowest(places) > width and len(places) > 1:
            worst = max(places, key=lambda at: (self._columns[at].priority, at))
            if self._columns[worst].priority == 0:
                break
            places.remove(worst)
        return places

    def _natural(self, places: Sequence[int]) -> int:
        return sum(self._width(at) for at in places) + _GAP * (len(places) - 1)

    def _narrowest(self, places: Sequence[int]) -> int:
        """Return the least width of these columns: texts can be broken, numbers cannot."""
        return self._sum({at: self._least(at) for at in places})

    def _least(self, at: int) -> int:
        column = self._columns[at]
        whole = column.numeric or column.whole
        return self._width(at) if whole else min(self._width(at), _NARROWEST_NAME if at == 0 else _NARROWEST)

    def _foldable(self, places: Sequence[int], width: int | None) -> int | None:
        """Return the column of sentences that goes below its rows for lack of room; None if all columns have room."""
        for at in places:
            beside = [other for other in places if other != at]
            if width is not None and self._columns[at].folds:
                room = width - self._natural(beside) - _GAP
                return at if room < min(_LEAST_BESIDE, self._width(at)) else None
        return None

    def drawn(self, places: Sequence[int], width: int | None) -> Iterator[RichTable | Text]:
        """Yield these columns as a table of Rich, or in parts with sentences between the rows."""
        folds, rows = self._foldable(places, width), range(len(self._table.rows))
        if folds is None:
            yield self._rich(places, width, rows)
            return
        beside = [at for at in places if at != folds]
        yield self._rich(beside, width, range(0))
        for row in rows:
            yield self._rich(beside, width, [row], headed=False)
            if self._texts[folds][row]:
                yield Text(folded(f"    {self._texts[folds][row]}", width, 0))

    def _rich(self, places: Sequence[int], width: int | None, rows: Sequence[int], *, headed: bool = True) -> RichTable:
        """Return these columns and rows as a table of Rich; texts share the part of ``width`` that numbers leave."""
        gaps = (0, _GAP - 1, 0, 0)
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=gaps, show_edge=False, show_header=headed)
        widths = self._widths(places, width)
        for at, limit in zip(places, widths, strict=True):
            column = self._columns[at]
            lines = [line for row in rows for line in self._text(at, row, limit).plain.split("\n")]
            drawn.add_column(
                Text(column.name),
                justify="right" if column.numeric else "left",
                no_wrap=column.numeric,
                width=max([limit, *map(cell_len, lines)])
                if column.folds
                else limit,  # a path or an address stays whole
                overflow="fold",
            )
        for row in rows:
            drawn.add_row(*(self._text(at, row, limit) for at, limit in zip(places, widths, strict=True)))
        return drawn

    def _text(self, at: int, row: int, limit: int) -> Text:
        column, text, best = self._columns[at], self._texts[at][row], self._best[at]
        if column.folds:
            text = folded(text, limit, 0)
        elif not (column.numeric or column.whole):
            text = _broken(text, limit)
        is_best = best is not None and self._table.rows[row][at].value == best
        return Text(text, style="bold" if is_best else "")

    def _widths(self, places: Sequence[int], width: int | None) -> list[int]:
        natural = {at: self._width(at) for at in places}
        texts = [at for at in places if not self._columns[at].numeric]
        if width is not None:
            while self._sum(natural) > width and any(natural[at] > self._least(at) for at in texts):
                widest = max(texts, key=lambda at: natural[at] - self._least(at))
                natural[widest] -= 1
        return [natural[at] for at in places]

    @staticmethod
    def _sum(widths: dict[int, int]) -> int:
        return sum(widths.values()) + _GAP * (len(widths) - 1)


def _text(column: Column, cell: Cell, *, ties: bool, marked: bool) -> str:
    text = readable(cell.text) if column.folds else shortened(cell.text)
    if ties and cell.ties:
        text = f"{text} {cell.ties}"
    if cell.mark:
        return f"{text} {cell.mark}"
    return f"{text}  " if marked and column.numeric else text


def _broken(text: str, width: int) -> str:
    """Return a text in several lines, broken after blanks, ``;``, ``,``, ``:`` and ``/`` rather than inside a word."""
    lines = [""]
    for piece in re.findall(r"[^ ;,:/]*[ ;,:/]?", text):
        if piece.strip() and lines[-1].strip() and cell_len(lines[-1]) + cell_len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)
