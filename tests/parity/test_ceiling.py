"""The ceiling of a second stage against every order of its candidates, and the reference of a fusion by hand."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.data.ranking import cut
from harness.data.types import Run
from harness.metrics import QuerySet, parse_metrics, score
from harness.parity import compare_run
from harness.parity.causes import hits_of_components
from harness.parity.references import FusedReference, Part
from harness.pipeline.probes.combining import rerank_upper_bound
from harness.rerank.fusion import min_max

DOCUMENTS = [f"d{number}" for number in range(5)]
CANDIDATES = st.lists(st.sampled_from([*DOCUMENTS, "never judged"]), min_size=1, max_size=4, unique=True)
JUDGED = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-1, 3), min_size=1)
MEASURES = parse_metrics("nDCG@2,nDCG,nDCG(dcg='exp-log2')@3,AP")


@settings(max_examples=examples(40))
@given(candidates=CANDIDATES, judged=JUDGED)
def test_no_order_of_the_candidates_is_better_and_one_is_as_good(candidates, judged):
    qrels = qrels_from_dict({"q": judged, "other": {"d0": 1}})
    if not set(candidates) & set(judged):
        return
    run = run_from_dict({"q": dict.fromkeys(candidates, 1.0)})
    found = rerank_upper_bound(run, qrels, MEASURES, QuerySet.ANSWERED, 1)
    if not found:
        return
    assert list(found) == [str(measure) for measure in MEASURES[:3]]
    for measure in MEASURES[:3]:
        reached = []
        for order in permutations(candidates):
            ordered = run_from_dict({"q": {document: -float(place) for place, document in enumerate(order)}})
            reached.append(score(ordered, qrels, [measure], queries="answered").means()[0].value)
        assert found[str(measure)] == pytest.approx(max(reached), abs=1e-12)


def test_no_hits_and_no_ndcg_have_no_ceiling():
    qrels = qrels_from_dict({"q": {"d0": 1}})
    assert rerank_upper_bound(run_from_dict({"q": {}}), qrels, MEASURES, QuerySet.RELEVANT, 1) == {}
    assert rerank_upper_bound(run_from_dict({"q": {"d0": 1.0}}), qrels, MEASURES[3:], QuerySet.RELEVANT, 1) == {}


def fuse(runs: list[Run], k: int | None) -> Run:
    fused = min_max(runs)
    return fused if k is None else cut(fused, k)


def test_the_oracle_of_a_fusion_scores_what_it_did_not_return_and_names_the_component():
    base = run_from_dict({"q": {"a": 3.0, "b": 2.0, "c": 1.0, "z": 0.5}, "r": {"a": 1.0, "b": 0.0}})
    columns = partial(Run, base.query_ids, base.doc_ids)
    exact = columns(np.array([0, 3, 5]), np.array([0, 1, 2, 0, 1], np.int32), np.array([3, 2, 1, 1, 0], np.float32))
    wrong = columns(np.array([0, 3, 5]), np.array([1, 0, 2, 0, 1], np.int32), np.array([3, 2, 1, 1, 0], np.float32))
    oracle = FusedReference("minmax", (Part("one", exact, exact), Part("two", exact, wrong)), fuse)
    assert oracle.score(base).tolist() == [2.0, 1.0, 0.0, 0.0, 2.0, 0.0]  # z is in no exact list
    run = fuse([exact, wrong], 3)
    parity = compare_run(run, oracle, k=3, tolerance=0.0, hypotheses=hits_of_components(oracle.parts))
    assert (parity.reference, parity.bit_equal, parity.causes) == ("fusion", 1, {"hits of two": 1})
    both = FusedReference("minmax", (Part("one", exact, wrong), Part("two", exact, wrong)), fuse)
    parity = compare_run(fuse([wrong, wrong], 3), both, k=3, tolerance=0.0, hypotheses=hits_of_components(both.parts))
    assert parity.causes == {"hits of several components": 1}
