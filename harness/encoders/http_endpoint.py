"""``http:MODEL``: any endpoint that speaks OpenAI's ``/v1/embeddings``: vLLM, TEI, Ollama, hosted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array
from harness.encoders.model import Facts
from harness.encoders.prompts import applied_prompt
from harness.encoders.settings import Role, Settings
from harness.remote.calls import RemoteCalls

__all__ = ["CHARACTERS_A_TOKEN", "EndpointModel", "Spent", "calls_for"]

CHARACTERS_A_TOKEN = 4
"""Of English, roughly: how many tokens a text has is the server's tokenizer to say."""


def calls_for(texts: int, settings: Settings) -> int:
    """Calls that so many texts take, if none has to be repeated."""
    return -(-texts // settings.batch_size)


class Spent(NamedTuple):
    """``calls`` that were made, ``repeated_calls`` among them, and the ``tokens`` that were counted, 0 for unknown."""

    calls: int = 0
    repeated_calls: int = 0
    tokens: int = 0


class EndpointModel:
    """Texts to dense vectors by POST ``{endpoint}/embeddings``, ``batch_size`` texts a call, the longest first."""

    def __init__(self, settings: Settings, calls: RemoteCalls | None = None) -> None:
        """``calls`` is for tests. Raises UsageError for an endpoint that is no plain URL."""
        self._settings = settings
        self._calls = calls or RemoteCalls(settings.endpoint, key_env=settings.endpoint_key_env, limits=settings.limits)
        self._tokens = 0

    @property
    def facts(self) -> Facts:
        """The endpoint."""
        return {"endpoint": self._settings.endpoint}

    @property
    def spent(self) -> Spent:
        """How often it was called so far, and the tokens that it counted."""
        return Spent(self._calls.calls, self._calls.repeated, self._tokens)

    def encode(self, texts: Inputs, role: Role) -> Float32Array:
        """float32 (n, d); raises EngineUnavailableError."""
        if texts.texts is None:
            raise AssertionError("texts without their column")
        prompt = applied_prompt(self._settings, role).text
        asked = [prompt + text for text in texts.texts.to_pylist()]
        order = sorted(range(len(asked)), key=lambda row: (-len(asked[row]), row))
        size, rows = self._settings.batch_size, np.empty((len(asked), 0), dtype=np.float32)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            vectors = self._vectors([asked[row] for row in chosen])
            if not rows.shape[1]:
                rows = np.empty((len(asked), vectors.shape[1]), dtype=np.float32)
            rows[chosen] = vectors
        return rows

    def _vectors(self, texts: list[str]) -> Float32Array:
        body = {"model": self._settings.source.name, "input": texts, "encoding_format": "float"}
        rows, tokens = self._calls.post("/embeddings", body, lambda answer: _read(answer, len(texts)))
        self._tokens += tokens
        return rows


def _read(answer: Any, count: int) -> tuple[Float32Array, int]:  # noqa: ANN401 - decoded JSON
    """The vectors in the texts' order, and the tokens that were counted; raises ValueError for anything else."""
    data = answer["data"]
    places = [int(one["index"]) for one in data]
    if sorted(places) != list(range(count)):
        raise ValueError(f"{len(places)} vectors for {count} texts, or an index that is missing or occurs twice")
    by_place: dict[int, Sequence[float]] = {place: one["embedding"] for place, one in zip(places, data, strict=True)}
    rows = np.array([by_place[place] for place in range(count)], dtype=np.float32)
    if rows.ndim != 2:
        raise ValueError("vectors of different lengths")
    return rows, int((answer.get("usage") or {}).get("prompt_tokens") or 0)
