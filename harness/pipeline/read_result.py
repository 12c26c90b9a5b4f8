"""Stored results of every verb, read back with their rankings and texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.regress.regression import Regression
    from harness.results.comparison import Comparison
    from harness.results.schema import Result


def stored_report(path: Path) -> Result:
    """Read a stored result.

    A folder of regress gives the two results compared, its report.json the comparison that ran for it.
    """
    from harness.results.stored import StoredResult, read_report
    from harness.store.result_folder import PER_QUERY

    report = read_report(path)
    if (path / PER_QUERY).is_file():
        StoredResult(path, report).per_query()  # raises if the report's means do not match the queries
    if report.kind == "regress" and path.is_file() and report.trials:
        return report.model_copy(update={"change": None})
    return report


def read_result(folder: Path, cards: Path | None) -> CheckResult | Comparison | Regression:
    """Read a stored result with its rankings, and with the texts of documents if the dataset can still be found."""
    from harness.pipeline.check.checked import CheckResult
    from harness.pipeline.check.run_check import with_corpora
    from harness.pipeline.regress.regression import Regression, with_rankings
    from harness.results.comparison import Comparison
    from harness.results.stored_texts import with_documents
    from harness.store.result_folder import REPORT_NAME, RUNS

    report, result_folder = stored_report(folder), folder if folder.is_dir() else folder.parent
    if (
        report.change is None
        and folder.is_file()
        and not (folder.name == REPORT_NAME and (result_folder / RUNS).is_dir())
    ):
        raise UsageError(
            f"'{folder}' is a single file, and rankings are in the other files of its result folder",
            fix="name that folder, or print this file with --format table, markdown, latex, csv or json",
        )
    if report.kind == "check":
        return with_corpora(CheckResult.load(result_folder), cards=cards)
    if report.change is not None:
        return with_rankings(Regression(report), result_folder, cards=cards)
    return with_documents(Comparison.load(result_folder), cards=cards)
