"""hnswlib: an HNSW graph in memory, kept in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.base import Documents, Filterable, LoadedIndex
from harness.engines.changeable import Changeable, Changes
from harness.engines.index_folder import REBUILD, matching_documents
from harness.engines.interface import Capabilities, Caveats, EngineInfo
from harness.errors import EngineUnavailableError
from harness.registry.optional import require, versions_of
from harness.registry.parameters import ParameterValue
from harness.wording import counted

__all__ = ["HnswlibEngine"]

_SPACES = {"cosine": "cosine", "dot": "ip", "l2": "l2"}
_FILE, _DIMENSIONS = "index.hnswlib", "dimensions.txt"
_ROWS_PER_BLOCK = 4096
_NOTHING = np.empty((1, 0), dtype=np.int64), np.empty((1, 0), dtype=np.float32)
_TOO_FEW = "contiguous 2D array"
"""Part of hnswlib's message if its graph reaches fewer documents than a search requests."""


class HnswlibEngine(Filterable[Float32Array], Changeable[Float32Array]):
    """Dense vectors in hnswlib's graph. One thread and a fixed seed make two builds equal.

    Scores are 1 - distance for cosine and dot product, and the negative distance for l2. hnswlib raises an error if its
    graph reaches fewer than k documents; the engine then searches for the longest possible answer, which counts as the
    query's time.
    """

    name = "hnswlib"
    stores_metadata = False
    packages = ("hnswlib",)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=False, deterministic=True, reopens=True, keeps_k_prefix=False, shares_index=True
    )
    search_parameters = frozenset({"ef", "threads"})
    faults = (RuntimeError, OSError)

    _index: Any
    _dimensions: int
    _matching: np.ndarray | None = None

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._short: set[bytes] = set()
        """Number of queries for which the graph reached too few documents."""

    def info(self) -> EngineInfo:
        """Import the library; only its distribution has the version."""
        self._library = require("hnswlib", extra="hnswlib", feature="the backend 'hnswlib'")
        return EngineInfo("hnswlib", versions_of("hnswlib")["hnswlib"], "embedded")

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Put all vectors into the graph, numbered by row; getting ready means writing the file."""
        settings, vectors = self.parameters, documents.column
        index = self._library.Index(_SPACES[str(settings["similarity"])], vectors.shape[1])
        index.init_index(
            max_elements=len(vectors),
            M=int(settings["m"]),
            ef_construction=int(settings["ef_construction"]),
            random_seed=int(settings["build_seed"]),
        )
        self._index = index
        self._write(folder, np.arange(len(vectors), dtype=np.int32), documents, progress)
        (folder / _DIMENSIONS).write_text(str(vectors.shape[1]), encoding="utf-8")

    def change(self, folder: Path, changes: Changes[Float32Array], progress: Progress) -> None:
        """Mark as deleted, and add: an existing number gets its new vector; getting ready means writing the file.

        Deleted vectors stay in the graph: searches pass through them but do not return them.
        """
        for row in changes.deleted.tolist():
            self._index.mark_deleted(row)
        progress.advance(len(changes.deleted))
        self._index.resize_index(len(self.ids))
        self._write(folder, changes.rows, changes.written, progress)

    def _write(self, folder: Path, rows: Int32Array, documents: Documents[Float32Array], progress: Progress) -> None:
        for start, stop in documents.batches(_ROWS_PER_BLOCK, progress):
            vectors, threads = documents.column[start:stop], int(self.parameters["build_threads"])
            self._index.add_items(vectors, rows[start:stop], num_threads=threads)
        progress.start("save", None)
        self._index.save_index(str(folder / _FILE))

    def load(self, folder: Path) -> LoadedIndex:
        """Read the file, and the vectors' dimensions from a separate file."""
        written = (folder / _DIMENSIONS).read_text(encoding="utf-8")
        if not written.isdecimal():
            raise EngineUnavailableError(f"'{folder / _DIMENSIONS}' is damaged", fix=REBUILD)
        index = self._library.Index(_SPACES[str(self.parameters["similarity"])], int(written))
        index.load_index(str(folder / _FILE))
        self._index, self._dimensions = index, int(written)
        count = index.get_current_count()
        state: dict[str, ParameterValue] = {
            "dimensions": self._dimensions,
            "vectors_in_graph": count,
            "deleted_in_graph": len(self.deleted),
            "m": index.M,
            "ef_construction": index.ef_construction,
            "index_file_bytes": index.index_file_size(),
        }
        return LoadedIndex(count - len(self.deleted), state, self._dimensions)

    def prepare(self, queries: Float32Array, k: int) -> list[Float32Array]:
        """Set the number of candidates, at least k: hnswlib accepts fewer, and then finds fewer."""
        self._index.set_ef(max(int(self.parameters["ef"]), k))
        return [queries[row : row + 1] for row in range(len(queries))]

    def retrieve(self, query: Float32Array, k: int) -> tuple[Any, Any]:
        """Search for ``k`` documents, or as many as match."""
        count = k if self._matching is None else min(k, int(np.count_nonzero(self._matching)))
        if count == 0:
            return _NOTHING
        answer = self._ask(query, count)
        if answer is None:
            self._short.add(query.tobytes())
            return self._most_of(query, count)
        return answer

    def _ask(self, query: Float32Array, k: int) -> tuple[Any, Any] | None:
        """Return rows and distances, None if the graph reaches fewer than ``k`` documents."""
        matching, threads = self._matching, int(self.parameters["threads"])
        chosen = {} if matching is None else {"filter": lambda row: bool(matching[row])}
        try:
            rows, distances = self._index.knn_query(query, k, num_threads=threads, **chosen)
        except RuntimeError as error:
            if _TOO_FEW not in str(error):
                raise
            return None
        return rows, distances

    def _most_of(self, query: Float32Array, k: int) -> tuple[Any, Any]:
        """Return the longest answer shorter than ``k``, by bisection: hnswlib does not report its length."""
        answer: tuple[Any, Any] = _NOTHING
        reached, too_many = 0, k
        while too_many - reached > 1:
            middle = (reached + too_many) // 2
            longer = self._ask(query, middle)
            if longer is None:
                too_many = middle
            else:
                answer, reached = longer, middle
        return answer

    def columns(self, answer: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and scores."""
        rows, distances = answer[0][0].astype(np.int64), answer[1][0].astype(np.float64)
        return rows, (0.0 if self.parameters["similarity"] == "l2" else 1.0) - distances

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Have hnswlib call a function for every document that a search visits."""
        self._matching = matching_documents(self.folder, conditions) if conditions else None

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the number of candidates that these searches kept."""
        return {"ef": max(int(self.parameters["ef"]), k)}

    def caveats(self, k: int) -> Caveats:
        """Count the queries for which the graph reached too few documents."""
        notes = []
        if self._short:
            notes.append(
                f"hnswlib's graph reached fewer documents than requested in {counted(len(self._short), 'query')} "
                "and raised an error; the time of these queries includes the search for the longest answer"
            )
        if int(self.parameters["build_threads"]) > 1:
            notes.append("several threads made the graph: another build is another graph")
        return Caveats(tuple(notes))
