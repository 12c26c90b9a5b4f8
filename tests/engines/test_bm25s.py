"""bm25s keeps the contract in each of its variants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from installed import skip_module_without

import harness
from harness.engines.bm25s import Bm25sEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

skip_module_without("bm25s")


@pytest.mark.contract
class TestLucene(EngineContract):
    engine = Bm25sEngine
    card = "bm25s"
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"k1": 0.9}
    tolerance = 4e-7


class TestAtire(TestLucene):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"variant": "atire"}


class TestRobertson(TestLucene):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"variant": "robertson"}


class TestBm25L(TestLucene):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"variant": "bm25l"}


class TestBm25Plus(TestLucene):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"variant": "bm25+"}


def test_a_formula_that_divides_0_by_0_is_refused() -> None:
    """BM25+ gives a document without a term ``0 / (k1 · 1 + 0)``, and bm25s stores NaN for it."""
    dataset = harness.Dataset.of({"a": "one two"}, {"q": "one"})
    comparison = harness.compare("bm25s:variant=bm25+;k1=0", dataset, isolation="none", timing=False)
    (trial,) = comparison.report.trials
    assert trial.error is not None
    assert "variant=bm25+ divides 0 by 0 with k1=0" in trial.error.message
