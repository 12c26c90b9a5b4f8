"""The pages of a comparison, a check, and a result against an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from harness._version import __version__
from harness.data.types import Corpus
from harness.pipeline.evaluated_runs import EvaluatedRuns
from harness.pipeline.regress.compare_sides import SideComparison
from harness.report.documents.change_figures import change_figures
from harness.report.documents.check import check_document
from harness.report.documents.compare import comparison_document
from harness.report.documents.comparison_figures import comparison_figures
from harness.report.documents.evaluate import scores_document
from harness.report.documents.regress import change_document
from harness.report.html.render import render_page
from harness.report.rankings.of_change import change_explorers
from harness.report.rankings.of_check import Hits, Returned, check_explorers
from harness.report.rankings.of_comparison import comparison_explorers
from harness.report.rankings.of_runs import run_explorers
from harness.results.comparison import Comparison
from harness.results.schema import Result
from harness.results.stored_texts import Documents


def comparison_html(compared: Comparison) -> str:
    """Return the page of a comparison as one HTML file."""
    result, runs = compared.report, {}
    if len(result.datasets) == 1:
        runs = {trial.label: compared.run(trial.label) for trial in result.trials if trial.status == "ok"}
    return render_page(comparison_document(result, comparison_figures(compared, runs)), comparison_explorers(compared))


def runs_html(evaluated: EvaluatedRuns) -> str:
    """Return the page of scored runs as one HTML file."""
    document = replace(scores_document(evaluated), made_by=f"harness {__version__}")
    return render_page(document, run_explorers(evaluated))


def check_html(
    report: Result,
    runs: Hits,
    corpora: Mapping[str, Corpus],
    texts: Returned,
    no_texts: str,
    explanations: pa.Table | None = None,
) -> str:
    """Return the page of a check as one HTML file; arguments as in :func:`check_explorers`."""
    explorers = [
        replace(explorer, explanations=explanations)
        for explorer in check_explorers(report, runs, corpora, texts, no_texts)
    ]
    return render_page(check_document(report), explorers, instead_of="missed")


def change_html(
    report: Result,
    compared: SideComparison | None,
    documents: Mapping[str, Documents],
    no_texts: str,
    *,
    keep_text: bool,
) -> str:
    """Return the page of a result against an earlier one as one HTML file.

    ``compared`` holds the rankings and values of all queries; if it is None, the page has the queries of the report as
    tables, and ``no_texts`` says why. The other arguments are those of :func:`change_explorers`.
    """
    if compared is None:
        return render_page(change_document(report, unknown=no_texts))
    explorers = change_explorers(compared, documents, no_texts, keep_text=keep_text)
    return render_page(change_document(report, list(change_figures(compared))), explorers, instead_of="changed")
