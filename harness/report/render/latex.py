"""Render a document's tables for LaTeX: booktabs, the best of each column in bold, daggers at significant differences.

A table can be included with ``\\input``. Everything else that a reader must know, such as verdicts and notes, is in
comments. Second lines of cells, such as intervals, are second lines of their rows, so that a table stays narrow.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from harness.document.model import TIES, Block, Cell, Column, Document, Facts, Notes, Table
from harness.wording import readable, shortened

_LONGEST = 40
"""Rows of a table that fit on one page; a longer table continues on the next page, for which it needs longtable."""
_TEXT_WIDTH = "p{0.4\\linewidth}"
"""Columns of sentences, which are broken into lines."""
_SYMBOLS = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"$\sim$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "`": r"\textasciigrave{}", "[": "{[}", "]": "{]}", "*": "{*}",  # after a row's end, the last three are arguments
    "–": "--", "—": "---", "…": r"\dots{}", "−": "$-$", "·": r"$\cdot$", "±": r"$\pm$",
    "\u00d7": r"$\times$",  # the multiplication sign
    "Δ": r"$\Delta$", "≈": r"$\approx$", "≠": r"$\neq$", "≡": r"$\equiv$", "⊂": r"$\subset$", "≤": r"$\leq$",
    "≥": r"$\geq$", "→": r"$\rightarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "●": r"$\bullet$",
    "○": r"$\circ$", "◆": r"$\diamond$", "✓": r"$\surd$", "✕": r"$\times$", "▲": r"$\dagger$", "▼": r"$\ddagger$",
    "†": r"\P{}", "‡": r"\S{}",
}  # fmt: skip
"""Characters that TeX treats as commands, or that pdflatex does not know, and their commands.

The marks of significant differences, up and down, are daggers.
"""
_SPECIAL = re.compile("|".join(["-(?=-)", "'(?=')", *map(re.escape, _SYMBOLS)]))
"""These, and the first of two characters that TeX would join."""
_LAST_LATIN = "\u017f"
"""The last letter that pdflatex knows, with fonts of the encoding T1."""


def render_latex(document: Document, *, verbose: bool = False) -> str:
    """Return the document's tables as LaTeX floats, below comments with its title, verdicts and notes.

    ``verbose`` includes the tables and notes that the short form omits. The packages that the tables need are named in
    a comment.
    """
    blocks = [
        block
        for section in document.sections
        for block in section.blocks
        if verbose or not (section.detail or (isinstance(block, Table) and block.detail))
    ]
    tables = [block for block in blocks if isinstance(block, Table) and block.rows]
    body = "\n".join(_float(table, document.title) for table in tables)
    lines = [*_about(document), *_other(blocks), *(_needs(tables, body) if tables else ["no table has a row"])]
    comments = "".join(f"% {line}\n" for text in lines for line in readable(text).split("\n"))
    return f"{comments}\n{body}" if body else comments


def _needs(tables: Sequence[Table], body: str) -> Iterator[str]:
    """Name the packages, and another compiler than pdflatex if it does not know all characters."""
    long = any(len(table.rows) > _LONGEST for table in tables)
    yield f"needs \\usepackage{{booktabs{',longtable' if long else ''}}}"
    last = max(body)
    if last > _LAST_LATIN:
        yield "holds characters that pdflatex does not know: compile it with lualatex or xelatex"
    elif last > "\x7f":
        yield "holds letters beyond ASCII: pdflatex needs \\usepackage[T1]{fontenc}"


def _about(document: Document) -> Iterator[str]:
    yield f"harness {document.kind}: {document.name} {document.outcome}".rstrip()
    yield document.title
    if document.subtitle:
        yield document.subtitle
    for verdict in document.verdicts:
        yield f"{verdict.headline}\n{verdict.detail}" if verdict.detail else verdict.headline


def _other(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield the lines of notes and of open facts, which are comments."""
    for block in blocks:
        if isinstance(block, Notes):
            yield from block.lines
        elif isinstance(block, Facts) and block.open:
            yield from filter(None, [block.title])
            yield from (f"{name}: {value}" if name else f"  {value}" for name, value in block.rows)


def _float(table: Table, title: str) -> str:
    """Return a table with its caption above it and its legend below it."""
    alignment = "".join("r" if column.numeric else _TEXT_WIDTH if column.folds else "l" for column in table.columns)
    caption = _line(f"{table.title} ({title})" if table.title else title)
    head, rows = "".join(_head(table)), "".join(_rows(table))
    legend = "".join(f"{_line(line)}\\par\n" for line in _legend(table))
    legend = f"\\par\\smallskip\n{{\\footnotesize\n{legend}}}\n" if legend else ""
    if len(table.rows) > _LONGEST:
        return (
            f"\\begin{{longtable}}{{{alignment}}}\n\\caption{{{caption}}}\\\\\n\\toprule\n{head}\\midrule\n\\endhead\n"
            f"\\bottomrule\n\\endfoot\n{rows}\\end{{longtable}}\n{legend}"
        )
    return (
        f"\\begin{{table}}[htbp]\n\\centering\n\\caption{{{caption}}}\n\\begin{{tabular}}{{{alignment}}}\n\\toprule\n"
        f"{head}\\midrule\n{rows}\\bottomrule\n\\end{{tabular}}\n{legend}\\end{{table}}\n"
    )


def _head(table: Table) -> Iterator[str]:
    """Yield the row of headings, and a second one if any cells have second lines."""
    yield _row(_line(column.name) for column in table.columns)
    below = [any(row[position].below for row in table.rows) for position in range(len(table.columns))]
    if any(below):
        yield _row(_small(column.below if second else "") for column, second in zip(table.columns, below, strict=True))


def _rows(table: Table) -> Iterator[str]:
    best = [table.best(position) for position in range(len(table.columns))]
    for row in table.rows:
        yield _row(_cell(cell, column, most) for cell, column, most in zip(row, table.columns, best, strict=True))
        if any(cell.below for cell in row):
            yield _row(_small(cell.below) for cell in row)


def _row(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\\n"


def _small(text: str) -> str:
    return f"{{\\scriptsize {escape(shortened(text))}}}" if text else ""


def _cell(cell: Cell, column: Column, best: float | None) -> str:
    text = _line(cell.text) if column.folds else escape(shortened(cell.text))
    if cell.ties:
        text = f"{text} {escape(cell.ties)}"
    if best is not None and cell.value == best:
        text = f"\\textbf{{{text}}}"
    return f"{text}\\textsuperscript{{{escape(cell.mark)}}}" if cell.mark else text


def _legend(table: Table) -> Iterator[str]:
    if any(cell.ties for row in table.rows for cell in row):
        yield f"[low–high]: {TIES}"
    yield from table.legend


def _line(text: str) -> str:
    """Return a sentence on one line."""
    return escape(" ".join(readable(text).split("\n")))


def escape(text: str) -> str:
    """Return text for LaTeX to print verbatim; control characters must have been written out."""
    return _SPECIAL.sub(lambda match: _SYMBOLS.get(match[0], f"{match[0]}{{}}"), text)
