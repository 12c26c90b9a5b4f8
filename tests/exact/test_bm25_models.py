"""Engines' own BM25: weights by hand, and each field of the formula on its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from harness.errors import UsageError
from harness.exact import SparseIndex
from harness.exact.bm25_models import SCORINGS, Bm25Formula, formula_of, weigh
from harness.registry.lookup import find_cards
from harness.testing.expected import count_words

COUNTS = count_words(["a a b", "b c", ""], ["a b", "b b nothing"])
LONG = count_words([" ".join(["a"] * 51), "a b"], ["a"])


def scores(formula: Bm25Formula) -> list[list[float]]:
    documents, queries, _ = weigh(COUNTS, formula)
    dense = queries.to_scipy().astype(np.float64) @ documents.to_scipy().astype(np.float64).T
    return dense.toarray().tolist()


def test_the_worked_example() -> None:
    """The numbers of docs/explanation/bm25.md."""
    first = scores(Bm25Formula(1.5, 0.75))[0]
    assert first == pytest.approx([1.0977, 0.2004, 0.0], abs=1e-4)


def test_a_query_counts_a_term_as_often_as_it_has_it() -> None:
    once, twice = scores(Bm25Formula(1.2, 0.75))
    assert twice[1] == pytest.approx(2 * once[1])


def test_the_constant_factor() -> None:
    with_it, without = scores(Bm25Formula(1.2, 0.75)), scores(Bm25Formula(1.2, 0.75, k1_plus_1=False))
    assert with_it[0] == pytest.approx([2.2 * score for score in without[0]])


def test_statistics_over_all_documents_count_the_empty_one() -> None:
    score = scores(Bm25Formula(1.2, 0.75, all_documents=True))[0][0]
    norm = 1.2 * (0.25 + 0.75 * 3 / (5 / 3))
    of_a = math.log(1 + 2.5 / 1.5) * 2.2 * 2 / (2 + norm)
    of_b = math.log(1 + 1.5 / 2.5) * 2.2 * 1 / (1 + norm)
    assert score == pytest.approx(of_a + of_b, rel=1e-6)


def test_the_mean_length_is_at_least_what_the_formula_says() -> None:
    """The mean over all three is 5/3: 2 takes its place, and 1 does not."""
    plain = Bm25Formula(1.2, 0.75, all_documents=True)
    raised = replace(plain, least_average=2.0)
    of_a = math.log(1 + 2.5 / 1.5) * 2.2 * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / 2))
    assert weigh(COUNTS, raised).documents.values[0] == pytest.approx(of_a, rel=1e-6)
    assert scores(replace(plain, least_average=1.0)) == scores(plain)


def test_an_idf_that_is_not_above_0_becomes_the_floor() -> None:
    """``b`` is in both documents that have terms: ln(0.5 / 2.5) is below 0."""
    plain = weigh(COUNTS, Bm25Formula(1.2, 0.75, idf="robertson")).documents
    floored = weigh(COUNTS, Bm25Formula(1.2, 0.75, idf="robertson", idf_floor=1e-6)).documents
    of_b = np.asarray(plain.indices) == 1
    assert (plain.values[of_b] < 0).all()
    assert floored.values[of_b] == pytest.approx([1e-6 * 2.2 / (1 + norm) for norm in (1.2 * 1.15, 1.2 * 0.85)])
    assert (floored.values[~of_b] == plain.values[~of_b] + 1e-6).any() or (plain.values[~of_b] <= 0).all()


def test_lengths_of_a_byte() -> None:
    """51 terms are stored as 50; the mean length stays 26.5."""
    weight = weigh(LONG, Bm25Formula(1.0, 1.0, k1_plus_1=False, byte_lengths=True)).documents.values[0]
    assert weight == pytest.approx(math.log(1 + 0.5 / 2.5) * 51 / (51 + 50 / 26.5), rel=1e-6)


def test_float32_steps_stay_within_a_few_ulps() -> None:
    exact = weigh(LONG, Bm25Formula(1.2, 0.75)).documents.values
    rounded = weigh(LONG, Bm25Formula(1.2, 0.75, arithmetic="tantivy")).documents.values
    assert rounded == pytest.approx(exact, rel=4e-7)


@pytest.mark.parametrize("scoring", SCORINGS)
def test_models_rank_as_their_weights_say(scoring: str) -> None:
    parameters = {
        name: card.defaults for name, card in find_cards("backends").items() if card.reference.scoring == scoring
    }
    documents, queries, _ = weigh(COUNTS, formula_of(scoring, next(iter(parameters.values()))))
    top = SparseIndex.build(documents).retrieve(queries, 3)
    assert top.rows[: top.indptr[1]].tolist()[0] == 0
    assert np.isfinite(top.scores).all()


def test_an_unknown_model_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'tantivi'.*tantivy"):
        formula_of("tantivi", {})
