"""Results print themselves and draw their pages by a presenter, which the report room registers here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # `import harness` reads this module, and loads nothing heavy
    from harness.results.explanation import Explanation
    from harness.results.judge_results import JudgeResult
    from harness.results.schema import Result


HTML_NAME = "report.html"
LEFT_OUT = "Texts were left out of this file (--no-text)."
NOT_STORED = "Texts of documents are not in this file: the result does not hold them, and no dataset was given."
"""The text of the page if it has no texts."""


class Presenter(Protocol):
    """Shows results. :mod:`harness.report.presenting` is the one that the package registers."""

    def text(self, report: Result | JudgeResult, format_name: str, *, verbose: bool, sort: str | None) -> str:
        """Return a result as ``table``, ``markdown``, ``latex``, ``csv`` or ``json``."""

    def page(self, result: object, *, keep_text: bool) -> str:
        """Return a comparison, a check or a regression as one HTML file, with or without texts."""

    def query(
        self, result: object, query_id: str, format_name: str, *, keep_text: bool, verbose: bool, sort: str | None
    ) -> str:
        """Return one query of a result as ``table``, ``markdown``, ``latex`` or ``csv``."""

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
        """Return the table of queries and backends as ``table``, ``markdown``, ``latex`` or ``csv``."""

    def scores(self, evaluated: object, format_name: str, *, per_query: bool) -> str:
        """Return the scores of several runs in one of these formats, with or without the values of every query."""

    def explanation(self, explanation: Explanation, format_name: str, *, verbose: bool) -> str:
        """Return an explanation as ``table``, ``markdown`` or ``json``."""

    def comment(self, report: Result) -> str:
        """Return a judged result as Markdown for a comment on a pull request."""

    def failures(self, report: Result) -> list[str]:
        """Describe each unmet requirement of a check: the expected and the actual value."""


_makers: list[Callable[[], Presenter]] = []


def register_presenter(make: Callable[[], Presenter]) -> None:
    """Let results be shown by the return value of ``make``, which is called when the first result is shown."""
    _makers[:] = [make]


def presenter() -> Presenter:
    """Return the presenter that was registered."""
    return _makers[0]()


class Presentable:
    """A result with a ``report``: how it is printed, and drawn as a page."""

    report: Result

    def render(self, format: str = "table", *, verbose: bool = False, sort: str | None = None) -> str:  # noqa: A002 - the name of the command line's option
        """Return the report as ``table``, ``markdown``, ``latex``, ``csv`` or ``json``.

        ``verbose`` adds to ``table`` and ``latex`` the parts that the short form omits; ``sort`` names the column that
        orders rows.
        """
        return presenter().text(self.report, format, verbose=verbose, sort=sort)

    def render_query(
        self,
        query_id: str | int,
        format: str = "table",  # noqa: A002 - the name of the command line's option
        *,
        keep_text: bool = True,
        verbose: bool = False,
        sort: str | None = None,
    ) -> str:
        """Return the values, ranks and first hits of every backend for one query, in the formats but ``json``.

        ``verbose`` adds the texts of the documents, ``keep_text=False`` leaves all texts out. Raises UnknownNameError
        for an unknown query.
        """
        return presenter().query(self, str(query_id), format, keep_text=keep_text, verbose=verbose, sort=sort)

    def render_queries(
        self,
        metric: str | None = None,
        format: str = "table",  # noqa: A002 - the name of the command line's option
        *,
        keep_text: bool = True,
        verbose: bool = False,
        sort: str | None = None,
    ) -> str:
        """Return a row for each query with the value of every backend on a metric, in the formats but ``json``.

        ``csv`` also has the rank of the first relevant document if the metric depends on it alone, and whether the
        query is won, lost or tied; of a check, also whether it is missed. By default the metric is the first;
        ``table`` has the first rows unless ``verbose``; ``sort`` names the column that orders rows.
        Raises UnknownNameError for an unknown metric or column, UsageError for a result without values of queries.
        """
        return presenter().queries(self, metric, format, keep_text=keep_text, verbose=verbose, sort=sort)

    def comment(self) -> str:
        """Return Markdown for a comment on a pull request: the verdict, and the questions that were lost and won.

        Its first line is a marker that identifies the comment of an earlier run.
        """
        return presenter().comment(self.report)

    def html(self, *, keep_text: bool = True) -> str:
        """Return the report as a self-contained HTML file.

        It holds texts of queries and documents if they are available; ``keep_text=False`` leaves them out.
        """
        return presenter().page(self, keep_text=keep_text)

    def __str__(self) -> str:
        return self.render()
