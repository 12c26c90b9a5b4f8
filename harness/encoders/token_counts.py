"""Count the tokens of texts that a model reads, and the tokens that it cuts, while the model tokenises them.

A tokenizer divides a longer text into pieces of the model's limit. The model gets the first piece, and the others are
silently dropped by the libraries. They are counted here, so that nothing is tokenised twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from harness.data.types import Int32Array

Unit = Literal["tokens", "characters"]
UNKNOWN = -1
"""Used in counts for a text whose tokens were not counted."""
_NO_LIMIT = 1_000_000
"""Tokenizers without a limit name a huge one."""
_LIMITS = (
    ("sentence_*_config.json", "max_seq_length"),
    ("tokenizer_config.json", "model_max_length"),
    ("config.json", "max_position_embeddings"),
)
"""Files of a model that may state its limit, and under which name: sentence-transformers reads them in this order."""


class TextLengths(NamedTuple):
    """Lengths of texts, and how much of each a model does not read.

    Attributes:
        counts: int32 (n, 2): the units of each text, prompt included and special tokens not, and the units among them
            that are beyond the limit; :data:`UNKNOWN` twice for a text that was not counted.
        limit: units that the model reads of a text, special tokens included; None if there is no limit.
        limit_from: the source of the limit, in words; "" without a limit.
        unit: the counted unit.
    """

    counts: Int32Array
    limit: int | None = None
    limit_from: str = ""
    unit: Unit = "tokens"

    @classmethod
    def unknown(cls, number: int) -> TextLengths:
        """Return lengths of texts, all uncounted."""
        return cls(np.full((number, 2), UNKNOWN, dtype=np.int32))


class TokenCounter:
    """Watches the modules of a sentence-transformers model that tokenise, and keeps the counts of each input.

    Inputs are texts, or pairs of texts for a cross-encoder.
    """

    def __init__(self, model: Any, origin: Callable[[int], str]) -> None:
        """Start watching; ``origin`` is the source of a limit."""
        self._counts: dict[object, tuple[int, int]] = {}
        self._limit: int | None = None
        self._origin = cache(origin)
        routes = getattr(model[0], "sub_modules", None)  # a router has a module for queries and one for documents
        modules = [model[0]] if routes is None else [route[0] for route in routes.values()]
        for module in {id(module): module for module in modules}.values():
            if hasattr(module, "preprocess"):
                module.preprocess = self._counted(module, module.preprocess)

    def take(self, inputs: Iterable[object]) -> TextLengths:
        """Return the lengths of inputs that were tokenised since the last call."""
        pairs = [self._counts.get(_key(text), (UNKNOWN, UNKNOWN)) for text in inputs]
        self._counts.clear()
        counts = np.array(pairs, dtype=np.int32).reshape(-1, 2)
        return TextLengths(counts, self._limit, "" if self._limit is None else self._origin(self._limit))

    def _counted(self, module: Any, preprocess: Callable[..., Any]) -> Callable[..., Any]:
        def counted(inputs: Sequence[object], *args: Any, **options: Any) -> Any:
            features = preprocess(inputs, *args, **options)
            self._limit = finite_limit(getattr(module, "max_seq_length", None))
            encodings = getattr(features, "encodings", None)
            if encodings:
                counts = [token_counts(encoding) for encoding in encodings]
            else:
                counts = self._without_pieces(module, features, lambda row: preprocess([inputs[row]], *args, **options))
            if len(counts) == len(inputs):
                self._counts.update(zip(map(_key, inputs), counts, strict=True))
            return features

        return counted

    def _without_pieces(self, module: Any, features: Any, again: Callable[[int], Any]) -> list[tuple[int, int]]:
        """Count the tokens of features that lack the pieces: only rows that fill the limit are tokenised again."""
        lengths = _row_lengths(features)
        tokenizer: Any = getattr(module, "tokenizer", None)
        if self._limit is None:
            truncation = getattr(tokenizer, "truncation", None)  # the tokenizer's own, with a limit in its file
            return [(length, 0) for length in lengths] if truncation is None else []
        counts = []
        for row, length in enumerate(lengths):
            full_length = length
            if length >= self._limit and hasattr(tokenizer, "model_max_length"):
                limit, tokenizer.model_max_length = tokenizer.model_max_length, 10**12
                try:
                    (full_length,) = _row_lengths(again(row))
                finally:
                    tokenizer.model_max_length = limit
            counts.append((full_length, full_length - length))
        return counts


def token_counts(encoding: Any) -> tuple[int, int]:
    """Return the tokens of a text or pair without special ones, and how many of them are not in the first piece."""
    read = encoding.special_tokens_mask.count(0)
    pieces = encoding.overflowing
    if not pieces:
        return read, 0
    if encoding.n_sequences == 1:
        unread = sum(piece.special_tokens_mask.count(0) for piece in pieces)
        return read + unread, unread
    # pieces of a pair combine pieces of both texts, so that each of these occurs several times
    distinct: dict[tuple[int, tuple[int, int], tuple[int, int]], int] = {}
    for piece in (encoding, *pieces):
        sides, offsets = piece.sequence_ids, piece.offsets
        for side in (0, 1):
            rows = [row for row, of in enumerate(sides) if of == side]
            if rows:
                distinct[side, offsets[rows[0]], offsets[rows[-1]]] = len(rows)
    total = sum(distinct.values())
    return total, total - read


def finite_limit(limit: float | None) -> int | None:
    """Return a limit of tokens; None for none and for the huge numbers that mean none."""
    return None if limit is None or math.isinf(limit) or limit >= _NO_LIMIT else int(limit)


def limit_origin(folder: Path, limit: int, otherwise: str = "the model's tokenizer") -> str:
    """Return which file of the model in ``folder`` sets its limit of tokens, in words; else ``otherwise``."""
    for pattern, name in _LIMITS:
        for path in sorted(folder.rglob(pattern)):
            if _stated(path).get(name) == limit:
                return f"{name} in the model's {path.name}"
    return otherwise


def _stated(path: Path) -> Mapping[str, Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def _key(text: object) -> object:
    """Return an input as something that can be looked up: pairs come as lists and as tuples."""
    return tuple(text) if isinstance(text, list) else text


def _row_lengths(features: Any) -> list[int]:
    """Return the tokens of each row of a batch; empty if the features do not say."""
    if "attention_mask" in features:
        lengths: list[int] = features["attention_mask"].sum(dim=1).tolist()
        return lengths
    if "offsets" in features and "input_ids" in features:  # rows one after the other
        starts = features["offsets"].tolist()
        return [stop - start for start, stop in zip(starts, [*starts[1:], len(features["input_ids"])], strict=True)]
    return []
