"""``harness judge``: a page on which people judge documents of a stored result."""

from __future__ import annotations

from pathlib import Path

import click

from harness.cli.verb import verb
from harness.errors import UsageError
from harness.plan.config import JudgeRequest
from harness.wording import counted


@verb(JudgeRequest)
def judge(request: JudgeRequest) -> None:
    """Write a page on which people judge documents of a stored result.

    The page has the unjudged documents among the first hits of all backends, those first whose label can move a
    difference most, without the names of backends. It is one file, which needs no server and no network, and saves
    grades as labels.jsonl, for --labels of compare, check, eval, regress and diff.

    Example: harness judge reports/cacm-20260101-120000 --budget 50
    """
    if request.write_golden is not None:
        _write_golden(request, request.write_golden)
        return
    from harness.report.judging import judging_page

    page = judging_page(request)
    folder = request.result if request.result.is_dir() else request.result.parent
    target = page.save(request.page or folder.parent / f"{folder.name}-judge.html")
    click.echo(
        f"{counted(page.documents, 'document')} of {counted(len(page.pool.queries), 'query')} to judge: {target}"
    )
    click.echo(page.settled)


def _write_golden(request: JudgeRequest, path: Path) -> None:
    """Write the golden set of a check with the relevant documents of the labels."""
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.read_result import read_result

    if request.labels is None:
        raise UsageError("--write-golden without --labels: nothing is added", fix="add --labels labels.jsonl")
    result = read_result(request.result, request.cards)
    if not isinstance(result, CheckResult):
        raise UsageError(
            f"'{request.result}' is no result of `harness check`: it has no golden set",
            fix="name the result of a check",
        )
    extended = result.write_golden(path, request.labels)
    click.echo(f"{counted(extended.documents, 'document')} added to {counted(extended.questions, 'question')}: {path}")
