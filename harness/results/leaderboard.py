"""Backends over several datasets: means, ranks, and tests in which each dataset is one value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from harness.data.types import Float64Array
from harness.metrics import is_mean, parse_metric
from harness.results.differences import (
    SIGNIFICANT,
    PairedValues,
    family_differences,
    lone_difference,
    pairs_to_compare,
)
from harness.results.schema import Leaderboard, LeaderboardRow, PairedDifference, TrialResult
from harness.results.schema_base import MetricValue
from harness.stats import bootstrap_interval
from harness.wording import counted

FEWEST_DATASETS = 6
"""Least number of values for an interval of a mean over datasets, and for a comparison, see `datasets_needed`."""
_DECIMALS = 12
"""Decimals to which two means are equal: the rest is the rounding of another order of addition."""

Values = Mapping[str, Mapping[str, float | None]]
"""Backend -> dataset or aggregated task -> mean of a metric; None if the trial has no mean."""


def make_leaderboard(
    trials: Sequence[TrialResult], families: Mapping[str, Sequence[str]], seed: int
) -> Leaderboard | None:
    """Rank backends by the mean of each metric over datasets; every dataset counts once, regardless of its size.

    Args:
        trials: of every backend on every dataset, failed ones included.
        families: aggregated task -> its datasets, whose unweighted mean counts as one dataset.
        seed: of the bootstrap.

    Returns:
        The leaderboard; None if there are fewer than two datasets, or no metric. A backend that lacks a dataset has
        neither mean nor rank.
    """
    labels = list(dict.fromkeys(trial.label for trial in trials))
    metrics = list(dict.fromkeys(name for trial in trials for name in trial.metrics if is_mean(parse_metric(name))))
    columns = _columns([trial.dataset for trial in trials], families)
    if len({trial.dataset for trial in trials}) < 2 or not metrics:
        return None
    seconds = {(trial.label, trial.dataset): _search_seconds(trial) for trial in trials}
    rows: list[LeaderboardRow] = []
    with_models = any(value.human_n is not None for trial in trials for value in trial.metrics.values())
    for metric in metrics:
        of_metric = _rows(metric, _values(metric, trials, labels, columns), seed)
        if with_models:
            by_people = _values(metric, trials, labels, columns, attrgetter("by_people"))
            of_metric = [row.model_copy(update={"human": _mean(by_people[row.backend])}) for row in of_metric]
        rows += of_metric
    return Leaderboard(
        families={name: list(members) for name, members in families.items()},
        datasets=list(columns),
        metrics=metrics,
        rows=rows,
        search_seconds={
            label: {
                name: sum(complete) if (complete := _complete_values(seconds[label, one] for one in members)) else None
                for name, members in columns.items()
            }
            for label in labels
        },
    )


class Across(NamedTuple):
    """Differences across datasets; ``notes`` say why there are none, or why other backends were compared."""

    differences: list[PairedDifference]
    notes: list[str]


def differences_across(board: Leaderboard, reference: str | None, seed: int) -> Across:
    """Test backends against ``reference``, or every pair if it is None, with one value for each dataset.

    The first two of the first metric are always among the pairs. p-values of the first metric are adjusted by Holm over
    all pairs that differ on any dataset; the other metrics have p-values that are not adjusted. Nothing is tested if
    this few datasets could show no difference, however clear. Only backends that have every dataset are compared; if
    ``reference`` lacks a dataset, the others are compared with the first that has all.
    """
    first, *further_metrics = board.metrics
    values = {metric: _complete(board, metric) for metric in board.metrics}
    compared_with, notes = _compared_with(board, reference, values[first])
    pairs = _pairs(board, compared_with, values[first])

    def pairs_of_metric(metric: str) -> list[PairedValues]:
        of_backend = values[metric]
        measured_pairs = [(a, b) for a, b in pairs if a in of_backend and b in of_backend]
        return [PairedValues(a, b, metric, of_backend[a], of_backend[b]) for a, b in measured_pairs]

    tested = family_differences(None, pairs_of_metric(first), seed)
    comparisons = sum(row.wins + row.losses > 0 for row in tested)
    fewest = datasets_needed(comparisons)
    if len(board.datasets) < fewest:
        few = f"no test across {counted(len(board.datasets), 'dataset')}: it takes {fewest} or more"
        return Across([], [f"{few} for {counted(comparisons, 'comparison')}"])
    untested = [lone_difference(None, pair, seed) for metric in further_metrics for pair in pairs_of_metric(metric)]
    return Across([*tested, *untested], notes if tested else [])


def datasets_needed(comparisons: int) -> int:
    """Return the fewest datasets with which the smallest p is below 0.05 after Holm's correction.

    That is 2**(1 - n), if one of two backends is ahead on all n datasets, times the number of comparisons.
    """
    return math.floor(1 + math.log2(comparisons / SIGNIFICANT)) + 1 if comparisons else 2


def _complete(board: Leaderboard, metric: str) -> dict[str, Float64Array]:
    """Return the values of each backend that has every dataset, the best first."""
    return {
        row.backend: np.array([row.values[name] for name in board.datasets], dtype=np.float64)
        for row in board.rows
        if row.metric == metric and row.mean is not None
    }


def _compared_with(
    board: Leaderboard, reference: str | None, complete: Mapping[str, Float64Array]
) -> tuple[str | None, list[str]]:
    """Return the backend with which others are compared, and a note if it is not ``reference``."""
    if reference is None or reference in complete or len(complete) < 2:
        return reference, []
    other = next(label for label in board.search_seconds if label in complete)
    row = next(row for row in board.rows if row.backend == reference)
    lacking = [name for name in board.datasets if row.values[name] is None]
    lacking_text = counted(len(lacking), "dataset") if len(lacking) > 1 else lacking[0]
    return other, [f"{reference} has no value on {lacking_text}: across datasets, backends are compared with {other}"]


def _pairs(board: Leaderboard, reference: str | None, ranked: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs to test, and the pair of the first two of ``ranked`` if it is not among them.

    That pair is chosen by its means. It needs no further correction: the more backends there are, the closer the first
    two are to each other if nothing differs.
    """
    complete = list(ranked)
    pairs = list(pairs_to_compare([label for label in board.search_seconds if label in complete], reference))
    top = complete[:2]
    if len(top) == 2 and not any({*pair} == {*top} for pair in pairs):
        pairs.append((top[1], top[0]))
    return pairs


def _columns(datasets: Iterable[str], families: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return each unit that counts once -> its datasets, in the order of the datasets."""
    task_of = {dataset: name for name, members in families.items() for dataset in members}
    columns: dict[str, list[str]] = {}
    for dataset in dict.fromkeys(datasets):
        columns.setdefault(task_of.get(dataset, dataset), []).append(dataset)
    return columns


def _values(
    metric: str,
    trials: Sequence[TrialResult],
    labels: Sequence[str],
    columns: Mapping[str, Sequence[str]],
    figure: Callable[[MetricValue], float | None] = attrgetter("mean"),
) -> dict[str, dict[str, float | None]]:
    means = {(t.label, t.dataset): figure(t.metrics[metric]) for t in trials if metric in t.metrics}
    return {
        label: {
            name: float(np.mean(complete))
            if (complete := _complete_values(means.get((label, one)) for one in members))
            else None
            for name, members in columns.items()
        }
        for label in labels
    }


def _mean(values: Mapping[str, float | None]) -> float | None:
    complete = _complete_values(values.values())
    return float(np.mean(complete)) if complete else None


def _rows(metric: str, values: Values, seed: int) -> list[LeaderboardRow]:
    """Return a row a backend, the best first, incomplete ones last."""
    complete = {
        label: np.array([value for value in of_backend.values() if value is not None])
        for label, of_backend in values.items()
        if None not in of_backend.values()
    }
    means = {label: float(of_backend.mean()) for label, of_backend in complete.items()}
    ranks = _ranks(means)
    by_dataset = [
        _ranks({label: float(array[column]) for label, array in complete.items()})
        for column in range(len(next(iter(values.values()))))
    ]
    rows = []
    for label in sorted(values, key=lambda label: ranks.get(label, len(values) + 1)):
        interval = None
        if label in complete and len(complete[label]) >= FEWEST_DATASETS:
            interval = bootstrap_interval(complete[label], seed)
        rows.append(
            LeaderboardRow(
                backend=label,
                metric=metric,
                rank=ranks.get(label),
                mean=means.get(label),
                ci_low=interval.low if interval is not None else None,
                ci_high=interval.high if interval is not None else None,
                mean_rank=_mean_rank(label, by_dataset) if label in complete else None,
                wins=sum(of_dataset.get(label) == 1 for of_dataset in by_dataset),
                datasets=sum(value is not None for value in values[label].values()),
                values=dict(values[label]),
            )
        )
    return rows


def _ranks(means: Mapping[str, float]) -> dict[str, int]:
    """Return ranks from 1, the highest first; equal means share the better rank."""
    rounded = {label: round(mean, _DECIMALS) for label, mean in means.items()}
    return {label: 1 + sum(other > mean for other in rounded.values()) for label, mean in rounded.items()}


def _mean_rank(label: str, by_dataset: Sequence[Mapping[str, int]]) -> float:
    """Return the mean over datasets of a backend's rank; equal backends have the mean of the ranks that they take."""
    ranks = [(ranks[label], list(ranks.values())) for ranks in by_dataset]
    return float(np.mean([rank + (ranks_of_metric.count(rank) - 1) / 2 for rank, ranks_of_metric in ranks]))


def _complete_values(values: Iterable[float | None]) -> list[float] | None:
    """Return the values; None if a value is missing."""
    all_values = list(values)
    present = [value for value in all_values if value is not None]
    return present if len(present) == len(all_values) else None


def _search_seconds(trial: TrialResult) -> float | None:
    """Return the seconds that one client takes for all queries of a dataset, once; None without times."""
    search, stages = trial.search, trial.stages
    if search is not None and search.milliseconds is not None:
        transfer = search.transfer_ms.mean if search.transfer_ms is not None else 0.0  # part of a call of own code
        return search.queries * (search.milliseconds.mean + transfer) / 1e3
    if (
        search is not None
        or stages is None
        or stages.components_ms is None
        or stages.method_ms is None
        or not trial.queries
    ):
        return None
    return stages.components_ms.n * (stages.components_ms.mean + stages.method_ms) / 1e3
