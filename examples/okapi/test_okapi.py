"""The engine keeps the contract; its scores are those of the card's formula."""

from pathlib import Path

from okapi_engine import OkapiEngine

from harness.testing import EngineContract


class TestOkapi(EngineContract):
    engine = OkapiEngine
    card = Path(__file__).with_name("okapi.toml")
    tolerance = 2e-7
