"""p-MRR of FollowIR: by hand, as MTEB computes it, and what is refused."""

import numpy as np
import pytest

from harness.errors import DataError, UsageError
from harness.pipeline.evaluate import p_mrr


def test_by_hand() -> None:
    """From 1 to 4 is 1 - 1/4, from 2 to 1 is 1/2 - 1; a document that is not there is one place after the last hit."""
    original = {"q": {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}, "other": {"a": 1.0}}
    changed = {"q": {"b": 4.0, "c": 3.0, "d": 2.0, "a": 1.0}, "other": {"b": 1.0}}
    assert p_mrr(original, changed, {"q": ["a"]}) == {"q": 0.75}
    assert p_mrr(original, changed, {"q": ["a", "b"], "other": ["a"], "absent": ["a"]}) == {
        "q": (0.75 - 0.5) / 2,
        "other": 1 - 1 / 2,
    }
    assert p_mrr(original, changed, {"q": ["z"]}) == {"q": 0.0}


def test_equals_what_mteb_computes() -> None:
    """Its tasks ask both instructions in one run, under ids that say which; ties are broken by id in both."""
    metrics = pytest.importorskip("mteb._evaluators.retrieval_metrics")
    generator = np.random.default_rng(5)
    documents = [f"d{number}" for number in range(40)]
    run = {
        f"{number}-{which}": {
            document: float(score)
            for document, score in zip(
                generator.permutation(documents)[:30].tolist(), generator.integers(0, 12, 30), strict=True
            )
        }
        for number in range(8)
        for which in ("og", "changed")
    }
    moved = {str(number): generator.permutation(documents)[: number + 1].tolist() for number in range(10)}
    values = p_mrr(run, run, moved)
    assert list(values) == [str(number) for number in range(8)]
    assert np.mean(list(values.values())) == pytest.approx(metrics.calculate_pmrr(run, run, moved), rel=1e-12)


def test_runs_of_different_queries_are_refused() -> None:
    with pytest.raises(DataError, match="query 'q' is in only one of the runs"):
        p_mrr({"q": {"a": 1.0}}, {"r": {"a": 1.0}}, {"q": ["a"]})
    with pytest.raises(DataError, match="no query whose documents changed"):
        p_mrr({"q": {"a": 1.0}}, {"q": {"a": 1.0}}, {"other": ["a"]})


def test_one_id_in_place_of_a_list_is_refused() -> None:
    with pytest.raises(UsageError, match="the documents of query 'q' are a text: 'ab'"):
        p_mrr({"q": {"a": 1.0}}, {"q": {"a": 1.0}}, {"q": "ab"})
