"""The page of a comparison."""

from __future__ import annotations

from harness.report.documents.compare import comparison_document
from harness.report.documents.comparison_figures import Compared, comparison_figures
from harness.report.html.comparison_explorer import explorers_of
from harness.report.html.render import render_page

__all__ = ["comparison_html"]


def comparison_html(compared: Compared) -> str:
    """Return the page as one HTML file."""
    result, runs = compared.report, {}
    if len(result.datasets) == 1:
        runs = {trial.label: compared.run(trial.label) for trial in result.trials if trial.status == "ok"}
    return render_page(comparison_document(result, comparison_figures(compared, runs)), explorers_of(compared))
