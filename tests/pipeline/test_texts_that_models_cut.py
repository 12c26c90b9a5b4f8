"""Texts that models cut, in a comparison and a check: what is counted, kept in the cache, reported and shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from installed import skip_module_without
from tiny_models import tiny_dense
from tiny_rerankers import save_classifier

import harness
from harness.results.comparison import Comparison

skip_module_without("sentence_transformers")

LONG = "the dog sat on the mat and the cat sat on the dog in the garden " * 6
CORPUS = {
    "d1": f"{LONG} zeppelin",
    "d2": f"{LONG} light rail",
    **{f"s{n}": f"gardens need water {n}" for n in range(6)},
}
QUERIES = {"q1": "zeppelin", "q2": "light rail", "q3": f"{LONG} station"}
QRELS = {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"s1": 1}}


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("models")
    dense, one = tiny_dense(folder / "dense"), save_classifier(folder / "one")
    return [
        f"dense=flat:model={dense};device=cpu",
        "words=csr:analyzer=snowball-english",
        f"pairs=csr:analyzer=snowball-english|cross-encoder:model={one};device=cpu",
        "random=flat:model=random",
    ]


def compare(backends: list[str]) -> Comparison:
    dataset = harness.Dataset.of(CORPUS, QUERIES, QRELS, name="long")
    return harness.compare(backends, dataset, k=5, metrics="nDCG@5", timing=False, isolation="none")


def counts(comparison: Comparison) -> Mapping[str, list[tuple[object, ...]]]:
    return {
        trial.label: [
            (part.texts, part.number, part.counted, part.truncated, part.relevant, part.limit)
            for part in trial.truncation
        ]
        for trial in comparison.report.trials
    }


def test_what_is_cut_is_reported_and_is_known_again_from_the_cache(backends: list[str], tmp_path: Path) -> None:
    comparison = compare(backends)
    expected = {
        "dense": [("documents", 8, 8, 2, 2, 64), ("queries", 3, 3, 1, None, 64)],
        "words": [],
        "random": [("documents", 8, 0, 0, None, None), ("queries", 3, 0, 0, None, None)],
    }
    found = dict(counts(comparison))
    (pairs,) = found.pop("pairs")
    assert found == expected
    assert pairs[0] == "pairs"
    assert pairs[2] == pairs[1]
    assert pairs[4] == 2  # d1 for q1, d2 for q2
    assert pairs[5] == 32

    named = {finding.backend: finding for finding in comparison.report.findings if finding.check == "truncated-texts"}
    assert set(named) == {"dense", "pairs"}
    assert "2 of 8 documents are longer than 64 tokens, 2 of them relevant" in named["dense"].message
    assert "32 tokens, 2 of them relevant" in named["pairs"].message
    for form in ("table", "markdown"):
        assert "truncated-texts" in comparison.render(form)
    assert "truncated-texts" in comparison.html()
    assert "Texts longer than the model reads" in comparison.render("table", verbose=True)
    assert "Texts longer than the model reads" not in comparison.render("table")

    again = compare(backends)
    assert counts(again) == counts(comparison)
    (stages,) = [trial.stages for trial in again.report.trials if trial.label == "pairs"]
    assert stages is not None
    assert stages.reranking is not None
    assert stages.reranking.scored == 0
    digests = [again.trial("dense").encoder["model_digest"], stages.reranking.facts["model_digest"]]
    assert [len(str(digest)) for digest in digests] == [64, 64]
    assert digests[0] != digests[1]


def test_a_check_knows_that_expected_documents_are_cut(backends: list[str]) -> None:
    golden = [{"id": query, "question": QUERIES[query], "expected": list(QRELS[query])} for query in QUERIES]
    dataset = harness.Dataset.of(CORPUS, QUERIES, None, name="long")
    checked = harness.check(golden, corpus=dataset, backends=[backends[0], backends[2]], k=5, isolation="none")
    assert {
        trial.label: [(part.texts, part.relevant) for part in trial.truncation]
        for trial in checked.report.trials
        if trial.truncation
    } == {
        "dense": [("documents", 2), ("queries", None)],
        "pairs": [("pairs", 2)],
    }
    assert [warning.backend for warning in checked.report.warnings if warning.check == "truncated-texts"] == [
        "dense",
        "pairs",
    ]
    assert "Texts longer than the model reads" in checked.render("table", verbose=True)
