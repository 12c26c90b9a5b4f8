"""Backends of a check against each other: on the same questions, whatever documents they search."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

import harness
from harness.document.model import Table
from harness.errors import UnknownNameError, UsageError
from harness.pipeline.check.checked import CheckResult
from harness.report.documents.check import check_document
from harness.results.schema import PairedDifference
from harness.stats import compare_pairs

pytestmark = pytest.mark.integration

NAMES = [f"q{number:02}" for number in range(12)]
GOLDEN = [{"id": name, "question": f"question {name}", "expected": [f"{name}-a"]} for name in NAMES]
Retriever = Callable[[str, int], list[str]]


def retriever(ranks: Sequence[int], forbidden: str | None = None) -> Retriever:
    """Return a function that returns the expected document of each question at one of the ``ranks``; 0: nowhere."""
    hits = {}
    for name, rank in zip(NAMES, ranks, strict=True):
        of_question = [f"{name}-{other}" for other in "bcde"]
        if rank:
            of_question.insert(rank - 1, f"{name}-a")
        hits[f"question {name}"] = ([forbidden] if forbidden else []) + of_question
    return lambda question, k: hits[question][:k]


FIRST, SECOND = [1] * 12, [2] * 6 + [1] * 4 + [0, 1]
MIXED = [2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2]


def check(against: Mapping[str, Retriever], **options: Any) -> CheckResult:
    return harness.check(options.pop("golden", GOLDEN), against=against, k=3, timing=False, isolation="none", **options)


def tables(checked: CheckResult) -> dict[str, Table]:
    blocks = [block for section in check_document(checked.report).sections for block in section.blocks]
    return {block.title: block for block in blocks if isinstance(block, Table)}


def differences(checked: CheckResult, metric: str) -> dict[tuple[str, str], PairedDifference]:
    return {(row.a, row.b): row for row in checked.report.differences if row.metric == metric}


def test_differences_are_those_of_the_values_question_by_question() -> None:
    checked = check({"best": retriever(FIRST), "worse": retriever(SECOND), "mixed": retriever(MIXED)})
    values = {
        trial.label: np.array([question.values["MRR@3"] for question in trial.questions])
        for trial in checked.report.trials
    }
    rows = differences(checked, "MRR@3")
    assert list(rows) == [("best", "worse"), ("best", "mixed")]
    for (a, b), row in rows.items():
        expected = compare_pairs(values[a], values[b], 0)
        assert (row.difference, row.p) == (expected.difference, expected.p)
        assert (row.wins, row.ties, row.losses) == (expected.wins, expected.ties, expected.losses)
        assert row.dataset is None
    distinct = sorted({row.p for row in checked.report.differences if row.p is not None and row.wins + row.losses})
    size = max(row.comparisons or 0 for row in checked.report.differences)
    assert min(row.p_adjusted or 1 for row in checked.report.differences) == pytest.approx(distinct[0] * size)
    assert checked.report.plan.resolved["reference"] == "best"


def test_backends_with_the_same_first_metric_are_not_called_equal_if_another_metric_differs() -> None:
    ends = {"best": retriever(FIRST), "lower": retriever([2] * 12)}
    (verdict, *_) = check_document(check(ends, metrics="Hit@3,MRR").report).verdicts
    assert (verdict.tone, verdict.headline) == ("plain", "best and lower have the same Hit@3 on all 12 questions")
    assert verdict.detail == "Also significant: MRR@3 of lower (−0.5000)"
    (verdict, *_) = check_document(check(ends, metrics="Hit@3").report).verdicts
    assert (verdict.tone, verdict.headline) == ("good", "best and lower are equal: the same Hit@3 on all 12 questions")


def test_a_single_question_is_not_tested() -> None:
    ends = {"best": retriever(FIRST), "lower": retriever([2] * 12)}
    checked = check(ends, metrics="Hit@3,MRR", golden=GOLDEN[:1])
    assert (
        check_document(checked.report).verdicts[0].headline == "best and lower have the same Hit@3 on the only question"
    )
    (legend,) = [line for line in tables(checked)["Quality"].legend if line.startswith("~")]
    assert legend == "~ not tested: a single question"


def test_the_page_and_the_terminal_say_which_is_best_and_on_which_questions() -> None:
    checked = check({"best": retriever(FIRST), "worse": retriever(SECOND)}, metrics="MRR")
    document, drawn = check_document(checked.report), tables(checked)
    assert document.verdicts[0].headline.startswith(
        "best is best on MRR@3 over 12 questions; worse is 0.3333 below best, significant (adjusted p 0.0"
    )
    quality = drawn["Quality"]
    assert [column.name for column in quality.columns][:3] == ["backend", "MRR@3", "− best"]
    assert [row[2].mark for row in quality.rows] == ["", "▼"]
    changed = drawn["MRR@3: 7 questions lost against best"]
    assert [row[0].text for row in changed.rows] == ["q10", *NAMES[:6]], "the largest change comes first"
    assert {(row[3].mark, row[3].tone) for row in changed.rows} == {("↓", "bad")}
    values = {(value.backend, value.metric): value.mean for value in document.values}
    assert values["worse", "difference.MRR@3 from best"] == pytest.approx(-1 / 3)


def test_another_reference_and_every_pair() -> None:
    backends = {"best": retriever(FIRST), "worse": retriever(SECOND), "mixed": retriever(MIXED)}
    named = check(backends, reference="worse")
    assert list(differences(named, "MRR@3")) == [("worse", "best"), ("worse", "mixed")]
    pairs = check(backends, all_pairs=True)
    assert list(differences(pairs, "MRR@3")) == [("best", "worse"), ("best", "mixed"), ("worse", "mixed")]
    assert "Differences between backends" in tables(pairs)
    assert not [title for title in tables(pairs) if " lost against " in title or " won against " in title], (
        "no backend is the reference"
    )


def test_backends_with_other_documents_are_compared() -> None:
    documents = pd.DataFrame({"id": [f"{name}-a" for name in NAMES], "text": [f"question {name}" for name in NAMES]})
    few, queries = documents.copy(), {"any": "question"}
    few["text"] = ["nothing", *few["text"][1:]]
    corpora = [harness.Dataset.of(documents, queries, name="all"), harness.Dataset.of(few, queries, name="few")]
    checked = check({"mine": retriever(MIXED)}, corpus=corpora, backends="csr", metrics="Hit")
    rows = differences(checked, "Hit@3")
    assert list(rows) == [("csr on all", "csr on few"), ("csr on all", "mine")]
    assert rows["csr on all", "csr on few"].losses == 1
    table = tables(checked)["Quality"]
    assert [[cell.text for cell in row[:2]] for row in table.rows] == [
        ["csr", "all"],
        ["csr", "few"],
        ["mine", "golden set"],
    ]


def test_fewer_forbidden_documents_are_better() -> None:
    golden = [question | {"forbidden": ["secret"]} for question in GOLDEN]
    backends = {"leaks": retriever(FIRST, forbidden="secret"), "clean": retriever(FIRST)}
    row = differences(check(backends, golden=golden), "Forbidden@3")["leaks", "clean"]
    assert (row.difference, row.verdict, row.wins, row.losses) == (-1.0, "better", 12, 0)


@pytest.mark.parametrize("reference", ["leaks", "clean", "first"])
def test_the_sentence_on_a_metric_whose_lowest_value_is_best(reference: str) -> None:
    golden = [question | {"forbidden": ["secret", "other"]} for question in GOLDEN]
    backends = {
        "leaks": retriever(FIRST, forbidden="secret"),
        "clean": retriever(FIRST),
        "first": retriever(FIRST, forbidden="other"),
    }
    checked = check(backends, golden=golden, metrics="Forbidden@3", reference=reference)
    headline = check_document(checked.report).verdicts[0].headline
    if reference == "clean":
        assert headline.startswith(
            "clean is best on Forbidden@3 over 12 questions; leaks is 1.0000 above clean, significant"
        )
    else:
        assert headline.startswith("clean is best on Forbidden@3")
        assert f"clean is 1.0000 below {reference}, significant" in headline


def test_backends_without_scores_are_left_out() -> None:
    def broken(question: str, k: int) -> list[str]:
        raise RuntimeError("no index")

    checked = check({"broken": broken, "best": retriever(FIRST), "worse": retriever(SECOND)})
    assert {(row.a, row.b) for row in checked.report.differences} == {("best", "worse")}
    assert checked.report.verdict == "invalid"
    named = check({"broken": broken, "best": retriever(FIRST), "worse": retriever(SECOND)}, reference="broken")
    assert named.report.differences == []
    assert any("the reference broken" in note for note in named.report.notes)
    alone = check({"best": retriever(FIRST)})
    assert alone.report.differences == []


@pytest.mark.parametrize(
    ("backends", "options", "error", "message"),
    [
        (["best"], {"reference": "best"}, UsageError, "nothing to compare it with"),
        (["best", "worse"], {"reference": "bst"}, UnknownNameError, "unknown backend in --reference"),
        (["best", "worse"], {"reference": "best", "all_pairs": True}, UsageError, "there is no reference"),
    ],
)
def test_references_that_cannot_be(
    backends: list[str], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check({name: retriever(FIRST) for name in backends}, **options)
