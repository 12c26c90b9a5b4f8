"""Failures of a job or a backend: as a worker reports them, as the parent raises them, and as they are stored."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from harness.errors import BackendError, EngineFailureError, HarnessError
from harness.store.machine_state import machine_error


@dataclass(frozen=True, slots=True)
class ReportedError:
    """An error as a worker reports it to its parent: type, message, remedy, and additional log lines."""

    type: str
    problem: str
    fix: str | None
    log: tuple[str, ...]


class RemoteError(BackendError):
    """A failure that a worker reported itself, with the type it had there."""

    def __init__(self, type_name: str, problem: str, fix: str | None, log: list[str]) -> None:
        self.type_name = type_name
        super().__init__(problem, fix=fix, log=log)


@dataclass(frozen=True, slots=True)
class Failure:
    """An error's type, its message, and the last lines of the worker's log."""

    type: str
    message: str
    log: tuple[str, ...]


def failure_of(error: HarnessError) -> Failure:
    """Return the report of a failure: the error's type and message, and the last lines of its log, if any."""
    return Failure(getattr(error, "type_name", type(error).__name__), str(error), tuple(error.log))


def harness_error(error: Exception, *paths: Path) -> HarnessError:
    """Return the error to report.

    The error is a MachineError if the machine's state caused it (``paths`` are folders that were written to), else the
    error itself, or for an unforeseen one an EngineFailureError with its traceback as the log.
    """
    state = machine_error(error, *paths)
    if state is not None:
        return state
    if isinstance(error, HarnessError):
        return error
    library = _library_of(error)
    source = f"an error of {library} that its engine does not name" if library else "an unexpected error"
    return EngineFailureError(
        f"{source}: {''.join(traceback.format_exception_only(error)).strip()}",
        fix="the traceback is in the log; an engine's class translates the exceptions that it names in 'faults'"
        if library
        else "this is a defect of the engine; its traceback is in the log",
        log="".join(traceback.format_exception(error)).splitlines(),
    )


def _library_of(error: Exception) -> str:
    """Return the installed package in whose code the error was raised, '' for another place."""
    frames = traceback.extract_tb(error.__traceback__)
    parts = Path(frames[-1].filename).parts if frames else ()
    if "site-packages" not in parts:
        return ""
    package = parts[parts.index("site-packages") + 1]
    return "" if package == "harness" else package.removesuffix(".py")
