"""``harness regress``: run a baseline's plan again and judge whether it got worse."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from click.exceptions import Exit

from harness.cli.ci import show_regression
from harness.cli.early_worker import early_worker
from harness.cli.output import progress_display
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.plan.config import JudgedOutput, RegressRequest, rerun_fields

if TYPE_CHECKING:
    from harness.pipeline.regress.regression import Regression


@verb(RegressRequest, JudgedOutput, changes=rerun_fields)
def regress(request: RegressRequest, output: JudgedOutput, changes: Mapping[str, object]) -> None:
    """Run the plan of a baseline again, with the changes that are named, and judge every backend and metric.

    Exit code 1 when a metric is worse beyond the allowed drop (--max-drop, 0 by default), 3 when a backend failed or
    the gate would have passed even after the loss of everything (--when-not-judged).
    Options that are left out are those of the baseline.

    Example: harness regress --baseline reports/baselines/cacm.json --set 'lucene:k1=3;b=0.95'
    """
    isolation, executor = str(changes.get("isolation", "process")), str(changes.get("executor", "local"))
    cards = changes.get("cards")
    with early_worker(str(request.backends or ""), isolation, executor, cards if isinstance(cards, Path) else None):
        from harness.pipeline.regress.run_regress import run_regress

        with progress_display() as display:
            regression = run_regress(request, changes, output, display)
    show_regression(regression, output, f"regress-{request.baseline.stem}")
    _exit(regression)


def _exit(regression: Regression) -> None:
    """Exit with 3 if anything failed, even a measurement; with 1 if the gate did."""
    comparison = regression.comparison
    broken = comparison is not None and bool(comparison.failed or comparison.unmeasured)
    if broken or regression.change.decision == "invalid":
        raise Exit(ExitCode.UNAVAILABLE)
    if regression.failed:
        raise Exit(ExitCode.FAILED)
