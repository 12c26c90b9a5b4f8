"""Ask the named servers whether they answer, and what killed comparisons left on them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from harness.doctor.finding import Finding, fail, ok, warn
from harness.engines import weaviate
from harness.engines.chroma import connection as chroma
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.milvus import connection as milvus
from harness.engines.opensearch import connection as opensearch
from harness.engines.pgvector import session as postgres
from harness.engines.qdrant import connection as qdrant
from harness.engines.qdrant.parameters import ServerSettings
from harness.engines.remote_server import server_errors
from harness.errors import BackendError
from harness.registry.lookup import find_cards

_PATIENCE_S = 5
_PAGE = 100
_UNKNOWN = "report it with this message"
_MADE_BY_HARNESS = re.compile(r"[Hh]arness[_-][A-Za-z0-9_-]{0,40}[_-][0-9a-f]{8}")
"""Milvus's names have no hyphens, Weaviate's begin with a capital letter too."""
_SHOWN = 3


class Session(NamedTuple):
    """A server that answered: what it is, a doubt about its version ('' for none), and its collections.

    ``names`` lists all collections and ``remove`` removes a named one; both raise BackendError.
    """

    description: str
    doubt: str
    names: Callable[[], list[str]]
    remove: Callable[[str], None]


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
        with server_errors(address, lambda: "listing its collections"):
            listed = qdrant.Retrier(0).call(client.get_collections)
        return [str(collection.name) for collection in listed.collections]

    def remove(name: str) -> None:
        with server_errors(address, lambda: f"removing the collection '{name}'"):
            qdrant.Retrier(_PATIENCE_S).call(lambda: client.delete_collection(name))

    with closing(connected.client) as client:
        description = f"{address.url}, Qdrant {connected.version} over {connected.transport}"
        yield Session(description, connected.doubt, names, remove)


@contextmanager
def _chroma(url: str) -> Iterator[Session]:
    parameters = {**find_cards("backends")["chroma"].defaults, "url": url, "timeout_s": _PATIENCE_S}
    settings, retrier = ChromaParameters.of(parameters), chroma.Retrier(_PATIENCE_S)
    address = chroma.address_of(settings)
    client, version, _ = chroma.connect(address, settings, retrier)

    def names() -> list[str]:
        listed: list[str] = []
        with server_errors(address, lambda: "listing its collections"):
            while page := retrier.call(partial(client.list_collections, _PAGE, len(listed))):
                listed += [str(collection.name) for collection in page]
        return listed

    def remove(name: str) -> None:
        with server_errors(address, lambda: f"removing the collection '{name}'"):
            retrier.call(lambda: client.delete_collection(name))

    try:
        yield Session(f"{address.url}, Chroma {version}", "", names, remove)
    finally:
        chroma.close_http_client(client)


@contextmanager
def _opensearch(product: opensearch.Product, url: str) -> Iterator[Session]:
    """Ask a server of one of the products that speak OpenSearch's language; its collections are indexes."""
    retrier = opensearch.Retrier(_PATIENCE_S)

    def names() -> list[str]:
        with server_errors(connected.address, lambda: "listing its indexes"):
            listed = retrier.call(lambda: connected.call("GET", "/_cat/indices", options={"format": "json"}))
        return [str(index["index"]) for index in listed]

    def remove(name: str) -> None:
        with server_errors(connected.address, lambda: f"removing the index '{name}'"):
            retrier.call(lambda: connected.call("DELETE", f"/{name}"))

    with closing(opensearch.connect(product, url, product.place.key_variable, _PATIENCE_S)) as connected:
        yield Session(f"{connected.address.url}, {product.name} {connected.version}", "", names, remove)


@contextmanager
def _milvus(url: str) -> Iterator[Session]:
    parameters = {**find_cards("backends")["milvus"].defaults, "url": url, "timeout_s": _PATIENCE_S}
    retrier, (opened, version, address) = milvus.Retrier(_PATIENCE_S), milvus.connect(parameters)

    def names() -> list[str]:
        with server_errors(address, lambda: "listing its collections"):
            return list(map(str, retrier.call(lambda: client.list_collections(retry_times=0))))

    def remove(name: str) -> None:
        with server_errors(address, lambda: f"removing the collection '{name}'"):
            retrier.call(lambda: client.drop_collection(name, retry_times=0))

    with closing(opened) as client:
        yield Session(f"{address.url}, Milvus {version}", "", names, remove)


@contextmanager
def _weaviate(url: str) -> Iterator[Session]:
    key = str(find_cards("backends")["weaviate"].defaults["api_key_env"])

    def names() -> list[str]:
        schema = server.ask("listing its collections", "GET", "/v1/schema")
        return [str(collection["class"]) for collection in schema["classes"]]

    def remove(name: str) -> None:
        server.ask(f"removing the collection '{name}'", "DELETE", f"/v1/schema/{name}")

    with closing(weaviate.Server(url, key, _PATIENCE_S, _PATIENCE_S)) as server:
        yield Session(f"{server.address.url}, Weaviate {server.version}", "", names, remove)


@contextmanager
def _postgres(url: str) -> Iterator[Session]:
    """Ask a database; its collections are tables."""
    parameters = {**find_cards("backends")["pgvector"].defaults, "url": url, "timeout_s": _PATIENCE_S, "retry_s": 0.0}

    def names() -> list[str]:
        listed = session.rows(
            "listing its tables", "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        )
        return [str(name) for (name,) in listed]

    def remove(name: str) -> None:
        session.rows(f"removing the table '{name}'", f"DROP TABLE {postgres.quoted(name)}")

    with closing(postgres.Session.of_server(parameters)) as session:
        ((version,),) = session.rows("asking for its version", "SHOW server_version")
        yield Session(f"{session.address.url}, PostgreSQL {version}", "", names, remove)


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
    detail, left = f"{session.description}, {len(names)} collections", _made_by_harness(names)
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
