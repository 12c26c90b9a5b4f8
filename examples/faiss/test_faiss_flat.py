"""The engine keeps the contract."""

from pathlib import Path

from faiss_flat import FaissFlatEngine

from harness.testing import EngineContract


class TestCosine(EngineContract):
    engine = FaissFlatEngine
    card = Path(__file__).with_name("faiss-flat.toml")
    tolerance = 4e-7


class TestDot(TestCosine):
    parameters = {"similarity": "dot"}
    variant = True
