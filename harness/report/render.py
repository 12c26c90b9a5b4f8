"""A report in each textual format. Every function returns the whole text; nobody else formats results."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable, Sequence

from harness.errors import UnknownNameError
from harness.report.cells import Table
from harness.report.tables import header, legend, notes, tables
from harness.results.frontier import frontier_stats, frontiers
from harness.results.schema import Result
from harness.wording import readable, shortened

__all__ = ["FORMATS", "flat", "markdown_text", "render", "terminal_text"]

_WIDTH = 400
_LABEL_WIDTH = 44


def render(report: Result, format_name: str, *, terminal: bool = False) -> str:
    """The report as ``table``, ``markdown``, ``csv`` or ``json``; raises UnknownNameError for another name.

    ``terminal`` makes titles bold (NO_COLOR is honoured). Lines are as long as they need to be: a folded
    number is worse than a line that the terminal breaks.
    """
    if len(report.datasets) > 1 and format_name != "json":
        return "\n".join(render(report.on(info.name), format_name, terminal=terminal) for info in report.datasets)
    if format_name == "table":
        return terminal_text(header(report), tables(report), [*notes(report), *legend(report)], terminal=terminal)
    if format_name not in _RENDERERS:
        raise UnknownNameError("format", format_name, FORMATS)
    return _RENDERERS[format_name](report)


def terminal_text(head: str, shown: Sequence[Table], lines: Sequence[str], *, terminal: bool) -> str:
    """A headline, tables and lines, for people; ``terminal`` makes titles bold (NO_COLOR is honoured)."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    sink = io.StringIO()
    console = Console(file=sink, width=_WIDTH, force_terminal=terminal, highlight=False)
    console.print(Text(head, style="bold"))
    for table in shown:
        drawn = RichTable(
            title=Text(table.title, no_wrap=True, overflow="ignore"),
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 1, 0, 0),
        )
        for number, column in enumerate(table.columns):
            if number == 0:
                drawn.add_column(Text(column), no_wrap=True)
            else:
                drawn.add_column(Text(column), justify="right", no_wrap=True)
        for label, *cells in table.rows:
            drawn.add_row(Text(_folded(shortened(label))), *(Text(shortened(cell)) for cell in cells))
        console.print(drawn)
    for line in lines:
        for part in readable(line).split("\n"):
            console.print(Text(_wrapped(part) if terminal else part), soft_wrap=True)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def _wrapped(line: str) -> str:
    """A line in the columns of the terminal, indented where it goes on; a word, a path or an address stays whole."""
    from rich.cells import cell_len

    width = shutil.get_terminal_size().columns
    first, *words = line.split(" ")
    rows = [first]
    for word in words:
        if rows[-1].strip() and cell_len(rows[-1]) + 1 + cell_len(word) > width:
            rows.append(f"  {word}")
        else:
            rows[-1] += f" {word}"
    return "\n".join(rows)


def _folded(label: str) -> str:
    """A long label in several lines, broken after ``;``, ``,``, ``:`` and ``/`` rather than inside a word."""
    lines = [""]
    for piece in re.findall(r"[^;,:/]*[;,:/]?", label):
        if lines[-1] and len(lines[-1]) + len(piece) > _LABEL_WIDTH:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _markdown(report: Result) -> str:
    return markdown_text(header(report), tables(report), [*notes(report), *legend(report)])


def markdown_text(head: str, shown: Sequence[Table], lines: Sequence[str]) -> str:
    """A headline, tables and lines, as Markdown."""
    parts = [f"**{head}**", ""]
    for table in shown:
        parts += [f"### {table.title}", "", *_markdown_table(table), ""]
    parts += [f"- {readable(line)}" for line in lines]
    return "\n".join(parts).rstrip() + "\n"


def _markdown_table(table: Table) -> list[str]:
    ruler = "|".join(["---", *(["--:"] * (len(table.columns) - 1))])
    lines = ["| " + " | ".join(table.columns) + " |", f"|{ruler}|"]
    lines += ["| " + " | ".join(shortened(cell).replace("|", "\\|") for cell in row) + " |" for row in table.rows]
    return lines


def _csv(report: Result) -> str:
    """One line per figure, with its backend, or the pair ``b - a``, or ``-`` for the dataset: the long form."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["backend", "section", "name", "value"])
    sections: list[tuple[str, str, dict[str, object]]] = [("-", "dataset", report.dataset.model_dump())]
    for backend in report.trials:
        content = backend.model_dump(exclude={"dataset", "label", "name", "slices", "questions"})
        facts = {name: content.pop(name) for name in ("status", "measured", "reused", "deterministic", "notes")}
        sections.append((backend.label, "backend", facts))
        levels = [(f"closed_loop.{level['clients']}", level) for level in content.pop("closed_loop")]
        levels += [(f"open_loop.{level['rate']:g}", level) for level in content.pop("open_loop")]
        each = content["spread"].pop("each") if content["spread"] else []
        levels += [(f"spread.build.{one.pop('build')}", one) for one in each]
        sections += [(backend.label, name, level) for name, level in levels]
        sections += [(backend.label, name, values) for name, values in content.items() if values]
    for one in frontiers(report):
        for point in one.points if one.timed else ():
            on_it: dict[str, object] = {"value": point.value, "quality": point.quality, "p50_ms": point.p50_ms}
            on_it["on_frontier"] = point.best
            sections.append((point.backend.label, "frontier", on_it))
    for row in report.differences:
        values = row.model_dump(exclude={"dataset", "a", "b", "metric"})
        sections.append((f"{row.b} - {row.a}", "difference", {row.metric: values}))
    sections += [(one.backend or "-", "finding", {one.check: one.message}) for one in report.findings]
    for label, section, values in sections:
        for name, value in flat(values).items():
            writer.writerow([label, section, name, "" if value is None else value])
    return sink.getvalue()


def flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    """Nested values by dotted names; a list is one text with ``|`` between its items."""
    leaves: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            leaves.update(flat(value, f"{prefix}{name}."))
        elif isinstance(value, list):
            leaves[prefix + name] = " | ".join(str(item) for item in value)
        else:
            leaves[prefix + name] = value
    return leaves


def _json(report: Result) -> str:
    whole = report.model_copy(update={"frontiers": frontier_stats(report)})  # that of an earlier version has none
    return whole.model_dump_json(by_alias=True, indent=2) + "\n"


_RENDERERS: dict[str, Callable[[Result], str]] = {"markdown": _markdown, "csv": _csv, "json": _json}
FORMATS = ("table", *_RENDERERS)
