"""A report in each textual format. Every function returns the whole text; nobody else formats results."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable

from harness.errors import UnknownNameError
from harness.reporting.tables import Table, header, legend, notes, tables
from harness.results.schema import Report

__all__ = ["FORMATS", "render"]

_WIDTH = 400
_LABEL_WIDTH = 44


def render(report: Report, format_name: str, *, terminal: bool = False) -> str:
    """The report as ``table``, ``markdown``, ``csv`` or ``json``; raises UnknownNameError for another name.

    ``terminal`` makes titles bold (NO_COLOR is honoured). Lines are as long as they need to be: a folded
    number is worse than a line that the terminal breaks.
    """
    if format_name == "table":
        return _terminal(report, terminal=terminal)
    if format_name not in _RENDERERS:
        raise UnknownNameError("format", format_name, FORMATS)
    return _RENDERERS[format_name](report)


def _terminal(report: Report, *, terminal: bool) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    sink = io.StringIO()
    console = Console(file=sink, width=_WIDTH, force_terminal=terminal, highlight=False)
    console.print(Text(header(report), style="bold"))
    for table in tables(report):
        drawn = RichTable(
            title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
        )
        for number, column in enumerate(table.columns):
            if number == 0:
                drawn.add_column(column, overflow="fold", max_width=_LABEL_WIDTH)
            else:
                drawn.add_column(column, justify="right", no_wrap=True)
        for row in table.rows:
            drawn.add_row(*(Text(cell) for cell in row))
        console.print(drawn)
    for line in [*notes(report), *legend(report)]:
        console.print(Text(line), soft_wrap=True)
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def _markdown(report: Report) -> str:
    parts = [f"**{header(report)}**", ""]
    for table in tables(report):
        parts += [f"### {table.title}", "", *_markdown_table(table), ""]
    parts += [f"- {line}" for line in [*notes(report), *legend(report)]]
    return "\n".join(parts).rstrip() + "\n"


def _markdown_table(table: Table) -> list[str]:
    ruler = "|".join(["---", *(["--:"] * (len(table.columns) - 1))])
    lines = ["| " + " | ".join(table.columns) + " |", f"|{ruler}|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table.rows]
    return lines


def _csv(report: Report) -> str:
    """One line per backend and figure: the long form that any tool can pivot."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["backend", "section", "name", "value"])
    for backend in report.backends:
        writer.writerow([backend.label, "status", "status", backend.status])
        for name, value in backend.metrics.items():
            for part, number in value.model_dump().items():
                writer.writerow([backend.label, "metrics", f"{name}.{part}", "" if number is None else repr(number)])
        for section in ("parity", "index", "search"):
            model = getattr(backend, section)
            if model is not None:
                for name, number in _flat(model.model_dump()).items():
                    writer.writerow([backend.label, section, name, "" if number is None else number])
    return sink.getvalue()


def _flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif isinstance(value, list):
            flat[prefix + name] = " ".join(str(item) for item in value)
        else:
            flat[prefix + name] = value
    return flat


def _json(report: Report) -> str:
    return report.model_dump_json(by_alias=True, indent=2) + "\n"


_RENDERERS: dict[str, Callable[[Report], str]] = {"markdown": _markdown, "csv": _csv, "json": _json}
FORMATS = ("table", *_RENDERERS)
