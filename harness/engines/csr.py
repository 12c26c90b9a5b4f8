"""The exact reference as a backend of its own: sparse vectors, exact scores, the one order of ties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness._version import __version__
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.base import Attached, Capabilities, Content, EngineInfo, IndexReport, SearchResult, Storage
from harness.engines.checks import require_announced_ids, require_positive_k, require_sparse
from harness.engines.csr_existing import SavedIndex
from harness.engines.disk import allocated_bytes
from harness.engines.existing import source_folder
from harness.engines.hits import HitCollector
from harness.engines.manifest import check_manifest, write_manifest
from harness.engines.reference_errors import as_backend_errors
from harness.engines.stored_metadata import matching_documents, save_metadata
from harness.engines.used_columns import UsedColumns
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.exact import SparseIndex, compile_kernels
from harness.exact.encoding import widen
from harness.registry.parameters import ParameterValue

__all__ = ["CsrEngine"]

_NAME = "csr"
_KEEP = "path= names a folder that SparseIndex.save wrote; save it again if it is damaged"
_FREE = ("threads",)
_OF_EXISTING = ("existing", "path", "id_file")


class CsrEngine:
    """Exact sparse top-k in the process; equal scores by document id descending, as trec_eval orders them."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        threads=True,
        existing=True,
        filters=True,
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._parameters = dict(parameters)
        self._saved: SavedIndex | None = None
        self._idf = bool(parameters["idf"])
        self._threads = int(parameters["threads"])
        self._folder: Path | None = None
        self._ids = Ids.of([])
        self._index: SparseIndex | None = None
        self._filtered: SparseIndex | None = None
        self._columns: UsedColumns | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or load the index that it holds; compiles the kernels, so that no search does.

        Raises EngineUnavailableError for a damaged index, RejectedInputError for one of other parameters or documents.
        """
        compile_kernels()
        if check_manifest(folder, _NAME, self._of_index, ids, free=_FREE):
            with as_backend_errors():
                self._index = SparseIndex.load(folder / "index")
                self._columns = UsedColumns.load(folder)
        self._folder, self._ids = folder, ids
        return EngineInfo("harness csr", __version__, "embedded")

    @property
    def source(self) -> Path | None:
        """The folder that ``SparseIndex.save`` wrote."""
        return source_folder(self._parameters)

    def attach(self, folder: Path, progress: Progress) -> Attached:  # noqa: ARG002 - nothing is copied
        """Map a saved index; its kernels are compiled, so that no search does it. Needs no copy."""
        compile_kernels()
        progress.start("attach", None)
        source = source_folder(self._parameters)
        with as_backend_errors(_KEEP):
            saved = SavedIndex(source, id_file=str(self._parameters["id_file"]), idf=self._idf)
        self._saved, self._index, self._folder, self._ids = saved, saved.index, source, saved.ids
        state = {"dimensions": saved.index.dimensions}
        return Attached(EngineInfo("harness csr", __version__, "embedded, existing index"), saved.ids, state)

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares every stored vector, and the IDF; the columns of all must be the encoder's."""
        if self._saved is None:
            raise EngineUnavailableError("no existing index is attached", fix="call attach first")
        progress.start("compare", None)
        with as_backend_errors(_KEEP):
            return self._saved.differs(content)

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
        with as_backend_errors():
            narrowed = vectors if columns is None else columns.narrow(vectors)
            index = SparseIndex.build(narrowed, idf="bm25" if self._idf else None, tie_break=tie_break)
        built = clock()
        index.save(folder / "index")
        save_metadata(folder, documents.metadata)
        if columns is not None:
            columns.save(folder)
        write_manifest(folder, _NAME, self._of_index, documents.ids)
        saved = clock()
        progress.advance(len(vectors))
        self._index, self._columns = index, columns
        with_terms = len(vectors.nonempty_rows)
        state = {"postings": vectors.nnz, "idf_documents": with_terms, "empty_vectors": len(index) - with_terms}
        missing = np.array([], dtype=np.int32)
        return IndexReport(len(documents), len(index), missing, built - started, saved - built, state)

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Leave out, before any query, the postings of documents that do not match: a search is one of the rest.

        Raises RejectedInputError for a field that was not indexed.
        """
        index = self._indexed()
        self._filtered = index.filtered(matching_documents(self._opened(), wanted)) if wanted else None

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query, asked one by one; hits are arrays from the start, so transfer takes no time.

        Raises RejectedInputError.
        """
        whole = self._indexed()
        index = whole if self._filtered is None else self._filtered
        require_positive_k(k)
        vectors = require_sparse(queries, "query")
        if self._saved is not None:
            vectors = widen(vectors, index.dimensions)
        if self._columns is not None:
            vectors = self._columns.narrow(vectors)
        collector = HitCollector(len(queries))
        with as_backend_errors():
            for query in range(len(queries)):
                indices, values = vectors.row(query)
                one = SparseVectors(np.array([0, len(indices)]), indices, values, vectors.dimensions)
                started = clock()
                found = index.retrieve(one, k, self._threads)
                collector.add(found.rows, found.scores, clock() - started, 0)
        return collector.result()

    def storage(self) -> Storage:
        """Allocated bytes of the saved index, which is memory-mapped when it is opened again; there is no log."""
        return Storage(allocated_bytes(self._opened()), 0)

    def close(self) -> None:
        """Let go of the index; calling it again does nothing."""
        self._folder, self._index, self._filtered, self._columns, self._saved = None, None, None, None, None

    @property
    def _of_index(self) -> dict[str, ParameterValue]:
        return {name: value for name, value in self._parameters.items() if name not in _OF_EXISTING}

    def _opened(self) -> Path:
        if self._folder is None:
            raise EngineUnavailableError("the csr engine is closed", fix="open it first")
        return self._folder

    def _indexed(self) -> SparseIndex:
        self._opened()
        if self._index is None:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        return self._index
