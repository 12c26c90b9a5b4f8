"""The connection to Milvus: its client, a server's address, the meaning of errors, and repeated calls."""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from harness.engines import remote_server
from harness.engines.remote_server import (
    Address,
    AddressRules,
    Cause,
    Fault,
    FaultError,
    ServerConnection,
    grpc_fault,
    read_address,
    server_errors,
)
from harness.errors import EngineUnavailableError
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = [
    "ADDRESS_RULES",
    "PACKAGE",
    "Connection",
    "Retrier",
    "address_of",
    "connect",
    "open_client",
    "require_milvus",
]

PACKAGE = "pymilvus"
ADDRESS_RULES = AddressRules(
    *("Milvus", 19530, "HARNESS_MILVUS_URL", "MILVUS_TOKEN", "'insert_batch'"),
    {
        Cause.MISSING: "another client removed it, or 'url' or 'database' names another one: check, and run again",
        Cause.FAILED: "the server's log says more",
        Cause.UNREADABLE: "check that 'url' names Milvus's gRPC port and that no proxy changes its answers",
    },
    "--milvus-url",
)
_OLDEST = (2, 4)
"""The first version with sparse vectors."""
_LONGEST_CONNECTING_S = 10.0
_BY_ERROR = {
    2: Cause.UNREACHABLE,
    8: Cause.LIMITED,
    9: Cause.LIMITED,
    100: Cause.MISSING,
    1100: Cause.REFUSED,
    1400: Cause.UNAUTHORISED,
    1800: Cause.UNAUTHORISED,
}
"""Milvus's error numbers; the rest are its internal failures."""
_OF_THE_SERVER = frozenset(
    {
        "MilvusException",
        "AmbiguousIndexName",
        "CollectionNotExistException",
        "ConnectError",
        "DescribeCollectionException",
        "IndexNotExistException",
        "MilvusUnavailableException",
        "PartitionAlreadyExistException",
        "SchemaMismatchRetryableException",
        "ServerVersionIncompatibleException",
    }
)
"""Exceptions for answers of the server; the client itself raises the others, about its arguments."""
_NOT_READY = re.compile(r"not ready|starting|no available|has not been init", re.IGNORECASE)
"""The last is Milvus Lite's, for a file that was just opened."""


@dataclass(frozen=True)
class Connection(ServerConnection):
    """A client of a server that answered."""

    address: Address
    retrier: Retrier
    client: Any
    version: str

    def list_names(self) -> list[str]:
        """Return the names of all collections."""
        return list(self.client.list_collections(retry_times=0))

    def remove(self, name: str) -> None:
        """Remove a collection."""
        self.client.drop_collection(name, retry_times=0)

    def close(self) -> None:
        """Close the client."""
        self.client.close()


def require_milvus(module: str = PACKAGE) -> ModuleType:
    """Import a module of the client, without its log, which repeats raised errors. Raises MissingExtraError."""
    logging.getLogger(PACKAGE).setLevel(logging.CRITICAL + 1)
    return require(module, extra="milvus", feature="backend milvus")


def address_of(parameters: Mapping[str, ParameterValue]) -> Address:
    """Return the server that ``url`` names, or ``HARNESS_MILVUS_URL``; raises as :func:`read_address`."""
    return read_address(ADDRESS_RULES, str(parameters["url"]), str(parameters["api_key_env"]), os.environ)


def connect(parameters: Mapping[str, ParameterValue]) -> Connection:
    """Return a client of the server that ``url`` names, or ``HARNESS_MILVUS_URL``.

    Raises BackendError if nothing or another service answers, or if the address contains secrets.
    """
    address = address_of(parameters)
    timeout_s = float(parameters["timeout_s"])
    basic = address.headers.get("authorization", "").removeprefix("Basic ")
    token = address.api_key or base64.b64decode(basic).decode()
    once = Retrier(0)
    with server_errors(address, lambda: "connecting"):
        _require_listener(address, min(timeout_s, _LONGEST_CONNECTING_S))
        client = once.call(
            lambda: open_client(address.url, timeout_s, token=token, db_name=str(parameters["database"]))
        )
    try:
        with server_errors(address, lambda: "asking for its version"):
            version = str(once.call(lambda: client.get_server_version(retry_times=0)))
        numbers = re.match(r"v?(\d+)\.(\d+)", version)
        if numbers is None:
            raise EngineUnavailableError(
                f"the server at {address.url} is not Milvus: it gives '{address.hide(version)[:60]}' for its version",
                fix="correct 'url'",
            )
        if (int(numbers[1]), int(numbers[2])) < _OLDEST:
            raise EngineUnavailableError(
                f"Milvus {version} at {address.url} is too old", fix="run Milvus {}.{} or newer".format(*_OLDEST)
            )
    except BaseException:
        client.close()
        raise
    return Connection(address, Retrier(float(parameters["retry_s"])), client, version)


def _require_listener(address: Address, timeout_s: float) -> None:
    """Raise FaultError if nothing listens: the client would retry until its time is over, and report a timeout."""
    parts = urlsplit(address.url)
    try:
        socket.create_connection((parts.hostname or "", address.port), timeout_s).close()
    except OSError as error:
        raise FaultError(Fault(Cause.UNREACHABLE, str(error)), 1, 0.0) from error


def open_client(uri: str, timeout_s: float, **more: str) -> Any:
    """Return a client with its own connection, whose calls end after ``timeout_s``.

    The client repeats calls by itself for as long as their time limit lasts. So they get no limit, and
    ``retry_times=0``; the limit is set on the connection.
    """
    limits = {"methodConfig": [{"name": [{}], "timeout": f"{timeout_s:g}s"}]}
    options = {"grpc.service_config": json.dumps(limits)}
    connecting = min(float(timeout_s), _LONGEST_CONNECTING_S)
    return require_milvus().MilvusClient(uri, timeout=connecting, dedicated=True, grpc_options=options, **more)


class Retrier(remote_server.Retrier):
    """Calls of the client, repeated while the fault may be transient."""

    def errors(self) -> tuple[type[Exception], ...]:
        """Return the client's own errors, and gRPC's, some of which it does not catch."""
        return require_milvus().MilvusException, require_milvus("grpc").RpcError

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of a client error."""
        grpc = require_milvus("grpc")
        origin = error.__context__  # the client raises some errors from themselves, so that their cause is lost
        if isinstance(origin, grpc.RpcError):  # the client's error says that it tried again; this one says why
            error = origin
        if isinstance(error, grpc.RpcError):
            return grpc_fault(error)
        number, words = getattr(error, "code", None), str(getattr(error, "message", error))
        if type(error).__name__ not in _OF_THE_SERVER:
            return Fault(Cause.CLIENT, f"{type(error).__name__}: {words}")
        known_cause = _BY_ERROR.get(number, Cause.FAILED) if isinstance(number, int) else Cause.FAILED
        if known_cause is Cause.FAILED and _NOT_READY.search(words):
            known_cause = Cause.BUSY
        return Fault(known_cause, f"error {number}: {words}")
