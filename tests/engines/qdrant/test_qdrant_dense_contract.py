"""Qdrant keeps the contract of dense vectors: scanned, with a graph, quantised, under each similarity, in each mode."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsInTheProcess, FaultsOfAServer
from installed import skip_module_without
from qdrant_indexes import write_collection, write_shard

from harness.data.inputs import Inputs
from harness.engines.qdrant.engine import QdrantDenseEngine
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract

skip_module_without("qdrant_edge")
pytestmark = pytest.mark.contract

GRAPH: Mapping[str, ParameterValue] = {
    "indexing_threshold_kb": 1,
    "full_scan_threshold_kb": 1,
    "m": 4,
    "ef_construct": 8,
    "hnsw_ef": 1,
}


class DenseQdrant(FaultsInTheProcess, EngineContract):
    engine = QdrantDenseEngine
    card = "qdrant-dense"
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = GRAPH
    tolerance = 2e-6

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's shard: points by UUID, ids in the payload, another name of the vector."""
        write_shard(folder / "shard", documents, similarity=self.similarity)
        return {"external": True, "path": str(folder / "shard"), "id_key": "docno", "mode": "edge"}


class TestQdrantDense(DenseQdrant):
    """As the card sets it up: a collection this small is scanned."""


class TestQdrantDenseWithGraph(DenseQdrant):
    """Several optimised segments on disk, the graph too: each build makes another graph, and 0.799 was seen."""

    variant = True
    minimum_recall = 0.7
    test_a_change_follows_a_change = EngineContract.test_a_change_follows_a_change
    test_a_copy_answers_the_same = EngineContract.test_a_copy_answers_the_same
    test_a_damaged_index_never_answers_wrongly = EngineContract.test_a_damaged_index_never_answers_wrongly
    test_deletes_alone_and_writes_alone = EngineContract.test_deletes_alone_and_writes_alone
    parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "indexing_threshold_kb": 1,
        "full_scan_threshold_kb": 1,
        "default_segment_number": 2,
        "optimize_every": 50,
        "on_disk": True,
        "graph_on_disk": True,
        "wal": False,
        "upsert_batch": 20,
    }


class TestQdrantDot(DenseQdrant):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}


class TestQdrantL2(DenseQdrant):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}


@pytest.fixture(scope="class")
def serving(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stub for all tests of a class; collections are kept, because the suite opens indexes again."""
    from qdrant_stub import serve

    with serve() as stub:
        request.cls.parameters = {
            **DenseQdrant.parameters,
            "url": stub.url,
            "transport": "rest",
            "keep": True,
            "similarity": "l2",
        }
        yield


@pytest.mark.usefixtures("serving")
class TestStub(FaultsOfAServer, DenseQdrant):
    """Real requests over REST, answered by Qdrant's own engine behind the stub."""

    stub = True

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's collection, which leaves nothing in ``folder``."""
        name = f"theirs-{uuid.uuid4()}"
        write_collection(str(self.parameters["url"]), name, documents, similarity=self.similarity)
        return {"external": True, "collection": name, "id_key": "docno", "keep": False}

    similarity = "l2"
