"""A second stage by vectors that are there: the scores of exact dense search, from the candidates' vectors alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.data import ranking
from harness.data.memory import run_from_dict
from harness.data.types import Ids
from harness.errors import DataError
from harness.exact.dense import DenseIndex
from harness.worker.second_stages import SecondStage
from harness.worker.vectors import DensePair

DOCUMENTS, QUERIES, DIMENSIONS = 50, 4, 7
FIRST = run_from_dict(
    {
        "q2": {"d7": 3.0, "d40": 2.0, "d3": 1.0},
        "q0": {"d40": 5.0, "d41": 4.0},
        "q3": {},
        "q1": {"d3": 1.0, "d7": 0.5, "d8": 0.25},
    }
)


def stage() -> SecondStage:
    corpus = SimpleNamespace(ids=Ids.of(f"d{number}" for number in range(DOCUMENTS)))
    queries = SimpleNamespace(ids=Ids.of(f"q{number}" for number in range(QUERIES)))
    dataset: Any = SimpleNamespace(name="made", corpus=corpus, queries=queries, candidates=None)
    nothing: Any = None
    return SecondStage(dataset, Path(), Path(), nothing, nothing, Path(), nothing)


def vectors() -> DensePair:
    generator = np.random.default_rng(5)
    documents = generator.standard_normal((DOCUMENTS, DIMENSIONS)).astype(np.float32)
    return DensePair(documents, generator.standard_normal((QUERIES, DIMENSIONS)).astype(np.float32))


def trial(similarity: str) -> Any:
    return SimpleNamespace(parameters={"similarity": similarity, "candidates": 100}, spec=SimpleNamespace(name="dense"))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_scores_are_bit_for_bit_those_of_an_index_of_all_documents(
    similarity: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = vectors()
    candidates = ranking.order(FIRST)
    asked = [int(name[1:]) for name in candidates.query_ids]
    rows = np.array([int(name[1:]) for name in candidates.doc_ids.take(candidates.rows)], dtype=np.int32)
    whole = DenseIndex.build(pair.documents)
    expected = whole.score(pair.queries[asked], candidates.indptr, rows, similarity=similarity)
    built: list[int] = []
    build = DenseIndex.build

    def counted(documents: Any) -> DenseIndex:
        built.append(len(documents))
        return build(documents)

    monkeypatch.setattr("harness.worker.second_stages.DenseIndex", SimpleNamespace(build=counted))
    run, reranked = stage().run_with_vectors(trial(similarity), FIRST, pair)
    assert reranked.scores.tobytes() == expected.tobytes()
    assert built == [len(set(rows.tolist()))], "the vectors of the candidates alone, each once"
    assert run.indptr.tolist() == candidates.indptr.tolist()


def test_zero_vectors_have_no_cosine_and_matter_only_where_they_are_candidates() -> None:
    pair = vectors()
    pair.documents[20] = 0
    stage().run_with_vectors(trial("cosine"), FIRST, pair)
    pair.documents[[7, 40]] = 0
    with pytest.raises(DataError, match="2 candidates have a zero vector, which has no cosine, among them: d7, d40"):
        stage().run_with_vectors(trial("cosine"), FIRST, pair)
    stage().run_with_vectors(trial("dot"), FIRST, pair)


def test_no_candidates() -> None:
    run, reranked = stage().run_with_vectors(trial("cosine"), run_from_dict({"q1": {}}), vectors())
    assert (run.hits, len(reranked.scores)) == (0, 0)
