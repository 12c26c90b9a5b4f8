"""Show a result in a textual format: its document in the renderer of that name, or the stored JSON."""

from __future__ import annotations

import csv
import io

from harness.document.model import Document
from harness.errors import UnknownNameError
from harness.report.documents.check import check_document
from harness.report.documents.comment import comment_document
from harness.report.documents.compare import comparison_document
from harness.report.documents.judges import judges_document
from harness.report.documents.regress import change_document
from harness.report.documents.verify import verification_document
from harness.report.render.latex import render_latex
from harness.report.render.markdown import COMMENT_BYTES, render_markdown
from harness.report.render.terminal import render_terminal
from harness.results.judge_results import JudgeResult
from harness.results.schema import Result
from harness.results.verification import Verification

FORMATS = ("table", "markdown", "latex", "csv", "json")
CSV_COLUMNS = ("dataset", "backend", "metric", "mean", "low", "high", "n")
Reportable = Result | Verification | JudgeResult


def document_of(result: Reportable) -> Document:
    """Return the document of a result."""
    if isinstance(result, Verification):
        return verification_document(result)
    if isinstance(result, JudgeResult):
        return judges_document(result)
    if result.kind == "check":
        return check_document(result)
    if result.change is not None:
        return change_document(result)
    return comparison_document(result)


def render(
    subject: Reportable | Document,
    format_name: str,
    *,
    sort: str | None = None,
    verbose: bool = False,
    width: int | None = None,
    styled: bool = False,
) -> str:
    """Return a result or a document as text.

    Args:
        subject: The object to render.
        format_name: ``table``, ``markdown``, ``latex`` or ``csv``; of a result also ``json``.
        sort: The sort column of tables.
        verbose: In ``table`` and ``latex`` all tables and notes, not only those that answer the question.
        width: Columns of the terminal for ``table``; None for lines of any length.
        styled: In ``table`` bold and colours (NO_COLOR is honoured).

    Raises:
        UnknownNameError: There is no such format, or no such column.
    """
    formats = FORMATS if not isinstance(subject, Document) else FORMATS[:-1]
    if format_name not in formats:
        raise UnknownNameError("format", format_name, formats)
    if format_name == "json" and not isinstance(subject, Document):
        return subject.model_dump_json(by_alias=True, indent=2) + "\n"
    document = subject if isinstance(subject, Document) else document_of(subject)
    document = document.sorted_by(sort) if sort is not None else document
    if format_name == "table":
        return render_terminal(document, width=width, verbose=verbose, styled=styled)
    if format_name == "markdown":  # if something was judged, in the size of a comment on a pull request
        return render_markdown(document, COMMENT_BYTES if document.suites else None)
    if format_name == "latex":
        return render_latex(document, verbose=verbose)
    return _csv(document)


def render_comment(result: Result) -> str:
    """Return Markdown for a comment on a pull request: the verdict, and the questions that were lost and won."""
    return render_markdown(comment_document(document_of(result), result), COMMENT_BYTES)


def _csv(document: Document) -> str:
    """Return every number of a document in full precision, long: one row a dataset, backend and metric.

    A document with records has a row for each.
    """
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    if document.records:
        writer.writerow(document.records[0])
        writer.writerows(["" if cell is None else cell for cell in row.values()] for row in document.records)
        return sink.getvalue()
    writer.writerow(CSV_COLUMNS)
    for value in document.values:
        row = (getattr(value, name) for name in CSV_COLUMNS)
        writer.writerow("" if cell is None else cell for cell in row)
    return sink.getvalue()
