"""``harness check``: compare backends' hits for a golden set with the expected ids, and require figures."""

from __future__ import annotations

from pathlib import Path

from click.exceptions import Exit

from harness.cli.ci import write_for_ci
from harness.cli.early_worker import early_worker
from harness.cli.output import (
    check_sort_metric,
    progress_display,
    result_location,
    time_stamped,
    write_baseline_file,
    write_report,
)
from harness.cli.verb import verb
from harness.cli.verbs import ExitCode
from harness.errors import UsageError
from harness.plan.config import CheckOutput, CheckRequest

_REPORTS = Path("reports")
_EXIT_CODES = {"passed": ExitCode.FINE, "failed": ExitCode.FAILED, "invalid": ExitCode.UNAVAILABLE}


@verb(CheckRequest, CheckOutput)
def check(request: CheckRequest, output: CheckOutput) -> None:
    """Ask every backend the questions of a golden set, and compare what it returns with what they expect.

    Ends with 0 when every requirement is met, 1 when one is not, 3 when nothing could be judged. With --baseline a
    metric that is worse than the baseline beyond --max-drop fails the check too.

    Example: harness check golden.jsonl --corpus chunks.jsonl --backends chroma,lucene --k 5 --require 'Hit@5>=0.9'
    """
    with early_worker(str(request.backends or ""), request.isolation, request.executor, request.cards):
        from harness.pipeline.check.check_plan import plan_check
        from harness.pipeline.check.run_check import run_check
        from harness.results.baseline import check_baseline_target
        from harness.store.result_folder import check_target

        if output.junit_per_query and output.junit is None:
            raise UsageError("--junit-per-query without --junit: there is no file for it", fix="add --junit FILE")
        plan = plan_check(request, keep_text=output.keep_text)
        check_sort_metric(output.sort, map(str, plan.metrics))
        if output.save_baseline is not None:
            check_baseline_target(output.save_baseline)
        check_target(output.out if output.out is not None else _REPORTS / "new", overwrite=output.overwrite)
        with progress_display() as display:
            checked = run_check(plan, display, output, explained=True)
    target = output.out or time_stamped(f"check-{plan.golden.name}")
    stored = checked.save(target, overwrite=output.overwrite, numbered=output.out is None)
    with result_location(stored.folder):
        if output.save_baseline is not None:
            write_baseline_file(checked, output.save_baseline, checked.unscored)
        write_for_ci(checked.report, output, per_query=output.junit_per_query)
        write_report(checked.report, output.format, verbose=output.verbose, sort=output.sort)
    raise Exit(_EXIT_CODES[checked.report.verdict or "invalid"])
