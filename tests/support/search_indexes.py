"""Indexes on an OpenSearch or Elasticsearch server, made as a user would make them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from harness.engines.opensearch.connection import Product

FIELD = "body.en"
"""The field of texts in these indexes."""


def index_names(server: httpx.Client) -> set[str]:
    return {str(index["index"]) for index in server.get("/_cat/indices?format=json").raise_for_status().json()}


def has_legacy_similarity(server: httpx.Client, product: Product) -> bool:
    """Whether the server has Lucene's older similarity under a name of its own."""
    version = server.get("/").raise_for_status().json()["version"]["number"]
    return product.legacy_from is not None and int(version.partition(".")[0]) >= product.legacy_from


def write_index(
    server: httpx.Client,
    product: Product,
    documents: Mapping[str, Mapping[str, Any]],
    *,
    analyzer: str = "whitespace",
    fields: Mapping[str, Any] | None = None,
    **settings: Any,
) -> str:
    """Write an index whose own analyzer takes the texts of :data:`FIELD` apart; returns its name.

    ``fields`` are the mappings of further fields; other fields get the server's own.
    """
    name = f"theirs-{secrets.token_hex(4)}"
    kind = "LegacyBM25" if has_legacy_similarity(server, product) else "BM25"
    similarity = {"default": {"type": kind, "k1": 0.9, "b": 0.4}}
    properties = {
        **(fields or {}),
        "body": {"properties": {"en": {"type": "text", "analyzer": analyzer}}},
        "note": {"type": "text", "index": False},
    }
    body = {
        "settings": {"number_of_shards": 1, "number_of_replicas": 0, "similarity": similarity, **settings},
        "mappings": {"properties": properties},
    }
    server.put(f"/{name}", json=body).raise_for_status()
    lines = b"".join(
        orjson.dumps({"index": {"_id": key}}) + b"\n" + orjson.dumps(document) + b"\n"
        for key, document in documents.items()
    )
    headers = {"content-type": "application/x-ndjson"}
    answer = server.post(f"/{name}/_bulk?refresh=true", content=lines, headers=headers).raise_for_status()
    assert not answer.json()["errors"]
    return name
