"""Compare costs: latency and throughput by their raw samples, the rest by single measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from harness.data.types import Float64Array, Int64Array
from harness.pipeline.regress.pairing import ComparedDataset, Pair, machine_changes
from harness.results.regression_schema import CostChange
from harness.results.schema import TrialResult

TOLERANCE = 1.25
"""A cost counts as the same up to this factor. Identical runs on a machine that others use differ by more."""
_RESAMPLES = 1_000
_BATCH = 4_000_000
_NS_PER_MS, _NS_PER_S = 1e6, 1e9
_ENDS = (2.5, 97.5)
Verdict = Literal["lower", "higher", "same", "undecided", "x"]


def _percentile(share: float) -> Callable[[Float64Array], Float64Array]:
    return lambda samples: np.percentile(samples, share, axis=1, method="inverted_cdf") / _NS_PER_MS


_TIMED: dict[str, Callable[[Float64Array], Float64Array]] = {
    "p50_ms": _percentile(50),
    "p95_ms": _percentile(95),
    "mean_ms": lambda samples: samples.mean(axis=1) / _NS_PER_MS,
    "qps": lambda samples: _NS_PER_S / samples.mean(axis=1),
}
"""Figures of many sets of samples, (sets, n) nanoseconds, one figure a set."""


def cost_changes(compared: ComparedDataset, pair: Pair, seed: int) -> list[CostChange]:
    """Return every cost that both sides have; ``x`` if machine or conditions differ and figures are not comparable.

    Latency is of search and transfer together, over the queries that both sides timed. Its intervals are percentile
    bootstrap intervals over queries, seeded: they know how queries differ, not how a machine's state does.
    """
    trials = compared.trials(pair)
    reason = _not_comparable(compared, *trials)
    changes = [*_timed(compared, pair, seed, compared_fully=reason is None), *_measured_once(*trials)]
    if reason is None:
        return changes
    return [change.model_copy(update={"ratio": None, "verdict": "x", "reason": reason}) for change in changes]


def _not_comparable(compared: ComparedDataset, before: TrialResult, after: TrialResult) -> str | None:
    """Say why costs are not comparable; None if they are."""
    sides = compared.before.report, compared.after.report
    machine = machine_changes(*sides)
    if machine:
        return "another machine: " + ", ".join(
            f"{change.setting} {_as_text(change.before)}, now {_as_text(change.after)}" for change in machine
        )
    for name in ("k", "isolation"):
        earlier, later = (report.plan.resolved.get(name) for report in sides)
        if earlier != later:
            return f"{name} was {earlier}, and is {later}"
    if before.search is not None and after.search is not None:
        earlier, later = before.search.queries_per_call, after.search.queries_per_call
        if earlier != later:
            return f"queries in one call: {earlier} before, {later} now"
    if before.busy_phases or after.busy_phases:
        when = [word for word, trial in (("before", before), ("now", after)) if trial.busy_phases]
        return f"other processes used the machine while it was timed, {' and '.join(when)}"
    if before.reused or after.reused:
        return "measured by an earlier comparison, and re-used (--resume)"
    return None


def _as_text(value: object) -> str:
    return "not set" if value is None else str(value)


def _timed(compared: ComparedDataset, pair: Pair, seed: int, *, compared_fully: bool) -> list[CostChange]:
    """Return the figures of latency and throughput, with intervals of their ratios if these can be compared."""
    before, after = compared.before.latencies.get(pair.before, {}), compared.after.latencies.get(pair.after, {})
    common = frozenset(compared.queries)
    queries = [query for query in before if query in after and query in common]
    if not queries:
        return []
    # int64 (Q, passes) on each side, of the same queries
    samples = [np.array([side[query] for query in queries], dtype=np.int64) for side in (before, after)]
    ratios = _resampled(samples, seed) if compared_fully and len(queries) > 1 else {}
    changes = []
    for name, figure in _TIMED.items():
        earlier, later = (float(figure(side.reshape(1, -1).astype(np.float64))[0]) for side in samples)
        low, high = (float(end) for end in np.percentile(ratios[name], _ENDS)) if name in ratios else (None, None)
        changes.append(
            CostChange(
                cost=name,
                before=earlier,
                after=later,
                ratio=later / earlier if earlier > 0 else None,
                ci_low=low,
                ci_high=high,
                samples_before=samples[0].size,
                samples_after=samples[1].size,
                verdict=_verdict(low, high),
                reason=None,
            )
        )
    return changes


def _resampled(samples: Sequence[Int64Array], seed: int) -> dict[str, Float64Array]:
    """Return the ratio of each figure on resampled queries: the same on both sides, with all their passes."""
    rng, queries = np.random.default_rng(seed), len(samples[0])
    size = max(1, _BATCH // max(side.size for side in samples))
    ratios: dict[str, list[Float64Array]] = {name: [] for name in _TIMED}
    for start in range(0, _RESAMPLES, size):
        sets = min(size, _RESAMPLES - start)
        drawn = rng.integers(queries, size=(sets, queries))
        earlier, later = (side[drawn].reshape(sets, -1).astype(np.float64) for side in samples)
        for name, figure in _TIMED.items():
            ratios[name].append(figure(later) / figure(earlier))
    return {name: np.concatenate(parts) for name, parts in ratios.items()}


def _verdict(low: float | None, high: float | None) -> Verdict:
    """Judge by the interval of the ratio: beyond the tolerance, within it, or neither."""
    if low is None or high is None:
        return "undecided"
    if low > TOLERANCE:
        return "higher"
    if high < 1 / TOLERANCE:
        return "lower"
    return "same" if low >= 1 / TOLERANCE and high <= TOLERANCE else "undecided"


def _measured_once(before: TrialResult, after: TrialResult) -> list[CostChange]:
    """Return the costs that both sides measured once; without an interval, only the ratio is judged."""
    changes = []
    later_costs = _single(after)
    for name, earlier in _single(before).items():
        later = later_costs.get(name)
        if earlier is None or later is None:
            continue
        ratio = later / earlier if earlier > 0 else np.inf if later > 0 else 1.0
        changes.append(
            CostChange(
                cost=name,
                before=earlier,
                after=later,
                ratio=ratio if earlier > 0 else None,
                ci_low=None,
                ci_high=None,
                samples_before=1,
                samples_after=1,
                verdict=_verdict(ratio, ratio),
                reason=None,
            )
        )
    return changes


def _single(backend: TrialResult) -> dict[str, float | None]:
    """Return costs that are measured once in a run, in the report's units; None if they were not."""
    index = backend.index
    was_built = index is not None and index.built_by is None
    return {
        "index_seconds": index.searchable_seconds if index is not None and was_built else None,
        "peak_anonymous_bytes": index.peak_anonymous_bytes if index is not None else None,
        "index_bytes": index.bytes if index is not None else None,
        **{f"qps with {level.clients} clients": level.qps for level in backend.closed_loop},
    }
