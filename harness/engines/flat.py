"""Exact dense search as a backend of its own: every vector scored, the one order of ties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, cast

import numpy as np

from harness._version import __version__
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Int32Array, Similarity
from harness.engines.base import (
    Attached,
    Capabilities,
    Content,
    EngineInfo,
    IndexReport,
    SearchResult,
    Storage,
    StoredDocuments,
)
from harness.engines.checks import require_announced_ids, require_dense, require_positive_k
from harness.engines.disk import allocated_bytes
from harness.engines.existing import other_vectors, read_ids, source_folder, spread_rows
from harness.engines.hits import HitCollector
from harness.engines.manifest import check_manifest, write_manifest
from harness.engines.reference_errors import as_backend_errors
from harness.engines.stored_metadata import matching_documents, save_metadata
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.exact import DenseIndex, compile_dense_kernels
from harness.exact.dense import FilteredDenseIndex
from harness.registry.parameters import ParameterValue

__all__ = ["FlatEngine"]

_NAME = "flat"
_KEEP = "path= names a folder that DenseIndex.save wrote; save it again if it is damaged"
_FREE = ("threads",)
_OF_EXISTING = ("existing", "path", "id_file")
_ROWS_AT_ONCE = 4096


class FlatEngine:
    """Exact dense top-k in the process; equal scores by document id descending, as trec_eval orders them.

    Scores are cosines, dot products or negative squared distances. There is no graph: every search looks at all
    vectors.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
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
        self._similarity = cast("Similarity", parameters["similarity"])
        self._threads = int(parameters["threads"])
        self._folder: Path | None = None
        self._ids = Ids.of([])
        self._index: DenseIndex | None = None
        self._filtered: FilteredDenseIndex | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or load the index that it holds; compiles the kernels, so that no search does.

        Raises EngineUnavailableError for a damaged index, RejectedInputError for one of other parameters or documents.
        """
        compile_dense_kernels()
        if check_manifest(folder, _NAME, self._of_index, ids, free=_FREE):
            with as_backend_errors():
                self._index = DenseIndex.load(folder / "index")
        self._folder, self._ids = folder, ids
        return EngineInfo("harness flat", __version__, "embedded")

    @property
    def source(self) -> Path | None:
        """The folder that ``DenseIndex.save`` wrote."""
        return source_folder(self._parameters)

    def attach(self, folder: Path, progress: Progress) -> Attached:  # noqa: ARG002 - nothing is copied
        """Map a saved index; its kernels are compiled, so that no search does it. Needs no copy."""
        compile_dense_kernels()
        progress.start("attach", None)
        source = source_folder(self._parameters)
        with as_backend_errors(_KEEP):
            index = DenseIndex.load(source)
        ids = read_ids(source / Path(str(self._parameters["id_file"])).expanduser(), len(index))
        self._index, self._folder, self._ids = index, source, ids
        state = {"dimensions": index.dimensions, "vectors_in_graph": 0}
        return Attached(EngineInfo("harness flat", __version__, "embedded, existing index"), ids, state)

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares every stored vector, bit for bit. Raises RejectedInputError for another number of dimensions."""
        index = self._indexed()
        expected = require_dense(content.documents, "document", cosine=False, dimensions=index.dimensions)
        progress.start("compare", len(expected))
        for start in range(0, len(expected), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            other = _other_rows(index.vectors[content.rows[part]], expected[part])
            if len(other):
                return other_vectors(other + np.int32(start), content.documents.ids)
            progress.advance(len(expected[part]))
        return None

    def stored_documents(self, count: int) -> StoredDocuments:
        """Vectors from all over the attached index, which keeps no texts."""
        index = self._indexed()
        rows = spread_rows(len(index), count)
        return StoredDocuments(rows, (None,) * len(rows), np.array(index.vectors[rows]))

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Save the vectors with their lengths; ``ready_ns`` is the time that saving took. Raises RejectedInputError."""
        folder = self._opened()
        if self._index is not None:
            raise RejectedInputError(f"'{folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        vectors = require_dense(documents, "document", cosine=self._similarity == "cosine")
        progress.start("index", len(vectors))
        tie_break = documents.ids.tie_rank
        started = clock()
        index = DenseIndex.build(vectors, tie_break=tie_break)
        built = clock()
        index.save(folder / "index")
        save_metadata(folder, documents.metadata)
        write_manifest(folder, _NAME, self._of_index, documents.ids)
        saved = clock()
        progress.advance(len(vectors))
        self._index = index
        state = {"dimensions": index.dimensions, "vectors_in_graph": 0}
        missing = np.array([], dtype=np.int32)
        return IndexReport(len(documents), len(index), missing, built - started, saved - built, state)

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Leave out, before any query, the vectors of documents that do not match: a search is one of the rest.

        Raises RejectedInputError for a field that was not indexed.
        """
        index = self._indexed()
        self._filtered = index.filtered(matching_documents(self._opened(), wanted)) if wanted else None

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query, asked one by one; hits are arrays from the start, so transfer takes no time.

        Raises RejectedInputError.
        """
        index = self._indexed()
        require_positive_k(k)
        cosine = self._similarity == "cosine"
        vectors = require_dense(queries, "query", cosine=cosine, dimensions=index.dimensions)
        searched = index if self._filtered is None else self._filtered
        collector = HitCollector(len(queries))
        with as_backend_errors():
            for query in range(len(queries)):
                started = clock()
                found = searched.retrieve(vectors[query : query + 1], k, self._threads, similarity=self._similarity)
                collector.add(found.rows, found.scores, clock() - started, 0)
        return collector.result()

    def storage(self) -> Storage:
        """Allocated bytes of the saved index, which is memory-mapped when it is opened again; there is no log."""
        return Storage(allocated_bytes(self._opened()), 0)

    def close(self) -> None:
        """Let go of the index; calling it again does nothing."""
        self._folder, self._index, self._filtered = None, None, None

    @property
    def _of_index(self) -> dict[str, ParameterValue]:
        return {name: value for name, value in self._parameters.items() if name not in _OF_EXISTING}

    def _opened(self) -> Path:
        if self._folder is None:
            raise EngineUnavailableError("the flat engine is closed", fix="open it first")
        return self._folder

    def _indexed(self) -> DenseIndex:
        self._opened()
        if self._index is None:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        return self._index


def _other_rows(stored: Float32Array, expected: Float32Array) -> Int32Array:
    return np.flatnonzero((stored.view(np.uint32) != expected.view(np.uint32)).any(axis=1)).astype(np.int32)
