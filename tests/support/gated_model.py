"""A model that writes down every text, and after its first batch of documents waits while the gate is closed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from slow_model import vectors


class Dense:
    @staticmethod
    def encode(texts: list[str]) -> np.ndarray:
        rows = vectors(texts)
        gate = Path(os.environ["CALLS"]).with_name("gate")
        if gate.exists() and texts[0].startswith("text"):
            (gate / str(os.getpid())).touch()
            while gate.exists():
                time.sleep(0.01)
        return rows
