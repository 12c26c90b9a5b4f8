"""Vectors in Lucene keep the contract: graphs, scans and impacts, under each similarity, in one segment and several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from installed import skip_module_without
from lucene_indexes import add_impacts, add_vectors, writer

from harness.data.inputs import Inputs
from harness.engines.lucene.impact import LuceneImpactEngine
from harness.engines.lucene.vectors import LuceneFlatEngine, LuceneHnswEngine
from harness.exact import bm25_idf, document_frequencies
from harness.exact.weights import to_impacts, with_idf
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract, ExpectedScores
from harness.testing.expected import SparseSample, encode_words, sparse_scores

skip_module_without("jnius_config")

pytestmark = [pytest.mark.contract, pytest.mark.integration]

ALTERED: Mapping[str, ParameterValue] = {"segments": "single", "ram_buffer_mb": 1.0}


class Lucene(EngineContract):
    """Lucene fails with exceptions of Java."""

    def fault(self) -> Exception:
        from jnius import JavaException

        return JavaException("out of luck", "java.io.IOException", "out of luck")  # type: ignore[no-any-return]


class Vectors(Lucene):
    """Somebody else's index has its own fields, and vectors of length 1 where the cosine is asked for."""

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        vectors, function = documents.dense, {"dot": "MAXIMUM_INNER_PRODUCT", "l2": "EUCLIDEAN"}.get(self.similarity)
        if function is None:
            wide = vectors.astype(np.float64)
            vectors = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
        with writer(folder, codec_of=self.engine(self.parameters)) as made:
            add_vectors(made, replace(documents, dense=vectors), function=function or "DOT_PRODUCT")
        return {"external": True, "path": str(folder), "field": "embedding", "id_field": "docid"}


class Hnsw(Vectors):
    engine = LuceneHnswEngine
    card = "lucene-hnsw"
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {
        "max_connections": 4,
        "beam_width": 8,
        "ef_search": 1,
    }
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"ef_search": 7}
    tolerance = 2e-6


class TestLuceneHnsw(Hnsw):
    """As the card sets it up."""


class TestLuceneHnswDot(Hnsw):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**ALTERED, "similarity": "dot"}


class TestLuceneFlat(Vectors):
    engine = LuceneFlatEngine
    card = "lucene-flat"
    tolerance = 2e-6


class TestLuceneFlatL2(Vectors):
    variant = True
    engine = LuceneFlatEngine
    card = "lucene-flat"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**ALTERED, "similarity": "l2"}
    tolerance = 2e-6


class TestLuceneImpact(Lucene):
    """Exact, down to the last bit: whole numbers."""

    engine = LuceneImpactEngine
    card = "lucene-impact"
    bm25 = Bm25(idf=False)

    def expected(self, documents: Sequence[str], queries: Sequence[str]) -> ExpectedScores:
        """Of the same whole numbers."""
        scale = float(self.parameters["impact_scale"])
        sample = encode_words(documents, queries, self.bm25)
        impacts, asked = to_impacts(sample.documents, scale), sample.queries
        if self.parameters["idf"]:
            asked = with_idf(asked, bm25_idf(*document_frequencies(impacts)))
        return sparse_scores(SparseSample(impacts, to_impacts(asked, scale)), None)

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        with writer(folder) as made:
            add_impacts(made, documents, scale=float(self.parameters["impact_scale"]))
        return {"external": True, "path": str(folder), "field": "weights", "id_field": "docid"}


class TestLuceneImpactSingleSegment(TestLuceneImpact):
    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**ALTERED, "impact_scale": 7.5, "idf": True}
