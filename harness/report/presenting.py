"""Show the results of verbs as text and as pages: the presenter that ``harness`` registers for their methods."""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness._version import __version__
from harness.data.types import Corpus
from harness.document.model import Document
from harness.errors import UnknownNameError, UsageError
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.evaluated_runs import EvaluatedRuns
from harness.pipeline.regress.regression import Regression, without_texts
from harness.report.documents.check_cases import failures
from harness.report.documents.explanation import explanation_document
from harness.report.documents.query import query_document
from harness.report.documents.query_table import queries_document
from harness.report.formats import render, render_comment
from harness.report.html.pages import change_html, check_html, comparison_html, runs_html
from harness.report.rankings.explorer import Explorer
from harness.report.rankings.of_change import change_explorers
from harness.report.rankings.of_check import Hits, Returned, check_explorers
from harness.report.rankings.of_comparison import comparison_explorers
from harness.report.rankings.of_runs import run_explorers
from harness.report.render.score_formats import scores_output
from harness.results.check_redaction import without_questions
from harness.results.comparison import Comparison
from harness.results.explanation import Explanation
from harness.results.judge_results import JudgeResult
from harness.results.presenters import LEFT_OUT
from harness.results.schema import Result

EXPLANATION_FORMATS = ("table", "markdown", "json")


class ReportPresenter:
    """Shows results by documents and their renderers."""

    def text(self, report: Result | JudgeResult, format_name: str, *, verbose: bool, sort: str | None) -> str:
        """Return a result as ``table``, ``markdown``, ``latex``, ``csv`` or ``json``."""
        return render(report, format_name, verbose=verbose, sort=sort)

    def page(self, result: object, *, keep_text: bool) -> str:
        """Return a comparison, a check or a regression as one HTML file, with or without texts."""
        if isinstance(result, Comparison):
            return comparison_html(result if keep_text else result.without_texts())
        if isinstance(result, CheckResult):
            explanations = result.explanations if keep_text else None
            return check_html(*_check_parts(result, keep_text=keep_text), explanations)
        if isinstance(result, Regression):
            return _regression_page(result, keep_text=keep_text)
        if isinstance(result, EvaluatedRuns):
            return runs_html(result)
        raise TypeError(f"a {type(result).__name__} has no page")

    def query(
        self, result: object, query_id: str, format_name: str, *, keep_text: bool, verbose: bool, sort: str | None
    ) -> str:
        """Return one query of a comparison, a check or a regression in one of these formats."""
        document = query_of(result, query_id, keep_text=keep_text)
        return render(document, format_name, verbose=verbose, sort=sort)

    def queries(
        self,
        result: object,
        metric: str | None,
        format_name: str,
        *,
        keep_text: bool,
        verbose: bool,
        sort: str | None,
    ) -> str:
        """Return the table of queries and backends of a comparison, a check or a regression in one of these formats."""
        document = queries_of(result, metric, sort, keep_text=keep_text)
        return render(document, format_name, verbose=verbose)

    def scores(self, evaluated: object, format_name: str, *, per_query: bool) -> str:
        """Return the scores of several runs as ``harness eval`` prints them."""
        if not isinstance(evaluated, EvaluatedRuns):
            raise TypeError(f"a {type(evaluated).__name__} has no scores")
        output = scores_output(evaluated, format_name, per_query=per_query)
        return output if isinstance(output, str) else render(output, format_name, verbose=True)

    def explanation(self, explanation: Explanation, format_name: str, *, verbose: bool) -> str:
        """Return an explanation as ``table``, ``markdown`` or ``json``."""
        if format_name not in EXPLANATION_FORMATS:
            raise UnknownNameError("format", format_name, EXPLANATION_FORMATS)
        if format_name == "json":
            return f"{json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False)}\n"
        return render(explanation_document(explanation), format_name, verbose=verbose)

    def comment(self, report: Result) -> str:
        """Return a judged result as Markdown for a comment on a pull request."""
        return render_comment(report)

    def failures(self, report: Result) -> list[str]:
        """State for each requirement of a check that does not hold the expected and the actual value."""
        return failures(report)


def query_of(result: object, query_id: str, *, keep_text: bool) -> Document:
    """Return the document of one query of a result.

    Raises UnknownNameError for an unknown query, UsageError if the rankings of the compared results cannot be read.
    """
    made_by, explorers = explorers_of(result, keep_text=keep_text)
    return query_document(explorers, query_id, made_by)


def queries_of(result: object, metric: str | None, sort: str | None, *, keep_text: bool) -> Document:
    """Return the document of all queries of a result; raises as :func:`queries_document`, and as :func:`query_of`."""
    made_by, explorers = explorers_of(result, keep_text=keep_text)
    return queries_document(explorers, metric, sort, made_by)


def explorers_of(result: object, *, keep_text: bool) -> tuple[str, list[Explorer]]:
    """Return which version made a result, and its queries; raises UsageError if the rankings cannot be read."""
    if isinstance(result, EvaluatedRuns):
        return f"harness {__version__}", run_explorers(result)
    if isinstance(result, Comparison):
        report, explorers = result.report, comparison_explorers(result if keep_text else result.without_texts())
    elif isinstance(result, CheckResult):
        report, explorers = result.report, check_explorers(*_check_parts(result, keep_text=keep_text))
    elif not isinstance(result, Regression):
        raise TypeError(f"a {type(result).__name__} has no queries")
    elif result.compared is None:
        raise UsageError(f"the rankings of the compared results cannot be read: {result.no_texts}")
    else:
        report = result.report
        no_texts = result.no_texts if keep_text else LEFT_OUT
        explorers = change_explorers(result.compared, result.documents, no_texts, keep_text=keep_text)
    return f"harness {report.harness.version} · {report.created}", explorers


def _check_parts(result: CheckResult, *, keep_text: bool) -> tuple[Result, Hits, Mapping[str, Corpus], Returned, str]:
    """Return the report, the hits, the documents of corpora and of backends, and why some have no texts."""
    report = result.report if keep_text else without_questions(result.report)
    if not keep_text or report.plan.resolved.get("no_text"):
        return report, result.hits, {}, {}, LEFT_OUT
    missing = any(corpus.name not in result.corpora for corpus in report.corpora)
    return report, result.hits, result.corpora, result.texts, result.no_texts if missing else ""


def _regression_page(result: Regression, *, keep_text: bool) -> str:
    report, no_texts = result.report, result.no_texts
    if not keep_text:
        report, no_texts = report.model_copy(update={"change": without_texts(result.change)}), LEFT_OUT
    return change_html(report, result.compared, result.documents, no_texts, keep_text=keep_text)
