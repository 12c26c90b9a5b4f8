"""Collections as somebody else would have made them: by Chroma's client alone, in a folder or on a server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from installed import Deferred

from harness.data.inputs import Inputs
from harness.engines.chroma.connection import close_http_client

chromadb = Deferred("chromadb")
COLLECTION = "theirs"


def write_folder(folder: Path, documents: Inputs, **given: Any) -> None:
    """A collection in a folder: see :func:`_fill`."""
    folder.mkdir(exist_ok=True)
    with chromadb.PersistentClient(
        path=str(folder), settings=chromadb.config.Settings(anonymized_telemetry=False)
    ) as client:
        _fill(client, documents, **given)


def write_collection(url: str, documents: Inputs, **given: Any) -> None:
    """A collection on a server: see :func:`_fill`."""
    with served(url) as client:
        _fill(client, documents, **given)


@contextlib.contextmanager
def served(url: str) -> Iterator[Any]:
    """A client of a server, whose connections are closed at the end, too."""
    settings = chromadb.config.Settings(anonymized_telemetry=False, chroma_server_ssl_verify=False)
    client = chromadb.HttpClient(host=url, settings=settings)
    try:
        yield client
    finally:
        close_http_client(client)


def _fill(
    client: Any,
    documents: Inputs,
    *,
    name: str = COLLECTION,
    space: str = "cosine",
    ids: Sequence[str] | None = None,
    metadata: Callable[[str], dict[str, Any]] | None = None,
    sync_threshold: int = 1_000,
    texts: Sequence[str] | None = None,
) -> None:
    """Vectors under the documents' ids, or under ``ids``, with ``metadata`` of each document's id, and ``texts``."""
    own = documents.ids.to_list()
    graph = {"space": space, "sync_threshold": sync_threshold, "batch_size": min(100, sync_threshold)}
    made = client.create_collection(name, embedding_function=None, configuration={"hnsw": graph})
    if not own:
        return
    made.add(
        ids=list(ids or own),
        embeddings=documents.dense,
        documents=list(texts) if texts is not None else None,
        metadatas=[metadata(one) for one in own] if metadata is not None else None,
    )
