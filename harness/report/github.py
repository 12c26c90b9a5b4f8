"""What GitHub's actions show beside the code: workflow commands that annotate files and lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from harness.report.check_cases import preflight_text
from harness.report.check_tables import expected_and_found, verdict_in_words
from harness.report.regression_cases import unjudged, verdict_line
from harness.results.check_schema import CheckReport, PreflightProblem
from harness.results.regression_schema import RegressionReport

__all__ = ["SHOWN_BY_GITHUB", "Annotation", "check_annotations", "regression_annotations", "workflow_commands"]

SHOWN_BY_GITHUB = 10
"""Annotations of one kind that GitHub shows of a step; the rest it drops without a word."""


class Annotation(NamedTuple):
    """An error, perhaps about a line of a file, counted from 1."""

    title: str
    message: str
    line: int | None = None


def check_annotations(report: CheckReport) -> list[Annotation]:
    """Everything that is wrong: what is invalid, failed requirements, then the golden lines behind them, each once."""
    found = [Annotation(f"invalid: {one.check}", preflight_text(one)) for one in report.preflight]
    found += [place for one in report.preflight for place in _places(one, report.golden.source)]
    found += [Annotation(f"{one.label} failed", one.error.message) for one in report.subjects if one.error is not None]
    for one in report.requirements:
        if one.passed is False:
            found.append(Annotation(f"{one.text} failed on {one.subject}", verdict_in_words(one)))
        elif one.passed is None:
            found.append(Annotation(f"{one.text} could not be judged on {one.subject}", str(one.reason)))
    return [*found, *_missed(report)]


def regression_annotations(report: RegressionReport) -> list[Annotation]:
    """Backends that failed or of which nothing was judged, and metrics that are worse beyond the allowed drop."""
    reasons = [(one, unjudged(one, gated=report.gate is not None)) for one in report.backends]
    found = [
        Annotation(f"{one.after} {'failed' if one.error is not None else 'was not judged'}", reason)
        for one, reason in reasons
        if reason is not None
    ]
    found += [
        Annotation(f"{metric.metric} failed on {one.after}", verdict_line(metric))
        for one in report.backends
        for metric in one.metrics
        if metric.gate == "failed"
    ]
    return found


def workflow_commands(annotations: list[Annotation], file: str | None) -> list[str]:
    """One ``::error`` a line, at most as many as GitHub shows; where there are more, the last one says how many.

    ``file`` is relative to the top of the repository; without one nothing is shown beside the code.
    """
    shown = annotations
    if len(annotations) > SHOWN_BY_GITHUB:
        shown = annotations[: SHOWN_BY_GITHUB - 1]
        more = f"{len(annotations) - len(shown)} more errors are in the summary of this step and in report.json"
        shown = [*shown, Annotation("and more", more)]
    return [_command(one, file) for one in shown]


def _places(problem: PreflightProblem, source: str) -> Iterator[Annotation]:
    """Those of a problem's examples that name a line of the golden set."""
    for example in problem.examples:
        named = re.match(r", line (\d+): ", example.removeprefix(source)) if example.startswith(source) else None
        if named is not None:
            said = example.removeprefix(source)[named.end() :]
            yield Annotation(f"invalid: {problem.check}", said, int(named[1]))


def _missed(report: CheckReport) -> Iterator[Annotation]:
    """The questions of failed requirements, in the order of the file, with every subject that missed them."""
    lines: dict[tuple[int, str], list[str]] = {}
    for subject in report.subjects:
        missed = {name for one in report.requirements if one.subject == subject.label for name in one.missed}
        for question in subject.questions:
            if question.id in missed:
                said = lines.setdefault((question.line, question.id), [])
                said.append(f"{subject.label}: {expected_and_found(question)}")
    for (line, name), said in sorted(lines.items()):
        yield Annotation(f"question {name}", "\n".join(said), line)


def _command(one: Annotation, file: str | None) -> str:
    properties = {"title": one.title}
    if file is not None:
        properties["file"] = file
        if one.line is not None:
            properties["line"] = str(one.line)
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::error {listed}::{_data(one.message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
