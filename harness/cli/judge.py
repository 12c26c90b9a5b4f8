"""``harness judge``: a page on which people judge documents of a stored result."""

from __future__ import annotations

import click

from harness.cli.verb import verb
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
    from harness.report.judging import judging_page

    page = judging_page(request)
    folder = request.result if request.result.is_dir() else request.result.parent
    target = page.save(request.page or folder.parent / f"{folder.name}-judge.html")
    click.echo(
        f"{counted(page.documents, 'document')} of {counted(len(page.pool.queries), 'query')} to judge: {target}"
    )
    click.echo(page.settled)
