"""Why a backend has no result, as it is stored and reported."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from harness.errors import EngineFailureError, HarnessError

__all__ = ["Failure", "failure_of", "harness_error"]


@dataclass(frozen=True, slots=True)
class Failure:
    """An error's type, its message, and the last lines of the worker's log."""

    type: str
    message: str
    log: tuple[str, ...]


def failure_of(error: HarnessError) -> Failure:
    """A failure as it is reported: the error's type, its message, and the last lines of the log where there is one."""
    return Failure(getattr(error, "type_name", type(error).__name__), str(error), tuple(error.log))


def harness_error(error: Exception) -> HarnessError:
    """The error itself, or for one that nobody foresaw an EngineFailureError with its traceback as the log."""
    if isinstance(error, HarnessError):
        return error
    return EngineFailureError(
        f"an error that nobody foresaw: {''.join(traceback.format_exception_only(error)).strip()}",
        fix="this is a defect of the adapter; its traceback is in the log",
        log="".join(traceback.format_exception(error)).splitlines(),
    )
