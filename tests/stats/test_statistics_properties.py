"""What holds of differences and verdicts for every input."""

from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from installed import Deferred

from harness.data.types import Float64Array
from harness.stats import NoiseFloor, TestName, compare_pairs, equivalence, gate, judge

stats = Deferred("scipy.stats")
STEPS = st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0])
SIZES = st.sampled_from([0.0, 0.005, 0.02, 0.1, 0.3])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Float64Array, Float64Array]:
    """Two systems on the same queries, with many ties, as measures at a shallow depth have them."""
    values = draw(st.lists(st.tuples(STEPS, STEPS), max_size=25))
    both = np.array(values, dtype=np.float64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


@settings(max_examples=examples(60))
@given(pairs(), st.sampled_from(["randomisation", "t"]))  # Wilcoxon's exact distribution takes a second
def test_exchanging_the_sides_turns_everything_round(both: tuple[Float64Array, Float64Array], test: TestName) -> None:
    a, b = both
    one, other = compare_pairs(a, b, 3, test=test), compare_pairs(b, a, 3, test=test)
    assert one.difference == -other.difference
    assert (one.wins, one.ties, one.losses) == (other.losses, other.ties, other.wins)
    assert one.wins + one.ties + one.losses == one.n == len(a)
    assert (one.p is None) == (len(a) < 2)
    if one.p is not None and other.p is not None:
        assert 0.0 <= one.p <= 1.0
        assert one.p == pytest.approx(other.p)


@settings(max_examples=examples(60))
@given(pairs(), SIZES, SIZES)
def test_a_larger_allowance_never_fails_more(both: tuple[Float64Array, Float64Array], one: float, other: float) -> None:
    low, high = sorted((one, other))
    strict, lax = gate(*both, low), gate(*both, high)
    assert strict.failed or not lax.failed
    if strict.bound is not None and abs(strict.bound + low) > 1e-9:
        assert strict.failed == (strict.bound < -low)


@settings(max_examples=examples(60))
@given(pairs(), SIZES, SIZES, st.booleans())
def test_verdict_and_gate_never_contradict_each_other(
    both: tuple[Float64Array, Float64Array], margin: float, drop: float, noisy: bool
) -> None:
    noise = NoiseFloor(0.01, 4.0) if noisy else None
    found = judge(*both, margin=margin, allowed_drop=drop, seed=1, noise_floor=noise)
    mean = found.paired.difference
    if found.gate.failed:
        assert found.verdict == "worse"
        assert mean < -drop
    assert found.verdict != "better" or mean > 0.0
    assert found.verdict != "worse" or mean < 0.0
    assert found.verdict != "same" or abs(mean) < margin or found.paired.wins == found.paired.losses == 0
    assert (found.queries_needed or len(both[0]) + 1) > len(both[0])


@settings(max_examples=examples(60))
@given(pairs(), st.floats(0.0001, 0.2), st.integers(1, 8))
def test_noise_never_makes_a_difference_significant(
    both: tuple[Float64Array, Float64Array], sd: float, df: int
) -> None:
    plain = judge(*both, margin=0.0, allowed_drop=None, seed=1)
    noisy = judge(*both, margin=0.0, allowed_drop=None, seed=1, noise_floor=NoiseFloor(sd, float(df)))
    assert (noisy.p is None) == (plain.p is None)
    assert (noisy.p or 0.0) >= (plain.p or 0.0)


@settings(max_examples=examples(100))
@given(pairs(), st.sampled_from([0.013, 0.11, 0.29]))  # no mean of these values lies there
def test_skewness_only_ever_adds_doubt_to_t(both: tuple[Float64Array, Float64Array], size: float) -> None:
    differences = both[1] - both[0]
    if len(differences) < 2 or np.ptp(differences) < 1e-9:
        return
    below, above = (
        float(stats.ttest_1samp(differences, bound, alternative=side).pvalue)
        for bound, side in ((size, "less"), (-size, "greater"))
    )
    found = equivalence(*both, size)
    assert found.p is not None
    assert found.p >= max(below, above) * (1.0 - 1e-9)
    if len(differences) < 5:
        assert (found.interval, found.holds) == (None, False)
        return
    assert found.interval is not None
    assert found.holds == (-size < found.interval.low and found.interval.high < size)
    plain = stats.ttest_1samp(differences, 0.0).confidence_interval(0.9)
    assert found.interval.low <= plain.low + 1e-12
    assert found.interval.high >= plain.high - 1e-12
