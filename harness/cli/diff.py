"""``harness diff``: compare two stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.app import ExitCode
from harness.cli.ci import JunitOption, SummaryOption, check_ci_files, write_for_ci
from harness.cli.compare_options import CardsOption, LabelsOption, NoTextOption, OutOption, OverwriteOption
from harness.cli.output import (
    FormatOption,
    SortOption,
    VerboseOption,
    check_format,
    named_by_time,
    stored_at,
    write_report,
)
from harness.cli.regress_options import (
    MarginOption,
    MaxDropOption,
    PairsOption,
    QueriesShownOption,
    TestOption,
    judging,
)

__all__ = ["diff"]


def diff(
    before: Annotated[Path, typer.Argument(help="A result folder of compare or check, or a baseline file.")],
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
    verbose: VerboseOption = False,
    sort: SortOption = None,
    junit: JunitOption = None,
    summary: SummaryOption = None,
    cards: CardsOption = None,
    no_text: NoTextOption = False,
) -> None:
    """Compare two stored results query by query, and say which resolved settings changed. Nothing runs.

    There is a gate only with --max-drop: exit code 1 when something is worse beyond it.

    Example: harness diff reports/baselines/cacm.json reports/cacm-20260101-120000
    """
    from harness.pipeline.regress.diff import run_diff
    from harness.plan.config import Output

    check_format(format_name)
    check_ci_files(junit, summary)
    how = judging(max_drop, margin=margin, test=test, labels=labels, queries=queries, pairs=pairs, gate=False)
    output = Output(out=out, overwrite=overwrite, no_text=no_text, format=format_name)
    found = run_diff(before, after, how, output, cards=cards)
    place = out or named_by_time(f"diff-{after.stem}")
    stored = found.save(place, overwrite=overwrite, keep_text=not no_text, numbered=out is None)
    with stored_at(stored.folder, "regression.json"):
        write_for_ci(found.report, junit, summary)
        write_report(found.report, format_name, verbose=verbose, sort=sort)
    if found.report.gate is not None and found.report.gate != "passed":
        raise typer.Exit(ExitCode.FAILED if found.failed else ExitCode.UNAVAILABLE)
