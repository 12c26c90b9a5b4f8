"""Dense vectors in Lucene: its HNSW graphs, and an exact scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.engines.checks import require_dense
from harness.engines.dense_compare import DenseComparison, Kept
from harness.engines.existing import places_of, spread_rows
from harness.engines.interface import Capabilities, Content, StoredDocuments
from harness.engines.lucene.floats import float_rows
from harness.engines.lucene.held import Held
from harness.engines.lucene.rows import RowsEngine
from harness.engines.lucene.stored_vectors import leaves_of, stored_vectors, vector_fields
from harness.errors import RejectedInputError
from harness.java.bridge import JavaBridge
from harness.registry.parameters import ParameterValue

__all__ = ["LuceneFlatEngine", "LuceneHnswEngine"]

_MOST_DIMENSIONS = 1024
_BATCH = 1024
_CODECS = "org.apache.lucene.codecs"
_FUNCTIONS = {"cosine": "DOT_PRODUCT", "dot": "MAXIMUM_INNER_PRODUCT", "l2": "EUCLIDEAN"}
_KEPT: Mapping[tuple[str, str], Kept] = {
    ("cosine", "DOT_PRODUCT"): "unit",
    ("cosine", "COSINE"): "direction",
    ("dot", "MAXIMUM_INNER_PRODUCT"): "bits",
    ("dot", "DOT_PRODUCT"): "bits",
    ("l2", "EUCLIDEAN"): "bits",
}
"""How the vectors of an existing index are kept, by the similarity asked for and the function of its field."""


class _VectorsEngine(RowsEngine[Float32Array]):
    """Scores are made of Lucene's, which are all positive: ``2s - 1`` for DOT_PRODUCT and COSINE; ``s - 1``, and
    ``1 - 1/s`` where ``s < 1``, for MAXIMUM_INNER_PRODUCT; ``1 - 1/s`` for EUCLIDEAN, the negative squared distance.
    Under cosine, vectors are brought to length 1 first, and compared by DOT_PRODUCT.
    """

    own_field = "vector"
    graphs: ClassVar[bool]
    """Whether the engine searches the graphs of an index, or scans one that has none."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._similarity = str(parameters["similarity"])
        self._function = _FUNCTIONS.get(self._similarity, "")  # of an existing index, read in require_field
        self._quantised: str | None = None
        self._dimensions: int | None = None

    def require(self, inputs: Inputs, what: str) -> Float32Array:
        """Dense vectors of at most 1,024 dimensions, those of the index; see :func:`require_dense`."""
        known = self._dimensions if what == "query" else None
        vectors = require_dense(inputs, what, cosine=self._similarity == "cosine", dimensions=known)
        if vectors.shape[1] > _MOST_DIMENSIONS:
            raise RejectedInputError(
                f"the {what} vectors have {vectors.shape[1]} dimensions; Lucene takes at most {_MOST_DIMENSIONS}",
                fix=f"encode with truncate_dim={_MOST_DIMENSIONS} where the model allows it, or use another engine",
            )
        return vectors

    def configure(self, bridge: JavaBridge, configuration: Any) -> None:  # noqa: ANN401 - a Java object
        """Write vectors in the format of the engine: the codec keeps it in a field that only Java's own code sets."""
        codec = bridge.load(f"{_CODECS}.lucene99.Lucene99Codec")()
        bridge.set_field(codec, "defaultKnnVectorsFormat", self.vectors_format(bridge))
        configuration.setCodec(codec)

    def vectors_format(self, bridge: JavaBridge) -> Any:  # noqa: ANN401 - Java objects
        """Lucene's format of vectors."""
        raise NotImplementedError

    def documents(self, bridge: JavaBridge, vectors: Float32Array) -> Iterator[tuple[int, Any]]:
        """Documents of one field, made inside the JVM."""
        functions = bridge.load("org.apache.lucene.index.VectorSimilarityFunction")
        kind = "org.apache.lucene.document.KnnFloatVectorField"
        signature = "(Ljava/lang/String;[FLorg/apache/lucene/index/VectorSimilarityFunction;)V"
        field = bridge.bind(bridge.constructor(kind, signature), 0, bridge.string(self.field))
        field = bridge.bind(field, 1, getattr(functions, self._function))
        alone = bridge.static_method("java.util.Collections", "singletonList", "(Ljava/lang/Object;)Ljava/util/List;")
        to_document = bridge.function(bridge.chain(field, alone))
        for start in range(0, len(vectors), _BATCH):
            batch = self._directed(vectors[start : start + _BATCH])
            yield len(batch), float_rows(bridge, batch).map(to_document).toList()

    def queries(self, bridge: JavaBridge, vectors: Float32Array, depth: int) -> list[Any]:
        """Lucene's own queries for the nearest vectors."""
        kind = "org.apache.lucene.search.KnnFloatVectorQuery"
        make = bridge.bind(
            bridge.constructor(kind, "(Ljava/lang/String;[FILorg/apache/lucene/search/Query;)V"),
            0,
            bridge.string(self.field),
        )
        make = bridge.bind(make, 1, bridge.load("java.lang.Integer")(self.candidates(depth)))
        make = bridge.bind(make, 1, self.filter)
        built = float_rows(bridge, self._directed(vectors)).map(bridge.function(make)).toList()
        return [bridge.cast("org.apache.lucene.search.Query", built.get(place)) for place in range(len(vectors))]

    def candidates(self, depth: int) -> int:
        """How many candidates a search for ``depth`` documents keeps in each segment."""
        return depth

    def prepare(self, bridge: JavaBridge, reader: Any, searcher: Any) -> None:  # noqa: ANN401, ARG002 - Java objects
        """Note the dimensions, which queries must have too."""
        found = vector_fields(bridge, reader).get(self.field)
        self._dimensions = found.dimensions if found is not None else None

    def scores(self, found: Float32Array) -> Float32Array:
        """Cosines, dot products or negative squared distances; DOT_PRODUCT has no products below -1."""
        wide = found.astype(np.float64)
        lowest = np.finfo(np.float32).tiny  # a score that went below float32's range is no infinity
        inverse = 1 - 1 / np.maximum(wide, lowest)
        if self._function in ("DOT_PRODUCT", "COSINE"):
            scores = 2 * wide - 1
        elif self._function == "EUCLIDEAN":
            scores = inverse
        else:
            scores = np.where(wide < 1, inverse, wide - 1)
        narrow: Float32Array = scores.astype(np.float32)
        return narrow

    def require_field(self, bridge: JavaBridge, reader: Any) -> None:  # noqa: ANN401 - a Java object
        """The field must hold float32 vectors, with graphs or without, that are compared as ``similarity`` says."""
        fields = vector_fields(bridge, reader)
        if self.field not in fields:
            raise RejectedInputError(
                f"no document of the index has the field of vectors '{self.field}'",
                fix=f"name one that it has (field=): {', '.join(sorted(fields)) or 'there is none'}",
            )
        found = fields[self.field]
        if found.encoding != "FLOAT32":
            raise RejectedInputError(
                f"the field '{self.field}' holds vectors of {found.encoding}", fix="name one of float32 numbers: field="
            )
        fitting = [one for one, function in _KEPT if function == found.function]  # of DOT_PRODUCT, cosine first
        if self._similarity == "":
            self._similarity = fitting[0]
        if self._similarity not in fitting:
            raise RejectedInputError(
                f"the field '{self.field}' is compared by {found.function}, which is not similarity={self._similarity}",
                fix=f"say similarity={' or similarity='.join(fitting)}, or leave it out",
            )
        graphs = any("hnsw" in one.lower() for one in found.formats)
        if graphs != self.graphs:
            has, named = "graphs" if graphs else "no graphs", ", ".join(sorted(found.formats))
            raise RejectedInputError(
                f"the field '{self.field}' has {has} ({named})",
                fix=f"take lucene-{'hnsw' if graphs else 'flat'}",
            )
        self._function = found.function
        self._quantised = next((one for one in sorted(found.formats) if "quantized" in one.lower()), None)

    def state(self, bridge: JavaBridge, reader: Any) -> Mapping[str, ParameterValue]:  # noqa: ANN401, ARG002 - Java
        """Of an existing index the similarity, which is read from it."""
        return {} if self._held is None else {"similarity": self._similarity}

    def compare(self, bridge: JavaBridge, reader: Any, content: Content, held: Held, progress: Progress) -> str | None:  # noqa: ANN401 - Java objects
        """Every stored vector."""
        if self._quantised is not None:
            return f"Lucene scores quantised vectors ({self._quantised}), which no oracle models"
        comparison = DenseComparison(content, _KEPT[self._similarity, self._function])
        place_of = places_of(content, len(held.ids))
        progress.start("compare", len(held.ids))
        for numbers, vectors in stored_vectors(bridge, reader, self.field):
            rows = held.row_of[numbers]
            places = np.where(rows >= 0, place_of[rows], -1).astype(np.int32)
            known = places >= 0
            if known.any():
                comparison.add(vectors[known], places[known])
            progress.advance(int(np.count_nonzero(rows >= 0)))
        return comparison.reason()

    def stored_documents(self, count: int) -> StoredDocuments:
        """Documents among the first of the index; Lucene reads vectors in order, and no texts are looked for."""
        bridge, held = self._opened(), self._held
        if held is None:
            raise RejectedInputError("no existing index is attached", fix="call attach first")
        for numbers, vectors in stored_vectors(bridge, self._reader, self.field):
            live = np.flatnonzero(held.row_of[numbers] >= 0)
            if len(live):
                chosen = live[spread_rows(len(live), count)]
                return StoredDocuments(held.row_of[numbers[chosen]], (None,) * len(chosen), vectors[chosen])
        nothing = np.empty(0, dtype=np.int32)
        return StoredDocuments(nothing, (), np.empty((0, self._dimensions or 0), dtype=np.float32))

    def _directed(self, vectors: Float32Array) -> Float32Array:
        if self._similarity != "cosine":
            return vectors
        wide = vectors.astype(np.float64)
        directed: Float32Array = (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)
        return directed


class LuceneHnswEngine(_VectorsEngine):
    """Lucene's HNSW graph of each segment. One thread writes, and levels are drawn with a fixed seed: builds are equal.

    A search keeps ``ef_search`` candidates in each segment's graph (Lucene calls it the query's k), at least as many
    as documents are asked for; a segment with no more vectors than that is scanned.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=False,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        existing=True,
        filters=True,
    )
    name = "lucene-hnsw"
    graphs = True
    of_search = ("ef_search",)

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._sizes: list[int] = []

    def vectors_format(self, bridge: JavaBridge) -> Any:  # noqa: ANN401 - Java objects
        """With the graph's parameters."""
        links, width = int(self.parameters["max_connections"]), int(self.parameters["beam_width"])
        return bridge.load(f"{_CODECS}.lucene99.Lucene99HnswVectorsFormat")(links, width)

    def candidates(self, depth: int) -> int:
        """``ef_search``, or more where more documents are asked for."""
        return max(depth, int(self.parameters["ef_search"]))

    def state(self, bridge: JavaBridge, reader: Any) -> Mapping[str, ParameterValue]:  # noqa: ANN401 - a Java object
        """How many vectors the segments' graphs hold, by the graphs themselves."""
        return {**super().state(bridge, reader), "vectors_in_graph": sum(self._graphs(bridge, reader))}

    def prepare(self, bridge: JavaBridge, reader: Any, searcher: Any) -> None:  # noqa: ANN401 - Java objects
        """Note the dimensions, and the sizes of the graphs."""
        super().prepare(bridge, reader, searcher)
        self._sizes = self._graphs(bridge, reader)

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """The vectors of those segments that have more than a search keeps: the others are scanned."""
        return {"vectors_in_graph": sum(size for size in self._sizes if size > self.candidates(k))}

    def _graphs(self, bridge: JavaBridge, reader: Any) -> list[int]:  # noqa: ANN401 - a Java object
        found = []
        for leaf in leaves_of(bridge, reader):
            if leaf.reader().getFloatVectorValues(self.field) is None:
                continue
            vectors = bridge.cast("org.apache.lucene.index.CodecReader", leaf.reader()).getVectorReader()
            fields = bridge.cast(f"{_CODECS}.perfield.PerFieldKnnVectorsFormat$FieldsReader", vectors)
            field = bridge.cast(f"{_CODECS}.HnswGraphProvider", fields.getFieldReader(self.field))
            found.append(int(field.getGraph(self.field).size()))
        return found


class LuceneFlatEngine(_VectorsEngine):
    """An exact scan of all vectors, by Anserini's flat format and Lucene's own query; equal scores by row ascending."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        existing=True,
        filters=True,
    )
    name = "lucene-flat"
    graphs = False

    def vectors_format(self, bridge: JavaBridge) -> Any:  # noqa: ANN401 - Java objects
        """Without a graph."""
        return bridge.load("io.anserini.index.codecs.AnseriniLucene99FlatVectorFormat")()
