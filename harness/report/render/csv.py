"""Render the numbers of a document as CSV, long: one row a dataset, backend and metric."""

from __future__ import annotations

import csv
import io

from harness.document.model import Document

__all__ = ["COLUMNS", "render_csv"]

COLUMNS = ("dataset", "backend", "metric", "mean", "low", "high", "n")


def render_csv(document: Document) -> str:
    """Return every number of the document in full precision; what does not apply is empty."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(COLUMNS)
    for value in document.values:
        row = (getattr(value, name) for name in COLUMNS)
        writer.writerow("" if cell is None else cell for cell in row)
    return sink.getvalue()
