"""An object whose keys are the ids of questions, and whose values are the questions."""

from __future__ import annotations

from collections.abc import Mapping

from harness.data.golden_shapes.base import GoldenContent, GoldenRecord, name_fields_by_text


class ByIdShape:
    """``{id: record}``."""

    name = "JSON by id"
    content = "an object with a record for each id"
    example = '{"q1": {"question": "why?", "expected": ["d1"]}}'
    names = frozenset[str]()

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the values with their keys as ids."""
        value = content.mapping or {}
        records = [name_fields_by_text(record) for record in value.values() if isinstance(record, Mapping)]
        if not records or len(records) < len(value) or not content.golden_columns.covers(records[0]):
            return None
        numbered = enumerate(zip(value, records, strict=True), 1)
        return GoldenContent(
            tuple(
                GoldenRecord(number, record if record.get("id") == key else {**record, "_id": key})
                for number, (key, record) in numbered
            ),
            columns=content.columns,
        )
