"""Names of the fields of runs and judgments, by which names that the user gave are compared with what exists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.data.columns import RecordBatch, matching_fields
from harness.data.frames import as_table
from harness.data.memory import part_of_file
from harness.data.problems import Problems
from harness.errors import UsageError, nearest
from harness.loaders.records import DELIMITERS, first_fields, first_records, is_value, read_value
from harness.loaders.run_lines import first_words, with_spaces
from harness.loaders.run_tables import header_in
from harness.loaders.source import Source
from harness.loaders.structured_files import format_in, read_start
from harness.loaders.text_columns import NUMBER, normalised

_FIRST = 100
"""Elements of a list, or of an object, whose names are looked at."""
_DEEPEST = 10


def refuse_absent_fields(columns: Mapping[str, str], values: Iterable[object], option: str) -> None:
    """Raise UsageError for a field that ``columns`` names and none of some runs and judgments has.

    Args:
        columns: field by role; a number is the position of a column in lines without a header.
        values: runs and judgments, as objects or paths.
        option: the name of the argument, for the message.
    """
    if not columns:
        return
    present: dict[str, None] = {}
    left = dict(columns)
    for value in values:
        present |= dict.fromkeys(_names_in(value, columns))
        left = {role: field for role, field in left.items() if not matching_fields(field, present)}
        if not left:
            return
    role, field = next(iter(left.items()))
    fields = [name for name in present if not name.isdecimal()]
    existing = f"there are: {', '.join(fields)}" if fields else "the files have lines without named fields"
    raise UsageError(
        f"no run and no judgments have the field '{field}', which {option} names as the {role}{nearest(field, fields)}",
        fix=f"name an existing field, or leave it out ({existing})",
    )


def _names_in(value: object, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the names of the fields of a run or of judgments; positions of columns for lines without a header."""
    if isinstance(value, str | PathLike):
        yield from _names_in_file(part_of_file(value).path, columns)
        return
    table = as_table(value)
    if table is not None:
        yield from map(str, table.column_names if isinstance(table, pa.Table) else table.columns)
    else:
        yield from _nested_names(value)


def _names_in_file(path: Path, columns: Mapping[str, str]) -> Iterator[str]:
    """Yield the names in a file that was read before, so that its faults are not looked at."""
    ending, source = format_in(path), Source(path.parent)
    if ending is None or ending in DELIMITERS:
        start = read_start(path)
        header = header_in(start.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace"), columns)
        cells = first_fields(source, path.name) if ending is not None and header is None else []
        is_header = bool(cells) and not any(map(NUMBER.fullmatch, cells))
        words = first_words(normalised(with_spaces(start, ending)))
        yield from header or (cells if is_header else map(str, range(1, len(words) + 1)))
    elif is_value(ending):
        with source.open(path.name) as stream:
            yield from _nested_names(read_value(stream, Problems(path.name), [], ending=ending))
    else:
        yield from _nested_names(first_records(source, path.name))


def _nested_names(value: Any, level: int = 1) -> Iterator[str]:
    """Yield the names of the fields of records, and of records in them."""
    if isinstance(value, RecordBatch):
        value = value.records
    if level > _DEEPEST:
        return
    if isinstance(value, Mapping):
        for name, item in islice(value.items(), _FIRST):
            yield str(name)
            yield from _nested_names(item, level + 1)
    elif hasattr(value, "_fields"):
        yield from value._fields
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for item in value[:_FIRST]:
            yield from _nested_names(item, level + 1)
