"""``harness report``: print a stored result again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.output import print_result, write_report
from harness.cli.verb import verb
from harness.errors import UsageError
from harness.plan.config import ReportRequest

if TYPE_CHECKING:
    from harness.results.schema import Result


_HTML = "html"


@verb(ReportRequest)
def report(request: ReportRequest) -> None:
    """Print a stored result in any format, without running anything.

    A folder of regress is printed as what was judged; its report.json as the comparison that ran.

    Texts of a dataset's documents are in no result: html takes them from the dataset, if that still holds the same.

    Example: harness report reports/cacm-20260101-120000 --format markdown
    """
    if request.schema:
        from harness.report.schema_page import describe_schema

        click.echo(describe_schema(), nl=False)
        return
    if request.folder is None:
        raise UsageError("no result folder was given", fix="name one that harness wrote, under reports/")
    _refuse_contradictions(request)
    from harness.pipeline.read_result import read_result, stored_report

    if request.format == _HTML:  # bytes, because the file declares UTF-8, whatever the encoding of the terminal is
        page = read_result(request.folder, request.cards).html(keep_text=not request.no_text)
        print_result(page.encode())
        return
    if request.query is not None or request.query_table:
        _write_queries(request.folder, request)
        return
    stored = stored_report(request.folder)
    visible_result = _without_texts(stored) if request.no_text else stored
    if request.sort is not None:
        from harness.report.formats import document_of

        document_of(visible_result).check_sort(request.sort)
    write_report(visible_result, request.format, verbose=request.verbose, sort=request.sort)


def _without_texts(report: Result) -> Result:
    """Return the same without texts of queries; texts of documents are in no report, nor in a comparison's result."""
    from harness.pipeline.regress.regression import without_texts
    from harness.results.check_redaction import without_questions

    if report.change is not None:
        return report.model_copy(update={"change": without_texts(report.change)})
    return without_questions(report) if report.kind == "check" else report


def _refuse_contradictions(request: ReportRequest) -> None:
    """Raise UsageError for options that exclude each other."""
    flags = [flag for flag, value in (("--query", request.query), ("--query-table", request.query_table)) if value]
    if len(flags) > 1:
        raise UsageError("--query with --query-table: one query or all", fix="leave out one of them")
    if flags and request.format == _HTML:
        raise UsageError(f"{flags[0]} with --format html: the page has every query", fix="leave out one of them")
    if request.metric is not None and not request.query_table:
        raise UsageError("--metric without --query-table: it names the metric of that table", fix="add --query-table")


def _write_queries(folder: Path, request: ReportRequest) -> None:
    """Print one query of a stored result, or the table of all."""
    from harness.pipeline.read_result import read_result
    from harness.report.presenting import queries_of, query_of

    result, keep_text = read_result(folder, request.cards), not request.no_text
    if request.query is None:
        document = queries_of(result, request.metric, request.sort, keep_text=keep_text)
        write_report(document, request.format, verbose=request.verbose)
        return
    document = query_of(result, request.query, keep_text=keep_text)
    if request.sort is not None:
        document.check_sort(request.sort)
    write_report(document, request.format, verbose=request.verbose, sort=request.sort)
