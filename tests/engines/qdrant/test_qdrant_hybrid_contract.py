"""Qdrant's own hybrid query keeps the contract: fused by distributions and by ranks, in each mode."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsInTheProcess, FaultsOfAServer
from installed import skip_module_without
from qdrant_indexes import write_collection, write_shard
from rank_fusion import FusedByRanks
from test_qdrant_dense_contract import GRAPH

from harness.data.inputs import Inputs
from harness.engines.interface import Capabilities
from harness.engines.qdrant.engine import QdrantHybridEngine
from harness.exact.qdrant_model import qdrant_idf
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract, ExpectedScores
from harness.testing.expected import DenseSample, dense_scores, embed_words, encode_words, sparse_scores

skip_module_without("qdrant_edge")
pytestmark = pytest.mark.contract


class ByDistributions(QdrantHybridEngine):
    """Equal documents have equal scores: what reciprocal ranks cannot do, this does."""

    capabilities: ClassVar[Capabilities] = replace(QdrantHybridEngine.capabilities, gaps={})


class Hybrid(FaultsInTheProcess, EngineContract):
    engine = ByDistributions
    proves = QdrantHybridEngine
    card = "qdrant-hybrid"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"candidates": 1000, "fusion": "dbsf"}
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {**GRAPH, "candidates": 10}
    tolerance = 2e-6

    def expected_lists(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[ExpectedScores, ExpectedScores]:
        """Qdrant's idf is computed in float32: with few documents and frequent terms that shows."""
        words = encode_words(documents, queries, self.bm25)
        vectors = DenseSample(embed_words(documents), embed_words(queries))
        return sparse_scores(words, _float32_idf), dense_scores(vectors, self.similarity)

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's shard: points by UUID, ids in the payload, other names of both vectors."""
        write_shard(folder / "shard", documents)
        return {"external": True, "path": str(folder / "shard"), "id_key": "docno", "mode": "edge"}


def _float32_idf(documents: int, containing: int) -> float:
    return float(qdrant_idf(documents, containing))


class TestQdrantHybridByDistributions(Hybrid):
    """A collection this small is scanned."""

    variant = True


class TestQdrantHybridOptimised(Hybrid):
    """Immutable segments on disk with graphs, several of them, without a write-ahead log."""

    variant = True
    test_a_change_follows_a_change = EngineContract.test_a_change_follows_a_change
    test_a_copy_answers_the_same = EngineContract.test_a_copy_answers_the_same
    test_a_damaged_index_never_answers_wrongly = EngineContract.test_a_damaged_index_never_answers_wrongly
    test_deletes_alone_and_writes_alone = EngineContract.test_deletes_alone_and_writes_alone
    parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "candidates": 1000,
        "fusion": "dbsf",
        "indexing_threshold_kb": 1,
        "full_scan_threshold_kb": 1,
        "optimize_every": 50,
        "default_segment_number": 2,
        "on_disk": True,
        "sparse_on_disk": True,
        "wal": False,
        "exact": True,
        "upsert_batch": 20,
    }
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {
        **GRAPH,
        "candidates": 10,
        "exact": False,
        "optimize_every": 0,
    }


class TestQdrantHybridByRanks(FusedByRanks, Hybrid):
    """As the card sets it up."""

    engine = QdrantHybridEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"candidates": 1000}
    test_external_index_answers_like_a_new_one = None  # in another build, documents that tie have other places
    best_place = 2


@pytest.fixture(scope="class")
def serving(request: pytest.FixtureRequest) -> Iterator[None]:
    """A stub for all tests of a class; collections are kept, because the suite opens indexes again."""
    from qdrant_stub import serve

    with serve() as stub:
        request.cls.parameters = {**Hybrid.parameters, "url": stub.url, "transport": "rest", "keep": True}
        yield


@pytest.mark.usefixtures("serving")
class TestStub(FaultsOfAServer, Hybrid):
    """Real requests over REST, answered by Qdrant's own engine behind the stub."""

    stub = True

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's collection, which leaves nothing in ``folder``."""
        name = f"theirs-{uuid.uuid4()}"
        write_collection(str(self.parameters["url"]), name, documents)
        return {"external": True, "collection": name, "id_key": "docno", "keep": False}
