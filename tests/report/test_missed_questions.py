"""A question is missed if none of its documents is among the hits that the requirement looks at: in every format."""

from __future__ import annotations

import math
from typing import Any

import pytest

import harness
from harness.document.model import Outcome
from harness.pipeline.check.checked import CheckResult
from harness.report.documents.check import check_document
from harness.report.documents.check_cases import check_suites
from harness.report.rankings.explorer import changes
from harness.report.rankings.of_check import check_explorers
from harness.results.missed import missed_depth, required_depths
from harness.results.pools import top_of

RANKS = {"first": 1, "third": 3, "fourth": 4, "seventh": 7, "never": None}
MISSED = ["fourth", "seventh", "never"]
"""The questions without their document among the first 3 hits, the nearest document first."""


def retrieve(question: str, k: int) -> list[str]:
    """Return k ids, the expected one at the rank that the question names."""
    hits = [f"other-{number}" for number in range(k)]
    rank = RANKS[question]
    return hits if rank is None else [*hits[: rank - 1], f"about-{question}", *hits[rank - 1 : k - 1]]


def check(**options: Any) -> CheckResult:
    names = [*reversed(MISSED), "first", "third"]
    golden = [{"id": name, "question": name, "expected": [f"about-{name}"]} for name in names]
    return harness.check(golden, against={"mine": retrieve}, k=10, timing=False, isolation="none", **options)


@pytest.fixture(scope="module")
def required() -> CheckResult:
    return check(require=["Hit@10>=0.1", "Hit@3>=0.9"])


def test_the_failed_requirement_says_how_many_hits_count(required: CheckResult) -> None:
    assert required_depths(required.report) == {"Hit@3": 3, "Hit@10": 10}
    assert missed_depth(required.report) == 3
    assert missed_depth(check(require=["Hit@10>=0.1"]).report) == 10
    assert missed_depth(check(metrics="Hit@1").report) == 10, "nothing is required, so all hits count"
    assert missed_depth(check(require=["MRR@5>=0.1"], metrics="Hit@10").report) == 5


def test_the_best_backend_is_that_of_the_required_metric() -> None:
    golden = [{"id": name, "question": name, "expected": [f"about-{name}"]} for name in ("first", "third")]
    both = {"mine": retrieve, "reversed": lambda question, k: retrieve(question, k)[::-1]}
    checked = harness.check(
        golden, against=both, k=10, timing=False, isolation="none", metrics="Hit@10,MRR@10", require=["MRR@10>=0"]
    )
    (_, best) = check_document(checked.report).verdicts
    assert "best on MRR@10 over 2 questions" in best.headline


def test_python_has_the_rank_and_whether_it_counts(required: CheckResult) -> None:
    frame = required.per_question().set_index("question")
    assert {name for name, missed in frame["missed"].items() if missed} == set(MISSED)
    assert {name: None if math.isnan(rank) else int(rank) for name, rank in frame["rank"].items()} == RANKS


def test_the_page_has_the_same_questions_in_the_same_order_as_the_terminal(required: CheckResult) -> None:
    (failed,) = (one for one in required.report.requirements if one.passed is False)
    assert failed.questions_below_best == MISSED
    (explorer,) = check_explorers(required.report, required.hits, {}, {}, "")
    assert (explorer.metrics[:2], list(explorer.depths[:2])) == (["Hit@3", "Hit@10"], [3, 10])
    top = top_of(explorer.runs, explorer.query_ids, explorer.qrels, 1)
    order = [explorer.query_ids[number] for number in changes(explorer, top.docs).tolist()]
    assert order == [*MISSED, "first", "third"]
    (section,) = (line for line in required.render("markdown").split("#") if "below their best" in line)
    assert [name for name in MISSED if name in section] == MISSED


def test_a_test_case_fails_for_a_document_beyond_the_hits_that_count(required: CheckResult) -> None:
    (suite,) = check_suites(required.report)
    cases = {case.name: case for case in suite.cases if case.detail}
    assert {name for name, case in cases.items() if case.outcome is Outcome.FAILURE} == set(MISSED)
    assert cases["fourth"].message == "no expected document is among the first 3 hits"
    (met,) = check_suites(check(require=["Hit@10>=0.1"]).report)
    outcomes = {case.name: case.outcome for case in met.cases if case.detail}
    assert outcomes["fourth"] is Outcome.PASSED
    assert outcomes["never"] is Outcome.SKIPPED
