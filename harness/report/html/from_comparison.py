"""The page of a comparison."""

from __future__ import annotations

from harness.report.documents.compare import comparison_document
from harness.report.documents.comparison_figures import Compared, comparison_figures
from harness.report.html.comparison_explorer import explorer_of
from harness.report.html.render import render_page

__all__ = ["comparison_html"]


def comparison_html(compared: Compared) -> str:
    """Return the page as one HTML file; where there are several datasets, it has no list of queries."""
    result = compared.report
    if len(result.datasets) > 1:
        return render_page(comparison_document(result, comparison_figures(compared, {})))
    runs = {one.label: compared.run(one.label) for one in result.trials if one.status == "ok"}
    document = comparison_document(result, comparison_figures(compared, runs))
    no_texts = "" if compared.corpus is not None else compared.no_texts
    return render_page(document, explorer_of(compared, runs, compared.corpus, no_texts))
