"""Power where SciPy's non-central t gives out, and changes without a gate."""

from __future__ import annotations

import numpy as np
import pytest
from installed import Deferred

from harness.stats import detectable_difference, judge, judge_family, queries_needed
from harness.stats.judging import Change
from harness.stats.power import queries_for_equivalence

stats = Deferred("scipy.stats")


@pytest.mark.parametrize("differences", [[0.0, -0.63, 0.37], [0.1, -0.1], [0.1, 0.2, -0.3, 0.05]])
@pytest.mark.parametrize("alpha", [0.05, 0.025, 0.001])
def test_the_detectable_difference_of_few_queries_has_its_power(differences: list[float], alpha: float) -> None:
    found = detectable_difference(differences, alpha=alpha)
    assert found is not None
    n = len(differences)
    size = found / (np.std(differences, ddof=1) / np.sqrt(n))
    critical = stats.t.isf(alpha / 2, n - 1)
    # the definition of the non-central t: (Z + size) / sqrt(chi2 / df), by its two independent parts
    shares = (np.arange(20_000) + 0.5) / 20_000
    scale = np.sqrt(stats.chi2.ppf(shares, n - 1) / (n - 1))
    power = np.mean(stats.norm.sf(critical * scale - size) + stats.norm.cdf(-critical * scale - size))
    assert power == pytest.approx(0.8, abs=1e-3)


def test_more_queries_are_never_worse() -> None:
    values = np.random.default_rng(1).normal(0.0, 0.01, 52)
    assert queries_for_equivalence(values, 0.1) == 2
    needed = [queries_needed(values, size) for size in (0.001, 0.01, 0.1, 1.0)]
    assert needed == sorted((one for one in needed if one is not None), reverse=True)


def test_a_change_without_an_allowed_drop_has_no_gate_and_no_part_in_the_family_of_drops() -> None:
    rng = np.random.default_rng(2)
    before = rng.uniform(0, 1, 30)
    after = before - 0.02 + rng.normal(0, 0.05, 30)
    gated = Change(before, after, 0.0, 0.0)
    alone = judge(before, after, margin=0.0, allowed_drop=None, seed=1)
    assert (alone.gate.failed, alone.gate.p, alone.gate.allowed_drop) == (False, None, None)
    one, other = judge_family([gated, Change(before, after, 0.0, None)], seed=1)
    assert one.gate.p_adjusted == one.gate.p
    assert other.gate.p_adjusted is None
