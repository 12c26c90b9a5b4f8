"""`harness diff` of two results of `harness check`: yesterday's golden set against today's, question by question."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import harness
from harness.cli.app import _build
from harness.errors import ResultError, UsageError
from harness.pipeline.regress.regression import Regression
from harness.report.documents.query_changes import query_tables
from harness.report.documents.regress import change_document

pytestmark = pytest.mark.integration

TEXTS = {"fruit#0": "apples", "fruit#1": "pears", "fish#0": "trout", "fish#1": "salmon", "tree#0": "oak"}
BEFORE = {"apples?": ["fruit#0", "tree#0"], "salmon?": ["fish#1", "fish#0"], "oak?": ["tree#0"], "wheel?": ["tree#0"]}
AFTER = {**BEFORE, "apples?": ["tree#0", "fruit#1"], "oak?": ["fish#0", "tree#0"]}
CHUNKS = {"apples?": "fruit#0", "salmon?": "fish#1", "oak?": "tree#0"}
DOCUMENTS = {"apples?": "fruit", "salmon?": "fish", "oak?": "tree"}


def retriever(answers: Mapping[str, Sequence[str]]) -> Callable[[str, int], list[str]]:
    return lambda question, k: list(answers[question])[:k]


def check(
    folder: Path,
    answers: Mapping[str, Sequence[str]],
    expected: Mapping[str, str],
    also: Sequence[str] = (),
    **options: Any,
) -> None:
    """A check of what answers the questions by heart, beside exact search, stored in ``folder``.

    Exact search is on ``also``, further corpora, too.
    """
    golden = [
        {"id": f"q{number}", "question": question, "expected": [expected[question]] if question in expected else []}
        for number, question in enumerate(answers)
    ]
    corpus = folder.parent / "chunks.jsonl"
    corpus.write_text("".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in TEXTS.items()))
    harness.check(
        golden, against={"mine": retriever(answers)}, corpus=[str(corpus), *also], backends="csr", k=2, timing=False,
        isolation="none", out=folder, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("checks")
    check(base / "before", BEFORE, CHUNKS)
    check(base / "after", AFTER, CHUNKS)
    return base


def page_data(page: Path) -> dict[str, Any]:
    """What the page embeds of queries."""
    (content,) = re.findall('id="queries-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(content)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(_build(), [str(argument) for argument in arguments])


def test_winners_and_losers_are_those_of_the_questions(folder: Path) -> None:
    found = harness.diff(folder / "before", folder / "after")
    backends = {one.after: one for one in found.change.backends}
    assert {one.verdict for one in backends["csr"].metrics} == {"same"}
    mine = {one.metric: one for one in backends["mine"].metrics}
    assert list(mine) == ["Hit@2", "MRR@2", "Recall@2", "nDCG@2"]
    assert (mine["Hit@2"].queries, mine["Hit@2"].losses, mine["Hit@2"].difference) == (3, 1, pytest.approx(-1 / 3))
    assert mine["MRR@2"].difference == pytest.approx((0 - 1 + 0.5 - 1) / 3)
    assert (found.change.data[0].documents, found.change.data[0].judgments, found.change.data[0].common_queries) == (
        "same", "same", 4,
    )  # fmt: skip
    assert found.change.warnings == []
    dossier = backends["mine"].dossier
    assert dossier is not None
    assert (dossier.metric, dossier.depth, dossier.changed_queries) == ("Hit@2", 2, 2)
    worst = dossier.queries[0]
    assert (worst.query, worst.text, worst.added, worst.removed) == ("q0", "apples?", ["fruit#1"], ["fruit#0"])
    assert {one.document: one.grade for one in worst.documents} == {"tree#0": None, "fruit#1": None, "fruit#0": 1}


def test_the_command_line_gates_by_the_names_that_the_check_shows(folder: Path, tmp_path: Path) -> None:
    given = "diff", folder / "before", folder / "after", "--out", tmp_path / "diff", "--overwrite", "--max-drop"
    for decided, code, tag in (("invalid", 3, "skipped"), ("pass", 0, "skipped"), ("fail", 1, "failure")):
        done = run(*given, "MRR@2=0.5", "--when-not-judged", decided, "--junit", tmp_path / "junit.xml")
        assert done.exit_code == code, done.output
        assert (
            "? Not judged: the gate would have passed even after the loss of everything" in done.stdout
            or tag == "failure"
        )
        assert f"<{tag} message=" in (tmp_path / "junit.xml").read_text()
    with pytest.raises(UsageError, match="--rule tolerance without --max-drop: there is no gate"):
        harness.diff(folder / "before", folder / "after", rule="tolerance")
    by_means = "MRR@2=0.5", "--rule", "tolerance"
    done = run(*given, *by_means, "--junit", tmp_path / "junit.xml", "--summary", tmp_path / "s.md")
    assert done.exit_code == 0, done.output
    assert "✓ Passed: no mean fell by more than the allowed drop (0.5)" in done.stdout
    assert "MRR@2" in (tmp_path / "junit.xml").read_text()
    assert (tmp_path / "s.md").read_text().startswith("<!-- harness diff: ")
    page = (tmp_path / "diff" / "report.html").read_text(encoding="utf-8")
    assert "q0" in page
    assert run("report", tmp_path / "diff", "--format", "html").stdout == page
    assert Regression.load(tmp_path / "diff").report.command[:2] == ["harness", "diff"]


def test_labels_are_expectations_that_came_later(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "labels.jsonl").write_text('{"query_id": "q0", "doc_id": "fruit#1", "grade": 1}\n')
    plain, labelled = (
        harness.diff(folder / "before", folder / "after", labels=labels) for labels in (None, tmp_path / "labels.jsonl")
    )
    values = [found.verdicts().set_index(["backend", "metric"]).loc[("mine", "Hit@2")] for found in (plain, labelled)]
    assert [row["after"] for row in values] == [pytest.approx(2 / 3), 1.0]
    assert {one.document for change in plain.change.backends if change.dossier for one in change.dossier.to_label} >= {
        "fruit#1"
    }


def test_chunks_of_expected_documents_go_by_their_ids(tmp_path: Path) -> None:
    check(tmp_path / "before", BEFORE, DOCUMENTS, match="document", delimiter="#")
    check(tmp_path / "after", AFTER, DOCUMENTS, match="document", delimiter="#")
    found = harness.diff(tmp_path / "before", tmp_path / "after", out=tmp_path / "diff")
    dossier = {one.after: one.dossier for one in found.change.backends}["mine"]
    assert dossier is not None
    assert (dossier.lost, dossier.gained) == (0, 0)
    (moved,) = (one for one in dossier.queries if one.query == "q0")
    assert [(one.document, one.grade, one.chunk_before, one.chunk_after) for one in moved.documents] == [
        ("tree#0", None, None, None), ("fruit", 1, "fruit#0", "fruit#1"),
    ]  # fmt: skip
    assert (moved.added, moved.removed) == ([], [])
    assert {value.metric: (value.before, value.after) for value in moved.values}["MRR@2"] == (1.0, 0.5)
    assert all(value.after_if_relevant is None for value in moved.values)
    assert dossier.to_label == []
    rows = [
        row for table in change_document(found.report).tables() if "both rankings" in table.title for row in table.rows
    ]
    on_csr = (tmp_path / "diff" / "report.html").read_text(encoding="utf-8")
    assert "fruit#0: apples" in on_csr
    assert [cell.text for cell in rows[0][1:4]] == ["fruit (fruit#0)", "1", "tree#0"]
    (tmp_path / "labels.jsonl").write_text('{"query_id": "q0", "doc_id": "tree#0", "grade": 1}\n')
    with pytest.raises(UsageError, match="cannot be scored again"):
        harness.diff(tmp_path / "before", tmp_path / "after", labels=tmp_path / "labels.jsonl", max_drop=0.0)


def test_expected_texts_of_questions_without_ids_are_those_of_the_same_question(tmp_path: Path) -> None:
    """A line that is inserted gives later questions other ids; their documents still meet the same texts."""
    (tmp_path / "chunks.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": f"all about {text}"}) + "\n" for name, text in TEXTS.items())
    )
    for when, questions in (("before", ["apples?", "salmon?"]), ("after", ["oak?", "apples?", "salmon?"])):
        harness.check(
            [{"question": question, "expected": [f"about {TEXTS[CHUNKS[question]]}"]} for question in questions],
            against={"mine": retriever(BEFORE)}, corpus=str(tmp_path / "chunks.jsonl"), backends="csr", match="text",
            k=2, timing=False, isolation="none", accept=["no-hits"], out=tmp_path / when,
        )  # fmt: skip
    change = harness.diff(tmp_path / "before", tmp_path / "after").change
    dossier = {one.after: one.dossier for one in change.backends}["mine"]
    assert dossier is not None
    assert (dossier.lost, dossier.gained, dossier.changed_queries) == (0, 0, 0)


@pytest.mark.parametrize(("match", "deeper"), [("document", ""), ("prefix", "#0")])
def test_expected_documents_are_counted_after_another_chunking(tmp_path: Path, match: str, deeper: str) -> None:
    """Every question finds its documents in other chunks than before, but for one that is gone."""
    golden = [
        {"id": "pumps", "question": "pump", "expected": ["pump", "valve"]},
        {"id": "oil", "question": "oil", "expected": {"oil": 2, "filter": 1}},
    ]
    answers = {
        "before": {"pump": ["pump#0", "pump#1", "valve#0", "x#0"], "oil": ["oil#0", "filter#3"]},
        "after": {"pump": ["valve#7", "x#0", "pump#5", "pump#0"], "oil": ["oil#4", "oil#0"]},
    }
    for when, by_question in answers.items():
        named = {question: [f"{chunk}{deeper}" for chunk in chunks] for question, chunks in by_question.items()}
        harness.check(
            golden, against={"mine": retriever(named)}, k=4, timing=False, isolation="none", out=tmp_path / when,
            match=match, delimiter="#",
        )  # fmt: skip
    found = harness.diff(tmp_path / "before", tmp_path / "after", out=tmp_path / "diff")
    assert found.change.data[0].judgments == "same"
    (backend,) = found.change.backends
    dossier = backend.dossier
    assert dossier is not None
    assert (dossier.lost, dossier.gained) == (1, 0)
    queries = {one.query: one for one in dossier.queries}
    assert (queries["oil"].lost, queries["oil"].gained, queries["pumps"].lost, queries["pumps"].gained) == (
        ["filter"], [], [], [],
    )  # fmt: skip
    documents = {one.document: one for one in queries["pumps"].documents}
    assert {name: (one.rank_before, one.rank_after, one.grade) for name, one in documents.items() if one.grade} == {
        "pump": (1, 3, 1), "valve": (3, 1, 1),
    }  # fmt: skip
    again = "pump#0" + deeper
    assert (documents[again].grade, documents[again].rank_after) == (None, 4)
    assert {name: one.further_chunk_of for name, one in documents.items() if one.further_chunk_of is not None} == {
        f"pump#1{deeper}": "pump", again: "pump",
    }  # fmt: skip
    assert queries["oil"].documents[1].further_chunk_of == "oil"
    (table,) = [table for table in query_tables(found.change) if table.title == "mine: query oil, both rankings"]
    second = [cell.text for cell in table.rows[1]]
    assert second == ["2", f"filter (filter#3{deeper})", "1", f"oil#0{deeper}", "also oil", ""]
    page = page_data(tmp_path / "diff" / "report.html")
    assert {row["id"]: row["relevant"] for row in page["queries"]} == {"pumps": 2, "oil": 2}
    assert {
        row["id"]: {page["docs"][row["docs"][int(slot)]]: name for slot, name in row["further"].items()}
        for row in page["queries"]
    } == {"pumps": {f"pump#1{deeper}": "pump", again: "pump"}, "oil": {f"oil#0{deeper}": "oil"}}
    for row in page["queries"]:
        named = [page["docs"][doc] for doc in row["docs"]]
        graded = {name: grade for name, grade in zip(named, row["grades"], strict=True) if grade is not None}
        assert graded == ({"pump": 1, "valve": 1} if row["id"] == "pumps" else {"oil": 2, "filter": 1})


def test_without_texts_questions_are_matched_by_their_digests(folder: Path, tmp_path: Path) -> None:
    check(tmp_path / "after", AFTER, CHUNKS, no_text=True)
    report = harness.diff(folder / "before", tmp_path / "after", out=tmp_path / "diff").change
    assert (report.data[0].common_queries, report.data[0].texts_compared, report.data[0].queries) == (4, True, "same")
    assert report.warnings == []


def test_another_golden_set_and_other_documents_are_said(folder: Path, tmp_path: Path) -> None:
    check(tmp_path / "after", AFTER, {**CHUNKS, "oak?": "fish#0"})
    report = harness.diff(folder / "before", tmp_path / "after").change
    assert (report.data[0].documents, report.data[0].queries, report.data[0].judgments) == ("same", "same", "different")
    assert report.warnings[0].startswith("THE JUDGMENTS ARE NOT THE SAME: 1 of 4 compared queries has other judgments")


def test_a_question_that_only_one_side_has_is_not_another_judgment(folder: Path, tmp_path: Path) -> None:
    longer = {**AFTER, "trout?": ["fish#0"]}
    check(tmp_path / "after", longer, {**CHUNKS, "trout?": "fish#0"})
    found = harness.diff(folder / "before", tmp_path / "after", out=tmp_path / "diff")
    (relation,) = found.change.data
    assert (relation.queries, relation.judgments, relation.common_queries) == ("different", "same", 4)
    assert found.change.warnings == ["4 queries before, 5 now: only the 4 that both have are compared"]
    for suite in change_document(found.report).suites:
        assert "JUDGMENTS" not in str(suite.properties)


def test_what_cannot_be_compared_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    check(tmp_path / "invalid", BEFORE, {**CHUNKS, "oak?": "nowhere"})
    with pytest.raises(ResultError, match=r"nothing was scored by the check in .*: 1 expected id is not in"):
        harness.diff(folder / "before", tmp_path / "invalid")
    with pytest.raises(UsageError, match="is the result of a check") as no_plan:
        harness.regress(folder / "before")
    assert str(no_plan.value).endswith(f"--isolation none --baseline {folder / 'before'}")
    harness.compare("csr", "cacm", k=5, timing=False, isolation="none", out=tmp_path / "compared")
    with pytest.raises(ResultError, match=r"is a result of `harness check`, and .* of `harness compare`"):
        harness.diff(folder / "before", tmp_path / "compared")


def test_each_of_several_corpora_is_compared_by_itself(tmp_path: Path) -> None:
    for when, answers in (("before", BEFORE), ("after", AFTER)):
        other = tmp_path / f"{when}.jsonl"
        texts = TEXTS if when == "before" else {**TEXTS, "fruit#0": "cherries", "fruit#1": "apples"}
        other.write_text("".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in texts.items()))
        check(tmp_path / when, answers, CHUNKS, also=[f"other={other}"])
    found = harness.diff(tmp_path / "before", tmp_path / "after", out=tmp_path / "diff")
    assert [info.name for info in found.change.after.datasets] == ["chunks", "other", "golden set"]
    assert [(one.dataset, one.after) for one in found.change.backends] == [
        ("chunks", "csr"), ("other", "csr"), ("golden set", "mine"),
    ]  # fmt: skip
    hit = {one.dataset: one.metrics[0] for one in found.change.backends}
    assert {name: metric.losses for name, metric in hit.items()} == {"chunks": 0, "other": 1, "golden set": 1}
    assert [relation.documents for relation in found.change.data] == ["same", "different", "unknown"]
    assert {name: one.corpus is not None for name, one in found.documents.items()} == {
        "chunks": True, "other": True, "golden set": False,
    }  # fmt: skip
    assert "csr on other" in found.render("markdown")
    (warning,) = found.change.warnings
    assert warning.startswith("other: THE DOCUMENTS ARE NOT THE SAME (5 documents before, 5 now)")
    report = json.loads((tmp_path / "after" / "report.json").read_bytes())
    failed = {
        "status": "failed",
        "error": {"type": "X", "message": "no memory", "log": []},
        "questions": [],
        "metrics": {},
    }
    report["trials"] = [trial | (failed if trial["dataset"] == "other" else {}) for trial in report["trials"]]
    (tmp_path / "after" / "report.json").write_text(json.dumps(report))
    broken = harness.diff(tmp_path / "before", tmp_path / "after", max_drop=1).change
    assert [(one.dataset, one.error) for one in broken.backends if one.status == "failed"] == [
        ("other", "failed now: no memory")
    ]
    assert broken.gate == "invalid"
