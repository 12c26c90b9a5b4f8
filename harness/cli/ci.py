"""What a check leaves for continuous integration: JUnit XML, the summary of a step, annotations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from harness.errors import ResultError, UsageError

if TYPE_CHECKING:
    from harness.results.check_schema import CheckReport

__all__ = ["JunitOption", "PerQueryOption", "SummaryOption", "check_ci_files", "write_check_for_ci"]

JunitOption = Annotated[
    Path | None,
    Option("--junit", help="Also write JUnit XML: one case for each requirement and subject.", metavar="FILE"),
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


def check_ci_files(junit: Path | None, summary: Path | None, *, per_query: bool) -> None:
    """Refuse what cannot be written now, not after an hour of work; raises UsageError."""
    if per_query and junit is None:
        raise UsageError("--junit-per-query without --junit: there is no file for it", fix="add --junit FILE")
    for option, path in (("--junit", junit), ("--summary", summary)):
        if path is not None and path.is_dir():
            raise UsageError(f"{option} {path} is a folder", fix="name a file")


def write_check_for_ci(
    report: CheckReport,
    junit: Path | None,
    summary: Path | None,
    *,
    per_query: bool,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Write what was asked for, and what GitHub's actions take; raises ResultError for a file that cannot be written.

    Annotations go to stderr, where GitHub reads them too, so that stdout stays the report.
    """
    from harness.reporting.check_cases import check_suites
    from harness.reporting.check_markdown import SUMMARY_BYTES, check_markdown
    from harness.reporting.github import check_annotations, workflow_commands
    from harness.reporting.junit import junit_xml

    if junit is not None:
        suites = check_suites(report, per_question=per_query)
        _write(junit, junit_xml(f"harness check {report.golden.name}", suites), "w")
    if summary is None and environment.get("GITHUB_STEP_SUMMARY"):
        summary = Path(environment["GITHUB_STEP_SUMMARY"])
    if summary is not None:
        _write(summary, check_markdown(report, SUMMARY_BYTES), "a")
    if environment.get("GITHUB_ACTIONS") == "true":
        file = _in_workspace(report.golden.source, environment)
        for line in workflow_commands(check_annotations(report), file):
            typer.echo(line, err=True)


def _write(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ResultError(f"'{path}' cannot be written: {error.strerror}") from error


def _in_workspace(source: str, environment: Mapping[str, str]) -> str | None:
    """A file's path from the top of the repository; None for what is not a file in it."""
    path = Path(source).resolve()
    top = Path(environment.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    return path.relative_to(top).as_posix() if path.is_file() and path.is_relative_to(top) else None
