"""The engine keeps the contract."""

from faiss_flat import FaissFlatEngine

from harness.testing import EngineContract


class TestCosine(EngineContract):
    engine = FaissFlatEngine
    parameters = {"similarity": "cosine"}
    tolerance = 4e-7


class TestDot(TestCosine):
    parameters = {"similarity": "dot"}
    similarity = "dot"
