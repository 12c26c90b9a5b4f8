"""``harness verify``: run published configurations and compare every printed digit."""

from __future__ import annotations

import typer

from harness.cli.app import ExitCode
from harness.cli.output import progress_display, write_report
from harness.cli.verb import verb
from harness.plan.config import VerifyOutput, VerifyRequest
from harness.plan.option_fields import require

__all__ = ["verify"]


@verb(VerifyRequest, VerifyOutput)
def verify(request: VerifyRequest, output: VerifyOutput) -> None:
    """Run published configurations and compare every printed digit with what is measured here.

    Statistics of the index come before scores. The exit code is 0 where every number agrees to the printed digit, 1
    where one differs, else 3 where a dataset is not available or a backend failed.

    Example: harness verify cacm
    """
    require(output)
    from harness.pipeline.verify import run

    with progress_display() as display:
        found = run(request, display)
    write_report(found, output.format)
    if found.missed:
        raise typer.Exit(ExitCode.FAILED)
    if found.incomplete:
        raise typer.Exit(ExitCode.UNAVAILABLE)
