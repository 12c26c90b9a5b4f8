"""Metadata of an index made outside the harness: which of its documents match the filters of queries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from harness.data.field_paths import CONTAINERS, occurrences, text_of
from harness.data.filtering import BoolArray, Conditions, format_filter, numbers_of_text, values_of_text
from harness.data.types import Ids, Int32Array
from harness.engines.external_index import as_id
from harness.engines.interface import FilterMatch
from harness.errors import RejectedInputError, nearest

__all__ = ["ExternalMetadata", "fraction_of_text", "refuse_unknown_field", "shortest_number"]

_SAMPLED_VALUES = 10_000
"""Different values of a field that are remembered, to name the nearest of them."""
_FIX = "correct the field in the filters of the questions"


class ExternalMetadata(ABC):
    """The metadata of an external index, by row; a subclass implements :meth:`metadata`.

    A document matches a value if the field has it, either at the top or in one of the ``containers``. A list has the
    value if one of its elements is the value.

    Attributes:
        ids: Ids of the documents, by row.
        lists: Fields in which documents have lists, among the fields that :meth:`matching` has read.
        containers: Names under which documents keep further fields.
        numbers_by_value: Whether the engine finds 1971 and 1971.0 equal; otherwise numbers are compared as text.
    """

    ids: Ids
    lists: frozenset[str] = frozenset()
    containers: Sequence[str] = CONTAINERS
    numbers_by_value: ClassVar[bool] = True

    @abstractmethod
    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield rows of documents and their metadata with at least these fields, page by page.

        Raises RejectedInputError for a field by which the engine cannot filter.
        """

    def id_in(self, record: Mapping[str, Any], field: str) -> str | None:
        """Return a field of a record as an id; None if it is neither text nor a whole number."""
        return as_id(next(occurrences(record, field, self.containers), None))

    def matching(self, filters: Sequence[Conditions]) -> list[FilterMatch]:
        """Return the documents that match each filter, by the metadata that the index returns.

        Raises RejectedInputError for a field that no document has, and as :meth:`metadata`.
        """
        conditions = {condition for fields in filters for condition in fields.items()}
        fields = list(dict.fromkeys(field for of_query in filters for field in of_query))
        rows_of: dict[tuple[str, Hashable], list[int]] = {
            (field, key): [] for field, text in conditions for key in self._keys_of_text(text)
        }
        values: dict[str, Counter[str]] = {field: Counter() for field in fields}
        missing, present, lists = set(fields), set[str](), set[str]()
        for rows, records in self.metadata(fields):
            for row, record in zip(rows.tolist(), records, strict=True):
                present.update(map(str, record))
                for field, value in self._values(record, fields):
                    missing.discard(field)
                    if isinstance(value, list | tuple):
                        lists.add(field)
                    for element in value if isinstance(value, list | tuple) else (value,):
                        rows_of.get((field, self._key_of(element)), []).append(row)
                        _count(values[field], element)
        if missing:
            refuse_unknown_field(min(missing), present)
        self.lists = frozenset(lists)
        masks = {(field, text): self._mask(rows_of, field, text) for field, text in conditions}
        return [self._match(of_query, masks, values) for of_query in filters]

    def _values(self, record: Mapping[str, Any], fields: Sequence[str]) -> Iterator[tuple[str, Any]]:
        for field in fields:
            for value in occurrences(record, field, self.containers):
                yield field, value

    def _mask(self, rows_of: Mapping[tuple[str, Hashable], list[int]], field: str, text: str) -> BoolArray:
        mask: BoolArray = np.zeros(len(self.ids), dtype=np.bool_)
        for key in self._keys_of_text(text):
            mask[rows_of[field, key]] = True
        return mask

    def _match(
        self,
        conditions: Conditions,
        masks: Mapping[tuple[str, str], BoolArray],
        values: Mapping[str, Mapping[str, int]],
    ) -> FilterMatch:
        matching: BoolArray = np.ones(len(self.ids), dtype=np.bool_)
        for condition in conditions.items():
            matching &= masks[condition]
        if matching.any():
            return FilterMatch(matching)
        for field, text in conditions.items():
            if not masks[field, text].any():
                return FilterMatch(matching, f"no document has {field}={text}{nearest(text, values[field])}")
        return FilterMatch(matching, f"each value of {format_filter(conditions)} occurs, but not together")

    def _key_of(self, value: object) -> Hashable:
        """Return a key that equal values share."""
        if not self.numbers_by_value:
            return text_of(value)
        if isinstance(value, str | bool | int | float):
            return "text" if isinstance(value, str) else isinstance(value, bool), value
        return None

    def _keys_of_text(self, text: str) -> Iterable[Hashable]:
        """Return the keys of the values that have this text."""
        values = (*values_of_text(text), *numbers_of_text(text))
        return dict.fromkeys(map(self._key_of, values)) if self.numbers_by_value else (text,)


def _count(values: Counter[str], value: object) -> None:
    text = text_of(value)
    if text is not None and (text in values or len(values) < _SAMPLED_VALUES):
        values[text] += 1


def refuse_unknown_field(field: str, names: Iterable[str]) -> NoReturn:
    """Raise RejectedInputError for a field that no document has; ``names`` are the existing fields."""
    raise RejectedInputError(
        f"no document of the external index has the metadata field '{field}'{nearest(field, names)}", fix=_FIX
    )


def shortest_number(value: float, kind: type[np.floating[Any]]) -> float:
    """Return a number of a type by its shortest text: 0.1, not 0.10000000149; infinity if the type overflows."""
    with np.errstate(over="ignore"):
        return float(str(kind(value)))


def fraction_of_text(text: str, kind: type[np.floating[Any]]) -> float | None:
    """Return the number whose shortest text in a type is this, as a float; None if the type has no such number."""
    fractions = (number for number in numbers_of_text(text) if isinstance(number, float))
    return next((number for number in fractions if shortest_number(number, kind) == number), None)
