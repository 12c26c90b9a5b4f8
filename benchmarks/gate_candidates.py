"""Ways to keep a gate's false alarms at 5 % where differences are skewed, held against each other.

    python benchmarks/gate_candidates.py

Draws changes whose true mean is the limit, and counts how often each test rejects: from above, as a gate that raises a
false alarm, and from below, as a change called the same though it loses the margin.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from gate_simulation import ALPHA, Draw, golden_set, real_changes
from scipy import stats

from harness.data.types import Float64Array
from harness.stats.location import locate

Test = Callable[[Float64Array], tuple[bool, bool]]
"""Differences whose true mean is 0 -> whether it takes the mean for lower, and for higher."""
_RESAMPLES = 1000
_EQUAL = 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=3_000, help="simulated changes for each rate")
    parser.add_argument("--queries", type=int, nargs="+", default=[50, 200], help="queries of a change")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    tests: dict[str, Test] = {
        "t": transformed(lambda t, _: t),
        "Johnson": transformed(lambda t, g: t + g / 6.0 + g * t**2 / 3.0),
        "Hall": transformed(lambda t, g: t + g / 6.0 + g * t**2 / 3.0 + g**2 * t**3 / 27.0),
        "bootstrap-t": lambda sample: bootstrap_t(sample, rng),
        "empirical likelihood": empirical_likelihood,
        "this gate": this_gate,
    }
    print("| differences | queries | " + " | ".join(tests) + " |")
    print("|---|--:|" + "--:|" * len(tests))
    for name, draw in populations().items():
        for n in arguments.queries:
            rejected = np.zeros((len(tests), 2))
            for _ in range(arguments.trials):
                sample = draw(rng, n)
                rejected += [test(sample) for test in tests.values()]
            cells = (f"{low:.1%} / {high:.1%}" for low, high in rejected / arguments.trials)
            print(f"| {name} | {n} | {' | '.join(cells)} |", flush=True)


def populations() -> dict[str, Draw]:
    """Differences with a mean of 0, as CACM's and golden sets show them."""

    def few_change(rng: np.random.Generator, n: int) -> Float64Array:
        ranks = rng.integers(1, 6, (2, n))
        return np.where(rng.random(n) < 0.2, 1.0 / ranks[0] - 1.0 / ranks[1], 0.0)

    found: dict[str, Draw] = {"normal": lambda rng, n: rng.normal(0.0, 1.0, n)}
    for population in (*list(real_changes())[::2], golden_set(0.05, 0.0)):
        found[population.name] = lambda rng, n, one=population: one.draw(rng, n) - one.mean  # type: ignore[misc]
    found["a few win much (exponential)"] = lambda rng, n: rng.exponential(1.0, n) - 1.0
    found["MRR@5, 20% move, either way"] = few_change
    return found


def transformed(function: Callable[[float, float], float]) -> Test:
    """A test by a function of t and of the skewness of the mean, held against Student's t."""

    def test(sample: Float64Array) -> tuple[bool, bool]:
        n, spread = len(sample), float(np.std(sample, ddof=1))
        if spread < _EQUAL:
            return without_spread(sample)
        skewness = float(stats.skew(sample)) / math.sqrt(n)
        found = function(float(np.mean(sample)) / spread * math.sqrt(n), skewness)
        critical = float(stats.t.isf(ALPHA, n - 1))
        return found < -critical, found > critical

    return test


def without_spread(sample: Float64Array) -> tuple[bool, bool]:
    """Equal differences are all on one side by chance with probability 2**-n, and there are many."""
    return bool(sample[0] < -_EQUAL), bool(sample[0] > _EQUAL)


def bootstrap_t(sample: Float64Array, rng: np.random.Generator) -> tuple[bool, bool]:
    """By the quantiles of t over resamples."""
    n, mean, spread = len(sample), float(np.mean(sample)), float(np.std(sample, ddof=1))
    if spread < _EQUAL:
        return without_spread(sample)
    drawn = sample[rng.integers(0, n, (_RESAMPLES, n))]
    spreads = np.maximum(np.std(drawn, axis=1, ddof=1), 1e-12)
    low, high = np.quantile((drawn.mean(axis=1) - mean) / spreads, [ALPHA, 1.0 - ALPHA])
    return mean / spread < low, mean / spread > high


def empirical_likelihood(sample: Float64Array) -> tuple[bool, bool]:
    """By the signed root of Owen's ratio (Biometrika 75, 1988), held against Student's t."""
    if sample.min() >= -_EQUAL or sample.max() <= _EQUAL:
        return bool(sample.max() <= _EQUAL), bool(sample.min() >= -_EQUAL)
    n = len(sample)
    low, high = (1.0 / n - 1.0) / sample.max(), (1.0 / n - 1.0) / sample.min()
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.sum(sample / (1.0 + middle * sample)) > 0.0 else (low, middle)
    root = math.copysign(math.sqrt(max(0.0, 2.0 * float(np.sum(np.log1p(low * sample))))), float(np.mean(sample)))
    critical = float(stats.t.isf(ALPHA, n - 1))
    return root < -critical, root > critical


def this_gate(sample: Float64Array) -> tuple[bool, bool]:
    """By the code of ``harness.stats``."""
    found = locate(sample)
    return (False, False) if found is None else (found.p_above(0.0) < ALPHA, found.p_below(0.0) < ALPHA)


if __name__ == "__main__":
    main()
