"""The best candidates of each query, against sorting them one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data import ranking

HIT = st.tuples(st.integers(0, 3), st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 1.0, 1.0 + 1e-9, 7.0]))


@given(st.lists(HIT, max_size=25), st.integers(1, 6), st.sampled_from([np.float32, np.float64]), st.randoms())
def test_score_descending_then_tie_break_descending(hits, k, precision, rng):
    tie_break = np.array(rng.sample(range(1000), len(hits)), dtype=np.uint32)
    queries = np.array([query for query, _ in hits], dtype=np.uint16)
    scores = np.array([score for _, score in hits], dtype=precision)
    expected = []
    for query in range(4):
        own = [at for at in range(len(hits)) if queries[at] == query]
        expected += sorted(own, key=lambda at: (-scores[at], -int(tie_break[at])))[:k]
    assert ranking.best(queries, scores, tie_break, k).tolist() == expected


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_no_candidates(precision):
    nothing = ranking.best(np.empty(0, np.uint16), np.empty(0, precision), np.empty(0, np.uint32), 3)
    assert nothing.tolist() == []
