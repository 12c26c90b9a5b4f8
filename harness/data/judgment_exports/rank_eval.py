"""Requests of the ``_rank_eval`` API of Elasticsearch and OpenSearch, with queries written out or in templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.data.judgment_exports.export import Export, Graded, Rating, grouped, objects_under, require_field
from harness.errors import DataError


def _is_request(value: Mapping[Any, Any]) -> bool:
    requests = value.get("requests")
    return isinstance(requests, list) and any(
        isinstance(request, Mapping) and "ratings" in request for request in requests
    )


def _request(value: Any, _query_field: str | None, notes: list[str]) -> Graded:
    indexes: dict[Any, set[Any]] = {}

    def ratings() -> Iterator[Rating]:
        for position, request in objects_under(value, "requests"):
            query = require_field(position, request, "id")
            for inner, rating in objects_under(request, "ratings"):
                document = require_field(f"{position}, {inner}", rating, "_id")
                indexes.setdefault(document, set()).add(rating.get("_index"))
                yield Rating(f"{position}, {inner}", query, document, require_field(position, rating, "rating"))

    graded = grouped(ratings(), notes)
    shared = [(document, names) for document, names in indexes.items() if len(names) > 1]
    if shared:
        document, names = shared[0]
        problem = f"'{document}' is a document of several indexes: {', '.join(sorted(map(str, names)))}"
        raise DataError("judgments", [problem], fix="judge one index at a time: a run names documents by their '_id'")
    return graded


REQUEST = Export(
    "Elasticsearch's and OpenSearch's `_rank_eval` (with templates too)",
    '{"requests": [{"id": query id, "ratings": [{"_index": …, "_id": document id, "rating": rating}]}]}',
    "the request's `id`",
    frozenset({"requests"}),
    _is_request,
    _request,
)
