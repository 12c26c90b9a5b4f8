"""The contract suite on DuckDB, for each of its array functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from installed import skip_module_without

from harness.engines.duckdb import DuckdbEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

skip_module_without("duckdb")

pytestmark = pytest.mark.contract


class TestCosine(EngineContract):
    engine = DuckdbEngine
    card = "duckdb"
    tolerance = 2e-6
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"threads": 2}


class TestDot(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}


class TestL2(TestCosine):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}
