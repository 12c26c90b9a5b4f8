"""Labels in every verb that scores: files of several people, conflicts, changed texts, and what they add."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.data.labels import Labels, read_labels
from harness.data.texts import text_digest
from harness.errors import DataError, UsageError

TEXTS = {"a": "red apple", "b": "green apple pie", "c": "blue car"}
CHECK: dict[str, Any] = {"corpus": TEXTS, "backends": "csr", "k": 3, "timing": False, "isolation": "none"}
GOLDEN = [{"id": "q", "question": "apple", "expected_relevant_doc_ids": ["a"]}]


def labels(path: Path, *rows: tuple[str, int, str], text: dict[str, str] | None = None, **fields: str) -> Path:
    lines = (
        {"query_id": "q", "doc_id": doc, "grade": grade, "by": by, "text_digest": text_digest((text or TEXTS)[doc])}
        for doc, grade, by in rows
    )
    path.write_text("".join(json.dumps({**line, **fields}) + "\n" for line in lines), encoding="utf-8")
    return path


def test_two_files_of_labels_add_to_a_comparison_and_their_conflict_is_a_finding(tmp_path: Path) -> None:
    dataset = harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}})
    anna = labels(tmp_path / "anna.jsonl", ("b", 2, "anna"), ("c", 0, "anna"))
    ben = labels(tmp_path / "ben.jsonl", ("b", 1, "ben"))
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "nDCG@2,R@2"}
    compared = harness.compare("csr", dataset, labels=[anna, ben], **options)
    expected = harness.compare(
        "csr", harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1, "b": 1, "c": 0}}), **options
    )
    assert compared.metrics().equals(expected.metrics())
    assert compared.report.dataset.judgments == 3
    (finding,) = [one for one in compared.report.findings if one.check == "label-conflict"]
    assert finding.examples == ["query 'q', document 'b': anna 2, ben 1; counts as 1"]
    assert compared.report.plan.arguments["labels"] == [str(anna), str(ben)]
    scored = harness.evaluate({"q": {"a": 1.0, "b": 2.0}}, dataset, "nDCG@2", labels=[anna, ben])
    assert [one.check for one in scored.findings if one.check.startswith("label")] == ["label-conflict"]


def test_a_changed_document_is_not_judged_by_its_old_label(tmp_path: Path) -> None:
    dataset = harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}})
    old = labels(tmp_path / "old.jsonl", ("b", 1, "anna"), text={"b": "another text"})
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "nDCG@2"}
    compared = harness.compare("csr", dataset, labels=old, **options)
    assert compared.report.dataset.judgments == 1
    assert [one.examples for one in compared.report.findings if one.check == "label-of-changed-text"] == [
        ["query 'q', document 'b'"]
    ]
    scored = harness.evaluate({"q": {"a": 1.0, "b": 2.0}}, dataset, "R@2", labels=old)
    assert [one.check for one in scored.findings if one.check.startswith("label")] == ["label-of-changed-text"]
    checked = harness.check(GOLDEN, labels=old, **CHECK)
    assert [one.check for one in checked.report.warnings if one.check.startswith("label")] == ["label-of-changed-text"]


def test_diff_scores_with_labels_of_present_texts_only(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    (data / "corpus.jsonl").write_text("".join(json.dumps({"_id": n, "text": t}) + "\n" for n, t in TEXTS.items()))
    (data / "queries.jsonl").write_text('{"_id": "q", "text": "apple"}\n')
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    before = harness.compare(
        "csr", str(data), timing=False, isolation="none", metrics="R@2", k=2, out=tmp_path / "before"
    )
    assert before.folder is not None
    current = labels(tmp_path / "current.jsonl", ("b", 1, "anna"), ("c", 1, "anna"))
    old = labels(tmp_path / "old.jsonl", ("c", 1, "ben"), text={"c": "another text"})
    change = harness.diff(before.folder, before.folder, labels=[current, old]).change
    assert change.data[0].labels == 2
    assert [metric.after for metric in change.backends[0].metrics] == [pytest.approx(2 / 3)]
    assert "1 label is of a text that has changed since, and left out (query 'q', document 'c')" in change.warnings
    again = harness.regress(before.folder, labels=[current, old], isolation="none")
    assert again.change.data[0].labels == 2
    assert again.change.backends[0].metrics[0].after == pytest.approx(2 / 3)


def test_a_check_expects_labelled_documents_too(tmp_path: Path) -> None:
    path = labels(tmp_path / "labels.jsonl", ("b", 1, "anna"), ("c", 1, "anna"), dataset="corpus")
    plain, labelled = harness.check(GOLDEN, **CHECK), harness.check(GOLDEN, labels=path, **CHECK)
    metrics = [one.report.trials[0].metrics["Recall@3"].mean for one in (plain, labelled)]
    assert metrics == [1.0, pytest.approx(2 / 3)]
    assert f"--labels {path}" in " ".join(labelled.report.command)
    by_rule = {"match": "document", "delimiter": "#"}
    chunks = {**CHECK, "corpus": {"a#1": "red apple", "b#1": "green apple pie"}}
    of_chunk = labels(tmp_path / "chunk.jsonl", ("b#1", 1, "anna"), text={"b#1": "green apple pie"})
    assert harness.check(GOLDEN, labels=of_chunk, **chunks, **by_rule).report.trials[0].metrics["Hit@3"].mean == 1.0


def test_labels_that_fit_no_question_document_or_rule_are_refused(tmp_path: Path) -> None:
    path = labels(tmp_path / "labels.jsonl", ("x", 1, "anna"), text={"x": ""})
    with pytest.raises(DataError, match="there is no document 'x'"):
        harness.check(GOLDEN, labels=path, **CHECK)
    dataset = harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}})
    with pytest.raises(DataError, match="there is no document 'x'"):
        harness.evaluate({"q": {"a": 1.0}}, dataset, "R@2", labels=path)
    assert harness.evaluate({"q": {"a": 1.0}}, {"q": {"a": 1}}, "R@2", labels=path).means()[0].value == 0.5
    with pytest.raises(DataError, match="there is no query 'q'"):
        harness.check([{**GOLDEN[0], "id": "p"}], labels=path, **CHECK)
    with pytest.raises(UsageError, match="--labels with --match text"):
        harness.check(GOLDEN, labels=path, **CHECK, match="text")
    two = [harness.Dataset.of(TEXTS, {"q": "apple"}, name=name) for name in ("one", "two")]
    with pytest.raises(UsageError, match="--labels with 2 corpora"):
        harness.check(GOLDEN, labels=path, **{**CHECK, "corpus": two})


def test_several_files_are_named_in_a_file_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "sub"
    folder.mkdir()
    labels(folder / "one.jsonl", ("b", 1, "anna"))
    labels(folder / "two.jsonl", ("b", 0, "ben"))
    (folder / "golden.jsonl").write_text(json.dumps(GOLDEN[0]) + "\n")
    (folder / "corpus.jsonl").write_text("".join(json.dumps({"id": n, "text": t}) + "\n" for n, t in TEXTS.items()))
    settings = '[check]\ngolden = "golden.jsonl"\ncorpus = "corpus.jsonl"\nlabels = ["one.jsonl", "two.jsonl"]\n'
    (folder / "harness.toml").write_text(
        f'{settings}backends = "csr"\nisolation = "none"\ntiming = false\nout = "out"\n'
    )
    done = CliRunner().invoke(_build(), ["check", "--config", "sub/harness.toml"])
    assert done.exit_code == 0, done.output
    report = json.loads((folder / "out" / "report.json").read_text())
    assert "label-conflict" in [one["check"] for one in report["warnings"]]
    missing = CliRunner().invoke(
        _build(), ["check", "--config", "sub/harness.toml", "--overwrite", "--labels", "no.jsonl"]
    )
    assert "no labels can be read at 'no.jsonl'" in str(missing.exception)


def test_a_comparison_reads_its_labels_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []

    def count_reads(paths: Sequence[Path]) -> Labels:
        read.extend(paths)
        return read_labels(paths)

    monkeypatch.setattr("harness.data.labels.read_labels", count_reads)
    path = labels(tmp_path / "anna.jsonl", ("b", 1, "anna"), dataset="one")
    names = ("one", "two")
    sets = [harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}}, name=name) for name in names]
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "R@2", "labels": path}
    assert harness.compare("csr", sets[0], **options).report.dataset.judgments == 2
    assert read == [path]
    judgments = [info.judgments for info in harness.compare("csr", sets, **options).report.datasets]
    assert (judgments, read) == ([2, 1], [path] * 2)


def test_a_contradicted_label_of_a_stored_result_is_named_as_a_label(tmp_path: Path) -> None:
    dataset = harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}}, name="fruit")
    anna = labels(tmp_path / "anna.jsonl", ("b", 2, "anna"), time="2026-05-01T10:00:00Z")
    ben = labels(tmp_path / "ben.jsonl", ("b", 0, "ben"), ("a", 1, "ben"))
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "P@2", "k": 2}
    folder = harness.compare("csr", dataset, labels=anna, out=tmp_path / "out", **options).folder
    assert folder is not None
    checked = harness.check(GOLDEN, labels=[anna], out=tmp_path / "check", **CHECK).folder
    assert checked is not None
    difference = harness.diff(folder, folder, out=tmp_path / "diff").folder
    assert difference is not None
    calls = [lambda: harness.diff(folder, folder, labels=ben), lambda: harness.diff(checked, checked, labels=ben),
             lambda: harness.judge(folder, labels=ben), lambda: harness.judge(difference, labels=ben)]  # fmt: skip
    for call in calls:
        with pytest.raises(DataError, match="document 'b': labelled 2 by anna on 2026-05-01, labelled 0") as refused:
            call()
        assert refused.value.fix == "make the result again with all labels: if people differ, the middle grade counts"
    anna.unlink()
    for call in calls:
        with pytest.raises(DataError, match="document 'b': judged or labelled 2 before, labelled 0"):
            call()
    plain = harness.compare("csr", dataset, out=tmp_path / "plain", **options).folder
    with pytest.raises(DataError, match="document 'a': judged 1, labelled 3"):
        harness.diff(plain or "", plain or "", labels=labels(tmp_path / "carl.jsonl", ("a", 3, "carl")))


def test_a_judgment_is_not_taken_for_a_label_of_another_dataset(tmp_path: Path) -> None:
    sets = [harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}}, name=name) for name in ("one", "two")]
    anna = labels(tmp_path / "anna.jsonl", ("a", 1, "anna"), dataset="one")
    ben = labels(tmp_path / "ben.jsonl", ("a", 0, "ben"), dataset="two")
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "P@2", "k": 2}
    folder = harness.compare("csr", sets, labels=anna, out=tmp_path / "out", **options).folder
    assert folder is not None
    for call in (lambda: harness.diff(folder, folder, labels=ben), lambda: harness.judge(folder, labels=ben)):
        with pytest.raises(DataError, match="document 'a': judged or labelled 1 before, labelled 0"):
            call()


def test_labels_of_unknown_documents_and_queries_do_not_change_a_stored_result(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    (data / "corpus.jsonl").write_text("".join(json.dumps({"_id": n, "text": t}) + "\n" for n, t in TEXTS.items()))
    (data / "queries.jsonl").write_text('{"_id": "q", "text": "apple"}\n')
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "R@2", "k": 2}
    folder = harness.compare("csr", str(data), out=tmp_path / "out", **options).folder
    assert folder is not None
    path = tmp_path / "labels.jsonl"
    calls = [lambda: harness.diff(folder, folder, labels=path), lambda: harness.judge(folder, labels=path),
             lambda: harness.regress(folder, labels=path, isolation="none")]  # fmt: skip
    label = {"query_id": "q", "doc_id": "c", "grade": 1}
    for line, error, message in (
        (label | {"doc_id": "x"}, DataError, "there is no document 'x'"),
        (label | {"query_id": "y"}, UsageError, r"none of the 1 labelled query is \w+.*, such as 'y'"),
    ):
        path.write_text(json.dumps(line))
        for call in calls:
            with pytest.raises(error, match=message):
                call()
    path.write_text("\n".join(json.dumps(label | {"query_id": query}) for query in "qyz"))
    assert "2 of the labelled queries are not compared: labels without effect" in calls[0]().change.warnings
    (finding,) = harness.judge(folder, labels=path).findings
    assert finding.message == "2 of the labelled queries are not in the result: labels without effect"


def test_documents_of_an_external_index_may_be_labelled_though_no_backend_returned_them(tmp_path: Path) -> None:
    def search(question: str, k: int) -> list[dict[str, Any]]:
        return [{"id": "a", "text": TEXTS["a"]}]

    options: dict[str, Any] = {"k": 1, "timing": False, "out": tmp_path / "out"}
    folder = harness.check(GOLDEN, against={"mine": search}, **options).folder
    path = tmp_path / "labels.jsonl"
    path.write_text('{"query_id": "q", "doc_id": "b", "grade": 1}')
    assert harness.diff(folder or "", folder or "", labels=path).change.data[0].labels == 1
    with pytest.raises(UsageError, match="all 1 document among the first 10 hits are judged"):
        harness.judge(folder or "", labels=path)


def test_a_list_without_files_of_labels_is_refused() -> None:
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "P@2", "labels": []}
    dataset = harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}})
    for call in (
        lambda: harness.compare("csr", dataset, **options),
        lambda: harness.check(GOLDEN, labels=[], **CHECK),
        lambda: harness.evaluate({"q": {"a": 1.0}}, dataset, "P@2", labels=[]),
    ):
        with pytest.raises(UsageError, match="--labels names no file"):
            call()


MODEL = {"by": "m-1", "model": "m-1", "prompt_digest": "ab"}


def test_every_verb_names_conflicts_and_leaves_out_a_models_label_of_a_changed_text(tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "qrels").mkdir(parents=True)
    (data / "corpus.jsonl").write_text("".join(json.dumps({"_id": n, "text": t}) + "\n" for n, t in TEXTS.items()))
    (data / "queries.jsonl").write_text('{"_id": "q", "text": "apple"}\n')
    (data / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    files = [
        labels(tmp_path / "anna.jsonl", ("b", 2, "anna")),
        labels(tmp_path / "ben.jsonl", ("b", 0, "ben")),
        labels(tmp_path / "model.jsonl", ("c", 3, "m-1"), text={"c": "another text"}, **MODEL),
    ]
    options: dict[str, Any] = {"timing": False, "isolation": "none", "metrics": "P@2", "k": 2}
    plain = harness.compare("csr", str(data), out=tmp_path / "plain", **options)
    assert plain.folder is not None
    compared = harness.compare("csr", str(data), labels=files, **options)
    checked = harness.check(GOLDEN, labels=files, **CHECK)
    scored = harness.evaluate({"q": {"a": 1.0, "c": 2.0}}, harness.Dataset.of(TEXTS, {"q": "apple"}, {"q": {"a": 1}}),
                              "P@2", labels=files)  # fmt: skip
    changes = [
        harness.diff(plain.folder, plain.folder, labels=files).change,
        harness.regress(plain.folder, labels=files, isolation="none").change,
    ]
    stated = [
        [f"{one.message} ({'; '.join(one.examples)})" for one in findings if one.check.startswith("label")]
        for findings in (compared.report.findings, checked.report.warnings, scored.findings)
    ]
    stated += [[one for one in change.warnings if "label" in one or "grades" in one] for change in changes]
    conflict = (
        "1 document with different grades from different people (query 'q', document 'b': anna 2, ben 0; counts as 0)"
    )
    outdated = "1 label is of a text that has changed since, and left out (query 'q', document 'c')"
    assert stated[:4] == [[conflict, outdated]] * 4
    left_out = "1 label by a model left out: gates and golden sets count people's labels (m-1, prompt ab)"
    assert stated[4] == [conflict, left_out], "a gate never looks at the model's label"
    assert [info.model_labels for info in (compared.report.dataset, checked.report.datasets[0])] == [None, None]
    assert scored.human is None
    assert [change.data[0].label_models for change in changes] == [[], []]
