"""Scores of compressed vectors are those of what the index gives back, to float32's rounding; others are refused."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pytest
from installed import skip_without

from harness.data.inputs import Inputs
from harness.data.types import Ids, Similarity
from harness.engines.base import Engine
from harness.errors import RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing.expected import DenseSample, dense_scores, random_unit_vectors
from harness.testing.samples import RecordingProgress

CARDS = find_cards("backends")
LENGTHS = np.linspace(0.5, 3, 400, dtype=np.float32)[:, None]
GIVEN = Inputs(Ids.of(f"d{row}" for row in range(400)), dense=random_unit_vectors(1, 400, 32) * LENGTHS)
ASKED = Inputs(Ids.of(f"q{row}" for row in range(5)), dense=random_unit_vectors(2, 5, 32))
TOLERANCE = 2e-6


def made(name: str, **parameters: ParameterValue) -> Engine[np.ndarray]:
    """An engine, not yet open."""
    if name == "faiss":
        skip_without("faiss")
        from harness.engines.faiss.engine import FaissEngine

        return FaissEngine({**CARDS[name].defaults, **parameters})
    skip_without("usearch")
    from harness.engines.usearch import UsearchEngine

    return UsearchEngine({**CARDS[name].defaults, **parameters})


SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "l2")
INDEXES = ("SQ8", "SQ4", "SQfp16", "SQbf16", "PQ8x4np", "IVF4,SQ8", "IVF4,PQ8x4np", "HNSW8_SQ8", "PCA16,Flat")
"""Codes of products that are not sorted for another use (np): that takes a second of each training."""


@pytest.mark.parametrize(
    ("name", "parameters", "similarity"),
    [
        *(("faiss", {"index": index, "nprobe": 2}, one) for index in INDEXES for one in SIMILARITIES),
        *(("usearch", {"datatype": kind}, one) for kind in ("bf16", "f16", "e5m2", "e4m3") for one in SIMILARITIES),
        ("usearch", {"datatype": "i8"}, "cosine"),
        ("faiss", {"index": "HNSW8_PQ8x4"}, "l2"),
        ("faiss", {"index": "OPQ8,PQ8x4np"}, "dot"),
    ],
)
def test_scores_are_those_of_the_vectors_that_are_given_back(
    name: str, parameters: dict[str, ParameterValue], similarity: Similarity, tmp_path: Path
) -> None:
    with closing(made(name, similarity=similarity, **parameters)) as engine:
        engine.open(tmp_path, GIVEN.ids)
        engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        hits = engine.search(ASKED, 20, perf_counter_ns)
        compared = engine.compared_vectors(ASKED)
        whole = dense_scores(DenseSample(GIVEN.dense, ASKED.dense), similarity)
    assert compared is not None
    stored = dense_scores(DenseSample(compared.documents, compared.queries), compared.similarity)
    queries = np.repeat(np.arange(5), np.diff(hits.indptr))
    scale = whole.scale[queries]
    assert np.abs(hits.scores - stored.scores[queries, hits.rows]).max() <= TOLERANCE * scale.max()
    assert np.abs(hits.scores - whole.scores[queries, hits.rows]).max() > TOLERANCE * scale.max(), "nothing is lost"


@pytest.mark.parametrize("name", ["faiss", "usearch"])
def test_whole_vectors_are_not_given_back(name: str, tmp_path: Path) -> None:
    with closing(made(name)) as engine:
        engine.open(tmp_path, GIVEN.ids)
        engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        assert engine.compared_vectors(ASKED) is None


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("PQ7x4", "FAISS makes no index of 'PQ7x4' for 32 dimensions and similarity=cosine"),
        ("IVF500,Flat", "Number of training points"),
        (
            "PCA1000,Flat",
            r"of 400 documents of 32 dimensions: PCA matrix .*\n  choose an index with fewer output dimensions",
        ),
    ],
)
def test_what_cannot_be_built_of_these_vectors_is_refused(index: str, said: str, tmp_path: Path) -> None:
    with closing(made("faiss", index=index)) as engine:
        engine.open(tmp_path, GIVEN.ids)
        with pytest.raises(RejectedInputError, match=said):
            engine.index(GIVEN, RecordingProgress(), perf_counter_ns)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("PQ8x4fs", "the scores of FAISS's IndexPQFastScan are estimates"),
        ("IVF4,RaBitQ", "the scores of FAISS's IndexIVFRaBitQ are estimates"),
        ("HNSW8_PQ8x4", "FAISS's factory makes 'HNSW8_PQ8x4' for l2 only"),
        ("IVF0,Flat", "this IndexIVFFlat has no lists"),
        ("HNSW1", "this IndexHNSWFlat has fewer than two links for each vector"),
        ("IVF4_HNSW1,Flat", "this IndexHNSWFlat has fewer than two links for each vector"),
        ("IDMap,Flat", "this IndexIDMap is for user-defined ids, but the harness numbers documents itself"),
        ("Flat,IDMap2", "this IndexIDMap2 is for user-defined ids"),
        ("Flatt", "FAISS makes no index of 'Flatt' for any number of dimensions and similarity=cosine"),
    ],
)
def test_what_cannot_be_explained_or_is_no_index_is_refused_at_once(index: str, said: str) -> None:
    with pytest.raises(RejectedInputError, match=said):
        made("faiss", index=index)


def test_more_candidates_than_memory_holds_are_refused(tmp_path: Path) -> None:
    with closing(made("faiss", index="Flat,RFlat", k_factor=1e12)) as engine:
        engine.open(tmp_path, GIVEN.ids)
        engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        with pytest.raises(RejectedInputError, match=r"candidates of one search of k=5\n  lower k_factor"):
            engine.search(ASKED, 5, perf_counter_ns)


def test_candidates_that_whole_vectors_refine_have_exact_scores(tmp_path: Path) -> None:
    with closing(made("faiss", index="PQ8x4fs,RFlat", k_factor=4.0)) as engine:
        engine.open(tmp_path, GIVEN.ids)
        report = engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        hits = engine.search(ASKED, 20, perf_counter_ns)
        assert engine.compared_vectors(ASKED) is None
        assert engine.searched_state(20)["approximate"] is True
    assert report.state["index"] == "IndexRefineFlat > IndexPQFastScan"
    exact = dense_scores(DenseSample(GIVEN.dense, ASKED.dense), "cosine").scores
    queries = np.repeat(np.arange(5), np.diff(hits.indptr))
    assert np.abs(hits.scores - exact[queries, hits.rows]).max() < TOLERANCE
