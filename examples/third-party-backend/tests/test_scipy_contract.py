"""The engine keeps the harness's contract."""

from __future__ import annotations

from harness_scipy.engine import ScipyEngine

from harness.testing import EngineContract


class TestScipy(EngineContract):
    engine = ScipyEngine
    tolerance = 4e-7
    largest_column = 1_000_000  # SciPy's transposed matrix has a place for every column
