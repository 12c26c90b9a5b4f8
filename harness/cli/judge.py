"""``harness judge``: a page on which people judge documents of a stored result, grades by a model, and agreement."""

from __future__ import annotations

from pathlib import Path

import click
from click.exceptions import Exit

from harness.cli.output import progress_display, write_report
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.errors import UsageError
from harness.plan.config import JudgeOutput, JudgeRequest
from harness.plan.option_fields import is_set
from harness.wording import counted


@verb(JudgeRequest, JudgeOutput)
def judge(request: JudgeRequest, output: JudgeOutput) -> None:
    """Write a page on which people judge documents of a stored result, or have a model grade them.

    The page has the unjudged documents among the first hits of all backends, those first whose label can move a
    difference most, without the names of backends. It is one file, which needs no server and no network, and saves
    grades as labels.jsonl, for --labels of compare, check, eval, regress and diff.

    With --with, a model grades these hits, and a sample of the documents that people judged, to measure the agreement;
    if it grades none of them, the exit code is 3.
    --agreement compares two files of labels.

    Example: harness judge reports/cacm-20260101-120000 --budget 50
    """
    _refuse_contradictions(request, output)
    if request.agreement:
        from harness.pipeline.label_agreement import agreement

        first, second = [*request.agreement, request.result][:2]
        result = request.result if len(request.agreement) == 2 else None
        write_report(agreement(first, second, result=result), output.format, verbose=output.verbose)
    elif request.model is not None:
        from harness.report.model_labels import grade_result

        with progress_display() as display:
            labels = grade_result(request, display)
        write_report(labels, output.format, verbose=output.verbose)
        if labels.failure:
            if output.format in ("csv", "json"):  # these hold no verdicts
                click.echo(labels.failure, err=True)
            raise Exit(ExitCode.UNAVAILABLE)
    elif request.write_golden is not None:
        _write_golden(request, request.write_golden)
    else:
        _write_page(request)


def _write_page(request: JudgeRequest) -> None:
    from harness.report.judging import judging_page

    page = judging_page(request)
    folder = request.result if request.result.is_dir() else request.result.parent
    target = page.save(request.page or folder.parent / f"{folder.name}-judge.html")
    click.echo(
        f"{counted(page.documents, 'document')} of {counted(len(page.pool.queries), 'query')} to judge: {target}"
    )
    click.echo(page.settled)
    for finding in page.findings:
        click.echo(finding, err=True)


def _write_golden(request: JudgeRequest, path: Path) -> None:
    """Write the golden set of a check with the relevant documents of the labels."""
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.read_result import read_result

    if request.labels is None:
        raise UsageError("--write-golden without --labels: nothing is added", fix="add --labels labels.jsonl")
    result = read_result(request.result, request.cards)
    if not isinstance(result, CheckResult):
        raise UsageError(
            f"'{request.result}' is not a result of `harness check`: it has no golden set",
            fix="name the result of a check",
        )
    extended = result.write_golden(path, request.labels)
    for finding in extended.findings:
        click.echo(finding, err=True)
    click.echo(f"{counted(extended.documents, 'document')} added to {counted(extended.questions, 'question')}: {path}")


def _refuse_contradictions(request: JudgeRequest, output: JudgeOutput) -> None:
    """Raise UsageError for options that another one leaves without effect."""
    if len(request.agreement) > 2 or (request.agreement and request.model is not None):
        raise UsageError("--agreement compares two files of labels", fix="write --agreement a.jsonl b.jsonl")
    for_model = {"--prompt": request.prompt, "--max-calls": request.max_calls, "--write-labels": request.write_labels}
    metric = request.metric if request.agreement else None
    for_page = {"--page": request.page, "--write-golden": request.write_golden, "--metric": metric}
    is_page = request.model is None and not request.agreement
    if is_page and is_set(output, "format"):
        raise UsageError("--format without --with or --agreement: nothing is tabulated", fix="leave it out")
    without_effect = [flag for flag, value in (for_model if is_page else for_page).items() if value is not None]
    if without_effect:
        reason = "without --with: it is for a model" if is_page else "is for a page"
        raise UsageError(f"{without_effect[0]} {reason}", fix="leave out one of them")
