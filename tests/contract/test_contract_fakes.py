"""The contract suite passes engines that keep the contract, of every kind of input that it knows."""

from __future__ import annotations

import pytest
from contract_fakes import FakeSparse, FakeText

from harness.testing import EngineContract

pytestmark = pytest.mark.contract


class TestFakeSparse(EngineContract):
    engine = FakeSparse
    tolerance = 1e-6


class TestFakeText(EngineContract):
    engine = FakeText
    tolerance = 1e-6
