"""Attributes of a test class: what its card gives it, and names that it cannot use."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
from contract_fakes import FakeDense, FakeSparse, FakeText

from harness.errors import CardError, UnknownNameError
from harness.registry.lookup import find_cards
from harness.testing import EngineContract

CARDS = find_cards("backends")


class OfCsr(EngineContract):
    engine = FakeSparse
    card = "csr"


class Changed(OfCsr):
    parameters: ClassVar[dict[str, Any]] = {"threads": 3}


class OfBm25s(EngineContract):
    engine = FakeText
    card = "bm25s"


def test_the_parameters_are_the_cards() -> None:
    assert OfCsr.parameters == CARDS["csr"].defaults
    assert (OfCsr.scoring, OfBm25s.scoring) == (None, CARDS["bm25s"].reference.scoring)


def test_those_of_the_class_go_before_the_cards() -> None:
    assert Changed.parameters == {**CARDS["csr"].defaults, "threads": 3}

    class Same(Changed):
        """Sets nothing, and so keeps what it inherits."""

    assert Same.parameters == Changed.parameters


def test_the_similarity_is_that_of_the_parameters() -> None:
    class OfFlat(EngineContract):
        engine = FakeDense
        card = "flat"

    class OfDot(OfFlat):
        parameters: ClassVar[dict[str, Any]] = {"similarity": "dot"}

    class Other(OfDot):
        parameters: ClassVar[dict[str, Any]] = {"similarity": "cosine"}
        similarity = "l2"

    assert (OfFlat.similarity, OfDot.similarity, Other.similarity) == ("cosine", "dot", "l2")


def test_a_card_may_be_a_file(request: pytest.FixtureRequest) -> None:
    path = request.config.rootpath / "examples" / "okapi" / "okapi.toml"

    class OfFile(EngineContract):
        engine = FakeText
        card = path
        parameters: ClassVar[dict[str, Any]] = {"epsilon": 0.5}

    assert (OfFile.parameters["k1"], OfFile.parameters["epsilon"]) == (1.5, 0.5)
    assert OfFile.scoring == "okapi_formula:okapi"


def test_a_card_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown card 'csrr'\n  did you mean 'csr'"):
        type("Suite", (EngineContract,), {"engine": FakeSparse, "card": "csrr"})
    with pytest.raises(CardError, match=r"no\.toml"):
        type("Suite", (EngineContract,), {"engine": FakeSparse, "card": tmp_path / "no.toml"})


@pytest.mark.parametrize(
    "name", ["inputs", "expected", "search", "query", "send", "built", "opened", "fault", "changed"]
)
def test_an_attribute_hides_no_method_of_the_suite(name: str) -> None:
    with pytest.raises(TypeError, match=f"the attribute '{name}' of 'Suite' hides the method '{name}'"):
        type("Suite", (EngineContract,), {"engine": FakeSparse, name: ["a"]})


def test_methods_and_tests_may_be_replaced() -> None:
    def expected(self: Any, documents: Any, queries: Any) -> None:
        """As engines that compute something else do."""

    members = {"engine": FakeSparse, "expected": expected, "test_two_at_once": None, "note": "free"}
    suite = type("Suite", (EngineContract,), members)
    assert suite.expected is expected  # type: ignore[attr-defined]
