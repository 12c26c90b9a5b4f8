"""Texts that backends returned with their hits: on the page, in one query, and in a stored check."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.data.shown_hits import SHOWN_HITS, first_documents
from harness.pipeline.check.checked import CheckResult
from harness.results.returned_texts import LONGEST_TEXT

HACK = "</script><script>window.hacked = true</script>"
TEXTS = {"a": f"hold the button {HACK}", "b": "a dry cloth", "c": "x" * 5000}
GOLDEN = [{"id": "reset", "question": "reset", "expected": ["a"]}, {"id": "dry", "question": "dry", "expected": ["b"]}]
SHAPES: dict[str, Any] = {
    "mapping": lambda name: {"id": name, "text": TEXTS[name]},
    "LangChain": lambda name: SimpleNamespace(id=name, page_content=TEXTS[name], metadata={}),
    "LlamaIndex": lambda name: SimpleNamespace(node=SimpleNamespace(node_id=name, text=TEXTS[name]), score=None),
    "Haystack": lambda name: SimpleNamespace(id=name, content=TEXTS[name], meta={}),
}


def check(answer: Any = SHAPES["mapping"], **options: Any) -> CheckResult:
    """Check a backend that returns every document, the expected one of `reset` first."""
    settings = {"against": {"mine": lambda question, k: [answer(name) for name in TEXTS][:k]}, **options}
    return harness.check(GOLDEN, k=3, timing=False, isolation="none", **settings)


@pytest.mark.parametrize("shape", SHAPES)
def test_texts_of_hits_are_shown(shape: str) -> None:
    checked = check(SHAPES[shape])
    page = checked.html()
    assert "Texts that the backends returned are here for all of them" in page
    assert "a dry cloth" in page
    assert HACK not in page
    assert "a dry cloth" in checked.render_query("dry", verbose=True)


def test_a_stored_check_keeps_the_beginnings(tmp_path: Path) -> None:
    checked = check().save(tmp_path / "out")
    (corpus,) = CheckResult.load(tmp_path / "out").texts.values()
    assert dict(zip(corpus.ids, corpus.texts.to_pylist(), strict=True)) == {
        **TEXTS, "c": "x" * (LONGEST_TEXT + 1)
    }  # fmt: skip
    written = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert CheckResult.load(tmp_path / "out").html() == written == checked.html()
    done = CliRunner().invoke(_build(), ["report", str(tmp_path / "out"), "--query", "dry", "--verbose"])
    assert "a dry cloth" in done.output
    check(SHAPES["LangChain"]).save(tmp_path / "out", overwrite=True)
    assert len(list((tmp_path / "out" / "texts").rglob("*.parquet"))) == 1


def test_no_text_leaves_them_out(tmp_path: Path) -> None:
    checked = check(no_text=True, out=tmp_path / "out")
    assert not (tmp_path / "out" / "texts").exists()
    assert "a dry cloth" not in checked.html()
    shown = check()
    assert "a dry cloth" not in shown.html(keep_text=False)
    assert "a dry cloth" not in shown.render_query("dry", verbose=True, keep_text=False)


def test_documents_of_a_corpus_have_its_texts(tmp_path: Path) -> None:
    corpus = {"a": "the text of the corpus"}
    checked = harness.check(
        [GOLDEN[0]], corpus=corpus, backends="csr", k=3, timing=False, isolation="none",
        against={"mine": lambda question, k: [SHAPES["mapping"](name) for name in TEXTS]},
    )  # fmt: skip
    (returned,) = checked.texts.values()
    assert returned.ids.to_list() == ["b", "c"]
    shown = checked.render_query("reset", verbose=True)
    assert "the text of the corpus" in shown
    assert "a dry cloth" in shown
    assert "hold the button" not in shown


def test_different_texts_of_one_document_are_both_shown() -> None:
    backends = {
        "old": lambda question, k: [{"id": "a", "text": "an old text"}, {"id": "b", "text": "the same"}],
        "new": lambda question, k: [{"id": "b", "text": "the same"}, {"id": "a", "text": "a new text"}],
    }
    shown = check(against=backends).render_query("reset", verbose=True)
    assert "old: an old text" in shown
    assert "new: a new text" in shown
    assert "old, new" not in shown.split("Texts")[-1]


def test_backends_that_return_only_ids_have_no_texts() -> None:
    checked = check(lambda name: name)
    assert checked.texts == {}
    assert "returned only ids" in checked.html()


def test_two_stored_checks_compared_show_them(tmp_path: Path) -> None:
    for name in ("before", "after"):
        check().save(tmp_path / name)
    changed = harness.diff(tmp_path / "before", tmp_path / "after", out=tmp_path / "diff")
    assert "a dry cloth" in (tmp_path / "diff" / "report.html").read_text(encoding="utf-8")
    assert "a dry cloth" in changed.render_query("dry", verbose=True)
    check(no_text=True, out=tmp_path / "bare")
    bare = harness.diff(tmp_path / "before", tmp_path / "bare", out=tmp_path / "without")
    assert "a dry cloth" not in bare.html()


def test_an_index_gives_the_texts_of_its_hits(tmp_path: Path) -> None:
    chromadb = pytest.importorskip("chromadb", reason="the extra 'chroma' is not installed")
    vectors = np.eye(3, 8, dtype=np.float32)
    with chromadb.PersistentClient(path=str(tmp_path / "db")) as client:
        made = client.create_collection("docs", embedding_function=None)
        made.add(ids=list(TEXTS), embeddings=vectors, documents=[*list(TEXTS.values())[:2], "a third text"])
    (tmp_path / "made").mkdir()
    np.save(tmp_path / "made" / "queries.npy", vectors[[0, 1]])
    (tmp_path / "made" / "queries.ids.txt").write_text("reset\ndry\n")
    index = f"chroma:path={tmp_path / 'db'};collection=docs;model=precomputed:{tmp_path / 'made'}"
    checked = harness.check(GOLDEN, against=index, k=1, timing=False, isolation="none")
    (corpus,) = checked.texts.values()
    assert sorted(corpus.ids.to_list()) == ["a", "b"], "only hits are read"
    assert "a dry cloth" in checked.render_query("dry", verbose=True)


def test_the_first_hits_come_first() -> None:
    indptr = np.array([0, 12, 12, 14], dtype=np.int64)
    rows = np.array([*range(12), 20, 0], dtype=np.int32)
    assert first_documents(indptr, rows).tolist() == [0, 20, *range(1, SHOWN_HITS)]
    many = np.arange(30_000, dtype=np.int32)
    assert len(first_documents(np.arange(0, 30_001, 10, dtype=np.int64), many)) == 20_000
    assert first_documents(np.zeros(1, np.int64), np.zeros(0, np.int32)).tolist() == []
