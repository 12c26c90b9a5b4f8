"""Which document counts for which expectation."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.types import Ids, Run
from harness.errors import UsageError
from harness.loaders.golden import golden_of_records
from harness.metrics import TieRule, parse_metrics, score
from harness.pipeline.check.id_match import ExpectedDocuments, Match, ideal_run, plain_judgments
from harness.plan.option_values import parse_match


def golden(**expected):
    return golden_of_records(
        [{"id": name, "question": f"what of {name}?", "expected": ids} for name, ids in expected.items()]
    )


def run_of(**rankings):
    ids = Ids.of(dict.fromkeys(doc for ranking in rankings.values() for doc in ranking))
    indptr = np.cumsum([0, *map(len, rankings.values())], dtype=np.int64)
    rows = ids.rows_of(Ids.of([doc for ranking in rankings.values() for doc in ranking]))
    scores = np.concatenate([-np.arange(len(ranking), dtype=np.float32) for ranking in rankings.values()])
    return Run(Ids.of(rankings), ids, indptr, rows, scores)


@pytest.mark.parametrize("rule", ["exact", "document", "prefix"])
def test_chunk_1_never_matches_chunk_10(rule):
    match = Match.of(parse_match(rule), None if rule == "exact" else "-")
    assert match.owner("chunk-10", {"chunk-1": 1}) is None
    assert match.owner("chunk-1", {"chunk-1": 1}) == "chunk-1"


@pytest.mark.parametrize(
    ("rule", "doc_id", "owner"),
    [("document", "a#1", "a"), ("document", "a#1#2", None), ("prefix", "a#1#2", "a"), ("prefix", "#1", None)],
)
def test_a_chunk_belongs_to_its_document(rule, doc_id, owner):
    assert Match.of(parse_match(rule), "#").owner(doc_id, {"a": 1}) == owner


def test_the_most_specific_expectation_owns_a_chunk():
    assert Match.of(parse_match("prefix"), "#").owner("a#1#2", {"a": 1, "a#1": 1}) == "a#1"


def test_several_hits_for_one_expectation_count_once_at_the_first():
    expected = ExpectedDocuments(
        golden(q=["a", "b"]), Match.of(parse_match("document"), "#"), Ids.of(["a#1", "a#2", "b#1", "c#1"])
    )
    run = run_of(q=["c#1", "a#2", "a#1", "b#1"])
    scores = score(run, expected.judgments(run, TieRule.ENGINE), parse_metrics("P@4,R@3,AP@4"), ties="engine")
    assert scores.values[0].tolist() == [0.5, 0.5, (1 / 2 + 2 / 4) / 2]


def test_missing_ids_are_named_and_a_shadowed_document_is_missing():
    corpus = Ids.of(["a#1", "b#1"])
    expected = ExpectedDocuments(
        golden(q=["a", "a#1"], r=["b", "nowhere"]), Match.of(parse_match("document"), "#"), corpus
    )
    assert [(one.question.id, one.expectation.id) for one in expected.missing] == [("q", "a"), ("r", "nowhere")]


def test_a_question_that_the_run_lacks_counts_as_unanswered():
    expected = ExpectedDocuments(golden(q=["a"], r=["b"]), Match(), Ids.of(["a", "b"]))
    run = run_of(q=["a"])
    scores = score(run, expected.judgments(run, TieRule.ENGINE), parse_metrics("Success@1"), ties="engine")
    assert scores.values[:, 0].tolist() == [1.0, 0.0]


def test_the_ideal_run_is_perfect():
    many = golden_of_records([{"id": "q", "question": "?", "expected": {"a": 1, "b": 3, "c": 2}}])
    scores = score(ideal_run(many, 2), plain_judgments(many), parse_metrics("nDCG@2,R@2"), ties="engine")
    assert scores.values[0].tolist() == [1.0, 2 / 3]


@pytest.mark.parametrize(("rule", "delimiter"), [("fuzzy", None), ("exact", "#"), ("document", None), ("prefix", "")])
def test_a_rule_that_is_not_understood_is_refused(rule, delimiter):
    with pytest.raises(UsageError):
        Match.of(parse_match(rule), delimiter)
