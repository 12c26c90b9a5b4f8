"""What goes wrong between a client and a server: sorted by cause, retried where that can help, told in words.

Whatever is sent carries row numbers as ids, so that sending a batch again changes nothing, and searching changes
nothing anyway: whatever may pass is tried again, with growing pauses, until a deadline. What the errors of one client
library mean is that adapter's to say (``qdrant_faults``, ``chroma_faults``).
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

from harness.engines.address import Address
from harness.errors import BackendError, EngineFailureError, EngineTimeoutError, EngineUnavailableError
from harness.remote import credentials

__all__ = ["Cause", "Fault", "FaultError", "Retrier", "cause_of_status", "shown", "told"]

T = TypeVar("T")

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_OF_THE_SERVER = 500


class Cause(Enum):
    """Why a call failed. The value says what happened, after the server's name; ``{engine}`` stands for its kind."""

    UNREACHABLE = "cannot be reached"
    BROKEN = "broke the connection"
    SLOW = "gave no answer in time"
    LIMITED = "limits the rate of requests"
    BUSY = "is not ready"
    UNAUTHORISED = "refused the credentials"
    MISSING = "does not have what was asked for"
    CONFLICT = "has it already"
    REFUSED = "refused the request"
    FAILED = "reported an error of its own"
    UNREADABLE = "answered what is no answer of {engine}"


_PASSING = frozenset({Cause.UNREACHABLE, Cause.BROKEN, Cause.SLOW, Cause.LIMITED, Cause.BUSY})
_BY_STATUS = {401: Cause.UNAUTHORISED, 403: Cause.UNAUTHORISED, 404: Cause.MISSING, 409: Cause.CONFLICT}
_BY_STATUS |= {408: Cause.SLOW, 429: Cause.LIMITED, 502: Cause.BUSY, 503: Cause.BUSY, 504: Cause.SLOW}
_KINDS: dict[Cause, type[BackendError]] = {
    Cause.SLOW: EngineTimeoutError,
    Cause.MISSING: EngineFailureError,
    Cause.CONFLICT: EngineFailureError,
    Cause.REFUSED: EngineFailureError,
    Cause.FAILED: EngineFailureError,
    Cause.UNREADABLE: EngineFailureError,
}


def cause_of_status(status: int) -> Cause:
    """What an HTTP status above 399 means."""
    return _BY_STATUS.get(status, Cause.FAILED if status >= _OF_THE_SERVER else Cause.REFUSED)


class Fault(NamedTuple):
    """One failed call: its cause, the other side's words (see :func:`shown`), and the pause that it asked for."""

    cause: Cause
    text: str
    pause_s: float | None = None


class FaultError(Exception):
    """A call that failed for good, after ``tries`` in ``seconds``; never leaves the adapter."""

    def __init__(self, fault: Fault, tries: int, seconds: float) -> None:
        self.fault, self.tries, self.seconds = fault, tries, seconds
        super().__init__(fault.text)


def shown(text: str, address: Address | None) -> str:
    """What another side said, fit to be shown: without secrets, on one line, cut. In this order: no part stays."""
    return credentials.shown(text, str if address is None else address.hide)


class Retrier(ABC):
    """Calls that are repeated while the fault may pass, until ``limit_s`` seconds after the first try.

    Pauses double from 0.2 s to 10 s, each drawn between half and the whole of that, so that several clients do not come
    back together; a pause that the server asks for is kept to. ``repeated`` counts the calls that were made again.
    Several threads may use one; :meth:`give_up` ends what they wait for.
    """

    def __init__(
        self,
        limit_s: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._ended, self._counting = threading.Event(), threading.Lock()
        self._limit_s, self._clock, self._draw = limit_s, clock, draw
        self._sleep = self._ended.wait if sleep is None else sleep
        self.repeated = 0

    @abstractmethod
    def errors(self) -> tuple[type[Exception], ...]:
        """Whatever a call of the client can raise."""

    @abstractmethod
    def fault_of(self, error: Exception) -> Fault:
        """What an error of the client means."""

    def give_up(self) -> None:
        """Let every call that waits fail now, and every later one after its first try."""
        self._ended.set()

    def call(self, operation: Callable[[], T]) -> T:
        """The result of ``operation``; raises FaultError. A limit of 0 tries once."""
        started, tries = self._clock(), 0
        errors = self.errors()
        while True:
            tries += 1
            try:
                return operation()
            except errors as error:
                fault = self.fault_of(error)
                waited = self._clock() - started
                pause = self._pause_s(tries, fault)
                if fault.cause not in _PASSING or waited + pause > self._limit_s or self._ended.is_set():
                    raise FaultError(fault, tries, waited) from error
            with self._counting:
                self.repeated += 1
            self._sleep(pause)

    def _pause_s(self, tries: int, fault: Fault) -> float:
        pause: float = min(_FIRST_PAUSE_S * 2 ** (tries - 1), _LONGEST_PAUSE_S) * (0.5 + self._draw() / 2)
        return max(pause, fault.pause_s or 0.0)


def told(error: FaultError, address: Address, doing: str, remedies: Mapping[Cause, str]) -> BackendError:
    """The error of the harness for a fault of the server at ``address``, to be raised from ``error``.

    EngineUnavailableError, EngineTimeoutError or EngineFailureError; ``doing`` is what was being done.
    """
    fault = error.fault
    again = f", {error.tries} tries in {error.seconds:.0f} s" if error.tries > 1 else ""
    happened = fault.cause.value.format(engine=address.engine)
    return _KINDS.get(fault.cause, EngineUnavailableError)(
        f"{address.engine} at {address.url} {happened} while {doing} ({shown(fault.text, address)}{again})",
        fix=_of_credentials(address) if fault.cause is Cause.UNAUTHORISED else remedies[fault.cause],
    )


def _of_credentials(address: Address) -> str:
    if address.secrets:
        return f"what was sent ({address.authentication}) is not accepted: check {address.key_variable}, and its rights"
    return f"put the API key into the environment variable {address.key_variable}, or name another with api_key_env"
