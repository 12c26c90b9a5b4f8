"""Every measure that trec_eval has too, against pytrec_eval, on runs full of ties."""

from __future__ import annotations

import math
from typing import Any

import pytest
import pytrec_eval
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.metrics import parse_metric, parse_metrics, score

NAMES = (
    "map", "map_cut_1", "map_cut_3", "map_cut_10", "ndcg", "ndcg_cut_1", "ndcg_cut_5", "P_1", "P_5", "recall_2",
    "recall_100", "recip_rank", "Rprec", "bpref", "success_1", "success_5", "set_P", "set_recall", "set_F",
    "iprec_at_recall_0.00", "iprec_at_recall_0.10", "iprec_at_recall_0.30", "iprec_at_recall_0.50",
    "iprec_at_recall_0.70", "iprec_at_recall_1.00", "11pt_avg", "gm_map", "infAP",
    "num_q", "num_ret", "num_rel", "num_rel_ret",
)  # fmt: skip
FAMILIES = {"map_cut.1,3,10", "ndcg_cut.1,5", "P.1,5", "recall.2,100", "success.1,5"} | {
    "map", "ndcg", "recip_rank", "Rprec", "bpref", "set_P", "set_recall", "set_F", "iprec_at_recall", "11pt_avg",
    "gm_map", "infAP", "num_q", "num_ret", "num_rel", "num_rel_ret",
}  # fmt: skip

DOCUMENTS = st.sampled_from([f"d{number}" for number in range(14)] + ["D1", "é", "ü10", "z" * 30, "-"])
TIED = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-8, 2.5, -3.0, 3e38, -3e38])
QUERIES = st.sampled_from([f"q{number}" for number in range(6)])
RUNS = st.dictionaries(
    QUERIES,
    st.dictionaries(
        DOCUMENTS, TIED | st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=16
    ),
    max_size=6,
)
QRELS = st.dictionaries(
    QUERIES, st.dictionaries(DOCUMENTS, st.integers(-2, 4), min_size=1, max_size=16), min_size=1, max_size=6
)


def _shares_ids(run: dict[str, Any], qrels: dict[str, Any]) -> bool:
    judged = set().union(*qrels.values())
    return bool(set(run) & set(qrels)) and any(document in judged for hits in run.values() for document in hits)


def _readable(qrels: dict[str, Any], level: int) -> dict[str, Any]:
    """trec_eval's C reads and writes beyond its array of grades when no grade of a query comes near the level."""
    return {query: {**judged, "bottom": level - 1} for query, judged in qrels.items()}


@settings(max_examples=examples(400))
@given(run=RUNS, qrels=QRELS, level=st.integers(1, 3))
def test_every_value_equals_pytrec_eval(run, qrels, level):
    if not _shares_ids(run, qrels):
        return
    qrels = _readable(qrels, level)
    expected = pytrec_eval.RelevanceEvaluator(qrels, FAMILIES, relevance_level=level).evaluate(run)
    scores = score(
        run_from_dict(run), qrels_from_dict(qrels), parse_metrics(NAMES), queries="answered", relevance=level
    )
    assert sorted(scores.query_ids) == sorted(expected)
    for row, query in enumerate(scores.query_ids):
        for column, name in enumerate(NAMES):
            ours = scores.values[row, column]
            ours = math.log(ours) if name == "gm_map" else ours
            assert ours == pytest.approx(expected[query][name], abs=1e-9), (query, name)


@settings(max_examples=examples(100))
@given(run=RUNS, qrels=QRELS)
def test_the_means_are_trec_evals_own(run, qrels):
    if not _shares_ids(run, qrels):
        return
    qrels = _readable(qrels, 1)
    names = [name for name in NAMES if name != "num_q"]
    expected = pytrec_eval.RelevanceEvaluator(qrels, FAMILIES).evaluate(run)
    scores = score(run_from_dict(run), qrels_from_dict(qrels), parse_metrics(names), queries="answered")
    for name, summary in zip(names, scores.means(), strict=True):
        theirs = pytrec_eval.compute_aggregated_measure(name, [values[name] for values in expected.values()])
        assert summary.value == pytest.approx(theirs, abs=1e-9), name


def test_an_unanswered_query_counts_as_zero_and_the_counts_say_so():
    qrels = {"q1": {"a": 1}, "q2": {"a": 1}, "q3": {"a": 0}}
    run = run_from_dict({"q1": {"a": 1.0}, "q3": {"a": 2.0}, "q9": {"a": 1.0}})
    judgments = qrels_from_dict(qrels)
    means = {queries: score(run, judgments, [parse_metric("AP")], queries=queries) for queries in
             ("relevant", "judged", "answered")}  # fmt: skip
    assert {queries: scores.means()[0].value for queries, scores in means.items()} == pytest.approx(
        {"relevant": 1 / 2, "judged": 1 / 3, "answered": 1 / 2}
    )
    assert means["relevant"].counts == (3, 2, 2, 2, 1)
    assert list(means["relevant"].query_ids) == ["q1", "q2"]
    assert list(means["answered"].query_ids) == ["q1", "q3"]
