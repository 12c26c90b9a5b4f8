"""A choice among combinations is reported on queries that did not make it, and noise is no gain there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.stats.held_out import choose, count_groups, randomise_choices, split_queries, tune
from harness.stats.paired import two_sided_p

TEXTS = st.lists(st.sampled_from(["cat", "Cat ", "dog", "a  bird", "A bird", "fish", "cow", "bee"]), max_size=30)


@given(texts=TEXTS, parts=st.integers(2, 6), seed=st.integers(0, 99), order=st.randoms(use_true_random=False))
def test_equal_texts_share_a_part_and_the_order_of_queries_does_not_matter(
    texts: list[str], parts: int, seed: int, order: object
) -> None:
    ids = [f"q{number}" for number in range(len(texts))]
    part_of = dict(zip(ids, split_queries(ids, texts, parts, seed).tolist(), strict=True))
    normal = {query: " ".join(text.casefold().split()) for query, text in zip(ids, texts, strict=True)}
    assert all(part_of[a] == part_of[b] for a in ids for b in ids if normal[a] == normal[b])
    assert set(part_of.values()) == set(range(min(parts, count_groups(texts))))
    pairs = list(zip(ids, texts, strict=True))
    order.shuffle(pairs)  # type: ignore[attr-defined]
    again = split_queries([query for query, _ in pairs], [text for _, text in pairs], parts, seed)
    assert dict(zip([query for query, _ in pairs], again.tolist(), strict=True)) == part_of


@given(queries=st.integers(2, 60), parts=st.integers(2, 7))
def test_parts_of_different_queries_differ_by_one_at_most(queries: int, parts: int) -> None:
    names = [f"query {number}" for number in range(queries)]
    sizes = np.bincount(split_queries(names, names, parts, 42), minlength=parts)
    assert sizes.sum() == queries
    assert sizes.max() - sizes.min() <= 1


def test_the_seed_decides_the_parts() -> None:
    names = [f"query {number}" for number in range(40)]
    parts = {seed: tuple(split_queries(names, names, 2, seed).tolist()) for seed in range(5)}
    assert len(set(parts.values())) == 5
    assert tuple(split_queries(names, names, 2, 3).tolist()) == parts[3]


def test_of_equal_means_the_first_is_chosen_and_rounding_is_no_difference() -> None:
    assert choose(np.array([[0.2, 0.4], [0.4, 0.2], [0.1, 0.1]])) == 0
    assert choose(np.array([[0.3, 0.3], [0.3 + 1e-15, 0.3], [0.2, 0.2]])) == 0
    assert choose(np.array([[0.3, 0.3], [0.31, 0.3], [0.31, 0.3]])) == 1
    assert choose(np.array([[-0.3, -0.1], [-0.2, -0.1]])) == 1


@given(st.data())
def test_no_query_is_in_a_figure_that_it_helped_to_choose(data: st.DataObject) -> None:
    queries, candidates = data.draw(st.integers(4, 24)), data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 9))
    values = np.random.default_rng(seed).integers(0, 4, (candidates, queries)) / 3
    names = [f"query {number}" for number in range(queries)]
    for folds in (None, 2, 4):
        part_of = split_queries(names, names, folds or 2, seed)
        choices = tune(values, part_of, cross_validate=folds is not None)
        reported = np.sum([choice.reporting for choice in choices], axis=0)
        assert len(choices) == (folds or 1)
        assert reported.tolist() == ([1] * queries if folds else part_of.astype(bool).tolist())
        for choice in choices:
            assert not np.any(choice.choosing & choice.reporting)
            means = values[:, choice.choosing].mean(axis=1)
            assert means[choice.candidate] == pytest.approx(means.max())
            changed = values.copy()
            changed[:, choice.reporting] = 1 - changed[:, choice.reporting]
            assert choose(changed[:, choice.choosing]) == choice.candidate


def test_a_planted_optimum_is_chosen_and_reported_without_the_queries_that_chose_it() -> None:
    rng = np.random.default_rng(7)
    values = rng.uniform(0.2, 0.6, 60) + np.array([[0.0], [-0.1], [0.2], [0.05]]) + rng.normal(0, 0.05, (4, 60))
    names = [f"query {number}" for number in range(60)]
    (half,) = tune(values, split_queries(names, names, 2, 1))
    folds = tune(values, split_queries(names, names, 5, 1), cross_validate=True)
    assert [half.candidate, *(fold.candidate for fold in folds)] == [2] * 6
    gain = (values[2] - values[0])[half.reporting].mean()
    assert 0.15 < gain < 0.25
    test = randomise_choices(values - values[0], split_queries(names, names, 5, 1), 3)
    assert test.p < 0.001
    assert 0 < test.interval.low < (values[2] - values[0]).mean() < test.interval.high


def test_a_figure_tuned_on_noise_is_no_gain_although_the_best_of_all_queries_looks_like_one() -> None:
    rng, queries, candidates, trials = np.random.default_rng(11), 40, 17, 120
    names = [f"query {number}" for number in range(queries)]
    gains, significant = {"all": 0.0, "half": 0.0, "folds": 0.0}, {"all": 0, "half": 0, "folds": 0}
    for seed in range(trials):
        noise = rng.normal(0, 0.2, (candidates, queries))
        noise[0] = 0.0
        best = noise[choose(noise)]
        (half,) = tune(noise, split_queries(names, names, 2, seed))
        part_of = split_queries(names, names, 5, seed)
        pooled = sum(noise[fold.candidate, fold.reporting].sum() for fold in tune(noise, part_of, cross_validate=True))
        chosen = noise[half.candidate, half.reporting]
        tests = {
            "all": (best.mean(), two_sided_p(best, "t", 1)),
            "half": (chosen.mean(), two_sided_p(chosen, "t", 1)),
            "folds": (pooled / queries, randomise_choices(noise, part_of, 1, flips=199).p),
        }
        for name, (gain, p) in tests.items():
            assert p is not None
            gains[name] += gain / trials
            significant[name] += bool(gain > 0 and p < 0.05)
    assert gains["all"] > 0.04, "naively, the best of 17 gains more than one standard error"
    assert significant["all"] > 0.25 * trials, "and one of four looks significant"
    assert abs(gains["half"]) < 0.012
    assert abs(gains["folds"]) < 0.012
    assert significant["half"] <= 0.06 * trials
    assert significant["folds"] <= 0.06 * trials


def test_the_interval_of_folds_contains_0_exactly_where_p_is_not_below_5_percent() -> None:
    rng = np.random.default_rng(5)
    outcomes = set()
    for gain in (0.0, 0.05, 0.1, 0.15, 0.3):
        differences = rng.normal(gain, 0.3, (3, 30))
        differences[0] = 0.0
        p, (low, high) = randomise_choices(differences, np.arange(30) % 5, 2)
        assert (low <= 0.0 <= high) == (p >= 0.05)
        outcomes.add(p >= 0.05)
    assert outcomes == {True, False}
    assert randomise_choices(np.zeros((3, 12)), np.arange(12) % 3, 2) == (1.0, (0.0, 0.0))


@pytest.mark.parametrize(
    ("values", "parts", "message"),
    [
        ([[0.1, 0.2]], [0, 0], "all queries are in one part"),
        ([[0.1, 0.2]], [0, 1, 1], "values of shape"),
        ([0.1, 0.2], [0, 1], "values of shape"),
        (np.zeros((0, 2)), [0, 1], "values of shape"),
    ],
)
def test_values_that_cannot_be_split_are_refused(values: object, parts: list[int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tune(values, parts)  # type: ignore[arg-type]
