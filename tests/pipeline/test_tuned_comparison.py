"""``--tune`` chooses a combination on some queries, and reports it on those that did not choose it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from plan_texts import plan_text
from small_world import write_cards

import harness
from harness.errors import UsageError
from harness.pipeline.planning import plan_for, preview
from harness.plan.config import CompareRequest
from harness.report.documents.verdicts import comparison_verdicts
from harness.results.comparison import Comparison

QUERIES = 48
NUMBERS = {number: f"term{number}" for number in range(QUERIES)}
"""A term of its own for each query."""


@pytest.fixture(scope="module")
def dataset() -> harness.Dataset:
    """Two documents a query match it alike, of which the first, in an even row, is relevant."""
    documents = {f"d{number}{side}": word for number, word in NUMBERS.items() for side in "ab"}
    queries = {f"q{number}": word for number, word in NUMBERS.items()}
    return harness.Dataset.of(
        documents, queries, {f"q{number}": {f"d{number}a": 1} for number in NUMBERS}, name="coins"
    )


@pytest.fixture(scope="module")
def compare(dataset: harness.Dataset, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Comparison]:
    cards = write_cards(tmp_path_factory.mktemp("cards"), coin="TossesCoins", broken="TossesCoins")
    parameters = (
        '\n[parameters.luck]\ntype = "float"\ndefault = {}\nscope = "search"\nhelp = "share of lucky queries"\n'
        '\n[parameters.toss]\ntype = "int"\ndefault = 5\nscope = "search"\nhelp = "number of the toss"\n'
    )
    for name, luck in (("coin", 0.5), ("broken", 7.0)):
        card = cards / "backends" / f"{name}.toml"
        card.write_text(card.read_text(encoding="utf-8") + parameters.replace("{}", str(luck)), encoding="utf-8")

    def run(sweep: str | list[str], **options: object) -> Comparison:
        settings = {"cards": cards, "timing": False, "isolation": "none", "metrics": "RR@10", "k": 5, **options}
        given, failing = settings.pop("dataset", dataset), settings.pop("failing", [])
        comparison = harness.compare([], given, sweep=sweep, **settings)  # type: ignore[arg-type]
        assert comparison.failed == failing, comparison.report.trials[0].error
        return comparison

    return run


def test_a_planted_optimum_is_chosen_on_one_half_and_reported_on_the_other(
    compare: Callable[..., Comparison],
) -> None:
    comparison = compare("coin:luck=0.2,0.5,0.95;toss=5,6", tune="RR@10")
    (tuning,) = comparison.report.tunings
    assert (tuning.backend, tuning.metric, tuning.cross_validated) == ("coin", "RR@10", False)
    assert tuning.candidates == [
        "coin", "coin:luck=0.2;toss=5", "coin:luck=0.5;toss=6", "coin:luck=0.95;toss=5", "coin:luck=0.2;toss=6",
        "coin:luck=0.95;toss=6",
    ], "the default, then one changed parameter, then two"  # fmt: skip
    assert tuning.chosen is not None
    assert tuning.chosen.startswith("coin:luck=0.95")
    (choice,) = tuning.choices
    assert choice.choosing.queries == choice.reporting.queries == QUERIES // 2
    assert tuning.reported == choice.reporting
    frame = comparison.per_query().pivot(index="query_id", columns="backend", values="value")
    assert frame[tuning.chosen].mean() * QUERIES == pytest.approx(
        (choice.choosing.chosen + choice.reporting.chosen) * QUERIES / 2
    )
    assert choice.choosing.default != choice.reporting.default, "each half has its own mean"
    row = tuning.difference
    assert row is not None
    assert (row.a, row.b, row.verdict) == ("coin", "coin, tuned", "better")
    assert row.wins + row.ties + row.losses == QUERIES // 2
    assert row.difference == pytest.approx(choice.reporting.chosen - choice.reporting.default)
    assert row.ci_low is not None
    assert 0 < row.ci_low < row.difference
    assert row.p is not None
    assert row.p < 0.01


def test_folds_report_every_query_once_with_the_choice_of_the_others(compare: Callable[..., Comparison]) -> None:
    comparison = compare("coin:luck=0.2,0.5,0.95;toss=5,6", tune="RR@10", folds=5)
    (tuning,) = comparison.report.tunings
    assert [choice.reporting.queries for choice in tuning.choices] == [10, 10, 10, 9, 9]
    assert all(choice.choosing.queries + choice.reporting.queries == QUERIES for choice in tuning.choices)
    assert tuning.reported is not None
    pooled = sum(choice.reporting.queries * choice.reporting.chosen for choice in tuning.choices)
    assert (tuning.reported.queries, tuning.reported.chosen) == (QUERIES, pytest.approx(pooled / QUERIES))
    means = {trial.label: trial.metrics["RR@10"].mean for trial in comparison.report.trials}
    assert means[str(tuning.chosen)] == max(means.values())
    assert tuning.reported.default == pytest.approx(means["coin"])
    assert tuning.difference is not None
    assert (tuning.difference.verdict, tuning.difference.detectable) == ("better", None)
    frame = comparison.tuning()
    assert frame.index.tolist() == [("coin", fold) for fold in range(6)]
    assert frame.loc[("coin", 0), "difference"] == tuning.difference.difference
    assert frame.loc[("coin", 3), "mean"] == tuning.choices[2].reporting.chosen
    assert np.isnan(frame.loc[("coin", 0), "choosing_mean"])


def test_a_figure_tuned_on_noise_is_no_gain_although_the_best_of_all_queries_looks_like_one(
    compare: Callable[..., Comparison],
) -> None:
    tosses = ",".join(map(str, range(20, 44)))
    halves, folds = (compare(f"coin:toss={tosses}", tune="RR@10", folds=count) for count in (None, 5))
    best = max(halves.report.differences, key=lambda row: row.difference)
    assert best.p is not None
    assert best.p < 0.05, "alone, the best toss would be a discovery"
    for comparison in (halves, folds):
        (tuning,) = comparison.report.tunings
        row = tuning.difference
        assert row is not None
        assert tuning.chosen != "coin"
        assert row.verdict == "undecided"
        assert row.difference < 0.7 * best.difference
        (line,) = [line for line in comparison_verdicts(comparison.report) if "tuned by" in line.headline]
        assert line.tone == "plain"
        assert "no gain is shown" in line.headline
    (choice,) = halves.report.tunings[0].choices
    assert choice.choosing.chosen - choice.choosing.default > best.difference, "it looks even better where it is chosen"
    assert halves.report.tunings[0].candidates[0] == "coin"


def test_the_seed_draws_the_halves_and_no_backend_is_searched_twice(compare: Callable[..., Comparison]) -> None:
    sweeps = ["coin:luck=0.3,0.7", "coin:toss=2,3"]
    first, again, other = (compare(sweeps, tune="RR@10", seed=seed) for seed in (1, 1, 2))
    assert first.report.tunings == again.report.tunings
    assert first.report.tunings[0].choices != other.report.tunings[0].choices
    assert [trial.label for trial in first.report.trials] == [
        "coin", "coin:luck=0.3", "coin:luck=0.7", "coin:toss=2", "coin:toss=3",
    ], "two sweeps share one default, and are tuned together"  # fmt: skip
    assert sorted(first.report.tunings[0].candidates) == sorted(trial.label for trial in first.report.trials)


def test_of_equal_means_the_default_is_chosen_and_is_no_gain(compare: Callable[..., Comparison]) -> None:
    comparison = compare("coin:k1=1.5,2.5", tune="RR@10")  # which changes nothing here
    (tuning,) = comparison.report.tunings
    assert tuning.chosen == "coin"
    assert tuning.difference is not None
    assert (tuning.difference.verdict, tuning.difference.difference) == ("same", 0.0)
    line = comparison_verdicts(comparison.report)[0]
    assert line.answers, "the page opens with it"
    assert line.headline == "coin tuned by RR@10: no gain, the default coin is the best of 3 combinations"


def test_each_swept_backend_is_tuned_and_the_tests_are_adjusted_together(compare: Callable[..., Comparison]) -> None:
    comparison = compare(["coin:luck=0.3,0.9", "coin:toss=7;luck=0.3,0.9"], tune="RR@10")
    lone, other = comparison.report.tunings
    assert [lone.backend, other.backend] == ["coin", "coin:toss=7"]
    for tuning in (lone, other):
        row = tuning.difference
        assert row is not None
        assert (row.comparisons, row.verdict) == (2, "better")
        assert row.p is not None
        assert row.p_adjusted is not None
        assert row.p_adjusted >= row.p


def test_the_metric_of_tune_is_computed_too_and_queries_of_the_same_text_share_a_half(
    compare: Callable[..., Comparison], dataset: harness.Dataset
) -> None:
    queries = {f"q{number}": NUMBERS[number % 24] for number in NUMBERS}
    documents = {f"d{number}{side}": word for number, word in NUMBERS.items() for side in "ab"}
    qrels = {f"q{number}": {f"d{number % 24}a": 1} for number in NUMBERS}
    twins = harness.Dataset.of(documents, queries, qrels, name="twins")
    comparison = compare("coin:luck=0.3,0.9", tune="P@1", dataset=twins)
    assert list(comparison.report.trials[0].metrics) == ["RR@10", "P@1"]
    (choice,) = comparison.report.tunings[0].choices
    assert (choice.choosing.queries, choice.reporting.queries) == (24, 24)


def test_every_format_has_the_tuned_figures(compare: Callable[..., Comparison], tmp_path: Path) -> None:
    comparison = compare("coin:luck=0.2,0.5,0.95;toss=5,6", tune="RR@10", folds=3, out=tmp_path / "out")
    (tuning,) = comparison.report.tunings
    assert tuning.reported is not None
    mean = f"{tuning.reported.chosen:.4f}"
    for form in ("table", "markdown", "latex"):
        assert mean in comparison.render(form)
        assert "coin tuned by RR@10" in comparison.render(form)
    rows = {(row["backend"], row["metric"]): row for row in csv.DictReader(io.StringIO(comparison.render("csv")))}
    assert float(rows["coin, tuned", "RR@10"]["mean"]) == pytest.approx(tuning.reported.chosen)
    assert float(rows["coin, tuned", "default.RR@10"]["mean"]) == pytest.approx(tuning.reported.default)
    assert float(rows["coin, tuned", "folds_that_agree"]["mean"]) == 3
    assert float(rows[str(tuning.chosen), "tuning.fold_2.choosing.chosen.RR@10"]["n"]) == 32
    assert "p_adjusted.RR@10 from coin" in {name for backend, name in rows if backend == "coin, tuned"}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Tuned parameters" in page
    assert mean in page
    assert Comparison.load(tmp_path / "out").report.tunings == comparison.report.tunings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tune": "RR@10", "sweep": ()}, "--tune RR@10 without --sweep: there is nothing to choose from"),
        ({"folds": 5}, "--folds 5 without --tune: it would change nothing"),
        ({"tune": "RR@10", "folds": 1}, "--folds is 1"),
        ({"tune": "RR@10,AP"}, "--tune RR@10,AP names 2 metrics"),
        ({"tune": "NumRel"}, "--tune NumRel: it is not a mean over queries"),
        ({"tune": "nDCK@10"}, "nDCK"),
        ({"tune": "RR@10", "sweep": "csr:k1=0.9,0.90"}, "every combination of --sweep is csr itself"),
    ],
)
def test_options_without_sense_are_refused(options: dict[str, object], message: str) -> None:
    request = {"backends": "csr", "sweep": "csr:b=0.1,0.9", "dataset": "cacm", **options}
    with pytest.raises(UsageError) as refusal:
        plan_for(CompareRequest(**request))  # type: ignore[arg-type]
    assert str(refusal.value).count(message) == 1


def test_too_few_queries_are_refused_before_any_engine_starts(
    compare: Callable[..., Comparison], dataset: harness.Dataset
) -> None:
    with pytest.raises(
        UsageError, match=r"at least 12 queries for two halves: 'coins' has 11 different queries that count"
    ):
        compare("coin:luck=0.1,0.9", tune="RR@10", sample_queries=11)
    with pytest.raises(
        UsageError, match=r"at least 20 queries for 20 folds: 'coins' has 19 different queries that count"
    ):
        compare("coin:luck=0.1,0.9", tune="RR@10", folds=20, sample_queries=19)
    with pytest.raises(UsageError, match="'coins' has no judgments to choose by"):
        compare("coin:luck=0.1,0.9", tune="RR@10", dataset=replace(dataset, qrels=None))
    assert compare("coin:luck=0.1,0.9", tune="RR@10", sample_queries=12).report.tunings[0].chosen is not None


def test_the_recorded_command_has_the_default_too() -> None:
    sweeps = ["csr:b=0.1,0.9", "csr:k1=1,2"]
    request = CompareRequest(backends=[], sweep=sweeps, tune="nDCG@10", folds=5, dataset="cacm")
    plan = plan_for(request)
    words = plan.command()
    assert words[2:4] == ["--backends", "csr"]
    assert [words[position + 1] for position, word in enumerate(words) if word in ("--tune", "--folds")] == [
        "nDCG@10", "5",
    ]  # fmt: skip
    again = plan_for(replace(request, backends="csr"))
    assert [trial.label for trial in again.trials] == [trial.label for trial in plan.trials]


def test_a_dry_run_says_what_is_tuned_and_refuses_too_few_queries() -> None:
    request = CompareRequest(
        backends="csr", sweep=["csr:b=0.1,0.9"], tune="nDCG@10", folds=5, dataset="cacm", sample_queries=40
    )
    text = plan_text(preview(plan_for(request)), "table")
    assert "nDCG@10, 5 folds, each reported with the choice of the others, seed 42: csr of 3 combinations" in text
    assert text.count("backend csr") == 3
    with pytest.raises(UsageError, match="at least 12"):
        preview(plan_for(replace(request, sample_queries=5)))


def test_a_later_run_on_other_settings_has_the_tuned_metric_and_every_backend(
    tmp_path: Path,
) -> None:
    options = {"metrics": "RR@10", "k": 5, "timing": False, "isolation": "none", "sample_queries": 30}
    harness.compare([], "cacm", sweep="csr:b=0.1,0.9", tune="P@3", out=tmp_path / "before", **options)
    after = harness.regress(tmp_path / "before", set="csr:k1=1.2")
    assert [pair.after for pair in after.report.changes.backends] == [
        "csr:k1=1.2", "csr:b=0.1;k1=1.2", "csr:b=0.9;k1=1.2",
    ]  # fmt: skip
    assert {change.metric for pair in after.report.changes.backends for change in pair.metrics} == {"RR@10", "P@3"}


def test_a_combination_that_fails_is_no_candidate_and_without_the_default_nothing_is_chosen(
    compare: Callable[..., Comparison],
) -> None:
    sweep = "coin:luck=0.2,0.9,7"  # which the card allows, and the engine does not
    (tuning,) = compare(sweep, tune="RR@10", failing=["coin:luck=7.0"]).report.tunings
    assert tuning.candidates == ["coin", "coin:luck=0.2", "coin:luck=0.9"]
    assert tuning.notes == ["not among the combinations, because they have no scores: coin:luck=7.0"]
    assert tuning.chosen == "coin:luck=0.9"
    comparison = compare("coin:idf=true;luck=7,0.9", tune="RR@10", failing=["coin:idf=true;luck=7.0"])
    assert comparison.report.tunings[0].chosen is not None
    comparison = compare("broken:luck=0.2,0.9", tune="RR@10", failing=["broken"])
    (tuning,) = comparison.report.tunings
    assert (tuning.chosen, tuning.choices, tuning.difference) == (None, [], None)
    assert tuning.notes[-1] == "nothing is chosen without the default"
    (line,) = [line for line in comparison_verdicts(comparison.report) if "tuned by" in line.headline]
    assert (line.tone, line.headline) == ("unsure", "broken tuned by RR@10: nothing was chosen")
    assert comparison.tuning().empty


def test_several_datasets_are_tuned_one_by_one(compare: Callable[..., Comparison], dataset: harness.Dataset) -> None:
    small = harness.Dataset.of({"a": "term1"}, {"q": "term1"}, {"q": {"a": 1}}, name="small")
    twin = replace(dataset, name="twin")
    comparison = compare("coin:luck=0.2,0.95", tune="RR@10", dataset=[dataset, twin])
    first, second = comparison.report.tunings
    assert (first.dataset, second.dataset) == ("coins", "twin")
    assert first.choices == second.choices
    assert comparison.on("twin").report.tunings == [second]
    assert comparison.tuning().index.names == ["dataset", "backend", "fold"]
    assert "coin tuned by RR@10, twin" in comparison.render("markdown")
    labels = ["coin", "coin:luck=0.2", "coin:luck=0.95"]
    partly = compare(
        "coin:luck=0.2,0.95", tune="RR@10", dataset=[dataset, small], failing=[f"{label} on small" for label in labels]
    )
    assert [tuning.dataset for tuning in partly.report.tunings] == ["coins"]
