"""Fusion against its formulas, written out document by document, on random runs full of ties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data import ranking
from harness.data.memory import run_from_dict
from harness.data.types import Run
from harness.rerank.fusion import dbsf, min_max, rrf

Hits = Mapping[str, float]
QUERIES = ["q1", "q2", "q3"]
DOCUMENTS = [f"d{number}" for number in range(7)]
HITS = st.dictionaries(st.sampled_from(DOCUMENTS), st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.0]), max_size=6)
RUNS = st.lists(st.dictionaries(st.sampled_from(QUERIES), HITS, min_size=1), min_size=1, max_size=4)
METHODS = {"rrf": rrf, "min_max": min_max, "dbsf": dbsf}


def in_order(hits: Hits) -> list[str]:
    return sorted(hits, key=lambda document: (hits[document], document), reverse=True)


def by_rrf(hits: Hits) -> dict[str, float]:
    return {document: 1 / (60 + rank) for rank, document in enumerate(in_order(hits), start=1)}


def by_min_max(hits: Hits) -> dict[str, float]:
    low, high = min(hits.values()), max(hits.values())
    return {document: 1.0 if low == high else (score - low) / (high - low) for document, score in hits.items()}


def by_dbsf(hits: Hits) -> dict[str, float]:
    if len(set(hits.values())) == 1:
        return dict.fromkeys(hits, 0.5)
    mean = sum(hits.values()) / len(hits)
    sigma = math.sqrt(sum((score - mean) ** 2 for score in hits.values()) / (len(hits) - 1))
    return {document: (score - (mean - 3 * sigma)) / (6 * sigma) for document, score in hits.items()}


FORMULAS = {"rrf": by_rrf, "min_max": by_min_max, "dbsf": by_dbsf}


def expected(runs: Sequence[Mapping[str, Hits]], query: str, method: str, weights: Sequence[float]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for run, weight in zip(runs, weights, strict=True):
        if run.get(query):
            for document, part in FORMULAS[method](run[query]).items():
                sums[document] = sums.get(document, 0.0) + weight * part
    return sums


def as_dict(run: Run) -> dict[str, dict[str, float]]:
    found = {}
    for number, query in enumerate(run.query_ids):
        hits = run.of_query(number)
        found[query] = dict(zip(run.doc_ids.take(run.rows[hits]), run.scores[hits].tolist(), strict=True))
    return found


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(25))
@given(runs=RUNS, data=st.data())
def test_scores_are_those_of_the_formula(method, runs, data):
    weights = data.draw(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=len(runs), max_size=len(runs)))
    weights[0] = 0.7
    found = as_dict(METHODS[method]([run_from_dict(run) for run in runs], weights=weights))
    assert list(found) == list(dict.fromkeys(query for run in runs for query in run))
    for query, hits in found.items():
        formula = expected(runs, query, method, weights)
        assert hits.keys() == formula.keys()
        assert hits == pytest.approx(formula, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(20))
@given(runs=RUNS)
def test_the_result_is_in_the_one_ordering(method, runs):
    for hits in as_dict(METHODS[method]([run_from_dict(run) for run in runs])).values():
        assert all((hits[a], a) > (hits[b], b) for a, b in pairwise(hits))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(20))
@given(runs=RUNS, data=st.data())
def test_neither_the_order_of_the_runs_nor_that_of_equal_scores_changes_a_bit(method, runs, data):
    shuffled = data.draw(st.permutations(runs))
    reversed_hits = [{q: dict(reversed(hits.items())) for q, hits in run.items()} for run in shuffled]
    one = as_dict(METHODS[method]([run_from_dict(run) for run in runs]))
    other = as_dict(METHODS[method]([run_from_dict(run) for run in reversed_hits]))
    assert {q: list(hits.items()) for q, hits in one.items()} == {q: list(hits.items()) for q, hits in other.items()}


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=examples(20))
@given(hits=HITS.filter(bool))
def test_one_run_keeps_its_order_and_a_run_of_weight_0_changes_nothing_for_the_others_documents(method, hits):
    run = run_from_dict({"q": hits})
    alone = METHODS[method]([run])
    assert list(as_dict(alone)["q"]) == list(as_dict(ranking.order(run))["q"])
    both = METHODS[method]([run, run_from_dict({"q": {"d0": 3.0, "other": 1.0}})], weights=[1.0, 0.0])
    assert {document: score for document, score in as_dict(both)["q"].items() if document in hits} == as_dict(alone)[
        "q"
    ]


@settings(max_examples=examples(20))
@given(runs=RUNS, scale=st.sampled_from([0.25, 8.0]))
def test_score_based_fusions_do_not_see_the_scale_and_rrf_sees_only_ranks(runs, scale):
    scaled = [{q: {d: scale * s for d, s in hits.items()} for q, hits in run.items()} for run in runs]
    for method in METHODS.values():
        one = method([run_from_dict(run) for run in runs])
        other = method([run_from_dict(run) for run in scaled])
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6, atol=1e-6)
