"""Ratings of the Rated Ranking Evaluator (RRE), which Quepid exports too.

Topics hold query groups, groups hold queries, and every level may be missing. Documents are judged for a query, or for
all queries of a group. RRE has no query ids: the ``$query`` placeholder is the id unless the group's name may be it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.data.frames import described
from harness.data.judgment_exports.export import Export, Graded, Rating, grouped, objects_under, require_field
from harness.errors import DataError

_TEXT, _NAME = "$query", "name"
_JUDGED = "relevant_documents"
_LEVELS = ("topics", "query_groups", "queries")


class _Query(NamedTuple):
    """The text and the group's name of a query, and its relevant documents."""

    position: str
    text: Any
    name: Any
    documents: Any


def _holds_judged(value: Any, levels: int = 3) -> bool:
    if not isinstance(value, Mapping):
        return False
    lists = [value.get(key) for key in _LEVELS if levels]
    inner = [item for items in lists if isinstance(items, list) for item in items]
    return _JUDGED in value or any(_holds_judged(item, levels - 1) for item in inner)


def _is_ratings(value: Mapping[Any, Any]) -> bool:
    has_level = any(isinstance(value.get(key), list) for key in _LEVELS)
    return has_level and _JUDGED not in value and _holds_judged(value)


def _queries(value: Mapping[str, Any], position: str = "", name: Any = None, judged: Any = None) -> Iterator[_Query]:
    """Yield each query below a topic, a group or the whole file."""
    for key in ("topics", "query_groups"):
        for inner, item in objects_under(value, key) if key in value else ():
            below = f"{position}, {inner}" if position else inner
            yield from _queries(item, below, item.get(_NAME, name), item.get(_JUDGED, judged))
    for inner, query in objects_under(value, "queries") if "queries" in value else ():
        below = f"{position}, {inner}" if position else inner
        placeholders = query.get("placeholders", query)
        if not isinstance(placeholders, Mapping):
            raise DataError("judgments", [f"{below}: 'placeholders' is {described(placeholders)}, expected an object"])
        yield _Query(below, placeholders.get(_TEXT), name, query.get(_JUDGED, judged))


def _ratings(value: Any, query_field: str | None, notes: list[str]) -> Graded:
    queries = list(_queries(value))
    by = query_field if query_field in (_TEXT, _NAME) else _id_field(queries)

    def ratings() -> Iterator[Rating]:
        for query in queries:
            name = query.text if by == _TEXT else query.name
            if name is None:
                raise DataError("judgments", [f"{query.position} has no '{by}', which is the query's id"])
            yield from _documents(query, name)

    return grouped(ratings(), notes)


def _id_field(queries: list[_Query]) -> str:
    """Return the field that holds the query's id; raises DataError if both may hold it."""
    if any(query.text is None for query in queries):
        return _NAME
    names = [query.name for query in queries]
    distinct = None not in names and len(set(names)) == len(names)
    if distinct and any(query.name != query.text for query in queries):
        first = queries[0]
        raise DataError(
            "judgments",
            [f"the query's id may be its text, '{first.text}', or the name of its group, '{first.name}'"],
            fix=f"say which: --columns query_id={_TEXT} or query_id={_NAME}, columns={{'query_id': …}} in Python",
        )
    return _TEXT


def _documents(query: _Query, name: Any) -> Iterator[Rating]:
    """Yield the judgments of ``{grade: [document id]}`` or ``{document id: {"gain": grade}}``."""
    documents = query.documents
    if documents is None:
        return
    if not isinstance(documents, Mapping):
        raise DataError(
            "judgments", [f"{query.position}: '{_JUDGED}' is {described(documents)}, expected an object by grade"]
        )
    for key, content in documents.items():
        if isinstance(content, Mapping):
            yield Rating(query.position, name, key, require_field(query.position, content, "gain"))
        elif isinstance(content, list):
            for document in content:
                yield Rating(query.position, name, document, _grade(query.position, key))
        else:
            problem = f"{query.position}: '{key}' in '{_JUDGED}' is {described(content)}, expected a list of ids"
            raise DataError("judgments", [problem])


def _grade(position: str, key: object) -> int | float:
    try:
        grade = float(str(key))
    except ValueError:
        raise DataError("judgments", [f"{position}: the grade '{key}' is not a number"]) from None
    return int(grade) if grade.is_integer() else grade


RATINGS = Export(
    "Rated Ranking Evaluator (RRE) and Quepid; topics and groups may be missing, and queries have documents too",
    '{"topics": [{"query_groups": [{"name": …, "queries": [{"placeholders": {"$query": text}}], '
    '"relevant_documents": {grade: [document id]} or {document id: {"gain": grade}}}]}]}',
    "the `$query` placeholder, or the group's `name` with `--columns query_id=name`",
    frozenset(_LEVELS),
    _is_ratings,
    _ratings,
)
