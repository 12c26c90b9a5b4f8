"""Calls of a JSON endpoint that may cost money: counted, limited, repeated with patience, the key never shown."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Lock
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from harness.errors import EngineUnavailableError, UsageError
from harness.plain_url import PLAIN_FORM, is_plain_url, uses_tls
from harness.remote.credentials import basic_login, excerpt, hide, read_key
from harness.wording import counted

Answer = TypeVar("Answer")
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Answers that may be others a moment later."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
_TRIES = 3
"""Requests made for an unusable answer: the same question rarely gets another answer. Also attempts to reach a
server that has never answered: most often nothing listens there."""
_HIDDEN = "(key)"
_LONG_SECRET = 8
_OF_PASSING = "start the server, or give it more time; cached answers are not requested again"
_OF_ANOTHER_KIND = "check its answers: the endpoint must speak OpenAI's API, for this model"


@dataclass(frozen=True, slots=True)
class Limits:
    """``timeout_s`` for one call, ``retry_s`` from its first failure until it is given up.

    ``per_minute`` and ``max_calls`` count calls, including repeated ones; 0 calls per minute set no limit;
    ``max_calls`` None sets no limit either, and 0 allows no call.
    """

    timeout_s: float = 60.0
    retry_s: float = 120.0
    per_minute: float = 0.0
    max_calls: int | None = None


def allowed_calls(max_calls: float | str) -> int | None:
    """Return a parameter ``max_calls`` as :class:`Limits` takes it: -1 sets no limit."""
    return None if int(max_calls) < 0 else int(max_calls)


def calls_in_words(facts: Mapping[str, float | str | None]) -> str:
    """Return a sentence with the ``calls`` of an ``endpoint``, the repeated ones, and the ``calls_before`` if known.

    Search units are those that the service bills.
    """
    repeated = f" ({facts['repeated_calls']:,} of them repeated)" if facts["repeated_calls"] else ""
    calls, units = int(facts["calls"] or 0), int(facts.get("search_units") or 0)
    made = f"{counted(calls, 'call')} of '{facts['endpoint']}' {'was' if calls == 1 else 'were'} made now{repeated}"
    if units:
        made += f", for {counted(units, 'search unit')}"
    if facts.get("calls_before") is None:
        tokens = int(facts.get("tokens") or 0)
        return f"{made}, for {counted(tokens, 'token')}" if tokens else made
    cached = int(facts["calls_before"] or 0)
    return f"{made}; {counted(cached, 'answer')} {'was' if cached == 1 else 'were'} in the cache"


def calls_refused(url: str, calls: int, reason: str) -> EngineUnavailableError:
    """Return the error if ``--max-calls 0`` meets missing cache entries; this many ``calls`` would bring them."""
    return EngineUnavailableError(
        f"the cache lacks {reason}: that takes {counted(calls, 'call')} of '{url}', and --max-calls 0 allows none",
        fix=f"allow them with --max-calls {calls}, or leave it out",
    )


class _Fault(NamedTuple):
    """A call that failed and may be repeated, after the pause that the server requested.

    ``unusable`` was answered; without ``connected`` no server was reached.
    """

    text: str
    pause_s: float | None = None
    unusable: bool = False
    connected: bool = True


class RemoteCalls:
    """A client of the endpoint ``url``, for several threads. Use it as a context manager, or call :meth:`close`.

    ``calls`` counts the requests that were sent, ``repeated`` those among them that repeat another.
    """

    def __init__(
        self,
        url: str,
        *,
        key_env: str,
        limits: Limits,
        key_header: str = "Authorization",
        login: tuple[str, str] | None = None,
        secrets: Sequence[str] = (),
        fixed_values: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Take the key from the environment variable ``key_env``, if set.

        It is sent as a bearer token, or unchanged in another ``key_header``. ``login`` is a user name and a password.
        Messages show neither these nor ``secrets`` and ``fixed_values``; :meth:`hide` removes secrets only.

        Raises UsageError for a URL that holds more than an address, and EngineUnavailableError for a key that cannot be
        sent.
        """
        if not is_plain_url(url):
            raise UsageError(
                f"the endpoint is not of the form {PLAIN_FORM}", fix=f"a key goes into the environment: {key_env}"
            )
        import httpx

        key = read_key(key_env, os.environ)
        self._url, self._key_env, self._limits = url.rstrip("/"), key_env, limits
        self._clock, self._sleep = clock, sleep
        bearer = key_header.lower() == "authorization"
        headers = {key_header: f"Bearer {key}" if bearer else key} if key else {}
        self._secrets = [key, *((basic_login(*login), login[1]) if login else ()), *secrets]
        self._in_messages = [*self._secrets, *(login or ()), *fixed_values]
        self._client = httpx.Client(timeout=limits.timeout_s, headers=headers, auth=login, verify=uses_tls(url))
        self._next_call = 0.0
        self._turn = Lock()
        self._connected = False
        self.calls = self.repeated = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def post(
        self, path: str, body: dict[str, Any], read: Callable[[Any], Answer], *, remedy: str = _OF_ANOTHER_KIND
    ) -> Answer:
        """Post ``body`` and return the value that ``read`` makes of the answer, as :meth:`request`."""
        return self.request("POST", path, body, read, remedy=remedy)

    def request(
        self,
        method: str,
        path: str,
        body: Any,
        read: Callable[[Any], Answer],
        *,
        remedy: str = _OF_ANOTHER_KIND,
    ) -> Answer:
        """Return the value that ``read`` makes of the JSON answer; ``read`` raises ValueError for an invalid answer.

        ``path`` follows the URL and may have a query; ``body`` is JSON, None without a body.

        Temporary failures (a busy or failing server, a broken connection) are waited for: as long as the server says in
        ``Retry-After``, at least half a second, else twice as long each time, for ``retry_s`` from the first failure.
        An unusable answer is requested three times in all within that time; ``remedy`` says how to fix it. A server
        that has never accepted a connection is tried equally often. Raises EngineUnavailableError when the failure does
        not pass, for every other refusal, and when no more calls are allowed.
        """
        failed_after: float | None = None
        wait, unusable, tries = _FIRST_WAIT_S, 0, 0
        while True:
            answer = self._try(method, path, body, read)
            if not isinstance(answer, _Fault):
                self._connected = True
                return answer
            if failed_after is None:
                failed_after = self._clock() + self._limits.retry_s
            unusable += answer.unusable
            tries += 1
            pause = wait if answer.pause_s is None else max(answer.pause_s, _FIRST_WAIT_S)
            self._connected |= answer.connected
            hopeless = unusable == _TRIES or (tries == _TRIES and not self._connected)
            if hopeless or self._clock() + pause > failed_after:
                raise EngineUnavailableError(
                    f"the endpoint '{self._url}' {self._safe(answer.text)}; asked {counted(tries, 'time')}",
                    fix=remedy if answer.unusable else _OF_PASSING,
                    connected=answer.connected,
                )
            self._sleep(pause)
            with self._turn:
                self.repeated += 1
            wait = min(2 * wait, _LONGEST_WAIT_S)

    def _try(self, method: str, path: str, body: Any, read: Callable[[Any], Answer]) -> Answer | _Fault:
        """Return the value that ``read`` makes of the answer, or a failure that may pass; raises lasting failures."""
        import httpx

        self._take_turn()
        try:
            answer = self._client.request(method, f"{self._url}{path}", json=body)
        except httpx.TransportError as error:
            connected = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
            return _Fault(f"cannot be reached: {type(error).__name__}: {error}", connected=connected)
        except httpx.DecodingError as error:
            return _Fault(f"answered with what cannot be decompressed: {error}", unusable=True)
        if answer.status_code in _PASSING:
            return _Fault(f"answered {answer.status_code}: {answer.text}", _retry_after(answer.headers))
        if answer.status_code != 200:
            raise self._refused(answer.status_code, answer.text)
        try:
            content = answer.json()
        except (ValueError, RecursionError):
            return _Fault(f"answered with invalid JSON, or JSON nested too deeply: {answer.text!r}", unusable=True)
        try:
            return read(content)
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            return _Fault(f"sent an unusable answer: {error}", unusable=True)

    def _take_turn(self) -> None:
        """Wait until the next call may be made, and count it; raises EngineUnavailableError if no call is left."""
        with self._turn:
            pause = self._book_call()
        if pause > 0.0:
            self._sleep(pause)

    def _book_call(self) -> float:
        """Count a call, and return the seconds until it may be made."""
        if self._limits.max_calls is not None and self.calls >= self._limits.max_calls:
            made = (
                f"{self.calls} calls of '{self._url}' were made" if self.calls else f"no call of '{self._url}' was made"
            )
            raise EngineUnavailableError(
                f"{made}, and --max-calls allows {'no more' if self.calls else 'none'}",
                fix="allow more; finished work is kept, and the next run continues there",
            )
        now = self._clock()
        pause = self._next_call - now
        if self._limits.per_minute:
            self._next_call = max(now, self._next_call) + 60.0 / self._limits.per_minute
        self.calls += 1
        return pause

    def _refused(self, status: int, text: str) -> EngineUnavailableError:
        if status in (401, 403):
            source = f"the environment variable {self._key_env}" if self._key_env else "a variable that key_env= names"
            fix = f"put a key that it accepts into {source}"
        else:
            fix = "look at its answer: the path of the endpoint, the name of the model, or a text that is too long"
        return EngineUnavailableError(
            f"the endpoint '{self._url}' refused a call with {status}: {self._safe(text)}", fix=fix, status=status
        )

    def hide(self, text: str) -> str:
        """Return a text of the server's without the key, the password and tokens of 8 or more characters in it.

        Shorter texts are left: words of documents may be the same by chance.
        """
        return hide(text, [secret for secret in self._secrets if len(secret) >= _LONG_SECRET], _HIDDEN)

    def _safe(self, text: str) -> str:
        return excerpt(text, lambda text_before: hide(text_before, self._in_messages, _HIDDEN))


def _retry_after(headers: Any) -> float | None:
    """Return the seconds to wait that the server requests, as a number or a date; None if it does not say."""
    header = headers.get("Retry-After")
    if header is None:
        return None
    if header.isascii() and header.strip().isdigit():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=dt.UTC)
    return max(0.0, (until - dt.datetime.now(dt.UTC)).total_seconds())
