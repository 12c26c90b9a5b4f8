"""Runs and judgments in JSON and Parquet: the shapes that objects have, in a file.

A JSON file holds a dictionary or a list as :mod:`harness.data.memory` takes it, or MTEB's predictions. A JSON Lines
file holds sentence-transformers' predictions, or a table. A Parquet file has named columns; ``harness compare`` writes
runs so. A file with another ending may hold JSON too, as ranx's ``run.lz4`` does.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, cast

import pyarrow as pa

from harness.data.arrow import read_parquet
from harness.data.memory import (
    InputShapes,
    are_predictions,
    described_shape,
    examples_of,
    find_shape,
    judgment_shapes,
    part_of_file,
    run_from_predictions,
    run_shapes,
)
from harness.data.problems import Problems
from harness.data.ranking import check
from harness.data.types import Qrels, Run
from harness.errors import DataError, RankingError
from harness.loaders.containers import (
    PACKED,
    UTF16,
    Compression,
    compression_of,
    is_utf16,
    plain_name,
    unread_kind,
)
from harness.loaders.records import ENDINGS, TOO_DEEP, is_too_deep, keys_of_list
from harness.store.decompression import READ_ERRORS, DamagedError
from harness.user_path import absence

Built = TypeVar("Built", Run, Qrels)

_JSON_LINES = (".jsonl", ".ndjson")
_UNORDERED = (".json", *_JSON_LINES)
_JSON = re.compile(rb"\s*(?:\{\s*[\"}]|\[\s*[\[{\]])")
"""The beginning of an object, or of a list of objects or lists."""
_BOM = b"\xef\xbb\xbf"
_FIELDS = ("query_id", "results")
_START_BYTES = 4096


def format_in(path: str | PathLike[str]) -> str | None:
    """Return the ending of the format of a table or of JSON, by the file's ending or its beginning; None for lines."""
    file = part_of_file(path).path
    ending = _ending(file)
    if ending in (*_READERS, *ENDINGS):
        return ending
    try:
        return json_ending(read_start(file))
    except (OSError, DataError):  # its reader explains it
        return None


def json_ending(start: bytes) -> str | None:
    """Return ``.jsonl`` or ``.json`` for the beginning of a file that holds JSON, None for any other."""
    start = start.removeprefix(_BOM)
    if not _JSON.match(start):
        return None
    first, _, rest = start.lstrip().partition(b"\n")
    try:
        json.loads(first)
    except ValueError:
        return ".json"
    return ".jsonl" if rest.lstrip().startswith(b"{") else ".json"


def is_structured(path: str | PathLike[str]) -> bool:
    """Return whether a run is JSON, Parquet, or predictions in JSON Lines."""
    ending = format_in(path)
    if ending in _JSON_LINES:
        return not _is_line_of_table(read_start(part_of_file(path).path))
    return ending in _READERS


def _is_line_of_table(start: bytes) -> bool:
    """Return whether JSON Lines begin with an object of more than two fields, none of which is a query's results."""
    try:
        record = json.loads(start.removeprefix(_BOM).lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and _FIELDS[1] not in record and len(record) > len(_FIELDS)


def states_order(path: str | PathLike[str]) -> bool:
    """Return whether the hits in a file of a run have an order: in TREC's lines and tables, not in JSON."""
    return format_in(path) not in _UNORDERED


def read_structured_run(path: str | PathLike[str], columns: Mapping[str, str] = MappingProxyType({})) -> Run:
    """Return the run in a file for which :func:`is_structured` holds; ``columns`` are fields by role.

    Raises:
        DataError: the file cannot be read, holds no run, or something in it is wrong.
        UsageError: it holds several runs, and the text after ``#`` does not identify one.
    """
    file, fragment = part_of_file(path)
    value = _READERS[format_in(file) or ".json"](file)
    with name_in_errors(str(file)):
        if are_predictions(value):
            run = run_from_predictions(value, fragment, str(file))
        elif fragment:
            raise DataError(str(file), [f"holds one run, and none is called '{fragment}'"], fix="leave out the #")
        else:
            run = _read(value, run_shapes(columns))
        try:
            check(run)
        except RankingError as error:
            raise DataError(str(file), [error.problem], fix=error.fix) from error
    return run


def qrels_of_json(content: bytes, label: str, columns: Mapping[str, str] = MappingProxyType({})) -> Qrels:
    """Return the judgments in a JSON object or list, in one of the shapes that objects may have.

    Raises DataError, which names ``label``, for any fault.
    """
    value = _parsed(content, label)
    with name_in_errors(label):
        return _read(value, judgment_shapes(columns))


def read_start(path: Path) -> bytes:
    """Return a file's first bytes, 4,096 at most, decompressed; raises OSError, and DataError beyond the limits."""
    with path.open("rb") as raw:
        start = raw.read(_START_BYTES)
        compression = compression_of(start)
        if compression is None:
            return start
        raw.seek(0)
        try:
            return compression.open(raw, str(path), path.stat().st_size).read(_START_BYTES)
        except DamagedError:  # its reader names the line
            return b""


def read_content(path: Path) -> bytes:
    """Return a file's bytes, decompressed if they begin like a compressed file, without a byte-order mark.

    Raises DataError if the file is unreadable, empty, or of a kind that is not read.
    """
    try:
        content = path.read_bytes()
        compression = compression_of(content[:_START_BYTES])
        if compression is not None:
            content = _decompressed(content, compression, path)
    except FileNotFoundError as error:
        problem = absence(path) if path.is_symlink() else "the file does not exist"
        raise DataError(str(path), [problem], fix="look at its name, and at the current folder") from error
    except OSError as error:
        fix = f"give a plain file, or one that is compressed ({', '.join(PACKED)})"
        raise DataError(str(path), [f"cannot be read: {error.strerror or error}"], fix=fix) from error
    unread = unread_kind(str(path), content[:_START_BYTES])
    if unread is not None:
        raise unread
    content = content.removeprefix(_BOM)
    if not content or content.isspace():
        raise DataError(str(path), ["holds nothing"])
    return content


def _decompressed(content: bytes, compression: Compression, path: Path) -> bytes:
    """Return the whole content; raises DataError with the last line that can be read if the file is damaged."""
    try:
        return compression.open(io.BytesIO(content), str(path), len(content)).read()
    except DamagedError as error:
        lines = _lines_before_damage(content, compression)
        position = f"after line {lines:,}" if lines else "in line 1"
        fix = "get the file again from its source, or compress it again"
        raise DataError(str(path), [f"is cut or damaged {position}: {error}"], fix=fix) from error


def _lines_before_damage(content: bytes, compression: Compression) -> int:
    stream, lines = cast("io.BufferedReader", compression.stream(io.BytesIO(content))), 0
    with suppress(*READ_ERRORS):
        while part := stream.read1():
            lines += part.count(b"\n")
    return lines


def text_content(path: Path) -> bytes:
    """Return a file's bytes as :func:`read_content`; raises DataError for UTF-16 too."""
    content = read_content(path)
    if is_utf16(content):
        raise DataError(str(path), [UTF16])
    return content


def _ending(file: Path) -> str:
    return Path(plain_name(file.name)).suffix.lower()


def _read(value: object, accepted: InputShapes[Built]) -> Built:
    shape = find_shape(value, accepted)
    if shape is None and (keys := keys_of_list(value)) is not None:
        problem = f"the list is under '{keys}': write only the list"
        raise DataError(accepted.subject, [problem], fix=examples_of(accepted))
    if shape is None:
        problem = f"it holds {described_shape(value, accepted)}"
        raise DataError(accepted.subject, [problem], fix=examples_of(accepted))
    return shape.read(value)


@contextmanager
def name_in_errors(label: str) -> Iterator[None]:
    """Name the file in errors about its content."""
    try:
        yield
    except DataError as error:
        raise DataError(label, error.problems, fix=error.fix, count=error.count) from error


def _parsed(content: bytes, label: str) -> Any:
    if not content or content.isspace():
        raise DataError(label, ["holds nothing"])
    try:
        return _decoded(content.removeprefix(_BOM))
    except ValueError as error:
        raise DataError(label, [str(error)]) from error


def _decoded(content: bytes) -> Any:
    """Return the value of JSON text; raises ValueError for malformed, deeply nested and repeated content."""
    try:
        value = json.loads(content, object_pairs_hook=_without_repeats)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    except ValueError as error:  # malformed JSON, another encoding, a repeated key
        raise ValueError(f"is not JSON: {error}") from error
    if is_too_deep(value):
        raise ValueError(TOO_DEEP)
    return value


def _json_lines(file: Path) -> dict[Any, Any]:
    """Return ``{query id: results}`` of sentence-transformers' predictions, an object on each line."""
    problems = Problems(str(file))
    results: dict[Any, Any] = {}
    for number, line in enumerate(text_content(file).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            values = _decoded(line)
        except ValueError as error:
            problems.add(number, str(error))
            continue
        if not isinstance(values, dict) or not set(_FIELDS) <= values.keys():
            problems.add(number, f"is not an object with the fields {' and '.join(_FIELDS)}")
        elif values["query_id"] in results:
            problems.add(number, f"query {values['query_id']!r} occurs twice")
        else:
            results[values["query_id"]] = values["results"]
    problems.raise_if_any()
    return results


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice in one object")
    return values


def _parquet(file: Path) -> pa.Table:
    try:
        return read_parquet(file)
    except (OSError, pa.ArrowException) as error:
        raise DataError(str(file), [f"cannot be read as Parquet: {error}"]) from error


_READERS: Mapping[str, Callable[[Path], Any]] = MappingProxyType(
    {
        ".json": lambda file: _parsed(read_content(file), str(file)),
        **dict.fromkeys(_JSON_LINES, _json_lines),
        **dict.fromkeys((".parquet", ".parq"), _parquet),
    }
)
