"""Take out of a check what URLs can hide (user names, passwords, keys), and the texts of questions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from harness.plain_url import without_secrets
from harness.results.check_schema import PreflightProblem
from harness.results.schema import Result
from harness.results.schema_base import ErrorInfo

_DATA = {"questions", "without_expectation", "missed", "examples", "slices"}
"""Fields that hold the user's questions and ids. An id that is a URL has to stay what it is, or nobody can find it."""


def redacted(result: Result) -> Result:
    """Return the result with every URL outside questions and ids free of user information, query and fragment."""
    plain = result.model_dump(by_alias=True, exclude={"trials": {"__all__": {"questions"}}})
    for trial, dumped in zip(result.trials, plain["trials"], strict=True):
        dumped["questions"] = trial.questions
    return Result.model_validate(_plain(plain))


def without_questions(result: Result, texts: Iterable[str] = ()) -> Result:
    """Return the result without the texts of its questions (``--no-text``), also where a failure quotes one.

    ``texts`` are those that the result does not hold itself.
    """
    known = {
        question.question for trial in result.trials for question in trial.questions if question.question is not None
    }
    quoted = _Quoted({*texts, *known})
    trials = [
        trial.model_copy(
            update={
                "questions": [question.model_copy(update={"question": None}) for question in trial.questions],
                "error": quoted.out_of_error(trial.error) if trial.error is not None else None,
            }
        )
        for trial in result.trials
    ]
    problems = {name: [quoted.out_of_problem(problem) for problem in getattr(result, name)] for name in _PROBLEMS}
    return result.model_copy(update={"trials": trials, **problems})


_PROBLEMS = ("preflight", "warnings")
_LEFT_OUT = "[question]"


class _Quoted:
    """Texts that are taken out of what somebody else's code said: as they are, and as Python and JSON write them."""

    def __init__(self, texts: Iterable[str]) -> None:
        forms = {form for text in texts for form in (text, repr(text)[1:-1], json.dumps(text)[1:-1])}
        self._forms = sorted(forms, key=len, reverse=True)

    def out_of(self, said: str) -> str:
        """Return ``said`` with a mark in place of each text that stands in it as whole words."""
        for form in self._forms:
            if form in said:  # most are not, and there may be thousands
                said = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", _LEFT_OUT, said)
        return said

    def out_of_error(self, error: ErrorInfo) -> ErrorInfo:
        """Return the same error without the texts; it still says what went wrong."""
        update = {"message": self.out_of(error.message), "log": [self.out_of(line) for line in error.log]}
        return error.model_copy(update=update)

    def out_of_problem(self, problem: PreflightProblem) -> PreflightProblem:
        """Return the same problem without the texts."""
        update = {
            "message": self.out_of(problem.message),
            "examples": [self.out_of(example) for example in problem.examples],
        }
        return problem.model_copy(update=update)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any part of the report
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {_plain(name): item if name in _DATA else _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
