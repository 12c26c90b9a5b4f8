"""The contract suite on FAISS: every vector, a graph, lists, and compressed vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import faiss
import numpy as np
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.engines.faiss.engine import FaissEngine
from harness.engines.interface import ExpectedContent
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract
from harness.testing.changes import ChangeContract
from harness.testing.samples import RecordingProgress

skip_module_without("faiss")

pytestmark = pytest.mark.contract


class TestFlat(EngineContract):
    """All documents are scored; the graph that the suite wants to see is of another index."""

    engine = FaissEngine
    card = "faiss"
    tolerance = 2e-6
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"index": "HNSW16"}
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {"nprobe": 3, "ef": 30}
    graph_parameters: ClassVar[Mapping[str, ParameterValue]] = {"index": "HNSW8", "ef": 1}

    def external_index(self, folder: Path, documents: Inputs) -> Mapping[str, ParameterValue]:
        with self.built(folder / "made", documents):
            pass
        index = faiss.read_index(str(folder / "made" / "index.faiss"))
        for path in sorted((folder / "made").iterdir()):
            path.unlink()
        faiss.write_index(index, str(folder / "made" / "index.faiss"))
        (folder / "made" / "ids.txt").write_text("".join(f"{one}\n" for one in documents.ids), encoding="utf-8")
        return {"external": True, "path": str(folder / "made")}


class TestHnswOfDotProducts(TestFlat):
    """A graph, by the inner product of vectors of different lengths."""

    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {
        "index": "HNSW32",
        "similarity": "dot",
        "ef": 200,
    }
    unchangeable = "FAISS removes nothing from its IndexHNSWFlat"


class TestListsOfL2(TestFlat):
    """Lists around one centroid, because some collections of the suite have one document."""

    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"index": "IVF1,Flat", "similarity": "l2"}


class TestEightBits(TestFlat):
    """Scalar quantisation: scores are those of the decoded vectors, and differ from the exact ones."""

    variant = True
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"index": "SQ8"}
    tolerance = 0.01

    def test_external_index_of_the_collection_is_proven(self, tmp_path: Path) -> None:
        """What was added cannot be read back: there is no reference, and the reason is named."""
        documents, queries = self.inputs(["a b", "b c"], ["a"])
        with self._attached(tmp_path, documents) as (engine, handle):
            content = ExpectedContent(np.arange(len(handle.ids), dtype=np.int32), documents, queries)
            reason = engine.mismatch(content, RecordingProgress())
        assert reason is not None
        assert reason.startswith("FAISS keeps compressed or transformed vectors (IndexScalarQuantizer)")


class TestListsOfEightBits(ChangeContract):
    """Lists keep the number of a vector when others are removed: after changes, numbers go beyond the count."""

    engine = FaissEngine
    card = "faiss"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"index": "IVF1,SQ8"}
    tolerance = TestEightBits.tolerance
