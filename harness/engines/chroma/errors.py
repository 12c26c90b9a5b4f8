"""What the errors of Chroma's client mean, what to do about them, and which calls are made again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import orjson

from harness.engines import remote_server
from harness.engines.remote_server import Address, Cause, Fault, FaultError, cause_of_status, redact, to_backend_error
from harness.errors import EngineFailureError, HarnessError
from harness.registry.optional import require

__all__ = ["PACKAGE", "REBUILD", "Retrier", "embedded_errors", "fault_of", "require_chroma", "server_errors"]

PACKAGE = "chromadb"
REBUILD = "delete the index folder and index again"
"""The remedy for an index in a folder of the harness's own."""
_REMEDIES = {
    Cause.UNREACHABLE: "start it (harness up), or mend 'url'; 'harness doctor' says what can be reached",
    Cause.BROKEN: "look into the server's log: it may have been restarted, or killed for memory",
    Cause.SLOW: "raise 'timeout_s' or 'retry_s', or send less at once: lower 'upsert_batch'",
    Cause.LIMITED: "lower 'upsert_batch', raise 'retry_s', or lift the server's limit",
    Cause.BUSY: "wait until the server is ready and run again, or raise 'retry_s'",
    Cause.MISSING: "somebody else removed it, or 'url', 'tenant' or 'database' names another: look, and run again",
    Cause.CONFLICT: "run again",
    Cause.REFUSED: "if the message does not say what to change, report it with this message",
    Cause.FAILED: "the server's log, or that of a proxy before it, says more",
    Cause.UNREADABLE: "check that 'url' names Chroma and that no proxy changes its answers",
}
_ERROR_STATUS = 400
_MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""What the client lets out where an answer has another shape than it expects."""
_NO_ROOM = ("No space left", "disk is full", "File too large", "disk I/O error")


def require_chroma(module: str = PACKAGE) -> ModuleType:
    """Import a module of the client library; raises MissingExtraError."""
    return require(module, extra="chroma", feature="backend chroma")


class Retrier(remote_server.Retrier):
    """Calls of the client, repeated while the fault may pass: see :class:`harness.engines.remote_server.Retrier`.

    The client's errors do not say which status was answered, so :meth:`remember` is to be hung into its session.
    """

    def __init__(self, limit_s: float) -> None:
        super().__init__(limit_s)
        self._last = threading.local()  # several threads may search at once

    def remember(self, answer: Any) -> None:  # noqa: ANN401 - httpx is imported late
        """Keep this thread's last answer, an ``httpx.Response``."""
        self._last.answer = answer

    def errors(self) -> tuple[type[Exception], ...]:
        """Return Exception: the client raises bare ones for errors that have not Chroma's form."""
        return (Exception,)

    def fault_of(self, error: Exception) -> Fault:
        """Say what an error of the client means; raises it again where it is none of the client's."""
        return fault_of(error, getattr(self._last, "answer", None))


def fault_of(error: Exception, answer: Any = None) -> Fault:  # noqa: ANN401 - httpx is imported late
    """Say what an error of the client means, ``answer`` being the last ``httpx.Response``, if there was one.

    Raises ``error`` again where it is none of the client's.
    """
    chroma, httpx = require_chroma("chromadb.errors").ChromaError, require_chroma("httpx")
    for cause in _chain(error):
        if isinstance(cause, httpx.ConnectError):
            return Fault(Cause.UNREACHABLE, str(cause))
        if isinstance(cause, httpx.TimeoutException):
            return Fault(Cause.SLOW, type(cause).__name__)
        if isinstance(cause, httpx.TransportError):
            return Fault(Cause.BROKEN, str(cause) or type(cause).__name__)
        if isinstance(cause, httpx.HTTPStatusError):
            answer = cause.response
    if type(error) is not Exception and not isinstance(error, (*_MALFORMED, chroma, httpx.HTTPError)):
        raise error
    if answer is None or answer.status_code < _ERROR_STATUS:
        return Fault(Cause.UNREADABLE, f"{type(error).__name__}: {error}")
    words = _message_of(answer) if isinstance(error, httpx.HTTPStatusError) else str(error)
    text = f"{answer.status_code} {answer.reason_phrase}: {words.strip() or 'without a message'}"
    pause = answer.headers.get("retry-after", "")  # a date is not kept to
    return Fault(cause_of_status(answer.status_code), text, float(pause) if pause.isdecimal() else None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and what it came of, the first cause last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _message_of(answer: Any) -> str:  # noqa: ANN401 - httpx is imported late
    """Return the server's own message where there is one, else the body's beginning."""
    try:
        return str(orjson.loads(answer.content)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(answer.text)


@contextmanager
def server_errors(address: Address, doing: Callable[[], str]) -> Iterator[None]:
    """Turn a FaultError into an error of the harness that names the server and what was being done.

    Raises EngineUnavailableError, EngineTimeoutError and EngineFailureError.
    """
    try:
        yield
    except FaultError as error:
        raise to_backend_error(error, address, doing(), _REMEDIES) from error


@contextmanager
def embedded_errors(doing: Callable[[], str], kind: type[HarnessError] = EngineFailureError) -> Iterator[None]:
    """Turn what the engine in the process raises into ``kind``.

    A panic of its Rust code is a ``BaseException`` that cannot be imported.
    """
    try:
        yield
    except BaseException as error:
        panic = type(error).__module__ == "pyo3_runtime"
        if not panic and not isinstance(error, require_chroma("chromadb.errors").ChromaError | ValueError | TypeError):
            raise
        text = redact(str(error) or type(error).__name__, None)
        raise kind(f"Chroma failed while {doing()}: {text}", fix=_remedy(str(error))) from error


def _remedy(message: str) -> str:
    if any(sign in message for sign in _NO_ROOM):
        return "free disk space, or raise the limit on file sizes, then index again"
    if "locked" in message:
        return "another process writes to this index: close it first"
    return REBUILD
