"""``http:MODEL``: any endpoint that speaks OpenAI's ``/v1/embeddings``: vLLM, TEI, Ollama, hosted services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array
from harness.encoders.prompts import prompted
from harness.encoders.settings import Facts, Role, Settings
from harness.remote.calls import RemoteCalls

CHARACTERS_A_TOKEN = 4
"""A rough figure for English; the exact number of tokens is the server's tokenizer's."""


def calls_for(texts: int, settings: Settings) -> int:
    """Return the calls that this many texts take, if none has to be repeated."""
    return -(-texts // settings.batch_size)


class Spent(NamedTuple):
    """``calls`` made, ``repeated_calls`` among them, and the ``tokens`` that the server counted, 0 for unknown."""

    calls: int = 0
    repeated_calls: int = 0
    tokens: int = 0


class EndpointModel:
    """Dense vectors by POST ``{endpoint}/embeddings``, ``batch_size`` texts a call, the longest first."""

    def __init__(self, settings: Settings, calls: RemoteCalls | None = None) -> None:
        """``calls`` is for tests. Raises UsageError for an endpoint that is not a plain URL."""
        self._settings = settings
        self._calls = calls or RemoteCalls(settings.endpoint, key_env=settings.endpoint_key_env, limits=settings.limits)
        self._tokens = 0

    @property
    def facts(self) -> Facts:
        """The endpoint."""
        return {"endpoint": self._settings.endpoint}

    @property
    def spent(self) -> Spent:
        """Calls and tokens so far."""
        return Spent(self._calls.calls, self._calls.repeated, self._tokens)

    @property
    def lengths(self) -> None:
        """Nothing: endpoints do not report how much of a text they read."""
        return None

    def encode(self, texts: Inputs, role: Role) -> Float32Array:
        """Return float32 (n, d); raises EngineUnavailableError."""
        prompts, size = prompted(texts, role, self._settings), self._settings.batch_size
        order = sorted(range(len(prompts)), key=lambda row: (-len(prompts[row]), row))
        rows = np.empty((len(prompts), 0), dtype=np.float32)
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            vectors = self._vectors([prompts[row] for row in batch])
            if not rows.shape[1]:
                rows = np.empty((len(prompts), vectors.shape[1]), dtype=np.float32)
            rows[batch] = vectors
        return rows

    def _vectors(self, texts: list[str]) -> Float32Array:
        body = {"model": self._settings.source.name, "input": texts, "encoding_format": "float"}
        rows, tokens = self._calls.post("/embeddings", body, lambda answer: _parse(answer, len(texts)))
        self._tokens += tokens
        return rows


def _parse(answer: Any, count: int) -> tuple[Float32Array, int]:
    """Return the vectors in the texts' order and the number of tokens; raises ValueError for any other answer."""
    vectors: list[tuple[int, Sequence[float]]] = [(int(entry["index"]), entry["embedding"]) for entry in answer["data"]]
    vectors.sort(key=lambda vector: vector[0])
    if [index for index, _ in vectors] != list(range(count)):
        raise ValueError(f"{len(vectors)} vectors for {count} texts, or an index that is missing or occurs twice")
    with np.errstate(over="ignore"):  # infinite values are refused with the vectors of every other source
        rows = np.array([vector for _, vector in vectors], dtype=np.float32)
    if rows.ndim != 2:
        raise ValueError("vectors of different lengths")
    return rows, int((answer.get("usage") or {}).get("prompt_tokens") or 0)
