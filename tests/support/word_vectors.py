"""A model for tests, ``model=python:word_vectors:Words``: vectors made of words, whose lengths differ."""

from __future__ import annotations

from harness.data.types import Float32Array
from harness.testing.expected import embed_words


class Words:
    def encode(self, texts: list[str]) -> Float32Array:
        return embed_words(texts)
