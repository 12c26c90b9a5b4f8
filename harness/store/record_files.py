"""Dataclasses as files: one JSON file named after the class, and each array of its fields next to it.

A record is a dataclass whose fields are plain values, enumerations of strings, paths, arrays, ids, sparse vectors,
other dataclasses, named tuples, tuples, mappings, and unions of these with None. Nothing is ever pickled. NaN and
infinite numbers belong into arrays: JSON has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, get_origin

import msgspec
import numpy as np
import pyarrow as pa

from harness.data.types import Ids
from harness.store.columns import load_ids, read_array, readable, save_column, save_ids

Record = TypeVar("Record")
_MAKING_DECODERS = Lock()


def save(folder: Path, record: object) -> None:
    """Write a record into a folder, in place of an earlier one of its class; its JSON file is written last."""
    name, numbers = type(record).__name__, count()

    def to_plain(value: object) -> str | dict[object, object]:
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, np.ndarray):
            file = f"{name}.{next(numbers)}.npy"
            save_column(folder / file, value)
            return file
        if isinstance(value, pa.StringArray):
            file = f"{name}.{next(numbers)}.arrow"
            save_ids(folder / file, Ids(value))
            return file
        if isinstance(value, Mapping):
            return dict(value)
        raise NotImplementedError(f"a record cannot hold a {type(value).__name__}")

    written = msgspec.json.encode(record, enc_hook=to_plain)
    unfinished = folder / f"{name}.json.part"
    unfinished.write_bytes(written)
    unfinished.replace(folder / f"{name}.json")


def load(folder: Path, record: type[Record]) -> Record:
    """Read a record that :func:`save` wrote; columns of ids are memory-mapped, arrays are not.

    Raises CacheError when a file of it is missing, damaged, or written from a class with other fields.
    """
    path = folder / f"{record.__name__}.json"
    with readable(path):
        return decoder(record, partial(_from_plain, folder)).decode(path.read_bytes())


def decoder(kind: type[Record], dec_hook: Callable[[type, Any], object] | None = None) -> msgspec.json.Decoder[Record]:
    """Return what makes ``kind`` of JSON; ``dec_hook`` makes what msgspec cannot.

    At the first use of a class, msgspec stores its fields in the class before it has seen all of them. Another thread
    that decodes the class at that moment crashes the process, so one thread at a time makes decoders.
    """
    with _MAKING_DECODERS:
        return msgspec.json.Decoder(kind, dec_hook=dec_hook)


def is_saved(folder: Path, record: type) -> bool:
    """Return whether the folder holds a record of this class."""
    return (folder / f"{record.__name__}.json").is_file()


def _from_plain(folder: Path, kind: type, plain: object) -> object:
    if not isinstance(plain, str):
        raise ValueError(f"expected a name, and it is a {type(plain).__name__}")
    base = get_origin(kind) or kind
    if base is Path:
        return Path(plain)
    if base is np.ndarray:
        return read_array(folder / plain)
    if base is pa.StringArray:
        return load_ids(folder / plain).values
    raise NotImplementedError(f"a record cannot hold a {kind}")
