"""Connections with Chroma: its client, the address of a server, the meaning of errors, and repeated calls."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

import orjson

from harness.engines import remote_server
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.http_server import status_fault, transport_fault
from harness.engines.remote_server import (
    Address,
    AddressRules,
    Cause,
    Fault,
    ServerConnection,
    last_answer,
    note_answer,
    read_address,
    server_errors,
)
from harness.engines.server_collection import within
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.plain_url import uses_tls
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

PACKAGE = "chromadb"
URL_VARIABLE = "HARNESS_CHROMA_URL"
ADDRESS_RULES = AddressRules(
    *("Chroma", 8000, URL_VARIABLE, "CHROMA_API_KEY", "'upsert_batch'"),
    {
        Cause.UNREACHABLE: "start it (chroma run --port 8000), or correct 'url'; 'harness doctor' reports which "
        "servers answer",
        Cause.MISSING: "another client removed it, or 'url', 'tenant' or 'database' names another one: check, and "
        "run again",
    },
    "--chroma-url",
)
_MAJOR = 1
_PAGE = 100
_SILENT = (
    "Chroma's server calls itself 1.0.0 in every release that was looked at (1.5.9 is the newest of them): "
    "look at the package or image for its real version"
)
_ERROR_STATUS = 400
_MALFORMED = (ValueError, TypeError, KeyError, IndexError, AttributeError)
"""Errors of the client for an answer of unexpected shape."""


@dataclass(frozen=True)
class Connection(ServerConnection):
    """A client of a server that answered; ``note`` is a remark on its version, or ''."""

    address: Address
    retrier: Retrier
    client: Any
    version: str
    note: str

    def list_names(self) -> Iterator[str]:
        """Yield the names of all collections, read page by page."""
        count = 0
        while page := self.client.list_collections(_PAGE, count):
            yield from (str(collection.name) for collection in page)
            count += len(page)

    def remove(self, name: str) -> None:
        """Remove a collection."""
        self.client.delete_collection(name)

    def close(self) -> None:
        """Close the client and all its connections."""
        close_http_client(self.client)


def address_of(parameters: ChromaParameters, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the server that ``parameters`` name, or ``HARNESS_CHROMA_URL``; raises as :func:`read_address`."""
    return read_address(ADDRESS_RULES, parameters.url, parameters.api_key_env, environment)


def open_server(parameters: Mapping[str, ParameterValue]) -> Connection:
    """Return a client of the server that a backend's parameters name; raises as :func:`connect`."""
    settings = ChromaParameters.of(parameters)
    return connect(address_of(settings), settings)


def persistent_client(folder: Path, database: str) -> Any:
    """Return a client of Chroma's embedded engine on ``folder``."""
    settings = _settings(chroma_api_impl="chromadb.api.rust.RustBindingsAPI")
    return require_chroma().PersistentClient(path=str(folder), settings=settings, database=database)


def connect(address: Address, parameters: ChromaParameters) -> Connection:
    """Return a client of the server at ``address``, which records the answers.

    Every later call ends after ``timeout_s``; the client itself has no limit.

    Raises:
        EngineUnavailableError: Nothing answers, or the server is not Chroma of a known version.
        EngineTimeoutError, EngineFailureError: Other faults.
    """
    headers, httpx, once = _headers_of(address, parameters.api_key_header), require_chroma("httpx"), Retrier(0)
    base, limit, tls = f"{address.url}/api/v2", parameters.timeout_s, uses_tls(address.url)
    hooks = {"response": [note_answer]}
    with httpx.Client(base_url=base, headers=headers, timeout=limit, verify=tls, event_hooks=hooks) as asking:

        def get(path: str) -> Any:
            answer = asking.get(path)
            answer.raise_for_status()
            return answer.json()

        version = str(once.identify(address, lambda: get("/version")))
        note = _check_version(version, address)
        tenant, database = parameters.tenant, parameters.database
        tenant_path = f"/tenants/{quote(tenant)}/databases/{quote(database)}"
        once.ask(address, f"looking for the database '{database}' of '{tenant}'", lambda: get(tenant_path))
    with server_errors(address, lambda: "opening the client"):
        client = once.call(lambda: within(parameters.timeout_s, lambda: _http_client(address, headers, parameters)))
    session = http_session(client)
    session.timeout = httpx.Timeout(parameters.timeout_s)
    session.event_hooks = hooks
    return Connection(address, Retrier(parameters.retry_s), client, version, note)


def http_session(client: Any) -> Any:
    """Return the ``httpx.Client`` of a client, which has no public access. It has no time limit."""
    return client._server._session  # noqa: SLF001


def close_http_client(client: Any) -> None:
    """Close the client and the connections that it would leave open: its own, and those for finding databases."""
    sessions = [http_session(owner) for owner in (client, client._admin_client)]  # noqa: SLF001 - no public way
    client.close()
    for session in sessions:
        session.close()


def _http_client(address: Address, headers: Mapping[str, str], parameters: ChromaParameters) -> Any:
    """Return a client of the server; sends it several requests without a time limit."""
    tls = uses_tls(address.url)
    return require_chroma().HttpClient(
        host=address.url,
        port=address.port,
        ssl=tls,
        headers=dict(headers),
        settings=_settings(
            chroma_server_host=None, chroma_server_http_port=None, chroma_server_ssl_verify=None if tls else False
        ),
        tenant=parameters.tenant,
        database=parameters.database,
    )


def _settings(**settings: Any) -> Any:
    """Return settings without telemetry, and without a ``.env`` file in the current folder."""
    return _read_settings(frozenset(os.environ.items()), **settings).model_copy()  # the client writes into them


@lru_cache(maxsize=8)
def _read_settings(_environment: frozenset[tuple[str, str]], **settings: Any) -> Any:
    """Make settings: looking them all up in the environment takes longer than opening a collection."""
    return require_chroma("chromadb.config").Settings(_env_file=None, anonymized_telemetry=False, **settings)


def _headers_of(address: Address, header: str) -> dict[str, str]:
    """Return the headers of every call; ``header`` carries the API key.

    Raises:
        RejectedInputError: A user name needs the header that was meant for the key.
    """
    headers = dict(address.headers)
    if address.api_key is None:
        return headers
    if header in headers:
        raise RejectedInputError(
            f"the user name in {URL_VARIABLE} and the key in {address.key_variable} both need the header '{header}'",
            fix="give only one of them, or api_key_header=x-chroma-token",
        )
    return {**headers, header: f"Bearer {address.api_key}" if header == "authorization" else address.api_key}


def _check_version(version: str, address: Address) -> str:
    """Return a remark on the version, or ''; raises EngineUnavailableError for a version that cannot work."""
    numbers = re.fullmatch(r"(\d+)\.\d+\.\d+\S*", version)
    if numbers is None:
        raise EngineUnavailableError(
            f"the server at {address.url} is not Chroma: it gives '{address.hide(version)[:60]}' for its version",
            fix="correct 'url'",
        )
    if int(numbers[1]) != _MAJOR:
        raise EngineUnavailableError(
            f"Chroma {version} at {address.url} and the client do not go together", fix="run a Chroma of version 1"
        )
    return _SILENT if version == "1.0.0" else ""


def require_chroma(module: str = PACKAGE) -> ModuleType:
    """Import a module of the client library; raises MissingExtraError."""
    return require(module, extra="chroma", feature="backend chroma")


class Retrier(remote_server.Retrier):
    """Calls of the client, repeated while the fault may pass: see :class:`harness.engines.remote_server.Retrier`.

    The client's errors do not contain the status, so its session records the answers.
    """

    def errors(self) -> tuple[type[Exception], ...]:
        """Return Exception: the client raises it for errors that do not have Chroma's form."""
        return (Exception,)

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of an error; raises it again if it is not the client's."""
        return fault_of(error, last_answer())


def fault_of(error: Exception, answer: Any = None) -> Fault:
    """Return the fault of a client error; ``answer`` is the last ``httpx.Response``, if any.

    Raises ``error`` again if it is not the client's.
    """
    chroma, httpx = require_chroma("chromadb.errors").ChromaError, require_chroma("httpx")
    cause: BaseException | None = error
    while cause is not None:
        if (fault := transport_fault(cause)) is not None:
            return fault
        if isinstance(cause, httpx.HTTPStatusError):
            answer = cause.response
        cause = cause.__cause__ or cause.__context__
    if type(error) is not Exception and not isinstance(error, (*_MALFORMED, chroma, httpx.HTTPError)):
        raise error
    if answer is None or answer.status_code < _ERROR_STATUS:
        misread = Cause.CLIENT if answer is None else Cause.UNREADABLE
        return Fault(misread, f"{type(error).__name__}: {error}")
    words = str(error)
    if isinstance(error, httpx.HTTPStatusError):
        try:
            words = str(orjson.loads(answer.content)["message"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            words = str(answer.text)
    return status_fault(answer, words)
