"""``harness report``: print a stored result again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.compare_options import CardsOption
from harness.cli.output import write_report
from harness.errors import UsageError

__all__ = ["report"]

_HTML = "html"


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A result folder of harness, or its report.json.", show_default=False),
    ] = None,
    format_name: Annotated[
        str, typer.Option("--format", help="table, markdown, csv, json or html.", metavar="FORMAT")
    ] = "table",
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave texts out of html.")] = False,
    cards: CardsOption = None,
    schema: Annotated[bool, typer.Option("--schema", help="Describe every field of report.json, and exit.")] = False,
) -> None:
    """Print a stored result in any format, without running anything.

    Texts of documents are in no result: html takes them from the dataset, if that still holds the same.

    Example: harness report reports/cacm-20260101-120000 --format markdown
    """
    if schema:
        from harness.reporting.schema_page import describe_schema

        typer.echo(describe_schema(), nl=False)
        return
    if folder is None:
        raise UsageError("no result folder was given", fix="name one that harness wrote, under reports/")
    if format_name == _HTML:
        typer.echo(_page(folder, cards, keep_text=not no_text), nl=False)
        return
    from harness.store import read_any_report

    write_report(read_any_report(folder), format_name)


def _page(folder: Path, cards: Path | None, *, keep_text: bool) -> bytes:
    """As bytes, because the file says that it is UTF-8, whatever the terminal's encoding is."""
    from harness import api
    from harness.golden.check import with_corpora
    from harness.golden.checked import Checked
    from harness.results.check_schema import CheckReport
    from harness.results.comparison import Comparison
    from harness.store import read_any_report

    place = folder if folder.is_dir() else folder.parent
    if isinstance(read_any_report(folder), CheckReport):
        checked = Checked.load(place)
        return (with_corpora(checked, cards=cards) if keep_text else checked).html(keep_text=keep_text).encode()
    compared = Comparison.load(place)
    return (api.with_documents(compared, cards=cards) if keep_text else compared).html(keep_text=keep_text).encode()
