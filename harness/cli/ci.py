"""What a verdict leaves for continuous integration: JUnit XML, the summary of a step, annotations."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from harness.errors import ResultError, UsageError

if TYPE_CHECKING:
    from harness.report.github import Annotation
    from harness.report.junit import Suite
    from harness.results.check_schema import CheckReport
    from harness.results.regression_schema import RegressionReport

__all__ = [
    "JunitOption",
    "PerQueryOption",
    "SummaryOption",
    "check_ci_files",
    "write_check_for_ci",
    "write_regression_for_ci",
]

JunitOption = Annotated[
    Path | None,
    Option("--junit", help="Also write JUnit XML: one case for each thing that is judged.", metavar="FILE"),
]
PerQueryOption = Annotated[
    bool, Option("--junit-per-query", help="Also one case for each question and subject in --junit.")
]
SummaryOption = Annotated[
    Path | None,
    Option(
        "--summary",
        help="Also append Markdown to this file; by default to the one that GITHUB_STEP_SUMMARY names, if any.",
        metavar="FILE",
        show_default=False,
    ),
]


def check_ci_files(junit: Path | None, summary: Path | None, *, per_query: bool = False) -> None:
    """Refuse what cannot be written now, not after an hour of work; raises UsageError."""
    if per_query and junit is None:
        raise UsageError("--junit-per-query without --junit: there is no file for it", fix="add --junit FILE")
    for option, path in (("--junit", junit), ("--summary", summary)):
        if path is not None and path.is_dir():
            raise UsageError(f"{option} {path} is a folder", fix="name a file")


def write_check_for_ci(report: CheckReport, junit: Path | None, summary: Path | None, *, per_query: bool) -> None:
    """Write what was asked for of a check, and what GitHub's actions take; raises ResultError where that fails."""
    from harness.report.check_cases import check_suites
    from harness.report.check_markdown import check_markdown
    from harness.report.github import check_annotations
    from harness.report.markdown_parts import SUMMARY_BYTES

    _write_junit(junit, f"harness check {report.golden.name}", check_suites(report, per_question=per_query))
    _append_summary(summary, lambda: check_markdown(report, SUMMARY_BYTES))
    _annotate(check_annotations(report), report.golden.source)


def write_regression_for_ci(report: RegressionReport, junit: Path | None, summary: Path | None) -> None:
    """The same of a regression report."""
    from harness.report.github import regression_annotations
    from harness.report.markdown_parts import SUMMARY_BYTES
    from harness.report.regression_cases import regression_suites
    from harness.report.regression_markdown import regression_markdown

    _write_junit(junit, f"harness {report.kind} {report.after.dataset.name}", regression_suites(report))
    _append_summary(summary, lambda: regression_markdown(report, SUMMARY_BYTES))
    _annotate(regression_annotations(report), report.before.source)


def _write_junit(path: Path | None, name: str, suites: Sequence[Suite]) -> None:
    from harness.report.junit import junit_xml

    if path is not None:
        _write(path, junit_xml(name, suites), "w")


def _append_summary(path: Path | None, markdown: Callable[[], str]) -> None:
    named = os.environ.get("GITHUB_STEP_SUMMARY")
    place = path or (Path(named) if named else None)
    if place is not None:
        _write(place, markdown(), "a")


def _annotate(annotations: list[Annotation], source: str) -> None:
    """On stderr, where GitHub reads them too, so that stdout stays the report."""
    from harness.report.github import workflow_commands

    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in workflow_commands(annotations, _in_workspace(source)):
            typer.echo(line, err=True)


def _write(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ResultError(f"'{path}' cannot be written: {error.strerror}") from error


def _in_workspace(source: str) -> str | None:
    """A file's path from the top of the repository; None for what is not a file in it."""
    path = Path(source).resolve()
    top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    return path.relative_to(top).as_posix() if path.is_file() and path.is_relative_to(top) else None
