"""A small correct engine for each kind of input: the contract suite must pass it, and fail every broken copy of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from harness.data.filtering import BoolArray
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Similarity, SparseVectors
from harness.engines.checks import require_announced_ids, require_dense, require_positive_k, require_sparse
from harness.engines.index_folder import (
    MANIFEST,
    check_manifest,
    matching_documents,
    require_fields,
    save_metadata,
    write_manifest,
)
from harness.engines.interface import Capabilities, EngineInfo, EngineInterface, IndexReport, SearchResult, Storage
from harness.errors import EngineUnavailableError, HarnessError, RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_column, load_sparse, load_table, save_sparse, save_table
from harness.testing import Bm25, ExpectedScores
from harness.testing.expected import DenseSample, SparseSample, bm25_idf, bm25_scores, dense_scores, sparse_scores


class FakeEngine(EngineInterface):
    """Brute force behind the whole protocol; equal scores in row order."""

    name: ClassVar[str]

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self.parameters = parameters
        self.folder: Path | None = None
        self.ready = False
        self.matching: BoolArray | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        self.ready = check_manifest(folder, self.name, self.parameters, ids) is not None
        if self.ready:
            try:
                self.load(folder)
            except HarnessError as error:
                raise EngineUnavailableError(f"the index in '{folder}' is damaged", fix="index again") from error
        self.folder, self.ids = folder, ids
        return EngineInfo(self.name, "1.0", "embedded")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        folder = self.opened()
        _require_mapped(documents)
        if self.ready:
            raise RejectedInputError("the folder holds an index already", fix="index into a new folder")
        self.take(documents)
        require_announced_ids(documents, self.ids)
        progress.start("index", len(documents))
        started = clock()
        self.save(folder)
        if documents.metadata is not None:
            save_metadata(folder, documents.metadata)
        for _ in range(len(documents)):
            progress.advance(1)
        written = clock()
        write_manifest(folder, self.name, self.parameters, documents.ids, indexed=len(documents))
        self.ready = True
        missing = np.array([], dtype=np.int32)
        return IndexReport(
            len(documents), len(documents), missing, written - started, clock() - written, {"kind": "brute force"}
        )

    def restrict(self, wanted: Mapping[str, str]) -> None:
        require_fields(self.opened(), wanted)
        self.matching = matching_documents(self.opened(), wanted) if wanted else None

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        self.opened()
        if not self.ready:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        require_positive_k(k)
        _require_mapped(queries)
        expected = self.score(queries)
        rows: list[int] = []
        scores: list[float] = []
        indptr = [0]
        times = []
        for values, matches in zip(expected.scores, expected.matches, strict=True):
            started = clock()
            found = np.flatnonzero(matches if self.matching is None else matches & self.matching)
            rounded = values.astype(np.float32)
            best = found[np.argsort(-rounded[found], kind="stable")][:k]
            searched = clock()
            rows += best.tolist()
            scores += rounded[best].tolist()
            indptr.append(len(rows))
            times.append((searched - started, clock() - searched))
        taken = np.array(times, dtype=np.int64).reshape(-1, 2)
        return SearchResult(
            np.array(indptr, dtype=np.int64),
            np.array(rows, dtype=np.int32),
            np.array(scores, dtype=np.float32),
            np.ascontiguousarray(taken[:, 0]),
            np.ascontiguousarray(taken[:, 1]),
        )

    def storage(self) -> Storage:
        return Storage(sum(path.stat().st_size for path in self.opened().iterdir()), 0)

    def close(self) -> None:
        self.folder, self.ready = None, False

    def opened(self) -> Path:
        if self.folder is None:
            raise EngineUnavailableError("the engine is closed", fix="open it again")
        return self.folder

    def take(self, documents: Inputs) -> None:
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        raise NotImplementedError

    def load(self, folder: Path) -> None:
        raise NotImplementedError

    def score(self, queries: Inputs) -> ExpectedScores:
        raise NotImplementedError


class FakeSparse(FakeEngine):
    capabilities = Capabilities(
        "sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, filters=True
    )
    name = "fake-sparse"
    documents: SparseVectors

    def take(self, documents: Inputs) -> None:
        self.documents = require_sparse(documents, "document")

    def save(self, folder: Path) -> None:
        save_sparse(folder, "documents", self.documents)

    def load(self, folder: Path) -> None:
        self.documents = load_sparse(folder, "documents")

    def score(self, queries: Inputs) -> ExpectedScores:
        return sparse_scores(SparseSample(self.documents, require_sparse(queries, "query")), bm25_idf)


class FakeText(FakeEngine):
    capabilities = Capabilities(
        "text",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        threads=True,
        filters=True,
    )
    name = "fake-text"
    texts: list[str]

    def take(self, documents: Inputs) -> None:
        self.texts = _texts(documents)

    def save(self, folder: Path) -> None:
        save_table(folder / "texts.arrow", pa.table({"text": pa.array(self.texts, type=pa.string())}))

    def load(self, folder: Path) -> None:
        self.texts = load_table(folder / "texts.arrow").column("text").to_pylist()

    def score(self, queries: Inputs) -> ExpectedScores:
        return bm25_scores(self.texts, _texts(queries), Bm25())


class FakeDense(FakeEngine):
    capabilities = Capabilities(
        "dense", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, filters=True
    )
    name = "fake-dense"
    similarity: ClassVar[Similarity] = "cosine"
    documents: Float32Array

    def take(self, documents: Inputs) -> None:
        self.documents = require_dense(documents, "document", cosine=self.similarity == "cosine")

    def save(self, folder: Path) -> None:
        np.save(folder / "documents.npy", self.documents)

    def load(self, folder: Path) -> None:
        self.documents = load_column(folder / "documents.npy")

    def score(self, queries: Inputs) -> ExpectedScores:
        vectors = self.take_queries(queries)
        return dense_scores(DenseSample(self.documents, vectors), self.similarity)

    def take_queries(self, queries: Inputs) -> Float32Array:
        cosine, dimensions = self.similarity == "cosine", self.documents.shape[1]
        return require_dense(queries, "query", cosine=cosine, dimensions=dimensions)


class FakeGraph(FakeDense):
    """What an approximate engine may do: it looks at half of many documents, where it is told to."""

    capabilities = replace(FakeDense.capabilities, exact=False)
    name = "fake-graph"
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {"graph": True}

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        report = super().index(documents, progress, clock)
        return replace(report, state={"vectors_in_graph": len(documents) if self.parameters.get("graph") else 0})

    def score(self, queries: Inputs) -> ExpectedScores:
        right = super().score(queries)
        if self.parameters.get("graph"):
            right.matches[:, ::2] = False
        return right


def _require_mapped(inputs: Inputs) -> None:
    """Fail for arrays that no comparison hands over: it reads them from files, memory-mapped and read-only."""
    arrays = [] if inputs.sparse is None else [inputs.sparse.indices, inputs.sparse.values]
    for array in (*arrays, *([] if inputs.dense is None else [inputs.dense])):
        assert array.size == 0 or (isinstance(array, np.memmap) and not array.flags.writeable), "not as in a comparison"


def _texts(inputs: Inputs) -> list[str]:
    if inputs.texts is None:
        raise RejectedInputError("the inputs hold no texts")
    texts: list[str] = inputs.texts.to_pylist()
    return texts


__all__ = ["MANIFEST", "FakeDense", "FakeEngine", "FakeGraph", "FakeSparse", "FakeText"]
