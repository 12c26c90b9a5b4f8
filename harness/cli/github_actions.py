"""``harness github``: the comment of a pull request, and the baseline of its target, in a run of GitHub's actions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.verb import VerbGroup, verb
from harness.errors import ResultError, UsageError
from harness.plan.config import ArtifactRequest, CommentRequest

if TYPE_CHECKING:
    from harness.remote.workflow_run import WorkflowRun


@verb(CommentRequest)
def _comment(request: CommentRequest) -> None:
    """Write a comment to the pull request of this run, in place of its earlier one.

    The token of the run is in GITHUB_TOKEN. If it may not write, as for a pull request from a fork, nothing fails: the
    summary of the step says so.

    Example: harness github comment reports/comment.md
    """
    text = _read(request.file)
    run = _workflow_run()
    if run.pull_request is None:
        click.echo("this run is not of a pull request: no comment was written", err=True)
        return
    try:
        replaced = run.put_comment(text, request.name)
    except ResultError as refusal:
        line = f"No comment was written to the pull request: {refusal.problem}; {refusal.fix}."
        click.echo(line, err=True)
        _append_to_summary(line)
        return
    click.echo(f"comment: {'replaced' if replaced else 'written'} on pull request {run.pull_request}", err=True)


@verb(ArtifactRequest)
def _baseline(request: ArtifactRequest) -> None:
    """Fetch the baseline of the branch that this run's pull request goes to, and print its path.

    It is in the last artifact of that name that a run on the branch uploaded. If there is none yet, or the run is not
    of a pull request, nothing is printed, and the exit code is 0.

    Example: harness github baseline reports/main --artifact harness-baseline
    """
    run = _workflow_run()
    if run.target is None:
        click.echo("this run is not of a pull request: there is nothing to compare with", err=True)
        return
    stored = run.latest_file(request.artifact)
    if stored is None:
        line = f"no run on '{run.target}' has uploaded the artifact '{request.artifact}' yet"
        click.echo(f"{line}: there is nothing to compare with", err=True)
        return
    path = request.directory / stored.name
    _write(path, stored.content)
    click.echo(str(path))


def _workflow_run() -> WorkflowRun:
    from harness.remote.workflow_run import WorkflowRun

    return WorkflowRun.from_environment(os.environ)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"no comment can be read at '{path}': {reason}", fix="write it with --comment") from error


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise ResultError(f"'{path}' cannot be written: {error.strerror}") from error


def _append_to_summary(line: str) -> None:
    """Append a line to the summary of the step, if it has one."""
    if variable := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            with Path(variable).open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")
        except OSError as error:
            raise ResultError(f"'{variable}' cannot be written: {error.strerror}") from error


app = VerbGroup(
    "In a run of GitHub's actions: write the comment of its pull request, or fetch the baseline of its target branch.",
    {"comment": _comment, "baseline": _baseline},
)
