"""YAML and Excel workbooks, whose readers come with the extra ``[files]``.

YAML is read as JSON is: a plain scalar is a number, true, false or null only if JSON would write it so, and any other
one is text (``no``, ``007``, ``2024-01-01``, ``1.10``), so that ids stay as they are written.
"""

from __future__ import annotations

import datetime as dt
import importlib
import io
import re
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from harness.store.decompression import READ_ERRORS, expanded_limit

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(0|[1-9][0-9]*)\.[0-9]+")
_CONSTANTS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = ("", "~", "null", "Null", "NULL")
_TAG = "tag:yaml.org,2002:"
_MERGE = "<<"


class _Item(NamedTuple):
    """A value, and how many characters it would have if no part of it were shared."""

    value: Any
    size: int


class _Collection:
    """A list or an object whose end has not been read; ``key`` is the key of an object's next value."""

    def __init__(self, event: Any, value: list[Any] | dict[str, Any]) -> None:
        self.anchor, self.line, self.value, self.size = event.anchor, event.start_mark.line + 1, value, 1
        self.key: str | None = None
        self.is_merge = False
        self.merged: list[dict[str, Any]] = []


class _YamlReader:
    """Builds values from the events of a parser, which never recurses; ``limit`` bounds what aliases repeat."""

    def __init__(self, limit: int, deepest: int) -> None:
        self._limit, self._deepest = limit, deepest
        self._open: list[_Collection] = []
        self._anchors: dict[str, _Item] = {}
        self.documents: list[Any] = []

    def read(self, event: Any) -> None:
        """Take the next event; raises ValueError for content that JSON could not hold."""
        kind = type(event).__name__
        if kind == "DocumentStartEvent":
            self._anchors = {}
        elif kind in ("SequenceStartEvent", "MappingStartEvent"):
            self._start(event, [] if kind == "SequenceStartEvent" else {})
        elif kind in ("SequenceEndEvent", "MappingEndEvent"):
            closed = self._open.pop()
            for more in closed.merged:
                closed.value = {**more, **closed.value}  # type: ignore[dict-item]
            self._add(_Item(closed.value, closed.size), closed.anchor, event)
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                raise ValueError(f"{_line(event)}: '*{event.anchor}' repeats a value that is not complete")
            self._add(self._anchors[event.anchor], None, event)
        elif kind == "ScalarEvent":
            self._add(_Item(_scalar(event), len(event.value) + 1), event.anchor, event)

    def _start(self, event: Any, value: list[Any] | dict[str, Any]) -> None:
        if event.tag not in (None, "!", f"{_TAG}seq", f"{_TAG}map"):
            raise ValueError(f"{_line(event)}: the tag '{event.tag}' is not read")
        if len(self._open) >= self._deepest:
            raise ValueError(f"{_line(event)}: lists and objects are nested more than {self._deepest} deep")
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            raise ValueError(f"{_line(event)}: a key is a list or an object, expected text")
        self._open.append(_Collection(event, value))

    def _add(self, item: _Item, anchor: str | None, event: Any) -> None:
        if anchor is not None:
            self._anchors[anchor] = item
        if not self._open:
            self.documents.append(item.value)
            return
        parent = self._open[-1]
        parent.size += item.size
        if parent.size > self._limit:
            raise ValueError(f"{_line(event)}: aliases repeat more than {self._limit:,} characters")
        if isinstance(parent.value, list):
            parent.value.append(item.value)
        elif parent.key is None:
            key = event.value if type(event).__name__ == "ScalarEvent" else item.value
            if not isinstance(key, str):
                raise ValueError(f"{_line(event)}: a key is {key!r}, expected text")
            if key in parent.value:
                raise ValueError(f"{_line(event)}: the key '{key}' occurs twice in one object")
            parent.key = key
            parent.is_merge = key == _MERGE and type(event).__name__ == "ScalarEvent" and event.implicit[0]
        else:
            self._set(parent, parent.key, item.value, event)
            parent.key = None

    def _set(self, parent: _Collection, key: str, value: Any, event: Any) -> None:
        if not parent.is_merge:
            parent.value[key] = value  # type: ignore[call-overload]
            return
        for merged in value if isinstance(value, list) else [value]:
            if not isinstance(merged, dict):
                raise ValueError(f"{_line(event)}: '<<' merges {merged!r}, expected an object")
            parent.merged.append(merged)


def _line(event: Any) -> str:
    return f"line {event.start_mark.line + 1}"


def _scalar(event: Any) -> Any:
    """Return the value of a scalar: text, unless it is plain, or tagged, and JSON would write it so."""
    text, tag = event.value, event.tag
    if tag not in (None, "!", *(f"{_TAG}{name}" for name in ("str", "int", "float", "bool", "null"))):
        raise ValueError(f"{_line(event)}: the tag '{tag}' is not read")
    if tag in ("!", f"{_TAG}str") or (tag is None and not event.implicit[0]):
        return text
    if text in _NULLS:
        return None
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and repr(float(text)) == text:
        return float(text)
    return text


def yaml_value(content: bytes, deepest: int) -> Any:
    """Return the value of a YAML file; of several documents their list.

    ``deepest`` is the largest number of levels of lists and objects.

    Raises ValueError, with the line, for malformed YAML, tags, repeated keys, keys that are not text, aliases that
    repeat too much, and values that are nested too deeply.
    """
    yaml = importlib.import_module("yaml")
    reader = _YamlReader(expanded_limit(len(content)), deepest)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: not UTF-8: byte 0x{content[error.start]:02x}") from error
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            reader.read(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        position = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read"
        raise ValueError(f"malformed YAML: {reason}{position}") from error
    return reader.documents[0] if len(reader.documents) == 1 else reader.documents


class Row(NamedTuple):
    """One row of a sheet that is not empty: its number in the workbook, and its cells as text."""

    number: int
    cells: list[str]


def workbook_rows(content: bytes, sheet: str | None = None, remedy: str = "keep one") -> list[Row]:
    """Return the rows of a workbook's only sheet with content, or of the sheet of that name.

    ``remedy`` says what to do about several sheets. A number is written as JSON writes it, a whole one without
    decimals, a date in ISO 8601, and an empty cell is "".

    Raises ValueError, in words that follow the name of the file, for a damaged workbook, one that expands too much, a
    sheet that is missing, several sheets with content, and formulas without a stored value.
    """
    openpyxl = importlib.import_module("openpyxl")
    try:
        _refuse_bombs(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of decoration that is not read
            formulas = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=False)
            values = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
            name = _sheet_name(formulas, sheet, remedy)
            rows = zip(_rows(formulas[name]), _rows(values[name]), strict=True)
            texts = [[_cell(*pair) for pair in zip(*row, strict=True)] for row in rows]
        return [Row(number, cells) for number, cells in enumerate(texts, 1) if any(cells)]
    except (KeyError, IndexError, AttributeError, TypeError, SyntaxError, *READ_ERRORS) as error:
        raise ValueError(f"is not a readable workbook: {error}") from error


def _refuse_bombs(content: bytes) -> None:
    """Refuse a workbook whose parts expand too much, or define entities of XML, which may do so."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size, limit = sum(member.file_size for member in archive.infolist()), expanded_limit(len(content))
        if size > limit:
            raise ValueError(f"holds more than {limit:,} bytes, which is very much for its compressed size")
        for member in archive.infolist():
            if member.filename.endswith((".xml", ".rels")):
                with archive.open(member) as part:
                    if b"<!DOCTYPE" in part.read(_PROLOG_BYTES):
                        raise ValueError(f"is not a readable workbook: '{member.filename}' defines entities")


_PROLOG_BYTES = 4096


def _sheet_name(workbook: Any, sheet: str | None, remedy: str) -> str:
    names = [str(one.title) for one in workbook.worksheets]
    if sheet is not None:
        if sheet not in names:
            raise ValueError(f"has no sheet '{sheet}'; it has: {', '.join(names)}")
        return sheet
    filled = [
        name for name in names if any(any(cell.value is not None for cell in row) for row in _rows(workbook[name]))
    ]
    if len(filled) > 1:
        quoted = " and ".join(f"'{name}'" for name in filled)
        raise ValueError(f"has several sheets with content, {quoted}: {remedy}")
    if not filled:
        raise ValueError("has no sheet with content")
    return filled[0]


def _rows(sheet: Any) -> Iterator[tuple[Any, ...]]:
    sheet.reset_dimensions()  # a file may state any size
    return sheet.iter_rows()  # type: ignore[no-any-return]


def _cell(written: Any, stored: Any) -> str:
    if written.data_type == "f" and stored.value is None:
        raise ValueError(f"has a formula without a stored value in {written.coordinate}: open it, and save it again")
    if stored.data_type == "e":
        raise ValueError(f"has the error {stored.value} in {stored.coordinate}")
    value = stored.value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return str(value.date())
    return str(value.isoformat() if isinstance(value, dt.date | dt.time) else value)
