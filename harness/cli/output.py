"""Output shared by the verbs: results on stdout in the chosen format, progress on stderr."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.plain import terminal_width
from harness.errors import ResultError, UnknownNameError, UsageError

if TYPE_CHECKING:
    from harness.document.model import Block, Document
    from harness.pipeline.check.checked import CheckResult
    from harness.report.progress import ProgressDisplay
    from harness.results.comparison import Comparison
    from harness.results.judge_results import JudgeResult
    from harness.results.schema import Result
    from harness.results.verification import Verification


_REPORTS = Path("reports")
_WIDTH = 80
"""Columns without a terminal, if COLUMNS is not set."""


def write_report(
    subject: Result | Verification | JudgeResult | Document,
    format_name: str,
    *,
    verbose: bool = False,
    sort: str | None = None,
) -> None:
    """Print a result or a document; on a terminal in its width and with bold titles (NO_COLOR is honoured).

    Without a terminal it has the width that COLUMNS says, or 80 columns.
    """
    from harness.document.model import Document
    from harness.report.formats import document_of, render

    if sort is not None and format_name != "json":
        subject = subject if isinstance(subject, Document) else document_of(subject)
        try:
            subject.check_sort(sort)
        except UnknownNameError as error:
            click.echo(f"warning: the rows are not sorted: {error.problem}\n  {error.fix}", err=True)
            sort = None
    width = shutil.get_terminal_size((_WIDTH, 1)).columns
    print_result(render(subject, format_name, verbose=verbose, sort=sort, width=width, styled=sys.stdout.isatty()))


def check_sort_metric(name: str | None, metrics: Iterable[str]) -> None:
    """Refuse to sort by a metric that is not in a plan; raises UnknownNameError.

    Names of metrics have a capital letter. Other columns are known only when the result is there: a table may have
    ``recall@10``.
    """
    from harness.metrics import parse_metric

    names = set(metrics)
    if name is None or name in names or name == name.lower():
        return
    try:
        parse_metric(name)
    except UsageError:  # not a metric
        return
    raise UnknownNameError("metric to sort by", name, names)


def page(*blocks: Block, title: str = "") -> str:
    """Return tables, facts and notes below a title, as wide as the terminal or, without a terminal, 100 columns."""
    from harness.document.model import Document, Section
    from harness.report.render.terminal import render_terminal

    document = Document(title, "", sections=[Section("", "", blocks)])
    text = render_terminal(document, width=terminal_width(), verbose=True, styled=sys.stdout.isatty())
    return text.lstrip("\n")


def print_json(content: object) -> None:
    """Print plain values for programs."""
    print_result(f"{json.dumps(content, indent=2, default=str, ensure_ascii=False)}\n")


def print_result(text: str | bytes) -> None:
    """Write a result to standard output; raises ResultError if that is full. A closed reader is not an error."""
    try:
        click.echo(text, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_stdout()
        raise ResultError(f"standard output cannot be written: {error.strerror}") from error


def discard_stdout() -> None:
    """Drop unwritable output: it stays buffered, and at exit Python would try again and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def result_location(folder: Path | None, name: str = "report.json") -> Iterator[None]:
    """Print the path of a stored result when the block ends, even if the block fails."""
    try:
        yield
    finally:
        click.echo(f"report: {folder}/{name}, and report.html for a browser", err=True)


def time_stamped(name: str) -> Path:
    """Return a place below ``reports`` with the time in UTC in its name, which may be taken."""
    return _REPORTS / f"{name}-{dt.datetime.now(dt.UTC):%Y%m%d-%H%M%S}"


def write_baseline_file(result: Comparison | CheckResult, path: Path, failed: Sequence[str]) -> None:
    """Write the baseline of a result, or say that ``failed`` backends leave none."""
    from harness.results.baseline import describe_baseline

    if failed:
        reason = f"{', '.join(failed)} failed" if result.report.trials else "the input is invalid, and no backend ran"
        click.echo(f"no baseline was written: {reason}", err=True)
        return
    replaced = f", in place of {describe_baseline(path)}" if path.exists() else ""
    result.save_baseline(path)
    click.echo(f"baseline: {path}{replaced}", err=True)


def progress_display() -> ProgressDisplay:
    """Return a display of progress on standard error."""
    from rich.console import Console

    from harness.report.progress import ProgressDisplay

    return ProgressDisplay(Console(stderr=True))
