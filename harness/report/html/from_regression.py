"""The page of ``harness regress`` and ``harness diff``: one result against an earlier one."""

from __future__ import annotations

from collections.abc import Iterator

from harness.data.types import Corpus
from harness.pipeline.regress.compare_sides import Compared
from harness.report.document import Figure
from harness.report.documents.regress import change_document
from harness.report.figures import Differences
from harness.report.html.regression_explorer import explorers_of, paired_values
from harness.report.html.render import render_page
from harness.results.regression_schema import RegressionReport

__all__ = ["regression_html"]

_DRAWN = 6


def regression_html(
    report: RegressionReport, compared: Compared | None, corpus: Corpus | None, no_texts: str, *, keep_text: bool
) -> str:
    """Return the page as one HTML file.

    ``compared`` holds the rankings and values of all queries; where it is None, the page has the queries of the report
    as tables, and ``no_texts`` says why. ``corpus`` has the texts of the documents; where it is None, ``no_texts`` says
    why. Without ``keep_text`` there are no texts at all.
    """
    if compared is None:
        return render_page(change_document(report, unknown=no_texts))
    document = change_document(report, list(_figures(compared)))
    return render_page(document, explorers_of(compared, corpus, no_texts, keep_text=keep_text))


def _figures(compared: Compared) -> Iterator[Figure]:
    """Yield after minus before, query by query, of the first metrics in which any query changed."""
    judged = [(one, metric) for one in compared.report.backends for metric in one.metrics]
    for one, metric in [(one, metric) for one, metric in judged if metric.wins + metric.losses][:_DRAWN]:
        name = f"{metric.metric} of {one.after}"
        values = paired_values(compared, one.before, one.after, metric.metric)
        note = "Query by query, sorted from the greatest loss to the greatest gain."
        yield Figure(f"{name}, after minus before", Differences("after", "before", name, values), note)
