"""A model for tests, ``model=python:word_vectors:Words``: vectors made of words, whose lengths differ."""

from __future__ import annotations

from harness.testing.dense import embed_words
from harness.types import Float32Array


class Words:
    def encode(self, texts: list[str]) -> Float32Array:
        return embed_words(texts)
