"""Engines of dense and learned sparse vectors through the command line and through harness.compare."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from installed import skip_without
from small_world import write_collection
from warm_harness import harness_command

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.results import schema
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import random_unit_vectors

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

OWN_MODEL = """
import numpy as np

WORDS = ["cat", "garden", "light", "station", "dog", "mat", "water"]

def counts(texts):
    return np.array([[text.split().count(word) + 0.01 for word in WORDS] for text in texts])

class Words:
    encode = staticmethod(counts)

class Sparse:
    def encode_documents(self, texts):
        return [{column: weight for column, weight in enumerate(row) if weight > 0.5} for row in counts(texts)]
    encode_queries = encode_documents
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection, a module `own_model`, and a cache."""
    (tmp_path / "own_model.py").write_text(OWN_MODEL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_model", raising=False)  # of another test
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return write_collection(tmp_path / "small")


def compared(small: Path, *backends: str) -> list[schema.TrialResult]:
    """What each backend came to; all of them are well."""
    comparison = harness.compare(list(backends), small, k=3, timing=False, isolation="none", out=small.parent / "out")
    assert comparison.failed == []
    return comparison.report.trials


def test_qdrant_finds_dense_vectors_scanned_and_by_a_graph(small: Path) -> None:
    skip_without("qdrant_edge")
    model = "model=python:own_model:Words"
    graph = "indexing_threshold_kb=1;full_scan_threshold_kb=1"
    scanned, dot, quantised = compared(
        small,
        f"qdrant-dense:{model}",
        f"qdrant-dense:{model};similarity=dot;exact=true;{graph}",
        f"qdrant-dense:{model};quantization=scalar;rescore=true;oversampling=2.0;{graph}",
    )
    assert scanned.index is not None
    assert scanned.index.state["vectors_in_graph"] == 0
    for result in (scanned, dot, quantised):
        assert result.metrics["RR@10"].mean == 1.0


def test_qdrant_finds_learned_sparse_vectors_as_exactly_as_the_reference(small: Path) -> None:
    skip_without("qdrant_edge")
    model = "model=python:own_model:Sparse"
    for result in compared(small, f"qdrant-splade:{model}", f"qdrant-splade:{model};idf=true", f"csr-splade:{model}"):
        assert result.parity is not None
        assert result.parity.different == 0


def test_lucene_finds_dense_vectors_by_a_graph_and_exactly(small: Path) -> None:
    skip_without("jnius_config")
    model = "model=python:own_model:Words"
    graph, flat = compared(small, f"lucene-hnsw:{model};segments=single;ef_search=20", f"lucene-flat:{model}")
    assert graph.index is not None
    assert graph.index.state["vectors_in_graph"] == 0, "its 6 vectors are fewer than the 20 candidates: a scan"
    for result in (graph, flat):
        assert result.metrics["RR@10"].mean == 1.0


@pytest.mark.parametrize(
    ("module", "backend", "parameter"),
    [("jnius_config", "lucene-hnsw", "ef_search"), ("qdrant_edge", "qdrant-dense", "hnsw_ef")],
)
def test_one_build_is_searched_with_several_numbers_of_candidates(
    small: Path, module: str, backend: str, parameter: str
) -> None:
    skip_without(module)
    named = f"{backend}:model=python:own_model:Words;{parameter}"
    first, second = compared(small, f"{named}=2", f"{named}=5")
    assert first.index is not None
    assert second.index is not None
    assert (first.index.built_by, second.index.built_by) == (None, first.label)
    expected = 6 if module == "jnius_config" else 0  # Qdrant makes no graph of so few
    assert [one.index.state["vectors_in_graph"] for one in (first, second)] == [expected, expected]


@pytest.mark.parametrize("exact", [False, True])
def test_an_exact_search_uses_no_graph_even_where_there_is_one(tmp_path: Path, exact: bool) -> None:
    skip_without("qdrant_edge")
    from harness.engines.qdrant.engine import QdrantDenseEngine

    defaults = find_cards("backends")["qdrant-dense"].defaults
    forced = {"indexing_threshold_kb": 1, "full_scan_threshold_kb": 1, "exact": exact}
    engine = QdrantDenseEngine({**defaults, **forced})
    documents = Inputs(Ids.of(f"d{row}" for row in range(600)), dense=random_unit_vectors(1, 600, 16))
    engine.open(tmp_path, documents.ids)
    report = engine.index(documents, RecordingProgress(), StepClock())
    assert report.state["vectors_in_graph"] == 600
    assert engine.searched_state(10) == ({"vectors_in_graph": 0} if exact else {})
    engine.close()


def test_qdrant_refuses_vectors_that_it_would_not_normalise(tmp_path: Path) -> None:
    """Measured: a vector of length 1e-4 is left as it is, and finds itself with the score 1e-4."""
    skip_without("qdrant_edge")
    from harness.engines.qdrant.engine import QdrantDenseEngine

    engine = QdrantDenseEngine(find_cards("backends")["qdrant-dense"].defaults)
    lengths = np.array([1, 4e-4, 1e-4], dtype=np.float32)
    documents = Inputs(Ids.of(["one", "short", "shorter"]), dense=np.diag(lengths))
    engine.open(tmp_path, documents.ids)
    with pytest.raises(RejectedInputError, match=r"'shorter' has the length 0.0001: it has no cosine"):
        engine.index(documents, RecordingProgress(), StepClock())
    engine.close()


def test_lucene_adds_impacts_exactly(small: Path) -> None:
    skip_without("jnius_config")
    model = "model=python:own_model:Sparse"
    changed = ("", ";impact_scale=3;segments=single", ";idf=true", ";idf=true;impact_scale=3")
    results = compared(small, *(f"lucene-impact:{model}{one}" for one in changed))
    for result in results:
        assert result.parity is not None
        assert result.index is not None
        assert result.index.state["documents_with_terms"] == 5  # of 6: one is empty
        assert (
            result.parity.tie_equivalent == result.parity.queries == 4
        )  # Lucene's ties are by row, the reference's by id
        assert result.parity.max_abs_score_diff == 0


def test_lucene_refuses_more_dimensions_than_it_takes(tmp_path: Path) -> None:
    skip_without("jnius_config")
    from harness.engines.lucene.vectors import LuceneFlatEngine

    engine = LuceneFlatEngine(find_cards("backends")["lucene-flat"].defaults)
    wide = Inputs(Ids.of(["one"]), dense=np.ones((1, 1025), dtype=np.float32))
    engine.open(tmp_path, wide.ids)
    with pytest.raises(RejectedInputError, match=r"1025 dimensions.*at most 1024"):
        engine.index(wide, RecordingProgress(), StepClock())
    engine.close()


def test_qdrant_says_when_a_graph_is_there_and_not_used(tmp_path: Path) -> None:
    """Qdrant makes a graph, counts its vectors as indexed, and scans the segment all the same: it is too small."""
    skip_without("qdrant_edge")
    from harness.engines.qdrant.engine import QdrantDenseEngine

    defaults = find_cards("backends")["qdrant-dense"].defaults
    documents = Inputs(Ids.of(f"d{row}" for row in range(500)), dense=random_unit_vectors(3, 500))
    held = []
    for name, threshold in (("used", 100), ("not", 10_000)):
        (tmp_path / name).mkdir()
        engine = QdrantDenseEngine({**defaults, "indexing_threshold_kb": 1, "full_scan_threshold_kb": threshold})
        engine.open(tmp_path / name, documents.ids)
        state = engine.index(documents, RecordingProgress(), StepClock()).state
        engine.close()
        held.append((state["indexed_vectors"], state["vectors_in_graph"]))
    assert held == [(500, 500), (500, 0)]


@pytest.mark.parametrize(
    "quantization",
    [
        {"quantization": "scalar", "quantile": 0.99, "quantized_always_ram": True},
        {"quantization": "product", "compression": "x16"},
        {"quantization": "binary", "binary_encoding": "two_bits", "binary_query_encoding": "scalar8bits"},
        {"quantization": "turbo", "turbo_bits": "bits4"},
    ],
)
def test_qdrant_s_quantisations_compress_and_rescoring_gives_exact_scores(
    tmp_path: Path, quantization: dict[str, str | float | bool]
) -> None:
    skip_without("qdrant_edge")
    from harness.engines.qdrant.engine import QdrantDenseEngine

    defaults = find_cards("backends")["qdrant-dense"].defaults
    documents = Inputs(Ids.of(f"d{row}" for row in range(400)), dense=random_unit_vectors(3, 400))
    assert documents.dense is not None
    queries = Inputs(Ids.of(["q"]), dense=documents.dense[7:8] + 0.01 * documents.dense[9:10])
    assert queries.dense is not None
    exact = documents.dense @ queries.dense[0] / np.linalg.norm(queries.dense[0])
    errors = []
    for rescore in ("true", "false"):
        folder = tmp_path / rescore
        folder.mkdir()
        wanted = {**quantization, "rescore": rescore, "indexing_threshold_kb": 1, "full_scan_threshold_kb": 1}
        engine = QdrantDenseEngine({**defaults, **wanted})
        engine.open(folder, documents.ids)
        state = engine.index(documents, RecordingProgress(), StepClock()).state
        found = engine.search(queries, 5, StepClock())
        engine.close()
        assert state["quantised_segments"] == 1
        errors.append(float(np.abs(found.scores - exact[found.rows]).max()))
    assert errors[0] < 2e-6 < errors[1]


def test_parameters_of_another_quantisation_are_refused() -> None:
    from harness.engines.qdrant.engine import QdrantDenseEngine

    defaults = find_cards("backends")["qdrant-dense"].defaults
    with pytest.raises(RejectedInputError, match="compression cannot be set with quantization=scalar"):
        QdrantDenseEngine({**defaults, "quantization": "scalar", "compression": "x16"})
    with pytest.raises(RejectedInputError, match="rescore cannot be set with quantization=none"):
        QdrantDenseEngine({**defaults, "rescore": "true"})


def test_a_shard_that_lost_vectors_is_not_opened(tmp_path: Path) -> None:
    """Qdrant Edge opens it, and searches what is left without a word."""
    skip_without("qdrant_edge")
    from harness.engines.qdrant.engine import QdrantDenseEngine

    parameters = {**find_cards("backends")["qdrant-dense"].defaults, "indexing_threshold_kb": 1}
    documents = Inputs(Ids.of(f"d{row}" for row in range(400)), dense=random_unit_vectors(3, 400))
    engine = QdrantDenseEngine(parameters)
    engine.open(tmp_path, documents.ids)
    engine.index(documents, RecordingProgress(), StepClock())
    engine.close()
    (vectors,) = tmp_path.glob("shard/segments/*/vector_storage-dense/matrix.dat")
    os.truncate(vectors, vectors.stat().st_size // 2)
    with pytest.raises(EngineUnavailableError, match="have lost their vectors"):
        QdrantDenseEngine(parameters).open(tmp_path, documents.ids)


def test_the_command_line_compares_them(small: Path) -> None:
    skip_without("qdrant_edge")
    out = small.parent / "out"
    backends = "qdrant-dense:model=python:own_model:Words,qdrant-splade:model=python:own_model:Sparse"
    command = ["compare", "--backends", backends, "--dataset", str(small), "--k", "3", "--out", str(out)]
    done = subprocess.run([*harness_command(), *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "qdrant-splade" in done.stdout
    report = json.loads((out / "report.json").read_text())
    assert [one["status"] for one in report["trials"]] == ["ok", "ok"]
