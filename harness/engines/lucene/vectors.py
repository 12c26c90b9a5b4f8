"""Dense vectors in Lucene: its HNSW graphs, and an exact scan."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.engines.base import Documents
from harness.engines.checks import require_dense
from harness.engines.external_index import Preserved, compare_dense, require_similarity, spread_rows
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.engines.lucene.engine import Batch, RowsEngine, promises
from harness.errors import RejectedInputError
from harness.java.bridge import JavaObject
from harness.registry.parameters import ParameterValue

_MOST_DIMENSIONS = 1024
_BATCH = 1024
_CODECS = "org.apache.lucene.codecs"
_FUNCTIONS = {"cosine": "DOT_PRODUCT", "dot": "MAXIMUM_INNER_PRODUCT", "l2": "EUCLIDEAN"}
_PRESERVED: Mapping[tuple[str, str], Preserved] = {
    ("cosine", "DOT_PRODUCT"): "unit",
    ("cosine", "COSINE"): "direction",
    ("dot", "MAXIMUM_INNER_PRODUCT"): "bits",
    ("dot", "DOT_PRODUCT"): "bits",
    ("l2", "EUCLIDEAN"): "bits",
}
"""The form in which an external index keeps vectors, by the requested similarity and the function of its field."""


class _VectorsEngine(RowsEngine[Float32Array]):
    """The common base of engines of dense vectors.

    Scores are computed from Lucene's, which are all positive: ``2s - 1`` for DOT_PRODUCT and COSINE; ``s - 1``, or
    ``1 - 1/s`` if ``s < 1``, for MAXIMUM_INNER_PRODUCT; ``1 - 1/s`` for EUCLIDEAN, the negative squared distance. Under
    cosine, vectors are first brought to length 1, and then compared by DOT_PRODUCT.
    """

    index_field = "vector"
    graphs: ClassVar[bool]
    """True for an engine that searches graphs, False for an engine that scans an index without graphs."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._similarity = str(parameters["similarity"])
        self._function = _FUNCTIONS.get(self._similarity, "")  # for an external index, read in require_field
        self._quantised: str | None = None
        self._dimensions: int | None = None

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> Float32Array:
        """Return dense vectors with the index's dimensions, at most 1,024; see :func:`require_dense`."""
        dimensions_of_index = self._dimensions if role == "query" else None
        vectors = require_dense(inputs, role, cosine=self._similarity == "cosine", dimensions=dimensions_of_index)
        if vectors.shape[1] > _MOST_DIMENSIONS:
            raise RejectedInputError(
                f"the {role} vectors have {vectors.shape[1]} dimensions; Lucene takes at most {_MOST_DIMENSIONS}",
                fix=f"encode with truncate_dim={_MOST_DIMENSIONS} where the model allows it, or use another engine",
            )
        return vectors

    def configure_writer(self, configuration: JavaObject) -> None:
        """Write vectors in the format of the engine."""
        configuration.setCodec(self.bridge.index.codecOf(self.vectors_format()))

    @abstractmethod
    def vectors_format(self) -> JavaObject:
        """Return Lucene's format of vectors."""

    def java_documents(self, documents: Documents[Float32Array]) -> Iterator[Batch]:
        """Make documents of one field, inside the JVM."""
        bridge, vectors = self.bridge, documents.column
        function = getattr(bridge.load("org.apache.lucene.index.VectorSimilarityFunction"), self._function)
        for start in range(0, len(vectors), _BATCH):
            batch = self._directed(vectors[start : start + _BATCH])
            java = bridge.index.vectorDocuments(_packed(batch), batch.shape[1], self.field, function)
            yield Batch(java, start + np.arange(len(batch)))

    def prepare(self, queries: Float32Array, k: int) -> list[JavaObject]:
        """Make Lucene's own queries for the nearest vectors."""
        rows, dimensions = _packed(self._directed(queries)), queries.shape[1]
        built = self.bridge.index.vectorQueries(rows, dimensions, self.field, self.candidates(k), self.java_filter)
        return self.bridge.queries(built)

    def candidates(self, depth: int) -> int:
        """Return the number of candidates that a search for ``depth`` documents keeps in each segment."""
        return depth

    def configure_searcher(self) -> None:
        """Record the dimensions, which queries must also have."""
        field = self.reader.vector_fields().get(self.field)
        self._dimensions = field.dimensions if field is not None else None

    def scores(self, lucene: Float32Array) -> Float32Array:
        """Return cosines, dot products or negative squared distances; DOT_PRODUCT has no products below -1."""
        wide = lucene.astype(np.float64)
        lowest = np.finfo(np.float32).tiny  # a score below float32's range must not become infinite
        inverse = 1 - 1 / np.maximum(wide, lowest)
        if self._function in ("DOT_PRODUCT", "COSINE"):
            scores = 2 * wide - 1
        elif self._function == "EUCLIDEAN":
            scores = inverse
        else:
            scores = np.where(wide < 1, inverse, wide - 1)
        narrow: Float32Array = scores.astype(np.float32)
        return narrow

    def require_field(self) -> None:
        """Require float32 vectors, with or without graphs, that are compared by ``similarity``."""
        fields = self.reader.vector_fields()
        if self.field not in fields:
            raise RejectedInputError(
                f"no document of the index has the field of vectors '{self.field}'",
                fix=f"name one that it has (field=): {', '.join(sorted(fields)) or 'there is none'}",
            )
        field = fields[self.field]
        if field.encoding != "FLOAT32":
            raise RejectedInputError(
                f"the field '{self.field}' holds vectors of {field.encoding}", fix="name one of float32 numbers: field="
            )
        fitting = [similarity for similarity, function in _PRESERVED if function == field.function]  # cosine before dot
        compared = f"the field '{self.field}' is compared by {field.function}"
        self._similarity = require_similarity(compared, fitting, self._similarity)
        formats = sorted(field.formats)
        graphs = any("hnsw" in name.lower() for name in formats)
        if graphs != self.graphs:
            raise RejectedInputError(
                f"the field '{self.field}' has {'graphs' if graphs else 'no graphs'} ({', '.join(formats)})",
                fix=f"take lucene-{'hnsw' if graphs else 'flat'}",
            )
        self._function = field.function
        self._quantised = next((name for name in formats if "quantized" in name.lower()), None)

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the similarity of an external index, which is read from it."""
        return {"similarity": self._similarity} if self.external else {}

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector."""
        if self._quantised is not None:
            return f"Lucene scores quantised vectors ({self._quantised}), which no reference models"
        pages = ((self.row_of[documents], vectors) for documents, vectors in self.reader.vectors())
        live = ((rows[rows >= 0], vectors[rows >= 0]) for rows, vectors in pages)
        return compare_dense(content, len(self.ids), live, progress, _PRESERVED[self._similarity, self._function])

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return documents from the beginning of the index, which Lucene reads in order; texts are not read."""
        for documents, vectors in self.reader.vectors():
            live = np.flatnonzero(self.row_of[documents] >= 0)
            if len(live):
                chosen = live[spread_rows(len(live), count)]
                return StoredDocuments(self.row_of[documents[chosen]], (None,) * len(chosen), vectors[chosen])
        nothing = np.empty(0, dtype=np.int32)
        return StoredDocuments(nothing, (), np.empty((0, self._dimensions or 0), dtype=np.float32))

    def _directed(self, vectors: Float32Array) -> Float32Array:
        if self._similarity != "cosine":
            return vectors
        wide = vectors.astype(np.float64)
        directed: Float32Array = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
        return directed


class LuceneHnswEngine(_VectorsEngine):
    """Lucene's HNSW graph of each segment. One thread and a fixed seed make builds equal.

    A search keeps ``ef_search`` candidates in each segment's graph (Lucene calls it the query's k), at least as many as
    the requested documents; a segment with at most this many vectors is scanned.
    """

    capabilities = promises("dense", exact=False)
    name = "lucene-hnsw"
    graphs = True
    search_parameters = frozenset({"heap", "jar", "ef_search"})

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._sizes: list[int] = []

    def vectors_format(self) -> JavaObject:
        """Return the format with the graph's parameters."""
        links, width = int(self.parameters["max_connections"]), int(self.parameters["beam_width"])
        return self.bridge.load(f"{_CODECS}.lucene99.Lucene99HnswVectorsFormat")(links, width)

    def candidates(self, depth: int) -> int:
        """Return ``ef_search``, or the number of requested documents if it is larger."""
        return max(depth, int(self.parameters["ef_search"]))

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the number of vectors in the segments' graphs, by the graphs' own count."""
        return {**super().state(), "vectors_in_graph": sum(self._sizes)}

    def configure_searcher(self) -> None:
        """Record the dimensions and the sizes of the graphs."""
        super().configure_searcher()
        self._sizes = self.reader.graph_sizes()

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Count the vectors of segments that have more vectors than a search keeps: other segments are scanned."""
        return {"vectors_in_graph": sum(size for size in self._sizes if size > self.candidates(k))}


class LuceneFlatEngine(_VectorsEngine):
    """An exact scan of all vectors, by Anserini's flat format and Lucene's own query; equal scores by row ascending."""

    capabilities = promises("dense")
    name = "lucene-flat"
    graphs = False

    def vectors_format(self) -> JavaObject:
        """Return the format without a graph."""
        return self.bridge.load("io.anserini.index.codecs.AnseriniLucene99FlatVectorFormat")()


def _packed(rows: Float32Array) -> bytes:
    return rows.astype("<f4", copy=False).tobytes()
