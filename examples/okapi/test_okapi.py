"""The engine keeps the contract; its scores are those of the card's formula."""

from okapi_engine import OkapiEngine

from harness.testing import EngineContract


class TestOkapi(EngineContract):
    engine = OkapiEngine
    parameters = {"k1": 1.5, "b": 0.75, "epsilon": 0.25}
    scoring = "okapi_formula:okapi"
    tolerance = 2e-7
