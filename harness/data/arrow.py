"""Between Python, NumPy and Arrow without pandas.

Arrow's own conversions import pandas at their first use, in case they were given something of its: ``pa.array``,
``pa.scalar``, ``to_numpy``, a literal given to a function of ``pyarrow.compute``, ``pyarrow.parquet.read_table``. That
is a third of a second and 50 MB in every process, workers too. The functions here hand over buffers instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_MOST_BYTES = 2**31 - 1
_TEXTS_PER_BLOCK = 256


def strings(values: Iterable[str | None]) -> pa.StringArray:
    """Return an Arrow string array of any texts, in their order; None becomes null.

    Raises TypeError for other types, UnicodeEncodeError for a lone surrogate, and pyarrow.ArrowCapacityError for more
    than 2 GiB of UTF-8, which one array cannot hold.
    """
    texts = list(values)
    valid = None
    if texts.count(None):
        valid = _bitmap(np.array([text is not None for text in texts]))
        texts = ["" if text is None else text for text in texts]
    return pa.Array.from_buffers(pa.string(), len(texts), [valid, *_text_buffers(texts)])


def text_scalar(text: str) -> pa.StringScalar:
    """Return a text as a function of ``pyarrow.compute`` takes it next to a column."""
    return strings([text])[0]


def text_where(mask: npt.NDArray[np.bool_], text: str) -> pa.StringArray:
    """Return a column of the same text where ``mask`` (n,) is true, null elsewhere; errors as :func:`strings`."""
    content, ends = text.encode(), np.cumsum(mask, dtype=np.int64)
    size = len(content) * int(ends[-1]) if len(mask) else 0
    if size > _MOST_BYTES:
        raise pa.ArrowCapacityError(f"{size} bytes of text do not fit into one Arrow array")
    offsets = np.zeros(len(mask) + 1, dtype=np.int32)
    offsets[1:] = ends * len(content)
    valid = None if mask.all() else _bitmap(mask)
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(content * (size // max(len(content), 1)))]
    return pa.Array.from_buffers(pa.string(), len(mask), buffers)


def text_content(column: pa.ChunkedArray) -> Iterator[memoryview]:
    """Yield the UTF-8 of all texts of a column one after another, in any parts; nulls have none."""
    for chunk in column.chunks:
        values = chunk.drop_null()
        offsets, content = values.buffers()[1:]
        if len(values) and content is not None:
            size = np.dtype(np.int64 if pa.types.is_large_string(values.type) else np.int32)
            ends = np.frombuffer(offsets, size, len(values) + 1, values.offset * size.itemsize)
            yield memoryview(content)[int(ends[0]) : int(ends[-1])]


def byte_strings(values: Iterable[bytes], width: int) -> pa.FixedSizeBinaryArray:
    """Return an Arrow array of byte strings; raises pyarrow.ArrowInvalid unless each is ``width`` long."""
    items = list(values)
    if any(len(value) != width for value in items):
        raise pa.ArrowInvalid(f"not every byte string has {width} bytes")
    return pa.Array.from_buffers(pa.binary(width), len(items), [None, pa.py_buffer(b"".join(items))])


def numbers(values: npt.NDArray[Any], valid: pa.Buffer | None = None) -> pa.Array:
    """Return an Arrow array of integers, floats or booleans (n,), of the same dtype: NaN stays NaN.

    ``valid`` is the bitmap of the values that are not null; None without nulls.

    Numbers share the memory of a C-contiguous array, and see later writes to it; booleans are packed into bits. Raises
    pyarrow.ArrowInvalid for another shape, pyarrow.ArrowTypeError for another dtype.
    """
    if values.ndim != 1:
        raise pa.ArrowInvalid(f"an array of shape {values.shape} is not a column")
    if values.dtype.kind not in "biuf" or not values.dtype.isnative:
        raise pa.ArrowTypeError(f"an array of {values.dtype} holds no numbers that Arrow has")
    content = _bitmap(values) if values.dtype.kind == "b" else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, content])


def numbers_or_null(values: npt.NDArray[np.floating[Any]]) -> pa.Array:
    """Return numbers as :func:`numbers` does, with null for every NaN."""
    missing = np.isnan(values)
    return numbers(values, _bitmap(~missing) if missing.any() else None)


def as_numpy(column: pa.Array | pa.ChunkedArray, null: float | None = None) -> npt.NDArray[Any]:
    """Return the integers, floats or booleans of an Arrow column as a read-only array (n,) of the same dtype.

    One chunk of numbers is shared, not copied. Nulls become ``null``; without it they raise pyarrow.ArrowInvalid. Any
    other type of column raises pyarrow.ArrowTypeError.
    """
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise pa.ArrowTypeError(f"a column of {kind} holds no numbers")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [_values(chunk, null) for chunk in chunks]
    # the empty part gives a column without chunks its dtype
    joined = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, kind.to_pandas_dtype()), *parts])
    joined.setflags(write=False)
    return joined


def python_values(column: pa.Array | pa.ChunkedArray, name: str) -> list[Any]:
    """Return the values of a column as Python's; raises ValueError, with its name, for values that Python lacks.

    These are times before the year 1 or after 9999, in unknown time zones or with nanoseconds, and text that is not
    UTF-8.
    """
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError, KeyError, pa.ArrowException) as error:  # KeyError: an unknown time zone
        raise ValueError(f"column '{name}' of {column.type}: {error}") from error
    return values


def read_parquet(path: Path | str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one Parquet file, all of its columns or some; raises OSError and pyarrow.ArrowException."""
    from pyarrow.parquet import ParquetFile  # 50 ms and 9 MB that no worker needs

    with ParquetFile(path) as file:
        return file.read(columns=columns)


def write_parquet(table: pa.Table, path: Path | str) -> None:
    """Write a table as one Parquet file; raises OSError and pyarrow.ArrowException."""
    from pyarrow.parquet import write_table

    write_table(table, path)


def _text_buffers(texts: list[Any]) -> tuple[pa.Buffer, pa.Buffer]:
    """Return offsets (int32) and UTF-8.

    Texts are joined some at a time, into memory that Arrow keeps for the next column: that is twice as fast as one
    string of all of them.
    """
    content, lengths = pa.BufferOutputStream(), list[int]()
    for first in range(0, len(texts), _TEXTS_PER_BLOCK):
        some = texts[first : first + _TEXTS_PER_BLOCK]
        joined = "".join(some)
        if joined.isascii():  # as many bytes as characters
            content.write(joined.encode())
            lengths.extend(map(len, some))
        else:
            encoded = list(map(str.encode, some))
            content.write(b"".join(encoded))
            lengths.extend(map(len, encoded))
    if content.tell() > _MOST_BYTES:
        raise pa.ArrowCapacityError(f"{content.tell()} bytes of text do not fit into one Arrow array")
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.py_buffer(offsets), content.getvalue()


def _bitmap(flags: npt.NDArray[np.bool_]) -> pa.Buffer:
    # Arrow fills each byte from its lowest bit, NumPy by default from its highest
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _values(array: pa.Array, null: float | None) -> npt.NDArray[Any]:
    dtype = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, dtype)
    content = array.buffers()[1]  # the first buffer says which values are null
    # a slice of an array has the buffers of the whole one, and an offset into them
    if dtype == np.bool_:
        bits = np.unpackbits(np.frombuffer(content, np.uint8), count=array.offset + len(array), bitorder="little")
        values: npt.NDArray[Any] = bits[array.offset :].view(np.bool_)
    else:
        values = np.frombuffer(content, dtype, len(array), array.offset * dtype.itemsize)
    if not array.null_count:
        return values
    if null is None:
        raise pa.ArrowInvalid(f"{array.null_count} of {len(array)} values are null")
    return np.where(_values(array.is_valid(), None), values, dtype.type(null))


def take_rows(column: pa.ChunkedArray, rows: npt.NDArray[np.integer[Any]]) -> pa.ChunkedArray:
    """Return the values at ``rows`` (n,), in that order, repeats allowed; a row outside the column raises IndexError.

    Each chunk is read for its own rows. Arrow's ``take`` copies all chunks of a text column into one first: a whole
    collection for a few rows, and more than 2 GiB fit into no such array.
    """
    rows = np.asarray(rows, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum([len(chunk) for chunk in column.chunks])]).astype(np.int64)
    outside = rows[(rows < 0) | (rows >= starts[-1])]
    if len(outside):
        raise IndexError(f"row {outside[0]} of a column of {starts[-1]} rows")
    # "right", so that a row at which a chunk starts belongs to it, and never to an empty chunk in front of it
    owner = np.searchsorted(starts, rows, side="right") - 1
    order = np.argsort(owner, kind="stable")
    owners, firsts = np.unique(owner[order], return_index=True)
    ends = np.append(firsts[1:], len(order))
    parts = [
        column.chunk(int(number)).take(numbers(rows[order[first:end]] - starts[number]))
        for number, first, end in zip(owners, firsts, ends, strict=False)  # an empty column has one end too many
    ]
    taken = pa.chunked_array(parts, type=column.type)
    if (np.diff(owner) >= 0).all():
        return taken
    # the requested rows are contiguous now, and only they are copied
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return taken.take(numbers(back))


def take_or_null(array: pa.Array, rows: npt.NDArray[np.integer[Any]]) -> pa.Array:
    """Return the values at ``rows`` (n,), in that order, null for each row below 0.

    Raises IndexError for a row behind the last.
    """
    return array.take(numbers(np.maximum(rows, 0), _bitmap(rows >= 0)))
