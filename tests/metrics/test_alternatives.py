"""Groups of alternatives: one document of a group is enough, and a group counts once."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.errors import UsageError
from harness.metrics import parse_metrics, score

METRICS = "Complete@1,Complete@2,Complete@3,Complete,R@2,nDCG@3,RR,Success@1,AP,P@2,Hits,Judged@3"


def _values(hits, judged, groups, metrics=METRICS, **options):
    qrels = qrels_from_dict({"q": judged}).with_groups({"q": groups})
    scores = score(run_from_dict({"q": hits}), qrels, parse_metrics(metrics), queries="judged", **options)
    names = [name.strip() for name in metrics.split(",")]
    return dict(zip(names, scores.values[0].tolist(), strict=True))


def test_one_document_of_each_group_is_enough():
    judged, groups = {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 2}
    values = _values(["b", "c", "a"], judged, groups)
    assert values["Complete@1"] == 0.0
    assert values["Complete@2"] == values["Complete"] == 1.0
    assert values["R@2"] == values["nDCG@3"] == values["AP"] == 1.0
    assert values["Hits"] == 2.0


def test_a_second_document_of_a_group_keeps_its_rank_and_gains_nothing():
    judged, groups = {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 2}
    values = _values(["a", "b", "c"], judged, groups)
    assert values["Complete@2"] == 0.0
    assert values["Complete@3"] == 1.0
    assert values["R@2"] == values["P@2"] == 0.5
    assert values["AP"] == (1 + 2 / 3) / 2
    assert values["nDCG@3"] == pytest.approx((1 + 0.5) / (1 + 1 / np.log2(3)))
    assert values["Judged@3"] == 1.0


def test_without_groups_every_relevant_document_is_needed():
    values = _values(["b", "c", "a"], {"a": 1, "b": 1, "c": 1, "d": 0}, {})
    assert [values[f"Complete@{k}"] for k in (1, 2, 3)] == [0.0, 0.0, 1.0]


def test_nothing_relevant_is_not_complete():
    assert _values(["a"], {"a": 0}, {})["Complete@1"] == 0.0


def test_the_first_relevant_document_of_a_group_counts_with_its_grade():
    judged, groups = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 1, "c": 2}
    values = _values(["a", "b", "c"], judged, groups, "Complete(rel=2)@2,Complete(rel=2)@3,nDCG@3,Success(rel=2)@2")
    assert values["Complete(rel=2)@2"] == 0.0
    assert values["Complete(rel=2)@3"] == values["Success(rel=2)@2"] == 1.0
    # the ideal ranking has the best document of each group
    assert values["nDCG@3"] == pytest.approx((1 + 3 / 2) / (3 + 2 / np.log2(3)))


def test_relevance_decides_which_document_counts():
    judged, groups = {"a": 1, "b": 2}, {"a": 1, "b": 1}
    assert _values(["a", "b"], judged, groups, "RR", relevance=2)["RR"] == 0.5
    assert _values(["a", "b"], judged, groups, "RR")["RR"] == 1.0


def test_ties_average_is_refused_for_groups_with_several_documents():
    with pytest.raises(UsageError, match="groups of alternatives"):
        _values(["a"], {"a": 1, "b": 1}, {"a": 1, "b": 1}, "RR", ties="average")
    assert _values(["a"], {"a": 1, "b": 1}, {"a": 1, "b": 2}, "RR", ties="average")["RR"] == 1.0


def test_no_range_is_given_where_alternatives_have_equal_scores():
    qrels = qrels_from_dict({"q": {"a": 1, "b": 1}, "r": {"a": 1}}).with_groups({"q": {"a": 1, "b": 1}})
    run = run_from_dict({"q": {"a": 1.0, "b": 1.0}, "r": {"a": 1.0, "b": 1.0}})
    scores = score(run, qrels, parse_metrics("RR"))
    assert np.isnan(scores.low[0, 0])
    assert scores.low[1, 0] == 0.5
    assert scores.high[1, 0] == 1.0


DOCUMENTS = list("abcdef")


@settings(max_examples=examples(150))
@given(
    order=st.permutations(DOCUMENTS),
    length=st.integers(1, 6),
    judged=st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 2), min_size=1),
    groups=st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(1, 3)),
    k=st.integers(1, 6),
)
def test_complete_and_recall_are_those_of_sets(order, length, judged, groups, k):
    hits = order[:length]
    if not set(hits) & set(judged):
        return
    values = _values(hits, judged, groups, f"Complete@{k},R@{k},Success@{k}")
    relevant = [document for document in judged if judged[document] >= 1]
    members = {}
    for document in relevant:
        members.setdefault(groups.get(document, document), set()).add(document)
    met = [bool(group & set(hits[:k])) for group in members.values()]
    assert values[f"Complete@{k}"] == float(bool(met) and all(met))
    assert values[f"R@{k}"] == (sum(met) / len(met) if met else 0.0)
    assert values[f"Success@{k}"] == float(any(met))


@settings(max_examples=examples(60))
@given(
    hits=st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([1.0, 2.0, 3.0]), min_size=1),
    judged=st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(0, 1), min_size=1),
    groups=st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(1, 3)),
)
def test_the_range_is_the_range_over_all_orders_where_there_is_one(hits, judged, groups):
    if not set(hits) & set(judged):
        return
    metrics = parse_metrics("Complete@1,Complete@2,RR,nDCG@3,R@2,AP")
    qrels = qrels_from_dict({"q": judged}).with_groups({"q": groups})
    scores = score(run_from_dict({"q": hits}), qrels, metrics, queries="judged")
    orders = {
        order for order in permutations(hits) if list(map(hits.get, order)) == sorted(hits.values(), reverse=True)
    }
    values = np.array(
        [score(run_from_dict({"q": list(order)}), qrels, metrics, queries="judged").values[0] for order in orders]
    )
    for column in range(len(metrics)):
        if not np.isnan(scores.low[0, column]):
            assert scores.low[0, column] == pytest.approx(values[:, column].min())
            assert scores.high[0, column] == pytest.approx(values[:, column].max())
