"""One query of a result: values, ranks of relevant documents and the first hits of every backend."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from explorers import small_explorer

import harness
from harness.cli.app import _build
from harness.document.model import Document, Facts, Notes, Table
from harness.errors import UnknownNameError, UsageError
from harness.report.documents.query import query_document
from harness.report.documents.query_table import queries_document
from harness.report.formats import render
from harness.report.rankings.explorer import ExpectedDocuments

QUESTIONS = [
    {"id": "reset", "question": "reset device", "expected": ["manual#2"]},
    {"id": "dry", "question": "cloth", "expected": ["manual#3"], "filter": {"tenant": "north"}},
]
DOCUMENTS = {
    "manual#1": "hold the button of the device",
    "manual#2": "reset the device by its button",
    "manual#3": "a dry cloth",
}


def blocks(document: Document) -> dict[str, Table | Facts]:
    return {
        block.title: block
        for section in document.sections
        for block in section.blocks
        if isinstance(block, Table | Facts)
    }


def texts_of(table: Table | Facts) -> list[list[str]]:
    assert isinstance(table, Table)
    return [[f"{cell.text} {cell.mark}".strip() for cell in row] for row in table.rows]


def test_every_ranking_of_a_query_is_shown() -> None:
    document = query_document([small_explorer()], "q1", "made")
    assert (document.title, document.subtitle) == ("query q1", "red pumps")
    shown = blocks(document)
    assert texts_of(shown["Values"]) == [
        ["old", "1.0000", "bit-equal"],
        ["new", "0.5000 ↓", "different: approximate search"],
    ]
    assert texts_of(shown["Ranks of relevant documents"]) == [["d0", "2", "1", "–"], ["d25", "1", "–", "–"]]
    hits = texts_of(shown["Hits"])
    assert hits[0] == ["1", "d0 ✓", "d1 ?"]
    assert hits[3] == ["4", "d3", "d4 ?"], "d3 is judged, and not relevant"
    assert len(hits) == 10
    texts = shown["Texts"]
    assert isinstance(texts, Facts)
    assert dict(texts.rows)["d25"] == "document 25 on red pumps"
    assert [(value.backend, value.metric, value.mean) for value in document.values] == [
        ("old", "nDCG@10", 1.0),
        ("new", "nDCG@10", 0.5),
    ]


def test_long_labels_are_short_in_narrow_tables() -> None:
    labels = ("csr", "csr:k1=1.25;b=0.75;analyzer=whitespace")
    document = query_document([replace(small_explorer(), labels=labels)], "q1", "made")
    assert document.labels == {labels[1]: "csr[k1=1.25]"}
    assert "csr[k1=1.25]" in render(document, "table", width=100)


def test_long_names_of_backends_are_short_in_the_terminal_and_explained() -> None:
    long = "csr|rerank:url=https://reranker.example.org/v1/rerank;model=large"
    explorer = replace(small_explorer(), labels=["csr", long])
    for document in (query_document([explorer], "q1", "made"), queries_document([explorer], None, None, "made")):
        printed = render(document, "table", width=80)
        assert printed.count("csr|rerank:url") == 1, printed
        assert printed.endswith(f"\ncsr|rerank = {long}\n")
        assert max(map(len, printed.splitlines())) <= 80
        assert long in render(document, "csv")


def test_a_query_without_hits_or_values() -> None:
    shown = blocks(query_document([small_explorer()], "q4", "made"))
    assert texts_of(shown["Hits"])[0] == ["1", "d0 ✓", "–"]
    unjudged = blocks(query_document([small_explorer(corpus=None, no_texts="no texts here")], "q5", "made"))
    assert [row[1] for row in texts_of(unjudged["Values"])] == ["–", "–"]
    document = query_document([small_explorer(corpus=None, no_texts="no texts here")], "q5", "made")
    assert Notes(["no texts here"]) in [block for section in document.sections for block in section.blocks]


def test_expected_ids_have_their_rank_in_the_exact_ranking() -> None:
    expected = [[ExpectedDocuments("d1", 1, [2, 1], ["d1"], [2, 4])], *([[]] * 4)]
    failed = np.array([[False] * 5, [True] * 5])
    explorer = small_explorer(expected=expected, failed=failed, filters=["tenant=north", *[""] * 4])
    document = query_document([explorer], "q1", "made")
    assert document.subtitle == "red pumps · filter tenant=north"
    (row,) = blocks(document)["Ranks of expected documents"].rows
    assert [(cell.text, cell.below) for cell in row] == [("d1", ""), ("1", ""), ("2", ""), ("1", "exact 4")]
    assert all("?" not in cell for row in texts_of(blocks(document)["Hits"]) for cell in row)


def test_a_query_of_two_datasets_is_shown_on_each() -> None:
    explorers = [small_explorer(dataset="first"), small_explorer(dataset="second")]
    assert [title for title in blocks(query_document(explorers, "q2", "made")) if title.startswith("Hits")] == [
        "Hits, first",
        "Hits, second",
    ]
    with pytest.raises(UnknownNameError, match="unknown query 'q9' of the result"):
        query_document(explorers, "q9", "made")
    with pytest.raises(
        UsageError, match=r"unknown query 'q1,q2' of the result\s+name one query: --query q1 or --query q2"
    ):
        query_document(explorers, "q1,q2", "made")


def test_every_format_of_documents() -> None:
    document = query_document([small_explorer()], "q1", "made")
    for name in ("table", "markdown", "latex"):
        assert "d25" in render(document, name)
    assert ",new,nDCG@10,0.5,,,1" in render(document, "csv")
    with pytest.raises(UnknownNameError, match="unknown format 'json'"):
        render(document, "json")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("result")
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in DOCUMENTS.items()))
    golden = [{name: value for name, value in question.items() if name != "filter"} for question in QUESTIONS]
    checked = harness.check(golden, corpus=corpus, backends="csr,csr:b=0", k=3, timing=False, isolation="none")
    return checked.save(folder / "check").folder or folder / "check"


def command(*arguments: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(_build(), ["report", *arguments])
    assert done.exit_code == exit_code, done.output
    return done.output


def test_the_command_prints_a_query_of_a_stored_check(stored: Path) -> None:
    printed = command(str(stored), "--query", "reset")
    assert printed.startswith("query reset\nreset device\n")
    assert "manual#2 ✓" in printed
    assert "by its button" in command(str(stored), "--query", "reset", "--verbose")
    assert "by its button" not in command(str(stored), "--query", "reset", "--verbose", "--no-text")
    assert "MRR@3" in command(str(stored), "--query", "reset", "--sort", "MRR@3")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query", "rest"], "did you mean 'reset'?"),
        (["--query", "reset", "--format", "html"], "the page has every query"),
        (["--query", "reset", "--format", "json"], "unknown format 'json'"),
        (["--query", "reset", "--sort", "speed"], "speed"),
    ],
)
def test_queries_and_formats_that_cannot_be(stored: Path, arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(_build(), ["report", str(stored), *arguments])
    assert isinstance(done.exception, UnknownNameError | UsageError)
    assert message in str(done.exception)


def test_a_result_shows_a_query_in_python(stored: Path) -> None:
    checked = harness.pipeline.check.checked.CheckResult.load(stored)
    assert "manual#2 ✓" in checked.render_query("reset")
    with pytest.raises(UnknownNameError):
        checked.render_query("nothing")
