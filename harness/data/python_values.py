"""Values of other libraries as Python's own, if their meaning is unambiguous.

Functions, golden sets, runs and judgments hold values of NumPy, pandas, Polars, Arrow, torch and vector stores: ids are
``numpy.str_``, ``UUID`` or bytes, lists are arrays, and an empty cell is NaN. None of the libraries is imported.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import uuid
from collections.abc import Iterator, KeysView, Mapping, Set, ValuesView
from dataclasses import fields, is_dataclass
from decimal import Decimal
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError

_LARGEST_EXACT = 2**53
"""Floats from here on leave out whole numbers: which id was meant is not known."""
_64_BITS = 2**63
_UNPACKING = ("to_pylist", "as_py", "to_list", "tolist")
"""Methods of columns and scalars that return Python's own values: of Arrow, Polars and pandas, NumPy and torch."""
_MISSING = ("NAType", "NaTType")
"""Types of pandas' empty cells that are not NaN."""


def plain(value: Any) -> Any:
    """Return a value as JSON has it, including all elements of lists and mappings; other values as they are.

    Text is exactly ``str``, bytes are decoded as UTF-8, UUIDs, paths and times become text, NaN and other empty cells
    None, columns, arrays, iterators and sets lists (a set's in ascending order, as text), and records mappings. Tuples
    stay tuples: a pair is not a list of two. Floats that are whole become integers, and integers beyond 64 bits text.

    Raises UsageError for a value that contains itself, or is nested more deeply than Python's stack.
    """
    try:
        return _plain(value)
    except RecursionError as error:
        raise UsageError("a value contains itself, or is nested too deeply", fix="give plain records") from error


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple) and not hasattr(value, "_asdict"):
        return tuple(map(_plain, value))
    if isinstance(value, Set) and not isinstance(value, KeysView):
        return sorted(map(_plain, value), key=str)
    if isinstance(value, list | KeysView | ValuesView | Iterator):
        return list(map(_plain, value))
    return _plain_scalar(value)


def _key(key: object) -> object:
    converted = _plain(key)
    return converted if isinstance(converted, str | int | float | bool | None) else key


def _plain_scalar(value: Any) -> Any:
    if isinstance(value, Integral):
        integer = int(value)
        return integer if -_64_BITS <= integer < _64_BITS else str(integer)
    if isinstance(value, Real | Decimal):
        number = float(value)
        integer_id = as_id(number)
        return None if math.isnan(number) else number if integer_id is None else int(integer_id)
    if isinstance(value, dt.date | dt.time):
        return None if type(value).__name__ in _MISSING else value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return _decoded(bytes(value))
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, os.PathLike):
        return _plain(os.fspath(value))
    return _unpacked(value)


def _unpacked(value: Any) -> Any:
    """Return an empty cell of pandas, a record or a column in Python's own form, other values unchanged."""
    if is_missing(value):
        return None
    if isinstance(value, type):
        return value
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    for method in ("_asdict", "model_dump"):  # of named tuples and pydantic
        if hasattr(value, method):
            return _plain(getattr(value, method)())
    if hasattr(value, "__array__") or isinstance(value, pa.Scalar | pa.Array | pa.ChunkedArray):
        unpack = next((getattr(value, name) for name in _UNPACKING if hasattr(value, name)), None)
        return value if unpack is None else _plain(unpack())
    return value


def as_record(value: Any) -> Any:
    """Return an object whose attributes are fields as a mapping; other values, and objects without any, as they are.

    Taken are dataclasses, named tuples, pydantic models, and objects of plain classes: their public attributes that
    are not callable.
    """
    is_plain = value is None or isinstance(value, str | bytes | Mapping | list | Set | Iterator | type | ModuleType)
    is_pair = isinstance(value, tuple) and not hasattr(value, "_asdict")
    if is_plain or is_pair or as_id(value) is not None or is_number(value):
        return value
    unpacked = _unpacked(value)
    if unpacked is not value or callable(value) or isinstance(value, dt.date | dt.time):
        return unpacked
    slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
    names = [*getattr(value, "__dict__", {}), *slots]
    fields_of_value = {
        name: getattr(value, name) for name in names if not name.startswith("_") and hasattr(value, name)
    }
    return {name: item for name, item in fields_of_value.items() if not callable(item)} or value


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN, or an empty cell of pandas."""
    is_nan = isinstance(value, Real) and bool(value != value)
    return value is None or is_nan or type(value).__name__ in _MISSING


def as_id(value: Any) -> str | None:
    """Return an id as text, None for an invalid one.

    Ids are text and bytes, whole numbers, UUIDs and paths; floats that are whole too, as pandas writes a column of
    whole numbers that has an empty cell, but no truth values.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real | Decimal):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < _LARGEST_EXACT else None
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray):
        text = _decoded(bytes(value))
        return text if isinstance(text, str) else None
    if isinstance(value, os.PathLike):
        return as_id(os.fspath(value))
    if isinstance(value, pa.Scalar):
        return as_id(value.as_py())
    return as_id(value.item()) if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else None


def is_number(value: Any) -> bool:
    """Return whether a value is a number of any library, NaN included; truth values and text are not."""
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    elif isinstance(value, pa.Scalar):
        value = value.as_py()
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def as_array(value: Any) -> npt.NDArray[Any]:
    """Return vectors of any library as one array; lists whose rows differ in length as an array of objects.

    Tensors of torch may need a gradient, lie on another device, be sparse, or have a dtype that NumPy lacks.
    """
    if isinstance(value, Iterator):
        value = list(value)
    if isinstance(value, list | tuple) and any(hasattr(row, "detach") for row in value):
        value = list(map(as_array, value))
    elif hasattr(value, "detach"):
        tensor = value.detach().cpu()
        value = (tensor.to_dense() if tensor.is_sparse else tensor).float().numpy()
    try:
        return np.asarray(value)
    except ValueError:
        return np.asarray(value, dtype=object)
