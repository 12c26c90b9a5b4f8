"""Remove the secrets that URLs can hide (user names, passwords, keys) and the texts of questions from a check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from harness.plain_url import MAY_HIDE_SECRETS, without_secrets
from harness.results.check_schema import PreflightProblem
from harness.results.schema import Result
from harness.results.schema_base import ErrorInfo

Part = TypeVar("Part", ErrorInfo, PreflightProblem)
_DATA = {"questions", "without_expectation", "questions_below_best", "examples", "slices", "answered"}
"""Fields that hold the user's questions and ids. An id that is a URL stays unchanged so that it can be found."""


def redacted(result: Result) -> Result:
    """Return the result with every URL outside questions and ids free of user information, query and fragment."""
    left_out: Any = {"trials": {"__all__": {"questions"}}}
    if MAY_HIDE_SECRETS.search(result.model_dump_json(by_alias=True, exclude=left_out)) is None:
        return result
    plain = result.model_dump(by_alias=True, exclude=left_out)
    for trial, dumped in zip(result.trials, plain["trials"], strict=True):
        dumped["questions"] = trial.questions
    return Result.model_validate(_plain(plain))


def without_questions(result: Result, texts: Iterable[str] = ()) -> Result:
    """Return the result without the texts of its questions (``--no-text``), also if a failure quotes one.

    ``texts`` are further ones to leave out, which the result does not hold itself.
    """
    question_texts = {question.question for trial in result.trials for question in trial.questions}
    forms = {
        form
        for text in {*texts, *question_texts} - {None}
        for form in (str(text), repr(text)[1:-1], json.dumps(text)[1:-1])  # raw, and as Python and JSON write it
    }
    by_length = sorted(forms, key=len, reverse=True)

    def plain(text: str) -> str:
        for form in by_length:
            if form in text:  # most are not, and there may be thousands
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", "[question]", text)
        return text

    def without(record: Part, field: str) -> Part:
        """Return an error or a problem whose message and lines have no text; it still says what went wrong."""
        update = {"message": plain(record.message), field: list(map(plain, getattr(record, field)))}
        return record.model_copy(update=update)

    trials = [
        trial.model_copy(
            update={
                "questions": [question.model_copy(update={"question": None}) for question in trial.questions],
                "error": without(trial.error, "log") if trial.error is not None else None,
            }
        )
        for trial in result.trials
    ]
    problems = {
        name: [without(problem, "examples") for problem in getattr(result, name)] for name in ("preflight", "warnings")
    }
    return result.model_copy(update={"trials": trials, **problems})


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, dict):
        return {_plain(name): item if name in _DATA else _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
