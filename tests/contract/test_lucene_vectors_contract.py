"""Vectors in Lucene keep the contract: graphs, scans and impacts, under each similarity, in one segment and several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest

from harness.adapters.lucene_impact import LuceneImpactEngine
from harness.adapters.lucene_vectors import LuceneFlatEngine, LuceneHnswEngine
from harness.protocols import ParameterValue
from harness.reference.quantised import to_impacts
from harness.registry import find_cards
from harness.testing import Bm25, EngineContract, Expected
from harness.testing.oracle import SparseSample, encode_words, sparse_scores

pytest.importorskip("jnius_config", reason="the extra 'lucene' is not installed")
pytestmark = [pytest.mark.contract, pytest.mark.integration]

HNSW = find_cards("backends")["lucene-hnsw"].defaults
IMPACT = find_cards("backends")["lucene-impact"].defaults
FLAT = find_cards("backends")["lucene-flat"].defaults
ALTERED: Mapping[str, ParameterValue] = {"segments": "single", "ram_buffer_mb": 1.0}


class Hnsw(EngineContract):
    engine = LuceneHnswEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = HNSW
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {
        "max_connections": 4,
        "beam_width": 8,
        "ef_search": 1,
    }
    tolerance = 2e-6


class TestLuceneHnsw(Hnsw):
    """As the card sets it up."""


class TestLuceneHnswDot(Hnsw):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**HNSW, **ALTERED, "similarity": "dot"}
    similarity = "dot"


class TestLuceneFlat(EngineContract):
    engine = LuceneFlatEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = FLAT
    tolerance = 2e-6


class TestLuceneFlatL2(EngineContract):
    engine = LuceneFlatEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**FLAT, **ALTERED, "similarity": "l2"}
    tolerance = 2e-6
    similarity = "l2"


class TestLuceneImpact(EngineContract):
    """Exact, down to the last bit: whole numbers."""

    engine = LuceneImpactEngine
    parameters: ClassVar[Mapping[str, ParameterValue]] = IMPACT
    bm25 = Bm25(idf=False)

    def expected(self, documents: Sequence[str], queries: Sequence[str]) -> Expected:
        """Of the same whole numbers."""
        scale = float(self.parameters["impact_scale"])
        sample = encode_words(documents, queries, self.bm25)
        rounded = SparseSample(to_impacts(sample.documents, scale), to_impacts(sample.queries, scale))
        return sparse_scores(rounded, None)


class TestLuceneImpactSingleSegment(TestLuceneImpact):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**IMPACT, **ALTERED, "impact_scale": 7.5}
