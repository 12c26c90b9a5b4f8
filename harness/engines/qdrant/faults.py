"""What the errors of Qdrant's client mean, and what to do about them; see :mod:`harness.engines.faults`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from harness.engines import faults
from harness.engines.address import Address
from harness.engines.faults import Cause, Fault, FaultError, cause_of_status, told
from harness.registry.optional import require

__all__ = ["Retrier", "fault_of", "require_client", "translated"]

_BY_CODE = {
    "UNAVAILABLE": Cause.UNREACHABLE,
    "DEADLINE_EXCEEDED": Cause.SLOW,
    "RESOURCE_EXHAUSTED": Cause.LIMITED,
    "ABORTED": Cause.BROKEN,
    "CANCELLED": Cause.BROKEN,
    "UNAUTHENTICATED": Cause.UNAUTHORISED,
    "PERMISSION_DENIED": Cause.UNAUTHORISED,
    "NOT_FOUND": Cause.MISSING,
    "ALREADY_EXISTS": Cause.CONFLICT,
    "UNIMPLEMENTED": Cause.UNREADABLE,
    "INTERNAL": Cause.FAILED,
    "UNKNOWN": Cause.FAILED,
}
_REPLICA = re.compile(r"\breplicas? (of|set for) shard\b", re.IGNORECASE)
_REMEDIES = {
    Cause.UNREACHABLE: "start it (harness up), or mend 'url'; 'harness doctor' says what can be reached",
    Cause.BROKEN: "look into the server's log: it may have been restarted, or killed for memory",
    Cause.SLOW: "raise 'timeout_s' or 'retry_s', or send less at once: lower 'batch_size' or 'upload_threads'",
    Cause.LIMITED: "lower 'upload_threads' or 'batch_size', raise 'retry_s', or lift the server's limit",
    Cause.BUSY: "wait until the server is ready and run again, or raise 'retry_s'",
    Cause.MISSING: "somebody else removed the collection, or 'url' names another service: look, and run again",
    Cause.CONFLICT: "run again",
    Cause.REFUSED: "if the message does not say what to change, report it with this message",
    Cause.FAILED: "the server's log, or that of a proxy before it, says more",
    Cause.UNREADABLE: "check that 'url' names Qdrant's REST port and that no proxy changes its answers",
}


class _Client(NamedTuple):
    """Types of the client library's errors, which are imported late."""

    unexpected: type[Exception]
    handling: type[Exception]
    exhausted: type[Exception]
    other: type[Exception]
    rpc: type[Exception]
    refused: type[Exception]
    slow: type[Exception]
    transport: type[Exception]

    @property
    def all(self) -> tuple[type[Exception], ...]:
        """Whatever a call of the client can raise: its own errors, and what its parsing lets out."""
        return (*self, ValueError, AssertionError, RuntimeError, IndexError)


def require_client(module: str = "qdrant_client") -> Any:  # noqa: ANN401 - the client is imported late
    """A module of the client library; raises MissingExtraError."""
    return require(module, extra="qdrant", feature="backend qdrant with mode=server")


def _client() -> _Client:
    http, httpx = require_client("qdrant_client.http.exceptions"), require_client("httpx")
    common = require_client("qdrant_client.common.client_exceptions")
    return _Client(
        http.UnexpectedResponse,
        http.ResponseHandlingException,
        common.ResourceExhaustedResponse,
        common.QdrantException,
        require_client("grpc").RpcError,
        httpx.ConnectError,
        httpx.TimeoutException,
        httpx.TransportError,
    )


def fault_of(error: Exception) -> Fault:
    """What an error of the client means."""
    kinds = _client()
    if isinstance(error, kinds.handling):
        error = error.source  # type: ignore[attr-defined]
    if isinstance(error, kinds.unexpected):
        status, words = int(getattr(error, "status_code", 0)), _words_of(error)
        return Fault(_of_replicas(cause_of_status(status), words), f"{status} {words}")
    if isinstance(error, kinds.exhausted):
        pause = float(getattr(error, "retry_after_s", 0))
        return Fault(Cause.LIMITED, f"429, asking for a pause of {pause:g} s: {error}", pause)
    if isinstance(error, kinds.other):  # a Retry-After that is a date: the client reads seconds only
        return Fault(Cause.LIMITED, f"429 {error}")
    if isinstance(error, kinds.rpc):
        code = error.code().name if hasattr(error, "code") else "UNKNOWN"
        details = error.details() if hasattr(error, "details") else str(error)
        return Fault(_of_replicas(_BY_CODE.get(code, Cause.REFUSED), str(details)), f"gRPC {code}: {details}")
    if isinstance(error, kinds.refused):
        return Fault(Cause.UNREACHABLE, str(error))
    if isinstance(error, kinds.slow):
        return Fault(Cause.SLOW, type(error).__name__)
    if isinstance(error, kinds.transport):
        return Fault(Cause.BROKEN, str(error) or type(error).__name__)
    return Fault(Cause.UNREADABLE, f"{type(error).__name__}: {error}")


def _of_replicas(cause: Cause, words: str) -> Cause:
    """A cluster says of a replica that is starting, or gone, that the server failed: it may pass."""
    return Cause.BUSY if cause is Cause.FAILED and _REPLICA.search(words) else cause


def _words_of(error: Any) -> str:  # noqa: ANN401 - UnexpectedResponse of the client
    """Qdrant's own message where the body holds one, else the body's beginning."""
    content = bytes(error.content or b"")
    try:
        message = orjson.loads(content)["status"]["error"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        message = content.decode(errors="replace").strip() or "without a message"
    return f"{error.reason_phrase}: {message}"


class Retrier(faults.Retrier):
    """Calls of the client, repeated while the fault may pass: see :class:`harness.engines.faults.Retrier`."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Whatever a call of the client can raise."""
        return _client().all

    def fault_of(self, error: Exception) -> Fault:
        """What an error of the client means."""
        return fault_of(error)


@contextmanager
def translated(address: Address, doing: Callable[[], str]) -> Iterator[None]:
    """Turn a FaultError into an error of the harness that names the server and what was being done.

    Raises EngineUnavailableError, EngineTimeoutError and EngineFailureError.
    """
    try:
        yield
    except FaultError as error:
        raise told(error, address, doing(), _REMEDIES) from error
