"""A regression report in Markdown: for a comment on a pull request, and for the summary of a step."""

from __future__ import annotations

from harness.report.markdown_parts import Document, code, comment_marker, details, fenced, markdown_table
from harness.report.regression_cases import losers, verdict_line
from harness.report.regression_queries import query_tables
from harness.report.regression_tables import first_of_all, regression_tables, remarks
from harness.results.regression_schema import RegressionReport
from harness.wording import counted

__all__ = ["regression_markdown"]

_SIGNS = {"passed": "✅", "failed": "❌", "invalid": "⚠️", None: "📋"}
_DATA = ("backend", "setting", "before", "after")


def regression_markdown(report: RegressionReport, limit: int) -> str:
    """The report in at most ``limit`` bytes of UTF-8: verdict, tables, then the queries behind each failure."""
    document, dataset = Document(limit), report.after.dataset.name
    document.add(comment_marker(report.kind, dataset))
    document.add(f"### {_SIGNS[report.gate]} harness {report.kind}: {code(dataset)} {report.gate or 'compared'}")
    sides = f"{code(report.before.source)} → {code(report.after.source)}"
    document.add(
        f"{sides} · {counted(report.data.common_queries, 'common query')} · harness {report.after.harness.version}"
    )
    said = first_of_all(report)
    if said:
        document.add(fenced("\n".join(said)))
    for table in regression_tables(report):
        document.add(markdown_table(table, _DATA))
    for backend in report.backends:
        for metric in backend.metrics:
            if metric.gate == "failed":
                text = "\n".join([verdict_line(metric), *losers(backend, metric.metric)])
                document.add(details(f"{metric.metric} failed on {backend.after}", fenced(text)))
    document.add(details("notes", fenced("\n".join(remarks(report)))))
    for table in query_tables(report):
        document.add(markdown_table(table, table.columns))
    return document.text()
