"""The page of a comparison."""

from __future__ import annotations

import shlex
from typing import Protocol

import pyarrow as pa

from harness.data.types import Corpus, Qrels, Queries, Run
from harness.report.document import Block, Document, Notes, Section
from harness.report.html.comparison_explorer import explorer_of
from harness.report.html.comparison_pictures import cost_pictures, parity_picture, quality_pictures
from harness.report.html.comparison_tables import provenance, quality_table, text_tables
from harness.report.html.comparison_verdicts import verdicts
from harness.report.html.render import render_page
from harness.report.tables import header, remarks
from harness.results.schema import Result

__all__ = ["Compared", "comparison_html", "comparison_page"]


class Compared(Protocol):
    """What a page is made of: :class:`harness.results.comparison.Comparison` is one, which stands above this module."""

    @property
    def report(self) -> Result:
        """The stored report."""

    @property
    def values(self) -> pa.Table:
        """Per-query values."""

    @property
    def agreement(self) -> pa.Table:
        """Per-query agreement with the references."""

    @property
    def latencies(self) -> pa.Table | None:
        """Raw samples, None where none are kept."""

    @property
    def qrels(self) -> Qrels | None:
        """The judgments, None without."""

    @property
    def queries(self) -> Queries | None:
        """The queries with their texts, None without."""

    @property
    def corpus(self) -> Corpus | None:
        """The documents with their texts; where they are None, ``no_texts`` says why, and the page repeats it."""

    @property
    def no_texts(self) -> str:
        """Why there are no texts of documents."""

    def run(self, label: str) -> Run:
        """A backend's ranked documents."""


def comparison_page(compared: Compared) -> Document:
    """Build the document of a comparison, with its figures."""
    report = compared.report
    runs = _runs(compared)
    quality: list[Block] = [quality_table(report)] if any(one.metrics for one in report.trials) else []
    quality += quality_pictures(report, compared.values, runs, compared.qrels)
    said = remarks(report)
    sections = [
        Section("quality", "Quality", quality),
        Section("parity", "Parity with the exact reference", parity_picture(report)),
        Section("cost", "Cost", cost_pictures(report, compared.latencies)),
        Section("notes", "What to know before comparing", [Notes(said)] if said else [], detail=True),
        Section("tables", "All tables", text_tables(report), detail=True),
        Section("provenance", "Provenance", provenance(report), detail=True),
    ]
    return Document(
        title=f"{report.dataset.name}: {', '.join(one.label for one in report.trials)}",
        subtitle=header(report),
        verdicts=verdicts(report),
        sections=[one for one in sections if one.blocks],
        command=[shlex.join(report.command)],
        made_by=f"harness {report.harness.version} · {report.created}",
    )


def comparison_html(compared: Compared) -> str:
    """Return the page as one HTML file, without single queries where there are several datasets."""
    if len(compared.report.datasets) > 1:
        return render_page(_page_of_several(compared.report))
    no_texts = "" if compared.corpus is not None else compared.no_texts
    return render_page(comparison_page(compared), explorer_of(compared, _runs(compared), compared.corpus, no_texts))


def _page_of_several(report: Result) -> Document:
    names = ", ".join(info.name for info in report.datasets)
    return Document(
        title=f"{names}: {', '.join(info.label for info in report.backends)}",
        subtitle=names,
        verdicts=[],
        sections=[],
        command=[shlex.join(report.command)],
        made_by=f"harness {report.harness.version} · {report.created}",
    )


def _runs(compared: Compared) -> dict[str, Run]:
    return {one.label: compared.run(one.label) for one in compared.report.trials if one.status == "ok"}
