"""Show a result in a textual format: its document in the renderer of that name, or the stored JSON."""

from __future__ import annotations

from collections.abc import Callable

from harness.document.model import Document
from harness.errors import UnknownNameError
from harness.report.documents.check import check_document
from harness.report.documents.compare import comparison_document
from harness.report.documents.regress import change_document
from harness.report.documents.verify import verification_document
from harness.report.render.csv import render_csv
from harness.report.render.markdown import COMMENT_BYTES, render_markdown
from harness.report.render.terminal import render_terminal
from harness.results.schema import Result
from harness.results.verification import Verification

__all__ = ["FORMATS", "document_of", "render", "render_document"]

FORMATS = ("table", "markdown", "csv", "json")
Shown = Result | Verification


def document_of(result: Shown) -> Document:
    """Return the document of a result."""
    if isinstance(result, Verification):
        return verification_document(result)
    if result.kind == "check":
        return check_document(result)
    if result.change is not None:
        return change_document(result)
    return comparison_document(result)


def render(
    result: Shown,
    format_name: str,
    *,
    sort: str | None = None,
    verbose: bool = False,
    width: int | None = None,
    styled: bool = False,
) -> str:
    """Return a result as text.

    Args:
        result: What is shown.
        format_name: ``table``, ``markdown``, ``csv`` or ``json``.
        sort: A column by which the rows of tables are sorted.
        verbose: In ``table`` all tables and notes, not only those that answer the question.
        width: Columns of the terminal for ``table``; None where lines are as long as they need to be.
        styled: In ``table`` bold and colours (NO_COLOR is honoured).

    Raises:
        UnknownNameError: There is no such format, or no such column.
    """
    if format_name not in FORMATS:
        raise UnknownNameError("format", format_name, FORMATS)
    if format_name == "json":
        return result.model_dump_json(by_alias=True, indent=2) + "\n"
    return render_document(document_of(result), format_name, sort=sort, verbose=verbose, width=width, styled=styled)


def render_document(
    document: Document,
    format_name: str,
    *,
    sort: str | None = None,
    verbose: bool = False,
    width: int | None = None,
    styled: bool = False,
) -> str:
    """Return a document as ``table``, ``markdown`` or ``csv``; arguments and errors as of :func:`render`."""
    document = document.sorted_by(sort) if sort is not None else document
    if format_name == "table":
        return render_terminal(document, width=width, verbose=verbose, styled=styled)
    return _RENDERERS[format_name](document)


def _markdown(document: Document) -> str:
    """Return Markdown; where something was judged, in the size of a comment on a pull request."""
    return render_markdown(document, COMMENT_BYTES if document.suites else None)


_RENDERERS: dict[str, Callable[[Document], str]] = {"markdown": _markdown, "csv": render_csv}
