"""The contract suite passes engines that keep the contract, of every kind of input that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from contract_fakes import FakeDense, FakeGraph, FakeSparse, FakeText
from mutants_of_external import FakeExternal
from mutants_of_guards import GuardedSparse

from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

pytestmark = pytest.mark.contract


class TestFakeSparse(EngineContract):
    engine = FakeSparse
    tolerance = 1e-6


class TestGuardedSparse(EngineContract):
    engine = GuardedSparse
    tolerance = 1e-6


class TestFakeExternal(EngineContract):
    engine = FakeExternal
    tolerance = 1e-6


class TestFakeText(EngineContract):
    engine = FakeText
    tolerance = 1e-6


class TestFakeDense(EngineContract):
    engine = FakeDense
    tolerance = 1e-7


class TestFakeDot(EngineContract):
    variant = True

    class Dot(FakeDense):
        similarity = "dot"

    engine = Dot
    similarity = "dot"
    tolerance = 1e-7


class TestFakeL2(EngineContract):
    variant = True

    class Distance(FakeDense):
        similarity = "l2"

    engine = Distance
    similarity = "l2"
    tolerance = 1e-7


class TestFakeGraph(EngineContract):
    engine = FakeGraph
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {"graph": True}
    tolerance = 1e-7
