"""``harness regress``: run a baseline's plan again and judge whether it got worse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

import typer

from harness.cli.app import ExitCode
from harness.cli.ci import JunitOption, SummaryOption, check_ci_files, write_regression_for_ci
from harness.cli.compare_options import CardsOption, NoTextOption, OutOption, OverwriteOption, ResumeOption
from harness.cli.output import FormatOption, folder_of_now, progress_display, write_report
from harness.cli.regress_options import (
    BaselineOption,
    ChangedBackendsOption,
    ChangedDatasetOption,
    LabelsOption,
    MarginOption,
    MaxDropOption,
    PairsOption,
    QueriesShownOption,
    RebuildsAgainOption,
    RepeatAgainOption,
    SetOption,
    TestOption,
    TimingAgainOption,
    judging,
)

if TYPE_CHECKING:
    from harness.regression_api import Regression
    from harness.request import CompareOptions

__all__ = ["regress"]


class _Options(TypedDict):
    rebuilds: int | None
    repeat: int | None
    timing: bool | None
    resume: str
    cards: Path | None


def regress(
    baseline: BaselineOption,
    settings: SetOption = None,
    backends: ChangedBackendsOption = None,
    dataset: ChangedDatasetOption = None,
    rebuilds: RebuildsAgainOption = None,
    repeat: RepeatAgainOption = None,
    timing: TimingAgainOption = None,
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
    junit: JunitOption = None,
    summary: SummaryOption = None,
    cards: CardsOption = None,
    no_text: NoTextOption = False,
) -> None:
    """Run the plan of a baseline again, with the changes asked for, and judge every backend and metric.

    Exit code 1 when a metric is worse beyond the allowed drop (--max-drop, 0 by default), 3 when a backend failed.

    Example: harness regress --baseline reports/baselines/cacm.json --set 'lucene:k1=3;b=0.95'
    """
    from harness import regression_api
    from harness.reporting.regression import check_regression_format

    check_regression_format(format_name)
    check_ci_files(junit, summary)
    how = judging(max_drop, margin=margin, test=test, labels=labels, queries=queries, pairs=pairs, gate=True)
    place = out if out is not None else folder_of_now(f"regress-{baseline.stem}")
    with progress_display() as display:
        found = regression_api.regress(
            baseline,
            backends=backends,
            settings=settings or (),
            dataset=dataset,
            judging=how,
            out=place,
            overwrite=overwrite,
            keep_text=not no_text,
            display=display,
            **_given(rebuilds=rebuilds, repeat=repeat, timing=timing, resume=resume, cards=cards),
        )
    write_regression_for_ci(found.report, junit, summary)
    _show(found, format_name, place)


def _given(**options: Unpack[_Options]) -> CompareOptions:
    """The options that were given; the plan's own stay otherwise."""
    return cast("CompareOptions", {name: value for name, value in options.items() if value is not None})


def _show(found: Regression, format_name: str, place: Path) -> None:
    write_report(found.report, format_name)
    typer.echo(f"report: {place}/regression.json, and report.html for a browser", err=True)
    _exit(found)


def _exit(found: Regression) -> None:
    """3 where anything failed, be it a measurement; 1 where the gate did."""
    comparison = found.comparison
    broken = comparison is not None and bool(comparison.failed or comparison.unmeasured)
    if broken or found.report.gate == "invalid":
        raise typer.Exit(ExitCode.UNAVAILABLE)
    if found.failed:
        raise typer.Exit(ExitCode.FAILED)
