"""Qdrant's own hybrid query keeps the contract: fused by distributions and by ranks, in each mode."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from engine_faults import FaultsInTheProcess, FaultsOfAServer
from qdrant_indexes import write_collection, write_shard
from test_qdrant_dense_contract import GRAPH

from harness.data.inputs import Inputs
from harness.data.types import Float64Array
from harness.engines.interface import Capabilities, EngineProtocol, SearchResult
from harness.engines.qdrant.engine import QdrantHybridEngine
from harness.exact.qdrant_model import qdrant_idf
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract, Expected
from harness.testing.expected import DenseSample, dense_scores, embed_words, encode_words, sparse_scores
from harness.testing.suite import Collection

pytest.importorskip("qdrant_edge")
pytestmark = pytest.mark.contract

DEFAULTS = {**find_cards("backends")["qdrant-hybrid"].defaults, "candidates": 1000}
RRF_K = 2


class ByDistributions(QdrantHybridEngine):
    """Equal documents have equal scores: what reciprocal ranks cannot do, this does."""

    capabilities: ClassVar[Capabilities] = replace(QdrantHybridEngine.capabilities, gaps={})


class Hybrid(FaultsInTheProcess, EngineContract):
    engine = ByDistributions
    proves = QdrantHybridEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**DEFAULTS, "fusion": "dbsf"}
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {**GRAPH, "candidates": 10}
    tolerance = 2e-6

    def expected_lists(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Expected, Expected]:
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


class TestQdrantHybridOptimised(Hybrid):
    """Immutable segments on disk with graphs, several of them, without a write-ahead log."""

    parameters: ClassVar[Mapping[str, ParameterValue]] = {
        **Hybrid.parameters,
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


class TestQdrantHybridByRanks(Hybrid):
    """As the card sets it up: what a document scores depends on its place among those that it ties with."""

    engine = QdrantHybridEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = DEFAULTS
    test_external_index_answers_like_a_new_one = None  # in another build, documents that tie have other places

    def expected_fusion(self, lists: Sequence[Expected]) -> Expected:
        """The scores of the last places that ties allow; those of the first ones are in ``scale``."""
        low, high = (np.sum([_reciprocal(one, at_last=last) for one in lists], axis=0) for last in (True, False))
        return Expected(low, lists[0].matches | lists[1].matches, high)

    def search_rightly(self, engine: EngineProtocol, sample: Collection, k: int) -> SearchResult:
        """Each score is one that an order of the ties gives, and nothing that is better in all orders is missing."""
        result = self.search(engine, sample.queries, len(sample.documents), k)
        low, matches, high = sample.expected
        assert high is not None
        for query in range(len(sample.queries)):
            hits = slice(int(result.indptr[query]), int(result.indptr[query + 1]))
            rows, scores = result.rows[hits], result.scores[hits].astype(np.float64)
            assert len(rows) == min(k, int(matches[query].sum())), f"query {query}: {len(rows)} hits"
            assert matches[query, rows].all(), f"query {query}: a document that does not match"
            assert (scores >= low[query, rows] - self.tolerance).all(), f"query {query}: a score is too low"
            assert (scores <= high[query, rows] + self.tolerance).all(), f"query {query}: a score is too high"
            better = np.flatnonzero(low[query] > scores[-1] + self.tolerance)
            assert np.isin(better, rows).all(), f"query {query}: a better document is missing"
        return result

    def _search_filtered(self, engine: EngineProtocol, sample: Collection, k: int, *, fields: int) -> None:
        """Everything is scanned: nothing is lost, however many fields there are."""
        self.search_rightly(engine, sample, k)


def _reciprocal(part: Expected, *, at_last: bool) -> Float64Array:
    scores: Float64Array = np.zeros(part.scores.shape)
    for query, (found, held) in enumerate(zip(part.scores, part.matches, strict=True)):
        slack = 4e-6 * (np.abs(found) if part.scale is None else np.full(found.shape, part.scale[query]))
        for row in np.flatnonzero(held):
            bound = found[row] - slack[row] if at_last else found[row] + slack[row]
            place = int(np.count_nonzero(found[held] >= bound)) - (1 if at_last else 0)
            scores[query, row] = 1 / (RRF_K + place)
    return scores


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
