"""Filters of several selectivities on one corpus: by seeded attributes, or by values of the user's own metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import strings
from harness.data.filtering import FilterResult, format_filter, matching_rows

MOST_VALUES = 6
"""Values of a field that are filtered by, at most."""
_YES, _NO = "yes", "no"


@dataclass(frozen=True, slots=True)
class FilterSweep:
    """Filters to measure: ``shares`` of the documents by seeded attributes, and values of some ``fields``."""

    shares: tuple[float, ...] = ()
    fields: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Return whether there is any filter."""
        return bool(self.shares or self.fields)

    def words(self) -> list[str]:
        """Name each of them."""
        seeded = [f"a seeded attribute of {share:.10g} of the documents" for share in self.shares]
        return [*seeded, *(f"up to {MOST_VALUES} values of '{field}'" for field in self.fields)]


class SweptFilter(NamedTuple):
    """One filter of a sweep: its name in reports, the matching documents, and all fields of the sweep."""

    name: str
    filtered: FilterResult


def sweep_filters(sweep: FilterSweep, documents: int, attributes: pa.Table | None, seed: int) -> list[SweptFilter]:
    """Return the filters of a sweep on a corpus, in its order; values of a field the most frequent first.

    A seeded attribute is ``yes`` for the first documents of one permutation that all attributes share, as many as its
    share comes to and at least one, and ``no`` for the others. For a field with many values, the values chosen are
    those whose frequencies lie nearest to :data:`MOST_VALUES` points between the highest and the lowest, evenly spaced
    on a logarithmic scale. ``attributes`` holds the fields, a string column each.
    """
    shuffled = np.argsort(np.random.default_rng(seed).permutation(documents))
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    conditions: list[tuple[str, dict[str, str]]] = []
    for number, share in enumerate(sweep.shares, 1):
        field = f"filter_sweep_{number}"
        matching = shuffled < max(1, round(share * documents))
        columns[field] = strings(np.where(matching, _YES, _NO).tolist())
        conditions.append((f"seeded {share:.10g}", {field: _YES}))
    for field in sweep.fields:
        if attributes is None:
            raise ValueError(f"there is no column '{field}'")
        columns[field] = attributes.column(field)
        conditions += [
            (format_filter({field: value}), {field: value}) for value in _spread_values(attributes.column(field))
        ]
    table = pa.table(columns)
    return [SweptFilter(name, FilterResult(fields, table, matching_rows(table, fields))) for name, fields in conditions]


def _spread_values(column: pa.ChunkedArray) -> Sequence[str]:
    counted = pc.value_counts(pc.drop_null(column)).to_pylist()
    values = sorted((-int(entry["counts"]), str(entry["values"])) for entry in counted)  # the most frequent first
    if len(values) <= MOST_VALUES:
        return [value for _, value in values]
    frequencies = np.log([-count for count, _ in values])
    points = np.linspace(frequencies[0], frequencies[-1], MOST_VALUES)
    nearest: list[int] = []
    for point in points:
        distances = np.abs(frequencies - point)
        distances[nearest] = np.inf  # of equal frequencies, each is nearest to one point
        nearest.append(int(np.argmin(distances)))
    return [values[position][1] for position in sorted(nearest)]
