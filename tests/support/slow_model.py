"""A model that takes its time and writes down every text: for killing it in the middle of its work."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import numpy as np


def vectors(texts: list[str]) -> np.ndarray:
    time.sleep(0.002 * len(texts))
    with Path(os.environ["CALLS"]).open("a") as calls:
        calls.writelines(f"{text}\n" for text in texts)
    digests = [hashlib.sha256(text.encode()).digest() for text in texts]
    return np.array([np.frombuffer(digest, dtype=np.uint8) for digest in digests], dtype=np.float32)


class Dense:
    encode = staticmethod(vectors)


class Sparse:
    @staticmethod
    def encode(texts: list[str]) -> list[dict[int, float]]:
        return [{column: value for column, value in enumerate(row.tolist()) if value > 127} for row in vectors(texts)]
