"""The page of a check: a golden set held against backends."""

from __future__ import annotations

from collections.abc import Mapping

from harness.data.types import Corpus, Run
from harness.report.documents.check import check_document
from harness.report.html.check_explorer import explorers_of
from harness.report.html.render import render_page
from harness.results.check_schema import CheckReport

__all__ = ["check_html"]


def check_html(report: CheckReport, runs: Mapping[str, Run], corpora: Mapping[str, Corpus], no_texts: str) -> str:
    """Return the page as one HTML file; ``runs`` are the hits of each backend by its label.

    ``corpora`` have the texts of the documents by the name of the corpus; where one is missing, ``no_texts`` says why.
    """
    return render_page(check_document(report), explorers_of(report, runs, corpora, no_texts))
