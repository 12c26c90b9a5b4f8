"""The exact reference as a backend of its own: sparse vectors, exact scores, the one order of ties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness._version import __version__
from harness.adapters.checks import require_announced_ids, require_positive_k, require_sparse
from harness.adapters.hits import HitCollector
from harness.adapters.manifest import check_manifest, write_manifest
from harness.adapters.used_columns import UsedColumns
from harness.errors import CacheError, DataError, EngineUnavailableError, RejectedInputError, UsageError
from harness.protocols import (
    Capabilities,
    Clock,
    EngineInfo,
    IndexReport,
    Inputs,
    ParameterValue,
    Progress,
    SearchResult,
    Storage,
)
from harness.reference import SparseIndex
from harness.types import Ids, SparseVectors

__all__ = ["CsrEngine"]

_NAME = "csr"
_FREE = ("threads",)


class CsrEngine:
    """Exact sparse top-k in the process; equal scores by document id descending, as trec_eval orders them."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._parameters = dict(parameters)
        self._idf = bool(parameters["idf"])
        self._threads = int(parameters["threads"])
        self._folder: Path | None = None
        self._ids = Ids.of([])
        self._index: SparseIndex | None = None
        self._columns: UsedColumns | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or load the index that it holds; compiles the kernels, so that no search does.

        Raises EngineUnavailableError for a damaged index, RejectedInputError for one of other parameters or documents.
        """
        _compile_kernels()
        if check_manifest(folder, _NAME, self._parameters, ids, free=_FREE):
            with _translated():
                self._index = SparseIndex.load(folder / "index")
                self._columns = UsedColumns.load(folder)
        self._folder, self._ids = folder, ids
        return EngineInfo("harness csr", __version__, "embedded")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Transpose the vectors into postings, and save them; ``ready_ns`` is the time that saving took.

        Raises RejectedInputError.
        """
        folder = self._opened()
        if self._index is not None:
            raise RejectedInputError(f"'{folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        vectors = require_sparse(documents, "document")
        progress.start("index", len(vectors))
        tie_break = documents.ids.tie_rank
        started = clock()
        columns = UsedColumns.of(vectors)
        with _translated():
            narrowed = vectors if columns is None else columns.narrow(vectors)
            index = SparseIndex.build(narrowed, idf="bm25" if self._idf else None, tie_break=tie_break)
        built = clock()
        index.save(folder / "index")
        if columns is not None:
            columns.save(folder)
        write_manifest(folder, _NAME, self._parameters, documents.ids)
        saved = clock()
        progress.advance(len(vectors))
        self._index, self._columns = index, columns
        with_terms = len(vectors.nonempty_rows)
        state = {"postings": vectors.nnz, "idf_documents": with_terms, "empty_vectors": len(index) - with_terms}
        missing = np.array([], dtype=np.int32)
        return IndexReport(len(documents), len(index), missing, built - started, saved - built, state)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query, asked one by one; hits are arrays from the start, so transfer takes no time.

        Raises RejectedInputError.
        """
        self._opened()
        if self._index is None:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        require_positive_k(k)
        vectors = require_sparse(queries, "query")
        if self._columns is not None:
            vectors = self._columns.narrow(vectors)
        collector = HitCollector(len(queries))
        with _translated():
            for query in range(len(queries)):
                indices, values = vectors.row(query)
                one = SparseVectors(np.array([0, len(indices)]), indices, values, vectors.dimensions)
                started = clock()
                found = self._index.retrieve(one, k, self._threads)
                collector.add(found.rows, found.scores, clock() - started, 0)
        return collector.result()

    def storage(self) -> Storage:
        """Bytes of the postings and what belongs to them; there is no log."""
        self._opened()
        parts = (part for part in (self._index, self._columns) if part is not None)
        return Storage(sum(part.index_bytes for part in parts), 0)

    def close(self) -> None:
        """Let go of the index; calling it again does nothing."""
        self._folder, self._index, self._columns = None, None, None

    def _opened(self) -> Path:
        if self._folder is None:
            raise EngineUnavailableError("the csr engine is closed", fix="open it first")
        return self._folder


def _compile_kernels() -> None:
    one = SparseVectors(np.array([0, 1]), np.array([0], dtype=np.int32), np.array([1], dtype=np.float32), 1)
    SparseIndex.build(one, idf="bm25", tie_break=np.array([0], dtype=np.uint32)).retrieve(one, 1)


@contextmanager
def _translated() -> Iterator[None]:
    """Turn errors of the reference, which is a library of its own, into those of a backend."""
    try:
        yield
    except CacheError as error:
        raise EngineUnavailableError(error.what, fix="delete the index folder and index again") from error
    except (DataError, UsageError) as error:
        raise RejectedInputError(error.what, fix=error.fix) from error
