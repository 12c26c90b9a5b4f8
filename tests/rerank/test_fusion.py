"""Fusion where it has to decide something: ties, constant scores, what is missing, and what is refused."""

from __future__ import annotations

import pytest

from harness.data.memory import run_from_dict
from harness.data.types import Run
from harness.errors import RankingError, UsageError
from harness.rerank.fusion import comb_sum, dbsf, min_max, rrf


def hits(run: Run, query: str = "q") -> dict[str, float]:
    place = run.of_query(list(run.query_ids).index(query))
    return dict(zip(run.doc_ids.take(run.rows[place]), run.scores[place].tolist(), strict=True))


def test_the_worked_example():
    bm25 = run_from_dict({"q": {"a": 12.0, "b": 9.0, "c": 3.0}})
    dense = run_from_dict({"q": {"b": 0.9, "d": 0.8, "a": 0.4}})
    assert hits(rrf([bm25, dense])) == pytest.approx(
        {"b": 1 / 62 + 1 / 61, "a": 1 / 61 + 1 / 63, "d": 1 / 62, "c": 1 / 63}
    )
    assert hits(min_max([bm25, dense], weights=[0.3, 0.7])) == pytest.approx(
        {"b": 0.3 * 6 / 9 + 0.7, "d": 0.7 * 0.8, "a": 0.3, "c": 0.0}
    )
    assert hits(comb_sum([bm25, dense])) == pytest.approx({"a": 12.4, "b": 9.9, "c": 3.0, "d": 0.8})
    # means 8 and 0.7, standard deviations sqrt(21) and sqrt(0.07)
    assert hits(dbsf([bm25, dense]))["b"] == pytest.approx(1 / (6 * 21**0.5) + 0.2 / (6 * 0.07**0.5) + 1.0)


def test_qdrants_constant_is_one_larger():
    """Qdrant's client adds 1 / (2 + position) with positions from 0."""
    assert hits(rrf([run_from_dict({"q": {"a": 2.0, "b": 1.0}})], k=1)) == pytest.approx({"a": 1 / 2, "b": 1 / 3})


def test_equal_scores_have_ranks_by_document_id():
    fused = rrf([run_from_dict({"q": {"a": 1.0, "z": 1.0, "m": 1.0}})])
    assert list(hits(fused)) == ["z", "m", "a"]
    assert fused.scores[0] > fused.scores[1] > fused.scores[2]


def test_constant_scores_and_single_hits():
    constant = run_from_dict({"q": {"a": 0.1, "b": 0.1, "c": 0.1}, "one": {"a": -4.0}})
    assert hits(min_max([constant])) == {"c": 1.0, "b": 1.0, "a": 1.0}
    assert hits(dbsf([constant])) == {"c": 0.5, "b": 0.5, "a": 0.5}
    assert hits(min_max([constant]), "one") == {"a": 1.0}
    assert hits(dbsf([constant]), "one") == {"a": 0.5}


def test_unequal_columns_and_missing_queries():
    one = run_from_dict({"first": {"a": 2.0}, "both": {"b": 1.0}, "nothing": {}})
    other = run_from_dict({"both": {"c": 5.0, "b": 4.0}, "second": {"d": 1.0}})
    fused = rrf([one, other])
    assert list(fused.query_ids) == ["first", "both", "nothing", "second"]
    assert hits(fused, "first") == pytest.approx({"a": 1 / 61})
    assert hits(fused, "both") == pytest.approx({"b": 1 / 61 + 1 / 62, "c": 1 / 61})
    assert hits(fused, "nothing") == {}
    assert hits(fused, "second") == pytest.approx({"d": 1 / 61})


@pytest.mark.parametrize("fuse", [rrf, comb_sum, min_max, dbsf])
def test_runs_without_any_hits(fuse):
    nothing = run_from_dict({"q": {}})
    assert hits(fuse([nothing, nothing])) == {}
    assert list(hits(fuse([nothing, run_from_dict({"q": {"a": 1.0}})]))) == ["a"]


def test_the_same_column_is_kept():
    run = run_from_dict({"q": {"a": 1.0}})
    assert rrf([run, run]).doc_ids is run.doc_ids


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda run: rrf([]), "nothing to fuse"),
        (lambda run: rrf([run], k=-1), "constant k of reciprocal rank fusion is -1"),
        (lambda run: rrf([run], k=float("nan")), "is nan"),
        (lambda run: min_max([run, run], weights=[1.0]), "1 weights for 2 runs"),
        (lambda run: min_max([run, run], weights=[0.0, 0.0]), "the weights are 0, 0"),
        (lambda run: dbsf([run, run], weights=[-1.0, 2.0]), "the weights are -1, 2"),
    ],
)
def test_wrong_arguments_are_refused(make, message):
    with pytest.raises(UsageError, match=message):
        make(run_from_dict({"q": {"a": 1.0}}))


@pytest.mark.parametrize("fuse", [rrf, comb_sum, min_max, dbsf])
@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_not_finite_are_refused(fuse, score):
    run = run_from_dict({"q": {"a": 1.0, "b": score}})
    if fuse is rrf and score == float("-inf"):
        fused = fuse([run])
        assert list(fused.doc_ids.take(fused.rows)) == ["a", "b"], "it ranks last"
        return
    with pytest.raises(RankingError, match=r"a score is (NaN|infinite).*: query 'q', document 'b'"):
        fuse([run])
