"""The contract suite on USearch, for each metric, and for vectors that it rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from installed import skip_module_without

from harness.engines.usearch import UsearchEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

skip_module_without("usearch")

pytestmark = pytest.mark.contract


class TestCosine(EngineContract):
    engine = UsearchEngine
    card = "usearch"
    tolerance = 2e-6
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"datatype": "f16"}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"ef": 30, "exact": True}
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {"m": 4, "ef": 1, "ef_construction": 10}


class TestDot(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot", "m": 48, "ef": 300}
    similarity = "dot"


class TestL2OfSixteenBits(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2", "datatype": "f16"}
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"datatype": "f32"}
    similarity = "l2"
    tolerance = 1e-3


class TestEightBits(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"datatype": "i8"}
    tolerance = 0.02
