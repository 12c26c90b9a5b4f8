"""Servers with an HTTP interface: a client that sends JSON, the meaning of its errors, and repeated calls."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import httpx
import numpy as np
import orjson

from harness.engines.remote_server import (
    Cause,
    Fault,
    Retrier,
    cause_of_misreading,
    cause_of_status,
    note_answer,
)
from harness.plain_url import uses_tls

JSON = "application/json"


def as_json(body: object) -> bytes:
    """Encode ``body``, whose NumPy arrays may have any layout or be memory-mapped; raises TypeError."""
    return orjson.dumps(body, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)


def _plain(value: object) -> object:
    """Return an array that the encoder does not accept, such as a ``numpy.memmap``, as a plain contiguous array."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value.view(np.ndarray))
    raise TypeError(f"{type(value).__name__} has no JSON")


class HttpServer:
    """An HTTP client of one server; several threads may use it."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout_s: float) -> None:
        tls = uses_tls(url)
        hooks = {"response": [note_answer]}
        self._client = httpx.Client(
            base_url=url, headers=dict(headers), timeout=timeout_s, verify=tls, event_hooks=hooks
        )

    def send(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        kind: str = JSON,
        *,
        timeout_s: float | None = None,
        options: Mapping[str, str | int] | None = None,
    ) -> bytes:
        """Make one call and return its answer as bytes; raises the errors that :class:`HttpRetrier` translates.

        Args:
            method: ``GET``, ``POST`` …
            path: Path below the server's address.
            content: The body of the request.
            kind: The type of ``content``.
            timeout_s: Limit of this call in seconds; None for the client's limit.
            options: The URL's query.
        """
        answer = self._client.request(
            method,
            path,
            content=content,
            headers={"content-type": kind} if content is not None else None,
            params=options or None,
            timeout=httpx.USE_CLIENT_DEFAULT if timeout_s is None else timeout_s,
        )
        return answer.raise_for_status().content

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        timeout_s: float | None = None,
        options: Mapping[str, str | int] | None = None,
    ) -> Any:
        """Send ``body`` as JSON, or no body for None, and return the decoded answer, None if it is empty."""
        content = None if body is None else as_json(body)
        answer = self.send(method, path, content, timeout_s=timeout_s, options=options)
        return orjson.loads(answer) if answer else None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class HttpRetrier(Retrier):
    """Calls of an :class:`HttpServer`, repeated while the fault may be transient."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the errors of a call: HTTP errors, bodies that are not JSON, and answers of another form."""
        return httpx.HTTPError, orjson.JSONDecodeError, KeyError, TypeError, ValueError

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of a call's error."""
        if isinstance(error, httpx.HTTPStatusError):
            return status_fault(error.response, self.words_of(error.response))
        return transport_fault(error) or Fault(cause_of_misreading(), f"{type(error).__name__}: {error}")

    @abstractmethod
    def words_of(self, answer: httpx.Response) -> str:
        """Return the server's own message in a refusing answer, else the body's beginning."""


def status_fault(answer: httpx.Response, words: str) -> Fault:
    """Return the fault of an answer with a status above 399; ``words`` are the server's."""
    text = f"{answer.status_code} {answer.reason_phrase}: {words.strip() or 'without a message'}"
    pause = answer.headers.get("retry-after", "")  # a date is ignored
    return Fault(cause_of_status(answer.status_code), text, float(pause) if pause.isdecimal() else None)


def transport_fault(error: BaseException) -> Fault | None:
    """Return the fault of an HTTP error without an answer; None for another error."""
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol):
        return Fault(Cause.CLIENT, f"{type(error).__name__}: {error}")
    if isinstance(error, httpx.ConnectError):
        return Fault(_cause_of_connecting(str(error)), str(error))
    if isinstance(error, httpx.TimeoutException):
        return Fault(Cause.SLOW, type(error).__name__)
    if isinstance(error, httpx.TransportError):
        return Fault(Cause.BROKEN, str(error) or type(error).__name__)
    return None


def _cause_of_connecting(text: str) -> Cause:
    """Return why no connection was made, in the words of Python's module ``ssl``."""
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Cause.UNTRUSTED
    return Cause.UNENCRYPTED if "[SSL" in text else Cause.UNREACHABLE
