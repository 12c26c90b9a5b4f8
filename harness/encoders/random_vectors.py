"""The floor of chance: vectors that know nothing of their texts."""

from __future__ import annotations

import hashlib

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Float32Array
from harness.encoders.model import Facts
from harness.encoders.settings import Role, Settings

__all__ = ["DIMENSIONS", "RandomVectors"]

DIMENSIONS = 384
"""Of random vectors, unless truncate_dim says how many; as many as all-MiniLM-L6-v2 has."""


class RandomVectors:
    """Standard normal vectors of unit length, drawn from seed, role and id: the same wherever the text stands."""

    def __init__(self, settings: Settings) -> None:
        self._seed, self._dimensions = settings.seed, settings.truncate_dim or DIMENSIONS

    @property
    def facts(self) -> Facts:
        """The seed."""
        return {"seed": self._seed}

    def encode(self, texts: Inputs, role: Role) -> Float32Array:
        """float32 (n, d)."""
        rows = np.empty((len(texts), self._dimensions), dtype=np.float32)
        for row, name in enumerate(texts.ids):
            digest = hashlib.sha256(f"{self._seed}\n{role}\n{name}".encode()).digest()
            drawn = np.random.Generator(np.random.PCG64(int.from_bytes(digest))).standard_normal(self._dimensions)
            rows[row] = drawn / np.linalg.norm(drawn)
        return rows
