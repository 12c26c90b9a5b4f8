"""Questions that nothing answers: how often a backend returns nothing above a score (`--answer-threshold`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

import harness
from harness.errors import UsageError
from harness.pipeline.check.checked import CheckResult
from harness.report.documents.check import check_document
from harness.report.documents.check_cases import check_suites
from harness.report.formats import render

pytestmark = pytest.mark.integration

GOLDEN = [
    {"id": "a", "question": "pump", "expected": ["d1"], "lang": "en"},
    {"id": "b", "question": "filter", "expected": ["d2"], "lang": "en"},
    {"id": "n1", "question": "weather", "expected": [], "lang": "en"},
    {"id": "n2", "question": "wheel", "expected": [], "lang": "de"},
]
SCORES = {"pump": {"d1": 0.9}, "filter": {"d2": 0.2}, "weather": {"d1": 0.3}, "wheel": {"d2": 0.6, "d1": 0.1}}


def scored(scores: Mapping[str, Mapping[str, float]] = SCORES) -> Callable[[str, int], Sequence[Any]]:
    return lambda question, k: list(scores[question].items())[:k]


def check(retrieve: Callable[[str, int], Sequence[Any]], **options: Any) -> CheckResult:
    options = {"k": 3, "timing": False, "isolation": "none", **options}
    return harness.check(GOLDEN, against={"mine": retrieve}, **options)


def test_the_share_of_questions_without_an_answer_has_its_own_figure():
    result = check(scored(), answer_threshold=0.3, require=["no_answer>=0.9", "lang=en: no_answer>=1"])
    stats = result.trial("mine").no_answer
    assert (stats.threshold, stats.questions, stats.without_answer, stats.share) == (0.3, 2, 1, 0.5)
    assert (stats.answered, stats.expecting, stats.expecting_without_answer) == (["n2"], 2, 1)
    assert stats.ci_low < 0.5 < stats.ci_high
    assert {one.id: one.above_threshold for one in result.trial("mine").questions} == {
        "a": True, "b": False, "n1": False, "n2": True,
    }  # fmt: skip
    whole, of_slice = result.report.requirements
    assert (whole.value, whole.n, whole.passed, whole.questions_below_best) == (0.5, 2, False, ["n2"])
    assert (of_slice.value, of_slice.n, of_slice.passed) == (1.0, 1, True)
    assert result.trial("mine").metrics["Hit@3"].mean == 1.0  # metrics look at no score
    shown = render(check_document(result.report), "markdown")
    assert "Questions that expect nothing" in shown
    assert "not judged whether they get an answer" not in shown
    cases = {case.name: case.outcome.name for suite in check_suites(result.report) for case in suite.cases}
    assert (cases["n1"], cases["n2"]) == ("PASSED", "FAILURE")


def test_a_score_that_equals_the_threshold_is_no_answer():
    scores = {**SCORES, "wheel": {"d1": 0.1}, "weather": {"d2": 0.1}}
    assert check(scored(scores), answer_threshold=0.1).trial("mine").no_answer.share == 1.0
    assert check(scored(scores), answer_threshold="0.0999").trial("mine").no_answer.share == 0.0


def test_no_hits_are_no_answer():
    scores = {**SCORES, "wheel": {}, "weather": {}}
    assert check(scored(scores), answer_threshold=-1).trial("mine").no_answer.share == 1.0


def test_without_a_threshold_it_is_named_as_not_judged():
    result = check(scored())
    assert result.trial("mine").no_answer is None
    shown = render(check_document(result.report), "table", verbose=True)
    assert "not judged whether they get an answer (--answer-threshold)" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("retrieve", "reason"),
    [
        (lambda question, k: list(SCORES[question]), "returns no scores"),
        (scored({**SCORES, "wheel": {"d2": 0.1, "d1": 0.6}}), "returns scores that rise, which are distances"),
    ],
)
def test_backends_without_scores_are_not_judged(retrieve, reason):
    result = check(retrieve, answer_threshold=0.3, require=["no_answer>=0.9"])
    assert result.trial("mine").no_answer.reason == reason
    assert result.trial("mine").no_answer.share is None
    assert result.report.verdict == "invalid"
    assert result.report.requirements[0].reason == f"'mine' {reason}"
    assert f"not judged: it {reason}" in render(check_document(result.report), "markdown")


def test_searched_backends_have_scores(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "d1", "text": "pump"}\n{"_id": "d2", "text": "filter"}\n')
    result = harness.check(
        GOLDEN, corpus=str(corpus), backends="csr", answer_threshold=0, timing=False, isolation="none", k=2
    )
    assert result.report.trials[0].no_answer.share == 1.0
    assert result.report.trials[0].no_answer.expecting_without_answer == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"require": ["no_answer>=0.9"]}, "without --answer-threshold"),
        ({"answer_threshold": "much"}, "--answer-threshold is 'much'"),
        ({"answer_threshold": float("nan")}, "--answer-threshold is 'nan'"),
        ({"answer_threshold": 0.3, "require": ["no_answer>=90"]}, "lies between 0 and 1"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        check(scored(), **options)


def test_a_threshold_needs_questions_that_expect_nothing():
    with pytest.raises(UsageError, match="every question of golden set expects a document"):
        harness.check(GOLDEN[:2], against={"mine": scored()}, answer_threshold=0.3, timing=False, isolation="none")
