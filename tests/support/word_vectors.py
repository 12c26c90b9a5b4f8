"""A model for tests, ``model=python:word_vectors:Words``: vectors made of words, whose lengths differ."""

from __future__ import annotations

import zlib
from collections import Counter

import numpy as np
from scipy.sparse import csr_array, vstack

from harness.data.types import Float32Array
from harness.testing.expected import embed_words


class Words:
    def encode(self, texts: list[str]) -> Float32Array:
        return embed_words(texts)


class SparseWords:
    """``model=python:word_vectors:SparseWords``: a column for each word, by its hash, with weights from 1 to 1.7."""

    def encode(self, texts: list[str]) -> csr_array:
        return csr_array(vstack([_sparse(text) for text in texts], format="csr"))


def _sparse(text: str) -> csr_array:
    counted = Counter(zlib.crc32(word.encode()) % 1_000 for word in text.split())
    weights = np.array([count * (1 + column % 8 / 10) for column, count in counted.items()], dtype=np.float32)
    places = np.zeros(len(counted), dtype=np.int32), np.array(list(counted), dtype=np.int32)
    return csr_array((weights, places), shape=(1, 1_000))
