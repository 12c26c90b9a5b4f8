"""Examine the servers that engines run on, and remove the collections that killed comparisons left on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import NamedTuple

from harness.doctor.finding import Finding, fail, ok, warn
from harness.engines.remote_server import ServerConnection, ServerKind
from harness.errors import BackendError, CardError, HarnessError
from harness.registry.foreign_code import foreign_code
from harness.registry.lookup import find_cards, load_engine
from harness.registry.parameters import ParameterValue
from harness.wording import counted

_PATIENCE_S = 5
_UNKNOWN = "report it with this message"
_MADE_BY_HARNESS = re.compile(r"[Hh]arness[_-][A-Za-z0-9_-]{0,40}[_-][0-9a-f]{8}")
"""Milvus's names have no hyphens, Weaviate's begin with a capital letter too."""
_EXAMPLES = 3


class EngineServer(NamedTuple):
    """The servers of one engine; ``defaults`` are the parameters of one of its cards."""

    kind: ServerKind
    defaults: Mapping[str, ParameterValue]

    def is_named(self, url: str) -> bool:
        """Return whether ``url`` or the environment names a server."""
        return bool(url) or self.kind.address_rules.url_variable in os.environ

    def connect(self, url: str) -> ServerConnection:
        """Connect to the server at ``url``, or of the environment; raises BackendError."""
        return self.kind.connect({**self.defaults, "url": url, "timeout_s": _PATIENCE_S, "retry_s": 0})


def find_servers() -> dict[str, EngineServer]:
    """Return the servers that the cards' engines run on, by the engine's name.

    Only engines with a parameter ``url`` are imported. An engine that cannot be imported is left out: the doctor's
    check of the cards reports it. Raises CardError for a card that cannot be read, and for an engine that fails.
    """
    servers: dict[str, EngineServer] = {}
    for card in find_cards("backends").values():
        if "url" not in card.parameters:
            continue
        try:
            engine = load_engine(card)
        except HarnessError:
            continue
        with foreign_code(f"card '{card.path}': server_kind of its engine", CardError, "correct the engine"):
            kind = engine.server_kind()
        if kind is not None:
            servers.setdefault(kind.address_rules.engine, EngineServer(kind, card.defaults))
    return servers


def examine_server(server: EngineServer, url: str) -> Finding:
    """Return the state of the server at ``url``, or in the environment; a failure only if ``url`` names it."""
    address_rules = server.kind.address_rules
    name = f"{address_rules.engine} server"
    if not server.is_named(url):
        option = f"{address_rules.doctor_option}, or " if address_rules.doctor_option else ""
        return ok(name, f"not configured ({option}{address_rules.url_variable})")
    try:
        with closing(server.connect(url)) as connection:
            description, names = connection.description, connection.all_collections()
    except BackendError as error:
        return (fail if url else warn)(name, error.problem, error.fix or _UNKNOWN)
    detail = f"{description}, {counted(len(names), connection.kind, connection.kinds)}"
    if connection.doubt:
        return warn(name, f"{detail}; {connection.doubt}", "install a client of the server's version")
    left = _made_by_harness(names)
    if not left:
        return ok(name, detail)
    first = ", ".join(left[:_EXAMPLES]) + (" …" if len(left) > _EXAMPLES else "")
    return warn(
        name,
        f"{detail}, {len(left)} of them made by harness: {first}",
        "if no comparison runs or keeps them: the same command with --remove-left-collections",
    )


def left_collections(server: EngineServer, url: str) -> list[str]:
    """Return the collections that the harness made on the server at ``url``, or of the environment, sorted.

    Indexes of running comparisons, and kept ones (``keep=true``), are among them. Raises BackendError.
    """
    with closing(server.connect(url)) as connection:
        return _made_by_harness(connection.all_collections())


def remove_collections(server: EngineServer, url: str, names: Iterable[str]) -> None:
    """Remove the collections ``names`` from that server; raises BackendError at the first that cannot be removed."""
    with closing(server.connect(url)) as connection:
        for name in names:
            connection.remove_collection(name)


def _made_by_harness(names: Iterable[str]) -> list[str]:
    """Return the ``names`` that only the harness gives, sorted."""
    return sorted(name for name in names if _MADE_BY_HARNESS.fullmatch(name))
