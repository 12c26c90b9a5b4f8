"""Servers: the one that was named, and whether Docker could start one."""

from __future__ import annotations

import os
from collections.abc import Iterable

from harness.doctor.compose import require_docker
from harness.doctor.finding import Finding, fail, ok, warn
from harness.doctor.left import made_by_harness, with_leftovers
from harness.engines.qdrant.connection import URL_VARIABLE, Connection, Retrier, address_of, connect, server_errors
from harness.engines.qdrant.parameters import ServerSettings
from harness.engines.remote_server import Address, FaultError, redact
from harness.errors import BackendError
from harness.registry.lookup import find_cards

__all__ = ["URL_VARIABLE", "docker", "left_collections", "qdrant_server", "remove_collections"]

_UNKNOWN = "report it with this message"
_PATIENCE_S = 5


def qdrant_server(url: str) -> Finding:
    """The Qdrant server at ``url``, or at ``HARNESS_QDRANT_URL``; fails only where ``url`` was asked for."""
    name = "Qdrant server"
    if not url and URL_VARIABLE not in os.environ:
        return ok(name, f"none named (--url, or {URL_VARIABLE})")
    said = fail if url else warn
    try:
        address, found = _reached(url)
    except BackendError as error:
        return said(name, error.what, error.fix or _UNKNOWN)
    try:
        held = Retrier(0).call(found.client.get_collections).collections
    except FaultError as error:
        return said(name, f"{address.url}: {redact(str(error), address)}", "check the rights of the API key")
    finally:
        found.client.close()
    detail = f"{address.url}, Qdrant {found.version} over {found.transport}, {len(held)} collections"
    if found.doubt:
        return warn(name, f"{detail}; {found.doubt}", "install a client of the server's version")
    return with_leftovers(name, detail, made_by_harness(one.name for one in held))


def left_collections(url: str) -> list[str]:
    """Collections that the harness made on the server at ``url``, or at ``HARNESS_QDRANT_URL``.

    Those of comparisons that run now, and those that were kept (``keep=true``), are among them. Raises BackendError.
    """
    address, found = _reached(url)
    try:
        with server_errors(address, lambda: "listing its collections"):
            return made_by_harness(one.name for one in Retrier(0).call(found.client.get_collections).collections)
    finally:
        found.client.close()


def remove_collections(url: str, names: Iterable[str]) -> None:
    """Remove the collections ``names`` from that server; raises BackendError at the first that cannot be removed."""
    address, found = _reached(url)
    try:
        for name in names:
            with server_errors(address, lambda: f"removing the collection '{name}'"):  # noqa: B023 - used inside
                Retrier(_PATIENCE_S).call(lambda: found.client.delete_collection(name))  # noqa: B023 - called here
    finally:
        found.client.close()


def _reached(url: str) -> tuple[Address, Connection]:
    parameters = {**find_cards("backends")["qdrant"].defaults, "url": url, "timeout_s": _PATIENCE_S}
    settings = ServerSettings.of(parameters)
    address = address_of(settings)
    return address, connect(address, settings)


def docker() -> Finding:
    """Whether ``harness up`` can work."""
    try:
        return ok("Docker", require_docker())
    except BackendError as error:
        return warn("Docker", error.what, error.fix or _UNKNOWN)
