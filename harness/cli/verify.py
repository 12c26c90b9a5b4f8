"""``harness verify``: run published configurations and compare every printed digit."""

from __future__ import annotations

from click.exceptions import Exit

from harness.cli.output import progress_display, write_report
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.plan.config import VerifyOutput, VerifyRequest


@verb(VerifyRequest, VerifyOutput)
def verify(request: VerifyRequest, output: VerifyOutput) -> None:
    """Run published configurations and compare every printed digit with what is measured here.

    Statistics of the index come before scores. The exit code is 0 where every number agrees to the printed digit, 1
    where one differs, else 3 where a dataset is not available or a backend failed.

    Example: harness verify cacm
    """
    from harness.pipeline.verify import run

    with progress_display() as display:
        verification = run(request, display)
    write_report(verification, output.format)
    if verification.missed:
        raise Exit(ExitCode.FAILED)
    if verification.incomplete:
        raise Exit(ExitCode.UNAVAILABLE)
