"""Worked examples, the rules about queries, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.errors import DataError, RankingError, UsageError
from harness.metrics import parse_metric, parse_metrics, score


def _value(run, qrels, text, **options):
    return score(run_from_dict(run), qrels_from_dict(qrels), [parse_metric(text)], **options).values[0, 0]


def test_linear_and_exponential_gain_of_grade_three_at_rank_two():
    # one document of grade 3 at rank 2: DCG = 3 / log2(3) = 1.89, or (2^3 - 1) / log2(3) = 4.42
    qrels = {"q": {"x": 0, "a": 3}}
    run = {"q": {"x": 2.0, "a": 1.0}}
    assert _value(run, qrels, "nDCG") * 3 == pytest.approx(1.8928, abs=5e-5)
    assert _value(run, qrels, "nDCG(dcg=exp-log2)") * 7 == pytest.approx(4.4165, abs=5e-5)


def test_discounted_gain_is_that_of_ndcg_before_it_is_divided():
    # grades 1, none, 3 and -1, cut at 3: 1/log2(2) + 3/log2(4) = 2.5, or 1 + 7/2; the best order has 3 + 1/log2(3)
    qrels = {"q": {"a": 1, "c": 3, "d": -1}, "unanswered": {"a": 1}}
    run = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}}
    assert _value(run, qrels, "DCG@3") == 2.5
    assert _value(run, qrels, "DCG@2") == 1.0
    assert _value(run, qrels, "DCG(dcg=exp-log2)") == 4.5
    assert _value(run, qrels, "nDCG@3") == pytest.approx(2.5 / (3 + 1 / np.log2(3)))
    means = score(run_from_dict(run), qrels_from_dict(qrels), [parse_metric("DCG@3")]).means()
    assert means[0].value == 1.25


@pytest.mark.parametrize("name", ["nDCG", "R", "P", "F1", "RR", "Success", "AP(rel=2)", "Judged", "Hits"])
def test_a_mean_over_cutoffs_is_the_mean_of_each_querys_values(name):
    qrels = qrels_from_dict({"q": {"a": 1, "c": 3, "d": -1}, "r": {"b": 2}, "unanswered": {"a": 1}})
    run = run_from_dict({"q": {"a": 2.0, "b": 2.0, "c": 2.0, "d": 1.0}, "r": {"a": 2.0, "b": 1.0}})
    average, *single = parse_metrics(f"{name}@1+2+4,{name}@{{1,2,4}}")
    for ties in ("trec_eval", "engine", "average"):
        scores = score(run, qrels, [average, *single], ties=ties)
        for table in (scores.values, scores.low, scores.high):
            np.testing.assert_allclose(table[:, 0], table[:, 1:].mean(axis=1))
        overall, *means = [summary.value for summary in scores.means()]
        assert overall == pytest.approx(np.mean(means))


def test_average_precision_at_k_divides_by_all_relevant_documents():
    qrels = {"q": {"a": 1, "b": 1, "c": 1}}
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    assert _value(run, qrels, "AP@2") == pytest.approx(2 / 3)
    assert _value(run, qrels, "R_cap@2") == 1.0


def test_expected_reciprocal_rank_by_hand():
    # grades 4 then 2 on a scale to 4: 15/16 + (1/16)(3/16)/2
    qrels = {"q": {"a": 4, "b": 2}}
    run = {"q": {"a": 2.0, "b": 1.0}}
    assert _value(run, qrels, "ERR@20") == pytest.approx(15 / 16 + 3 / 16 / 16 / 2)
    with pytest.raises(UsageError, match=r"grade 4 is beyond the scale of ERR\(max=3\)"):
        _value(run, qrels, "ERR(max=3)")


def test_rank_biased_precision_by_hand():
    qrels = {"q": {"a": 1, "b": 0, "c": 1}}
    run = {"q": {"a": 3.0, "b": 2.0, "c": 1.0}}
    assert _value(run, qrels, "RBP(p=0.5)") == pytest.approx(0.5 * (1 + 0.25))


def test_judged_counts_this_querys_judgments_only():
    qrels = {"q": {"a": 0}, "r": {"b": 1}}
    run = {"q": {"a": 3.0, "b": 2.0}, "r": {"b": 1.0}}
    scores = score(run_from_dict(run), qrels_from_dict(qrels), [parse_metric("Judged@2")], queries="judged")
    assert scores.values[:, 0].tolist() == [0.5, 1.0]


def test_the_relevance_level_is_filled_in_where_a_measure_states_none():
    qrels = {"q": {"a": 1, "b": 2}}
    run = {"q": {"a": 2.0, "b": 1.0}}
    scores = score(run_from_dict(run), qrels_from_dict(qrels), parse_metrics("RR,RR(rel=1),nDCG@1"), relevance=2)
    assert [str(measure) for measure in scores.measures] == ["RR(rel=2)", "RR(rel=1)", "nDCG@1"]
    assert scores.values[0].tolist() == [0.5, 1.0, 0.5]
    for beyond in (0, 2**31, 10**23):
        with pytest.raises(
            UsageError, match=f"relevance level is {beyond}\n  it must be above 0, and at most 2,147,483,647"
        ):
            _value(run, qrels, "RR", relevance=beyond)


def test_scores_are_float32_before_they_are_ordered_and_minus_zero_is_zero():
    qrels = {"q": {"a": 1}}
    assert _value({"q": {"a": 1 + 1e-8, "b": 1.0}}, qrels, "RR") == 0.5
    assert _value({"q": {"a": 0.0, "b": -0.0}}, qrels, "RR") == 0.5
    assert _value({"q": {"b": -0.0, "a": 0.0}}, qrels, "RR") == 0.5


@pytest.mark.parametrize("rule", ["trec_eval", "engine", "average"])
def test_engine_order_is_the_order_given(rule):
    qrels = {"q": {"a": 1}}
    run = {"q": {"a": 1.0, "b": 1.0}}
    assert _value(run, qrels, "RR", ties=rule) == {"trec_eval": 0.5, "engine": 1.0, "average": 0.75}[rule]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("rule", ["trec_eval", "average"])
def test_a_run_too_dear_to_settle_tie_by_tie_is_ordered_instead(monkeypatch, rule, order):
    # 400 hits with three scores, all judged: beyond the budget, so the ordering path runs; then once more within it
    names = [f"d{number:03}" for number in range(400)][::order]
    run = run_from_dict({"q": {name: float(hash_ % 3) for hash_, name in enumerate(names)}})
    qrels = qrels_from_dict({"q": {name: int(name[1:]) % 4 for name in names}})
    measures = parse_metrics("nDCG@10,AP,RR,P@5,R@100")
    ordered = score(run, qrels, measures, ties=rule)
    monkeypatch.setattr("harness.metrics.placement._MOST_COMPARISONS", 10**9)
    settled = score(run, qrels, measures, ties=rule)
    np.testing.assert_array_equal(ordered.low, settled.low)
    np.testing.assert_allclose(ordered.values, settled.values, atol=1e-12)


def test_nan_and_duplicates_are_errors_also_under_an_unjudged_query():
    qrels = qrels_from_dict({"q": {"a": 1}})
    measures = parse_metrics("AP")
    with pytest.raises(RankingError, match="NaN: query 'x', document 'b'"):
        score(run_from_dict({"q": {"a": 1.0}, "x": {"b": float("nan")}}), qrels, measures)
    for value, more in ((float("inf"), {}), (1e39, {}), (-1e300, {"a": 7.0})):
        with pytest.raises(RankingError, match="infinite, or beyond the range of float32: query 'x', document 'b'"):
            score(run_from_dict({"q": {"a": 1.0}, "x": {**more, "b": value}}), qrels, measures)
    run = run_from_dict({"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    run = replace(run, rows=np.array([0, 1, 0], dtype=np.int32))
    with pytest.raises(RankingError, match="ranked twice: query 'q', document 'a'"):
        score(run, qrels, measures)


@pytest.mark.parametrize(("run", "kind"), [({"other": {"a": 1.0}}, "query"), ({"q": {"x": 1.0, "y": 2.0}}, "document")])
def test_a_run_that_shares_no_ids_with_the_judgments_is_invalid(run, kind):
    with pytest.raises(DataError, match=f"none of its . {kind} ids is judged|only {kind} id is not judged"):
        score(run_from_dict(run), qrels_from_dict({"q": {"a": 1}}), parse_metrics("AP"))


def test_an_empty_run_leaves_every_query_unanswered():
    scores = score(run_from_dict({"q": {}}), qrels_from_dict({"q": {"a": 1}, "r": {"a": 1}}), parse_metrics("AP,NumQ"))
    assert scores.values.tolist() == [[0.0, 1.0], [0.0, 1.0]]
    assert scores.counts.answered == 0
    none = score(
        run_from_dict({"q": {}}), qrels_from_dict({"q": {"a": 1}}), parse_metrics("AP,NumQ"), queries="answered"
    )
    assert np.isnan(none.means()[0].value)
    assert none.means()[1].value == 0.0
