"""USearch: an HNSW graph over vectors of several datatypes, kept in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Similarity
from harness.engines.base import Documents, LoadedIndex
from harness.engines.changeable import Changeable, Changes
from harness.engines.interface import Capabilities, Caveats, ComparedVectors, EngineInfo
from harness.errors import RejectedInputError
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = ["UsearchEngine"]

_METRICS = {"cosine": "cos", "dot": "ip", "l2": "l2sq"}
_FILE = "index.usearch"
_ROWS_PER_BLOCK = 4096
_FLOAT_TYPES = ("f64", "f32")
"""Datatypes that keep every bit of a float32."""


class UsearchEngine(Changeable[Float32Array]):
    """Dense vectors in USearch's graph. One thread builds it, so that two builds are equal.

    Scores are 1 - distance for cosine and dot product, and the negative distance for l2. Documents and queries are
    rounded to ``datatype`` before they are compared. USearch has no filters in Python.
    """

    name = "usearch"
    packages = ("usearch",)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=False, deterministic=True, reopens=True, keeps_k_prefix=False, shares_index=True
    )
    search_parameters = frozenset({"ef", "exact", "threads"})
    faults = (RuntimeError, ValueError)

    _index: Any

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        if parameters["datatype"] == "i8" and parameters["similarity"] != "cosine":
            raise RejectedInputError(
                "datatype=i8 divides every vector by its length, which changes all scores but cosine",
                fix="take similarity=cosine, or datatype=f16",
            )

    def info(self) -> EngineInfo:
        """Import the library."""
        self._library = require("usearch.index", extra="usearch", feature="the backend 'usearch'")
        version = require("usearch", extra="usearch", feature="the backend 'usearch'").__version__
        return EngineInfo("USearch", version, "embedded")

    def _new_index(self, dimensions: int) -> Any:
        settings = self.parameters
        return self._library.Index(
            ndim=dimensions,
            metric=_METRICS[str(settings["similarity"])],
            dtype=str(settings["datatype"]),
            connectivity=int(settings["m"]),
            expansion_add=int(settings["ef_construction"]),
            expansion_search=int(settings["ef"]),
        )

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Put all vectors into the graph, numbered by row; getting ready means writing the file."""
        self._index = self._new_index(documents.column.shape[1])
        self._write(folder, np.arange(len(documents), dtype=np.int32), documents, progress)

    def change(self, folder: Path, changes: Changes[Float32Array], progress: Progress) -> None:
        """Remove by number and add; getting ready means writing the file.

        USearch leaves a removed vector's node in the graph, where no search returns it, and puts a new vector there.
        """
        self._index.remove(changes.outdated.astype(np.uint64), threads=1)
        progress.advance(len(changes.deleted))
        self._write(folder, changes.rows, changes.written, progress)

    def _write(self, folder: Path, rows: Int32Array, documents: Documents[Float32Array], progress: Progress) -> None:
        for start, stop in documents.batches(_ROWS_PER_BLOCK, progress):
            keys, vectors = rows[start:stop].astype(np.uint64), documents.column[start:stop]
            self._index.add(keys, vectors, threads=int(self.parameters["build_threads"]))
        progress.start("save", None)
        self._index.save(str(folder / _FILE))

    def load(self, folder: Path) -> LoadedIndex:
        """Read the file into memory."""
        index = self._library.Index.restore(str(folder / _FILE))
        if index is None:
            raise RuntimeError(f"'{folder / _FILE}' is not an index of USearch")
        index.expansion_search = int(self.parameters["ef"])
        index.expansion_add = int(self.parameters["ef_construction"])  # the file has neither
        self._index = index
        lowest = index.level_stats(0)
        state: dict[str, ParameterValue] = {
            "dimensions": index.ndim,
            "datatype": str(index.dtype).rpartition(".")[2].lower(),
            "vectors_in_graph": int(lowest.nodes),
            "graph_links": int(lowest.edges),
            "graph_levels": int(index.nlevels),
            "m": int(index.connectivity),
            "memory_bytes": int(index.memory_usage),
            "instructions": str(index.hardware_acceleration),
        }
        return LoadedIndex(len(index), state, index.ndim)

    def retrieve(self, query: Float32Array, k: int) -> Any:
        """Query USearch, which keeps ``ef`` candidates, at least k."""
        exact, threads = bool(self.parameters["exact"]), int(self.parameters["threads"])
        return self._index.search(query[0], k, threads=threads, exact=exact)

    def columns(self, answer: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and scores."""
        distances = np.asarray(answer.distances, dtype=np.float64)
        rows = np.asarray(answer.keys).astype(np.int64)
        return rows, (0.0 if self.parameters["similarity"] == "l2" else 1.0) - distances

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return whether these searches scanned every vector, or the number of candidates."""
        if self.parameters["exact"]:
            return {"vectors_in_graph": 0, "approximate": False}
        return {"ef": max(int(self.parameters["ef"]), k)}

    def caveats(self, k: int) -> Caveats:
        """Note if a build cannot be repeated, and list the parameters that an exact search ignores."""
        several = int(self.parameters["build_threads"]) > 1
        notes = ("several threads made the graph: another build is another graph",) if several else ()
        without = dict.fromkeys(("m", "ef", "ef_construction"), "exact=true scans all vectors")
        return Caveats(notes, without if self.parameters["exact"] else {})

    def compared_vectors(self, queries: Inputs) -> ComparedVectors | None:
        """Return the vectors as ``datatype`` keeps them; None if it keeps every bit."""
        if self.parameters["datatype"] in _FLOAT_TYPES or queries.dense is None:
            return None
        rounded = self._new_index(queries.dense.shape[1])
        rounded.add(np.arange(len(queries), dtype=np.uint64), queries.dense, threads=1)
        similarity = self.parameters["similarity"]
        return ComparedVectors(
            _stored(self._index, len(self.ids), self.deleted),
            _stored(rounded, len(queries)),
            cast("Similarity", similarity),
        )


def _stored(index: Any, count: int, deleted: Sequence[int] | Int32Array = ()) -> Float32Array:
    """Return the vectors as they are kept, float32 (n, d); whole numbers for i8, whose scale is lost.

    Rows in ``deleted`` are zeros.
    """
    scalar_type = "i8" if str(index.dtype).endswith("I8") else "f32"
    keys = np.setdiff1d(np.arange(count), deleted)
    vectors = np.zeros((count, index.ndim), dtype=np.float32)
    if len(keys):
        vectors[keys] = np.stack(index.get(keys.astype(np.uint64), dtype=scalar_type))
    return vectors
