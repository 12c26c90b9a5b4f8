"""Leave a verdict for continuous integration: JUnit XML, the summary of a step, annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.output import result_location, time_stamped, write_report
from harness.errors import ResultError

if TYPE_CHECKING:
    from harness.document.model import Annotation
    from harness.pipeline.regress.regression import Regression
    from harness.plan.config import JudgedOutput
    from harness.results.schema import Result


def write_for_ci(report: Result, output: JudgedOutput, *, per_query: bool = False) -> None:
    """Write the requested files, and the outputs for GitHub's actions; raises ResultError if that fails.

    With a comment, the summary begins with it.
    """
    from harness.report.formats import document_of, render_comment
    from harness.report.render.junit import render_junit
    from harness.report.render.markdown import SUMMARY_BYTES, details, render_markdown

    document = document_of(report)
    if output.junit is not None:
        _write(output.junit, render_junit(document, per_query=per_query), "w")
    comment = render_comment(report) if output.comment is not None else ""
    if output.comment is not None:
        _write(output.comment, comment, "w")
    variable = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary_path := output.summary or (Path(variable) if variable else None):
        everything = render_markdown(document, SUMMARY_BYTES - len(comment.encode()))
        _write(summary_path, f"{comment}\n{details('the whole report', everything)}\n" if comment else everything, "a")
    source = report.golden.source if report.golden is not None else report.changes.before.source
    _annotate(document.annotations, source)


def show_regression(regression: Regression, output: JudgedOutput, name: str) -> None:
    """Store two compared results in ``--out``, or by ``name`` and time; write the files for CI, and print them."""
    target = output.out or time_stamped(name)
    stored = regression.save(
        target, overwrite=output.overwrite, keep_text=output.keep_text, numbered=output.out is None
    )
    with result_location(stored.folder):
        write_for_ci(regression.report, output)
        write_report(regression.report, output.format, verbose=output.verbose, sort=output.sort)


def _annotate(annotations: Sequence[Annotation], source: str) -> None:
    """Write annotations to stderr, which GitHub also reads, so that stdout holds only the report."""
    from harness.report.render.github import workflow_commands

    if os.environ.get("GITHUB_ACTIONS") == "true":
        for line in workflow_commands(annotations, _workspace_path(source)):
            click.echo(line, err=True)


def _write(path: Path, text: str, mode: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ResultError(f"'{path}' cannot be written: {error.strerror}") from error


def _workspace_path(source: str) -> str | None:
    """Return a file's path from the top of the repository; None for a path outside it."""
    path = Path(source).resolve()
    top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    return path.relative_to(top).as_posix() if path.is_file() and path.is_relative_to(top) else None
