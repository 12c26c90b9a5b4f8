"""``harness diff``: compare two stored results."""

from __future__ import annotations

from click.exceptions import Exit

from harness.cli.ci import show_regression
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.plan.config import DiffRequest, JudgedOutput


@verb(DiffRequest, JudgedOutput)
def diff(request: DiffRequest, output: JudgedOutput) -> None:
    """Compare two stored results query by query, and say which resolved settings changed. Nothing runs.

    There is a gate only with --max-drop: exit code 1 when something is worse beyond it, 3 when it
    would have passed even after the loss of everything (--when-not-judged).

    Example: harness diff reports/baselines/cacm.json reports/cacm-20260101-120000
    """
    from harness.pipeline.regress.run_regress import run_diff

    regression = run_diff(request, output)
    show_regression(regression, output, f"diff-{request.after.stem}")
    if regression.change.decision == "invalid":
        raise Exit(ExitCode.UNAVAILABLE)
    if regression.failed:
        raise Exit(ExitCode.FAILED)
