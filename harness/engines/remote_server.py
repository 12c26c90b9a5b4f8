"""A server that an engine runs on: its address, credentials, faults and repeated calls.

Credentials come from the environment and go nowhere else. A call that may succeed later is repeated with growing pauses
until a deadline: documents are sent under their row numbers, so sending a batch twice changes nothing. Each engine
package interprets the errors of its client library.
"""

from __future__ import annotations

import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from harness.errors import (
    BackendError,
    EngineFailureError,
    EngineTimeoutError,
    EngineUnavailableError,
    RejectedInputError,
)
from harness.plain_url import PLAIN_FORM, is_plain_url
from harness.registry.parameters import ParameterValue
from harness.remote import credentials
from harness.remote.credentials import basic_login, hide, read_key

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 10.0
_OF_THE_SERVER = 500
_HIDDEN = "***"
T = TypeVar("T")


class Cause(Enum):
    """The reason why a call failed. The value follows the server's name in messages; ``{engine}`` is its kind."""

    UNREACHABLE = "cannot be reached"
    UNTRUSTED = "has a certificate that this machine does not trust"
    UNENCRYPTED = "makes no encrypted connection"
    BROKEN = "broke the connection"
    SLOW = "gave no answer in time"
    LIMITED = "limits the rate of requests"
    BUSY = "is not ready"
    UNAUTHORISED = "refused the credentials"
    MISSING = "does not have the requested resource"
    CONFLICT = "has it already"
    REFUSED = "refused the request"
    FAILED = "reported an internal error"
    UNREADABLE = "sent an answer that is not {engine}'s"
    CLIENT = "sent no answer, because its client failed"


class AddressRules(NamedTuple):
    """Names of the servers of one engine: environment variables, port, and words for their faults.

    ``engine`` is its usual name; ``url_variable`` and ``key_variable`` are environment variables, the second a default
    that the parameter ``api_key_env`` may replace. ``batch`` names in quotes the parameters that make calls smaller;
    ``remedies`` replace the general remedies. ``doctor_option`` is the option of ``harness doctor`` that takes an
    address, "" for an engine whose address comes only from the variable.
    """

    engine: str
    port: int
    url_variable: str
    key_variable: str
    batch: str = "'batch_size'"
    remedies: Mapping[Cause, str] = {}
    doctor_option: str = ""


@dataclass(frozen=True, slots=True)
class Address:
    """A server: ``url`` without user-info, safe to show, and separate secrets.

    ``key_variable`` names the environment variable for an API key; ``headers`` hold a user name and a password;
    ``secrets`` are texts that must not be shown. ``batch`` and the following fields come from its
    :class:`AddressRules`.
    """

    engine: str
    url: str
    port: int
    key_variable: str
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    batch: str = field(default="'batch_size'", repr=False)
    remedies: Mapping[Cause, str] = field(default_factory=dict, repr=False)
    doctor_option: str = field(default="", repr=False)

    @property
    def authentication(self) -> str:
        """Return a description of the credentials that are sent."""
        used = (["API key"] if self.api_key else []) + (["user name and password"] if self.headers else [])
        plainly = ", not encrypted" if used and self.url.startswith("http:") else ""
        return (" and ".join(used) or "none") + plainly

    def hide(self, text: str) -> str:
        """Return ``text`` without secrets in any form that :func:`hide` knows: a server may repeat them."""
        return hide(text, self.secrets, _HIDDEN)


def read_address(server: AddressRules, url: str, key_variable: str, environment: Mapping[str, str]) -> Address:
    """Read an address from the parameter ``url``, or from the environment if that is empty.

    A user name and a password are taken only from the environment. Raises RejectedInputError for an invalid URL or a
    URL that contains secrets, EngineUnavailableError if a requested variable is not set or holds a key that cannot be
    sent.
    """
    url_text = url or environment.get(server.url_variable, "")
    if not url_text:
        raise EngineUnavailableError(
            f"no {server.engine} server is named",
            fix=f"give url=http://HOST:{server.port}, or set {server.url_variable}",
        )
    if url and not is_plain_url(url):
        raise RejectedInputError(
            f"the URL of the {server.engine} server is not of the form {PLAIN_FORM}",
            fix=f"correct it; a user name and a password can be set in {server.url_variable} only, an API key in "
            f"{server.key_variable}",
        )
    try:
        parts = urlsplit(url_text)
        usable = parts.port != 0 and is_plain_url(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])))
    except ValueError:  # a port that is not a number, brackets that do not match
        usable = False
    if not usable:  # the message does not repeat it: it may contain a password
        raise RejectedInputError(
            f"the URL of the {server.engine} server is not of the form http(s)://[USER:PASSWORD@]HOST[:PORT][/PATH]",
            fix=f"mend the parameter 'url' or the variable {server.url_variable}, in which / ? # @ of a password are "
            f"written %2F %3F %23 %40; an API key goes into {server.key_variable}",
        )
    key = read_key(key_variable, environment)
    if key_variable not in environment and key_variable != server.key_variable:
        raise EngineUnavailableError(
            f"the environment variable {key_variable} is not set (api_key_env)",
            fix="set it to the API key, or leave api_key_env out",
        )
    user, password, headers, secrets = unquote(parts.username or ""), unquote(parts.password or ""), {}, [key]
    if user or password:
        token = basic_login(user, password)
        headers, secrets = {"authorization": f"Basic {token}"}, [token, password, key]
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or server.port
    return Address(
        engine=server.engine,
        url=urlunsplit((parts.scheme, f"{host}:{port}", parts.path.rstrip("/"), "", "")),
        port=port,
        key_variable=key_variable,
        api_key=key or None,
        headers=headers,
        secrets=tuple(secret for secret in secrets if secret),
        batch=server.batch,
        remedies=server.remedies,
        doctor_option=server.doctor_option,
    )


_REMEDIES = {
    Cause.UNREACHABLE: "start it, or correct 'url'",
    Cause.UNTRUSTED: "name a PEM file with the certificate that signed it in the environment variable SSL_CERT_FILE",
    Cause.UNENCRYPTED: "write http:// in 'url' if the server does not encrypt; otherwise see the message",
    Cause.BROKEN: "look into the server's log: it may have been restarted, or killed for memory",
    Cause.SLOW: "raise 'timeout_s' or 'retry_s', or send less at once: lower {batch}",
    Cause.LIMITED: "lower {batch}, raise 'retry_s', or lift the server's limit",
    Cause.BUSY: "wait until the server is ready and run again, or raise 'retry_s'",
    Cause.MISSING: "another client removed it, or 'url' names another server: check, and run again",
    Cause.CONFLICT: "run again",
    Cause.REFUSED: "if the message does not say what to change, report it with this message",
    Cause.FAILED: "see the log of the server, or of a proxy in front of it",
    Cause.CLIENT: "this is an error of the engine's class or of its client library, not of the server: report it",
    Cause.UNREADABLE: "check that 'url' names {engine} and that no proxy changes its answers",
}
_TRY_HTTPS = "write https:// in 'url' if the server encrypts; if it does not, look into its log"
_OF_ANOTHER_SERVICE = frozenset({Cause.MISSING, Cause.REFUSED, Cause.UNREADABLE})
"""Faults that the expected server never returns when its version is requested."""
_PASSING = frozenset({Cause.UNREACHABLE, Cause.BROKEN, Cause.SLOW, Cause.LIMITED, Cause.BUSY})
_BY_STATUS = {401: Cause.UNAUTHORISED, 403: Cause.UNAUTHORISED, 404: Cause.MISSING, 409: Cause.CONFLICT}
_BY_STATUS |= {408: Cause.SLOW, 429: Cause.LIMITED, 502: Cause.BUSY, 503: Cause.BUSY, 504: Cause.SLOW}
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
_OF_MESSAGES = {"Exception serializing request": Cause.CLIENT, "Exception deserializing": Cause.UNREADABLE}
"""Prefixes of gRPC's errors for messages that it cannot write or read, both with the code of a server's failure."""
_FAILURES = frozenset({Cause.MISSING, Cause.CONFLICT, Cause.REFUSED, Cause.FAILED, Cause.UNREADABLE, Cause.CLIENT})


_this_thread = threading.local()


def note_answer(answer: object) -> None:
    """Record the answer to this thread's current call; None when a call begins."""
    _this_thread.answer = answer


def last_answer() -> Any | None:
    """Return the answer to this thread's current call; None until it arrives."""
    return getattr(_this_thread, "answer", None)


def cause_of_misreading() -> Cause:
    """Return the cause of an error in the client's code: the answer, if any, or else the client."""
    return Cause.CLIENT if last_answer() is None else Cause.UNREADABLE


def cause_of_status(status: int) -> Cause:
    """Return the cause for an HTTP status above 399."""
    return _BY_STATUS.get(status, Cause.FAILED if status >= _OF_THE_SERVER else Cause.REFUSED)


class Fault(NamedTuple):
    """A failed call: its cause, the server's words (see :func:`redact`), and the pause that the server requests."""

    cause: Cause
    text: str
    pause_s: float | None = None


def grpc_fault(error: Any) -> Fault:
    """Return the fault of gRPC's ``RpcError``; some have neither a status nor details."""
    code = error.code().name if hasattr(error, "code") else "UNKNOWN"
    details = str(error.details() if hasattr(error, "details") else error)
    of_messages = next((cause for words, cause in _OF_MESSAGES.items() if details.startswith(words)), None)
    return Fault(of_messages or _BY_CODE.get(code, Cause.REFUSED), f"gRPC {code}: {details}")


class FaultError(Exception):
    """A call that failed for good, after ``tries`` in ``seconds``; never leaves the engine."""

    def __init__(self, fault: Fault, tries: int, seconds: float) -> None:
        self.fault, self.tries, self.seconds = fault, tries, seconds
        super().__init__(fault.text)


def redact(text: str, address: Address | None) -> str:
    """Return a server's words without secrets, on one line, cut: in this order, so that no part of a secret stays."""
    return credentials.excerpt(text, str if address is None else address.hide)


class Retrier(ABC):
    """Calls that are repeated while the fault may be transient, until ``limit_s`` seconds after the first try.

    Pauses double from 0.2 s to 10 s, each drawn between half and all of that, so that several clients do not return
    together; a pause that the server requests is observed. ``repeated`` counts the repeated calls. Several threads may
    share an instance; :meth:`give_up` ends their waits.
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
        """Return the exceptions that a call of the client can raise."""

    @abstractmethod
    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of a client error; see :func:`cause_of_misreading`."""

    def give_up(self) -> None:
        """Let every waiting call fail now, and every later call after its first try."""
        self._ended.set()

    def call(self, operation: Callable[[], T]) -> T:
        """Return the result of ``operation``; raises FaultError. A limit of 0 tries once."""
        started, tries = self._clock(), 0
        errors = self.errors()
        while True:
            tries += 1
            note_answer(None)
            try:
                return operation()
            except errors as error:
                fault = self.fault_of(error)
                waited = self._clock() - started
                drawn = min(_FIRST_PAUSE_S * 2 ** (tries - 1), _LONGEST_PAUSE_S) * (0.5 + self._draw() / 2)
                pause = max(drawn, fault.pause_s or 0.0)
                if fault.cause not in _PASSING or waited + pause > self._limit_s or self._ended.is_set():
                    raise FaultError(fault, tries, waited) from error
            with self._counting:
                self.repeated += 1
            self._sleep(pause)

    def ask(self, address: Address, doing: str, operation: Callable[[], T]) -> T:
        """Return the result of ``operation``; raises as :func:`server_errors`."""
        with server_errors(address, lambda: doing):
            return self.call(operation)

    def identify(self, address: Address, operation: Callable[[], T], doing: str = "asking for its version") -> T:
        """Return the result of the first call to a server, which identifies it.

        Raises as :meth:`ask`, and EngineUnavailableError if another service answers.
        """
        first = address
        if address.url.startswith("http:"):
            first = replace(address, remedies={**address.remedies, Cause.BROKEN: _TRY_HTTPS})
        with server_errors(first, lambda: doing):
            try:
                return self.call(operation)
            except FaultError as error:
                if error.fault.cause not in _OF_ANOTHER_SERVICE:
                    raise
                raise EngineUnavailableError(
                    f"the server at {address.url} is not {address.engine} ({redact(error.fault.text, address)})",
                    fix={**_REMEDIES, **address.remedies}[Cause.UNREADABLE].format(engine=address.engine),
                ) from error


@contextmanager
def server_errors(address: Address, doing: Callable[[], str]) -> Iterator[None]:
    """Turn a FaultError into an error of the harness that names the server, the activity, and a remedy.

    Raises EngineUnavailableError, EngineTimeoutError and EngineFailureError.
    """
    try:
        yield
    except FaultError as error:
        fault = error.fault
        again = f", {error.tries} tries in {error.seconds:.0f} s" if error.tries > 1 else ""
        happened = fault.cause.value.format(engine=address.engine)
        kind: type[BackendError] = EngineFailureError if fault.cause in _FAILURES else EngineUnavailableError
        remedies = {**_REMEDIES, **address.remedies}
        if fault.cause in remedies:
            fix = remedies[fault.cause].format(engine=address.engine, batch=address.batch)
        else:  # the credentials, an API key or HTTP's, are refused
            variable, sent = address.key_variable, f"the request ({address.authentication}) was not accepted"
            missing = f"put the API key into the environment variable {variable}, or name another with api_key_env"
            fix = f"{sent}: check {variable}, and its rights" if address.secrets else missing
        raise (EngineTimeoutError if fault.cause is Cause.SLOW else kind)(
            f"{address.engine} at {address.url} {happened} while {doing()} ({redact(fault.text, address)}{again})",
            fix=fix,
        ) from error


class ServerClient:
    """A client of the server at ``address``, whose calls ``retrier`` repeats."""

    address: Address
    retrier: Retrier

    @property
    def repeated(self) -> int:
        """Calls that were made again so far, because the first answer was an error that may pass."""
        return self.retrier.repeated

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to make calls that raise FaultError."""
        return server_errors(self.address, doing)


class ServerConnection(ServerClient, ABC):
    """A server that answered, with all its collections, the harness's and other programs'.

    Attributes:
        version: Version of the server.
        doubt: Remark on the version; "" without a remark.
        kind: Server's own word for a collection; ``kinds`` is its plural.
    """

    version: str
    doubt: str = ""
    kind: ClassVar[str] = "collection"
    kinds: ClassVar[str] = "collections"

    @property
    def description(self) -> str:
        """Return the address, the engine and its version."""
        return f"{self.address.url}, {self.address.engine} {self.version}"

    @abstractmethod
    def list_names(self) -> Iterable[str]:
        """Return the names of all collections; raises the client's errors."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a collection by one call; raises the client's errors."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def all_collections(self) -> list[str]:
        """Return the names of all collections; raises BackendError."""
        return self.retrier.ask(self.address, f"listing its {self.kinds}", lambda: list(self.list_names()))

    def remove_collection(self, name: str) -> None:
        """Remove a collection; raises BackendError."""
        self.retrier.ask(self.address, f"removing the {self.kind} '{name}'", lambda: self.remove(name))


class ServerKind(NamedTuple):
    """Servers that an engine runs on: their names, and the function that connects to a server.

    ``connect`` takes all parameters of a backend; an empty ``url`` means the environment variable that
    ``address_rules`` names. It raises BackendError if nothing answers, or another service does.
    """

    address_rules: AddressRules
    connect: Callable[[Mapping[str, ParameterValue]], ServerConnection]
