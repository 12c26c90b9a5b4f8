"""Parameters that changed nothing about a search are named beside the result, with the reason."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import skip_module_without
from qdrant_stub import Stub, error, serve
from scipy.sparse import csr_array
from small_world import write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.registry.lookup import find_cards
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import random_unit_vectors

skip_module_without("qdrant_edge", "qdrant_client")
pytestmark = pytest.mark.integration

OWN_MODEL = """
import numpy as np

def words(texts):
    return np.array([[text.split().count(word) + 0.01 for word in ("cat", "garden", "light")] for text in texts])

class Words:
    encode = staticmethod(words)
"""
MODEL = "model=python:words_model:Words"


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "words_model.py").write_text(OWN_MODEL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "words_model", raising=False)  # of another test
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return write_collection(tmp_path / "small")


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve() as stub:
        yield stub


def about_effect(backend: str, small: Path) -> list[str]:
    """Notes of the only backend of a comparison that speak of what parameters did."""
    comparison = harness.compare([backend], small, k=3, timing=False, isolation="none")
    assert comparison.failed == []
    (result,) = comparison.report.trials
    said = [note for note in result.notes if "effect" in note]
    assert all(note in comparison.render("markdown") for note in said)
    return said


def test_a_quantisation_below_the_indexing_threshold_had_no_effect(small: Path) -> None:
    (said,) = about_effect(f"qdrant-dense:{MODEL};quantization=scalar;rescore=true", small)
    assert said == (
        "quantization=scalar, rescore=true had no effect: no segment is compressed (0 of 6 vectors; indexing "
        "threshold 10,000 kB)"
    )


def test_what_a_graph_would_need_had_no_effect_on_a_scan(small: Path) -> None:
    (said,) = about_effect(f"qdrant-dense:{MODEL};hnsw_ef=64;m=32;indexing_threshold_kb=500", small)
    assert said == (
        "hnsw_ef=64, m=32 had no effect: every search scans all vectors, none is found by a graph (0 of 6 vectors; "
        "indexing threshold 500 kB, full scan threshold 10,000 kB)"
    )
    (said,) = about_effect(f"qdrant-dense:{MODEL};hnsw_ef=64;quantization=binary;exact=true", small)
    assert said == "hnsw_ef=64, quantization=binary had no effect: exact=true scans the original vectors"


def test_parameters_with_an_effect_and_defaults_are_not_named(small: Path) -> None:
    """Binary compression is made in every segment, halves of dense vectors are, too."""
    assert about_effect(f"qdrant-dense:{MODEL};quantization=binary;rescore=true", small) == []
    assert about_effect(f"qdrant-dense:{MODEL};datatype=float16", small) == []
    assert about_effect(f"qdrant-dense:{MODEL};hnsw_ef=0;m=16;rescore=", small) == []


def test_a_datatype_of_weights_below_the_indexing_threshold_had_no_effect(small: Path) -> None:
    reason = "no segment of the inverted index is optimised (6 vectors; indexing threshold 10,000 kB)"
    said = about_effect("qdrant:analyzer=whitespace;datatype=float16;on_disk=true", small)
    assert said == [f"datatype=float16, on_disk=true had no effect: {reason}"]
    hybrid = f"qdrant-hybrid:analyzer=whitespace;{MODEL};sparse_datatype=float16;datatype=float16"
    assert about_effect(hybrid, small) == [f"sparse_datatype=float16 had no effect: {reason}"]


def test_a_server_tells_by_its_telemetry(small: Path, stub: Stub) -> None:
    way = f"url={stub.url};transport=rest"
    reason = "(0 of 6 vectors; indexing threshold 10,000 kB)"
    assert about_effect(f"qdrant-dense:{MODEL};{way};quantization=scalar", small) == [
        f"quantization=scalar had no effect: no segment is compressed {reason}"
    ]
    (said,) = about_effect(f"qdrant:analyzer=whitespace;{way};datatype=float16", small)
    assert said.startswith("datatype=float16 had no effect: no segment of the inverted index is optimised (6 vectors")


def test_of_a_server_that_tells_nothing_it_cannot_be_known(small: Path, stub: Stub) -> None:
    stub.fail("telemetry", error(403, "no"))
    asked = "quantization=scalar;rescore=false;indexing_threshold_kb=1"
    (said,) = about_effect(f"qdrant-dense:{MODEL};url={stub.url};transport=rest;{asked}", small)
    assert said.startswith("the server does not describe its segments: whether parameters of datatypes, graphs and")
    stub.fail("telemetry", error(403, "no"))
    (said,) = about_effect(f"qdrant:analyzer=whitespace;url={stub.url};transport=rest;datatype=float16", small)
    assert said.endswith("had an effect cannot be known")


def test_a_shard_describes_its_segments_in_the_words_of_a_servers_telemetry(tmp_path: Path) -> None:
    """By the types of Qdrant's own client; so one reader serves both."""
    from qdrant_client import models

    from harness.engines.qdrant.collection import Segments
    from harness.engines.qdrant.edge import SHARD, read_segments
    from harness.engines.qdrant.engine import QdrantHybridEngine
    from harness.engines.qdrant.parameters import QdrantSettings

    given = {"indexing_threshold_kb": 1, "quantization": "scalar", "sparse_datatype": "float16"}
    parameters = {**find_cards("backends")["qdrant-hybrid"].defaults, **given}
    engine = QdrantHybridEngine(parameters)
    dense = random_unit_vectors(1, 600, 16)
    documents = Inputs(
        Ids.of(f"d{row}" for row in range(600)), sparse=SparseVectors.from_scipy(csr_array(abs(dense))), dense=dense
    )
    engine.open(tmp_path, documents.ids)
    state = engine.index(documents, RecordingProgress(), StepClock()).state
    told = [
        models.SegmentConfig.model_validate(one["config"]).model_dump(mode="json")
        for one in read_segments(tmp_path / SHARD)
        if one.get("version") is not None
    ]
    found = Segments.of(told, {"terms": "terms", "dense": "dense"}, QdrantSettings.of(parameters, "hybrid"))
    assert {name: state[name] for name in found.state()} == found.state()
    assert (state["quantised_segments"], state["datatype_in_effect"]) == (1, "float16, float32")
    caveats = engine.caveats(10)
    engine.close()
    assert caveats.notes == ()
    assert {"hnsw_ef", "m"} <= set(caveats.without_effect)  # its graph is smaller than what is scanned
    assert not {"quantization", "rescore", "sparse_datatype"} & set(caveats.without_effect)
