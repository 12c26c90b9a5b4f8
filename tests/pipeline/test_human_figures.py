"""Results scored with labels by models: named in headers, with figures by people's judgments, and not gated on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import harness
from harness.data.texts import text_digest
from harness.errors import ResultError, UsageError

TEXTS = {"a": "red apple", "b": "green apple pie", "c": "blue car", "d": "apple tart", "e": "grey car"}
QUERIES = {"q": "apple", "r": "car"}
QRELS = {"q": {"a": 1}, "r": {"c": 1}}
BY_MODEL = {"by": "stub-1", "model": "stub-1", "prompt_digest": "ab12", "time": "2026-05-01T10:00:00+00:00"}
MODEL = "stub-1, prompt ab12, 2026-05-01"
LINE = f"2 of 4 judgments by a model, not by a person ({MODEL})"
OPTIONS: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "R@3,P@3", "k": 3}
CHECK: dict[str, Any] = {"corpus": TEXTS, "backends": "csr", "k": 3, "timing": False, "isolation": "none"}
METRICS = {"metrics": "Recall@3,P@3"}
GOLDEN = [
    {"id": name, "question": text, "expected_relevant_doc_ids": list(QRELS[name])} for name, text in QUERIES.items()
]


def label_file(path: Path, *pairs: tuple[str, str, int], **fields: str) -> Path:
    lines = (
        {"query_id": query, "doc_id": doc, "grade": grade, "text_digest": text_digest(TEXTS[doc])}
        for query, doc, grade in pairs
    )
    path.write_text("".join(json.dumps({**line, **(fields or BY_MODEL)}) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return label_file(tmp_path / "model.jsonl", ("q", "b", 1), ("r", "a", 1))


def data(folder: Path, qrels: dict[str, dict[str, int]] | None = None) -> str:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"_id": n, "text": t}) + "\n" for n, t in TEXTS.items()))
    (folder / "queries.jsonl").write_text("".join(json.dumps({"_id": n, "text": t}) + "\n" for n, t in QUERIES.items()))
    rows = [f"{query}\t{doc}\t{grade}" for query, of in (qrels or QRELS).items() for doc, grade in of.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    return str(folder)


def shown(result: Any) -> str:
    """The terminal's, the page's and the Markdown text of a result."""
    return " ".join((result.render(), result.render("markdown"), result.html())).replace("\n", " ")


def test_a_comparison_names_the_models_and_has_every_figure_by_people_beside(tmp_path: Path, model: Path) -> None:
    dataset = data(tmp_path / "data")
    plain = harness.compare("csr,csr:k1=3", dataset, **OPTIONS)
    compared = harness.compare("csr,csr:k1=3", dataset, labels=model, out=tmp_path / "result", **OPTIONS)
    loaded = harness.Comparison.load(tmp_path / "result")
    for result in (compared, loaded):
        of_models = result.report.dataset.model_labels
        assert of_models is not None
        assert (of_models.labels, [str(one) for one in of_models.models]) == (2, [MODEL])
        assert LINE in result.render("table").partition("QUALITY")[0].replace("\n", " ")
        assert all(form.count(LINE) == 1 for form in (result.render("markdown"), result.render("table")))
        assert LINE in result.html()
        assert "by people" in result.render("table")
        assert json.loads(result.render("json"))["datasets"][0]["model_labels"]["labels"] == 2
    for trial, of_people in zip(loaded.report.trials, plain.report.trials, strict=True):
        for name, value in trial.metrics.items():
            assert (value.human, value.human_n) == (of_people.metrics[name].mean, 2)
            assert value.mean != value.human
    assert "human.R@3" in loaded.render("csv")
    assert loaded.qrels is not None
    assert loaded.qrels.human is not None
    assert (len(loaded.qrels), len(loaded.qrels.human), [str(one) for one in loaded.qrels.models]) == (4, 2, [MODEL])
    assert "model_labels" not in json.dumps(plain.report.dataset.model_dump(exclude_none=True))
    assert plain.report.trials[0].metrics["R@3"].human_n is None


def test_a_leaderboard_has_the_means_by_people(tmp_path: Path) -> None:
    names = [data(tmp_path / name) for name in ("one", "two")]
    labels = label_file(tmp_path / "model.jsonl", ("q", "b", 1), dataset="one", **BY_MODEL)
    board = harness.compare("csr,csr:k1=3", names, labels=labels, **OPTIONS).report.leaderboard
    plain = harness.compare("csr,csr:k1=3", names, **OPTIONS).report.leaderboard
    assert board is not None
    assert plain is not None
    means = {(row.backend, row.metric): row.mean for row in plain.rows}
    assert {(row.backend, row.metric): row.human for row in board.rows} == means
    assert [row.human for row in plain.rows] == [None] * len(plain.rows)
    foreign = label_file(tmp_path / "foreign.jsonl", ("q", "b", 1), dataset="three", **BY_MODEL)
    with pytest.raises(UsageError, match="--labels are of three, and not of one, two"):
        harness.compare("csr", names, labels=foreign, **OPTIONS)


def test_without_peoples_judgments_there_is_no_figure_by_them(tmp_path: Path, model: Path) -> None:
    dataset = harness.Dataset.of(TEXTS, QUERIES)
    compared = harness.compare("csr", dataset, labels=model, out=tmp_path / "result", **OPTIONS)
    for result in (compared, harness.Comparison.load(tmp_path / "result")):
        value = result.report.trials[0].metrics["R@3"]
        assert (value.human, value.human_n) == (None, 0)
        assert f"2 of 2 judgments by a model, not by a person ({MODEL})" in shown(result)
    with pytest.raises(ResultError, match="no figures by people's judgments alone: 2 of 2 judgments by a model"):
        harness.diff(tmp_path / "result", tmp_path / "result", max_drop=0.1)
    told = harness.diff(tmp_path / "result", tmp_path / "result", max_drop=0.1, count_model_labels=True)
    assert told.change.gate in ("passed", "not judged")


def test_a_check_has_every_figure_by_people_and_its_questions_say_what_a_model_labelled(
    tmp_path: Path, model: Path
) -> None:
    golden = [{**line, "lang": "en"} for line in GOLDEN]
    plain = harness.check(golden, **CHECK, slice="lang")
    checked = harness.check(golden, labels=model, out=tmp_path / "checked", **CHECK, slice="lang")
    for result in (checked, harness.CheckResult.load(tmp_path / "checked")):
        assert LINE in result.render("markdown")
        assert LINE in result.html()
        assert LINE in result.render("table").replace("\n", " ")
        (trial,), (of_people,) = result.report.trials, plain.report.trials
        for name, value in trial.metrics.items():
            assert (value.human, value.human_n) == (of_people.metrics[name].mean, 2)
            assert trial.slices[0].metrics[name].human == of_people.slices[0].metrics[name].mean
        assert [question.human for question in trial.questions] == [one.values for one in of_people.questions]
        assert [[one.by_model for one in question.expected] for question in trial.questions] == [[False, True]] * 2


def test_eval_has_every_figure_by_people(tmp_path: Path, model: Path) -> None:
    dataset = harness.Dataset.of(TEXTS, QUERIES, QRELS)
    run = {"q": {"b": 2.0, "a": 1.0}, "r": {"c": 1.0}}
    scored = harness.evaluate({"x": run, "y": run}, dataset, "P@1,nDCG@2", labels=model)
    plain = harness.evaluate({"x": run, "y": run}, dataset, "P@1,nDCG@2")
    assert scored.runs["x"].human is not None
    assert scored.runs["x"].human.tolist() == plain.runs["x"].values.tolist()
    for form in ("table", "markdown"):
        assert LINE in scored.render(form).replace("\n", " ")
        assert "by people" in scored.render(form)
    content = json.loads(scored.render("json"))
    assert content["model_labels"]["labels"] == 2
    assert content["runs"][0]["measures"]["P@1"]["human"] == 0.5
    assert LINE in scored.html()
    assert "by people" not in plain.render()


@pytest.fixture
def sides(tmp_path: Path, model: Path) -> dict[str, Path]:
    """Results of one dataset with and without labels by a model, as folders and as baselines."""
    dataset = data(tmp_path / "data")
    for name, labels in (("with", model), ("without", None)):
        compared = harness.compare("csr", dataset, labels=labels, out=tmp_path / name, **OPTIONS)
        compared.save_baseline(tmp_path / f"{name}.json")
    return {name: tmp_path / name for name in ("with", "without", "with.json", "without.json")}


@pytest.mark.parametrize("before", ["with", "without", "with.json", "without.json"])
@pytest.mark.parametrize("after", ["with", "without"])
def test_a_gate_compares_the_figures_by_people(sides: dict[str, Path], before: str, after: str) -> None:
    gated = harness.diff(sides[before], sides[after], max_drop=0.1, rule="tolerance").change
    of_people = harness.diff(sides["without"], sides["without"], max_drop=0.1, rule="tolerance").change
    figures = [(one.metric, one.before, one.after, one.gate) for one in gated.backends[0].metrics]
    assert figures == [(one.metric, one.before, one.after, "passed") for one in of_people.backends[0].metrics]
    left_out = [one for one in gated.warnings if "is judged by people's judgments alone (--count-model-labels)" in one]
    assert len(left_out) == sum(name.startswith("with.") or name == "with" for name in (before, after))
    assert [relation.judgments for relation in gated.data] == ["same"]
    assert not any("JUDGMENTS" in one for one in gated.warnings)


def test_without_a_gate_both_figures_are_shown_and_the_sides_labels_are_named(sides: dict[str, Path]) -> None:
    plain = harness.diff(sides["without"], sides["without"]).change.backends[0].metrics
    for before, after in (("without", "with"), ("without.json", "with"), ("with", "with")):
        regression = harness.diff(sides[before], sides[after])
        (relation,) = regression.change.data
        assert relation.model_labels_after == 2
        counts = "2 labels" if before == "with" else "0 labels before, and 2 after,"
        assert f"{counts} by a model, not by a person ({MODEL})" in shown(regression)
        metrics = regression.change.backends[0].metrics
        assert [(one.human_before, one.human_after) for one in metrics] == [(one.before, one.after) for one in plain]
        assert "by people" in regression.render("markdown")
    told = harness.diff(sides["with"], sides["without"], max_drop=0.0, rule="tolerance", count_model_labels=True)
    assert {one.metric: one.gate for one in told.change.backends[0].metrics}["P@3"] == "failed"


def test_a_rerun_is_judged_by_people_too(sides: dict[str, Path]) -> None:
    again = harness.regress(sides["with.json"], isolation="none", rule="tolerance")
    plain = harness.regress(sides["without.json"], isolation="none", rule="tolerance")
    for change in (again.change, plain.change):
        assert change.gate == "passed"
    assert [one.after for one in again.change.backends[0].metrics] == [
        one.after for one in plain.change.backends[0].metrics
    ]
    assert LINE in again.comparison.render("markdown") if again.comparison is not None else False


@pytest.mark.parametrize("match", [{}, {"match": "document", "delimiter": "#"}])
def test_a_check_against_a_baseline_is_judged_by_people(tmp_path: Path, model: Path, match: dict[str, str]) -> None:
    plain = harness.check(GOLDEN, **CHECK, **METRICS, **match)
    checked = harness.check(GOLDEN, labels=model, **CHECK, **METRICS, **match)
    checked.save_baseline(tmp_path / "with.json")
    gate: dict[str, Any] = {"baseline": tmp_path / "with.json", "rule": "tolerance"}
    again = harness.check(GOLDEN, labels=model, **CHECK, **METRICS, **match, **gate)
    assert again.report.verdict == "passed"
    means = {name: value.mean for name, value in plain.report.trials[0].metrics.items()}
    assert again.report.change is not None
    assert {one.metric: one.before for one in again.report.change.backends[0].metrics} == means
    assert {one.metric: one.after for one in again.report.change.backends[0].metrics} == means
    told = harness.check(GOLDEN, **CHECK, **METRICS, **match, **gate, count_model_labels=True)
    assert told.report.verdict == "failed"
    nobody = harness.check([{**GOLDEN[0], "expected_relevant_doc_ids": []}, GOLDEN[1]], labels=model, **CHECK)
    assert nobody.report.trials[0].metrics["Recall@3"].human_n == 1


def test_a_persons_label_replaces_a_grade_that_a_model_gave_to_a_stored_result(
    sides: dict[str, Path], tmp_path: Path
) -> None:
    anna = label_file(tmp_path / "anna.jsonl", ("q", "b", 0), by="anna")
    change = harness.diff(sides["with"], sides["with"], labels=anna).change
    assert change.data[0].model_labels_after == 1
    assert {one.metric: one.after for one in change.backends[0].metrics}["P@3"] == pytest.approx(1 / 3)
