"""``harness regress``: run a baseline's plan again and judge whether it got worse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from harness.cli.app import ExitCode
from harness.cli.ci import JunitOption, SummaryOption, check_ci_files, write_for_ci
from harness.cli.compare_options import (
    CardsOption,
    DeadlineOption,
    LabelsOption,
    MaxCallsOption,
    MemoryLimitOption,
    NoTextOption,
    OutOption,
    OverwriteOption,
    ResumeOption,
)
from harness.cli.early_worker import early_worker
from harness.cli.output import (
    FormatOption,
    SortOption,
    VerboseOption,
    check_format,
    named_by_time,
    progress_display,
    stored_at,
    write_report,
)
from harness.cli.regress_options import (
    BaselineOption,
    ChangedBackendsOption,
    ChangedDatasetOption,
    IsolationAgainOption,
    JobsAgainOption,
    MarginOption,
    MaxDropOption,
    PairsOption,
    QueriesShownOption,
    RebuildsAgainOption,
    RepeatAgainOption,
    SetOption,
    TestOption,
    ThreadsAgainOption,
    TimingAgainOption,
    WarmUpAgainOption,
    judging,
)

if TYPE_CHECKING:
    from harness.pipeline.regress.regression import Regression

__all__ = ["regress"]


def regress(
    baseline: BaselineOption,
    settings: SetOption = None,
    backends: ChangedBackendsOption = None,
    dataset: ChangedDatasetOption = None,
    rebuilds: RebuildsAgainOption = None,
    repeat: RepeatAgainOption = None,
    warm_up: WarmUpAgainOption = None,
    timing: TimingAgainOption = None,
    threads: ThreadsAgainOption = None,
    jobs: JobsAgainOption = None,
    isolation: IsolationAgainOption = None,
    deadline: DeadlineOption = None,
    memory_limit: MemoryLimitOption = None,
    max_calls: MaxCallsOption = None,
    max_drop: MaxDropOption = None,
    margin: MarginOption = 0.01,
    test: TestOption = "randomisation",
    labels: LabelsOption = None,
    queries: QueriesShownOption = 50,
    pairs: PairsOption = None,
    resume: ResumeOption = "never",
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    format_name: FormatOption = "table",
    verbose: VerboseOption = False,
    sort: SortOption = None,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    cards: CardsOption = None,
    no_text: NoTextOption = False,
) -> None:
    """Run the plan of a baseline again, with the changes asked for, and judge every backend and metric.

    Exit code 1 when a metric is worse beyond the allowed drop (--max-drop, 0 by default), 3 when a backend failed.

    Example: harness regress --baseline reports/baselines/cacm.json --set 'lucene:k1=3;b=0.95'
    """
    given = locals()
    with early_worker(backends or "", isolation or "process", cards):
        from harness.pipeline.regress.plan_again import OPTIONS, Again
        from harness.pipeline.regress.run_regress import run_regress
        from harness.plan.config import Output

        check_format(format_name)
        check_ci_files(junit, summary)
        how = judging(max_drop, margin=margin, test=test, labels=labels, queries=queries, pairs=pairs, gate=True)
        output = Output(out=out, overwrite=overwrite, no_text=no_text, format=format_name)
        changed = {name: given[name] for name in sorted(OPTIONS) if given[name] is not None}
        again = Again(baseline, backends, settings or (), dataset, changed)
        with progress_display() as display:
            found = run_regress(again, how, output, display)
    place = out or named_by_time(f"regress-{baseline.stem}")
    stored = found.save(place, overwrite=overwrite, keep_text=not no_text, numbered=out is None)
    with stored_at(stored.folder, "regression.json"):
        write_for_ci(found.report, junit, summary)
        write_report(found.report, format_name, verbose=verbose, sort=sort)
    _exit(found)


def _exit(found: Regression) -> None:
    """3 where anything failed, be it a measurement; 1 where the gate did."""
    comparison = found.comparison
    broken = comparison is not None and bool(comparison.failed or comparison.unmeasured)
    if broken or found.report.gate == "invalid":
        raise typer.Exit(ExitCode.UNAVAILABLE)
    if found.failed:
        raise typer.Exit(ExitCode.FAILED)
