"""The contract suite on Milvus Lite: dense vectors for each similarity, and sparse ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsOfAServer
from installed import skip_module_without
from milvus_indexes import COLLECTION, write_file

from harness.data.inputs import Inputs
from harness.engines.milvus.engine import MilvusBm25Engine, MilvusEngine, MilvusSparseEngine
from harness.registry.parameters import ParameterValue
from harness.testing import Bm25, EngineContract
from harness.testing.inputs import DenseContract

skip_module_without("pymilvus")

pytestmark = pytest.mark.contract


class ExternalFile:
    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        """Somebody else's file: another key, another name of the vectors, ids in a dynamic field."""
        write_file(folder / "theirs.db", documents)
        path = str(folder / "theirs.db")
        return {"external": True, "path": path, "collection": COLLECTION, "id_key": "docno"}


class TestMilvus(ExternalFile, FaultsOfAServer, EngineContract):
    engine = MilvusEngine
    card = "milvus"
    tolerance = 1e-6
    minimum_recall = 1.0


class TestMilvusL2(DenseContract):
    engine = MilvusEngine
    card = "milvus"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "l2"}
    tolerance = 1e-6
    test_a_graph_is_searched = None  # a gap of the engine, whatever the similarity


class TestMilvusInnerProduct(DenseContract):
    engine = MilvusEngine
    card = "milvus"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"similarity": "dot"}
    tolerance = 1e-6
    test_a_graph_is_searched = None


class TestMilvusSparse(ExternalFile, FaultsOfAServer, EngineContract):
    engine = MilvusSparseEngine
    card = "milvus-sparse"
    tolerance = 4e-7
    bm25 = Bm25(idf=False)


class TestMilvusBm25(ExternalFile, FaultsOfAServer, EngineContract):
    engine = MilvusBm25Engine
    card = "milvus-bm25"
    tolerance = 4e-7
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"k1": 1.5, "b": 0.75}

    def inputs(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Inputs, Inputs]:
        """Terms, and for an external index the same as texts."""
        sides = super().inputs(documents, queries)
        return tuple(Inputs(side.ids, texts=side.terms, terms=side.terms) for side in sides)  # type: ignore[return-value]
