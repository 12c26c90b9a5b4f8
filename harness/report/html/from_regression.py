"""The page of ``harness regress`` and ``harness diff``: one result held against an earlier one."""

from __future__ import annotations

import shlex
from dataclasses import replace

from harness.data.types import Corpus
from harness.pipeline.regress.compare_sides import Compared
from harness.report.document import Block, Document, Notes, Section
from harness.report.html.parts import page_table
from harness.report.html.regression_explorer import explorer_of
from harness.report.html.regression_tables import (
    cost_blocks,
    difference_pictures,
    label_tables,
    provenance,
    setting_blocks,
    subtitle,
    verdict_table,
    verdicts,
)
from harness.report.html.render import render_page
from harness.report.regression_queries import query_tables
from harness.report.regression_tables import power_table, remarks
from harness.results.regression_schema import RegressionReport

__all__ = ["regression_html", "regression_page"]

_BEFORE = {"regress": "the baseline", "diff": "an earlier result"}


def regression_page(report: RegressionReport, compared: Compared | None, *, no_texts: str = "") -> Document:
    """Build the document of a regression, with its figures.

    ``compared`` holds the rankings and values of all queries; where it is None, the document has the queries that the
    report tells of as tables, and ``no_texts`` says why.
    """
    quality: list[Block] = [*verdict_table(report), *difference_pictures(compared)]
    told: list[Block] = []
    if compared is None:
        told = [Notes([no_texts]), *(page_table(table) for table in query_tables(report))]
    power, named = power_table(report), ", ".join(one.after for one in report.backends)
    sure: list[Block] = [replace(page_table(power), title="What each verdict rests on")] if power.rows else []
    sections = [
        Section("settings", "What changed", setting_blocks(report)),
        Section("quality", "Quality", quality),
        Section("cost", "Cost", cost_blocks(report)),
        Section("told", "Queries that changed most", told),
        Section("sure", "How sure", sure, detail=True),
        Section("label", "What to label next", label_tables(report), detail=True),
        Section("notes", "What the words and figures mean", [Notes(remarks(report))], detail=True),
        Section("provenance", "Provenance", provenance(report), detail=True),
    ]
    return Document(
        title=f"{report.after.dataset.name}: {named} against {_BEFORE[report.kind]}",
        subtitle=subtitle(report),
        verdicts=verdicts(report),
        sections=[one for one in sections if one.blocks],
        command=[shlex.join(report.command or report.after.command)],
        made_by=f"harness {report.after.harness.version} · {report.created}",
    )


def regression_html(
    report: RegressionReport, compared: Compared | None, corpus: Corpus | None, no_texts: str, *, keep_text: bool
) -> str:
    """Return the page as one HTML file; see :func:`regression_page`.

    ``corpus`` has the texts of the documents; where it is None, ``no_texts`` says why. Without ``keep_text`` there are
    no texts at all.
    """
    explorer = explorer_of(compared, corpus, no_texts, keep_text=keep_text) if compared is not None else None
    return render_page(regression_page(report, compared, no_texts=no_texts), explorer)
