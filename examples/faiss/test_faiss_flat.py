"""The engine keeps the contract."""

from faiss_flat import FaissEngine

from harness.testing import EngineContract


class TestCosine(EngineContract):
    engine = FaissEngine
    parameters = {"similarity": "cosine"}
    tolerance = 4e-7


class TestDot(TestCosine):
    parameters = {"similarity": "dot"}
    similarity = "dot"
