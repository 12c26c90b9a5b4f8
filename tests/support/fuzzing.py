"""What generators of input share: values of every kind, bytes of every format, and the call that must not crash."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from example_counts import AT_RANDOM
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from pyarrow import parquet

from harness.errors import HarnessError

fuzz = settings(
    derandomize=not AT_RANDOM,
    database=None,
    deadline=None,
    max_examples=300 if AT_RANDOM else 25,
    suppress_health_check=list(HealthCheck),
)
"""Settings of every generator."""

NAMES = st.sampled_from(
    ["_id", "id", "text", "title", "query_id", "qid", "doc_id", "docno", "score", "relevance", "rank", "corpus-id",
     "question", "expected", "expected_relevant_doc_ids", "metadata", "grade", "dataset", "results", "corpus_id", "x"]
)  # fmt: skip
"""Names of fields that readers look for, and one that they do not know."""
IDS = st.sampled_from(["q1", "q2", "d1", "d2", "1", "", " d1", "d\x85", "\u00e9", "a\nb", "7.0"])
NUMBERS = st.one_of(
    st.integers(-3, 3), st.integers(), st.floats(), st.sampled_from([2**31, 2**53, 2**63, 2**64, 10**400, -(2**63) - 1])
)
WORDS = st.one_of(IDS, st.text(max_size=4), st.sampled_from(["\ud800", "NaN", "true", "3.5", "[", "{}", "'", '"']))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)
JSON_VALUES: SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES | WORDS, inner, max_size=3)),
    max_leaves=6,
)
RECORDS = st.lists(st.dictionaries(NAMES, JSON_VALUES, max_size=4), max_size=4)
OF_OTHER_LIBRARIES = st.one_of(
    st.sampled_from(
        [np.int64(3), np.float32(0.5), np.str_("d1"), np.bool_(True), np.float64("nan"), np.array(["d1", "d2"]),
         np.array(2), np.datetime64("NaT"), b"d1", b"\xff", Decimal("1.5"), Decimal("NaN"), dt.date.max, Path("d1"),
         pa.scalar("d1"), pa.scalar(None), pa.array([1, None]), {"d1"}, frozenset(), ("d1", 1.0), 1j, object]
    )
)  # fmt: skip
"""Values that only Python has."""


@st.composite
def objects(draw: DrawFn) -> Any:
    """Draw an object in Python as a user may give one: mappings, lists and tables of values of any library."""
    values = st.one_of(SCALARS, OF_OTHER_LIBRARIES)
    inner = st.one_of(
        st.dictionaries(st.one_of(IDS, values.filter(_is_hashable)), values, max_size=3),
        st.lists(values, max_size=3),
        st.lists(st.tuples(values, values), max_size=3),
        st.lists(st.dictionaries(NAMES, values, max_size=4), max_size=3),
        values,
    )
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(st.dictionaries(st.one_of(IDS, values.filter(_is_hashable)), inner, max_size=3))
    if kind == 1:
        return draw(st.lists(inner, max_size=3))
    if kind == 2:
        return draw(RECORDS)
    return draw(tables()) if kind == 3 else draw(inner)


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


_TYPES: list[pa.DataType] = [
    pa.string(), pa.large_string(), pa.binary(), pa.int32(), pa.uint32(), pa.uint64(), pa.float32(), pa.float64(),
    pa.bool_(), pa.null(), pa.timestamp("us"), pa.timestamp("ns"), pa.date64(), pa.list_(pa.float32()),
    pa.list_(pa.string()), pa.list_(pa.uint32()), pa.struct([("a", pa.int8())]), pa.decimal128(5, 2), pa.time64("ns"),
    pa.dictionary(pa.int32(), pa.string()), pa.float16(), pa.large_list(pa.float64()), pa.list_(pa.float32(), 2),
]  # fmt: skip


@st.composite
def tables(draw: DrawFn, names: SearchStrategy[str] = NAMES) -> pa.Table:
    """Draw an Arrow table with columns of any type, whose bits are drawn too: beyond times that Python has."""
    rows = draw(st.integers(0, 3))
    columns, fields = [], []
    for name in draw(st.lists(names, min_size=1, max_size=5)):
        fields.append(name)
        columns.append(_column(draw, draw(st.sampled_from(_TYPES)), rows))
    return pa.Table.from_arrays(columns, names=fields)


def _column(draw: DrawFn, kind: pa.DataType, rows: int) -> pa.Array:
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind) or pa.types.is_time64(kind):
        return pa.array(
            draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=rows, max_size=rows)), pa.int64()
        ).view(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(draw(st.lists(_utf8(WORDS), min_size=rows, max_size=rows)), pa.string()).dictionary_encode()
    values = _values_of(kind)
    return pa.array(draw(st.lists(st.none() | values, min_size=rows, max_size=rows)), kind)


def _values_of(kind: pa.DataType) -> SearchStrategy[Any]:
    if pa.types.is_fixed_size_list(kind):
        return st.lists(_values_of(kind.value_type), min_size=kind.list_size, max_size=kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return st.lists(st.none() | _values_of(kind.value_type), max_size=3)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _utf8(WORDS)
    if pa.types.is_floating(kind):
        return st.floats(width=kind.bit_width).map(np.float16 if kind.bit_width == 16 else float)
    if pa.types.is_integer(kind):
        low, high = (0, 2**kind.bit_width - 1) if pa.types.is_unsigned_integer(kind) else (-3, 3)
        return st.integers(low, high) | st.integers(0, 3)
    if pa.types.is_decimal(kind):
        return st.integers(-99, 99).map(Decimal)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({"a": st.integers(0, 3)})
    return {"bool": st.booleans(), "binary": st.binary(max_size=3)}.get(str(kind), st.none())


def _utf8(texts: SearchStrategy[str]) -> SearchStrategy[str]:
    return texts.map(lambda text: text.encode(errors="replace").decode())


def _json_bytes(value: object) -> bytes:
    return json.dumps(value).encode(errors="surrogatepass")


def _parquet_bytes(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    try:
        parquet.write_table(table, sink)
    except (pa.ArrowException, OverflowError):  # a type or a time that Parquet lacks
        return b"PAR1"
    return sink.getvalue()


_LINES = st.lists(JSON_VALUES.map(_json_bytes), max_size=4).map(b"\n".join)
_CELLS = st.lists(st.lists(NAMES | WORDS, max_size=6), max_size=4)
_HITS = st.dictionaries(IDS, st.dictionaries(IDS, SCALARS, max_size=3), max_size=3)


def _rows(separator: str) -> SearchStrategy[bytes]:
    return _CELLS.map(lambda rows: "\n".join(separator.join(row) for row in rows).encode(errors="surrogatepass"))


CONTENTS: dict[str, SearchStrategy[bytes]] = {
    ".jsonl": _LINES | RECORDS.map(lambda records: b"\n".join(map(_json_bytes, records))),
    ".json": st.one_of(
        JSON_VALUES, RECORDS, _HITS, st.fixed_dictionaries({"a": st.fixed_dictionaries({"b": _HITS})})
    ).map(_json_bytes),
    ".csv": _rows(","),
    ".tsv": _rows("\t"),
    ".parquet": tables().map(_parquet_bytes),
    ".trec": _rows(" "),
    ".txt": st.binary(max_size=20),
}
"""Ending of a file -> content that is nearly of its format."""


@st.composite
def files(draw: DrawFn, *endings: str) -> tuple[str, bytes]:
    """Draw the name and the content of a file: of its format or another one's, damaged, or compressed."""
    ending = draw(st.sampled_from(endings or tuple(CONTENTS)))
    content = draw(CONTENTS[ending] if draw(st.integers(0, 5)) else st.one_of(*CONTENTS.values()))
    damage = draw(st.integers(0, 9))
    if damage == 0:
        content = content[: draw(st.integers(0, len(content)))]
    elif damage == 1 and content:
        at = draw(st.integers(0, len(content) - 1))
        content = content[:at] + draw(st.binary(max_size=3)) + content[at + 1 :]
    elif damage == 2:
        content = draw(st.sampled_from([b"\xef\xbb\xbf", b"\xff\xfe", b"\0"])) + content
    elif damage in (3, 4):
        suffix, packed = draw(
            st.sampled_from(
                [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), ("", gzip.compress)]
            )
        )
        content = packed(content)
        if damage == 4:
            content = content[: draw(st.integers(0, len(content)))] + draw(st.binary(max_size=2))
        ending += suffix
    return ending, content


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip archive of files."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sink.getvalue()


@st.composite
def changes(draw: DrawFn) -> tuple[list[int], Any]:
    """Draw where a JSON value is changed, and what is put there."""
    return draw(st.lists(st.integers(0, 30), min_size=1, max_size=6)), draw(JSON_VALUES)


def changed(value: Any, path: list[int], new: Any) -> Any:
    """Return a copy of a JSON value with another value in one position."""
    if not path or not isinstance(value, dict | list) or not value:
        return new
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = keys[path[0] % len(keys)]
    copy = value.copy()
    copy[key] = changed(value[key], path[1:], new)
    return copy


def survives(call: Callable[[], object]) -> None:
    """Call a public function: it returns, or raises an error of the harness that can be printed."""
    try:
        call()
    except HarnessError as error:
        message = str(error)
    else:
        return
    assert message.encode()
