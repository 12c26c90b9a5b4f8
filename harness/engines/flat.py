"""Exact dense search as a backend: every vector scored, in the documented order of ties."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, cast

import numpy as np

from harness._version import __version__
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Similarity
from harness.engines.base import (
    Capabilities,
    Documents,
    EngineInfo,
    ExpectedContent,
    External,
    ExternalIndex,
    Filterable,
    LoadedIndex,
    StoredDocuments,
    as_backend_errors,
    matching_documents,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.external_index import compare_dense, read_ids, source_folder, spread_rows
from harness.exact import DenseIndex, compile_dense_kernels
from harness.exact.dense import FilteredDenseIndex
from harness.user_path import user_path

_KEEP = "path= names a folder that DenseIndex.save wrote; save it again if it is damaged"
_ROWS_PER_BLOCK = 4096


class FlatEngine(Filterable[Float32Array], ExternalIndex[Float32Array], Changeable[Float32Array]):
    """Exact dense top-k in the process; equal scores by document id descending, as trec_eval orders them.

    Scores are cosines, dot products or negative squared distances. There is no graph: every search reads all vectors. A
    change rewrites all vectors; vectors of deleted documents stay, but no search reads them.
    """

    name = "flat"
    stores_metadata = False
    capabilities: ClassVar[Capabilities] = Capabilities(
        "dense", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True, shares_index=True, threads=True
    )

    _index: DenseIndex
    _filtered: FilteredDenseIndex | None = None

    def info(self) -> EngineInfo:
        """Compile the kernels before any search."""
        compile_dense_kernels()
        return EngineInfo("harness flat", __version__, "embedded")

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Measure the vectors; getting ready means saving them and mapping the files."""
        index = DenseIndex.build(documents.column, tie_break=documents.ids.tie_rank)
        progress.start("save", None)
        index.save(folder / "index")

    def load(self, folder: Path) -> LoadedIndex:
        """Map the saved vectors, after comparing those of a reopened index with their checksums."""
        self._index = DenseIndex.load(folder / "index", verify=self.finished)
        present = np.ones(len(self._index), dtype=np.bool_)
        present[self.deleted] = False
        self._filtered = self._index.filtered(present) if len(self.deleted) else None
        return self._loaded_index()

    def _loaded_index(self) -> LoadedIndex:
        dimensions, documents = self._index.dimensions, len(self._index) - len(self.deleted)
        return LoadedIndex(documents, {"dimensions": dimensions, "vectors_in_graph": 0}, dimensions)

    def change(self, folder: Path, changes: Changes[Float32Array], progress: Progress) -> None:
        """Rewrite all vectors in place of the existing ones."""
        vectors = np.zeros((len(self.ids), self._index.dimensions), dtype=np.float32)
        vectors[: len(self._index)] = self._index.vectors
        vectors[changes.rows] = changes.written.column
        index = DenseIndex.build(vectors, tie_break=self.ids.tie_rank)
        progress.start("save", None)
        shutil.rmtree(folder / "index")
        index.save(folder / "index")

    def retrieve(self, query: Float32Array, k: int) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of the exact best ``k``."""
        index = self._index if self._filtered is None else self._filtered
        similarity = cast("Similarity", self.parameters["similarity"])
        return index.retrieve(query, k, int(self.parameters["threads"]), similarity=similarity)[1:]

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Leave out the vectors of documents that do not match, so that searches see only the rest."""
        self._filtered = self._index.filtered(matching_documents(self.folder, conditions)) if conditions else None

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Map a saved index."""
        info, source = self.info(), source_folder(self.parameters)
        progress.start("attach", None)
        with as_backend_errors(_KEEP):
            self._index = DenseIndex.load(source)
        ids = read_ids(source / user_path(str(self.parameters["id_file"])), len(self._index))
        info = EngineInfo(info.name, info.version, "embedded, external index")
        return External(info, ids, self._loaded_index(), source)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector; their dimensions must be the encoder's."""
        vectors = self._index.vectors
        parts = np.split(np.arange(len(vectors), dtype=np.int32), range(_ROWS_PER_BLOCK, len(vectors), _ROWS_PER_BLOCK))
        return compare_dense(content, len(vectors), ((rows, vectors[rows]) for rows in parts), progress)

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return vectors sampled across the external index, which keeps no texts."""
        rows = spread_rows(self.loaded.documents, count)
        return StoredDocuments(rows, (None,) * len(rows), np.array(self._index.vectors[rows]))
