"""Expected values and intervals against brute force: every order of every tie group is scored one by one."""

from __future__ import annotations

from itertools import groupby, permutations, product
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.errors import UsageError
from harness.metrics import parse_metric, parse_metrics, score
from harness.metrics.table import KINDS

WITH_CLOSED_FORM = (
    "P@1", "P@3", "R@2", "R@5", "R_cap@3", "Success@1", "Success@3", "Complete@1",
    "Complete@3", "Complete", "RR", "RR@2", "AP", "AP@3", "AP(rel=2)", "nDCG",
    "nDCG@2", "nDCG(dcg='exp-log2')@3", "DCG", "DCG@2", "DCG(dcg='exp-log2')@3",
    "RBP", "RBP(p=0.5)@3", "RBP_trec_eval_10", "RBP_trec_eval_10(p=0.5)@3", "Rprec", "Judged@2", "Judged", "SetP",
    "SetR", "SetF", "Success", "Hits", "Hits@2", "F1", "F1@3", "P(judged_only=True)@3", "nDCG(judged_only=True)@2",
    "AP(judged_only=True)", "RR(judged_only=True)@2", "SetP(judged_only=True)", "Complete(judged_only=True)@2",
    "nDCG@1+2+4", "F1@1+3", "AP(rel=2)@1+3", "P(judged_only=True)@1+3",
)  # fmt: skip
BOUNDED = (*WITH_CLOSED_FORM, "ERR", "ERR@2", "Bpref", "IPrec@0.5", "IPrec@0.0", "11pt_avg", "gm_map",
           "IPrec_trec_eval_10@0.3", "11pt_avg_trec_eval_10")  # fmt: skip

DOCUMENTS = [f"d{number}" for number in range(6)]
HITS = st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([1.0, 2.0, 3.0]), min_size=1, max_size=6)
JUDGED = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1, max_size=6)


def _orders(hits: dict[str, float]) -> list[dict[str, float]]:
    """The same hits in every order that the ties allow, with scores that leave no tie."""
    ordered = sorted(hits, key=lambda document: -hits[document])
    groups = [list(group) for _, group in groupby(ordered, key=lambda document: hits[document])]
    chosen = product(*(permutations(group) for group in groups))
    return [{document: float(-place) for place, document in enumerate(sum(choice, ()))} for choice in chosen]


def _all_values(hits: dict[str, float], judged: dict[str, int], measures: list[Any]) -> np.ndarray:
    """One row for each order; every order is a query of its own, with the same judgments."""
    orders = {f"q{number}": order for number, order in enumerate(_orders(hits))}
    return score(
        run_from_dict(orders), qrels_from_dict(dict.fromkeys(orders, judged)), measures, queries="judged"
    ).values


@settings(max_examples=examples(60))
@given(hits=HITS, judged=JUDGED)
def test_average_is_the_mean_over_all_permutations(hits, judged):
    if not set(hits) & set(judged):
        return
    measures = parse_metrics(WITH_CLOSED_FORM)
    expected = _all_values(hits, judged, measures).mean(axis=0)
    scores = score(
        run_from_dict({"q": hits}), qrels_from_dict({"q": judged}), measures, ties="average", queries="judged"
    )
    np.testing.assert_allclose(scores.values[0], expected, atol=1e-12)


@settings(max_examples=examples(60))
@given(hits=HITS, judged=JUDGED)
def test_the_interval_is_the_range_over_all_permutations(hits, judged):
    if not set(hits) & set(judged):
        return
    measures = parse_metrics(BOUNDED)
    values = _all_values(hits, judged, measures)
    for ties in ("trec_eval", "engine"):
        listed = dict(sorted(hits.items(), key=lambda hit: -hit[1]))
        scores = score(
            run_from_dict({"q": listed}), qrels_from_dict({"q": judged}), measures, ties=ties, queries="judged"
        )
        np.testing.assert_allclose(scores.low[0], values.min(axis=0), atol=1e-12)
        np.testing.assert_allclose(scores.high[0], values.max(axis=0), atol=1e-12)


def test_average_is_refused_by_name_where_no_closed_form_is_offered():
    run, qrels = run_from_dict({"q": {"a": 1.0}}), qrels_from_dict({"q": {"a": 1}})
    with pytest.raises(UsageError, match="ERR@20, Bpref"):
        score(run, qrels, parse_metrics("AP,ERR@20,Bpref"), ties="average")


def test_every_measure_is_in_one_of_the_lists_above_or_has_no_order():
    counts = {"NumQ", "NumRet", "NumRel", "NumRelRet", "Forbidden"}  # Forbidden is Success of other judgments
    averaged = {parse_metric(text).name for text in WITH_CLOSED_FORM}
    bounded = {parse_metric(text).name for text in BOUNDED}
    assert averaged == {kind.name for kind in KINDS.values() if kind.average is not None} - counts
    assert bounded == {kind.name for kind in KINDS.values() if kind.bounded} - counts


def test_a_measure_without_exact_extremes_has_none():
    run, qrels = run_from_dict({"q": {"a": 1.0, "b": 1.0}}), qrels_from_dict({"q": {"a": 1, "b": -1}})
    scores = score(run, qrels, [parse_metric("infAP")])
    assert np.isnan(scores.low).all()
    assert np.isnan(scores.high).all()
    assert not np.isnan(scores.values).any()
