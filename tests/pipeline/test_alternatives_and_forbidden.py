"""Checks of questions with alternatives (*or* inside *and*) and with documents that no backend may return."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.errors import DataError, UsageError
from harness.loaders import load_dataset
from harness.pipeline.check.checked import CheckResult
from harness.pipeline.regress.regression import Regression
from harness.report.documents.check import check_document
from harness.report.documents.query_changes import query_tables
from harness.report.formats import render

pytestmark = pytest.mark.integration

CASES = Path(__file__).resolve().parent.parent / "cases" / "golden"
CHUNKS = CASES / "chunks.jsonl"


def question(name: str, *groups: Sequence[str], forbidden: Sequence[str] = (), **fields: str) -> GoldenQuestion:
    """Return a question whose groups each need one document."""
    expected = tuple(Expectation(id_, 1, number) for number, group in enumerate(groups) for id_ in group)
    values = {field: (value,) for field, value in fields.items()}
    return GoldenQuestion(name, f"question {name}", expected, values, 1, forbidden=tuple(forbidden))


def golden(*questions: GoldenQuestion) -> GoldenSet:
    return GoldenSet("golden", "golden", questions, "0" * 64)


def check(golden: Any, answers: Mapping[str, Sequence[str]], **options: Any) -> CheckResult:
    """Check what answers the questions by heart."""

    def retrieve(text: str, k: int) -> list[str]:
        return list(answers[text.removeprefix("question ")])[:k]

    options = {"k": 3, "timing": False, "isolation": "none", **options}
    return harness.check(golden, against={"mine": retrieve}, **options)


def means(result: CheckResult, label: str = "mine") -> dict[str, float]:
    return {name: value.mean for name, value in result.trial(label).metrics.items()}


def test_and_or_jsonl_is_complete_only_with_every_group_met():
    path, texts = CASES / "and-or.jsonl", {"a": "warranty, and what it leaves out", "b": "new filter"}

    def answered(answers: Mapping[str, Sequence[str]]) -> CheckResult:
        return check(str(path), {texts[name]: ids for name, ids in answers.items()})

    complete = answered({"a": ["pump#1", "terms#2", "terms#1"], "b": ["filter#2", "pump#1", "pump#2"]})
    assert means(complete)["Complete@3"] == 1.0
    assert means(complete)["Recall@3"] == 1.0
    lacking = answered({"a": ["terms#1", "pump#1", "pump#2"], "b": ["filter#1", "filter#2", "terms#1"]})
    assert {one.id: one.values["Complete@3"] for one in lacking.trial("mine").questions} == {"a": 0.0, "b": 1.0}
    assert means(lacking)["Recall@3"] == 0.75
    assert [one.group for one in lacking.trial("mine").questions[0].expected] == [0, 1]


def test_and_or_jsonl_is_complete_for_exact_search_of_its_chunks():
    options = {"corpus": str(CHUNKS), "backends": "csr", "timing": False, "isolation": "none"}
    options |= {"k": 3, "metrics": "Complete@{1,3}", "require": ["Complete@3>=1"]}
    result = harness.check(str(CASES / "and-or.jsonl"), **options)
    assert result.passed
    assert means(result, "csr") == {"Complete@1": 0.5, "Complete@3": 1.0}


def test_a_requirement_names_the_groups_of_its_questions():
    made = golden(question("a", ["x", "y"], ["z"]), question("b", ["x"]))
    result = check(made, {"a": ["y", "q"], "b": ["x"]}, require=["Complete@3>=0.8"])
    assert result.report.verdict == "failed"
    (required,) = result.report.requirements
    assert (required.value, required.questions_below_best, required.flips) == (0.5, ["a"], 1)
    assert "x (not found) or y (rank 1), z (not found)" in render(check_document(result.report), "markdown")


def test_complete_is_shown_unasked_only_for_alternatives():
    without = check(golden(question("a", ["x"], ["y"])), {"a": ["x", "y"]})
    assert list(means(without)) == ["Hit@3", "MRR@3", "Recall@3", "nDCG@3"]
    assert means(check(golden(question("a", ["x"], ["y"])), {"a": ["y"]}, metrics="Complete"))["Complete@3"] == 0.0


def test_the_first_chunk_of_an_alternative_counts():
    made = golden(question("a", ["pump", "filter"], ["terms"]))
    options = {"match": "document", "delimiter": "#", "corpus": str(CHUNKS), "backends": "csr", "k": 3}
    result = check(made, {"a": ["filter#2", "pump#1", "terms#1"]}, **options)
    assert means(result)["Complete@3"] == 1.0
    assert means(result)["nDCG@3"] == pytest.approx((1 + 1 / 2) / (1 + 1 / 1.584962500721156))


def test_alternatives_need_an_order_of_ties():
    with pytest.raises(UsageError, match="question 'a' has alternatives"):
        check(golden(question("a", ["x", "y"])), {"a": ["x"]}, ties="average")


def test_forbidden_documents_are_counted_over_the_questions_that_forbid_any():
    made = golden(
        question("a", ["x"], forbidden=["secret"], lang="de"),
        question("b", ["x"], lang="en"),
        question("c", forbidden=["secret", "draft"], lang="en"),
    )
    result = check(
        made,
        {"a": ["x", "secret"], "b": ["secret"], "c": ["y", "draft", "secret"]},
        require=["Forbidden@1<=0", "Forbidden@3<=0", "lang=de: Forbidden@2<=0.5"],
        slice=["lang"],
    )
    assert result.report.verdict == "failed"
    first, second, of_slice = result.report.requirements
    assert (first.passed, first.value, first.n) == (True, 0.0, 2)
    assert (second.passed, second.value, second.questions_below_best) == (False, 1.0, ["a", "c"])
    assert (of_slice.value, of_slice.n, second.best_possible) == (1.0, 1, 0.0)
    questions = {one.id: one for one in result.trial("mine").questions}
    assert questions["c"].values == {"Forbidden@3": 1.0, "Forbidden@1": 0.0, "Forbidden@2": 1.0}
    assert (questions["c"].forbidden, questions["c"].forbidden_hits) == (["secret", "draft"], ["draft", "secret"])
    assert "Forbidden@3" not in questions["b"].values
    by_lang = {part.value: part.metrics["Forbidden@3"].n for part in result.trial("mine").slices}
    assert by_lang == {"de": 1, "en": 1}
    shown = render(check_document(result.report), "markdown")
    assert "secret (forbidden)" in shown
    assert "2 questions with forbidden hits" in shown


def test_a_chunk_of_a_forbidden_document_is_forbidden_and_unknown_ids_are_named():
    made = golden(question("a", ["pump"], forbidden=["terms", "nowhere"]))
    result = check(
        made, {"a": ["pump#1", "terms#2"]}, match="document", delimiter="#", corpus=str(CHUNKS), backends="csr"
    )
    assert means(result)["Forbidden@3"] == 1.0
    assert result.trial("mine").questions[0].forbidden_hits == ["terms#2"]
    warnings = [warning.message for warning in result.report.warnings if warning.check == "unknown-forbidden-ids"]
    assert warnings == ["1 forbidden id is not in the corpus 'chunks': 'nowhere'"]


@pytest.mark.parametrize("options", [{"metrics": "Forbidden@3"}, {"require": ["Forbidden@3<=0"]}])
def test_a_metric_of_forbidden_documents_needs_some(options):
    with pytest.raises(UsageError, match="no question of golden forbids a document"):
        check(golden(question("a", ["x"])), {"a": ["x"]}, **options)


def test_only_forbidden_documents_can_be_measured():
    made = golden(question("a", ["x"], forbidden=["secret"]))
    assert means(check(made, {"a": ["x"]}, metrics="Forbidden")) == {"Forbidden@3": 0.0}


def test_a_dataset_keeps_forbidden_documents(tmp_path):
    documents = {"x": "pump water", "secret": "pump pump"}
    lines = [{"id": "a", "question": "pump", "expected": ["x"], "forbidden": ["secret"]}]
    options = {"backends": "csr:analyzer=whitespace", "k": 2, "timing": False, "isolation": "none"}
    of_lines = harness.check(lines, corpus=harness.Dataset.of(documents, lines), **options)
    checked = harness.check(harness.Dataset.of(documents, lines), **options)
    (expected,), (trial,) = of_lines.report.trials, checked.report.trials
    assert trial.metrics["Forbidden@2"].mean == expected.metrics["Forbidden@2"].mean == 1.0
    assert trial.questions[0].forbidden_hits == ["secret"]
    assert harness.Dataset.of(documents, [{**lines[0], "forbidden": []}]).forbidden is None
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": key, "text": text}) + "\n" for key, text in documents.items())
    )
    (tmp_path / "queries.jsonl").write_text(json.dumps(lines[0]) + "\n")
    assert load_dataset(str(tmp_path)).forbidden == {"a": ("secret",)}


def test_a_golden_set_may_only_forbid(tmp_path):
    path = tmp_path / "forbidden.jsonl"
    path.write_text('{"id": "a", "question": "question a", "expected": [], "forbidden": ["secret"]}\n')
    result = check(str(path), {"a": ["x", "secret"]}, require=["Forbidden@1<=0"])
    assert result.passed
    assert means(result) == {"Forbidden@3": 1.0, "Forbidden@1": 0.0}
    with pytest.raises(DataError, match="holds no judgments"):
        harness.compare("csr", str(CHUNKS), queries=[str(path)], timing=False, isolation="none")


def test_judgments_name_no_forbidden_documents():
    with pytest.raises(UsageError, match="judgments name no forbidden documents"):
        harness.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, "Forbidden@3")
    with pytest.raises(UsageError, match="judgments name no forbidden documents"):
        harness.compare("csr", "cacm", metrics="Forbidden@3")


def test_complete_of_plain_judgments_needs_every_relevant_document():
    values = harness.evaluate({"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1, "b": 1, "c": 0}}, "Complete@{1,2}")
    assert values.values.tolist() == [[0.0, 1.0]]


def test_diff_takes_more_forbidden_documents_for_worse(tmp_path):
    names = [f"q{number}" for number in range(12)]
    made = golden(*(question(name, ["x"], forbidden=["secret"]) for name in names))
    check(made, dict.fromkeys(names, ("x", "y")), out=tmp_path / "before")
    check(made, dict.fromkeys(names, ("x", "secret")), out=tmp_path / "after")
    worse = harness.diff(tmp_path / "before", tmp_path / "after", max_drop=0.0)
    better = harness.diff(tmp_path / "after", tmp_path / "before", max_drop=0.0)
    assert _judged(worse).verdict == "worse"
    assert _judged(worse).gate == "failed"
    assert (_judged(worse).before, _judged(worse).after, _judged(worse).difference) == (0.0, 1.0, 1.0)
    assert (_judged(worse).wins, _judged(worse).losses) == (0, 12)
    assert _judged(worse).sentence.startswith("Forbidden@3 rose by 1.000 (0.000 → 1.000): 12 queries lost, 0 gained")
    assert _judged(better).verdict == "better"
    assert _judged(better).difference == -1.0
    titles = [table.title for table in query_tables(worse.change)]
    assert any("queries that lost most in Forbidden@3 (5 of 12)" in title for title in titles), titles


def _judged(regression: Regression) -> Any:
    (backend,) = regression.change.backends
    return next(metric for metric in backend.metrics if metric.metric == "Forbidden@3")


def test_a_comparison_counts_groups_of_a_golden_set_once_and_stores_them(tmp_path):
    path = tmp_path / "queries.jsonl"
    texts = {"a": "warranty cover for a new filter", "b": "rinse a new filter"}
    expected = {"a": [["terms#2", "terms#1"], ["filter#2"]], "b": [["filter#2", "filter#1"]]}
    lines = [{"id": name, "question": texts[name], "expected": expected[name]} for name in texts]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = {"metrics": "Complete@{1,3},R@1", "timing": False, "isolation": "none"}
    compared = harness.compare("csr", str(CHUNKS), queries=[str(path)], **options, out=tmp_path / "result")
    assert {name: value.mean for name, value in compared.report.trials[0].metrics.items()} == {
        "Complete@1": 0.5, "Complete@3": 1.0, "R@1": 0.75,
    }  # fmt: skip
    of_objects = harness.Dataset.of([json.loads(line) for line in CHUNKS.read_text().splitlines()], lines)
    again = harness.compare("csr", of_objects, **options)
    assert again.report.trials[0].metrics == compared.report.trials[0].metrics
    assert harness.Comparison.load(tmp_path / "result").qrels.groups_by_id == compared.qrels.groups_by_id
    assert compared.report.dataset.content.judgments != _plain_judgments(tmp_path, lines)


def _plain_judgments(folder: Path, lines: Sequence[Mapping[str, Any]]) -> str | None:
    plain = [{**line, "expected": [id_ for group in line["expected"] for id_ in group]} for line in lines]
    (folder / "plain.jsonl").write_text("".join(json.dumps(line) + "\n" for line in plain))
    compared = harness.compare(
        "csr", str(CHUNKS), queries=[str(folder / "plain.jsonl")], timing=False, isolation="none"
    )
    return compared.report.dataset.content.judgments
