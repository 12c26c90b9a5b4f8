"""Simulated gates: how often they fail without reason, and how often with one.

    python benchmarks/gate_simulation.py

Draws the per-query differences of a change from populations whose mean is known, and asks the code of
``harness.stats`` each time. Every rate stands beside the one that is computed or promised, with two standard
errors of the simulation; ``!`` marks a rate that is further away, or above what it may be at most.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy import stats

import harness
from harness.data.types import Float64Array
from harness.stats import equivalence, gate, holm, noise_floor
from harness.stats.paired import PAIRED_TESTS, two_sided_p

ALPHA = 0.05
_UNLIKELY = 1e-9
Draw = Callable[[np.random.Generator, int], Float64Array]


class Population(NamedTuple):
    """Per-query differences that can be drawn without end, with their true moments: κ is the excess kurtosis.

    ``outcomes`` are the shares of queries that lose a document and that gain one, of a golden set.
    """

    name: str
    draw: Draw
    mean: float
    sd: float
    skewness: float = 0.0
    kurtosis: float = 0.0
    outcomes: tuple[float, float] | None = None


def normal(mean: float, sd: float) -> Population:
    return Population(f"normal, sd {sd:g}", lambda rng, n: rng.normal(mean, sd, n), mean, sd)


def finite_population(name: str, values: Float64Array, shares: Float64Array | None = None) -> Population:
    """A population of these values: drawing with replacement makes new queries of the same kind."""
    weights = np.full(len(values), 1.0 / len(values)) if shares is None else shares
    mean = float(weights @ values)
    sd = math.sqrt(float(weights @ (values - mean) ** 2))
    skewness, fourth = (float(weights @ ((values - mean) / sd) ** power) for power in (3, 4))
    return Population(name, lambda rng, n: rng.choice(values, n, p=weights), mean, sd, skewness, fourth - 3.0)


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
    found = finite_population(name, np.array([-1.0, 1.0, 0.0]), np.array([lost, won, 1.0 - lost - won]))
    return found._replace(outcomes=(lost, won))


class Rate(NamedTuple):
    """A share of trials."""

    share: float
    trials: int

    def against(self, computed: float) -> str:
        """The share beside the computed one, with two standard errors of a simulation in which that holds."""
        reach = 2.0 * math.sqrt(computed * (1.0 - computed) / self.trials)
        mark = " " if abs(self.share - computed) <= reach else "!"
        return f"{self.share:.2%}{mark} | {computed:.2%} ± {reach:.2%}"

    def at_most(self, promised: float) -> str:
        """The share, marked where it is above the promised one by more than two standard errors."""
        reach = 2.0 * math.sqrt(promised * (1.0 - promised) / self.trials)
        return f"{self.share:.2%}{' ' if self.share <= promised + reach else '!'}"


def of_row(seed: int, population: Population, n: int) -> np.random.Generator:
    """The draws of one row, whichever others are asked for."""
    return np.random.default_rng([seed, n, *population.name.encode()])


def rate(trials: int, failed: Callable[[int], bool]) -> Rate:
    return Rate(sum(failed(trial) for trial in range(trials)) / trials, trials)


def computed(population: Population, n: int, allowed_drop: float) -> float:
    """How often a gate fails: exactly for a golden set and for normal differences, to order 1/n for others."""
    if population.outcomes is not None:
        return share_of_outcomes(*population.outcomes, n, allowed_drop)
    shift = (population.mean + allowed_drop) / (population.sd / math.sqrt(n))
    critical = float(stats.t.ppf(ALPHA, n - 1))
    base = float(stats.nct.cdf(critical, n - 1, shift)) if shift else ALPHA
    skewness, kurtosis = population.skewness, population.kurtosis
    return base + edgeworth(critical, n, shift, skewness, kurtosis) - edgeworth(critical, n, shift, 0.0, 0.0)


def share_of_outcomes(lost: float, won: float, n: int, allowed_drop: float) -> float:
    """The probability of all numbers of lost and gained documents with which the gate fails."""
    total = 0.0
    numbers = range(n + 1)
    likely_lost = [number for number in numbers if stats.binom.pmf(number, n, lost) > _UNLIKELY]
    likely_won = [number for number in numbers if stats.binom.pmf(number, n, won) > _UNLIKELY]
    for losses, wins in product(likely_lost, likely_won):
        share = float(stats.multinomial.pmf([losses, wins, n - losses - wins], n, [lost, won, 1.0 - lost - won]))
        if share > _UNLIKELY:
            outcome = np.repeat([-1.0, 1.0, 0.0], [losses, wins, n - losses - wins])
            total += share * gate(np.zeros(n), outcome, allowed_drop).failed
    return total


def edgeworth(critical: float, n: int, shift: float, skewness: float, kurtosis: float) -> float:
    """The probability that t is below ``critical`` where the true mean lies ``shift`` errors away, to order 1/n.

    From the first four cumulants of (Z + δ)(1 - W/2 + 3W²/8), Z being the standardised mean and W the relative error of
    the variance. With δ = 0, skewness s and excess kurtosis κ they are those of t: -s/(2√n), 1 + (2 + 7s²/4)/n, -2s/√n
    and (6 - 2κ + 12s²)/n. Source for δ = 0: Hall, The Bootstrap and Edgeworth Expansion (1992), chapter 2.
    """
    a = 1.0 / math.sqrt(n)
    mean = shift - a * skewness / 2.0 + 3.0 * a**2 * shift * (kurtosis + 2.0) / 8.0
    spread = (kurtosis + 2.0) * shift**2 / 4.0 + 7.0 * skewness**2 / 4.0
    variance = 1.0 - a * shift * skewness + a**2 * (2.0 + spread)
    third = (-2.0 * a * skewness + a**2 * shift * (3.0 + 15.0 * skewness**2 / 4.0)) / variance**1.5
    fourth = a**2 * (6.0 - 2.0 * kurtosis + 12.0 * skewness**2) / variance**2
    z = (critical - mean) / math.sqrt(variance)
    hermite2, hermite3, hermite5 = z**2 - 1.0, z**3 - 3.0 * z, z**5 - 10.0 * z**3 + 15.0 * z
    correction = third * hermite2 / 6.0 + fourth * hermite3 / 24.0 + third**2 * hermite5 / 72.0
    return float(stats.norm.cdf(z) - stats.norm.pdf(z) * correction)


def gates(populations: list[Population], sizes: list[int], trials: int, seed: int) -> None:
    """False alarms where the true drop is the allowed one; power of a gate that allows none."""
    print("| differences | true drop | queries | false alarms | computed | power | computed |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for population in populations:
        for n in sizes:
            zeros, rng = np.zeros(n), of_row(seed, population, n)
            samples = [population.draw(rng, n) for _ in range(trials)]
            cells = []
            for drop in (-population.mean, 0.0):
                failed = rate(trials, lambda t: gate(zeros, samples[t], drop).failed)  # noqa: B023 - called here
                cells.append(failed.against(computed(population, n, drop)))
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


def equivalences(populations: list[Population], sizes: list[int], trials: int, seed: int) -> None:
    """How often `same` is said of a change that loses exactly the margin."""
    print("| differences | margin = true drop | queries | called the same | promised, at most |")
    print("|---|--:|--:|--:|--:|")
    for population in populations:
        for n in sizes:
            zeros, margin, rng = np.zeros(n), -population.mean, of_row(seed + 1, population, n)
            found = rate(trials, lambda _: equivalence(zeros, population.draw(rng, n), margin).holds)  # noqa: B023
            cells = f"{found.at_most(ALPHA)} | {ALPHA:.2%}"
            print(f"| {population.name} | {margin:.4f} | {n} | {cells} |", flush=True)
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
        promised = Rate(ALPHA, trials).against(ALPHA).partition("| ")[2]
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
    gates(populations, sizes, trials, arguments.seed)
    rules(sizes, trials, rng)
    rebuilt(3, trials, rng)
    families(8, trials // 4, rng)
    equivalences(populations, sizes, trials // 2, arguments.seed)
    # a handful of equal differences takes Wilcoxon's exact distribution seconds, so without the golden sets
    tests(populations[:4], sizes[0], trials // 2, np.random.default_rng((arguments.seed, 1)))


if __name__ == "__main__":
    main()
