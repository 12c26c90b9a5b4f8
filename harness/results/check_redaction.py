"""A check's report without what URLs can hide: user names, passwords and keys."""

from __future__ import annotations

from typing import Any

from harness.remote.plain_url import without_secrets
from harness.results.check_schema import CheckReport

__all__ = ["redacted", "without_questions"]

_DATA = {"questions", "without_expectation", "missed", "examples", "slices"}
"""Fields that hold the user's questions and ids. An id that is a URL has to stay what it is, or nobody can find it."""


def redacted(report: CheckReport) -> CheckReport:
    """The report with every URL outside questions and ids free of user information, query and fragment."""
    plain = report.model_dump(by_alias=True, exclude={"subjects": {"__all__": {"questions"}}})
    for subject, dumped in zip(report.subjects, plain["subjects"], strict=True):
        dumped["questions"] = subject.questions
    return CheckReport.model_validate(_plain(plain))


def without_questions(report: CheckReport) -> CheckReport:
    """The report without the texts of its questions (``--no-text``)."""
    subjects = [
        one.model_copy(update={"questions": [asked.model_copy(update={"question": None}) for asked in one.questions]})
        for one in report.subjects
    ]
    return report.model_copy(update={"subjects": subjects})


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of the report
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {_plain(name): item if name in _DATA else _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
