"""Ask the named servers whether they answer, and what killed comparisons left on them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from harness.doctor.finding import Finding, fail, ok, warn
from harness.engines import weaviate
from harness.engines.chroma import connection as chroma
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.milvus import connection as milvus
from harness.engines.opensearch import connection as opensearch
from harness.engines.pgvector import session as postgres
from harness.engines.qdrant import connection as qdrant
from harness.engines.qdrant.parameters import ServerSettings
from harness.errors import BackendError
from harness.registry.lookup import find_cards
from harness.wording import counted

_PATIENCE_S = 5
_PAGE = 100
_UNKNOWN = "report it with this message"
_MADE_BY_HARNESS = re.compile(r"[Hh]arness[_-][A-Za-z0-9_-]{0,40}[_-][0-9a-f]{8}")
"""Milvus's names have no hyphens, Weaviate's begin with a capital letter too."""
_SHOWN = 3


class Session(NamedTuple):
    """A server that answered: what it is, and a doubt about its version ('' for none).

    ``ask`` makes calls that are described by its first argument, and raises BackendError; ``listing`` is the call that
    names all collections, ``removal`` the one that removes a named one. ``kind`` and ``kinds`` are the server's own
    words for one collection and for several.
    """

    description: str
    doubt: str
    ask: Callable[[str, Callable[[], Any]], Any]
    listing: Callable[[], Iterable[object]]
    removal: Callable[[str], object]
    kind: str = "collection"
    kinds: str = "collections"

    def names(self) -> list[str]:
        """Return the names of all collections; raises BackendError."""
        return list(map(str, self.ask(f"listing its {self.kinds}", self.listing)))

    def remove(self, name: str) -> None:
        """Remove a collection; raises BackendError."""
        self.ask(f"removing the {self.kind} '{name}'", partial(self.removal, name))


class EngineServer(NamedTuple):
    """How the servers of one engine are named, by an option or a variable, and asked.

    ``session`` opens a session with the server at an address, or, without one, where ``variable`` says; it raises
    BackendError.
    """

    engine: str
    option: str
    variable: str
    session: Callable[[str], AbstractContextManager[Session]]

    def is_named(self, url: str) -> bool:
        """Tell whether ``url`` or the environment names a server."""
        return bool(url) or self.variable in os.environ


@contextmanager
def _qdrant(url: str) -> Iterator[Session]:
    settings = ServerSettings.of({**find_cards("backends")["qdrant"].defaults, "url": url, "timeout_s": _PATIENCE_S})
    address = qdrant.address_of(settings)
    connected = qdrant.connect(address, settings)

    def names() -> list[str]:
        return [collection.name for collection in client.get_collections().collections]

    with closing(connected.client) as client:
        description = f"{address.url}, Qdrant {connected.version} over {connected.transport}"
        ask = partial(qdrant.Retrier(_PATIENCE_S).ask, address)
        yield Session(description, connected.doubt, ask, names, client.delete_collection)


@contextmanager
def _chroma(url: str) -> Iterator[Session]:
    parameters = {**find_cards("backends")["chroma"].defaults, "url": url, "timeout_s": _PATIENCE_S}
    settings, retrier = ChromaParameters.of(parameters), chroma.Retrier(_PATIENCE_S)
    address = chroma.address_of(settings)
    client, version, _ = chroma.connect(address, settings)

    def names() -> list[str]:
        listed: list[str] = []
        while page := client.list_collections(_PAGE, len(listed)):
            listed += [collection.name for collection in page]
        return listed

    try:
        description, ask = f"{address.url}, Chroma {version}", partial(retrier.ask, address)
        yield Session(description, "", ask, names, client.delete_collection)
    finally:
        chroma.close_http_client(client)


@contextmanager
def _opensearch(product: opensearch.Product, url: str) -> Iterator[Session]:
    """Ask a server of one of the products that speak OpenSearch's language."""

    def names() -> list[str]:
        return [index["index"] for index in connected.call("GET", "/_cat/indices", options={"format": "json"})]

    with closing(opensearch.connect(product, url, product.place.key_variable, _PATIENCE_S)) as connected:
        address, ask = connected.address, partial(opensearch.Retrier(_PATIENCE_S).ask, connected.address)
        description = f"{address.url}, {product.name} {connected.version}"
        yield Session(
            description, "", ask, names, lambda name: connected.call("DELETE", f"/{name}"), "index", "indexes"
        )


@contextmanager
def _milvus(url: str) -> Iterator[Session]:
    parameters = {**find_cards("backends")["milvus"].defaults, "url": url, "timeout_s": _PATIENCE_S}
    opened, version, address = milvus.connect(parameters)
    with closing(opened) as client:
        description, ask = f"{address.url}, Milvus {version}", partial(milvus.Retrier(_PATIENCE_S).ask, address)
        names = partial(client.list_collections, retry_times=0)
        yield Session(description, "", ask, names, partial(client.drop_collection, retry_times=0))


@contextmanager
def _weaviate(url: str) -> Iterator[Session]:
    key = str(find_cards("backends")["weaviate"].defaults["api_key_env"])

    def names() -> list[str]:
        return [collection["class"] for collection in server.call("GET", "/v1/schema")["classes"]]

    with closing(weaviate.Server(url, key, _PATIENCE_S, _PATIENCE_S)) as server:
        description, ask = (
            f"{server.address.url}, Weaviate {server.version}",
            partial(server.retrier.ask, server.address),
        )
        yield Session(description, "", ask, names, lambda name: server.call("DELETE", f"/v1/schema/{name}"))


@contextmanager
def _postgres(url: str) -> Iterator[Session]:
    parameters = {**find_cards("backends")["pgvector"].defaults, "url": url, "timeout_s": _PATIENCE_S, "retry_s": 0.0}

    def names() -> list[str]:
        listed = session.ask("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        return [name for (name,) in listed]

    def remove(name: str) -> None:
        session.ask(f"DROP TABLE {postgres.quoted(name)}")

    with closing(postgres.Session.of_server(parameters)) as session:
        ((version,),) = session.rows("asking for its version", "SHOW server_version")
        description, ask = (
            f"{session.address.url}, PostgreSQL {version}",
            partial(postgres.Retrier(0).ask, session.address),
        )
        yield Session(description, "", ask, names, remove, "table", "tables")


def _speaks_opensearch(product: opensearch.Product) -> EngineServer:
    option = f"--{product.name.lower()}-url"
    return EngineServer(product.name, option, product.place.url_variable, partial(_opensearch, product))


_KNOWN = (
    EngineServer("Qdrant", "--url", qdrant.URL_VARIABLE, _qdrant),
    EngineServer("Chroma", "--chroma-url", chroma.URL_VARIABLE, _chroma),
    _speaks_opensearch(opensearch.OPENSEARCH),
    _speaks_opensearch(opensearch.ELASTICSEARCH),
    EngineServer("Milvus", "--milvus-url", milvus.URL_VARIABLE, _milvus),
    EngineServer("Weaviate", "--weaviate-url", weaviate.URL_VARIABLE, _weaviate),
    EngineServer("PostgreSQL", "--postgres-url", postgres.URL_VARIABLE, _postgres),
)
SERVERS: Mapping[str, EngineServer] = MappingProxyType({server.engine: server for server in _KNOWN})


def examine_server(server: EngineServer, url: str) -> Finding:
    """Return how the server at ``url``, or of the environment, is; a failure only where ``url`` names it."""
    name = f"{server.engine} server"
    if not server.is_named(url):
        return ok(name, f"not configured ({server.option}, or {server.variable})")
    try:
        with server.session(url) as session:
            names = session.names()
    except BackendError as error:
        return (fail if url else warn)(name, error.what, error.fix or _UNKNOWN)
    detail, left = f"{session.description}, {counted(len(names), session.kind, session.kinds)}", _made_by_harness(names)
    if session.doubt:
        return warn(name, f"{detail}; {session.doubt}", "install a client of the server's version")
    if not left:
        return ok(name, detail)
    first = ", ".join(left[:_SHOWN]) + (" …" if len(left) > _SHOWN else "")
    return warn(
        name,
        f"{detail}, {len(left)} of them made by harness: {first}",
        "if no comparison runs or keeps them: the same command with --remove-left-collections",
    )


def left_collections(server: EngineServer, url: str) -> list[str]:
    """Return the collections that the harness made on the server at ``url``, or of the environment, sorted.

    Those of comparisons that run now, and those that were kept (``keep=true``), are among them. Raises BackendError.
    """
    with server.session(url) as session:
        return _made_by_harness(session.names())


def remove_collections(server: EngineServer, url: str, names: Iterable[str]) -> None:
    """Remove the collections ``names`` from that server; raises BackendError at the first that cannot be removed."""
    with server.session(url) as session:
        for name in names:
            session.remove(name)


def _made_by_harness(names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that only the harness gives, sorted."""
    return sorted(name for name in names if _MADE_BY_HARNESS.fullmatch(name))
