"""The contract suite on hnswlib, for each space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from installed import skip_module_without

from harness.engines.hnswlib import HnswlibEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

skip_module_without("hnswlib")

pytestmark = pytest.mark.contract


class TestCosine(EngineContract):
    engine = HnswlibEngine
    card = "hnswlib"
    tolerance = 2e-6
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"m": 17}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"ef": 30}
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {"m": 4, "ef": 1, "ef_construction": 10}


class TestDot(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot", "m": 48, "ef": 300}
    similarity = "dot"


class TestL2(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}
    similarity = "l2"
