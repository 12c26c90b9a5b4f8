"""Formulas of other packages: what the function gets, what it may return, and what a user reads when it fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.data.types import TermCounts
from harness.errors import CardError, EngineFailureError
from harness.exact.bm25_models import formula_of, weigh
from harness.exact.scoring_functions import ForeignFormula, Postings
from harness.testing.expected import count_words

COUNTS = count_words(["a a b", "b c", "", "c"], ["a b b"])
"""Columns a, b, c; four documents, one without terms."""


def offered(monkeypatch: pytest.MonkeyPatch, function: object) -> str:
    """Put a function into a module that can be imported, and return its name as a card has it."""
    module = ModuleType("theirs")
    module.formula = function  # type: ignore[attr-defined]
    monkeypatch.setitem(__import__("sys").modules, "theirs", module)
    return "theirs:formula"


def weights(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], counts: TermCounts = COUNTS, **parameters: Any
) -> list[float]:
    values: list[float] = weigh(
        counts, formula_of(offered(monkeypatch, function), parameters)
    ).documents.values.tolist()
    return values


def test_what_the_function_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Postings, Mapping[str, Any]]] = []

    def formula(postings: Postings, parameters: Mapping[str, Any]) -> Any:
        seen.append((postings, parameters))
        return postings.tf

    assert weights(monkeypatch, formula, k1=1.5, name="x") == [2.0, 1.0, 1.0, 1.0, 1.0]
    ((postings, parameters),) = seen
    assert {name: column.tolist() for name, column in postings._asdict().items()} == {
        "tf": [2.0, 1.0, 1.0, 1.0, 1.0],
        "term": [0, 1, 1, 2, 2],
        "document": [0, 0, 1, 1, 3],
        "df": [1.0, 2.0, 2.0],
        "lengths": [3.0, 2.0, 0.0, 1.0],
    }
    assert parameters == {"k1": 1.5, "name": "x"}


def test_terms_that_no_document_has_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in one shard, or after documents left: the mean over all terms is of those that are there."""
    last = COUNTS.of_documents(np.array([3, 1], dtype=np.int32))
    assert weights(monkeypatch, lambda postings, _: postings.df[postings.term], last) == [2.0, 1.0, 2.0]


def test_what_the_function_writes_into_its_arguments_stays_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(postings: Postings, parameters: dict[str, Any]) -> Any:
        for column in postings:
            column.fill(0)
        parameters.clear()
        return postings.tf

    formula = formula_of(offered(monkeypatch, careless), {"k1": 1.0})
    weigh(COUNTS, formula)
    assert COUNTS.lengths.tolist() == [3, 2, 0, 1]
    assert COUNTS.documents.values.tolist() == [2, 1, 1, 1, 1]
    assert formula == formula_of("theirs:formula", {"k1": 1.0})


def test_whole_numbers_are_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    assert weights(monkeypatch, lambda postings, _: postings.term.tolist()) == [0.0, 1.0, 1.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda postings, parameters: parameters["epsilon"],
            r"'theirs:formula' raised KeyError: 'epsilon' \(line \d+ of",
        ),
        (lambda postings, parameters: None, r"returned an array of object of shape \(\), expected .* shape \(5,\)"),
        (lambda postings, parameters: postings.df, r"returned an array of float64 of shape \(3,\)"),
        (lambda postings, parameters: postings.tf > 1, "returned an array of bool"),
        (
            lambda postings, parameters: [[1.0], 2.0],
            "reading the result of the scoring function 'theirs:formula' raised ValueError",
        ),
        (
            lambda postings, parameters: np.where(postings.document == 1, np.nan, 1.0),
            "gave the term 'b' of document number 1 the weight nan, which is not a finite float32",
        ),
        (lambda postings, parameters: postings.tf * 1e40, "term 'a' of document number 0 the weight 2e"),
    ],
)
def test_a_function_that_fails_is_named(
    function: Callable[..., Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineFailureError, match=message):
        weights(monkeypatch, function)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:formula", "importing the scoring 'no_such_module:formula' raised ModuleNotFoundError"),
        ("theirs:other", "the scoring 'theirs:other' is not a function: 'theirs' has none of that name"),
        ("theirs:__doc__", "is not a function"),
        ("math:sqrt", "the scoring 'math:sqrt' does not take postings and parameters"),
    ],
)
def test_what_is_no_function_is_refused(name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, lambda postings, parameters: postings.tf)
    with pytest.raises(CardError, match=message):
        formula_of(name, {})


def test_formulas_are_equal_where_function_and_parameters_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """References of backends with equal formulas are shared."""
    name = offered(monkeypatch, lambda postings, parameters: postings.tf)
    first, same, other = (formula_of(name, {"b": b, "a": 1}) for b in (0.5, 0.5, 0.6))
    assert isinstance(first, ForeignFormula)
    assert (first == same, hash(first) == hash(same), first == other) == (True, True, False)


def test_okapi_by_hand(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The example of the documentation: ``b`` is in 3 of 4 documents, so that its IDF is a share of the mean."""
    monkeypatch.syspath_prepend(str(request.config.rootpath / "examples" / "okapi"))
    counts = count_words(["a b b", "b", "b c", "c"], ["b"])
    values = weigh(counts, formula_of("okapi_formula:okapi", {"k1": 1.5, "b": 0.75, "epsilon": 0.25})).documents
    of_a, of_b, of_c = math.log(3.5 / 1.5), math.log(1.5 / 3.5), math.log(2.5 / 2.5)
    floor = 0.25 * (of_a + of_b + of_c) / 3
    norm = 1.5 * (0.25 + 0.75 * 3 / 1.75)
    expected = [of_a * 2.5 / (1 + norm), floor * 2 * 2.5 / (2 + norm)]
    assert values.values[:2].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-9)
