"""Quepid's JSON: ratings of a case, a whole case, and a book of judgements. Its CSV, RRE and LTR files are read too.

Quepid has no query ids: the text of the query is its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.data.frames import described
from harness.data.judgment_exports.export import Export, Graded, Rating, grouped, objects_under, require_field
from harness.errors import DataError

_QUERY = ("query", "query_text")


def _query_of(item: Mapping[str, Any]) -> str | None:
    return next((name for name in _QUERY if name in item), None)


def _is_case(value: Mapping[Any, Any]) -> bool:
    queries = value.get("queries")
    return isinstance(queries, list) and any(
        isinstance(query, Mapping) and "ratings" in query and _query_of(query) is not None for query in queries
    )


def _case(value: Any, _query_field: str | None, notes: list[str]) -> Graded:
    def ratings() -> Iterator[Rating]:
        for position, query in objects_under(value, "queries"):
            text = require_field(position, query, _query_of(query) or _QUERY[0])
            rated = query.get("ratings")
            if isinstance(rated, list):  # of older versions
                for inner, rating in objects_under(query, "ratings"):
                    document = require_field(f"{position}, {inner}", rating, "doc_id")
                    yield Rating(position, text, document, rating.get("rating"))
            elif isinstance(rated, Mapping):
                for document, grade in rated.items():
                    yield Rating(position, text, document, grade)
            elif rated is not None:
                raise DataError("judgments", [f"{position}: 'ratings' is {described(rated)}, expected an object"])

    return grouped(ratings(), notes)


def _is_book(value: Mapping[Any, Any]) -> bool:
    return isinstance(value.get("query_doc_pairs"), list)


def _book(value: Any, _query_field: str | None, notes: list[str]) -> Graded:
    def ratings() -> Iterator[Rating]:
        for position, pair in objects_under(value, "query_doc_pairs"):
            query, document = (require_field(position, pair, name) for name in ("query_text", "doc_id"))
            if not pair.get("judgements"):
                yield Rating(position, query, document, None)
                continue
            for inner, judgement in objects_under(pair, "judgements"):
                grade = None if judgement.get("unrateable") or judgement.get("judge_later") else judgement.get("rating")
                yield Rating(f"{position}, {inner}", query, document, grade)

    return grouped(ratings(), notes)


CASE = Export(
    "Quepid (ratings of a case, or the case)",
    '{"queries": [{"query": text, "ratings": {document id: rating}}]}',
    "the query's text",
    frozenset({"queries"}),
    _is_case,
    _case,
)
BOOK = Export(
    "Quepid (a book of judgements)",
    '{"query_doc_pairs": [{"query_text": text, "doc_id": document id, "judgements": [{"rating": rating}]}]}',
    "the query's text",
    frozenset({"query_doc_pairs"}),
    _is_book,
    _book,
)
