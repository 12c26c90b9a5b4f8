"""SciPy's sparse product as an engine."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import scipy
from scipy.sparse import csr_array

from harness.data.progress import Progress
from harness.data.types import SparseVectors
from harness.engines.base import Capabilities, Documents, Engine, EngineInfo, LoadedIndex
from harness.exact import bm25_idf, document_frequencies
from harness.store.columns import load_sparse, save_sparse


class ScipyEngine(Engine[SparseVectors]):
    """One product of a query row with the transposed documents, then a stable sort: equal scores by row."""

    name = "scipy"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True
    )

    _weighted: csr_array

    def info(self) -> EngineInfo:
        return EngineInfo("SciPy", scipy.__version__, "embedded")

    def build(self, folder: Path, documents: Documents[SparseVectors], progress: Progress) -> None:
        save_sparse(folder, "documents", documents.column)

    def load(self, folder: Path) -> LoadedIndex:
        documents = load_sparse(folder, "documents")
        idf = bm25_idf(*document_frequencies(documents))
        values = np.asarray(documents.values) * idf[documents.indices]
        shape = (len(documents), documents.dimensions)
        self._weighted = csr_array((values, documents.indices, documents.indptr), shape=shape)
        return LoadedIndex(len(documents), {"postings": documents.nnz})

    def retrieve(self, query: SparseVectors, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores = (self._weighted @ query.to_scipy().T).toarray().ravel()
        matching = np.flatnonzero(scores)
        best = matching[np.argsort(-scores[matching], kind="stable")][:k]
        return best, scores[best]
