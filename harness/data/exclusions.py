"""Documents that a query excludes, as BRIGHT's ``excluded_ids`` do: they are left out of its hits before scoring."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from harness.data.arrow import strings
from harness.data.golden_cells import id_parts, id_readings
from harness.data.python_values import as_id, plain
from harness.data.types import Ids

FIELDS = ("excluded_ids", "excluded_doc_ids")
"""Names of the field of a query with the ids of the documents that it excludes."""
_NOTHING = "N/A"
"""The id that BRIGHT writes for a query that excludes nothing."""


class ExcludedCounts(NamedTuple):
    """Counts of excluded ids.

    Attributes:
        queries: Queries that exclude at least one document of the corpus.
        documents: Pairs of such a query and a document.
        unknown: Excluded ids that no document has.
    """

    queries: int
    documents: int
    unknown: int


class ExcludedIds(NamedTuple):
    """The ids that a query excludes, and the other readings of a table's cell of ids."""

    ids: tuple[str, ...] = ()
    readings: tuple[tuple[str, ...], ...] = ()

    def among(self, documents: Ids) -> tuple[str, ...]:
        """Return the reading with the largest share of ids of ``documents``; the first of equal ones."""
        if not self.readings:
            return self.ids
        ways = [self.ids, *self.readings]
        shares = [float((documents.rows_of(Ids.of(way)) >= 0).mean()) for way in ways]
        return ways[shares.index(max(shares))]


def excluded_by(record: Mapping[str, Any], *, table: bool = False) -> ExcludedIds:
    """Return the ids of the documents that the record of a query excludes, each once.

    Args:
        record: The record, which may lack the field: nothing is excluded then.
        table: Whether the record is a row of a table, in whose cells ``;`` and ``|`` may separate ids.

    Raises:
        ValueError: The field holds something other than ids. The message continues a sentence about the record.
    """
    ids: dict[str, None] = {}
    ways: list[dict[str, None]] = []
    for name in FIELDS:
        value = plain(record.get(name))
        of_field = dict.fromkeys(_ids_of(name, _items(value, table=table)))
        cell = value.strip() if table and isinstance(value, str) else ""
        further = [dict.fromkeys(filter(None, parts)) for parts in id_readings(cell)]
        if further or ways:
            earlier = ways or [dict(ids)] * len(further)
            ways = [{**one, **other} for one, other in zip(earlier, further or [of_field] * len(earlier), strict=True)]
        ids.update(of_field)
    readings = (tuple(name for name in way if name != _NOTHING) for way in ways)
    return ExcludedIds(tuple(name for name in ids if name != _NOTHING), tuple(filter(None, readings)))


def _ids_of(field: str, items: Iterable[Any]) -> Iterator[str]:
    for item in items:
        excluded = as_id(item)
        if not excluded:
            raise ValueError(f"'{field}' holds {item!r}, expected an id or a list of ids")
        yield excluded


def most_excluded(excluded: Mapping[str, Iterable[str]]) -> int:
    """Return the largest number of documents that a query excludes."""
    return max((len(set(ids)) for ids in excluded.values()), default=0)


def excluded_digest(excluded: Mapping[str, Iterable[str]] | None, queries: Iterable[str]) -> str | None:
    """Return the SHA-256 of what each query excludes, in any order; None if nothing is excluded."""
    if not excluded:
        return None
    lists = [[query, *sorted(set(excluded.get(query, ())))] for query in queries]
    return hashlib.sha256(orjson.dumps(lists)).hexdigest()


def _items(value: Any, *, table: bool) -> Iterable[Any]:
    """Return the ids in a list, in a JSON list, or in a cell of a table."""
    if value is None or value == "":
        return ()
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            return (value,)
        return parsed if isinstance(parsed, list) else (value,)
    return filter(None, id_parts(value.strip())) if table and isinstance(value, str) else (value,)


def count_excluded(excluded: Mapping[str, Iterable[str]], queries: Ids, documents: Ids) -> ExcludedCounts:
    """Count the ``documents`` that the ``queries`` exclude, and excluded ids that no document has."""
    lists = [list(excluded.get(query, ())) for query in queries]
    is_present = documents.rows_of(strings([document for ids in lists for document in ids])) >= 0
    bounds = [0]
    for ids in lists:
        bounds.append(bounds[-1] + len(ids))
    counts = [int(is_present[start:stop].sum()) for start, stop in pairwise(bounds)]
    return ExcludedCounts(sum(map(bool, counts)), sum(counts), int((~is_present).sum()))
