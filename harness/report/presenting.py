"""Show the results of verbs as text and as pages: the presenter that ``harness`` registers for their methods."""

from __future__ import annotations

from harness.pipeline.check.checked import CheckResult
from harness.pipeline.evaluated_runs import EvaluatedRuns
from harness.pipeline.regress.regression import Regression, without_texts
from harness.report.documents.check_cases import failures
from harness.report.formats import render
from harness.report.html.check_page import check_html
from harness.report.html.comparison_page import comparison_html
from harness.report.html.regression_page import regression_html
from harness.report.render.score_formats import scores_output
from harness.results.check_redaction import without_questions
from harness.results.comparison import Comparison
from harness.results.presenters import LEFT_OUT
from harness.results.schema import Result


class ReportPresenter:
    """Shows results by documents and their renderers."""

    def text(self, report: Result, format_name: str, *, verbose: bool, sort: str | None) -> str:
        """Return a result as ``table``, ``markdown``, ``latex``, ``csv`` or ``json``."""
        return render(report, format_name, verbose=verbose, sort=sort)

    def page(self, result: object, *, keep_text: bool) -> str:
        """Return a comparison, a check or a regression as one HTML file, with or without texts."""
        if isinstance(result, Comparison):
            return comparison_html(result if keep_text else result.without_texts())
        if isinstance(result, CheckResult):
            return _check_page(result, keep_text=keep_text)
        if isinstance(result, Regression):
            return _regression_page(result, keep_text=keep_text)
        raise TypeError(f"a {type(result).__name__} has no page")

    def scores(self, evaluated: object, format_name: str, *, per_query: bool) -> str:
        """Return the scores of several runs as ``harness eval`` prints them."""
        if not isinstance(evaluated, EvaluatedRuns):
            raise TypeError(f"a {type(evaluated).__name__} has no scores")
        output = scores_output(evaluated, format_name, per_query=per_query)
        return output if isinstance(output, str) else render(output, format_name, verbose=True)

    def failures(self, report: Result) -> list[str]:
        """State for each requirement of a check that does not hold the expected and the actual value."""
        return failures(report)


def _check_page(result: CheckResult, *, keep_text: bool) -> str:
    report = result.report if keep_text else without_questions(result.report)
    if not keep_text or report.plan.resolved.get("no_text"):
        return check_html(report, result.hits, {}, LEFT_OUT)
    missing = any(corpus.name not in result.corpora for corpus in report.corpora)
    return check_html(report, result.hits, result.corpora, result.no_texts if missing else "")


def _regression_page(result: Regression, *, keep_text: bool) -> str:
    report, no_texts = result.report, result.no_texts
    if not keep_text:
        report, no_texts = report.model_copy(update={"change": without_texts(result.change)}), LEFT_OUT
    return regression_html(report, result.compared, result.documents, no_texts, keep_text=keep_text)
