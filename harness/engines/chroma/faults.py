"""What the errors of Chroma's client mean, and what to do about them; see :mod:`harness.engines.faults`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from harness.engines import faults
from harness.engines.address import Address
from harness.engines.chroma.client import require_chroma
from harness.engines.faults import Cause, Fault, FaultError, cause_of_status, told

__all__ = ["Retrier", "fault_of", "translated"]

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
_CLIENTS_OWN = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""What the client lets out where an answer has another shape than it expects."""


class Retrier(faults.Retrier):
    """Calls of the client, repeated while the fault may pass: see :class:`harness.engines.faults.Retrier`.

    The client's errors do not say which status was answered, so :meth:`remember` is to be hung into its session.
    """

    def __init__(self, limit_s: float) -> None:
        super().__init__(limit_s)
        self._last = threading.local()  # several threads may search at once

    def remember(self, answer: Any) -> None:  # noqa: ANN401 - httpx is imported late
        """Keep this thread's last answer, an ``httpx.Response``."""
        self._last.answer = answer

    def errors(self) -> tuple[type[Exception], ...]:
        """Every Exception: the client raises bare ones for errors that have not Chroma's form."""
        return (Exception,)

    def fault_of(self, error: Exception) -> Fault:
        """What an error of the client means; raises it again where it is none of the client's."""
        return fault_of(error, getattr(self._last, "answer", None))


def fault_of(error: Exception, answer: Any = None) -> Fault:  # noqa: ANN401 - httpx is imported late
    """What an error of the client means, ``answer`` being the last ``httpx.Response``, if there was one.

    Raises ``error`` again where it is none of the client's.
    """
    httpx = require_chroma("httpx")
    for one in _chain(error):
        if isinstance(one, httpx.ConnectError):
            return Fault(Cause.UNREACHABLE, str(one))
        if isinstance(one, httpx.TimeoutException):
            return Fault(Cause.SLOW, type(one).__name__)
        if isinstance(one, httpx.TransportError):
            return Fault(Cause.BROKEN, str(one) or type(one).__name__)
        if isinstance(one, httpx.HTTPStatusError):
            answer = one.response
    if not _is_the_clients(error):
        raise error
    if answer is None or answer.status_code < _ERROR_STATUS:
        return Fault(Cause.UNREADABLE, f"{type(error).__name__}: {error}")
    said = f"{answer.status_code} {answer.reason_phrase}: {_words(error, answer)}"
    return Fault(cause_of_status(answer.status_code), said, _pause_s(answer.headers.get("retry-after", "")))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what it came of, the first cause last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_the_clients(error: Exception) -> bool:
    chroma, httpx = require_chroma("chromadb.errors").ChromaError, require_chroma("httpx").HTTPError
    return type(error) is Exception or isinstance(error, (*_CLIENTS_OWN, chroma, httpx))


def _words(error: Exception, answer: Any) -> str:  # noqa: ANN401 - httpx is imported late
    """The server's own message where there is one, else the body's beginning."""
    said = str(error)
    if isinstance(error, require_chroma("httpx").HTTPStatusError):
        try:
            said = str(orjson.loads(answer.content)["message"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            said = str(answer.text)
    return said.strip() or "without a message"


def _pause_s(asked: str) -> float | None:
    """The pause that a Retry-After asks for in seconds; a date is not kept to."""
    return float(asked) if asked.isdecimal() else None


@contextmanager
def translated(address: Address, doing: Callable[[], str]) -> Iterator[None]:
    """Turn a FaultError into an error of the harness that names the server and what was being done.

    Raises EngineUnavailableError, EngineTimeoutError and EngineFailureError.
    """
    try:
        yield
    except FaultError as error:
        raise told(error, address, doing(), _REMEDIES) from error
