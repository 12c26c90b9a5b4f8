"""Records of files in every common shape: JSON Lines, a JSON array or object, YAML, CSV, TSV, workbooks and Parquet.

A record is a dictionary of field names to values. JSON and Parquet keep the types of their values; cells of CSV and TSV
are strings.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import PurePath
from typing import Any, BinaryIO, NamedTuple

import orjson
import pyarrow as pa

from harness.data.arrow import python_values
from harness.data.columns import RecordBatch, abbreviated
from harness.data.problems import Problems
from harness.loaders.containers import WORKBOOKS, plain_name
from harness.loaders.extra_formats import workbook_rows, yaml_value
from harness.loaders.source import Block, Source, is_blank, note_blank, read_blocks
from harness.store.decompression import READ_ERRORS
from harness.wording import counted

_BATCH = 8192
_DEEPEST = 100
"""Levels of lists and objects in a record. Later readers take 254 (orjson) or as many as Python's stack has."""
TOO_DEEP = f"lists and objects are nested more than {_DEEPEST} deep"
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
"""Ending -> separator of cells, which are text."""
_KEY_MARK = re.compile(rb'"[ \t\r\n]*:')
"""The mark behind each key."""
_IN_STRING = re.compile(rb'\\"[ \t\r\n]*:')
"""The same inside a string, in which a backslash precedes a quotation mark."""
_OTHER_DELIMITERS = re.compile(r"[,;\t|]")
_JSON_LINES = (".jsonl", ".ndjson")
YAML = (".yaml", ".yml")
ENDINGS = (*_JSON_LINES, ".json", *YAML, *DELIMITERS, *WORKBOOKS, ".parquet")
"""The endings of files that hold records; all but the last also compressed."""
TABLES = (*DELIMITERS, *WORKBOOKS)
"""The endings of tables whose cells are text."""


class Sheet(NamedTuple):
    """The sheet of a workbook, None for the only one with content; ``remedy`` says what to do about several."""

    name: str | None = None
    remedy: str = "keep one"


IsHeader = Callable[[Sequence[str]], bool]


def format_of(member: str) -> str | None:
    """Return the ending that says how a file is read, compressed or not; None for a file that holds no records."""
    ending = PurePath(plain_name(member)).suffix.lower()
    return ending if ending in ENDINGS else None


def is_value(ending: str) -> bool:
    """Return whether a file with this ending holds one value, a list or an object, and not lines or rows."""
    return ending == ".json" or ending in YAML


def unit_of(member: str) -> str:
    """Return the unit that the numbers of a file's records count."""
    ending = format_of(member) or ""
    if is_value(ending):
        return "record"
    return "row" if ending == ".parquet" or ending in WORKBOOKS else "line"


def read_records(
    stream: BinaryIO,
    problems: Problems,
    notes: list[str],
    *,
    ending: str,
    is_header: IsHeader | None = None,
    without_header: Sequence[str] = (),
    nested: bool = False,
    sheet: Sheet | None = None,
    single_cells: bool = False,
) -> Iterator[RecordBatch]:
    """Yield the records of a file, read as its ``ending`` says, see :func:`format_of`.

    Faulty records are noted in ``problems`` and left out; blank lines are counted in ``notes``. A table of as many
    columns as ``without_header`` names, whose first row is not a header by ``is_header``, is read with those names, and
    its quotes are plain characters. Columns of lists and structures of Parquet are read only if ``nested`` is true.
    If ``single_cells`` is true, a row of a table may end after its first cell: the values of its other fields are None.
    """
    if ending in _JSON_LINES:
        return _json_lines(stream, problems, notes)
    if is_value(ending):
        return _json(stream, problems, notes, ending)
    if ending in WORKBOOKS:
        return _workbook(stream, problems, sheet or Sheet())
    if ending == ".parquet":
        return _parquet(stream, problems, nested=nested)
    names = without_header if is_header is not None else ()
    return _table(stream, DELIMITERS[ending], problems, notes, is_header or bool, names, single_cells)


def first_fields(source: Source, member: str) -> list[str]:
    """Return the names of the fields of a file's first record, in their order; empty if it cannot be read."""
    return next((list(record) for record in first_records(source, member)), [])


def first_records(source: Source, member: str) -> list[dict[str, Any]]:
    """Return the records at the beginning of a file, some hundreds at most; none if no record can be read."""
    with source.open(member) as stream:
        batches = read_records(stream, Problems(member), [], ending=format_of(member) or ".jsonl", nested=True)
        return next((batch.records for batch in batches if batch.records), [])


def _json_lines(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[RecordBatch]:
    blank = 0
    for block in read_blocks(stream, problems, notes):
        batch = _parse_block(block)
        if batch is None:
            batch = _parse_lines(block, problems)
            blank += sum(map(is_blank, block.lines))
        if batch.lines:
            yield batch
    note_blank(blank, notes)


def _parse_block(block: Block) -> RecordBatch | None:
    """Return the records of a block in which every line is an object, else None."""
    try:
        records = list(map(orjson.loads, block.lines))
    except orjson.JSONDecodeError:
        return None
    content = b"".join(block.lines)
    if content.count(b"{") + content.count(b"[") > len(records) + _DEEPEST and any(map(is_too_deep, records)):
        return None
    if set(map(type, records)) != {dict} or _may_repeat_keys(content, records):
        return None
    return RecordBatch(list(range(block.first, block.first + len(records))), records)


def _parse_lines(block: Block, problems: Problems) -> RecordBatch:
    batch = RecordBatch([], [])
    for number, content in enumerate(block.lines, block.first):
        if is_blank(content):
            continue
        try:
            record = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            problems.add(number, explain_malformed(content, error))
            continue
        if is_too_deep(record):
            problems.add(number, TOO_DEEP)
            continue
        twice = repeated_key(content, record)
        if twice is not None:
            problems.add(number, f"the key '{twice}' occurs twice")
        elif isinstance(record, dict):
            batch.lines.append(number)
            batch.records.append(record)
        else:
            several = "; a list of objects is read from a .json file" if isinstance(record, list) else ""
            problems.add(number, f"a JSON object is expected, not {abbreviated(record)}{several}")
    return batch


def is_too_deep(value: object, levels: int = _DEEPEST) -> bool:
    """Return whether lists and objects are nested more than ``levels`` deep."""
    if not isinstance(value, dict | list):
        return False
    inner = [item for item in (value.values() if isinstance(value, dict) else value) if isinstance(item, dict | list)]
    return bool(inner) and (levels <= 1 or any(is_too_deep(item, levels - 1) for item in inner))


def repeated_key(content: bytes, value: object) -> str | None:
    """Return the first key that an object of JSON text has twice, also in nested objects; ``value`` is the text parsed.

    orjson keeps the last value of such a key and says nothing.
    """
    if not _may_repeat_keys(content, [value]):
        return None
    twice: list[str] = []

    def note(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            twice.append(next(name for name in names if names.count(name) > 1))

    json.loads(content, object_pairs_hook=note)
    return twice[0] if twice else None


def _may_repeat_keys(content: bytes, values: Sequence[object]) -> bool:
    """Return False if JSON texts have no more keys than their values, by the marks that only keys have.

    Only texts for which this is True are parsed by Python's own reader, which is ten times slower.
    """
    marks, keys = len(_KEY_MARK.findall(content)), sum(map(_count_keys, values))
    return marks != keys and marks - len(_IN_STRING.findall(content)) != keys


def _count_keys(value: object) -> int:
    if type(value) is dict:
        count = len(value)
        for item in value.values():
            if type(item) is dict or type(item) is list:
                count += _count_keys(item)
        return count
    return sum(map(_count_keys, value)) if type(value) is list else 0


def explain_malformed(content: bytes, error: orjson.JSONDecodeError) -> str:
    """Return why bytes are not JSON, in words, with the column."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"not UTF-8: byte 0x{content[undecodable.start]:02x} in column {undecodable.start + 1}"
    if content.strip() == b"[":
        return "malformed JSON: one object per line is expected; a list of objects is read from a .json file"
    location = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
    return f"malformed JSON: {error.msg} in {location}"


def _json(stream: BinaryIO, problems: Problems, notes: list[str], ending: str) -> Iterator[RecordBatch]:
    """Yield the objects of a list, or the values of an object with their keys as ``_id``; or JSON Lines."""
    content_value = read_value(stream, problems, notes, ending=ending)
    if isinstance(content_value, RecordBatch):
        yield content_value
        return
    if content_value is None:
        return
    if (keys := keys_of_list(content_value)) is not None:
        problems.add(None, f"a list of objects is expected; it is under '{keys}': write only that list")
        return
    if isinstance(content_value, dict):
        content_value = [
            {**(value if isinstance(value, dict) else {"text": value}), "_id": key}
            for key, value in content_value.items()
        ]
    if not isinstance(content_value, list):
        problems.add(None, f"a list of objects is expected, not {abbreviated(content_value)}")
        return
    for start in range(0, len(content_value), _BATCH):
        yield object_batch(content_value[start : start + _BATCH], start + 1, problems)


def object_batch(values: Sequence[object], first: int, problems: Problems) -> RecordBatch:
    """Return the objects among values, numbered from ``first``; others are noted."""
    batch = RecordBatch([], [])
    for number, record in enumerate(values, first):
        if isinstance(record, dict):
            batch.lines.append(number)
            batch.records.append(record)
        else:
            problems.add(number, f"an object is expected, not {abbreviated(record)}")
    return batch


def read_value(stream: BinaryIO, problems: Problems, notes: list[str], *, ending: str) -> Any:
    """Return the value of a JSON or YAML file, a batch of records if it is JSON Lines; None after noting a problem.

    Objects have no key twice, and lists and objects are not nested too deeply.
    """
    lines = [line for block in read_blocks(stream, problems, notes) for line in block.lines]
    if problems.count:
        return None
    if ending in YAML:
        try:
            value = yaml_value(b"".join(lines), _DEEPEST)
        except ValueError as error:
            problems.add(None, str(error))
            return None
        if value is None or value == []:
            problems.add(None, "the file holds nothing")
            return None
        return value
    content = b"".join(lines)
    try:
        content_value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        filled = [(number, line) for number, line in enumerate(lines, 1) if not is_blank(line)]
        if len(filled) > 1 and all(line.lstrip().startswith(b"{") for _, line in filled):
            return _parse_lines(Block(1, lines), problems)
        problems.add(None, explain_malformed(content, error))
        return None
    if is_too_deep(content_value):
        problems.add(None, TOO_DEEP)
        return None
    twice = repeated_key(content, content_value)
    if twice is not None:
        problems.add(None, f"the key '{twice}' occurs twice in one object")
        return None
    if content_value is None:
        problems.add(None, "a list of objects is expected, not null")
    return content_value


def keys_of_list(value: object) -> str | None:
    """Return the keys, joined by dots, under which an object holds a list of objects; None for any other value."""
    if not isinstance(value, dict):
        return None
    for key, item in value.items():
        if isinstance(item, list) and item and all(isinstance(one, dict) for one in item):
            return str(key)
    nested = ((key, keys_of_list(item)) for key, item in value.items())
    return next((f"{key}.{keys}" for key, keys in nested if keys is not None), None)


def _parquet(stream: BinaryIO, problems: Problems, *, nested: bool) -> Iterator[RecordBatch]:
    """Yield the rows of a Parquet file; lists and structures are not ids, texts or grades, and may be large vectors."""
    from pyarrow.parquet import ParquetFile  # 50 ms and 9 MB that no worker needs

    first = 1
    try:
        with ParquetFile(stream) as file:
            column_names = [field.name for field in file.schema_arrow if nested or not pa.types.is_nested(field.type)]
            names = file.schema_arrow.names
            repeated = sorted({name for name in column_names if names.count(name) > 1})
            for name in repeated:
                problems.add(None, f"the column '{name}' occurs {names.count(name)} times")
            for table in file.iter_batches(_BATCH, columns=column_names) if not repeated else ():
                columns = [python_values(table.column(name), name) for name in column_names]
                records = [dict(zip(column_names, row, strict=True)) for row in zip(*columns, strict=True)]
                yield RecordBatch(list(range(first, first + len(records))), records)
                first += len(records)
    except (*READ_ERRORS, ValueError, pa.ArrowException) as error:
        problems.add(None, f"cannot be read as Parquet: {error}")


def _workbook(stream: BinaryIO, problems: Problems, sheet: Sheet) -> Iterator[RecordBatch]:
    """Yield the rows of a sheet below its header, whose cells are text, as those of CSV."""
    try:
        rows = workbook_rows(stream.read(), sheet.name, sheet.remedy)
    except (ValueError, *READ_ERRORS) as error:
        problems.add(None, str(error))
        return
    header = [cell.strip() for cell in rows[0].cells] if rows else []
    while header and not header[-1]:
        header.pop()
    for name in sorted({name for name in header if header.count(name) > 1}):
        problems.add(rows[0].number, f"the header names the column '{name}' {header.count(name)} times")
    batch = RecordBatch([], [])
    for row in rows[1:]:
        cells = [*row.cells, *[""] * (len(header) - len(row.cells))]
        if any(cells[len(header) :]):
            problems.add(row.number, f"{counted(len(cells), 'cell')}, but the header has {len(header)}")
        else:
            batch.lines.append(row.number)
            batch.records.append(dict(zip(header, cells, strict=False)))
    if batch.lines and not problems.count:
        yield batch


def _table(
    stream: BinaryIO,
    delimiter: str,
    problems: Problems,
    notes: list[str],
    is_header: IsHeader,
    without_header: Sequence[str],
    single_cells: bool,
) -> Iterator[RecordBatch]:
    """Yield the rows of a table. A quoted cell may go over several lines; a row is named by its first."""
    csv.field_size_limit(sys.maxsize)
    lines = _decoded(stream, problems, notes)
    first = next(lines, "")
    number = 1
    while first and not first.strip():
        first, number = next(lines, ""), number + 1
    if not first:
        return
    if delimiter not in first and (other := _OTHER_DELIMITERS.search(first)) is not None:
        delimiter = other[0]
        notes.append(f"cells are separated by {delimiter!r}")
    plain = first.rstrip("\r\n").split(delimiter)
    header = None
    if len(plain) == len(without_header) and not is_header(plain):
        header = list(without_header)
        notes.append(f"there is no header: the columns are taken as {', '.join(header)}")
    yield from _rows(chain([first], lines), number, delimiter, header, problems, single_cells=single_cells)


def _decoded(stream: BinaryIO, problems: Problems, notes: list[str]) -> Iterator[str]:
    for block in read_blocks(stream, problems, notes):
        for number, line in enumerate(block.lines, block.first):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                problems.add(number, f"not UTF-8: byte 0x{line[error.start]:02x} in column {error.start + 1}")
                yield "\n"


def _rows(
    lines: Iterator[str],
    number: int,
    delimiter: str,
    header: list[str] | None,
    problems: Problems,
    *,
    single_cells: bool,
) -> Iterator[RecordBatch]:
    """Yield the rows from line ``number`` on; without a ``header`` the first row is one.

    Rows of one cell have the other fields as None if ``single_cells`` is true.
    """
    if header is None:
        reader = csv.reader(lines, delimiter=delimiter, strict=True)
    else:
        reader = csv.reader(lines, delimiter=delimiter, strict=True, quoting=csv.QUOTE_NONE)
    before, batch = number - 1, RecordBatch([], [])
    start = number
    try:
        for cells in reader:
            line, start = start, before + reader.line_num + 1
            if not cells:
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                repeated = sorted({name for name in header if header.count(name) > 1})
                for name in repeated:
                    problems.add(line, f"the header names the column '{name}' {header.count(name)} times")
                if repeated:
                    return
            elif len(cells) != len(header) and not (single_cells and len(cells) == 1):
                problems.add(line, f"{counted(len(cells), 'cell')}, but the header has {len(header)}")
            else:
                batch.lines.append(line)
                batch.records.append(dict(zip_longest(header, cells)))
                if len(batch.lines) >= _BATCH:
                    yield batch
                    batch = RecordBatch([], [])
    except csv.Error as error:
        problems.add(start, f"malformed table: {error}")
    if batch.lines:
        yield batch
