"""The way to a Qdrant server: which transport answers, and is what answers a Qdrant that this client understands?"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, NamedTuple

from harness.engines.address import Address
from harness.engines.faults import Cause, FaultError
from harness.engines.qdrant.faults import Retrier, require_client, translated
from harness.engines.qdrant.settings import ServerSettings
from harness.errors import EngineUnavailableError

__all__ = ["Connection", "check_versions", "connect"]

_PROBE_S = 2
_OLDEST = (1, 10)
"""The first version with the IDF of sparse vectors and with the query API."""


class Connection(NamedTuple):
    """A client of a server that answered: ``transport`` is grpc or rest, ``doubt`` a remark on the versions, or ''."""

    client: Any
    version: str
    transport: str
    doubt: str


def connect(address: Address, settings: ServerSettings) -> Connection:
    """A client of the server at ``address``.

    ``transport=auto`` takes gRPC when it answers within two seconds, on the port after the REST port unless
    ``grpc_port`` names another, else REST. Raises EngineUnavailableError when nothing answers, when it is no Qdrant, or
    when its version and the client's do not go together; EngineTimeoutError and EngineFailureError for other faults.
    """
    if settings.transport == "grpc" or (settings.transport == "auto" and _answers_grpc(address, settings)):
        return _greet(address, settings, "grpc")
    return _greet(address, settings, "rest")


def _answers_grpc(address: Address, settings: ServerSettings) -> bool:
    with _client(address, settings, "grpc", _PROBE_S) as client:
        try:
            Retrier(0).call(client.info)
        except FaultError as error:
            return error.fault.cause is Cause.UNAUTHORISED  # it is there, and says no
        return True


def _greet(address: Address, settings: ServerSettings, transport: str) -> Connection:
    where = "" if transport == "rest" else f" over gRPC, port {_grpc_port(address, settings)}"
    client = _made(address, settings, transport, settings.timeout_s)
    try:
        with translated(address, lambda: f"asking for its version{where}"):
            info = Retrier(0).call(client.info)
        if "qdrant" not in info.title.lower():
            raise EngineUnavailableError(
                f"what answers at {address.url} is not Qdrant: it calls itself '{address.hide(info.title)[:60]}'",
                fix="mend 'url'",
            )
        return Connection(client, info.version, transport, check_versions(info.version, version("qdrant-client")))
    except BaseException:
        client.close()
        raise


@contextmanager
def _client(address: Address, settings: ServerSettings, transport: str, timeout_s: int) -> Iterator[Any]:
    client = _made(address, settings, transport, timeout_s)
    try:
        yield client
    finally:
        client.close()


def _made(address: Address, settings: ServerSettings, transport: str, timeout_s: int) -> Any:  # noqa: ANN401 - untyped
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "Api key is used with an insecure connection": the report says so itself
        return require_client().QdrantClient(
            url=address.url,
            api_key=address.api_key,
            headers=dict(address.headers),
            prefer_grpc=transport == "grpc",
            grpc_port=_grpc_port(address, settings),
            timeout=timeout_s,
            check_compatibility=False,  # done here: before anything is sent, and as an error
        )


def _grpc_port(address: Address, settings: ServerSettings) -> int:
    return settings.grpc_port or address.port + 1


def check_versions(server: str, client: str) -> str:
    """'' when the versions go together; a remark when they are further apart than the client documents.

    The client is made for servers of its own major version and at most one minor version away. Raises
    EngineUnavailableError for another major version, for a server that lacks what is needed, and for no version at all.
    """
    theirs, ours = _parsed(server), _parsed(client)
    if theirs is None or ours is None:
        raise EngineUnavailableError(
            f"the server's version is '{server[:60]}', which is no version of Qdrant",
            fix="check that 'url' names Qdrant itself",
        )
    if theirs[0] != ours[0] or theirs < _OLDEST:
        raise EngineUnavailableError(
            f"Qdrant {server} and qdrant-client {client} do not go together",
            fix=f"run Qdrant {ours[0]}.{ours[1]}, or another {ours[0]}.x from {_OLDEST[0]}.{_OLDEST[1]} on",
        )
    if abs(theirs[1] - ours[1]) > 1:
        return f"qdrant-client {client} is made for servers at most one minor version away, this is {server}"
    return ""


def _parsed(text: str) -> tuple[int, int] | None:
    found = re.match(r"v?(\d+)\.(\d+)\.\d+", text)
    return (int(found[1]), int(found[2])) if found else None
