"""A list for each field: ``Dataset.to_dict()`` of Hugging Face, ``DataFrame.to_json()`` of pandas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.data.golden_shapes.base import GoldenContent, records_of


class ColumnsShape:
    """An object with a list, or an object of rows, for each field; or pandas' ``split``."""

    name = "JSON by columns"
    content = "a list for each field, or the orientations `columns` and `split` of pandas"
    example = '{"question": ["why?", "who?"], "expected": [["d1"], ["d2"]]}'
    names = frozenset[str]()

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the rows as records."""
        value = content.mapping or {}
        names, data = value.get("columns"), value.get("data")
        if isinstance(names, list) and isinstance(data, list) and all(isinstance(row, list) for row in data):
            value = {str(name): [_cell(row, position) for row in data] for position, name in enumerate(names)}
        columns = content.golden_columns
        if not columns.has_question(value):
            return None
        lists = {name: _rows(column) for name, column in value.items()}
        if any(rows is None for rows in lists.values()):
            return None
        lengths = {name: len(rows) for name, rows in lists.items() if rows is not None}
        if len(set(lengths.values())) > 1:
            text = ", ".join(f"'{name}' has {length:,}" for name, length in lengths.items())
            raise ValueError(f"the lists of the fields have different lengths: {text}")
        rows = zip(*(rows for rows in lists.values() if rows is not None), strict=True)
        return GoldenContent(
            records_of([dict(zip(lists, row, strict=True)) for row in rows]),
            columns=content.columns,
            option=content.option,
        )


def _cell(row: list[Any], position: int) -> Any:
    return row[position] if position < len(row) else None


def _rows(column: Any) -> list[Any] | None:
    """Return the values of a column; None for anything that is not one."""
    if isinstance(column, list):
        return column
    return list(column.values()) if isinstance(column, Mapping) else None
