"""Condensed lists: hits without a judgment are left out before scoring, as ``trec_eval -J`` does."""

from __future__ import annotations

import math

import pytest
import pytrec_eval
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.errors import UnknownNameError, UsageError
from harness.metrics import parse_metric, parse_metrics, score

NAMES = {
    "map": "AP", "map_cut_3": "AP@3", "ndcg": "nDCG", "ndcg_cut_2": "nDCG@2", "P_2": "P@2", "P_5": "P@5",
    "recall_2": "R@2", "recip_rank": "RR", "Rprec": "Rprec", "success_1": "Success@1", "set_P": "SetP",
    "set_F": "SetF", "iprec_at_recall_0.50": "IPrec@0.5", "11pt_avg": "11pt_avg", "num_ret": "NumRet",
}  # fmt: skip
DOCUMENTS = [f"d{number}" for number in range(9)]
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2"]),
    st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([1.0, 1.0 + 1e-8, 2.0, 3.0]), min_size=1),
    min_size=1,
)
QRELS = st.fixed_dictionaries(
    {query: st.dictionaries(st.sampled_from(DOCUMENTS[:6]), st.integers(-2, 3), min_size=1) for query in ("q1", "q2")}
)


def _judged_only(name: str) -> str:
    before, at, cutoff = name.partition("@")
    return f"{before}(judged_only=True){at}{cutoff}"


@settings(max_examples=examples(200))
@given(run=RUNS, qrels=QRELS)
def test_values_are_those_of_trec_eval_with_judged_documents_only(run, qrels):
    qrels = {query: {**judged, "bottom": 0} for query, judged in qrels.items()}
    families = {"map", "map_cut.3", "ndcg", "ndcg_cut.2", "P.2,5", "recall.2", "recip_rank", "Rprec", "success.1"}
    families |= {"set_P", "set_F", "iprec_at_recall", "11pt_avg", "num_ret"}
    expected = pytrec_eval.RelevanceEvaluator(qrels, families, judged_docs_only_flag=True).evaluate(run)
    measures = parse_metrics([_judged_only(name) for name in NAMES.values()])
    scores = score(run_from_dict(run), qrels_from_dict(qrels), measures, queries="answered", unjudged=True)
    assert set(scores.query_ids) == set(expected)
    for query, values in scores.per_query():
        for name, summary in zip(NAMES, values, strict=True):
            if math.isnan(expected[query][name]):  # interpolated precision of an empty list: 0 divided by 0
                assert expected[query]["num_ret"] == 0
                continue
            assert summary.value == pytest.approx(expected[query][name], abs=1e-12), (query, name)


def test_the_ordinary_figure_stands_next_to_it():
    run, qrels = run_from_dict({"q": ["x", "a", "y", "b"]}), qrels_from_dict({"q": {"a": 1, "b": 1, "c": 0}})
    scores = score(run, qrels, parse_metrics("RR,RR(judged_only=True),P@2,P(judged_only=true)@2"))
    assert scores.values[0].tolist() == [0.5, 1.0, 0.5, 1.0]


def test_a_second_alternative_is_judged():
    qrels = qrels_from_dict({"q": {"a": 1, "b": 1, "c": 1}}).with_groups({"q": {"a": 1, "b": 1}})
    scores = score(run_from_dict({"q": ["x", "a", "b", "c"]}), qrels, parse_metrics("P(judged_only=True)@3"))
    assert scores.values[0, 0] == pytest.approx(2 / 3)


def test_spelling():
    assert str(parse_metric("nDCG(judged_only=True)@10")) == "nDCG(judged_only=True)@10"
    assert parse_metric("nDCG(judged_only=False)@10") == parse_metric("nDCG@10")
    with pytest.raises(UsageError, match="neither True nor False"):
        parse_metric("nDCG(judged_only=2)@10")
    with pytest.raises(UnknownNameError, match="judged_only"):
        parse_metric("Judged(judged_only=True)@10")


def _if_relevant(hits, judged, metrics, **options):
    measures = parse_metrics(metrics)
    scores = score(run_from_dict({"q": hits}), qrels_from_dict({"q": judged}), measures, if_relevant=True, **options)
    return {str(measure): value for measure, value in scores.means_if_relevant().items()}


def test_unjudged_hits_that_were_relevant_count_among_the_ideal_documents_too():
    values = _if_relevant(["a", "x", "y", "b"], {"a": 2, "b": 1, "c": 1}, "P@2,R@2,nDCG@2,RR,AP,Success@1,Rprec")
    assert values["P@2"] == 1.0
    assert values["R@2"] == 2 / 4  # x is relevant then, and y is not looked at
    assert values["nDCG@2"] == 1.0
    assert values["AP"] == (1 + 1 + 1 + 1) / 5
    assert values["RR"] == values["Success@1"] == 1.0


def test_all_relevant_may_be_less_than_none():
    judged = {"a": 1}
    values = _if_relevant(["a", "x"], judged, "nDCG@10,R@10")
    assert values == {"nDCG@10": 1.0, "R@10": 1.0}
    assert _if_relevant({"x": 1.0, "a": 2.0, "y": 0.5}, judged, "RBP(p=0.5)@3")["RBP(p=0.5)@3"] == 0.875


def test_metrics_that_unjudged_hits_cannot_change_have_no_such_mean():
    metrics = "P@2,P(judged_only=True)@2,Bpref,Judged@2,NumRet,gm_map"
    assert list(_if_relevant(["a", "x"], {"a": 1, "b": 0}, metrics)) == ["P@2", "gm_map"]
    assert _if_relevant(["a", "x"], {"a": 1}, "P@2", ties="average") == {}


@settings(max_examples=examples(150))
@given(
    order=st.permutations(DOCUMENTS),
    length=st.integers(1, 9),
    judged=st.dictionaries(st.sampled_from(DOCUMENTS[:5]), st.integers(-1, 2), min_size=1),
    k=st.integers(1, 9),
    relevance=st.integers(1, 2),
)
def test_the_other_extreme_is_the_score_by_completed_judgments(order, length, judged, k, relevance):
    hits = order[:length]
    if not set(hits) & set(judged):
        return
    metrics = f"P@{k},R@{k},nDCG@{k},AP@{k},RR@{k},Success@{k},Complete@{k},RBP@{k},ERR@{k},F1@{k}"
    options = {"queries": "judged", "relevance": relevance}
    completed = {document: relevance for document in hits[:k] if judged.get(document, -1) < 0}
    expected = score(
        run_from_dict({"q": hits}), qrels_from_dict({"q": {**judged, **completed}}), parse_metrics(metrics), **options
    )
    values = _if_relevant(hits, judged, metrics, **options)
    assert list(values.values()) == pytest.approx(expected.values[0].tolist(), abs=1e-12)
    for name in ("P", "RR", "Success", "RBP"):
        ordinary = score(
            run_from_dict({"q": hits}), qrels_from_dict({"q": judged}), parse_metrics(f"{name}@{k}"), **options
        )
        (top,) = (value for each, value in values.items() if each.startswith((f"{name}@", f"{name}(")))
        assert top >= ordinary.values[0, 0] - 1e-12


def test_blocks_of_queries_give_the_same(monkeypatch):
    run = run_from_dict({f"q{number}": [f"d{(number + step) % 9}" for step in range(6)] for number in range(7)})
    qrels = qrels_from_dict({f"q{number}": {"d1": 1, "d2": 2, "d3": 0} for number in range(7)})
    measures = parse_metrics("nDCG@4,AP,R@5")
    whole = score(run, qrels, measures, if_relevant=True).if_relevant
    monkeypatch.setattr("harness.metrics.unjudged._HITS_AT_A_TIME", 10)
    assert score(run, qrels, measures, if_relevant=True).if_relevant.tolist() == whole.tolist()
