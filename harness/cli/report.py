"""``harness report``: print a stored result again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.compare_options import CardsOption
from harness.cli.output import SortOption, VerboseOption, check_format, print_result, write_report
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.results.check_schema import CheckReport
    from harness.results.regression_schema import RegressionReport
    from harness.results.schema import Result

__all__ = ["report"]

_HTML = "html"


def report(
    folder: Annotated[
        Path | None,
        typer.Argument(help="A result folder of harness, its report.json, or its regression.json.", show_default=False),
    ] = None,
    format_name: Annotated[
        str, typer.Option("--format", help="table, markdown, csv, json or html.", metavar="FORMAT")
    ] = "table",
    verbose: VerboseOption = False,
    sort: SortOption = None,
    no_text: Annotated[bool, typer.Option("--no-text", help="Leave texts of questions and documents out.")] = False,
    cards: CardsOption = None,
    schema: Annotated[bool, typer.Option("--schema", help="Describe every field of report.json, and exit.")] = False,
) -> None:
    """Print a stored result in any format, without running anything.

    A folder of regress is printed as what was judged; its report.json as the comparison that ran.

    Texts of documents are in no result: html takes them from the dataset, if that still holds the same.

    Example: harness report reports/cacm-20260101-120000 --format markdown
    """
    if schema:
        from harness.report.schema_page import describe_schema

        typer.echo(describe_schema(), nl=False)
        return
    if folder is None:
        raise UsageError("no result folder was given", fix="name one that harness wrote, under reports/")
    check_format(format_name, others=[_HTML])
    if format_name == _HTML:
        print_result(_page(folder, cards, keep_text=not no_text))
        return
    stored = _stored(folder)
    write_report(_without_texts(stored) if no_text else stored, format_name, verbose=verbose, sort=sort)


def _stored(folder: Path) -> Result | CheckReport | RegressionReport:
    """What a folder is about: a regression where it holds one, with the comparison that was judged beside it."""
    from harness.pipeline.regress.stored_regression import REGRESSION_NAME, read_regression
    from harness.results.stored import read_any_report

    if folder.name == REGRESSION_NAME or (folder / REGRESSION_NAME).exists():
        return read_regression(folder)
    return read_any_report(folder)


def _without_texts(report: Result | CheckReport | RegressionReport) -> Result | CheckReport | RegressionReport:
    """The same without texts of queries; those of documents are in none, and in a comparison's neither are."""
    from harness.pipeline.regress.stored_regression import without_texts
    from harness.results.check_redaction import without_questions
    from harness.results.check_schema import CheckReport
    from harness.results.regression_schema import RegressionReport

    if isinstance(report, RegressionReport):
        return without_texts(report)
    return without_questions(report) if isinstance(report, CheckReport) else report


def _page(folder: Path, cards: Path | None, *, keep_text: bool) -> bytes:
    """As bytes, because the file says that it is UTF-8, whatever the terminal's encoding is."""
    from harness.pipeline.check.checked import Checked
    from harness.pipeline.check.run_check import with_corpora
    from harness.pipeline.regress.regression import Regression, with_rankings
    from harness.results.check_schema import CheckReport
    from harness.results.comparison import Comparison
    from harness.results.regression_schema import RegressionReport
    from harness.results.stored_texts import with_documents

    report, place = _stored(folder), folder if folder.is_dir() else folder.parent
    found: Checked | Comparison | Regression
    if isinstance(report, RegressionReport):
        found = with_rankings(Regression(report), place, cards=cards)
    elif isinstance(report, CheckReport):
        found = with_corpora(Checked.load(place), cards=cards)
    else:
        found = with_documents(Comparison.load(place), cards=cards)
    return found.html(keep_text=keep_text).encode()
