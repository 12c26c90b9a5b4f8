"""Columns of lines of text, separated by white space, by Arrow's reader."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import csv

_BLOCK_BYTES = 1 << 24
ID = pa.dictionary(pa.int32(), pa.string())
"""The type of a column of ids, which repeat."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def normalised(content: bytes) -> bytes:
    """Return the same lines with one space between columns and none around them."""
    for other in (b"\r\n", b"\t", b"\v", b"\f"):
        if other in content:
            content = content.replace(other, b"\n" if other == b"\r\n" else b" ")
    while b"  " in content:
        content = content.replace(b"  ", b" ")
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def read_columns(content: bytes, names: Sequence[str], types: Mapping[str, Any]) -> pa.Table | None:
    """Return the columns named in ``types``; None when a line has another number of columns or a value does not fit.

    Args:
        content: lines as :func:`normalised` returns them.
        names: the names of all columns, in their order.
        types: the types of those to read.
    """
    try:
        return csv.read_csv(
            pa.py_buffer(content),
            read_options=csv.ReadOptions(
                use_threads=len(content) > _BLOCK_BYTES, column_names=list(names), block_size=_BLOCK_BYTES
            ),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
            convert_options=csv.ConvertOptions(column_types=dict(types), include_columns=list(types), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None


def words_of(line: str) -> list[str]:
    """Return the columns between ASCII white space: an id may hold other white space."""
    return [word for word in re.split(r"[ \t\r\v\f]+", line) if word]
