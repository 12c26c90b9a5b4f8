"""Documents that a query excludes: hits that count for nothing, as BRIGHT's ``excluded_ids``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from harness.data.arrow import strings
from harness.data.python_values import as_id, plain
from harness.data.types import Ids

FIELDS = ("excluded_ids", "excluded_doc_ids")
"""Names of the field of a query that holds the ids of excluded documents."""
_NOTHING = "N/A"
"""BRIGHT's only id of a query that excludes nothing."""
_SEPARATORS = re.compile(r"[;|]")


class ExcludedCounts(NamedTuple):
    """How many queries exclude documents of the corpus, how many pairs of both there are, and how many other ids."""

    queries: int
    documents: int
    unknown: int


def excluded_by(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids that a record of a query excludes, each once; none without such a field.

    Raises ValueError, in words that follow the record, for a field that holds no ids.
    """
    ids: dict[str, None] = {}
    for name in FIELDS:
        value = plain(record.get(name))
        for item in _items(value):
            excluded = as_id(item)
            if excluded is None:
                raise ValueError(f"'{name}' holds {item!r}, expected an id or a list of ids")
            ids[excluded] = None
    ids.pop(_NOTHING, None)
    return tuple(ids)


def most_excluded(excluded: Mapping[str, Iterable[str]]) -> int:
    """Return the largest number of documents that a query excludes."""
    return max((len(set(ids)) for ids in excluded.values()), default=0)


def excluded_digest(excluded: Mapping[str, Iterable[str]] | None, queries: Iterable[str]) -> str | None:
    """Return the SHA-256 of what each query excludes, in any order; None if nothing is excluded."""
    if not excluded:
        return None
    lists = [[query, *sorted(set(excluded.get(query, ())))] for query in queries]
    return hashlib.sha256(orjson.dumps(lists)).hexdigest()


def _items(value: Any) -> Iterable[Any]:
    """Return the ids of a list, or of a cell of a table: JSON, or ids with ``;`` or ``|`` between them."""
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
    return [part.strip() for part in _SEPARATORS.split(value) if part.strip()] if isinstance(value, str) else (value,)


def count_excluded(excluded: Mapping[str, Iterable[str]], queries: Ids, documents: Ids) -> ExcludedCounts:
    """Count what the ``queries`` exclude of the ``documents``."""
    lists = [list(excluded.get(query, ())) for query in queries]
    is_present = documents.rows_of(strings([document for ids in lists for document in ids])) >= 0
    bounds = [0]
    for ids in lists:
        bounds.append(bounds[-1] + len(ids))
    counts = [int(is_present[start:stop].sum()) for start, stop in pairwise(bounds)]
    return ExcludedCounts(sum(map(bool, counts)), sum(counts), int((~is_present).sum()))
