"""Means, ranks and tests over several datasets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.documents.quality import meanings
from harness.results.differences import PairedValues, family_differences
from harness.results.leaderboard import FEWEST_DATASETS, datasets_needed, differences_across, make_leaderboard
from harness.results.schema import Leaderboard, LeaderboardRow, TrialResult
from harness.results.schema_base import MetricValue
from harness.results.schema_costs import LatencyStats, SearchStats
from harness.stats import detectable_difference

LABELS = ("a", "b", "c")


def trial(label: str, dataset: str, value: float | None, *, mean_ms: float | None = None) -> TrialResult:
    metrics = {} if value is None else {"nDCG@10": metric("nDCG@10", value)}
    return TrialResult.model_construct(
        dataset=dataset,
        label=label,
        name=label,
        status="failed" if value is None else "ok",
        metrics=metrics,
        search=None if mean_ms is None else search(mean_ms),
        stages=None,
    )


def metric(name: str, value: float) -> MetricValue:
    return MetricValue.model_construct(metric=name, mean=value)


def search(mean_ms: float) -> SearchStats:
    times = LatencyStats.model_construct(mean=mean_ms, n=10)
    return SearchStats.model_construct(queries=10, repeats=1, milliseconds=times, transfer_ms=times)


def board_of(
    values: Mapping[str, Sequence[float | None]], families: Mapping[str, Sequence[str]] | None = None
) -> Leaderboard:
    count = len(next(iter(values.values())))
    trials = [trial(label, f"d{place}", values[label][place]) for place in range(count) for label in values]
    board = make_leaderboard(trials, families or {}, seed=1)
    assert board is not None
    return board


def by_label(board: Leaderboard) -> dict[str, LeaderboardRow]:
    return {row.backend: row for row in board.rows}


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(2, 9).flatmap(
        lambda n: st.lists(
            st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.3, 0.5, 1.0]), min_size=n, max_size=n), min_size=2, max_size=5
        )
    )
)
def test_means_ranks_and_wins_are_what_they_say(columns: list[list[float]]) -> None:
    values = {f"b{place}": column for place, column in enumerate(columns)}
    rows = by_label(board_of(values))
    means = {label: math.fsum(column) / len(column) for label, column in values.items()}
    for label, row in rows.items():
        assert row.mean == pytest.approx(means[label], abs=1e-12)
        assert row.rank == 1 + sum(other > means[label] + 1e-9 for other in means.values())
        best = [max(column[place] for column in columns) for place in range(len(columns[0]))]
        assert row.wins == sum(value == top for value, top in zip(values[label], best, strict=True))
        places = [
            sum(other[at] > value for other in columns) + (sum(other[at] == value for other in columns) + 1) / 2
            for at, value in enumerate(values[label])
        ]
        assert row.mean_rank == pytest.approx(sum(places) / len(places))
        assert row.datasets == len(columns[0])
    assert sum(row.mean_rank or 0 for row in rows.values()) == pytest.approx(len(rows) * (len(rows) + 1) / 2)
    ranks = [row.rank or 0 for row in board_of(values).rows]
    assert ranks == sorted(ranks)


def test_an_aggregated_task_counts_once_whatever_the_number_of_its_datasets() -> None:
    board = board_of({"a": [1.0, 0.2, 0.4, 0.6], "b": [0.5, 0.6, 0.6, 0.6]}, {"forums": ["d1", "d2", "d3"]})
    rows = by_label(board)
    assert board.datasets == ["d0", "forums"]
    assert rows["a"].values == {"d0": 1.0, "forums": pytest.approx(0.4)}
    assert rows["a"].mean == pytest.approx(0.7)
    assert rows["b"].mean == pytest.approx(0.55)
    assert [row.backend for row in board.rows] == ["a", "b"]


def test_a_backend_that_lacks_a_dataset_is_shown_last_and_not_ranked() -> None:
    board = board_of({"a": [1.0, None, 0.9], "b": [0.5, 0.6, 0.7], "c": [0.4, 0.6, 0.1]})
    rows = by_label(board)
    assert (rows["a"].mean, rows["a"].rank, rows["a"].mean_rank, rows["a"].datasets) == (None, None, None, 2)
    assert rows["a"].values == {"d0": 1.0, "d1": None, "d2": 0.9}
    assert [row.backend for row in board.rows] == ["b", "c", "a"]
    assert (rows["b"].rank, rows["b"].wins, rows["c"].wins) == (1, 3, 1)


def test_an_aggregated_task_lacks_a_value_where_one_of_its_datasets_does() -> None:
    rows = by_label(board_of({"a": [1.0, None, 0.5], "b": [1.0, 0.5, 0.5]}, {"forums": ["d1", "d2"]}))
    assert rows["a"].values == {"d0": 1.0, "forums": None}
    assert rows["a"].rank is None


def test_a_mean_over_cutoffs_is_ranked_like_any_metric() -> None:
    names = ("nDCG@1+3", "nDCG@1", "nDCG@3")
    values = {("a", "d0"): (0.3, 0.5), ("a", "d1"): (0.5, 0.7), ("b", "d0"): (0.4, 0.2), ("b", "d1"): (0.6, 0.4)}
    trials = []
    for (label, dataset), (first, third) in values.items():
        means = dict(zip(names, ((first + third) / 2, first, third), strict=True))
        metrics = {name: metric(name, value) for name, value in means.items()}
        trials.append(trial(label, dataset, None).model_copy(update={"status": "ok", "metrics": metrics}))
    board = make_leaderboard(trials, {}, seed=1)
    assert board is not None
    assert board.metrics == list(names)
    ranked = [(row.backend, row.rank, row.mean) for row in board.rows if row.metric == names[0]]
    assert ranked == [("a", 1, pytest.approx(0.5)), ("b", 2, pytest.approx(0.4))]


def test_there_is_no_leaderboard_of_one_dataset_or_without_metrics() -> None:
    assert make_leaderboard([trial("a", "d", 0.5)], {}, 1) is None
    assert make_leaderboard([trial("a", "d", None), trial("a", "e", None)], {}, 1) is None


def test_search_seconds_are_those_of_all_queries_once() -> None:
    trials = [
        trial(label, dataset, 0.5, mean_ms=ms)
        for (label, ms), dataset in itertools.product([("a", 2.0), ("b", None)], ["d0", "d1", "d2"])
    ]
    board = make_leaderboard(trials, {"t": ["d1", "d2"]}, 1)
    assert board is not None
    assert board.search_seconds == {
        "a": {"d0": pytest.approx(0.04), "t": pytest.approx(0.08)},
        "b": {"d0": None, "t": None},
    }


def test_a_call_of_own_code_has_no_transfer_apart() -> None:
    trials = [trial(label, dataset, 0.5, mean_ms=2.0) for label in ("a", "b") for dataset in ("d0", "d1")]
    asked = [
        each.model_copy(update={"search": each.search.model_copy(update={"transfer_ms": None})})
        for each in trials
        if each.search is not None
    ]
    board = make_leaderboard(asked, {}, 1)
    assert board is not None
    assert board.search_seconds == {
        label: {"d0": pytest.approx(0.02), "d1": pytest.approx(0.02)} for label in ("a", "b")
    }


BASE = [0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.35, 0.25, 0.45, 0.15, 0.55]


def ahead(datasets: int, step: float) -> list[float]:
    """Return values that are above those of BASE on every dataset."""
    return [value + step * place for place, value in enumerate(BASE[:datasets], 1)]


def test_six_datasets_are_enough_for_one_comparison_and_five_are_not() -> None:
    few, notes = differences_across(board_of({"a": BASE[:5], "b": ahead(5, 0.01)}), "a", 1)
    assert few == []
    assert notes == ["no test across 5 datasets: it takes 6 or more for 1 comparison"]
    (row,), notes = differences_across(board_of({"a": BASE[:6], "b": ahead(6, 0.01)}), "a", 1)
    assert notes == []
    assert FEWEST_DATASETS == 6
    assert (row.dataset, row.a, row.b, row.wins, row.losses) == (None, "a", "b", 6, 0)
    assert row.p == pytest.approx(2 / 2**6)
    assert row.difference == pytest.approx(np.mean(ahead(6, 0.01)) - np.mean(BASE[:6]))
    assert row.verdict == "better"
    assert row.ci_low is not None
    assert row.ci_low > 0
    assert row.detectable is not None


@given(st.integers(1, 400))
def test_so_many_datasets_are_needed_and_no_fewer(comparisons: int) -> None:
    fewest = datasets_needed(comparisons)
    assert 2.0 ** (1 - fewest) * comparisons < 0.05
    assert 2.0 ** (2 - fewest) * comparisons >= 0.05


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(1, 4), st.integers(2, 11), st.booleans())
def test_a_backend_that_is_always_ahead_is_better_wherever_there_is_a_test(
    others: int, datasets: int, every_pair: bool
) -> None:
    values = {f"b{place}": ahead(datasets, 0.001 * place) for place in range(others + 1)}
    rows, notes = differences_across(board_of(values), None if every_pair else "b0", 1)
    comparisons = len(list(itertools.combinations(values, 2))) if every_pair else others + (others > 1)
    if datasets >= datasets_needed(comparisons):
        assert len(rows) == comparisons
        assert {row.verdict for row in rows} == {"better"}
        assert notes == []
    else:
        assert rows == []
        assert len(notes) == 1


def test_only_the_first_metric_is_adjusted_and_further_ones_take_nothing_from_it() -> None:
    names = ("nDCG@10", "AP", "RR@10", "R@100")
    trials = [
        TrialResult.model_construct(
            dataset=f"d{place}",
            label=label,
            name=label,
            status="ok",
            metrics={name: metric(name, values[place]) for name in names},
            search=None,
            stages=None,
        )
        for place in range(6)
        for label, values in {"a": BASE, "b": ahead(6, 0.01)}.items()
    ]
    board = make_leaderboard(trials, {}, 1)
    assert board is not None
    rows, _ = differences_across(board, "a", 1)
    assert [row.metric for row in rows] == list(names)
    assert {row.p for row in rows} == {2 / 2**6}
    assert [row.p_adjusted for row in rows] == [2 / 2**6, None, None, None]
    assert [row.verdict for row in rows] == ["better", "undecided", "undecided", "undecided"]


def test_the_first_two_are_tested_though_neither_is_compared_with() -> None:
    values = {"a": BASE[:8], "b": ahead(8, 0.01), "c": ahead(8, 0.02), "lacks": [None, *BASE[1:8]]}
    rows, _ = differences_across(board_of(values), "a", 1)
    assert [(row.a, row.b) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [row.p_adjusted for row in rows] == [pytest.approx(3 * 2 / 2**8)] * 3
    assert [(row.a, row.b) for row in differences_across(board_of(values), None, 1).differences] == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_where_the_backend_compared_with_lacks_a_dataset_the_next_takes_its_place() -> None:
    values = {"a": [None, *BASE[1:8]], "b": BASE[:8], "c": ahead(8, 0.01)}
    rows, notes = differences_across(board_of(values), "a", 1)
    assert [(row.a, row.b, row.verdict) for row in rows] == [("b", "c", "better")]
    assert notes == ["a has no value on d0: across datasets, backends are compared with b"]


def test_equal_backends_are_the_same() -> None:
    board = board_of({"a": BASE[:6], "b": BASE[:6]})
    assert [row.rank for row in board.rows] == [1, 1]
    (row,), _ = differences_across(board, "a", 1)
    assert (row.verdict, row.p, row.ties, row.detectable) == ("same", 1.0, 6, None)


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(st.lists(st.floats(-0.5, 0.5), min_size=8, max_size=8), min_size=1, max_size=4))
def test_what_so_many_queries_show_is_reckoned_at_the_hardest_step_of_the_family(moved: list[list[float]]) -> None:
    base = np.full(8, 0.5)
    pairs = [PairedValues("a", f"b{at}", "AP", base, base + np.array(delta)) for at, delta in enumerate(moved)]
    rows = family_differences("d", [*pairs, PairedValues("a", "same", "AP", base, base)], 1)
    changed = [row for row in rows if row.verdict != "same"]
    assert all(row.detectable is None for row in rows if row.verdict == "same")
    for row, pair in zip(rows, pairs, strict=False):
        if row in changed:
            assert row.detectable == detectable_difference(pair.values_b - pair.values_a, alpha=0.05 / len(changed))


def test_metrics_that_are_equal_on_every_query_count_once() -> None:
    """With one relevant document a query, Hit, Recall and MRR@1 are one number."""
    base, moved = np.ones(10), np.repeat([0.0, 1.0], [6, 4])
    equal = [PairedValues("a", "b", metric, base, moved) for metric in ("Hit@5", "R@5", "RR@1")]
    rows = family_differences("d", [*equal, PairedValues("a", "same", "AP", base, base)], 1)
    assert {(row.p_adjusted, row.comparisons, row.verdict) for row in rows[:3]} == {(2.0**-5, 1, "worse")}
    (legend,) = meanings(rows, {"▼"}, "than a")
    assert "Holm's correction for 1 comparison (metrics that are equal on every query count once)" in legend
    other = family_differences("d", [*equal, PairedValues("a", "c", "Hit@5", base, moved)], 1)
    assert {row.comparisons for row in other} == {2}
