"""Ways to keep a gate's false alarms at 5 % where differences are skewed, held against each other.

    python benchmarks/gate_candidates.py

Draws changes whose true mean is the limit, and counts how often each test rejects: from above, as a gate that raises a
false alarm, and from below, as a change called the same though it loses the margin. The second table leaves single
corrections out, or puts those in that this gate does without, and counts the verdicts that change.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from gate_simulation import ALPHA, Draw, Population, finite_population, golden_set, normal, of_row, real_changes
from scipy import special, stats

from harness.data.types import Float64Array
from harness.stats import NoiseFloor, noise_floor
from harness.stats.mean_error import balance_of, hall, mean_error, skewness_of_mean, sum_of_variances

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
    print()
    corrections(arguments.trials // 2, arguments.seed)


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
    found = mean_error(sample)
    return (False, False) if found is None else (found.p_above(0.0) < ALPHA, found.p_below(0.0) < ALPHA)


class Corrections(NamedTuple):
    """Which corrections a gate makes; by default those of ``harness.stats``."""

    skewness: bool = True
    chance: bool = True
    cube: bool = True
    noise: bool = True
    both_errors: bool = False
    limited_df: bool = False

    def errors(self, sample: Float64Array, floor: NoiseFloor | None) -> list[tuple[float, float, float]]:
        """Return standard error, degrees of freedom and skewness of the mean, of each error that is asked."""
        n, own = len(sample), float(np.std(sample, ddof=1)) / math.sqrt(len(sample))
        if own < _EQUAL:
            return []
        skewness = 0.0
        if self.skewness:
            skewness = skewness_of_mean(sample) if self.chance else float(stats.skew(sample)) / math.sqrt(n)
        if floor is None or not self.noise:
            return [(own, n - 1.0, skewness)]
        whole = sum_of_variances([(own**2, n - 1.0), (floor.sd**2, floor.df)])
        assert whole is not None
        df = min(whole.df, n - 1.0) if self.limited_df else whole.df
        both = [(whole.sd, df, skewness * ((own / whole.sd) ** 3 if self.cube else 1.0))]
        return [(own, n - 1.0, skewness), *both] if self.both_errors else both

    def decide(self, sample: Float64Array, floor: NoiseFloor | None, limit: float) -> list[bool]:
        """Tell whether gates at ``limit`` and at 0 fail, and whether it is the same within ``limit`` and 2.5 times."""
        mean, errors = float(np.mean(sample)), self.errors(sample, floor)
        balance = balance_of(sample) if errors else mean

        def p_above(bound: float, sign: float) -> float:
            values = [(sign * mean - bound) / sd for sd, _, _ in errors]
            excuses = bound < sign * balance
            told = [max(t, hall(t, sign * g)) if excuses else t for t, (_, _, g) in zip(values, errors, strict=True)]
            ps = [float(special.stdtr(df, t)) for t, (_, df, _) in zip(told, errors, strict=True)]
            return max(ps, default=float(sign * mean > bound - _EQUAL))

        failed = [p_above(-drop, 1.0) < ALPHA for drop in (limit, 0.0)]
        return failed + [max(p_above(m, 1.0), p_above(m, -1.0)) < ALPHA for m in (limit, 2.5 * limit)]


def corrections(trials: int, seed: int) -> None:
    """Print, for each correction, the verdicts that change with it and the rates at the limit."""
    kinds = {
        "this gate": Corrections(),
        "kept: skewness, by Hall": Corrections(skewness=False),
        "kept: chance taken off the skewness": Corrections(chance=False),
        "kept: the mean's skewness shrinks with noise": Corrections(cube=False),
        "kept: noise of builds": Corrections(noise=False),
        "gone: the queries' own error asked beside the whole": Corrections(both_errors=True),
        "gone: never more degrees of freedom than queries": Corrections(limited_df=True),
    }
    wins = finite_population("few win much", 0.1 * (np.random.default_rng(seed).exponential(1.0, 10_000) - 1.2))
    changes = [normal(-0.02, 0.2), *real_changes(), golden_set(0.10, 0.05), golden_set(0.05, 0.0), wins]
    print("| correction, the other way round | builds | verdicts that change | false alarms | called the same |")
    print("|---|---|--:|--:|--:|")
    for noisy, sizes in ((False, (20, 50, 200, 1000)), (True, (5, 20, 50, 200))):
        rows = [(population, n) for population in changes for n in sizes]
        decided = np.concatenate([decisions(list(kinds.values()), *row, trials, seed, noisy=noisy) for row in rows])
        for place, name in enumerate(kinds):
            differ = (decided[:, place] != decided[:, 0]).mean()
            low, _, same, _ = decided[:, place].mean(axis=0)
            builds = "differ" if noisy else "equal"
            print(f"| {name} | {builds} | {differ:.2%} | {low:.2%} | {same:.2%} |", flush=True)
    print()


def decisions(
    kinds: list[Corrections], population: Population, n: int, trials: int, seed: int, *, noisy: bool
) -> npt.NDArray[np.bool_]:
    """Decide simulated changes, each by every kind of gate: bool (trials, kinds, 4)."""
    rng = of_row(seed + 2, population, n)
    decided = np.zeros((trials, len(kinds), 4), dtype=bool)
    for trial in range(trials):
        sample, floor = population.draw(rng, n), None
        if noisy:  # three builds a side, which move the mean by half an error to two
            moved = rng.normal(0.0, rng.choice([0.5, 1.0, 2.0]) * population.sd / math.sqrt(n), (2, 3))
            sample, floor = sample + moved[1, 0] - moved[0, 0], noise_floor(moved[0], moved[1])
        decided[trial] = [kind.decide(sample, floor, -population.mean) for kind in kinds]
    return decided


if __name__ == "__main__":
    main()
