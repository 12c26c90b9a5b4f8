"""Render a document as Markdown that shows data verbatim: nothing in them is formatted, mentioned, linked or run.

It is made for a comment on a pull request and for the summary of a step of GitHub's actions, which both have a limit.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from html import escape

from harness.document.model import TIES, Block, Cell, Document, Facts, Notes, Table, Tone
from harness.wording import readable, shortened, visible

COMMENT_BYTES = 65_000
"""GitHub takes comments of less than 65,536 characters."""
SUMMARY_BYTES = 1_000_000
"""GitHub takes summaries of a step of at most 1 MiB, over everything that the step wrote."""
_RESERVED = 200
"""Bytes for the line that counts the omitted blocks."""
_RUN = re.compile("`+")
_MARK_UP = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_LINKED = re.compile(r"(?<!\w)@|://|www\.|#\d|:\w+:|\b[0-9a-f]{7,40}\b|\n")
"""Patterns that GitHub turns into a mention, link or picture after any character: ``Hit@5`` is not one of these."""
_SIGNS: dict[Tone, str] = {"good": "✅", "bad": "❌", "unsure": "⚠️", "plain": "📋"}


def render_markdown(document: Document, limit: int | None = None) -> str:
    """Return the document in at most ``limit`` bytes of UTF-8: verdicts, tables, then folded blocks.

    It begins with an HTML comment that names verb and data, so that an earlier comment is found and replaced.
    """
    plain_name = re.sub("-{2,}", "-", re.sub(r"[^\w.-]+", "_", document.name))  # two dashes would end the comment
    sign = f"{_SIGNS[document.verdicts[0].tone]} " if document.verdicts and document.outcome else ""
    blocks = [
        f"<!-- harness {document.kind}: {plain_name} -->",
        f"### {sign}harness {document.kind}: {code(document.name)} {document.outcome}".rstrip(),
        "<br>\n".join(map(_plain, document.subtitle.split("\n"))),
        "\n".join(_verdicts(document)),
    ]
    for section in sorted(document.sections, key=lambda section: section.detail):
        blocks += map(_block, section.blocks)
    return _within(list(filter(None, blocks)), limit)


def _verdicts(document: Document) -> Iterator[str]:
    for verdict in document.verdicts:
        headline = f"- {_SIGNS[verdict.tone]} **{_plain(verdict.headline)}**"
        yield "<br>".join([headline, *(_plain(line.strip()) for line in verdict.detail.split("\n") if line)])


def _block(block: Block) -> str:
    match block:
        case Table() if block.rows:
            return _table(block)
        case Notes() if block.lines:
            return details("notes", _fenced("\n".join(map(readable, block.lines))))
        case Facts() if block.open:
            rows = [f"{name}: {value}" if name else f"  {value}" for name, value in block.rows]
            return _fenced("\n".join([*filter(None, [block.title]), *map(readable, rows)]))
    return ""


def _table(table: Table) -> str:
    """Return a table, below its title, in a folding block if it is a detail."""
    expanded = table.expanded()
    best = [expanded.best(position) for position in range(len(expanded.columns))]
    ruler = "|".join("--:" if column.numeric else "---" for column in expanded.columns)
    lines = [f"| {' | '.join(_plain(column.name) for column in expanded.columns)} |", f"|{ruler}|"]
    for row in expanded.rows:
        cells = (
            _cell(cell, numeric=column.numeric, sentence=column.folds, best=most)
            for cell, column, most in zip(row, expanded.columns, best, strict=True)
        )
        lines.append(f"| {' | '.join(cells)} |")
    text = "\n".join(lines)
    ties = [f"[low–high]: {TIES}"] if any(cell.ties for row in table.rows for cell in row) else []
    if legend := [*ties, *table.legend]:
        text += "\n\n" + "\n".join(f"- {_plain(line)}" for line in legend)
    if table.detail:
        return details(table.title, text)
    return f"#### {_plain(table.title)}\n\n{text}" if table.title else text


def _cell(cell: Cell, *, numeric: bool, sentence: bool, best: float | None) -> str:
    text = readable(cell.text) if sentence else shortened(cell.text)
    if not numeric and text and text != "–":
        code_text = code(text).replace("|", "\\|")  # a bar ends a cell, even inside code
    else:
        code_text = _plain(f"{text} {cell.ties}" if cell.ties else text)
    if best is not None and cell.value == best:
        code_text = f"**{code_text}**"
    return f"{code_text} {cell.mark}" if cell.mark else code_text


def code(text: str) -> str:
    """Return text as code on one line: mark-up has no effect in it, and no mention is made."""
    line = " ".join(text.split())
    fence = "`" * (max((len(run) for run in _RUN.findall(line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _plain(text: str) -> str:
    """Return text with mark-up escaped, and as code if that would not keep GitHub from linking it."""
    plain = readable(text)
    return code(plain).replace("|", "\\|") if _LINKED.search(plain) else _MARK_UP.sub(r"\\\1", plain)


def _fenced(text: str) -> str:
    """Return text as a block of code, in a fence that it does not hold itself."""
    fence = "`" * max(3, max((len(run) for run in _RUN.findall(text)), default=0) + 1)
    return f"{fence}text\n{text}\n{fence}"


def details(summary: str, *blocks: str) -> str:
    """Return blocks of Markdown behind a line that opens them; the line is data."""
    head = f"<details><summary><code>{escape(' '.join(summary.split()))}</code></summary>"
    return "\n\n".join([head, *blocks, "</details>"])


def _within(blocks: Sequence[str], limit: int | None) -> str:
    """Return the blocks that fit into ``limit`` bytes of UTF-8, the first ones first, and how many do not."""
    left = sys.maxsize if limit is None else limit - _RESERVED
    lines = []
    for block in blocks:
        size = len(block.encode()) + 2
        if size <= left:
            left -= size
            lines.append(block)
    if dropped := len(blocks) - len(lines):
        parts = "1 part does" if dropped == 1 else f"{dropped} parts do"
        lines.append(f"{parts} not fit here: everything is in the result's `report.json`.")
    return visible("\n\n".join(lines)) + "\n"
