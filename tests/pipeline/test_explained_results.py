"""`harness explain` of stored results of every kind, and of golden sets: the right output or a precise refusal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from stored_results import (
    BACKEND,
    DOCUMENTS,
    GOLDEN,
    LONG,
    QUERIES,
    QUICK,
    answer,
    broken,
    store_check,
    store_comparison,
    write_dataset,
    write_lines,
)

import harness
from harness.cli.app import _build
from harness.data.dataset import Dataset
from harness.errors import HarnessError, UnknownNameError, UsageError
from harness.exact import DenseIndex
from harness.results.explanation import DocumentScore, Explanation

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

LACKING = "expected document at rank 3 of the exact ranking; it lacks panel"


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "house")


def documents(explanation: Explanation, number: int = 0) -> Mapping[str, DocumentScore]:
    return {document.document: document for document in explanation.backends[number].documents}


def findings(explanation: Explanation, number: int = 0) -> dict[str, str]:
    return {name: one.finding for name, one in documents(explanation, number).items() if one.finding}


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(HarnessError) as error:
        harness.explain(*arguments, **options)
    return f"{error.value.problem} | {error.value.fix}"


def test_expected_documents_are_explained_at_any_depth_in_every_format(house: Path, tmp_path: Path) -> None:
    by_compare = harness.explain(store_comparison(house, tmp_path / "compare"), query="q1", k=1)
    by_check = harness.explain(store_check(house, tmp_path / "check"), query="q1", k=1)
    golden, corpus = str(house / "golden.jsonl"), str(house / "corpus.jsonl")
    of_golden = harness.explain(golden=golden, corpus=corpus, backends=BACKEND, query="q1", k=1)
    of_objects = harness.explain(golden=GOLDEN, corpus=DOCUMENTS, backends=BACKEND, query="q1", k=1)
    assert documents(harness.explain(golden=GOLDEN, corpus=LONG, backends=BACKEND, query="q1")).keys() >= LONG.keys()
    for explanation in (by_compare, by_check, of_golden, of_objects):
        assert findings(explanation) == {
            "d2": LACKING,
            "d4": "expected document: it has none of the query's terms",
        }
        assert set(explanation.expected) == {"d2", "d4"}
        for format_name in ("table", "markdown", "json"):
            assert "rank 3 of the exact ranking; it lacks panel" in " ".join(explanation.render(format_name).split())
    assert list(by_compare.expected.items()) == [("d4", 2), ("d2", 1)], "the highest grade first"
    assert documents(by_check)["d1"].score == documents(of_golden)["d1"].score
    assert harness.CheckResult.load(tmp_path / "check").name == "golden"
    again = harness.explain(harness.CheckResult.load(tmp_path / "check"), query="q1", k=1)
    assert again.to_dict() == by_check.to_dict()
    of_two_hits = harness.explain(tmp_path / "compare", query="q1")
    assert "at most 10 of each backend and expected ones" in " ".join(of_two_hits.render().split())


def test_the_command_explains_a_check_and_a_golden_set(house: Path, tmp_path: Path) -> None:
    folder = store_check(house, tmp_path / "check")
    golden = ["--golden", str(house / "golden.jsonl"), "--corpus", str(house / "corpus.jsonl"), "--backends", BACKEND]
    printed = []
    for words in ([str(folder)], [str(folder / "report.json")], golden):
        done = CliRunner().invoke(_build(), ["explain", *words, "--query", "q1", "--k", "2", "--format", "json"])
        assert done.exit_code == 0, done.output
        printed.append(json.loads(done.stdout))
    assert printed[0] == printed[1]
    assert printed[0]["backends"][0]["documents"] == printed[2]["backends"][0]["documents"]


def test_many_expected_documents_are_counted(house: Path) -> None:
    judged = {f"e{number}": "garden" for number in range(14)}
    dataset = Dataset.of({**DOCUMENTS, **judged}, QUERIES, {"q1": dict.fromkeys(judged, 1)}, name="many")
    explanation = harness.explain(dataset=dataset, backends=BACKEND, query="q1", k=1)
    assert len(explanation.documents) == 11
    assert explanation.notes == ("4 more expected documents are not explained: use --doc",)
    assert "4 more expected documents" in " ".join(explanation.render().split())


def test_a_regression_is_explained_and_a_difference_of_two_results_names_them(house: Path, tmp_path: Path) -> None:
    before = store_comparison(house, tmp_path / "before")
    options: dict[str, Any] = {"timing": False, "isolation": "none", "out": tmp_path / "after"}
    regression = harness.regress(before, set=["csr:k1=2"], **options)
    for result in (tmp_path / "after", regression, harness.Regression.load(tmp_path / "after")):
        explanation = harness.explain(result, query="q1")
        assert explanation.backends[0].facts["k1"] == 2
    difference = harness.diff(before, tmp_path / "after", out=tmp_path / "diff")
    for result in (tmp_path / "diff", difference):
        message = refusal(result, query="q1")
        assert "the result compares two results, and nothing ran for it" in message
        assert f"explain one of them: '{before}' or '{tmp_path / 'after'}'" in message
    harness.Comparison.load(before).save_baseline(tmp_path / "baseline.json")
    assert "is a baseline, and no result" in refusal(tmp_path / "baseline.json", query="q1")


def test_scores_of_runs_have_nothing_to_explain(house: Path) -> None:
    scored = harness.evaluate({"q1": {"d1": 1.0}}, {"q1": {"d1": 1}}, "nDCG@2")
    message = refusal(scored, query="q1")
    assert "has no backends to explain" in message
    assert "explain a result of compare, check or regress" in message
    assert "no result at" in refusal(house, query="q1")
    (house / "run.trec").write_text("q1 Q0 d1 1 1.0 mine\n")
    (house / "scores.json").write_text('{"nDCG@2": 1.0}')
    for name in ("run.trec", "scores.json"):
        assert "a run, and the scores of runs, have no engine to explain" in refusal(house / name, query="q1")


@pytest.mark.parametrize("make", [store_comparison, store_check])
def test_a_moved_folder_is_explained_and_moved_documents_are_named_again(
    make: Any, house: Path, tmp_path: Path
) -> None:
    make(house, tmp_path / "result")
    folder = shutil.move(tmp_path / "result", tmp_path / "archive")
    expected = harness.explain(folder, query="q1")
    moved = str(shutil.move(house, tmp_path / "elsewhere"))
    place = (
        {"dataset": moved}
        if make is store_comparison
        else {"corpus": f"{moved}/corpus.jsonl", "golden": f"{moved}/golden.jsonl"}
    )
    for name, flag in (("golden", "--golden FILE"), ("corpus", "--corpus PLACE"), ("dataset", "--dataset PATH")):
        if name in place:
            others = {key: value for key, value in place.items() if key != name}
            assert f"if it has moved, or was an object in Python, name it again: {flag}" in refusal(
                folder, query="q1", **others
            )
    assert harness.explain(folder, query="q1", **place).backends == expected.backends
    others = tmp_path / "others"
    write_dataset(others, {**DOCUMENTS, "d4": "shed"})
    place = {name: value.replace("elsewhere", "others") for name, value in place.items()}
    assert "has other documents now than the result" in refusal(folder, query="q1", **place)


def test_a_changed_query_is_refused(house: Path, tmp_path: Path) -> None:
    compare, check = store_comparison(house, tmp_path / "compare"), store_check(house, tmp_path / "check")
    write_lines(house / "queries.jsonl", [{"_id": "q1", "text": "another"}, {"_id": "q2", "text": QUERIES["q2"]}])
    write_lines(house / "golden.jsonl", [{**GOLDEN[0], "question": "another"}, GOLDEN[1]])
    for folder in (compare, check):
        assert "has another text now than in the result" in refusal(folder, query="q1")
        assert documents(harness.explain(folder, query="q2"))["d5"].rank == 1


def test_results_without_texts_are_explained(house: Path, tmp_path: Path) -> None:
    for make in (store_comparison, store_check):
        folder = make(house, tmp_path / make.__name__, no_text=True)
        assert findings(harness.explain(folder, query="q1", k=1))["d2"] == LACKING


def test_one_of_several_datasets_is_named(house: Path, tmp_path: Path) -> None:
    other = write_dataset(tmp_path / "garage", {**DOCUMENTS, "d6": "fuse fuse panel"})
    folder = tmp_path / "both"
    harness.compare(dataset=[str(house), str(other)], out=folder, k=2, **QUICK)
    assert "2 datasets: house, garage | explain one of them: --dataset NAME" in refusal(folder, query="q1")
    assert "unknown dataset 'shed' of the result" in refusal(folder, query="q1", dataset="shed")
    assert harness.explain(folder, query="q1", dataset="garage").documents[0] == "d6"
    corpora = [f"small={house / 'corpus.jsonl'}", f"large={other / 'corpus.jsonl'}"]
    store_check(house, tmp_path / "corpora", corpus=corpora)
    assert "2 corpora: small, large | explain one of them: --corpus NAME" in refusal(tmp_path / "corpora", query="q1")
    assert harness.explain(tmp_path / "corpora", query="q1", corpus="large").documents[0] == "d6"


def test_objects_in_python_are_given_again(tmp_path: Path) -> None:
    dataset = Dataset.of(DOCUMENTS, QUERIES, name="house")
    comparison = harness.compare(dataset=dataset, **QUICK)
    assert "was an object in Python, name it again: --dataset PATH" in refusal(comparison, query="q1")
    assert findings(harness.explain(comparison, query="q1", dataset=dataset, doc="d2", k=1))
    result = harness.check(GOLDEN, corpus=DOCUMENTS, **QUICK)
    assert "was an object in Python, name it again: --golden FILE" in refusal(result, query="q1")
    assert "was an object in Python, name it again: --corpus PLACE" in refusal(result, query="q1", golden=GOLDEN)
    explanation = harness.explain(result, query="q1", golden=GOLDEN, corpus=DOCUMENTS, k=1)
    assert findings(explanation)["d2"] == "expected document at rank 3; it lacks panel"


def test_plans_with_measures_sweeps_and_samples_are_explained(house: Path, tmp_path: Path) -> None:
    measured = tmp_path / "measured"
    harness.compare(
        BACKEND, str(house), out=measured, repeat=2, warm_up=0, sweep=["csr:analyzer=snowball-english;k1=1,2"],
        metrics="nDCG@2", isolation="none", sample_queries=1, seed=1,
    )  # fmt: skip
    sampled = harness.Comparison.load(measured).queries.ids.to_list()
    (other,) = QUERIES.keys() - set(sampled)
    assert len(harness.explain(measured, query=sampled[0]).backends) == 3
    assert f"query '{other}' is not in the sample of 1 query" in refusal(measured, query=other)
    assert "unknown query 'q9'" in refusal(measured, query="q9")


def test_filters_groups_and_chunks_of_a_golden_set(house: Path, tmp_path: Path) -> None:
    questions = [
        {"id": "f", "question": "garden", "expected": ["d2"], "filter": {"room": "hall"}},
        {"id": "g", "question": "fuse panel", "expected": [["d3", "d2"]]},
    ]
    write_lines(house / "golden.jsonl", questions)
    folder = store_check(house, tmp_path / "check")
    explanation = harness.explain(folder, query="f", doc=["d2", "d4"])
    assert documents(explanation)["d4"].absence == "left out by the filter"
    assert documents(explanation)["d2"].rank == 1
    assert set(harness.explain(folder, query="g").expected) == {"d2", "d3"}
    chunks = {"a#1": "fuse", "a#2": "panel wire", "b#1": "fuse panel"}
    golden = [{"id": "c", "question": "fuse", "expected": ["a"]}]
    explanation = harness.explain(
        golden=golden, corpus=chunks, backends=BACKEND, query="c", match="document", delimiter="#", k=1
    )
    assert set(explanation.expected) == {"a#1", "a#2"}
    missing = [{"id": "c", "question": "fuse", "expected": ["z#1", "z#2"]}]
    message = refusal(golden=missing, corpus=chunks, backends=BACKEND, query="c")
    assert "z#1" in message


def test_the_users_own_code_is_known_by_its_stored_hits(house: Path, tmp_path: Path) -> None:
    backends = {"words": BACKEND, "mine": answer}
    for folder in (
        store_comparison(house, tmp_path / "compare", backends=backends),
        store_check(house, tmp_path / "check", backends=BACKEND, against={"mine": answer}),
    ):
        explanation = harness.explain(folder, query="q1")
        own = explanation.backends[1]
        assert (own.label, own.note) == ("mine", "it has no exact reference")
        assert (documents(explanation, 1)["d3"].rank, documents(explanation, 1)["d3"].score) == (1, None)
        assert findings(explanation, 1)["d2"] == "expected document: not returned"
    store_check(house, tmp_path / "only", backends=None, corpus=(), against={"mine": answer})
    assert "are the user's own code, and have no exact reference" in refusal(tmp_path / "only", query="q1")


def write_index(folder: Path) -> str:
    """Write precomputed vectors, and an index of those of four documents, which is searched as an existing backend."""
    generator = np.random.default_rng(1)
    for role, names in (("documents", DOCUMENTS), ("queries", QUERIES)):
        np.save(_made(folder) / f"{role}.npy", generator.standard_normal((len(names), 8)).astype(np.float32))
        (folder / f"{role}.ids.txt").write_text("".join(f"{name}\n" for name in names))
    DenseIndex.build(np.load(folder / "documents.npy")[:4]).save(folder / "index")
    (folder / "index" / "ids.txt").write_text("".join(f"{name}\n" for name in list(DOCUMENTS)[:4]))
    return f"flat:model=precomputed:{folder};path={folder / 'index'}"


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def test_an_existing_index_of_a_check_is_explained(house: Path, tmp_path: Path) -> None:
    index = write_index(tmp_path / "vectors")
    folder = store_check(house, tmp_path / "both", against={"mine": index})
    explanation = harness.explain(folder, query="q2")
    words, mine = explanation.backends
    assert (words.kind, mine.label) == ("terms", "mine")
    assert findings(explanation, 1)["d5"] == "expected document: not in the index"
    alone = store_check(house, tmp_path / "alone", backends=None, corpus=(), against={"mine": index})
    explanation = harness.explain(alone, query="q2")
    assert findings(explanation)["d5"] == "expected document: not in the index"
    for backend in (mine, explanation.backends[0]):
        assert backend.kind == "vectors"
        hits = [document for document in backend.documents if document.rank is not None]
        assert [(one.rank, one.score) for one in hits] == [(one.exact_rank, one.exact_score) for one in hits]
        assert len(hits) == 2


def test_a_backend_that_failed_is_named_and_the_others_are_explained(house: Path, tmp_path: Path) -> None:
    folder = store_comparison(house, tmp_path / "failed", backends={"mine": broken, "words": BACKEND})
    explanation = harness.explain(folder, query="q1")
    failed, words = explanation.backends
    assert explanation.failed == ["mine"]
    done = CliRunner().invoke(_build(), ["explain", str(folder), "--query", "q1", "--format", "json"])
    assert done.exit_code == 3, done.output
    assert json.loads(done.stdout)["backends"][0]["failed"]
    assert (failed.label, words.label) == ("mine", "words")
    assert failed.note.startswith("it failed: ")
    assert "the service is down" in failed.note
    assert [document.document for document in words.documents][:2] == ["d1", "d3"]


def test_labels_and_thresholds_of_the_result_are_not_needed_again(house: Path, tmp_path: Path) -> None:
    label = {"query_id": "q1", "doc_id": "d3", "grade": 1, "by": "anna"}
    labels = write_lines(tmp_path / "labels.jsonl", [label])
    folder = store_comparison(house, tmp_path / "compare", labels=labels)
    check = store_check(house, tmp_path / "check", labels=labels, require=["Hit@2>=0.1"])
    labels.unlink()
    assert set(harness.explain(folder, query="q1").expected) == {"d2", "d3", "d4"}
    assert set(harness.explain(check, query="q1").expected) == {"d2", "d3", "d4"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dataset": "x"}, "--dataset with a golden set, whose documents --corpus names"),
        ({"backends": "csr"}, "--backends with a result, whose own hits are explained"),
        ({"match": "document", "delimiter": "#"}, "--match, --delimiter with a result"),
    ],
)
def test_contradictions_are_refused(options: Mapping[str, Any], words: str, house: Path, tmp_path: Path) -> None:
    assert words in refusal(store_check(house, tmp_path / "check"), query="q1", **options)


def test_a_corpus_needs_a_golden_set(house: Path) -> None:
    corpus = str(house / "corpus.jsonl")
    assert "--corpus without a golden set" in (words := refusal(corpus=corpus, backends=BACKEND, query="q1"))
    assert "name it with --golden FILE" in words
    with pytest.raises(UnknownNameError, match="unknown query 'q3' of 'corpus'"):
        harness.explain(golden=str(house / "golden.jsonl"), corpus=corpus, backends=BACKEND, query="q3")
    with pytest.raises(UsageError, match=r"no corpus was given\n  .*: --corpus chunks.jsonl$"):
        harness.explain(golden=GOLDEN, backends=BACKEND, query="q1")


def test_a_question_is_explained_next_to_another_with_a_wrong_id(tmp_path: Path) -> None:
    question = {"question": "fuse", "expected_relevant_doc_ids": ["d1"]}
    wrong = {"id": "q2", "question": "panel", "expected_relevant_doc_ids": ["absent"]}
    golden = write_lines(tmp_path / "golden.jsonl", [{"id": "q1", **question}, wrong])
    corpus = write_lines(tmp_path / "corpus.jsonl", [{"_id": "d1", "text": "fuse panel"}])
    found = harness.explain(golden=str(golden), corpus=str(corpus), backends=BACKEND, query="q1")
    assert list(found.expected) == ["d1"]
    found = harness.explain(golden=str(golden), corpus=str(corpus), backends=BACKEND, query="q2")
    assert list(found.expected) == ["absent"]


def test_the_options_may_stand_in_a_file(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_check(house, tmp_path / "result")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "harness.toml").write_text(
        '[explain]\nresult = "result"\nk = 1\n[judge]\nresult = "result"\nbudget = 1\n'
    )
    done = CliRunner().invoke(_build(), ["explain", "--query", "q1"])
    assert done.exit_code == 0, done.output
    assert "at most 1 of each backend" in done.stdout
    other = f"--backends={BACKEND}"
    done = CliRunner().invoke(_build(), ["explain", "--query", "q1", "--dataset", str(house), other])
    assert done.exit_code == 0, done.output
    assert "harness explain: house" in done.stdout, "backends of the command line come before a result of the file"
    table = '[explain]\ndataset = "nowhere"\nbackends = "lucene"\nfilter = ["a=b"]\n'
    (tmp_path / "further.toml").write_text(table)
    words = ["explain", "result", "--query", "q1", "--config", "further.toml"]
    done = CliRunner().invoke(_build(), words)
    assert done.exit_code == 0, done.output
    assert "options from" not in done.stderr
    done = CliRunner().invoke(_build(), ["judge"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("1 document of 1 query to judge: ")
