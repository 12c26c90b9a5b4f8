"""``python:MODULE:OBJECT``: vectors from an object of the user's own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array
from harness.encoders.model import Facts, Rows
from harness.encoders.prompts import applied_prompt
from harness.encoders.settings import Role, Settings
from harness.errors import DataError, UsageError
from harness.exact import encode_documents

__all__ = ["OwnObject"]

_METHODS: dict[Role, str] = {"documents": "encode_documents", "queries": "encode_queries"}


class OwnObject:
    """An object with ``encode_documents`` and ``encode_queries``, or one ``encode``, each from a list of texts.

    A class, or a function that has none of these, is called once, without arguments, to get the object. A method gives
    an array (n, d); for the encoder ``splade`` a SciPy sparse matrix or a list of ``{dimension: weight}`` too.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises UsageError for an object that is not there or has no such method."""
        self._settings = settings
        module, _, name = settings.source.name.partition(":")
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise UsageError(f"model=python:{settings.source.name} cannot be imported: {error}") from error
        if isinstance(found, type) or not _has_methods(found):
            if not callable(found):
                raise self._wrong(found)
            found = found()
        if not _has_methods(found):
            raise self._wrong(found)
        self._object = found

    @property
    def facts(self) -> Facts:
        """Its class."""
        return {"object": type(self._object).__qualname__}

    def encode(self, texts: Inputs, role: Role) -> Rows:
        """What the object gives, as float32 rows."""
        encode: Callable[[list[str]], Any] = getattr(self._object, _METHODS[role], None) or self._object.encode
        prompt = applied_prompt(self._settings, role).text
        asked = [prompt + text for text in _texts(texts)]
        size = self._settings.batch_size
        if self._settings.encoder == "dense":
            batches = (asked[start : start + size] for start in range(0, len(asked), size))
            return _stacked([_dense(encode(batch), self._settings.source.name) for batch in batches])
        return encode_documents(_Once(encode), asked, batch_size=size)

    def _wrong(self, found: object) -> UsageError:
        return UsageError(
            f"model=python:{self._settings.source.name} is a {type(found).__name__} that encodes nothing",
            fix="give it the methods encode_documents(texts) and encode_queries(texts), or encode(texts)",
        )


class _Once:
    """A model in the form that the reference's encoding takes."""

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self.encode_documents = self.encode_queries = encode


def _has_methods(found: object) -> bool:
    return hasattr(found, "encode") or all(hasattr(found, method) for method in _METHODS.values())


def _texts(texts: Inputs) -> list[str]:
    if texts.texts is None:
        raise AssertionError("texts without their column")
    listed: list[str] = texts.texts.to_pylist()
    return listed


def _stacked(parts: list[Float32Array]) -> Float32Array:
    widths = sorted({part.shape[1] for part in parts})
    if len(widths) > 1:
        raise DataError("the model's vectors", [f"batches of {' and '.join(map(str, widths))} dimensions"])
    return np.concatenate(parts)


def _dense(encoded: Any, name: str) -> Float32Array:  # noqa: ANN401 - whatever the user's object gives
    array = np.asarray(encoded)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        form = f"{type(encoded).__name__} of shape {array.shape} and dtype {array.dtype}"
        raise DataError(f"model=python:{name}", [f"gave {form}"], fix="give an array of numbers (n, d)")
    with np.errstate(over="ignore"):  # what overflows is refused with its id
        return np.ascontiguousarray(array, dtype=np.float32)
