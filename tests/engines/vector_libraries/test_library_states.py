"""What the libraries say they built, what a filter cannot do, and answers that are shorter than was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from installed import skip_module_without

from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.base import Engine, Filterable
from harness.engines.duckdb import DuckdbEngine
from harness.engines.faiss.engine import FaissEngine
from harness.engines.hnswlib import HnswlibEngine
from harness.engines.interface import IndexReport
from harness.engines.usearch import UsearchEngine
from harness.errors import RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.optional import versions_of
from harness.registry.parameters import ParameterValue
from harness.testing.expected import random_unit_vectors
from harness.testing.samples import RecordingProgress

skip_module_without("faiss", "usearch", "hnswlib", "duckdb")

CARDS = find_cards("backends")
ENGINES: dict[str, type[Engine[Any]]] = {
    "faiss": FaissEngine,
    "usearch": UsearchEngine,
    "hnswlib": HnswlibEngine,
    "duckdb": DuckdbEngine,
}
COUNT, K = 500, 10
HALVES = pa.table({"half": strings(str(row % 2) for row in range(COUNT))})
GIVEN = Inputs(Ids.of(f"d{row}" for row in range(COUNT)), dense=random_unit_vectors(1, COUNT, 32), metadata=HALVES)
ASKED = Inputs(Ids.of(f"q{row}" for row in range(8)), dense=random_unit_vectors(2, 8, 32))


@contextmanager
def built(
    folder: Path, name: str, documents: Inputs = GIVEN, **parameters: ParameterValue
) -> Iterator[tuple[Any, IndexReport]]:
    folder.mkdir(exist_ok=True)
    with closing(ENGINES[name]({**CARDS[name].defaults, **parameters})) as engine:
        engine.open(folder, documents.ids)
        yield engine, engine.index(documents, RecordingProgress(), perf_counter_ns)


def rows(engine: Engine[Any]) -> list[int]:
    hits: list[int] = engine.search(ASKED, K, perf_counter_ns).rows.tolist()
    return hits


@pytest.mark.parametrize("name", ENGINES)
def test_a_stored_trial_is_kept_by_the_version_of_the_library(name: str, tmp_path: Path) -> None:
    identity = versions_of(*ENGINES[name].packages)
    with built(tmp_path, name) as (engine, _):
        assert list(identity.values()) == [engine.info().version]


@pytest.mark.parametrize(
    ("name", "parameters", "wanted"),
    [
        ("faiss", {}, {"index": "IndexFlatIP", "vectors_in_graph": 0, "code_bytes": 128, "exact_vectors": True}),
        ("faiss", {"index": "HNSW16"}, {"index": "IndexHNSWFlat > IndexFlatIP", "vectors_in_graph": 500}),
        ("faiss", {"index": "IVF5,Flat"}, {"lists": 5, "empty_lists": 0, "vectors_in_lists": 500, "trained": True}),
        ("faiss", {"index": "PQ8x4"}, {"index": "IndexPQ", "code_bytes": 4, "exact_vectors": False}),
        ("usearch", {"datatype": "f16"}, {"datatype": "f16", "vectors_in_graph": 500, "m": 16}),
        ("hnswlib", {"m": 8}, {"m": 8, "vectors_in_graph": 500, "ef_construction": 200}),
        ("duckdb", {}, {"vectors_in_graph": 0, "row_groups": 1}),
    ],
)
def test_the_state_is_what_was_built(
    name: str, parameters: dict[str, ParameterValue], wanted: dict[str, ParameterValue], tmp_path: Path
) -> None:
    with built(tmp_path, name, **parameters) as (_, report):
        assert {key: report.state[key] for key in wanted} == wanted
        assert report.state["dimensions"] == 32


def test_lists_that_are_all_probed_miss_nothing(tmp_path: Path) -> None:
    with built(tmp_path / "some", "faiss", index="IVF5,Flat", nprobe=2) as (engine, _):
        assert engine.searched_state(K) == {"approximate": True, "probed_lists": 2}
    with built(tmp_path / "all", "faiss", index="IVF5,Flat", nprobe=9) as (engine, _):
        assert engine.searched_state(K) == {"approximate": False, "probed_lists": 5}
        best = np.argsort(-(ASKED.dense @ GIVEN.dense.T), axis=1, kind="stable")[:, :K]
        assert rows(engine) == best.ravel().tolist()


@pytest.mark.parametrize("index", ["HNSW8", "IVF20,Flat"])
def test_another_seed_is_another_index(index: str, tmp_path: Path) -> None:
    found = []
    for number, seed in enumerate((1, 1, 2)):
        with built(tmp_path / str(number), "faiss", index=index, build_seed=seed, ef=1) as (engine, _):
            found.append(rows(engine))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_little_training_and_parameters_without_effect_are_told(tmp_path: Path) -> None:
    with built(tmp_path / "lists", "faiss", index="IVF20,Flat") as (engine, _):
        notes, without = engine.caveats(K)
    (note,) = notes
    assert note.startswith("IndexIVFFlat was trained with 500 documents for 20 centroids, but FAISS needs 780 or more")
    assert set(without) == {"ef", "ef_construction", "k_factor"}
    with built(tmp_path / "flat", "faiss") as (engine, _):
        assert engine.caveats(K).notes == ()
    for name, parameters in (("faiss", {"index": "HNSW8"}), ("hnswlib", {}), ("usearch", {})):
        with built(tmp_path / name, name, build_threads=2, **parameters) as (engine, _):
            assert engine.caveats(K).notes == ("several threads made the graph: another build is another graph",)


@pytest.mark.parametrize("index", ["PQ8x4", "NSG8"])
def test_an_index_that_faiss_cannot_filter_says_so(index: str, tmp_path: Path) -> None:
    with built(tmp_path, "faiss", index=index) as (engine, _), pytest.raises(RejectedInputError) as caught:
        engine.restrict({"half": "1"})
    assert str(caught.value).startswith("FAISS filters no Index")


def test_a_changed_graph_of_usearch_grows_as_it_was_built(tmp_path: Path) -> None:
    """``ef_construction`` is not in its file."""
    given = replace(GIVEN, metadata=None)
    with built(tmp_path / "whole", "usearch", given, ef_construction=2) as (_, whole):
        pass
    with built(tmp_path / "grown", "usearch", given.slice(0, 250), ef_construction=2) as (engine, _):
        grown = engine.apply(Ids.of([]), given.slice(250, COUNT), RecordingProgress(), perf_counter_ns)
    assert grown.state["graph_links"] == pytest.approx(whole.state["graph_links"], rel=0.05)


def test_usearch_declares_no_filters() -> None:
    assert not UsearchEngine.capabilities.filters
    assert not issubclass(UsearchEngine, Filterable)


def test_hnswlib_gives_all_that_its_graph_reaches(tmp_path: Path) -> None:
    """A graph of the inner product whose longest vectors are the neighbours of all leaves others out of reach."""
    lengths = np.geomspace(0.01, 100, COUNT, dtype=np.float32)[:, None]
    uneven = replace(GIVEN, dense=GIVEN.dense * lengths)
    with built(tmp_path, "hnswlib", uneven, similarity="dot", m=2, ef_construction=2) as (engine, _):
        hits = engine.search(ASKED, COUNT, perf_counter_ns)
        returned = np.diff(hits.indptr)
        assert (returned > 0).all()
        assert (returned < COUNT).any(), "every document was reached"
        (note,) = engine.caveats(COUNT).notes
        assert note.startswith(f"hnswlib's graph reached fewer documents than requested in {(returned < COUNT).sum()}")
        for query, (start, stop) in enumerate(zip(hits.indptr[:-1], hits.indptr[1:], strict=True)):
            exact = uneven.dense[hits.rows[start:stop]] @ ASKED.dense[query]
            assert np.abs(hits.scores[start:stop] - exact).max() < 1e-4


@pytest.mark.parametrize("name", ENGINES)
def test_the_distance_of_equal_vectors_is_no_negative_zero(name: str, tmp_path: Path) -> None:
    """It would not be the reference's 0 to the bit."""
    assert GIVEN.dense is not None
    with built(tmp_path, name, similarity="l2") as (engine, _):
        hits = engine.search(Inputs(Ids.of(["q"]), dense=GIVEN.dense[:1]), 1, perf_counter_ns)
    assert (hits.rows[0], hits.scores[0], np.signbit(hits.scores[0])) == (0, 0.0, False)
