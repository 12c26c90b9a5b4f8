"""Simulated tuning: how often noise in the queries makes a combination of parameters look better than the default.

    python benchmarks/tuning_simulation.py

Draws per-query differences from the default that are noise with a true mean of 0, and asks the code of
``harness.stats.held_out`` for the best of several combinations. A share of the noise may be common to all combinations:
they change the same queries. Each rate counts gains above 0 with a two-sided p below 0.05, of which chance alone makes
2.5 %; ``!`` marks rates that are higher by more than two standard errors.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from harness.data.types import Float64Array
from harness.stats.held_out import choose, randomise_choices, split_queries, tune
from harness.stats.paired import two_sided_p

PROMISED = 0.025
FOLDS = 5
FLIPS = 999
"""A tenth of those of a comparison, to simulate more tunings."""


def noise(rng: np.random.Generator, combinations: int, queries: int, common: float) -> Float64Array:
    """Differences of each combination from the default, the first row, which are its own."""
    values = math.sqrt(common) * rng.normal(size=queries)
    values = values + math.sqrt(1.0 - common) * rng.normal(size=(combinations, queries))
    values[0] = 0.0
    return 0.2 * values


def is_gain(differences: Float64Array, p: float | None) -> bool:
    """Whether a mean above 0 has a significant p."""
    return p is not None and p < 0.05 and float(differences.mean()) > 0.0


def gains(values: Float64Array, seed: int) -> list[bool]:
    """Whether noise is called a gain: on all queries, on the other half, by folds as if independent, and by folds."""
    names = [f"query {number}" for number in range(values.shape[1])]
    best = values[choose(values)]
    (half,) = tune(values, split_queries(names, names, 2, seed))
    part_of = split_queries(names, names, FOLDS, seed)
    pooled = np.zeros(len(names))
    for fold in tune(values, part_of, cross_validate=True):
        pooled[fold.reporting] = values[fold.candidate, fold.reporting]
    held_out = values[half.candidate, half.reporting]
    return [
        is_gain(best, two_sided_p(best, "t", seed)),
        is_gain(held_out, two_sided_p(held_out, "t", seed)),
        is_gain(pooled, two_sided_p(pooled, "t", seed)),
        is_gain(pooled, randomise_choices(values, part_of, seed, flips=FLIPS).p),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="simulated tunings for each row")
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    reach = 2.0 * math.sqrt(PROMISED * (1.0 - PROMISED) / arguments.trials)
    print("| combinations | common noise | best of all queries | other half | folds, paired test | folds |")
    print("|--:|--:|--:|--:|--:|--:|")
    for combinations in (4, 25):
        for common in (0.0, 0.7):
            rng = np.random.default_rng([arguments.seed, combinations, int(10 * common)])
            rates = np.mean(
                [gains(noise(rng, combinations, arguments.queries, common), t) for t in range(arguments.trials)], axis=0
            )
            cells = " | ".join(f"{rate:.1%}{'!' if rate > PROMISED + reach else ''}" for rate in rates)
            print(f"| {combinations} | {common:.0%} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
