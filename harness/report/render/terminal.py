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
        blocks = [
            block
            for block in section.blocks
            if verbose or not (section.detail or (isinstance(block, Table) and block.detail))
        ]
        hidden += sum(isinstance(block, Table | Notes) for block in section.blocks if block not in blocks)
        page.blocks(blocks, verbose=verbose)
    if labels:
        console.print()
        for full, short in labels.items():
            console.print(Text(folded(f"{short} = {shortened(full)}", width)))
    if hidden:
        console.print()
        rest = ", the HTML report every query" if document.has_page else ""
        page.line(f"--verbose shows {counted(hidden, 'more table')} and notes{rest}", "dim")
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
                    self.table(block, unfolded=verbose)
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

    def table(self, table: Table, *, unfolded: bool) -> None:
        """Print a table in as many columns as there is room for; with ``unfolded`` the others follow below."""
        columns = [replace(column, name=self._short(column.name)) for column in table.columns]
        rows = [[replace(cell, text=self._short(cell.text)) for cell in row] for row in table.rows]
        left = [] if unfolded or table.most is None else rows[table.most :]
        rows = rows[: len(rows) - len(left)]
        drawing = _Drawing(replace(table, columns=columns, rows=rows))
        lines = drawing.fit(self._width)
        for number, part_columns in enumerate(drawing.parts(self._width, unfolded=unfolded)):
            self._console.print()
            title = table.title if number == 0 else f"{table.title} (continued)"
            if title:
                self.line(title, "bold")
            for drawn in drawing.drawn(part_columns, self._width):
                self._console.print(drawn)
        lines += drawing.left_out(self._width) if not unfolded else []
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
        self._best = [self._table.best(column) for column in range(len(self._columns))]
        self._texts = self._written(ties=True)

    def _written(self, *, ties: bool) -> list[list[str]]:
        """Return the texts of each column, with or without the ranges that ties leave."""
        written = []
        for position, column in enumerate(self._columns):
            cells = [row[position] for row in self._table.rows]
            marked = any(cell.mark for cell in cells)
            texts = [_text(column, cell, ties=ties, marked=marked) for cell in cells]
            written.append(
                [_broken(text, _LABEL_WIDTH) for text in texts] if position == 0 and not column.unfolded else texts
            )
        return written

    def _width(self, column: int) -> int:
        """Return the columns of the terminal that a column takes."""
        texts = [self._columns[column].name, *self._texts[column]]
        return max(cell_len(line) for text in texts for line in text.split("\n"))

    def fit(self, width: int | None) -> list[str]:
        """Put tie ranges into a footnote if there is no room for them; return the explanation of the ranges."""
        if not any(cell.ties for row in self._table.rows for cell in row):
            return []
        if width is None or self._natural(range(len(self._columns))) <= width:
            return [f"[low–high]: {TIES}"]
        self._texts = self._written(ties=False)
        ranges, naming = (
            [],
            [position for position, column in enumerate(self._columns) if position == 0 or column.names],
        )
        rows = [(" ".join(row[position].text for position in naming), row) for row in self._table.rows]
        for position, column in enumerate(self._columns):
            of_column = [f"{name} {row[position].ties}" for name, row in rows if row[position].ties]
            ranges += [f"{column.name} of {', '.join(of_column)}"] if of_column else []
        return [f"{TIES}: {'; '.join(ranges)}"]

    def parts(self, width: int | None, *, unfolded: bool) -> list[list[int]]:
        """Return the columns to draw, in one or, with ``unfolded``, as many parts as it takes."""
        columns = list(range(len(self._columns)))
        if not unfolded:
            return [self._fitting_columns(width)]
        if width is None or self._narrowest(columns) <= width or self._foldable(columns, width) is not None:
            return [columns]
        names = [column for column in columns if column == 0 or self._columns[column].names]
        made: list[list[int]] = [list(names)]
        for group in self._groups():
            if len(made[-1]) > len(names) and self._narrowest([*made[-1], *group]) > width:
                made.append(list(names))
            made[-1] += group
        return made

    def _groups(self) -> list[list[int]]:
        """Return the columns that do not name the rows, related columns in one list."""
        groups: list[list[int]] = []
        for position, column in enumerate(self._columns):
            if column.follows and groups:
                groups[-1].append(position)
            elif position > 0 and not column.names:
                groups.append([position])
        return groups

    def left_out(self, width: int | None) -> list[str]:
        """Name the columns for which there is no room; columns that follow another one by that column's name."""
        fitting = self._fitting_columns(width)
        missing = [column for column in range(len(self._columns)) if column not in fitting]
        names: dict[str, None] = {}
        owners: dict[str, None] = {}
        for first, *members in self._groups():
            heading = self._columns[first].name
            if first not in fitting:
                names[heading] = None
            elif any(column not in fitting for column in members):
                owners[heading] = None
        missing_names = [*names, *([f"more on {', '.join(owners)}"] if owners else [])]
        return [f"no room for {counted(len(missing), 'more column')}: {', '.join(missing_names)}"] if missing else []

    def _fitting_columns(self, width: int | None) -> list[int]:
        columns = list(range(len(self._columns)))
        while width is not None and self._narrowest(columns) > width and len(columns) > 1:
            worst = max(columns, key=lambda column: (self._columns[column].priority, column))
            if self._columns[worst].priority == 0:
                break
            columns.remove(worst)
        return columns

    def _natural(self, columns: Sequence[int]) -> int:
        return sum(self._width(column) for column in columns) + _GAP * (len(columns) - 1)

    def _narrowest(self, columns: Sequence[int]) -> int:
        """Return the least width of these columns: texts can be broken, numbers cannot."""
        return self._sum({column: self._least(column) for column in columns})

    def _least(self, position: int) -> int:
        column = self._columns[position]
        unbroken = column.numeric or column.unfolded
        return (
            self._width(position)
            if unbroken
            else min(self._width(position), _NARROWEST_NAME if position == 0 else _NARROWEST)
        )

    def _foldable(self, columns: Sequence[int], width: int | None) -> int | None:
        """Return the column of sentences that goes below its rows for lack of room; None if all columns have room."""
        for column in columns:
            beside = [other for other in columns if other != column]
            if width is not None and self._columns[column].folds:
                room = width - self._natural(beside) - _GAP
                return column if room < min(_LEAST_BESIDE, self._width(column)) else None
        return None

    def drawn(self, columns: Sequence[int], width: int | None) -> Iterator[RichTable | Text]:
        """Yield these columns as a table of Rich, or in parts with sentences between the rows."""
        folds, rows = self._foldable(columns, width), range(len(self._table.rows))
        if folds is None:
            yield self._rich(columns, width, rows)
            return
        beside = [column for column in columns if column != folds]
        yield self._rich(beside, width, range(0))
        for row in rows:
            yield self._rich(beside, width, [row], headed=False)
            if self._texts[folds][row]:
                yield Text(folded(f"    {self._texts[folds][row]}", width, 0))

    def _rich(
        self, columns: Sequence[int], width: int | None, rows: Sequence[int], *, headed: bool = True
    ) -> RichTable:
        """Return these columns and rows as a table of Rich; texts share the part of ``width`` that numbers leave."""
        gaps = (0, _GAP - 1, 0, 0)
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=gaps, show_edge=False, show_header=headed)
        widths = self._widths(columns, width)
        for position, limit in zip(columns, widths, strict=True):
            column = self._columns[position]
            lines = [line for row in rows for line in self._text(position, row, limit).plain.split("\n")]
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
            drawn.add_row(*(self._text(position, row, limit) for position, limit in zip(columns, widths, strict=True)))
        return drawn

    def _text(self, position: int, row: int, limit: int) -> Text:
        column, text, best = self._columns[position], self._texts[position][row], self._best[position]
        if column.folds:
            text = folded(text, limit, 0)
        elif not (column.numeric or column.unfolded):
            text = _broken(text, limit)
        is_best = best is not None and self._table.rows[row][position].value == best
        return Text(text, style="bold" if is_best else "")

    def _widths(self, columns: Sequence[int], width: int | None) -> list[int]:
        natural = {column: self._width(column) for column in columns}
        texts = [column for column in columns if not self._columns[column].numeric]
        if width is not None:
            while self._sum(natural) > width and any(natural[column] > self._least(column) for column in texts):
                widest = max(texts, key=lambda column: natural[column] - self._least(column))
                natural[widest] -= 1
        return [natural[column] for column in columns]

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
