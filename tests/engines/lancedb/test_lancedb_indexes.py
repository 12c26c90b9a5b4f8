"""What LanceDB's indexes answer with, and that the harness says so: scale of distances, codes, rows in no index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pytest
from installed import skip_module_without
from lancedb_tables import TABLE, write_table

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.engines.lancedb.engine import LanceDbEngine
from harness.errors import BackendError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.testing.expected import random_unit_vectors

skip_module_without("lancedb")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["lancedb"].defaults
VECTORS = random_unit_vectors(1, 600, 32) * np.linspace(0.5, 3, 600, dtype=np.float32)[:, None]
GIVEN = Inputs(Ids.of(f"d{row}" for row in range(600)), dense=VECTORS)
ASKED = Inputs(Ids.of(f"q{row}" for row in range(5)), dense=random_unit_vectors(2, 5, 32))
COSINES = ASKED.dense @ (VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)).T


@contextmanager
def built(folder: Path, **parameters: ParameterValue) -> Iterator[LanceDbEngine]:
    folder.mkdir()
    with closing(LanceDbEngine({**DEFAULTS, **parameters})) as engine:
        engine.open(folder, GIVEN.ids)
        engine.index(GIVEN, RecordingProgress(), perf_counter_ns)
        yield engine


@contextmanager
def attached(work: Path, path: Path, **parameters: ParameterValue) -> Iterator[tuple[LanceDbEngine, IndexHandle]]:
    work.mkdir()
    given = {**DEFAULTS, "similarity": "", "external": True, "path": str(path), "table": TABLE, **parameters}
    with closing(LanceDbEngine(given)) as engine:
        yield engine, engine.attach(work, RecordingProgress())


def off(engine: LanceDbEngine, rows_of: np.ndarray | None = None) -> float:
    """The largest distance of a score from the cosine."""
    hits = engine.search(ASKED, 10, perf_counter_ns)
    rows = hits.rows if rows_of is None else rows_of[hits.rows]
    expected = COSINES[np.repeat(np.arange(5), np.diff(hits.indptr)), rows]
    return float(np.abs(hits.scores - expected).max())


@pytest.mark.parametrize("index", ["ivf_sq", "hnsw_sq", "ivf_pq", "hnsw_pq"])
def test_scores_of_codes_are_cosines_up_to_the_codes(index: str, tmp_path: Path) -> None:
    """LanceDB gives 2 - 2 cos for them, and 1 - cos where it measures again: both become cosines."""
    codes: dict[str, ParameterValue] = {"index": index, "sub_vectors": 16, "partitions": 1}
    with built(tmp_path / "codes", **codes) as engine:
        assert 1e-5 < off(engine) < 0.1
        (note,) = engine.caveats(10).notes
        assert note.startswith("scores are computed from the codes of its Ivf")
    with built(tmp_path / "refined", **codes, refine_factor=4) as engine:
        assert off(engine) < 1e-6
        assert engine.caveats(10).notes == ()


def test_rows_in_no_index_are_told_and_scores_are_exact_then(tmp_path: Path) -> None:
    first = Inputs(Ids.of(list(GIVEN.ids)[:400]), dense=VECTORS[:400])
    table = write_table(tmp_path / "theirs", first, index="IvfSq")
    table.add(write_table(tmp_path / "rest", Inputs(Ids.of(list(GIVEN.ids)[400:]), dense=VECTORS[400:])).to_arrow())
    with attached(tmp_path / "work", tmp_path / "theirs") as (engine, index):
        assert (index.state["indexed_rows"], index.state["unindexed_rows"]) == (400, 200)
        assert off(engine, GIVEN.ids.rows_of(index.ids)) < 1e-6
        assert engine.caveats(10).notes == ("200 rows are in no index, and every search scans these",)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"table": "other"}, f"there is no LanceDB table 'other' in .*name an existing table: '{TABLE}'"),
        ({"table": ""}, "no external table is named.*give table= with path="),
        ({"id_column": "page_no"}, "has no column 'page_no' that can be the id_column.*it has: 'id', 'page'"),
        ({"vector_column": "vec"}, "has no column 'vec' that can be the vector_column.*it has: 'embedding'"),
        ({"similarity": "dot"}, "is for cosine, and LanceDB scans without it for similarity=dot"),
    ],
    ids=["table", "no table", "ids", "vectors", "similarity"],
)
def test_what_cannot_be_searched_rightly_is_refused(
    parameters: dict[str, ParameterValue], message: str, tmp_path: Path
) -> None:
    write_table(tmp_path / "theirs", GIVEN, index="IvfFlat")
    with (
        pytest.raises(BackendError, match=f"(?s){message}"),
        attached(tmp_path / "work", tmp_path / "theirs", **parameters),
    ):
        pass


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_table_is_proven_to_hold_the_vectors(dtype: str, tmp_path: Path) -> None:
    texts = [f"text {row}" for row in range(600)]
    write_table(tmp_path / "theirs", GIVEN, texts=texts, dtype=dtype)
    with attached(tmp_path / "work", tmp_path / "theirs", similarity="cosine") as (engine, index):
        rows = np.arange(600, dtype=np.int32)
        assert index.ids.to_list() == GIVEN.ids.to_list()
        assert engine.mismatch(ExpectedContent(rows, GIVEN, ASKED), RecordingProgress()) is None
        longer = Inputs(GIVEN.ids, dense=VECTORS * 2)  # of the same cosines
        assert engine.mismatch(ExpectedContent(rows, longer, ASKED), RecordingProgress()) is None
        other = VECTORS.copy()
        other[7, 3] += 1e-2
        changed = Inputs(GIVEN.ids, dense=other)
        reason = engine.mismatch(ExpectedContent(rows, changed, ASKED), RecordingProgress())
        assert reason.startswith(
            "1 documents have other vectors than the encoder gives, 'd7' first; values differ by up to "
        )
        stored = engine.stored_documents(3)
        assert (stored.rows.tolist(), stored.texts) == ([0, 299, 599], ("text 0", "text 299", "text 599"))
        assert np.array_equal(stored.dense, VECTORS[[0, 299, 599]].astype(dtype).astype(np.float32))


def test_a_filter_leaves_k_of_those_that_match(tmp_path: Path) -> None:
    import pyarrow as pa

    folder = tmp_path / "index"
    folder.mkdir()
    values = pa.array([f"it's {row % 50}" for row in range(600)])
    metadata = pa.table({"a.b": values, "plain": pa.array([None if row % 2 else "x" for row in range(600)])})
    with closing(LanceDbEngine({**DEFAULTS, "index": "hnsw_flat"})) as engine:
        engine.open(folder, GIVEN.ids)
        engine.index(Inputs(GIVEN.ids, dense=VECTORS, metadata=metadata), RecordingProgress(), perf_counter_ns)
        engine.restrict({"a.b": "it's 8", "plain": "x"})
        hits = engine.search(ASKED, 12, perf_counter_ns)
        assert (np.diff(hits.indptr) == 12).all()
        assert set((hits.rows % 50).tolist()) == {8}


@pytest.mark.parametrize("index", ["ivf_sq", "hnsw_sq", "ivf_pq", "hnsw_pq", "ivf_rq"])
def test_the_same_documents_are_measured_again(tmp_path: Path, index: str) -> None:
    """With the vectors in place of the codes their scores are the cosines: the proof that codes are the cause."""
    with built(tmp_path / index, index=index) as engine:
        hits = engine.search(ASKED, 10, perf_counter_ns)
        measured = engine.remeasured(ASKED, 10)["dense"]
    queries = np.repeat(np.arange(5), 10)
    assert sorted(zip(queries, measured.rows, strict=True)) == sorted(zip(queries, hits.rows, strict=True))
    assert np.abs(measured.scores - COSINES[queries, measured.rows]).max() < 1e-6


def test_vectors_are_not_measured_again_where_they_were(tmp_path: Path) -> None:
    for name, parameters in (("flat", {}), ("refined", {"index": "ivf_pq", "refine_factor": 2})):
        with built(tmp_path / name, **parameters) as engine:
            assert engine.remeasured(ASKED, 10) == {}
