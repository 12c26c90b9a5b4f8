"""Filters of searches: which documents a search may return, by the metadata of the corpus.

A filter maps fields to the value that each must have; a document matches when all of them do. Values are compared as
text, so that every engine compares the same thing: a string is its own text, a number is written as JSON writes it
(``1971``, ``0.5``), a boolean is ``true`` or ``false``. A document without the field does not match.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, numbers, text_scalar
from harness.errors import UnknownNameError, UsageError, nearest

BoolArray = npt.NDArray[np.bool_]

_SAMPLED_VALUES = 10_000
_LISTED_VALUES = 8


@dataclass(frozen=True, eq=False)
class FilterResult:
    """Effect of a filter on a corpus of N documents.

    ``conditions`` maps fields to values. ``metadata`` holds these fields, one string column each with N rows, null if a
    document lacks the field; ``matching`` bool (N,) are the matching documents.
    """

    conditions: Mapping[str, str]
    metadata: pa.Table
    matching: BoolArray

    def __len__(self) -> int:
        """Return the number of documents that match."""
        return int(np.count_nonzero(self.matching))

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> FilterResult:
        """Return the same filter on some of the documents, in the order of ``rows``."""
        return FilterResult(self.conditions, self.metadata.take(numbers(rows)), self.matching[rows])

    @cached_property
    def digest(self) -> str:
        """SHA-256 that names the fields and the value of every document, however the columns are cut into chunks."""
        return metadata_digest(self.metadata)


def metadata_digest(metadata: pa.Table) -> str:
    """Return the SHA-256 of string columns: their names and every value, however they are cut into chunks."""
    digest = hashlib.sha256()
    for name in sorted(metadata.column_names):
        column = metadata.column(name)
        lengths = as_numpy(pc.binary_length(column), null=-1)
        digest.update(name.encode() + b"\n")
        digest.update(lengths.astype("<i8").tobytes())
        digest.update("".join(value for value in column.to_pylist() if value is not None).encode())
    return digest.hexdigest()


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


def format_filter(conditions: Mapping[str, str]) -> str:
    """Show a filter to people: ``section=news and year=1971``."""
    return " and ".join(f"{field}={value}" for field, value in conditions.items())


def matching_rows(metadata: pa.Table, conditions: Mapping[str, str]) -> BoolArray:
    """Return which rows of ``metadata`` (string columns) match: bool (rows,), all for an empty filter.

    Raises UnknownNameError for a field without a column.
    """
    matching: BoolArray = np.ones(metadata.num_rows, dtype=np.bool_)
    for field, value in conditions.items():
        if field not in metadata.column_names:
            raise UnknownNameError("metadata field", field, metadata.column_names)
        matching &= as_numpy(pc.equal(metadata.column(field), text_scalar(value)), null=False)
    return matching


def apply_filter(metadata: pa.Table, conditions: Mapping[str, str]) -> FilterResult:
    """Return the matching documents; raises UsageError when no document matches, naming a value without documents."""
    for field, value in conditions.items():
        _require_value(metadata.column(field), field, value)
    matching = matching_rows(metadata, conditions)
    if not matching.any():
        raise UsageError(
            f"no document matches {format_filter(conditions)}: each value occurs, but not together",
            fix="leave out one of them",
        )
    return FilterResult(dict(conditions), metadata, matching)


def _require_value(column: pa.ChunkedArray, field: str, value: str) -> None:
    if pc.any(pc.equal(column, text_scalar(value))).as_py():
        return
    counts = pc.value_counts(pc.drop_null(column))
    frequent = sorted(counts.to_pylist(), key=lambda count: (-count["counts"], count["values"]))[:_SAMPLED_VALUES]
    values = [str(count["values"]) for count in frequent]
    more = f" and {len(counts) - _LISTED_VALUES:,} more" if len(counts) > _LISTED_VALUES else ""
    raise UsageError(
        f"no document has {field}={value}{nearest(value, values)}",
        fix=f"the most frequent values of '{field}': {', '.join(values[:_LISTED_VALUES])}{more}",
    )
