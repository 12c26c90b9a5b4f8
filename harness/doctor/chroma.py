"""The Chroma server that was named, and what killed comparisons left on it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from harness.doctor.finding import Finding, fail, ok, warn
from harness.doctor.left import made_by_harness, with_leftovers
from harness.engines.chroma.connection import (
    URL_VARIABLE,
    Retrier,
    address_of,
    close_http_client,
    connect,
    server_errors,
)
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.remote_server import Address
from harness.errors import BackendError
from harness.registry.lookup import find_cards

__all__ = ["URL_VARIABLE", "chroma_server", "left_collections", "remove_collections"]

_NAME = "Chroma server"
_PAGE = 100
_PATIENCE_S = 5
_UNKNOWN = "report it with this message"


class _Server(NamedTuple):
    address: Address
    client: Any
    version: str
    retrier: Retrier


def chroma_server(url: str) -> Finding:
    """The Chroma server at ``url``, or at ``HARNESS_CHROMA_URL``; fails only where ``url`` was asked for."""
    if not url and URL_VARIABLE not in os.environ:
        return ok(_NAME, f"none named (--chroma-url, or {URL_VARIABLE})")
    try:
        with _reached(url) as server:
            names = _names(server)
    except BackendError as error:
        return (fail if url else warn)(_NAME, error.what, error.fix or _UNKNOWN)
    detail = f"{server.address.url}, Chroma {server.version}, {len(names)} collections"
    return with_leftovers(_NAME, detail, made_by_harness(names))


def left_collections(url: str) -> list[str]:
    """Collections that the harness made on the server at ``url``, or at ``HARNESS_CHROMA_URL``.

    Those of comparisons that run now, and those that were kept (``keep=true``), are among them. Raises BackendError.
    """
    with _reached(url) as server:
        return made_by_harness(_names(server))


def remove_collections(url: str, names: Iterable[str]) -> None:
    """Remove the collections ``names`` from that server; raises BackendError at the first that cannot be removed."""
    with _reached(url) as server:
        for name in names:
            with server_errors(server.address, lambda: f"removing the collection '{name}'"):  # noqa: B023 - used inside
                server.retrier.call(lambda: server.client.delete_collection(name))  # noqa: B023 - called here


@contextmanager
def _reached(url: str) -> Iterator[_Server]:
    parameters = {**find_cards("backends")["chroma"].defaults, "url": url, "timeout_s": _PATIENCE_S}
    settings, retrier = ChromaParameters.of(parameters), Retrier(_PATIENCE_S)
    address = address_of(settings)
    client, version, _ = connect(address, settings, retrier)
    try:
        yield _Server(address, client, version, retrier)
    finally:
        close_http_client(client)


def _names(server: _Server) -> list[str]:
    names: list[str] = []
    with server_errors(server.address, lambda: "listing its collections"):
        while page := server.retrier.call(partial(server.client.list_collections, _PAGE, len(names))):
            names += [str(one.name) for one in page]
    return names
