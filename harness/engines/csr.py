"""The exact sparse reference as a backend: exact scores, in the documented order of ties."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from harness._version import __version__
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, SparseVectors
from harness.engines.base import (
    Capabilities,
    Documents,
    EngineInfo,
    ExpectedContent,
    External,
    ExternalIndex,
    Filterable,
    LoadedIndex,
    as_backend_errors,
    matching_documents,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.external_index import NOT_THESE_VECTORS, compare_sparse, read_ids, source_folder
from harness.errors import RejectedInputError
from harness.exact import SparseIndex, bm25_idf, compile_kernels
from harness.exact.encoding import widen
from harness.exact.storage import StoredIndex, load_index
from harness.store.columns import load_column
from harness.user_path import user_path

_KEEP = "path= names a folder that SparseIndex.save wrote; save it again if it is damaged"
_COLUMNS = "columns.npy"


class UsedColumns:
    """The columns that documents use among a huge number of dimensions (hashed terms).

    They ascend, so that sums keep their order of terms.
    """

    def __init__(self, columns: Int32Array) -> None:
        self._columns = columns

    @classmethod
    def of(cls, documents: SparseVectors) -> UsedColumns | None:
        """Return the used columns; None unless they are far fewer than the dimensions and so make the index smaller."""
        if documents.dimensions <= 2 * documents.nnz + 1_000_000:
            return None
        return cls(np.unique(documents.indices))

    def narrow(self, vectors: SparseVectors) -> SparseVectors:
        """Return the vectors over the used columns; values in other columns, which no document uses, are dropped."""
        positions = np.searchsorted(self._columns, vectors.indices)
        is_used = np.zeros(len(positions), dtype=bool)
        inside = positions < len(self._columns)
        is_used[inside] = self._columns[positions[inside]] == vectors.indices[inside]
        kept_before = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(is_used)])
        return SparseVectors(
            kept_before[vectors.indptr],
            positions[is_used].astype(np.int32),
            vectors.values[is_used],
            max(1, len(self._columns)),
        )

    def widen(self, vectors: SparseVectors) -> SparseVectors:
        """Return vectors over the used columns in their form before :meth:`narrow`."""
        dimensions = int(self._columns.max(initial=-1)) + 1
        return SparseVectors(vectors.indptr, self._columns[vectors.indices], vectors.values, dimensions)

    def save(self, folder: Path) -> None:
        """Write the table into an existing folder."""
        np.save(folder / _COLUMNS, self._columns, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> UsedColumns:
        """Read the file of :meth:`save`; raises CacheError if it is damaged."""
        return cls(load_column(folder / _COLUMNS))


class CsrEngine(Filterable[SparseVectors], ExternalIndex[SparseVectors], Changeable[SparseVectors]):
    """Exact sparse top-k in the process; equal scores by document id descending, as trec_eval orders them.

    A change rebuilds the whole index.
    """

    name = "csr"
    stores_metadata = False
    capabilities: ClassVar[Capabilities] = Capabilities(
        "sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, shares_index=True, threads=True
    )

    _index: SparseIndex
    _filtered: SparseIndex | None = None
    _columns: UsedColumns | None = None

    def info(self) -> EngineInfo:
        """Compile the kernels before any search."""
        compile_kernels()
        return EngineInfo("harness csr", __version__, "embedded")

    def build(self, folder: Path, documents: Documents[SparseVectors], progress: Progress) -> None:
        """Transpose the vectors into postings; getting ready means saving them and mapping the files."""
        columns = UsedColumns.of(documents.column)
        vectors = documents.column if columns is None else columns.narrow(documents.column)
        idf: Literal["bm25"] | None = "bm25" if self.parameters["idf"] else None
        index = SparseIndex.build(vectors, idf=idf, tie_break=self.ids.tie_rank)
        progress.start("save", None)
        index.save(folder / "index")
        if columns is not None:
            columns.save(folder)

    def change(self, folder: Path, changes: Changes[SparseVectors], progress: Progress) -> None:
        """Rebuild the index of all vectors in place of the existing index; deleted rows are empty."""
        earlier = _saved_vectors(load_index(folder / "index", verify=False))
        if self._columns is not None:
            earlier = self._columns.widen(earlier)
        written = changes.written.column
        dimensions = max(earlier.dimensions, written.dimensions)
        earlier, written = widen(earlier, dimensions), widen(written, dimensions)
        content = np.full(len(self.ids), len(earlier) + len(written), dtype=np.int64)  # the last row is empty
        content[: len(earlier)] = np.arange(len(earlier))
        content[changes.rows] = len(earlier) + np.arange(len(written))
        content[self.deleted] = len(earlier) + len(written)
        both = SparseVectors(
            np.concatenate([earlier.indptr, written.indptr[1:] + earlier.nnz, [earlier.nnz + written.nnz]]),
            np.concatenate([earlier.indices, written.indices]),
            np.concatenate([earlier.values, written.values]),
            dimensions,
        )
        shutil.rmtree(folder / "index")
        (folder / _COLUMNS).unlink(missing_ok=True)
        self.build(folder, replace(changes.written, column=both.take(content)), progress)

    def load(self, folder: Path) -> LoadedIndex:
        """Map the saved postings, after comparing those of a reopened index with their checksums."""
        self._index = SparseIndex.load(folder / "index", verify=self.finished)
        self._columns = UsedColumns.load(folder) if (folder / _COLUMNS).exists() else None
        self._filtered = None
        documents = len(self._index) - len(self.deleted)
        with_terms = self._index.count_documents_with_terms()
        counts = {"idf_documents": with_terms, "empty_vectors": documents - with_terms}
        return LoadedIndex(documents, {"postings": self._index.postings, **counts})

    def prepare(self, queries: SparseVectors, k: int) -> Iterable[SparseVectors]:
        """Give each query the dimensions of the index."""
        if self._columns is not None:
            queries = self._columns.narrow(queries)
        elif self.parameters["external"]:
            queries = widen(queries, self._index.dimensions)
        return super().prepare(queries, k)

    def retrieve(self, query: SparseVectors, k: int) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of the exact best ``k``."""
        index = self._index if self._filtered is None else self._filtered
        return index.retrieve(query, k, int(self.parameters["threads"]))[1:]

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Leave out the postings of documents that do not match, so that searches see only the rest."""
        self._filtered = self._index.filtered(matching_documents(self.folder, conditions)) if conditions else None

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Map a saved index; ``idf`` must equal the saved value."""
        info, source = self.info(), source_folder(self.parameters)
        progress.start("attach", None)
        with as_backend_errors(_KEEP):
            index = SparseIndex.load(source)
        idf = bool(self.parameters["idf"])
        if (index.idf is not None) != idf:
            stored = "no IDF" if idf else "an IDF"
            raise RejectedInputError(
                f"the index in '{source}' was saved with {stored}", fix=f"say idf={str(not idf).lower()}"
            )
        ids = read_ids(source / user_path(str(self.parameters["id_file"])), len(index))
        self._index = index
        info = EngineInfo(info.name, info.version, "embedded, external index")
        return External(info, ids, LoadedIndex(len(index), {"dimensions": index.dimensions}), source)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector and the IDF; all columns must be the encoder's."""
        queries = content.queries.sparse
        # with fewer columns, the encoder may know only those that it produced
        if queries is not None and queries.dimensions > self._index.dimensions:
            raise RejectedInputError(
                f"the index has {self._index.dimensions} dimensions, the encoder {queries.dimensions}",
                fix=NOT_THESE_VECTORS,
            )
        with as_backend_errors(_KEEP):
            stored = load_index(self.folder, verify=False)
            vectors = _saved_vectors(stored)
            all_rows = np.arange(len(vectors), dtype=np.int32)
            other = compare_sparse(content, len(vectors), [(all_rows, vectors)], progress)
            if other is None and stored.idf is not None:
                stored_idf = bm25_idf(stored.postings.document_frequencies(), len(vectors.nonempty_rows))
                if not np.array_equal(stored_idf, stored.idf):
                    return "its IDF is not BM25's over its own documents"
        return other


def _saved_vectors(stored: StoredIndex) -> SparseVectors:
    """Return the vectors from which an index was made, by row."""
    from scipy.sparse import csc_array

    columns, rows, values, _ = stored.postings
    external = rows.astype(np.int64) if stored.order is None else stored.order[rows.astype(np.int64)]
    shape = (stored.documents, len(columns) - 1)
    return SparseVectors.from_scipy(csc_array((values, external, columns.astype(np.int64)), shape=shape))
