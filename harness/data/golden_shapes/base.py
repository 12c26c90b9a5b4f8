"""The content of a golden set before its fields are looked up, and the protocol of shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from harness.data.columns import OPTION
from harness.data.golden_fields import GoldenColumns


class GoldenRecord(NamedTuple):
    """One record: its line, counted from 1, and its fields. Values of a ``table`` are cells, which are text."""

    line: int
    values: Mapping[str, Any]
    table: bool = False


@dataclass(frozen=True, slots=True)
class GoldenContent:
    """The content of a golden set: an object, or records.

    ``mapping`` is the object, None once records are known. ``columns`` are fields, or dotted paths, by role.
    ``documents`` are records of documents with ``_id`` and ``text``, None for a golden set without them. With
    ``joins_ids`` several records of one id are one question. ``option`` is the name of the argument of columns, for
    messages.
    """

    records: Sequence[GoldenRecord] = ()
    mapping: Mapping[str, Any] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    documents: Sequence[Mapping[str, Any]] | None = None
    joins_ids: bool = False
    option: str = OPTION

    @property
    def golden_columns(self) -> GoldenColumns:
        """The fields of the records."""
        return GoldenColumns(self.columns, self.option)


class GoldenShape(Protocol):
    """One way to write a golden set, which is neither a list of records nor a table of one question a row."""

    name: str
    """A short name, for the table of shapes."""
    content: str
    """Where questions and expected documents are, for the table of shapes."""
    example: str
    """The smallest example, for the table of shapes."""
    names: frozenset[str]
    """Names in lower case; content of this shape has at least one of them. Empty if an object may have any names."""

    def read(self, content: GoldenContent) -> GoldenContent | None:
        """Return the content in a form that is closer to records with usual names; None for another shape.

        Raises ValueError, in words for the user, if there are two ways to read it, or something is missing.
        """


def records_of(values: Sequence[Any], label: str = "list") -> tuple[GoldenRecord, ...]:
    """Return records numbered from 1; raises ValueError for an element that is not an object."""
    for number, value in enumerate(values, 1):
        if not isinstance(value, Mapping):
            raise ValueError(f"element {number} of the {label} is not an object")
    return tuple(GoldenRecord(number, name_fields_by_text(value)) for number, value in enumerate(values, 1))


def name_fields_by_text(record: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a record whose fields' names are text, which they need not be in Python."""
    return {str(name): value for name, value in record.items()}
