"""Connections with a Qdrant server: address, transport, versions, the meaning of errors, and repeated calls."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from traceback import walk_tb
from typing import Any

import orjson

from harness.engines import remote_server
from harness.engines.http_server import transport_fault
from harness.engines.qdrant.parameters import ServerSettings
from harness.engines.remote_server import (
    Address,
    AddressRules,
    Cause,
    Fault,
    FaultError,
    ServerConnection,
    cause_of_misreading,
    cause_of_status,
    grpc_fault,
    note_answer,
    read_address,
)
from harness.errors import EngineUnavailableError
from harness.plain_url import uses_tls
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

URL_VARIABLE = "HARNESS_QDRANT_URL"
ADDRESS_RULES = AddressRules(
    *("Qdrant", 6333, URL_VARIABLE, "QDRANT_API_KEY", "'batch_size' or 'upload_threads'"),
    {
        Cause.UNREACHABLE: "start it (docker run --publish 127.0.0.1:6333:6333 --publish 127.0.0.1:6334:6334 "
        "qdrant/qdrant:v1.19.1), or correct 'url'; 'harness doctor' reports which servers answer",
        Cause.MISSING: "another client removed the collection, or 'url' names another service: check, and run again",
        Cause.UNREADABLE: "check that 'url' names Qdrant's REST port and that no proxy changes its answers",
    },
    "--url",
)
_PROBE_S = 2
_OLDEST = (1, 10)
"""The first version with the IDF of sparse vectors and with the query API."""

_READS_GRPC = "GrpcToRest."
"""The client's class that reads answers over gRPC."""
_REPLICA = re.compile(r"\breplicas? (of|set for) shard\b", re.IGNORECASE)


@dataclass(frozen=True)
class Connection(ServerConnection):
    """A client of a server that answered: ``transport`` is grpc or rest."""

    address: Address
    retrier: Retrier
    client: Any
    version: str
    transport: str
    doubt: str

    @property
    def description(self) -> str:
        """Return the address, the version and the transport."""
        return f"{super().description} over {self.transport}"

    def list_names(self) -> list[str]:
        """Return the names of all collections."""
        return [str(collection.name) for collection in self.client.get_collections().collections]

    def remove(self, name: str) -> None:
        """Remove a collection."""
        self.client.delete_collection(name)

    def close(self) -> None:
        """Close the client."""
        self.client.close()


def address_of(settings: ServerSettings, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the server that ``settings`` name, or ``HARNESS_QDRANT_URL``; raises as :func:`read_address`."""
    return read_address(ADDRESS_RULES, settings.url, settings.api_key_env, environment)


def open_server(parameters: Mapping[str, ParameterValue]) -> Connection:
    """Return a client of the server that a backend's parameters name; raises as :func:`connect`."""
    settings = ServerSettings.of(parameters)
    return connect(address_of(settings), settings)


def connect(address: Address, settings: ServerSettings) -> Connection:
    """Return a client of the server at ``address``.

    ``transport=auto`` uses gRPC if it answers within two seconds, on the port after the REST port unless ``grpc_port``
    names another, else REST.

    Raises:
        EngineUnavailableError: Nothing answers, or another service does, or the versions of server and client are
            incompatible.
        EngineTimeoutError, EngineFailureError: It answers with another fault.
    """
    transport, location = "rest", ""
    if settings.transport == "grpc" or (settings.transport == "auto" and _answers_grpc(address, settings)):
        transport, location = "grpc", f" over gRPC, port {_grpc_port(address, settings)}"
    client = _client(address, settings, transport, settings.timeout_s)
    try:
        info = Retrier(0).identify(address, client.info, f"asking for its version{location}")
        if "qdrant" not in info.title.lower():
            raise EngineUnavailableError(
                f"the server at {address.url} is not Qdrant: it calls itself '{address.hide(info.title)[:60]}'",
                fix="correct 'url'",
            )
        doubt = check_versions(info.version, version("qdrant-client"))
        return Connection(address, Retrier(settings.retry_s), client, info.version, transport, doubt)
    except BaseException:
        client.close()
        raise


def _answers_grpc(address: Address, settings: ServerSettings) -> bool:
    client = _client(address, settings, "grpc", _PROBE_S)
    try:
        Retrier(0).call(client.info)
    except FaultError as error:
        return error.fault.cause is Cause.UNAUTHORISED  # it exists, and refuses
    finally:
        client.close()
    return True


def _client(address: Address, settings: ServerSettings, transport: str, timeout_s: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Api key is used with an insecure connection": the report also says so
        client = require_client().QdrantClient(
            url=address.url,
            api_key=address.api_key,
            headers=dict(address.headers),
            prefer_grpc=transport == "grpc",
            grpc_port=_grpc_port(address, settings),
            timeout=timeout_s,
            verify=uses_tls(address.url),
            check_compatibility=False,  # done here: before anything is sent, and as an error
        )
    client.http.client.add_middleware(_noted)
    return client


def _noted(request: Any, send: Callable[[Any], Any]) -> Any:
    """Send a request over REST, and record its answer."""
    answer = send(request)
    note_answer(answer)
    return answer


def _grpc_port(address: Address, settings: ServerSettings) -> int:
    return settings.grpc_port or address.port + 1


def check_versions(server: str, client: str) -> str:
    """Return a remark if the versions are further apart than the client documents, '' if they are compatible.

    The client is made for servers of its own major version, at most one minor version away. Raises
    EngineUnavailableError for another major version, for a server without a needed feature, and without a version.
    """
    of_server, of_client = _parsed(server), _parsed(client)
    if of_server is None or of_client is None:
        raise EngineUnavailableError(
            f"the server's version is '{server[:60]}', which is not a version of Qdrant",
            fix="check that 'url' names Qdrant itself",
        )
    major, minor = of_client
    if of_server[0] != major or of_server < _OLDEST:
        raise EngineUnavailableError(
            f"Qdrant {server} and qdrant-client {client} do not go together",
            fix=f"run Qdrant {major}.{minor}, or another {major}.x from {_OLDEST[0]}.{_OLDEST[1]} on",
        )
    if abs(of_server[1] - minor) > 1:
        return f"qdrant-client {client} is made for servers at most one minor version away, this is {server}"
    return ""


def _parsed(text: str) -> tuple[int, int] | None:
    match = re.match(r"v?(\d+)\.(\d+)\.\d+", text)
    return (int(match[1]), int(match[2])) if match else None


def require_client(module: str = "qdrant_client") -> Any:
    """Import a module of the server client; raises MissingExtraError."""
    return require(module, extra="qdrant", feature="backend qdrant with mode=server")


class Retrier(remote_server.Retrier):
    """Calls of the client, repeated for transient faults: see :class:`harness.engines.remote_server.Retrier`."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the client's own errors, and errors from its parsing of answers."""
        http = require_client("qdrant_client.http.exceptions")
        common = require_client("qdrant_client.common.client_exceptions")
        parsing = ValueError, AssertionError, RuntimeError, IndexError
        transport = require_client("httpx").TransportError, require_client("grpc").RpcError
        return http.UnexpectedResponse, http.ResponseHandlingException, common.QdrantException, *transport, *parsing

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of an error of the client."""
        return fault_of(error)


def fault_of(error: Exception) -> Fault:
    """Return the fault of a server client's error."""
    http = require_client("qdrant_client.http.exceptions")
    common = require_client("qdrant_client.common.client_exceptions")
    if isinstance(error, http.ResponseHandlingException):
        error = error.source
    if isinstance(error, http.UnexpectedResponse):
        status, content = int(getattr(error, "status_code", 0)), bytes(error.content or b"")
        try:
            message = orjson.loads(content)["status"]["error"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            message = content.decode(errors="replace").strip() or "without a message"
        words = f"{error.reason_phrase}: {message}"
        return Fault(_replica_cause(cause_of_status(status), words), f"{status} {words}")
    if isinstance(error, common.ResourceExhaustedResponse):
        pause = float(getattr(error, "retry_after_s", 0))
        return Fault(Cause.LIMITED, f"429, asking for a pause of {pause:g} s: {error}", pause)
    if isinstance(error, common.QdrantException):  # a Retry-After that is a date: the client reads only seconds
        return Fault(Cause.LIMITED, f"429 {error}")
    if isinstance(error, require_client("grpc").RpcError):
        fault = grpc_fault(error)
        return fault._replace(cause=_replica_cause(fault.cause, fault.text))
    if any(frame.f_code.co_qualname.startswith(_READS_GRPC) for frame, _ in walk_tb(error.__traceback__)):
        note_answer(error)  # over gRPC nothing else does
    return transport_fault(error) or Fault(cause_of_misreading(), f"{type(error).__name__}: {error}")


def _replica_cause(cause: Cause, words: str) -> Cause:
    """Treat a server whose cluster has a starting or missing replica as busy, not failed: this may be transient."""
    return Cause.BUSY if cause is Cause.FAILED and _REPLICA.search(words) else cause
