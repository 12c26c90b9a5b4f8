"""``harness report``: print a stored result again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from harness.cli.output import print_result, write_report
from harness.cli.verb import verb
from harness.errors import UsageError
from harness.plan.config import ReportRequest
from harness.plan.option_fields import require

if TYPE_CHECKING:
    from harness.results.check_schema import CheckReport
    from harness.results.regression_schema import RegressionReport
    from harness.results.schema import Result

__all__ = ["report"]

_HTML = "html"


@verb(ReportRequest)
def report(request: ReportRequest) -> None:
    """Print a stored result in any format, without running anything.

    A folder of regress is printed as what was judged; its report.json as the comparison that ran.

    Texts of documents are in no result: html takes them from the dataset, if that still holds the same.

    Example: harness report reports/cacm-20260101-120000 --format markdown
    """
    require(request)
    if request.schema:
        from harness.report.schema_page import describe_schema

        typer.echo(describe_schema(), nl=False)
        return
    if request.folder is None:
        raise UsageError("no result folder was given", fix="name one that harness wrote, under reports/")
    if request.format == _HTML:
        print_result(_page(request.folder, request.cards, keep_text=not request.no_text))
        return
    stored = _stored(request.folder)
    shown = _without_texts(stored) if request.no_text else stored
    write_report(shown, request.format, verbose=request.verbose, sort=request.sort)


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
