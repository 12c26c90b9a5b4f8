"""``python:MODULE:OBJECT``: vectors from the user's own Python object."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.data.inputs import Inputs
from harness.data.python_values import as_array
from harness.data.types import Float32Array
from harness.encoders.prompts import prompted
from harness.encoders.settings import Facts, Role, Rows, Settings
from harness.errors import DataError, UsageError
from harness.exact import encode_documents

Encode = Callable[[list[str]], Any]
_DOCUMENTS = ("encode_documents", "encode", "embed_documents", "get_text_embedding_batch")
"""Methods that encode several documents: of the harness, and of embeddings of LangChain and LlamaIndex."""
_QUERIES = ("encode_queries", "encode")
_ONE_QUERY = ("embed_query", "get_query_embedding")


class PythonEncoder:
    """An object with ``encode_documents`` and ``encode_queries``, or only ``encode``, each taking a list of texts.

    Embeddings of LangChain (``embed_documents``, ``embed_query``) and LlamaIndex (``get_text_embedding_batch``,
    ``get_query_embedding``) are called as those libraries call them. A class, or a function without such methods, is
    called once, without arguments, to get the object. A method returns an array (n, d); for the encoder ``splade`` also
    a SciPy sparse matrix or a list of ``{dimension: weight}``.
    """

    def __init__(self, settings: Settings) -> None:
        """Import the object. Raises UsageError if it cannot be imported or has no such method."""
        self._settings = settings
        module, _, name = settings.source.name.partition(":")
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        try:
            encoder = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise UsageError(f"model=python:{settings.source.name} cannot be imported: {error}") from error
        if callable(encoder) and (isinstance(encoder, type) or not _methods(encoder)):
            encoder = encoder()
        methods = _methods(encoder)
        if not methods:
            raise UsageError(
                f"model=python:{settings.source.name} is a {type(encoder).__name__} that encodes nothing",
                fix="give it the methods encode_documents(texts) and encode_queries(texts), or encode(texts)",
            )
        self._object, self._encode = encoder, methods

    @property
    def facts(self) -> Facts:
        """The object's class."""
        return {"object": type(self._object).__qualname__}

    @property
    def lengths(self) -> None:
        """Nothing: the object does not report them."""
        return None

    def encode(self, texts: Inputs, role: Role) -> Rows:
        """Return the object's vectors as float32 rows. Raises DataError for anything but numbers (n, d)."""
        encode = self._encode[role]
        prompts, size = prompted(texts, role, self._settings), self._settings.batch_size
        if self._settings.encoder != "dense":
            return encode_documents(_Documents(encode), prompts, batch_size=size)
        parts = [self._dense(encode(prompts[start : start + size])) for start in range(0, len(prompts), size)]
        widths = sorted({part.shape[1] for part in parts})
        if len(widths) > 1:
            raise DataError("the model's vectors", [f"batches of {' and '.join(map(str, widths))} dimensions"])
        return np.concatenate(parts)

    def _dense(self, encoded: Any) -> Float32Array:
        array = as_array(encoded)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            form = f"{type(encoded).__name__} of shape {array.shape} and dtype {array.dtype}"
            source = f"model=python:{self._settings.source.name}"
            raise DataError(source, [f"gave {form}"], fix="give an array of numbers (n, d)")
        with np.errstate(over="ignore"):  # overflowing values are refused with their id
            return np.ascontiguousarray(array, dtype=np.float32)


class _Documents:
    """Any encoding function in the form that :func:`harness.exact.encode_documents` takes."""

    def __init__(self, encode: Callable[[list[str]], Any]) -> None:
        self.encode_documents = self.encode_queries = encode


def _methods(encoder: Any) -> dict[Role, Encode]:
    """Return how an object encodes either role; empty if it lacks one of them."""
    documents, queries, one = (
        next((getattr(encoder, name) for name in names if hasattr(encoder, name)), None)
        for names in (_DOCUMENTS, _QUERIES, _ONE_QUERY)
    )
    if queries is None and one is not None:
        return {} if documents is None else {"documents": documents, "queries": lambda texts: list(map(one, texts))}
    return {} if documents is None or queries is None else {"documents": documents, "queries": queries}
