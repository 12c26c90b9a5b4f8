"""A regression report in each textual format: the verdict first, then what changed, by how much, and where."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator

from harness.errors import UnknownNameError
from harness.report.markdown_parts import COMMENT_BYTES
from harness.report.regression_markdown import regression_markdown
from harness.report.regression_queries import query_tables
from harness.report.regression_tables import first_of_all, headline, regression_tables, remarks
from harness.report.render import flat, terminal_text
from harness.results.regression_schema import BackendChange, RegressionReport

__all__ = ["REGRESSION_FORMATS", "check_regression_format", "render_regression"]


def render_regression(report: RegressionReport, format_name: str, *, terminal: bool = False) -> str:
    """The report as ``table``, ``markdown``, ``csv`` or ``json``; raises UnknownNameError for another name.

    ``terminal`` makes titles bold.
    """
    check_regression_format(format_name)
    if format_name == "table":
        tables = [*regression_tables(report), *query_tables(report)]
        head = "\n".join([headline(report), *first_of_all(report)])
        return terminal_text(head, tables, remarks(report), terminal=terminal)
    return _RENDERERS[format_name](report)


def check_regression_format(format_name: str) -> None:
    """Refuse an unknown format now, not after an hour of work; raises UnknownNameError."""
    if format_name not in REGRESSION_FORMATS:
        raise UnknownNameError("format", format_name, REGRESSION_FORMATS)


def _markdown(report: RegressionReport) -> str:
    return regression_markdown(report, COMMENT_BYTES)


def _csv(report: RegressionReport) -> str:
    """One line per figure, with the later label of its backend, or ``-`` for the whole: the long form."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["backend", "section", "name", "value"])
    for row in _rows(report):
        writer.writerow(["" if cell is None else cell for cell in row])
    return sink.getvalue()


def _rows(report: RegressionReport) -> Iterator[tuple[object, ...]]:
    yield "-", "gate", "gate", report.gate
    for number, warning in enumerate(report.warnings, 1):
        yield "-", "warning", str(number), warning
    for name, value in flat(report.data.model_dump()).items():
        yield "-", "data", name, value
    for change in report.settings:
        for when in ("before", "after"):
            yield change.backend or "-", f"setting.{change.section}", f"{change.setting}.{when}", getattr(change, when)
    for backend in report.backends:
        yield from _rows_of(backend)


def _rows_of(backend: BackendChange) -> Iterator[tuple[object, ...]]:
    for name in ("status", "before", "paired_by", "error"):
        yield backend.after, "backend", name, getattr(backend, name)
    for metric in backend.metrics:
        for name, value in metric.model_dump(exclude={"metric"}).items():
            yield backend.after, "metric", f"{metric.metric}.{name}", value
    for cost in backend.costs:
        for name, value in cost.model_dump(exclude={"cost"}).items():
            yield backend.after, "cost", f"{cost.cost}.{name}", value
    for query in backend.dossier.queries if backend.dossier is not None else ():
        for one in query.values:
            for name, value in one.model_dump(exclude={"metric"}).items():
                yield backend.after, f"query.{query.query}", f"{one.metric}.{name}", value


def _json(report: RegressionReport) -> str:
    return report.model_dump_json(by_alias=True, indent=2) + "\n"


_RENDERERS: dict[str, Callable[[RegressionReport], str]] = {"markdown": _markdown, "csv": _csv, "json": _json}
REGRESSION_FORMATS = ("table", *_RENDERERS)
