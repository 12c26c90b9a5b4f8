"""``harness diff``: compare two stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import ExitCode
from harness.cli.compare_options import NoTextOption, OutOption, OverwriteOption
from harness.cli.output import FormatOption, folder_of_now, write_report
from harness.cli.regress_options import (
    LabelsOption,
    MarginOption,
    MaxDropOption,
    PairsOption,
    QueriesShownOption,
    TestOption,
    judging,
)

__all__ = ["diff"]


def diff(
    before: Annotated[Path, typer.Argument(help="A result folder, or a baseline file.")],
    after: Annotated[Path, typer.Argument(help="The same, of later.")],
    max_drop: MaxDropOption = None,
    margin: MarginOption = 0.01,
    test: TestOption = "randomisation",
    labels: LabelsOption = None,
    queries: QueriesShownOption = 50,
    pairs: PairsOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    format_name: FormatOption = "table",
    no_text: NoTextOption = False,
) -> None:
    """Compare two stored results query by query, and say which resolved settings changed. Nothing runs.

    There is a gate only with --max-drop: exit code 1 when something is worse beyond it.

    Example: harness diff reports/baselines/cacm.json reports/cacm-20260101-120000
    """
    from harness import regression_api
    from harness.regression.stored import check_regression_target
    from harness.reporting.regression import check_regression_format

    check_regression_format(format_name)
    how = judging(max_drop, margin=margin, test=test, labels=labels, queries=queries, pairs=pairs, gate=False)
    place = out if out is not None else folder_of_now(f"diff-{after.stem}")
    check_regression_target(place, overwrite=overwrite)
    found = regression_api.diff(before, after, judging=how, out=place, overwrite=overwrite, keep_text=not no_text)
    write_report(found.report, format_name)
    typer.echo(f"report: {place}/regression.json, and report.html for a browser", err=True)
    if found.report.gate is not None and found.report.gate != "passed":
        raise typer.Exit(ExitCode.FAILED if found.failed else ExitCode.UNAVAILABLE)
