"""`harness judge` of stored results of every kind: the right page or a precise refusal."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from stored_results import (
    BACKEND,
    DOCUMENTS,
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
from harness.errors import HarnessError, UsageError

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]


@pytest.fixture
def house(tmp_path: Path) -> Path:
    return write_dataset(tmp_path / "house")


def pooled(result: Any, **options: Any) -> dict[str, set[str]]:
    """Return the documents to judge by query."""
    documents: dict[str, set[str]] = {}
    for query in harness.judge(result, **options).pool.queries:
        documents.setdefault(query.query, set()).update(query.documents)
    return documents


def refusal(result: Any, **options: Any) -> str:
    with pytest.raises(HarnessError) as error:
        harness.judge(result, **options)
    return f"{error.value.problem} | {error.value.fix}"


def test_a_comparison_a_regression_and_their_difference_have_one_pool(house: Path, tmp_path: Path) -> None:
    before = store_comparison(house, tmp_path / "before", k=5)
    options: dict[str, Any] = {"timing": False, "isolation": "none", "out": tmp_path / "after"}
    regression = harness.regress(before, set=["csr:k1=2"], **options)
    difference = harness.diff(before, tmp_path / "after", out=tmp_path / "diff")
    stored = harness.Comparison.load(before)
    results = (before, before / "report.json", stored, tmp_path / "after", regression, tmp_path / "diff", difference)
    for result in results:
        assert pooled(result) == {"q1": {"d3"}, "q2": {"d2", "d4"}}
    stored.save_baseline(tmp_path / "baseline.json")
    assert "is a baseline, and no result" in refusal(tmp_path / "baseline.json")
    assert "no result at" in refusal(house)
    done = CliRunner().invoke(_build(), ["judge", str(before), "--format", "json"])
    assert "--format without --with or --agreement" in str(done.exception)
    assert "--budget is 0" in str(CliRunner().invoke(_build(), ["judge", str(before), "--budget", "0"]).exception)
    moved = shutil.move(before, tmp_path / "archive")
    assert pooled(moved) == {"q1": {"d3"}, "q2": {"d2", "d4"}}
    assert "the rankings of the compared results cannot be read" in refusal(tmp_path / "diff")
    shutil.move(house, tmp_path / "elsewhere")
    message = refusal(moved)
    assert "documents cannot be judged without their texts" in message
    assert "does not exist" in message
    assert "put the data back where they were" in message


def test_checks_are_judged_also_of_backends_that_return_no_scores(house: Path, tmp_path: Path) -> None:
    assert pooled(store_check(house, tmp_path / "check", k=5)) == {"q1": {"d1", "d3"}, "q2": {"d2", "d4"}}
    only = store_check(house, tmp_path / "only", backends=None, corpus=(), against={"mine": answer}, k=5)
    assert "the backends have their own, and returned only ids" in refusal(only)
    both = store_check(house, tmp_path / "both", against={"mine": answer}, k=5)
    assert pooled(both) == {"q1": {"d1", "d3"}, "q2": {"d1", "d2", "d3", "d4"}}
    corpora = [f"small={house / 'corpus.jsonl'}", f"large={house / 'corpus.jsonl'}"]
    assert "a check of 2 corpora cannot be judged" in refusal(store_check(house, tmp_path / "two", corpus=corpora))
    questions = [{"id": "g", "question": "fuse panel", "expected": [["d3", "d2"]]}]
    write_lines(house / "golden.jsonl", questions)
    assert pooled(store_check(house, tmp_path / "groups", k=5)) == {"g": {"d1"}}


def test_a_metric_has_the_name_that_the_check_or_the_user_gives_it(house: Path, tmp_path: Path) -> None:
    check = store_check(house, tmp_path / "check", backends=f"{BACKEND},{BACKEND};b=0", k=5)
    for options, name in (({}, "Hit@5"), ({"metric": "mrr@5"}, "MRR@5"), ({"metric": "Recall@20"}, "Recall@20")):
        assert f" {name} " in harness.judge(check, depth=5, **options).settled
    with pytest.raises(UsageError, match=r"'GMAP>=0.5': GMAP is not a mean over questions"):
        store_check(house, tmp_path / "gmap", require="GMAP>=0.5", k=5)


def test_options_of_another_call_are_refused(house: Path, tmp_path: Path) -> None:
    folder = store_comparison(house, tmp_path / "result")
    assert refusal(folder, model="openai:model=x", max_calls=1).startswith("model=, max_calls= are not for a page")
    assert "grade with harness.grade_documents(model, result)" in refusal(folder, prompt="mine.txt")
    assert "agreement= is not for a page" in refusal(folder, agreement=["a.jsonl", "b.jsonl"])
    with pytest.raises(UsageError, match="page= is not for a model"):
        harness.grade_documents("openai:model=x", folder, page="page.html")


def test_failed_backends_samples_and_several_datasets(house: Path, tmp_path: Path) -> None:
    one = store_comparison(house, tmp_path / "one", backends={"mine": broken, "words": BACKEND}, k=5)
    assert pooled(one) == {"q1": {"d3"}, "q2": {"d2", "d4"}}
    all_failed = store_comparison(house, tmp_path / "all", backends={"mine": broken})
    assert "no backend returned a document" in refusal(all_failed)
    sampled = store_comparison(house, tmp_path / "sampled", sample_queries=1, k=5)
    assert len(pooled(sampled)) == 1
    other = write_dataset(tmp_path / "garage", {**DOCUMENTS, "d6": "fuse fuse panel"})
    both = store_comparison(house, tmp_path / "both", dataset=[str(house), str(other)], k=5)
    assert pooled(both)["q1"] == {"d3", "d6"}


@pytest.mark.parametrize("store", [store_check, store_comparison])
def test_a_result_without_texts_is_refused(store: Callable[..., Path], house: Path, tmp_path: Path) -> None:
    assert "documents cannot be judged without their texts" in refusal(store(house, tmp_path / "r", no_text=True, k=5))


def test_a_result_in_memory_is_stored_first(tmp_path: Path) -> None:
    comparison = harness.compare(dataset=Dataset.of(DOCUMENTS, QUERIES, name="house"), **QUICK)
    assert refusal(comparison) == "the result is not stored | store it first: result.save(FOLDER)"
    assert "unknown dataset 'house'" in refusal(comparison.save(tmp_path / "stored"))
