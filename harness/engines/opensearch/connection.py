"""The way to a server: its product and version, calls of its REST interface, and the meaning of its errors."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import orjson

from harness.engines import remote_server
from harness.engines.remote_server import (
    Address,
    Cause,
    Fault,
    FaultError,
    Place,
    cause_of_status,
    read_address,
    to_backend_error,
)
from harness.errors import EngineUnavailableError

__all__ = ["ELASTICSEARCH", "OPENSEARCH", "Connection", "Product", "Retrier", "connect", "server_errors"]

_JSON = {"content-type": "application/json"}
_LINES = {"content-type": "application/x-ndjson"}
_ENCODING = "gzip"
"""The only one that is offered: OpenSearch 2.19 without direct buffers never answers a client that offers zstd."""
_ERROR_STATUS = 400
_REMEDIES = {
    Cause.UNREACHABLE: "start it, or mend 'url'",
    Cause.BROKEN: "look into the server's log: it may have been restarted, or killed for memory",
    Cause.SLOW: "raise 'timeout_s' or 'retry_s', or send less at once: lower 'batch_size'",
    Cause.LIMITED: "lower 'batch_size', raise 'retry_s', or give the server more memory",
    Cause.BUSY: "wait until the server is ready and run again, or raise 'retry_s'",
    Cause.MISSING: "somebody else removed it, or 'url' names another server: look, and run again",
    Cause.CONFLICT: "run again",
    Cause.REFUSED: "if the message does not say what to change, report it with this message",
    Cause.FAILED: "the server's log, or that of a proxy before it, says more",
    Cause.UNREADABLE: "check that 'url' names such a server and that no proxy changes its answers",
}


class Product(NamedTuple):
    """A server by its name: where it is looked for, the versions that are known, and how a key is sent.

    ``legacy_from`` is the first major version that has Lucene's older similarity under a name of its own, None for a
    product whose BM25 is always that one.
    """

    name: str
    place: Place
    majors: range
    scheme: str
    legacy_from: int | None


OPENSEARCH = Product(
    "OpenSearch", Place("OpenSearch", 9200, "HARNESS_OPENSEARCH_URL", "OPENSEARCH_API_KEY"), range(1, 4), "Bearer", 3
)
ELASTICSEARCH = Product(
    "Elasticsearch",
    Place("Elasticsearch", 9200, "HARNESS_ELASTICSEARCH_URL", "ELASTICSEARCH_API_KEY"),
    range(7, 10),
    "ApiKey",
    None,
)


class Connection:
    """An HTTP client of a server that answered; several threads may use it."""

    def __init__(self, client: httpx.Client, product: Product, address: Address, version: str) -> None:
        self.product, self.address, self.version = product, address, version
        self._client = client

    @property
    def major(self) -> int:
        """Return the server's major version."""
        return int(self.version.partition(".")[0])

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        lines: bytes | None = None,
        timeout_s: float | None = None,
        options: Mapping[str, str | int] | None = None,
    ) -> Any:  # noqa: ANN401 - decoded JSON
        """Make one call and return its decoded answer.

        Args:
            method: Of HTTP.
            path: Below the server's address.
            body: Sent as JSON; None for none.
            lines: Sent as it is, one JSON document a line, instead of ``body``.
            timeout_s: Seconds that this call may take, where that is not those of every call.
            options: Of the call, as the URL's query.
        """
        content = lines if lines is not None else None if body is None else orjson.dumps(body)
        return orjson.loads(
            self.send(method, path, content, _LINES if lines is not None else _JSON, timeout_s, options)
        )

    def send(
        self,
        method: str,
        path: str,
        content: bytes | None,
        headers: Mapping[str, str] = _JSON,
        timeout_s: float | None = None,
        options: Mapping[str, str | int] | None = None,
    ) -> bytes:
        """Make one call and return its answer as bytes; raises what :class:`Retrier` knows."""
        request = self._client.build_request(
            method,
            path,
            content=content,
            headers=headers if content is not None else None,
            params=options,
            timeout=httpx.USE_CLIENT_DEFAULT if timeout_s is None else timeout_s,
        )
        answer = self._client.send(request)
        if answer.status_code >= _ERROR_STATUS:
            raise httpx.HTTPStatusError("refused", request=request, response=answer)
        return answer.content

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def connect(
    product: Product, url: str, key_variable: str, timeout_s: float, environment: Mapping[str, str] = os.environ
) -> Connection:
    """Return a connection with the server at ``url``, or where the product's environment variable says.

    Raises:
        EngineUnavailableError: Nothing answers, or it is another product or a version that is not known.
        RejectedInputError: The address holds what must not be shown.
        EngineTimeoutError, EngineFailureError: Other faults.
    """
    address = read_address(product.place, url, key_variable, environment)
    headers = {"accept-encoding": _ENCODING, **address.headers}
    if address.api_key is not None:
        headers["authorization"] = f"{product.scheme} {address.api_key}"
    client = httpx.Client(base_url=address.url, headers=headers, timeout=timeout_s)
    connection = Connection(client, product, address, "")
    try:
        with server_errors(address, lambda: "asking for its version"):
            root = Retrier(0).call(lambda: connection.call("GET", "/"))
        connection.version = _version_of(root, product, address)
    except BaseException:
        connection.close()
        raise
    return connection


def _version_of(root: Any, product: Product, address: Address) -> str:  # noqa: ANN401 - decoded JSON
    """Return the version that a server names; raises EngineUnavailableError for another product or version."""
    version = root.get("version") if isinstance(root, dict) else None
    number = str(version.get("number", "")) if isinstance(version, dict) else ""
    numbers = re.match(r"(\d+)\.\d+", number)
    if not isinstance(version, dict) or numbers is None:
        raise EngineUnavailableError(f"what answers at {address.url} is not {product.name}", fix="mend 'url'")
    answering = OPENSEARCH if version.get("distribution") == "opensearch" else ELASTICSEARCH
    if answering is not product:
        raise EngineUnavailableError(
            f"what answers at {address.url} is {answering.name} {number}", fix=f"name it {answering.name.lower()}:url=…"
        )
    if int(numbers[1]) not in product.majors:
        known = f"{product.majors[0]} to {product.majors[-1]}"
        raise EngineUnavailableError(
            f"{product.name} {number} at {address.url} is not known here", fix=f"run a version {known}"
        )
    return number


class Retrier(remote_server.Retrier):
    """Calls that are repeated while the fault may pass: see :class:`harness.engines.remote_server.Retrier`."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the errors of a call: of HTTP, of answers without JSON or of another form, and of rejected items."""
        return (httpx.HTTPError, orjson.JSONDecodeError, KeyError, TypeError, RejectedItemsError)

    def fault_of(self, error: Exception) -> Fault:
        """Say what an error of a call means."""
        if isinstance(error, RejectedItemsError):
            return Fault(Cause.LIMITED, str(error))
        if isinstance(error, httpx.ConnectError):
            return Fault(Cause.UNREACHABLE, str(error))
        if isinstance(error, httpx.TimeoutException):
            return Fault(Cause.SLOW, type(error).__name__)
        if isinstance(error, httpx.HTTPStatusError):
            return _of_answer(error.response)
        if isinstance(error, httpx.TransportError):
            return Fault(Cause.BROKEN, str(error) or type(error).__name__)
        return Fault(Cause.UNREADABLE, f"{type(error).__name__}: {error}")


class RejectedItemsError(Exception):
    """Documents of a bulk request that the server was too busy for: sent again, they may pass."""


def _of_answer(answer: httpx.Response) -> Fault:
    text = f"{answer.status_code} {answer.reason_phrase}: {_message_of(answer).strip() or 'without a message'}"
    pause = answer.headers.get("retry-after", "")  # a date is not kept to
    return Fault(cause_of_status(answer.status_code), text, float(pause) if pause.isdecimal() else None)


def _message_of(answer: httpx.Response) -> str:
    """Return the server's own reason where there is one, the innermost first, else the body's beginning."""
    try:
        error = orjson.loads(answer.content)["error"]
        reasons = [cause["reason"] for cause in [*error.get("root_cause", []), error] if cause.get("reason")]
        inner = error.get("failed_shards") or []
        reasons += [shard["reason"]["caused_by"]["reason"] for shard in inner if "caused_by" in shard["reason"]]
        return "; ".join(dict.fromkeys(map(str, reasons))) or str(error)
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
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
