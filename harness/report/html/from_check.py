"""The page of a check: a golden set held against retrievers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from harness.data.types import Corpus, Run
from harness.report.check_tables import check_header, remarks
from harness.report.document import Block, Document, Notes, Section
from harness.report.html.check_explorer import explorer_of
from harness.report.html.check_tables import (
    latency_pictures,
    metric_bars,
    metrics_table,
    preflight_blocks,
    provenance,
    requirements_table,
    slice_tables,
    speed_table,
    verdicts,
)
from harness.report.html.render import render_page
from harness.results.check_schema import CheckReport

__all__ = ["check_html", "check_page"]


def check_page(report: CheckReport) -> Document:
    """Build the document of a check, with its figures."""
    quality: list[Block] = [*metrics_table(report), *metric_bars(report), *slice_tables(report)]
    said = remarks(report)
    sections = [
        Section("preflight", "What makes it invalid", preflight_blocks(report)),
        Section("requirements", "Requirements", requirements_table(report)),
        Section("quality", "Quality", quality),
        Section("cost", "Speed and parity", [*speed_table(report), *latency_pictures(report)]),
        Section("notes", "What to know of the figures", [Notes(said)] if said else [], detail=True),
        Section("provenance", "Provenance", provenance(report), detail=True),
    ]
    return Document(
        title=f"{report.golden.name}: {', '.join(one.label for one in report.subjects) or 'nothing was asked'}",
        subtitle=check_header(report),
        verdicts=verdicts(report),
        sections=[one for one in sections if one.blocks],
        command=[shlex.join(report.command)],
        made_by=f"harness {report.harness.version} · {report.created}",
    )


def check_html(report: CheckReport, runs: Mapping[str, Run], corpora: Mapping[str, Corpus], no_texts: str) -> str:
    """Return the page as one HTML file; ``runs`` are the hits of each subject by its label.

    ``corpora`` have the texts of the documents by the name of the corpus; where one is missing, ``no_texts`` says why.
    """
    return render_page(check_page(report), explorer_of(report, runs, corpora, no_texts))
