"""The engine on FAISS: an index from a factory string, in a file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.engines.base import Documents, External, ExternalVectorIndex, Filterable, LoadedIndex
from harness.engines.changeable import Changeable, Changes
from harness.engines.faiss.external_index import ExternalVectors
from harness.engines.faiss.structure import (
    compared_vectors,
    components,
    exact_vectors,
    few_training_documents,
    index_state,
    is_approximate,
    load_library,
    numbering,
    refuse_estimated_scores,
    refuse_unusable,
    search_parameters,
    seed,
)
from harness.engines.index_folder import matching_documents
from harness.engines.interface import Capabilities, Caveats, ComparedVectors, EngineInfo
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["FaissEngine"]

_FILE = "index.faiss"
_ROWS = "rows.npy"
_ROWS_PER_BLOCK = 16_384
_OF_PARTS = {
    "nprobe": "IndexIVF",
    "ef": "IndexHNSW",
    "ef_construction": "IndexHNSW",
    "k_factor": "IndexRefine",
}
"""Parameters that apply to only one class of indexes."""
_LARGE = re.compile(r"IMI|[1-9]\d{6}|x(?:1[3-9]|[2-9]\d)")
"""Parts of descriptions of indexes whose tables take gigabytes before a vector is added; only a worker makes them."""


class FaissEngine(Filterable[Float32Array], ExternalVectorIndex[Float32Array], Changeable[Float32Array]):
    """Dense vectors in a FAISS index, built by one thread with fixed seeds, so that two builds are equal.

    Under cosine, vectors are brought to length 1 first and compared by their inner product; scores of l2 are negative
    squared distances. Training counts as ingestion. A change does not retrain: lists and codes still come from the
    vectors of the build. If FAISS numbers vectors by position, which decreases when an earlier vector is removed, the
    engine keeps the row of each position.
    """

    name = "faiss"
    stores_metadata = False
    packages = ("faiss-cpu",)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=False, deterministic=True, reopens=True, keeps_k_prefix=False, shares_index=True
    )
    search_parameters = frozenset({"nprobe", "ef", "k_factor", "threads"})
    faults = (RuntimeError, MemoryError)

    _index: Any
    _searching: Any = None
    _selector: Any = None
    _external: ExternalVectors | None = None
    _row_of: Int32Array | None = None
    """The row of each of FAISS's numbers, after a change of an index that numbers by position."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._similarity = str(parameters["similarity"])
        if (
            not parameters["external"]
            and find_spec("faiss") is not None
            and not _LARGE.search(str(parameters["index"]))
        ):
            self._new_index(None)

    def info(self) -> EngineInfo:
        """Import FAISS; one thread runs unless searches set another number."""
        faiss = load_library()
        faiss.omp_set_num_threads(1)
        return EngineInfo("FAISS", faiss.__version__, "embedded")

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Train and add; getting ready means writing the file."""
        faiss = load_library()
        vectors = documents.column
        faiss.omp_set_num_threads(int(self.parameters["build_threads"]))
        index = self._new_index(vectors.shape[1])
        try:
            if not index.is_trained:
                index.train(self._directed(vectors))
            for start, stop in documents.batches(_ROWS_PER_BLOCK, progress):
                index.add(self._directed(vectors[start:stop]))
        except RuntimeError as error:
            reason = _reason(error)
            fewer = "output dimensions" if reason.startswith("PCA") else "lists or centroids"
            raise RejectedInputError(
                f"FAISS makes no index '{self.parameters['index']}' of {len(vectors):,} documents of "
                f"{vectors.shape[1]:,} dimensions: {reason}",
                fix=f"choose an index with fewer {fewer}, or one that needs no training: Flat, HNSW32",
            ) from error
        progress.start("save", None)
        faiss.write_index(index, str(folder / _FILE))

    def _new_index(self, dimensions: int | None) -> Any:
        """Make the index; with None, of a number of dimensions that suits the description, to test whether it exists.

        Raises:
            RejectedInputError: FAISS makes no such index of this many dimensions (with None, of any number), or its
                scores could not be explained.
        """
        faiss, described = load_library(), str(self.parameters["index"])
        metric = faiss.METRIC_L2 if self._similarity == "l2" else faiss.METRIC_INNER_PRODUCT
        try:
            index = faiss.index_factory(dimensions or _suitable_dimensions(described), described, metric)
        except RuntimeError as error:
            raise RejectedInputError(
                f"FAISS makes no index of '{described}' for {dimensions or 'any number of'} dimensions and "
                f"similarity={self._similarity}: {_reason(error)}",
                fix="index= takes a string of FAISS's index factory: Flat, HNSW32, 'IVF64,Flat', 'IVF64,PQ16', SQ8",
            ) from error
        if index.metric_type != metric:
            raise RejectedInputError(
                f"FAISS's factory makes '{described}' for l2 only",
                fix=f"give similarity=l2, or another index than {type(index).__name__}",
            )
        refuse_unusable(index)
        refuse_estimated_scores(index)
        seed(index, int(self.parameters["build_seed"]))
        for part in components(index):
            if isinstance(part, faiss.IndexHNSW):
                part.hnsw.efConstruction = int(self.parameters["ef_construction"])
        return index

    def load(self, folder: Path) -> LoadedIndex:
        """Read the file."""
        self._row_of = np.load(folder / _ROWS, allow_pickle=False) if (folder / _ROWS).exists() else None
        return self._searchable(load_library().read_index(str(folder / _FILE)))

    def unchangeable(self) -> str | None:
        """Return that FAISS removes nothing from a graph or from a refined index."""
        name = type(next(components(self._index))).__name__
        return None if numbering(self._index) is not None else f"FAISS removes nothing from its {name}"

    def change(self, folder: Path, changes: Changes[Float32Array], progress: Progress) -> None:
        """Remove by numbers, then add; getting ready means writing the file."""
        faiss, index = load_library(), self._index
        faiss.omp_set_num_threads(int(self.parameters["build_threads"]))
        vectors, outdated = self._directed(changes.written.column), changes.outdated
        if numbering(index) == "ids":
            index.remove_ids(outdated.astype(np.int64))
            index.add_with_ids(vectors, changes.rows.astype(np.int64))
        else:
            rows = np.arange(index.ntotal, dtype=np.int32) if self._row_of is None else self._row_of
            positions = np.flatnonzero(np.isin(rows, outdated))
            index.remove_ids(positions)
            index.add(vectors)
            np.save(folder / _ROWS, np.concatenate([np.delete(rows, positions), changes.rows]), allow_pickle=False)
        progress.start("save", None)
        faiss.write_index(index, str(folder / _FILE))

    def _searchable(self, index: Any, **state: ParameterValue) -> LoadedIndex:
        load_library().omp_set_num_threads(int(self.parameters["threads"]))
        self._index, self._selector = index, None
        self._searching = search_parameters(index, self.parameters)
        return LoadedIndex(index.ntotal, {**index_state(index), **state}, index.d)

    def retrieve(self, query: Float32Array, k: int) -> tuple[Any, Any]:
        """Search for one query; normalising it is part of the search, as for FAISS's users."""
        try:
            distances, numbers = self._index.search(self._directed(query), k, params=self._searching)
        except MemoryError as error:
            raise RejectedInputError(
                f"FAISS lacks the memory for the candidates of one search of k={k:,}", fix="lower k_factor, ef or --k"
            ) from error
        return numbers, distances

    def columns(self, answer: tuple[Any, Any]) -> tuple[Int64Array | Int32Array, Float32Array]:
        """Return rows and scores, without the positions that FAISS could not fill."""
        numbers, distances = answer[0][0], answer[1][0]
        filled = numbers >= 0
        numbers, distances = numbers[filled], distances[filled]
        if self._external is not None:
            rows = self._external.rows(numbers)
        else:
            rows = numbers if self._row_of is None else self._row_of[numbers]
        return rows, -distances if self._similarity == "l2" else distances

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Pass a bitmap of the matching documents to every search."""
        faiss = load_library()
        self._selector = None
        if conditions:
            matching = np.packbits(matching_documents(self.folder, conditions), bitorder="little")
            self._selector = faiss.IDSelectorBitmap(matching)
        self._searching = search_parameters(self._index, self.parameters, self._selector)
        try:
            self._index.search(np.ones((1, self._index.d), dtype=np.float32), 1, params=self._searching)
        except RuntimeError as error:
            raise RejectedInputError(
                f"FAISS filters no {type(next(components(self._index))).__name__}: {_reason(error)}",
                fix="take an index that it filters: Flat, SQ8, HNSW32, or lists (IVF64,Flat and IVF64,PQ16)",
            ) from error

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return whether these searches may miss documents, and how many of the lists they probe."""
        nprobe, state = int(self.parameters["nprobe"]), index_state(self._index)
        searched: dict[str, ParameterValue] = {"approximate": is_approximate(self._index, nprobe)}
        if "lists" in state:
            searched["probed_lists"] = min(nprobe, int(state["lists"]))
        if state["vectors_in_graph"]:
            searched["ef"] = max(int(self.parameters["ef"]), k)
        return searched

    def caveats(self, k: int) -> Caveats:
        """Return parameters without effect on this index, and a note on training with too few documents."""
        faiss = load_library()
        parts = list(components(self._index))
        without = {
            name: f"there is no {kind} in {' > '.join(type(part).__name__ for part in parts)}"
            for name, kind in _OF_PARTS.items()
            if not any(isinstance(part, getattr(faiss, kind)) for part in parts)
        }
        notes = []
        was_built = self._external is None and self._row_of is None  # after changes it holds other vectors
        if was_built and (few := few_training_documents(self._index, self._index.ntotal)) is not None:
            notes.append(few)
        graph = any(isinstance(part, faiss.IndexHNSW) for part in parts)
        if graph and self._external is None and int(self.parameters["build_threads"]) > 1:
            notes.append("several threads made the graph: another build is another graph")
        return Caveats(tuple(notes), without)

    def compared_vectors(self, queries: Inputs) -> ComparedVectors | None:
        """Return the vectors as FAISS decodes them; None if it compares the vectors as sent."""
        if self._external is not None or queries.dense is None or exact_vectors(self._index):
            return None
        rows = np.setdiff1d(np.arange(len(self.ids), dtype=np.int32), self.deleted)
        numbers = rows
        if self._row_of is not None:
            rows, numbers = self._row_of, np.arange(len(rows), dtype=np.int32)
        documents, compared = compared_vectors(self._index, numbers, self._directed(queries.dense))
        if len(rows) < len(self.ids) or self._row_of is not None:
            placed = np.zeros((len(self.ids), documents.shape[1]), dtype=np.float32)
            placed[rows] = documents
            documents = placed
        return ComparedVectors(documents, compared, "l2" if self._similarity == "l2" else "dot")

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Read the user's file and the ids of its documents."""
        info = replace(self.info(), mode="embedded, external index")
        progress.start("attach", None)
        self._external = external = ExternalVectors(self.parameters)
        self._similarity = external.similarity
        loaded = self._searchable(external.index, similarity=external.similarity)
        return External(info, external.ids, loaded, external.folder, content=external)

    def _directed(self, vectors: Float32Array) -> Float32Array:
        if self._similarity != "cosine":
            return vectors
        wide = vectors.astype(np.float64)
        directed: Float32Array = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
        return directed


def _suitable_dimensions(described: str) -> int:
    """Return a multiple of all numbers of parts into which a description splits vectors: 16 and 8 in OPQ16,PQ8+8."""
    return math.lcm(8, *(int(parts) for parts in re.findall(r"[Q+]([1-9]\d*)", described)))


def _reason(error: RuntimeError) -> str:
    """Return FAISS's message without the source location."""
    return str(error).rpartition(": ")[2]
