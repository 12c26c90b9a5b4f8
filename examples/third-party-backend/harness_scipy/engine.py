"""SciPy's sparse product as an engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy
from scipy.sparse import csr_array

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.checks import require_announced_ids, require_positive_k, require_sparse
from harness.engines.hits import HitCollector
from harness.engines.interface import Capabilities, EngineInfo, IndexReport, SearchResult, Storage
from harness.engines.manifest import check_manifest, write_manifest
from harness.errors import CacheError, EngineUnavailableError, RejectedInputError
from harness.exact import bm25_idf, document_frequencies
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_sparse, save_sparse


class ScipyEngine:
    """One product of a query row with the transposed documents, then a stable sort: equal scores by row."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._parameters = dict(parameters)
        self._folder: Path | None = None
        self._ids = Ids.of([])
        self._weighted: csr_array | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        if check_manifest(folder, "scipy", self._parameters, ids):
            try:
                self._weigh(load_sparse(folder, "documents"))
            except CacheError as error:
                raise EngineUnavailableError(error.what, fix="delete the folder and index again") from error
        self._folder, self._ids = folder, ids
        return EngineInfo("SciPy", scipy.__version__, "embedded")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        folder = self._opened()
        if self._weighted is not None:
            raise RejectedInputError(f"'{folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        vectors = require_sparse(documents, "document")
        progress.start("index", len(vectors))
        started = clock()
        self._weigh(vectors)
        built = clock()
        save_sparse(folder, "documents", vectors)
        write_manifest(folder, "scipy", self._parameters, documents.ids)
        saved = clock()
        progress.advance(len(vectors))
        missing = np.array([], dtype=np.int32)
        state = {"postings": vectors.nnz}
        return IndexReport(len(vectors), len(vectors), missing, built - started, saved - built, state)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        self._opened()
        if self._weighted is None:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        require_positive_k(k)
        vectors = require_sparse(queries, "query").to_scipy()
        collector = HitCollector(len(queries))
        for query in range(len(queries)):
            started = clock()
            scores = (self._weighted @ vectors[[query]].T).toarray().ravel()
            found = np.flatnonzero(scores)
            best = found[np.argsort(-scores[found], kind="stable")][:k]
            collector.add(best.astype(np.int32), scores[best].astype(np.float32), clock() - started, 0)
        return collector.result()

    def storage(self) -> Storage:
        self._opened()
        if self._weighted is None:
            return Storage(0, 0)
        parts = (self._weighted.data, self._weighted.indices, self._weighted.indptr)
        return Storage(sum(part.nbytes for part in parts), 0)

    def close(self) -> None:
        self._folder, self._weighted = None, None

    def _opened(self) -> Path:
        if self._folder is None:
            raise EngineUnavailableError("the scipy engine is closed", fix="open it first")
        return self._folder

    def _weigh(self, documents: SparseVectors) -> None:
        idf = bm25_idf(*document_frequencies(documents))
        values = np.asarray(documents.values) * idf[documents.indices]
        shape = (len(documents), documents.dimensions)
        self._weighted = csr_array((values, documents.indices, documents.indptr), shape=shape)
