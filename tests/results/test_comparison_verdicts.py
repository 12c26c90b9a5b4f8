"""What stands at the top of the page: whom each line is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from sample_report import sample_report

from harness.report.documents.board_tables import leaderboard_tables
from harness.report.documents.verdicts import comparison_verdicts as verdicts
from harness.results.leaderboard import differences_across, make_leaderboard
from harness.results.schema import FormulaChange, PairedDifference, Result, ScoringDifference, TrialResult
from harness.results.schema_base import MetricValue, ParityStats


def stats(tie_equivalent: int, causes: dict[str, int]) -> ParityStats:
    return ParityStats(
        reference="flat",
        mode="cosine",
        tolerance=1e-6,
        queries=64,
        bit_equal=0,
        identical=tie_equivalent,
        tie_equivalent=tie_equivalent,
        different=64 - tie_equivalent,
        overlap={"10": 0.9969, "100": 0.9758},
        rbo=1.0,
        max_abs_score_diff=0.0,
        max_rel_score_diff=0.0,
        causes=causes,
    )


def report(**parity: ParityStats | None) -> Result:
    sample = sample_report()
    (model, *_) = (one for one in sample.trials if one.status == "ok")
    backends: list[TrialResult] = [
        model.model_copy(update={"name": label, "label": label, "parity": held, "metrics": {}})
        for label, held in parity.items()
    ]
    return sample.model_copy(update={"trials": backends, "differences": []})


def headlines(**parity: ParityStats | None) -> list[tuple[str, str]]:
    return [(one.tone, one.headline) for one in verdicts(report(**parity)) if "latency" not in one.headline]


RIGHT, GRAPH = stats(64, {}), stats(16, {"approximate search": 48})


def test_every_backend_is_said_of_all_and_of_none_less() -> None:
    assert headlines(a=RIGHT, b=RIGHT) == [("good", "a and b match the exact reference")]
    assert headlines(a=RIGHT, b=RIGHT, fused=None) == [("good", "a and b match the exact reference")]
    assert headlines(a=RIGHT, fused=None) == [("good", "a matches the exact reference")]


def test_what_an_approximate_index_finds_stands_beside_those_that_are_right() -> None:
    assert headlines(flat=RIGHT, chroma=GRAPH) == [
        ("plain", "chroma finds 99.69 % of the exact best 10 and 97.58 % of the exact best 100"),
        ("good", "flat matches the exact reference"),
    ]


def test_nearly_all_is_not_said_to_be_all() -> None:
    nearly = GRAPH.model_copy(update={"overlap": {"10": 0.99999, "100": 1.0}})
    assert headlines(chroma=nearly)[0][1].endswith(
        "chroma finds 99.99 % of the exact best 10 and 100.00 % of the exact best 100"
    )


def test_who_differs_otherwise_is_named_with_the_cause() -> None:
    (tied, unknown, _) = verdicts(report(a=stats(57, {"ties": 7}), b=stats(60, {"unknown": 4}), c=None))
    assert (tied.tone, tied.headline) == ("unsure", "a differs from its exact reference on 7 of 64 queries")
    assert tied.detail == "proven causes: ties (7)"
    assert unknown.tone == "bad"


def test_of_several_datasets_what_is_said_of_each_is_said_once() -> None:
    first = report(a=RIGHT, b=RIGHT)
    other = first.datasets[0].model_copy(update={"name": "other"})
    moved = [
        trial.model_copy(update={"dataset": "other"}) for trial in report(a=RIGHT, b=stats(60, {"ties": 4})).trials
    ]
    both = first.model_copy(update={"datasets": [first.datasets[0], other], "trials": [*first.trials, *moved]})
    name = first.datasets[0].name
    said = [(line.headline, line.detail) for line in verdicts(both) if "match" in line.headline]
    assert said == [
        (
            f"a matches the exact reference on {name} and other",
            "128 rankings: the same up to ties",
        ),
        (f"b matches the exact reference on {name}", "64 rankings: the same up to ties"),
    ]
    assert [line.headline for line in verdicts(both) if "differs" in line.headline] == [
        "other: b differs from its exact reference on 4 of 64 queries"
    ]
    assert [line.headline for line in verdicts(both) if "latency" in line.headline] == [
        f"a has the lowest median latency on {name} and other"
    ]


def test_a_run_without_a_reference_is_not_said_to_return_what_it_should() -> None:
    first = report(a=RIGHT, b=RIGHT, run=None)
    infos = [first.datasets[0].model_copy(update={"name": f"d{place}"}) for place in range(7)]
    trials = [trial.model_copy(update={"dataset": info.name}) for info in infos for trial in first.trials]
    lacks = [trial for trial in trials if (trial.label, trial.dataset) != ("run", "d6")]
    for kept in (trials, lacks):
        said = verdicts(first.model_copy(update={"datasets": infos, "trials": kept}))
        assert [line.headline for line in said if "match" in line.headline] == [
            "a and b match the exact reference on all 7 datasets"
        ]


def on_datasets(values: Mapping[str, Sequence[float]], differences: Sequence[PairedDifference] = ()) -> Result:
    """Return a result of backends with these values of nDCG@10 on datasets d0, d1, …, compared with the first."""
    sample = sample_report()
    count = len(next(iter(values.values())))
    infos = [sample.datasets[0].model_copy(update={"name": f"d{place}"}) for place in range(count)]
    (model, *_) = (trial for trial in sample.trials if trial.status == "ok")
    trials = [
        model.model_copy(
            update={
                "dataset": info.name,
                "name": label,
                "label": label,
                "parity": None,
                "search": None,
                "metrics": {"nDCG@10": MetricValue.model_construct(metric="nDCG@10", mean=of_label[place])},
            }
        )
        for place, info in enumerate(infos)
        for label, of_label in values.items()
    ]
    board = make_leaderboard(trials, {}, 1)
    assert board is not None
    across = differences_across(board, next(iter(values)), 1)
    board = board.model_copy(update={"notes": across.notes})
    rows = [*differences, *across.differences]
    return sample.model_copy(
        update={"datasets": infos, "trials": trials, "leaderboard": board, "differences": rows, "findings": []}
    )


LOW = [0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.35, 0.25]


def ahead(step: float) -> list[float]:
    return [value + step * place for place, value in enumerate(LOW, 1)]


def test_whether_the_first_is_surely_above_the_second_is_said_though_neither_is_compared_with() -> None:
    said = verdicts(on_datasets({"a": LOW, "b": ahead(0.01), "c": ahead(0.02)}))[0]
    assert (said.tone, said.headline) == (
        "good",
        "c has the highest mean nDCG@10 over 8 datasets, significantly above b",
    )
    assert "; p 0.023 across 8 datasets" in said.detail
    swapped = [*ahead(0.01)[:4], *ahead(0.03)[4:]]
    said = verdicts(on_datasets({"a": LOW, "b": swapped, "c": ahead(0.02)}))[0]
    assert (said.tone, said.headline) == (
        "plain",
        "no backend is significantly best: b has the highest mean nDCG@10 over 8 datasets, not significantly above c",
    )


@pytest.mark.parametrize("rounding", [0.0, 1e-15])
def test_all_that_share_the_highest_mean_are_named(rounding: float) -> None:
    moved = [value + rounding for value in LOW]
    said = verdicts(on_datasets({"low": [value / 2 for value in LOW], "a": LOW, "b": moved, "c": LOW}))[0]
    assert said.tone == "plain"
    (_, names) = said.headline.split(" share the highest ")[0].split("no backend is significantly best: ")
    assert sorted(names.replace(" and ", ", ").split(", ")) == ["a", "b", "c"]
    (same, *_) = verdicts(on_datasets({"a": LOW, "b": moved}))
    assert same.headline.endswith(" share the highest mean nDCG@10 over 8 datasets")


def test_too_few_datasets_for_a_test_are_told_with_the_leaderboard() -> None:
    said = verdicts(on_datasets({"a": LOW[:3], "b": ahead(0.01)[:3]}))[0]
    assert said.headline == "no backend is significantly best: b has the highest mean nDCG@10 over 3 datasets"
    assert said.detail.endswith("; no test across 3 datasets: it takes 6 or more for 1 comparison")


def test_columns_of_datasets_precede_technical_columns_in_the_leaderboard() -> None:
    result = on_datasets({"a": LOW[:3], "b": ahead(0.01)[:3]})
    about = {"model": "a model", "dimensions": 384}
    infos = [result.backends[0].model_copy(update={"label": label, **about}) for label in ("a", "b")]
    (table,) = leaderboard_tables(result.model_copy(update={"backends": infos}))
    assert table.title == "Leaderboard by nDCG@10, means over 3 datasets"
    names = [column.name for column in table.columns]
    ranked = ["backend", "rank", "nDCG@10", "d0", "d1", "d2"]
    assert names == [*ranked, "mean rank", "wins", "model", "dimensions"]
    assert [cell.text for cell in table.rows[0][3:6]] == ["0.5100", "0.4200", "0.3300"]
    narrow = sorted(table.columns, key=lambda column: column.priority)
    assert [column.name for column in narrow][:6] == ranked


def difference(dataset: str, b: str, size: float, verdict: str) -> PairedDifference:
    row = sample_report().differences[0]
    moved = {"dataset": dataset, "a": "a", "b": b, "metric": "nDCG@10", "difference": size, "verdict": verdict}
    return row.model_copy(update={**moved, "within_ties": False})


def test_on_many_datasets_every_significant_difference_is_counted_and_its_dataset_named() -> None:
    rows = [difference(f"d{place}", "b", 0.1, "better" if place < 4 else "undecided") for place in range(7)]
    rows += [difference("d7", "b", -0.1, "worse"), difference("d7", "c", 0.1, "undecided")]
    result = on_datasets({"a": LOW, "b": ahead(0.01), "c": LOW}, rows)
    said = [line for line in verdicts(result) if "datasets than" in line.headline]
    assert [(line.tone, line.headline, line.detail) for line in said] == [
        (
            "plain",
            "b is significantly better on 4 and worse on 1 of 8 datasets than a (nDCG@10)",
            "better on d0, d1, d2 and d3; worse on d7",
        )
    ]
    better = on_datasets({"a": LOW, "b": ahead(0.01), "c": LOW}, [row for row in rows if row.verdict != "worse"])
    (line,) = [line for line in verdicts(better) if "significantly better" in line.headline]
    assert line.tone == "good"
    unsure = [row.model_copy(update={"verdict": "undecided"}) for row in rows]
    said = verdicts(on_datasets({"a": LOW, "b": ahead(0.01), "c": LOW}, unsure))
    assert "no backend differs significantly in nDCG@10 on any of 8 datasets" in [line.headline for line in said]


def test_what_so_many_queries_would_show_is_what_the_family_leaves_them() -> None:
    result = sample_report()
    rows = [row.model_copy(update={"verdict": "undecided", "within_ties": False}) for row in result.differences]
    known = [row.model_copy(update={"detectable": 0.0789}) for row in rows]
    details = [line.detail for line in verdicts(result.model_copy(update={"differences": known}))]
    assert any("; 52 queries can show differences from about 0.0789 on" in detail for detail in details)
    beyond = [row.model_copy(update={"detectable": 5.69}) for row in rows]  # nDCG ends at 1
    details = [line.detail for line in verdicts(result.model_copy(update={"differences": beyond}))]
    assert any("; 52 queries are too few to show any difference" in detail for detail in details)
    assert not any("5.69" in detail for detail in details)
    unknown = [row.model_copy(update={"detectable": None}) for row in rows]
    details = [line.detail for line in verdicts(result.model_copy(update={"differences": unknown}))]
    assert not any("can show" in detail for detail in details)


def against(a: str, b: str, difference: float, verdict: str, dataset: str) -> PairedDifference:
    return PairedDifference(
        dataset=dataset, a=a, b=b, metric="nDCG@10", difference=difference, ci_low=None, ci_high=None, p=0.01,
        p_adjusted=0.01 if verdict != "undecided" else 0.4, comparisons=2, detectable=None, effect=None,
        wins=9, ties=0, losses=1, within_ties=False, verdict=verdict,
    )  # fmt: skip


@pytest.mark.parametrize("shown", [None, "undecided", "better"])
def test_the_highest_is_called_best_only_where_tests_show_it_above_every_other(shown: str | None) -> None:
    sample = report(a=None, b=None, c=None)
    value = MetricValue.model_construct(metric="nDCG@10", mean=0.4)
    trials = [trial.model_copy(update={"metrics": {"nDCG@10": value}}) for trial in sample.trials]
    name = sample.datasets[0].name
    rows = [against("a", "b", 0.2, "better", name), against("a", "c", 0.15, "better", name)]
    rows += [against("c", "b", 0.05, shown, name)] if shown else []
    compared = sample.model_copy(update={"trials": trials, "differences": rows, "findings": []})
    (line,) = [line for line in verdicts(compared) if "nDCG@10" in line.headline]
    if shown == "better":
        assert (line.tone, line.headline.split(";")[0]) == ("good", "b is best on nDCG@10 over 10 queries")
    else:
        assert (line.tone, line.headline.split(";")[0]) == (
            "plain",
            "no backend is significantly best on nDCG@10 over 10 queries",
        )
        assert line.headline.endswith("b is not significantly above c")


@pytest.mark.parametrize(
    ("of_c", "tone", "begins"),
    [
        ("worse", "good", "a is best on nDCG@10 over 10 queries"),
        ("undecided", "plain", "no backend is significantly best on nDCG@10 over 10 queries"),
    ],
)
def test_the_compared_one_is_best_only_where_every_other_is_surely_below(of_c: str, tone: str, begins: str) -> None:
    sample = report(a=None, b=None, c=None)
    value = MetricValue.model_construct(metric="nDCG@10", mean=0.4)
    trials = [trial.model_copy(update={"metrics": {"nDCG@10": value}}) for trial in sample.trials]
    name = sample.datasets[0].name
    rows = [against("a", "b", -0.1, "worse", name), against("a", "c", -0.2, of_c, name)]
    compared = sample.model_copy(update={"trials": trials, "differences": rows, "findings": []})
    (line,) = [line for line in verdicts(compared) if "nDCG@10" in line.headline]
    assert (line.tone, line.headline.split(";")[0]) == (tone, begins)


def test_backends_that_compute_different_functions_exactly_are_said_to_differ_by_them() -> None:
    changes = [
        FormulaChange(part="k1", before="0.9", after="1.2", queries=3, overlap=0.99),
        FormulaChange(part="length of a document", before="exact", after="in one byte", queries=7, overlap=0.9),
    ]
    sample = report(q=RIGHT, l=RIGHT)
    difference = ScoringDifference(dataset=sample.datasets[0].name, a="q", b="l", queries=64, changes=changes)
    assert not [line for line in verdicts(sample) if "formula" in line.headline]
    (said,) = [
        line
        for line in verdicts(sample.model_copy(update={"formula_differences": [difference]}))
        if "formula" in line.headline
    ]
    assert said.headline == "l differs from q by the scoring formula, not by a fault of an engine"
    assert said.detail == (
        "l: length of a document in one byte (by itself it changes the top 10 of 7 of 64 queries), "
        "k1 1.2 (by itself it changes the top 10 of 3 of 64 queries)"
    )
    idle = [change.model_copy(update={"queries": 0}) for change in changes]
    alone = difference.model_copy(update={"changes": idle, "depth": 5})
    (said,) = [
        line
        for line in verdicts(sample.model_copy(update={"formula_differences": [alone]}))
        if "formula" in line.headline
    ]
    assert said.detail == ("l: k1 1.2, length of a document in one byte (no single one changes the top 5 of a query)")
    other = sample.datasets[0].model_copy(update={"name": "more"})
    both = [difference, difference.model_copy(update={"dataset": "more", "queries": 9, "changes": changes[:1]})]
    joined = sample.model_copy(update={"datasets": [*sample.datasets, other], "formula_differences": both})
    (said,) = [line for line in verdicts(joined) if "formula" in line.headline]
    assert said.headline.startswith(f"{difference.dataset} and more: l differs from q by the scoring formula")
    assert "more: l: k1 1.2 (by itself it changes the top 10 of 3 of 9 queries)" in said.detail
    hundred = [difference.model_copy(update={"b": f"l{number}", "changes": changes[:1]}) for number in range(100)]
    (said,) = [
        line
        for line in verdicts(sample.model_copy(update={"formula_differences": hundred}))
        if "formula" in line.headline
    ]
    parts = said.detail.split("; ")
    assert [part.partition(":")[0] for part in parts[:-1]] == [f"l{number}" for number in range(6)]
    assert parts[-1] == "94 more in the tables"


@pytest.mark.parametrize(
    ("rows", "tone", "headline"),
    [
        (
            [("b", 0.01, "undecided"), ("c", 0.0, "same")],
            "plain",
            (
                "no backend is significantly best on nDCG@10 over 10 queries; a and c are equal; b is 0.0100 above a, "
                "not significant (adjusted p 0.400)"
            ),
        ),
        (
            [("b", -0.01, "worse"), ("c", 0.0, "same")],
            "good",
            "a and c are best on nDCG@10 over 10 queries; b is 0.0100 below a, significant (adjusted p 0.010)",
        ),
        (
            [("b", -0.1, "worse"), ("c", -0.2, "worse"), ("d", -0.3, "worse"), ("e", -0.4, "worse")],
            "good",
            "a is best on nDCG@10 over 10 queries; of 4 others, compared with a, 4 significantly below",
        ),
        (
            [("b", -0.1, "undecided"), ("c", -0.2, "worse"), ("d", -0.3, "worse"), ("e", -0.4, "worse")],
            "plain",
            (
                "no backend is significantly best on nDCG@10 over 10 queries; of 4 others, compared with a, "
                "3 significantly below and 1 not significantly different"
            ),
        ),
        (
            [("b", 0.1, "undecided"), ("c", -0.2, "worse"), ("d", -0.3, "worse"), ("e", -0.4, "worse")],
            "plain",
            (
                "no backend is significantly best on nDCG@10 over 10 queries; b is 0.1000 above a, not significant "
                "(adjusted p 0.400); of 3 others, compared with a, 3 significantly below"
            ),
        ),
    ],
)
def test_the_headline_begins_with_which_is_best_or_that_none_surely_is(
    rows: list[tuple[str, float, str]], tone: str, headline: str
) -> None:
    sample = report(a=None, **dict.fromkeys([label for label, *_ in rows]))
    value = MetricValue.model_construct(metric="nDCG@10", mean=0.4)
    trials = [trial.model_copy(update={"metrics": {"nDCG@10": value}}) for trial in sample.trials]
    differences = [against("a", label, size, verdict, sample.datasets[0].name) for label, size, verdict in rows]
    compared = sample.model_copy(update={"trials": trials, "differences": differences, "findings": []})
    (line,) = [line for line in verdicts(compared) if "nDCG@10" in line.headline]
    assert (line.tone, line.headline) == (tone, headline)
