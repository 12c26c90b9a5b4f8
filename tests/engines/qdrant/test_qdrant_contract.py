"""Qdrant Edge keeps the contract, with its default settings and with its optimiser forced to work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsInTheProcess
from installed import skip_module_without
from qdrant_indexes import write_shard

from harness.data.inputs import Inputs
from harness.engines.qdrant.engine import QdrantEngine
from harness.exact.qdrant_model import qdrant_idf
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract, ExpectedScores
from harness.testing.expected import encode_words, sparse_scores

skip_module_without("qdrant_edge")
pytestmark = pytest.mark.contract


class QdrantContract(FaultsInTheProcess, EngineContract):
    engine = QdrantEngine
    card = "qdrant"
    tolerance = 4e-7

    def expected(self, documents: Sequence[str], queries: Sequence[str]) -> ExpectedScores:
        """Qdrant's idf is computed in float32: with few documents and frequent terms that shows."""
        sample = encode_words(documents, queries, self.bm25)
        return sparse_scores(sample, _float32_idf if self.bm25.idf else None)

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's shard: points by UUID, ids in the payload, another name of the vector."""
        write_shard(folder / "shard", documents, idf=self.bm25.idf)
        return {"external": True, "path": str(folder / "shard"), "id_key": "docno", "mode": "edge"}


def _float32_idf(documents: int, containing: int) -> float:
    return float(qdrant_idf(documents, containing))


class TestQdrant(QdrantContract):
    """As the card sets it up: a collection this small stays in one mutable segment."""


class TestQdrantOptimised(QdrantContract):
    """Immutable segments on disk, several of them, without a write-ahead log."""

    variant = True
    test_a_change_follows_a_change = EngineContract.test_a_change_follows_a_change
    test_a_copy_answers_the_same = EngineContract.test_a_copy_answers_the_same
    test_a_damaged_index_never_answers_wrongly = EngineContract.test_a_damaged_index_never_answers_wrongly
    test_deletes_alone_and_writes_alone = EngineContract.test_deletes_alone_and_writes_alone
    parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "indexing_threshold_kb": 1,
        "optimize_every": 50,
        "default_segment_number": 4,
        "on_disk": True,
        "wal": False,
        "batch_size": 20,
    }


class TestQdrantWithoutIdf(QdrantContract):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"idf": False}
    bm25 = Bm25(idf=False)
