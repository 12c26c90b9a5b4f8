"""Metrics that ir_measures spells alike, against ir_measures."""

from __future__ import annotations

import ir_measures
import pytest

import harness

RUN = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
QRELS = {"q": {"a": 1, "c": 1, "d": 1, "e": 1, "x": 0}}


@pytest.mark.parametrize("name", ["SetF", "SetF(beta=2.0)", "SetF(beta=0.5)"])
def test_set_f_is_ir_measures_of_the_same_spelling(name: str) -> None:
    measure = ir_measures.parse_measure(name)
    expected = ir_measures.calc_aggregate([measure], QRELS, RUN)[measure]
    assert harness.evaluate(RUN, QRELS, name).means()[0].value == pytest.approx(expected)


def test_set_f_weighs_recall_by_beta_and_not_by_its_square() -> None:
    run = {"q": dict.fromkeys("abcd", 1.0)}
    qrels = {"q": dict.fromkeys(["a", "b", "c", "e", "f"], 1)}
    # SetP 3/4, SetR 3/5: 3 · 0.45 / (1.5 + 0.6), where the square would give 5 · 0.45 / (3 + 0.6)
    assert harness.evaluate(run, qrels, "SetF(beta=2)").means()[0].value == pytest.approx(3 * 0.45 / 2.1)
