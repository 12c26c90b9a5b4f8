"""Columns in one block of bytes, compressed, as text that no HTML parser takes for markup.

The block is: the length of the header (uint32), the header in JSON, then the sections it names, each at a multiple of
8 bytes, little-endian. It is compressed by gzip, which browsers read (DecompressionStream), and written in base64,
whose alphabet has no ``<``: nothing that a document says can end the element that holds it. ``assets/data.js`` reads it
back.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

__all__ = ["pack", "string_columns"]

_ALIGNED = 8
_LEVEL = 6


def pack(header: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> str:
    """The header's values and the columns; ``sections`` in the header then says where each column lies.

    Columns are arrays of any shape of integers up to 32 bits, or floats.
    """
    sections, body, offset = {}, [], 0
    for name, column in columns.items():
        content = np.ascontiguousarray(column, dtype=column.dtype.newbyteorder("<")).tobytes()
        sections[name] = [column.dtype.newbyteorder("=").name, offset, int(column.size)]
        body.append(content + bytes(-len(content) % _ALIGNED))
        offset += len(body[-1])
    head = orjson.dumps({**header, "sections": sections})
    head += b" " * (-(4 + len(head)) % _ALIGNED)
    whole = b"".join([len(head).to_bytes(4, "little"), head, *body])
    return base64.b64encode(gzip.compress(whole, _LEVEL, mtime=0)).decode("ascii")


def string_columns(name: str, strings: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Strings as two columns: ``<name>.ends`` uint32 (n,), the end of each in ``<name>.bytes``, UTF-8."""
    encoded = [string.encode("utf-8", "replace") for string in strings]
    ends = np.cumsum([len(one) for one in encoded], dtype=np.uint32) if encoded else np.zeros(0, np.uint32)
    return {f"{name}.ends": ends, f"{name}.bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8)}
