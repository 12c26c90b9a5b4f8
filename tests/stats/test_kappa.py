"""Agreement of two judges, against scikit-learn's and statsmodels' figures."""

from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stats.kappa import WEIGHTINGS, cohen_kappa, confusion_matrix

_SKLEARN = {"none": None, "linear": "linear", "quadratic": "quadratic"}
GRADES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60)


@given(pairs=GRADES)
@settings(max_examples=examples(100), deadline=None)
def test_confusion_and_kappa_are_scikit_learns(pairs):
    sklearn_metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    first, second = (list(column) for column in zip(*pairs, strict=True))
    grades, counts = confusion_matrix(first, second)
    if len(grades) == 1:
        assert counts.tolist() == [[len(pairs)]]
        assert all(np.isnan(cohen_kappa(grades, counts, weighting).value) for weighting in WEIGHTINGS)
        return
    assert counts.tolist() == sklearn_metrics.confusion_matrix(first, second, labels=grades).tolist()
    scale = list(range(min(grades), max(grades) + 1))  # scikit-learn takes weights from positions in the scale
    for weighting in WEIGHTINGS:
        kappa = cohen_kappa(grades, counts, weighting).value
        expected = sklearn_metrics.cohen_kappa_score(first, second, labels=scale, weights=_SKLEARN[weighting])
        assert kappa == pytest.approx(expected, abs=1e-12)


def test_intervals_are_statsmodels():
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater", reason="statsmodels is not installed")
    random = np.random.default_rng(5)
    for _ in range(20):
        counts = random.integers(1, 30, (4, 4)) + np.diag(random.integers(0, 60, 4))
        for weighting in WEIGHTINGS:
            weights = None if weighting == "none" else {"linear": "linear", "quadratic": "quadratic"}[weighting]
            theirs = inter_rater.cohens_kappa(counts, wt=weights)
            ours = cohen_kappa([0, 1, 2, 3], counts, weighting)
            low, high = (theirs.kappa_low, theirs.kappa_upp)
            assert ours == pytest.approx((theirs.kappa, max(low, -1.0), min(high, 1.0)), abs=1e-9)


def test_a_known_matrix_without_libraries():
    # 45 + 15 of 100 agree; by chance 0.7 * 0.6 + 0.3 * 0.4 = 0.54 (the textbook example gives 0.1304)
    kappa = cohen_kappa([0, 1], [[45, 25], [15, 15]])
    assert kappa.value == pytest.approx((0.60 - 0.54) / 0.46)
    assert kappa.low < kappa.value < kappa.high
    assert cohen_kappa([0, 1], [[45, 25], [15, 15]], "linear") == pytest.approx(kappa)


def test_perfect_agreement_is_1_and_a_single_grade_is_not_defined():
    assert cohen_kappa([0, 3], [[4, 0], [0, 6]]) == (1.0, 1.0, 1.0)
    assert all(np.isnan(cohen_kappa([2], [[5]])))
    assert all(np.isnan(cohen_kappa([], [])))


def test_the_distance_of_grades_counts_and_not_their_position():
    near, far = confusion_matrix([0, 1, 0, 1, 3], [0, 1, 1, 1, 3]), confusion_matrix([0, 3, 0, 3, 1], [0, 3, 3, 3, 1])
    assert cohen_kappa(*near).value == pytest.approx(cohen_kappa(*far).value)
    assert cohen_kappa(*near, "quadratic").value > cohen_kappa(*far, "quadratic").value
