"""What a card rules (identical ids, empty documents) holds for compare and check, and every header says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import harness
from harness import Dataset
from harness.cli.app import _build
from harness.errors import UsageError

QUICK = {"timing": False, "isolation": "none", "k": 2}
CARD = """name = "mine"
summary = "x"
format = "table"
path = "docs.jsonl"
queries = "q.jsonl"
qrels = "r.tsv"
identical_ids = "drop"
language = "en"
licence = "none"
source = "here"
[text]
empty = "drop"
"""


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    """A card of three documents, of which one has the id of the query, which it matches best, and one is empty."""
    folder = tmp_path / "datasets"
    folder.mkdir()
    documents = {"7": "two years of guarantee", "x": "two years", "void": ""}
    lines = [json.dumps({"id": name, "text": text}) for name, text in documents.items()]
    (folder / "docs.jsonl").write_text("\n".join(lines))
    (folder / "q.jsonl").write_text(json.dumps({"id": "7", "text": "two years of guarantee"}))
    (folder / "r.tsv").write_text("7\tx\t1\n")
    (folder / "mine.toml").write_text(CARD)
    return tmp_path


QUESTIONS = [{"id": "7", "question": "two years of guarantee", "expected_relevant_doc_ids": ["x"]}]


@pytest.mark.parametrize("format_name", ["table", "markdown", "html"])
@pytest.mark.parametrize("verb", ["compare", "check"])
def test_headers_tell_the_rules_of_a_card(cards: Path, verb: str, format_name: str) -> None:
    if verb == "compare":
        harness.compare("csr", "mine", cards=cards, metrics="RR@1", out=cards / "out", **QUICK)
    else:
        harness.check(QUESTIONS, corpus="mine", backends="csr", cards=cards, out=cards / "out", **QUICK)
    done = CliRunner().invoke(_build(), ["report", str(cards / "out"), "--format", format_name])
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.replace("&#39;", "'").split())
    noun = {"compare": "query", "check": "question"}[verb]
    assert "2 documents (1 empty left out) · " in text
    assert f"1 {noun} with a document's id: such hits are left out" in text


def test_a_check_is_under_the_rule_of_its_documents_unless_another_is_given(cards: Path) -> None:
    figures = {}
    for rule in ("auto", "keep", "drop"):
        checked = harness.check(
            QUESTIONS, corpus="mine", backends="csr", cards=cards, identical_ids=rule, metrics="MRR@2", **QUICK
        )
        figures[rule] = checked.report.trials[0].metrics["MRR@2"].mean
        info = checked.report.corpora[0].identical_ids
        assert info is not None
        assert (info.rule, info.queries) == ("keep" if rule == "keep" else "drop", 1)
        told = "--identical-ids" in checked.report.command
        assert told == (rule != "auto"), "the recorded command repeats the check"
    assert figures == {"auto": 1.0, "keep": 0.5, "drop": 1.0}


def test_a_check_refuses_a_rule_that_it_cannot_follow(cards: Path) -> None:
    with pytest.raises(UsageError, match="known: auto, keep, drop"):
        harness.check(QUESTIONS, corpus="mine", backends="csr", cards=cards, identical_ids="no", **QUICK)
    with pytest.raises(UsageError, match="known: auto, keep, drop"):
        harness.check(QUESTIONS, against=lambda question, k: ["x"], identical_ids="no", k=1)
    with pytest.raises(UsageError, match="--identical-ids drop with --against"):
        harness.check(QUESTIONS, against=lambda question, k: ["x"], identical_ids="drop", k=1)


def test_a_check_says_that_other_retrievers_are_judged_by_all_hits() -> None:
    dataset = Dataset.of({"7": "two", "x": "two years"}, {"7": "two"}, {"7": {"x": 1}}, identical_ids="drop")
    checked = harness.check(dataset, backends="csr", against=lambda question, k: ["7", "x"], **QUICK)
    assert any("kept with --against" in note for note in checked.report.notes)
    assert [one.metrics["MRR@2"].mean for one in checked.report.trials] == [1.0, 0.5]


def test_eval_takes_auto_which_keeps(tmp_path: Path) -> None:
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    qrels.write_text("7 0 x 1\n")
    run.write_text("7 Q0 7 1 2.0 t\n7 Q0 x 2 1.0 t\n")
    values = {}
    for rule in ("auto", "keep", "drop"):
        arguments = ["--qrels", str(qrels), "--run", str(run), "--metrics", "RR", "--format", "json"]
        done = CliRunner().invoke(_build(), ["eval", *arguments, "--identical-ids", rule])
        assert done.exit_code == 0, done.output
        values[rule] = json.loads(done.stdout)["runs"][0]["measures"]["RR"]["value"]
    assert values == {"auto": 0.5, "keep": 0.5, "drop": 1.0}
