"""The report of a check in each textual format. Every function returns the whole text."""

from __future__ import annotations

import csv
import io

from harness.errors import UnknownNameError
from harness.report.check_markdown import check_markdown
from harness.report.check_tables import check_header, check_notes, check_tables
from harness.report.render import FORMATS, flat, terminal_text
from harness.results.check_schema import CheckReport

__all__ = ["render_check"]


def render_check(report: CheckReport, format_name: str, *, terminal: bool = False) -> str:
    """The report as ``table``, ``markdown``, ``csv`` or ``json``; raises UnknownNameError for another name.

    ``terminal`` makes titles bold (NO_COLOR is honoured).
    """
    if format_name not in FORMATS:
        raise UnknownNameError("format", format_name, FORMATS)
    if format_name == "json":
        return report.model_dump_json(by_alias=True, indent=2) + "\n"
    if format_name == "csv":
        return _csv(report)
    if format_name == "markdown":
        return check_markdown(report)
    return terminal_text(check_header(report), check_tables(report), check_notes(report), terminal=terminal)


def _csv(report: CheckReport) -> str:
    """One line per figure, with its subject, or ``-`` for the golden set: the long form."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(["subject", "section", "name", "value"])
    sections: list[tuple[str, str, dict[str, object]]] = [
        ("-", "verdict", {"verdict": report.verdict}),
        ("-", "golden", report.golden.model_dump()),
    ]
    sections += [("-", "preflight", problem.model_dump()) for problem in report.preflight]
    sections += [("-", "warning", problem.model_dump()) for problem in report.warnings]
    for subject in report.subjects:
        sections.append((subject.label, "subject", subject.model_dump(include={"status", "corpus", "backend"})))
        sections.append((subject.label, "metrics", {n: value.model_dump() for n, value in subject.metrics.items()}))
        for one in subject.slices:
            values: dict[str, object] = {name: value.model_dump() for name, value in one.metrics.items()}
            sections.append((subject.label, f"slice {one.field}={one.value}", values))
        if subject.milliseconds is not None:
            sections.append((subject.label, "milliseconds", subject.milliseconds.model_dump()))
        if subject.parity is not None:
            sections.append((subject.label, "parity", subject.parity.model_dump()))
        for question in subject.questions:
            sections.append((subject.label, f"question {question.id}", dict(question.values)))
    for requirement in report.requirements:
        held = requirement.model_dump(exclude={"text", "subject"})
        sections.append((requirement.subject, f"requirement {requirement.text}", held))
    for label, section, content in sections:
        for name, value in flat(content).items():
            writer.writerow([label, section, name, "" if value is None else value])
    return sink.getvalue()
