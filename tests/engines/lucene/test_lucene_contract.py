from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from installed import skip_module_without

from harness.engines.lucene.bm25 import LuceneEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

skip_module_without("jnius_config")
pytestmark = [pytest.mark.contract, pytest.mark.integration]

_FLOAT32_STEPS = 1e-6
"""The suite computes in float64, Lucene in float32; equal bits are asked for in test_lucene_reference.py."""


class TestLucene(EngineContract):
    engine = LuceneEngine
    card = "lucene"
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"ram_buffer_mb": 2.0}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"k1": 1.2, "model": "ql"}
    tolerance = _FLOAT32_STEPS

    def fault(self) -> Exception:
        """Return an exception of Java, which has started by then."""
        from jnius import JavaException

        return JavaException("out of luck", "java.io.IOException", "out of luck")  # type: ignore[no-any-return]


class TestLuceneSingleSegment(TestLucene):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"segments": "single", "ram_buffer_mb": 1.0}
