"""Filters of searches: which documents a search may return, by the metadata of the corpus.

A filter maps fields to the value that each must have; a document matches when all of them do. Values are compared as
text, so that every engine compares the same thing: a string is its own text, a number is written as JSON writes it
(``1971``, ``0.5``), a boolean is ``true`` or ``false``. A document without the field does not match. All queries of a
dataset share one filter, or each has its own: queries with equal filters then form a group, which is searched together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, numbers, strings, text_content, text_scalar, text_where
from harness.data.field_paths import text_of, values_of
from harness.data.types import Int32Array
from harness.errors import UnknownNameError, UsageError, nearest

BoolArray = npt.NDArray[np.bool_]
Conditions = Mapping[str, str]
"""Fields of documents, mapped to the text of the value that each must have."""
NO_FILTER: Conditions = MappingProxyType({})
"""The conditions of a query that asks for any document."""

_SAMPLED_VALUES = 10_000
_LISTED_VALUES = 8


@dataclass(frozen=True, eq=False)
class FilterResult:
    """Effect of a filter on a corpus of N documents.

    ``conditions`` maps fields to values. ``metadata`` holds what engines store: one string column for each field with N
    rows, null if a document lacks the field; ``matching`` bool (N,) are the matching documents. ``of_columns`` are the
    conditions on these columns, None for the same: a field of lists has a column for each value that a filter names.
    """

    conditions: Conditions
    metadata: pa.Table
    matching: BoolArray
    of_columns: Conditions | None = None

    def __len__(self) -> int:
        """Return the number of documents that match."""
        return int(np.count_nonzero(self.matching))

    @cached_property
    def digest(self) -> str:
        """SHA-256 that names the fields and the value of every document, however the columns are cut into chunks."""
        return metadata_digest(self.metadata)


@dataclass(frozen=True, eq=False)
class Matching:
    """The documents that each query may return: ``masks`` bool (N,), one for each group of queries.

    ``group_of`` int32 (Q,) is the number of each query's group.
    """

    masks: tuple[BoolArray, ...]
    group_of: Int32Array

    @classmethod
    def of_all(cls, mask: BoolArray, queries: int) -> Matching:
        """Return the same documents for every query."""
        return cls((mask,), np.zeros(queries, dtype=np.int32))

    @property
    def counts(self) -> Int32Array:
        """Number of documents that each query may return, int32 (Q,)."""
        counts: Int32Array = np.array([np.count_nonzero(mask) for mask in self.masks], dtype=np.int32)[self.group_of]
        return counts

    def of_queries(self, rows: npt.NDArray[np.integer[Any]]) -> Matching:
        """Return the documents of some queries, in the order of ``rows``; groups without a query are left out."""
        used, group_of = np.unique(self.group_of[rows], return_inverse=True)
        return Matching(tuple(self.masks[group] for group in used.tolist()), group_of.astype(np.int32))

    def of_documents(self, rows: npt.NDArray[np.integer[Any]]) -> Matching:
        """Return the same of other rows of documents; a row of -1, an unknown document, does not match."""
        return Matching(tuple((rows >= 0) & mask[rows] for mask in self.masks), self.group_of)

    def of_hits(self, queries: npt.NDArray[np.integer[Any]], rows: npt.NDArray[np.integer[Any]]) -> BoolArray:
        """Return which hits match, bool (H,): ``queries`` and ``rows`` are the query and the document of each."""
        matches: BoolArray = np.zeros(len(rows), dtype=np.bool_)
        groups = self.group_of[queries]
        for group, mask in enumerate(self.masks):
            of_group = groups == group
            matches[of_group] = mask[rows[of_group]]
        return matches


@dataclass(frozen=True, eq=False)
class QueryFilters:
    """The filter of each query of a dataset.

    ``groups`` are the different filters, on the same metadata, in the order of the first query of each; a filter
    without conditions leaves all documents. ``group_of`` int32 (Q,) is the number of each query's group.
    """

    groups: tuple[FilterResult, ...]
    group_of: Int32Array

    @classmethod
    def of_all(cls, filtered: FilterResult, queries: int) -> QueryFilters:
        """Return one filter for every query."""
        return cls((filtered,), np.zeros(queries, dtype=np.int32))

    @classmethod
    def of_each(cls, metadata: pa.Table, conditions: Iterable[Conditions]) -> QueryFilters:
        """Return the filters of queries, in their order; an empty filter leaves all documents."""
        numbers_of: dict[frozenset[tuple[str, str]], int] = {}
        distinct: list[Conditions] = []
        group_of = []
        for fields in conditions:
            number = numbers_of.setdefault(frozenset(fields.items()), len(distinct))
            if number == len(distinct):
                distinct.append(fields)
            group_of.append(number)
        rows = _RowsOfValues(metadata, distinct)
        columns, of_columns = without_lists(metadata, distinct, rows)
        groups = tuple(
            FilterResult(dict(fields), columns, rows.matching(fields), stored)
            for fields, stored in zip(distinct, of_columns, strict=True)
        )
        return cls(groups, np.array(group_of, dtype=np.int32))

    @property
    def shared(self) -> FilterResult | None:
        """The filter of all queries; None if they have several."""
        return self.groups[0] if len(self.groups) == 1 else None

    @property
    def metadata(self) -> pa.Table:
        """The fields of all filters."""
        return self.groups[0].metadata

    @property
    def digest(self) -> str:
        """SHA-256 that names the fields and the value of every document."""
        return self.groups[0].digest

    @property
    def queries_digest(self) -> str:
        """SHA-256 of the group of each query."""
        return hashlib.sha256(self.group_of.astype("<i4").tobytes()).hexdigest()

    @cached_property
    def matching(self) -> Matching:
        """The documents that each query may return."""
        return Matching(tuple(group.matching for group in self.groups), self.group_of)

    @cached_property
    def counts(self) -> Int32Array:
        """Number of documents that match the filter of each query, int32 (Q,)."""
        return self.matching.counts

    def conditions_of(self, query: int) -> Conditions:
        """Return the conditions of one query, given by number."""
        return self.groups[int(self.group_of[query])].conditions

    def rows_of(self, group: int) -> Int32Array:
        """Return the numbers of the queries of one group, int32, ascending."""
        return np.flatnonzero(self.group_of == group).astype(np.int32)

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> QueryFilters:
        """Return the same filters on some of the documents, in the order of ``rows``."""
        metadata = self.metadata.take(numbers(rows))
        groups = tuple(replace(one, metadata=metadata, matching=one.matching[rows]) for one in self.groups)
        return QueryFilters(groups, self.group_of)

    def of_queries(self, rows: npt.NDArray[np.integer[Any]]) -> QueryFilters:
        """Return the filters of some queries, in the order of ``rows``."""
        used, first = np.unique(self.group_of[rows], return_index=True)
        in_order = used[np.argsort(first)]
        renumbered = np.zeros(len(self.groups), dtype=np.int32)
        renumbered[in_order] = np.arange(len(in_order), dtype=np.int32)
        return QueryFilters(tuple(self.groups[group] for group in in_order.tolist()), renumbered[self.group_of[rows]])


def metadata_digest(metadata: pa.Table) -> str:
    """Return the SHA-256 of string columns: their names and every value, however they are cut into chunks."""
    digest = hashlib.sha256()
    for name in sorted(metadata.column_names):
        column = metadata.column(name)
        lengths = as_numpy(pc.binary_length(column), null=-1)
        digest.update(name.encode() + b"\n")
        digest.update(lengths.astype("<i8").tobytes())
        for content in text_content(column):
            digest.update(content)
    return digest.hexdigest()


def values_of_text(text: str) -> tuple[str | float, ...]:
    """Return each value of metadata that a filter compares as this text: the string, and a number or a boolean."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return (text,)
    is_scalar = isinstance(value, bool | int | float) and text_of(value) == text
    return (text, value) if is_scalar else (text,)


def numbers_of_text(text: str) -> tuple[int | float, ...]:
    """Return the number whose text this is; a whole number also as the other type of numbers. Empty for other text.

    Engines that compare numbers by value find 1971 and 1971.0 equal, if each is written as the type of the field.
    """
    number = next((value for value in values_of_text(text) if isinstance(value, int | float)), None)
    if number is None or isinstance(number, bool):
        return ()
    if not float(number).is_integer():
        return (number,)
    return tuple(kind(number) for kind in (int, float) if kind(number) == number)


def matches(metadata: Mapping[str, object], conditions: Conditions) -> bool:
    """Return whether each field of a document's metadata has its value, a list if one of its elements is the value.

    A dotted field may lead into objects.
    """
    return all(
        any(text_of(value) == text for value in values_of(metadata, field)) for field, text in conditions.items()
    )


def parse_filter(conditions: Sequence[str]) -> dict[str, str]:
    """Parse ``field=value`` strings as a filter; everything after the first ``=`` is the value.

    Raises UsageError for an invalid condition, an empty value, and two values of one field.
    """
    fields: dict[str, str] = {}
    for condition in conditions:
        field, equals, value = condition.partition("=")
        if not (field and equals and value):
            raise UsageError(f"--filter '{condition}' is not a condition", fix="write field=value, as section=news")
        if fields.setdefault(field, value) != value:
            raise UsageError(
                f"--filter names two values of '{field}': '{fields[field]}' and '{value}'",
                fix="all filters must match, and a document has one value of a field: leave out one of them",
            )
    return fields


def format_filter(conditions: Conditions) -> str:
    """Show a filter to people: ``section=news and year=1971``."""
    return " and ".join(f"{field}={value}" for field, value in conditions.items())


def combine_filters(query: str, conditions: Conditions, of_all: Conditions) -> Conditions:
    """Return the conditions of a query with those of all queries.

    Raises UsageError if they have two values of a field: nothing would match.
    """
    for field, value in conditions.items():
        if of_all.get(field, value) != value:
            raise UsageError(
                f"--filter {field}={of_all[field]}: question '{query}' has the filter {field}={value}, and a document "
                "has one value of a field",
                fix="leave --filter out, or take only the questions that it is about",
            )
    return {**conditions, **of_all}


class _RowsOfValues:
    """The rows of metadata that have each value of some conditions, from one pass over every column.

    Raises UnknownNameError for a field without a column.
    """

    def __init__(self, metadata: pa.Table, conditions: Iterable[Conditions]) -> None:
        self._count = metadata.num_rows
        self._rows: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
        for field, values in _values_by_field(conditions).items():
            if field not in metadata.column_names:
                raise UnknownNameError("metadata field", field, metadata.column_names)
            rows = _rows_by_value(metadata.column(field), values)
            self._rows |= {(field, value): of_value for value, of_value in zip(values, rows, strict=True)}

    def mask(self, field: str, value: str) -> BoolArray:
        """Return which rows have the value, or a list with it: bool (rows,)."""
        mask: BoolArray = np.zeros(self._count, dtype=np.bool_)
        mask[self._rows[field, value]] = True
        return mask

    def matching(self, conditions: Conditions) -> BoolArray:
        """Return which rows match all conditions: bool (rows,), all for an empty filter."""
        matching: BoolArray = np.ones(self._count, dtype=np.bool_)
        for field, value in conditions.items():
            matching &= self.mask(field, value)
        return matching


def _values_by_field(conditions: Iterable[Conditions]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for field, value in dict.fromkeys(pair for fields in conditions for pair in fields.items()):
        values.setdefault(field, []).append(value)
    return values


def _rows_by_value(column: pa.ChunkedArray, values: Sequence[str]) -> list[npt.NDArray[np.int64]]:
    """Return the rows of a column of texts, or of lists of texts, that have each value."""
    numbers_of_values, rows, start = list[npt.NDArray[np.int32]](), list[npt.NDArray[np.int64]](), 0
    for chunk in column.chunks:
        texts, of_texts = chunk, np.arange(start, start + len(chunk))
        if pa.types.is_list(chunk.type):
            texts = pc.list_flatten(chunk)
            of_texts = np.repeat(of_texts, as_numpy(pc.list_value_length(chunk), null=0))
        numbers_of_chunk = _numbers_of(texts, values)
        matches_any = numbers_of_chunk >= 0
        numbers_of_values.append(numbers_of_chunk[matches_any])
        rows.append(of_texts[matches_any])
        start += len(chunk)
    if not rows:
        return [np.empty(0, dtype=np.int64) for _ in values]
    numbers_of_rows = np.concatenate(numbers_of_values)
    order = np.argsort(numbers_of_rows, kind="stable")
    ends = np.cumsum(np.bincount(numbers_of_rows, minlength=len(values)))
    return np.split(np.concatenate(rows)[order], ends[:-1])


def _numbers_of(texts: pa.Array, values: Sequence[str]) -> npt.NDArray[np.int32]:
    """Return the position of each text among ``values``, -1 for another text: int32 (texts,)."""
    if len(values) == 1:  # several times as fast, and what every search with one filter needs
        equal: BoolArray = as_numpy(pc.equal(texts, text_scalar(values[0])), null=False)
        return equal.astype(np.int32) - np.int32(1)
    positions: npt.NDArray[np.int32] = as_numpy(pc.index_in(texts, value_set=strings(values)), null=-1)
    return positions


def without_lists(
    metadata: pa.Table, conditions: Sequence[Conditions], rows: _RowsOfValues
) -> tuple[pa.Table, list[Conditions | None]]:
    """Return columns of single values and the conditions on them, None for those on ``metadata`` itself.

    A column of lists is replaced by a column for each value of it that the ``conditions`` name, with the value where a
    list has it: engines then need no lists. ``rows`` are those of the conditions' values.
    """
    lists = {field.name for field in metadata.schema if pa.types.is_list(field.type)}
    if not lists:
        return metadata, [None] * len(conditions)
    columns = {name: metadata.column(name) for name in metadata.column_names if name not in lists}
    free = {field: _free_names(field, metadata.column_names) for field in lists}
    names: dict[tuple[str, str], str] = {}
    for field, value in dict.fromkeys(pair for fields in conditions for pair in fields.items()):
        if field in lists:
            names[field, value] = name = next(free[field])
            columns[name] = pa.chunked_array([text_where(rows.mask(field, value), value)])
    stored: list[Conditions | None] = [
        {names.get((field, value), field): value for field, value in fields.items()} for fields in conditions
    ]
    return pa.table(columns), stored


def _free_names(field: str, names: Sequence[str]) -> Iterator[str]:
    """Yield ``field[0]``, ``field[1]`` and so on, except names that a column has."""
    return (name for number in count() if (name := f"{field}[{number}]") not in names)


def matching_rows(metadata: pa.Table, conditions: Conditions) -> BoolArray:
    """Return which rows of ``metadata`` (columns of texts or lists) match: bool (rows,), all for an empty filter.

    Raises UnknownNameError for a field without a column.
    """
    return _RowsOfValues(metadata, [conditions]).matching(conditions)


def apply_filter(metadata: pa.Table, conditions: Conditions) -> FilterResult:
    """Return the matching documents; raises UsageError when no document matches, naming a value without documents."""
    rows = _RowsOfValues(metadata, [conditions])
    for field, value in conditions.items():
        if not rows.mask(field, value).any():
            raise _without_documents(metadata.column(field), field, value)
    matching = rows.matching(conditions)
    if not matching.any():
        raise UsageError(
            f"no document matches {format_filter(conditions)}: each value occurs, but not together",
            fix="leave out one of them",
        )
    columns, (of_columns,) = without_lists(metadata, [conditions], rows)
    return FilterResult(dict(conditions), columns, matching, of_columns)


def filters_of_unknown_documents(conditions: Sequence[Conditions]) -> QueryFilters:
    """Return the filters of queries on documents that only their backend knows."""
    fields = dict.fromkeys(field for of_query in conditions for field in of_query)
    return QueryFilters.of_each(pa.table({field: strings([]) for field in fields}), conditions)


def no_match(metadata: pa.Table, conditions: Conditions) -> str:
    """Return why no document matches, in words: the first value without a document, with the nearest value."""
    try:
        apply_filter(metadata, conditions)
    except UsageError as error:
        return f"{error.problem}; {error.fix}"
    raise AssertionError("a document matches")


def _without_documents(column: pa.ChunkedArray, field: str, value: str) -> UsageError:
    """Return the error for a value that no document has, with the nearest and the most frequent values."""
    counts = pc.value_counts(pc.drop_null(pc.list_flatten(column) if pa.types.is_list(column.type) else column))
    frequent = sorted(counts.to_pylist(), key=lambda entry: (-entry["counts"], entry["values"]))[:_SAMPLED_VALUES]
    values = [str(entry["values"]) for entry in frequent]
    more = f" and {len(counts) - _LISTED_VALUES:,} more" if len(counts) > _LISTED_VALUES else ""
    return UsageError(
        f"no document has {field}={value}{nearest(value, values)}",
        fix=f"the most frequent values of '{field}': {', '.join(values[:_LISTED_VALUES])}{more}",
    )
