"""Simulated gates: how often they fail without reason, and how often with one.

    python benchmarks/gate_simulation.py

Draws the per-query differences of a change from populations whose mean is known, and asks the code of
``harness.statistics`` each time. Every rate stands beside the one that is promised, with two standard errors of the
simulation; ``!`` marks a rate that is further away.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy import stats

import harness
from harness.statistics import equivalence, gate, holm, noise_floor
from harness.statistics.paired import PAIRED_TESTS, two_sided_p
from harness.types import Float64Array

ALPHA = 0.05
Draw = Callable[[np.random.Generator, int], Float64Array]


class Population(NamedTuple):
    """Per-query differences that can be drawn without end, with their true mean and standard deviation."""

    name: str
    draw: Draw
    mean: float
    sd: float


def normal(mean: float, sd: float) -> Population:
    return Population(f"normal, sd {sd:g}", lambda rng, n: rng.normal(mean, sd, n), mean, sd)


def finite_population(name: str, values: Float64Array, shares: Float64Array | None = None) -> Population:
    """A population of these values: drawing with replacement makes new queries of the same kind."""
    weights = np.full(len(values), 1.0 / len(values)) if shares is None else shares
    mean = float(weights @ values)
    sd = math.sqrt(float(weights @ (values - mean) ** 2))
    return Population(name, lambda rng, n: rng.choice(values, n, p=weights), mean, sd)


def real_changes() -> Iterator[Population]:
    """CACM's queries under BM25, before and after k1 = 3, b = 0.95; as measured by this harness."""
    found = harness.compare(
        "csr,csr:k1=3.0;b=0.95", "cacm", metrics="AP,nDCG@10,RR@10", k=100, timing=False, isolation="none"
    )
    table = found.per_query().pivot_table(index="query_id", columns=["metric", "backend"], values="value")
    for metric in ("AP", "nDCG@10", "RR@10"):
        before, after = (table[metric, label].to_numpy() for label in ("csr", "csr:k1=3.0;b=0.95"))
        yield finite_population(f"CACM, {metric}", after - before)


def golden_set(lost: float, won: float) -> Population:
    """Hit@k of a golden set: an expected document is found or not."""
    name = f"Hit@k, {lost:.0%} lost, {won:.0%} won"
    return finite_population(name, np.array([-1.0, 1.0, 0.0]), np.array([lost, won, 1.0 - lost - won]))


class Rate(NamedTuple):
    """A share of trials."""

    share: float
    trials: int

    def against(self, promised: float) -> str:
        """The share beside the promised one, with two standard errors of a simulation in which the promise holds."""
        reach = 2.0 * math.sqrt(promised * (1.0 - promised) / self.trials)
        mark = " " if abs(self.share - promised) <= reach else "!"
        return f"{self.share:.2%}{mark} | {promised:.2%} ± {reach:.2%}"


def rate(trials: int, failed: Callable[[int], bool]) -> Rate:
    return Rate(sum(failed(trial) for trial in range(trials)) / trials, trials)


def power_of_gate(population: Population, n: int) -> float:
    """The power of a one-sided t-test against no drop at all, by the non-central t distribution."""
    shift = population.mean / (population.sd / math.sqrt(n))
    return float(stats.nct.cdf(stats.t.ppf(ALPHA, n - 1), n - 1, shift))


def gates(populations: list[Population], sizes: list[int], trials: int, rng: np.random.Generator) -> None:
    """False alarms where the true drop is the allowed one; power of a gate that allows none."""
    print("| differences | true drop | queries | false alarms | promised | power | computed |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for population in populations:
        for n in sizes:
            zeros = np.zeros(n)
            samples = [population.draw(rng, n) for _ in range(trials)]
            alarms = rate(trials, lambda t: gate(zeros, samples[t], -population.mean).failed)  # noqa: B023 - called here
            found = rate(trials, lambda t: gate(zeros, samples[t], 0.0).failed)  # noqa: B023 - called here
            cells = (alarms.against(ALPHA), found.against(power_of_gate(population, n)))
            print(f"| {population.name} | {-population.mean:.4f} | {n} | {' | '.join(cells)} |", flush=True)
    print()


def rules(sizes: list[int], trials: int, rng: np.random.Generator) -> None:
    """False alarms of three rules on a change that loses exactly what is allowed."""
    drop, sd = 0.05, 0.2
    print("| rule: the gate fails when | " + " | ".join(f"{n} queries" for n in sizes) + " |")
    print("|---|" + "--:|" * len(sizes))
    shares = []
    for n in sizes:
        changes = rng.normal(-drop, sd, (trials, n))
        below = changes.mean(axis=1) < -drop
        significant = stats.ttest_1samp(changes, 0.0, axis=1).pvalue < ALPHA
        failed = np.array([gate(np.zeros(n), change, drop).failed for change in changes])
        shares.append([column.mean() for column in (below, below & significant, failed)])
    names = (
        "the observed drop is larger than the allowed one",
        "it is, and the difference is significant",
        "a drop beyond the allowed one is shown (this gate)",
    )
    for name, row in zip(names, zip(*shares, strict=True), strict=True):
        print(f"| {name} | {' | '.join(f'{share:.2%}' for share in row)} |", flush=True)
    print()


def rebuilt(builds: int, trials: int, rng: np.random.Generator) -> None:
    """False alarms where both sides are rebuilt and every build moves its values, with the floor and without it.

    A build moves all queries alike (a worse graph), or each by itself (another miss here and there), and its mean with
    the same standard deviation either way.
    """
    n, sd, drop = 200, 0.2, 0.02
    print("| a build moves | its mean by, in errors | with the noise floor | promised, at most | without |")
    print("|---|--:|--:|--:|--:|")
    for name, columns, factor in (("all queries alike", 1, 1.0), ("each query by itself", n, math.sqrt(n))):
        for share in (0.5, 1.0, 2.0):
            failed = np.zeros((trials, 2), dtype=bool)
            for trial in range(trials):
                moved = rng.normal(0.0, share * factor * sd / math.sqrt(n), (2, builds, columns))
                change = rng.normal(-drop, sd, n) + moved[1, 0] - moved[0, 0]
                before, after = moved.mean(axis=2)
                floor = noise_floor(before, after)
                failed[trial] = [gate(np.zeros(n), change, drop, noise=noise).failed for noise in (floor, None)]
            with_floor, without = failed.mean(axis=0)
            print(f"| {name} | {share:g} | {with_floor:.2%} | {ALPHA:.2%} | {without:.2%} |", flush=True)
    print()


def families(size: int, trials: int, rng: np.random.Generator) -> None:
    """Any false alarm among several gates, each at its allowed drop, independent and strongly correlated."""
    n, sd, drop = 100, 0.2, 0.02
    print("| gates | correlation | any false alarm, Holm | promised, at most | uncorrected |")
    print("|--:|--:|--:|--:|--:|")
    for correlation in (0.0, 0.8):
        alarms = np.zeros((trials, 2), dtype=bool)
        for trial in range(trials):
            common = rng.normal(0.0, 1.0, n)
            own = rng.normal(0.0, 1.0, (size, n))
            changes = sd * (math.sqrt(correlation) * common + math.sqrt(1.0 - correlation) * own) - drop
            ps = [gate(np.zeros(n), change, drop).p or 0.0 for change in changes]
            alarms[trial] = min(holm(ps)) < ALPHA, min(ps) < ALPHA
        held, loose = alarms.mean(axis=0)
        print(f"| {size} | {correlation:g} | {held:.2%} | {ALPHA:.2%} | {loose:.2%} |", flush=True)
    print()


def equivalences(populations: list[Population], sizes: list[int], trials: int, rng: np.random.Generator) -> None:
    """How often `same` is said of a change that loses exactly the margin."""
    print("| differences | margin = true drop | queries | called the same | promised, at most |")
    print("|---|--:|--:|--:|--:|")
    for population in populations:
        for n in sizes:
            zeros, margin = np.zeros(n), -population.mean
            found = rate(trials, lambda _: equivalence(zeros, population.draw(rng, n), margin).holds)  # noqa: B023
            print(f"| {population.name} | {margin:.4f} | {n} | {found.share:.2%} | {ALPHA:.2%} |", flush=True)
    print()


def tests(populations: list[Population], n: int, trials: int, rng: np.random.Generator) -> None:
    """How often each paired test is significant where the two sides are exchangeable."""
    print(f"| differences, signs by chance, {n} queries | " + " | ".join(PAIRED_TESTS) + " | promised |")
    print("|---|" + "--:|" * (len(PAIRED_TESTS) + 1))
    for population in populations:
        low = np.zeros(len(PAIRED_TESTS))
        for trial in range(trials):
            sample = population.draw(rng, n) * rng.choice([-1.0, 1.0], n)
            low += [(two_sided_p(sample, test, trial) or 0.0) < ALPHA for test in PAIRED_TESTS]
        promised = Rate(0.0, trials).against(ALPHA).partition("| ")[2]
        cells = " | ".join(f"{share:.2%}" for share in low / trials)
        print(f"| {population.name} | {cells} | {promised} |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=10_000, help="simulated changes for each rate")
    parser.add_argument("--queries", type=int, nargs="+", default=[50, 200, 1000], help="queries of a change")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, trials, sizes = np.random.default_rng(arguments.seed), arguments.trials, arguments.queries
    populations = [normal(-0.02, 0.2), *real_changes(), golden_set(0.10, 0.05), golden_set(0.05, 0.0)]
    gates(populations, sizes, trials, rng)
    rules(sizes, trials, rng)
    rebuilt(3, trials, rng)
    families(8, trials // 4, rng)
    equivalences(populations, sizes, trials // 2, rng)
    # a handful of equal differences takes Wilcoxon's exact distribution seconds, so without the golden sets
    tests(populations[:4], sizes[0], trials // 2, np.random.default_rng((arguments.seed, 1)))


if __name__ == "__main__":
    main()
