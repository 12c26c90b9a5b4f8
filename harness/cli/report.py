"""``harness report``: print a stored comparison again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.output import FormatOption, write_report
from harness.errors import UsageError

__all__ = ["report"]


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A result folder of `harness compare`, or its report.json.", show_default=False),
    ] = None,
    format_name: FormatOption = "table",
    schema: Annotated[bool, typer.Option("--schema", help="Describe every field of report.json, and exit.")] = False,
) -> None:
    """Print a stored comparison in any format, without running anything.

    Example: harness report reports/cacm-20260101-120000 --format markdown
    """
    if schema:
        from harness.reporting.schema_page import describe_schema

        typer.echo(describe_schema(), nl=False)
        return
    if folder is None:
        raise UsageError("no result folder was given", fix="name one that `harness compare` wrote, under reports/")
    from harness.store import read_report

    write_report(read_report(folder), format_name)
