"""The vector stores behind frameworks' retrievers: which collection is searched, and how to search it ourselves.

Nothing of a framework or a store is imported: what an object is shows by its class's name and its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from harness.plain_url import is_plain_url, without_secrets

__all__ = ["StoreBehind", "query_embedding", "store_behind"]

EmbedQuery = Callable[[str], Sequence[float]]
_STORES = ("vectorstore", "_vector_store", "vector_store", "document_store", "_document_store")
_EMBEDDINGS = ("embeddings", "_embed_model", "_embedding_function", "_embedding")
_SCORED_SEARCH = "similarity_search_with_score"
"""A method that only LangChain's vector stores have."""
_PLAIN_SEARCHES = ("similarity", "default")
"""Names in LangChain and in LlamaIndex of the search for the nearest vectors alone."""
_OF_SERVER = ("host", "hostaddr", "port", "dbname", "service")
"""Parameters of a URL of PostgreSQL that go before what stands in front of them."""
_USER_OF_URL = re.compile(r"//[^/@]*@")


@dataclass(frozen=True, slots=True)
class StoreBehind:
    """The vector store behind a retriever.

    Attributes:
        described: Names the store, its collection and its place, without secrets.
        backend: The backend that searches the same collection as an external index; "" where the harness cannot.
        parameters: Its parameters, without a model; they may hold what is secret.
        reason: Why it cannot.
        settings: What the object sets of its own for a search, which the store alone does not: values of filters, which
            may be secret, are left out.
    """

    described: str
    backend: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    settings: tuple[str, ...] = ()


class _Place(NamedTuple):
    """A collection: ``parameters`` of the backend that searches it; ``reason`` is why there are none.

    ``beside`` says what else is searched with it, "" for nothing.
    """

    parameters: Mapping[str, str]
    reason: str = ""
    beside: str = ""


class _Product(NamedTuple):
    """An engine behind vector stores, and the function that says where such a store keeps its vectors.

    It takes the store, and an empty folder for an index that is in the memory of this process alone.
    """

    title: str
    backend: str
    place_of: Callable[[Any, Path], _Place]


def store_behind(candidate: Any, folder: Path) -> StoreBehind | None:
    """Return the vector store that a retriever, an index or a pipeline searches; None where none is known.

    ``folder`` does not exist yet, and is made where an index has to be saved so that others can search it.
    """
    store = _store_of(candidate)
    if store is None:
        return None
    kind = type(store)
    called = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    product = next((product for name, product in _PRODUCTS.items() if re.match(name, kind.__name__)), None)
    if product is None:
        known = ", ".join(product.title for product in _PRODUCTS.values())
        return StoreBehind(f"its documents are in a {called}", reason=f"the harness searches {known}")
    place = product.place_of(store, folder)
    collection = next((place.parameters[name] for name in ("collection", "table") if name in place.parameters), None)
    where = next((place.parameters[name] for name in ("url", "path") if name in place.parameters), None)
    named = f", collection '{collection}'" if collection is not None else ""
    at = f", {without_secrets(where)}" if where is not None and where != str(folder) else ""
    described = f"its documents are in {product.title}{named}{at} ({called}){place.beside}"
    if place.reason:
        return StoreBehind(described, reason=place.reason)
    settings = tuple(setting for part in (candidate, *_components(candidate)) for setting in _settings(part))
    return StoreBehind(described, product.backend, {**place.parameters, "external": "true"}, settings=settings)


def query_embedding(candidate: Any) -> EmbedQuery | None:
    """Return how a retriever, an index or a pipeline encodes a question; None where that cannot be seen."""
    for component in _components(candidate):
        if hasattr(component, "__haystack_input__") and "embedding" in _outputs(component):
            return lambda question, embedder=component: embedder.run(text=question)["embedding"]  # type: ignore[misc]
    store = _store_of(candidate)
    for owner in (candidate, store, _inner(store)):
        for name in (*_EMBEDDINGS, "embedding_service"):
            embeddings = getattr(owner, name, None)
            for method in ("embed_query", "get_query_embedding"):
                embed: EmbedQuery | None = getattr(embeddings, method, None)
                if embed is not None:
                    return embed
    return None


def _outputs(component: Any) -> Iterable[str]:
    sockets = getattr(component, "__haystack_output__", None)
    return getattr(sockets, "_sockets_dict", {})


def _components(candidate: Any) -> list[Any]:
    """Return the components of a pipeline, none of anything else."""
    if hasattr(candidate, "walk") and hasattr(candidate, "get_component"):
        return [component for _, component in candidate.walk()]
    return []


def _store_of(candidate: Any) -> Any | None:
    """Return the vector store behind a retriever, an index or the last retriever of a pipeline, None for none."""
    stores = [_store_of(component) for component in _components(candidate)]
    if stores:
        return next((store for store in reversed(stores) if store is not None), None)
    for name in _STORES:
        store = getattr(candidate, name, None)
        if store is not None:
            return store
    return candidate if hasattr(candidate, _SCORED_SEARCH) else None


def _settings(retriever: Any) -> list[str]:
    """Return what makes a retriever's search another than its store's: its kind, and the names of what limits it."""
    modes = {name: getattr(retriever, name, None) for name in ("search_type", "_vector_store_query_mode")}
    kinds = {name.strip("_"): getattr(mode, "value", mode) for name, mode in modes.items()}
    options = getattr(retriever, "search_kwargs", None)
    limits = [*_names(options, but="k"), *(name for name in ("_filters", "filters") if getattr(retriever, name, None))]
    return [
        *(f"{name}={kind}" for name, kind in kinds.items() if isinstance(kind, str) and kind not in _PLAIN_SEARCHES),
        *(name.strip("_") for name in limits),
    ]


def _names(options: Any, but: str) -> list[str]:
    """Return the names of the options that are set, except one."""
    if not isinstance(options, Mapping):
        return []
    return [str(name) for name, value in options.items() if name != but and value is not None]


def _inner(store: Any) -> Any:
    """Return the asynchronous store that LangChain's PGVectorStore wraps; any other store itself."""
    return getattr(store, f"_{type(store).__name__}__vs", store)


def _qdrant(store: Any, _: Path) -> _Place:
    client = _first(store, "client._client", "_client._client")
    fields = _texts(
        store,
        collection=("collection_name", "index"),
        path=("client._client.location", "_client._client.location"),
        url=("client._client.rest_uri", "_client._client.rest_uri", "url"),
    )
    if type(client).__name__ == "QdrantLocal":
        return _Place(fields, "qdrant-client searches it in Python, which is not the engine that a server runs")
    return _searchable(fields, "url", "collection")


def _chroma(store: Any, _: Path) -> _Place:
    fields = _texts(
        store,
        collection=("_collection.name", "collection_name", "_collection_name"),
        url=("_client._server._api_url", "_collection._client._api_url"),
    )
    if "url" in fields:
        fields["url"] = re.sub(r"/api/v\d+/?$", "", fields["url"])
        return _searchable(fields, "url", "collection")
    system = _first(store, "_client._server._system", "_collection._client._system", "_client._system")
    settings = getattr(system, "settings", None)
    if settings is None or not settings.is_persistent:
        return _Place(fields, "it is in the memory of the process alone, and Chroma saves no copy of it")
    return _searchable({**fields, "path": str(Path(settings.persist_directory).absolute())}, "path", "collection")


def _faiss(store: Any, folder: Path) -> _Place:
    """Save the index as FAISS does, its documents called as LangChain calls them, else by their places in it."""
    import faiss

    index = _first(store, "_faiss_index", "index", "client")
    if not isinstance(index, faiss.Index):
        return _Place({}, "its index is none of FAISS's own that are searched on a processor")
    folder.mkdir(parents=True, exist_ok=True)  # of a job that runs again
    faiss.write_index(index, str(folder / "index.faiss"))
    names = getattr(store, "index_to_docstore_id", {})
    lines = [f"{names.get(place, place)}\n" for place in range(index.ntotal)]
    (folder / "ids.txt").write_text("".join(lines), encoding="utf-8")
    return _Place({"path": str(folder)})


def _lancedb(store: Any, _: Path) -> _Place:
    fields = _texts(
        store,
        table=("_table_name", "table_name", "_table.name"),
        path=("_connection.uri", "uri", "_uri"),
        vector_column=("vector_column_name", "_vector_key"),
    )
    if "://" in fields.get("path", ""):
        return _Place(fields, "its tables are not in a folder of this machine")
    return _searchable(fields, "path", "table")


def _pgvector(store: Any, _: Path) -> _Place:
    own = _inner(store)
    url = _first(own, "engine.url", "engine._pool.url", "_engine.url", "connection_string")
    if hasattr(url, "render_as_string"):
        url = url.render_as_string(hide_password=False)
    elif hasattr(url, "resolve_value"):  # Haystack's Secret
        url = url.resolve_value()
    beside = ""
    fields = _texts(own, table=("table_name",), vector_column=("embedding_column",), id_column=("id_column",))
    if hasattr(own, "EmbeddingStore"):  # LangChain's PGVector keeps all collections in one table
        fields["table"] = str(own.EmbeddingStore.__tablename__)
        beside = f": the table holds all collections, not '{own.collection_name}' alone, and is searched as a whole"
    elif hasattr(own, "embed_dim"):  # LlamaIndex's name for it
        fields["table"] = f"data_{fields['table'].lower()}"
    schema = _first(own, "schema_name")
    if isinstance(schema, str) and schema not in ("", "public"):
        fields["table"] = f"{schema}.{fields['table']}"
    strategy = _first(own, "_distance_strategy", "distance_strategy", "vector_function")
    fields["similarity"] = _similarity(str(getattr(strategy, "value", strategy) or ""))
    if isinstance(url, str):  # a password comes from the environment, as psycopg reads it
        fields["url"] = _USER_OF_URL.sub("//", re.sub(r"^postgres\w*(\+\w+)?://", "postgresql://", url))
        fields["url"], _mark, parameters = fields["url"].partition("?")
        if elsewhere := [name for name in parse_qs(parameters) if name in _OF_SERVER]:
            return _Place(fields, f"its URL says among its parameters which server it is ({', '.join(elsewhere)})")
    return _searchable(fields, "url", "table")._replace(beside=beside)


def _similarity(strategy: str) -> str:
    """Return the similarity that a name of a distance stands for: cosine where it says nothing, as these stores do."""
    name = strategy.lower()
    if "inner" in name:
        return "dot"
    return "l2" if "l2" in name or "euclid" in name else "cosine"


def _milvus(store: Any, _: Path) -> _Place:
    fields = _texts(
        store,
        collection=("collection_name",),
        url=("_connection_args.uri", "connection_args.uri", "_milvusclient._config.uri"),
        vector=("embedding_field", "_vector_field"),
    )
    if fields.get("url", "").startswith("unix:"):  # the socket of Milvus Lite, which LlamaIndex's store knows alone
        return _Place({"collection": fields["collection"]}, "the object does not say which file of Milvus Lite it is")
    if "url" in fields and "://" not in fields["url"]:
        fields["path"] = str(Path(fields.pop("url")).absolute())
        return _searchable(fields, "path", "collection")
    return _searchable(fields, "url", "collection")


def _searchable(fields: Mapping[str, str], place: str, collection: str) -> _Place:
    """Return a place with what the backend needs, or the reason why it is none."""
    missing = [name for name in (place, collection) if not fields.get(name)]
    if missing:
        return _Place(fields, f"the object does not say where it is ({' and '.join(missing)})")
    if place == "url" and fields["url"].startswith("http") and not is_plain_url(fields["url"]):
        return _Place(fields, "its URL holds more than a host, a port and a path")
    return _Place(fields)


def _texts(store: Any, **paths: Sequence[str]) -> dict[str, str]:
    """Return, for each name, the first of some attributes that is a text that says something."""
    values = {name: [_at(store, path) for path in places] for name, places in paths.items()}
    texts = {name: next((v for v in seen if isinstance(v, str) and v), "") for name, seen in values.items()}
    return {name: text for name, text in texts.items() if text}


def _first(store: Any, *paths: str) -> Any:
    return next((value for value in (_at(store, path) for path in paths) if value is not None), None)


def _at(store: Any, path: str) -> Any:
    """Return what a dotted path of attributes, or of keys, leads to; None where it leads nowhere."""
    value = store
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


_PRODUCTS: Mapping[str, _Product] = {
    r"Qdrant": _Product("Qdrant", "qdrant-dense", _qdrant),
    r"Chroma": _Product("Chroma", "chroma", _chroma),
    r"(?i:faiss)": _Product("FAISS", "faiss", _faiss),
    r"(?i:pgvector)": _Product("pgvector (PostgreSQL)", "pgvector", _pgvector),
    r"(?i:lancedb)": _Product("LanceDB", "lancedb", _lancedb),
    r"(?i:milvus)": _Product("Milvus", "milvus", _milvus),
}
"""Engines by what their stores' classes are called."""
