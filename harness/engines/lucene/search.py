"""Searching a Lucene index with Lucene's own IndexSearcher: true scores, equal ones by document number.

Hits never cross the border one by one: Java streams turn them into an ``int[]`` and a ``double[]``, which pyjnius
copies at once (1,000 hits in a tenth of a millisecond, and the floats exact).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.data.arrow import strings
from harness.data.types import Float32Array, Ids, Int32Array
from harness.engines.lucene.filter import filter_query, with_filter
from harness.engines.lucene.runtime import open_directory
from harness.engines.lucene.settings import LuceneSettings
from harness.engines.lucene.statistics import IndexStatistics
from harness.errors import EngineFailureError
from harness.java.bridge import JavaBridge, java_errors
from harness.text.lucene import LuceneAnalyzer

__all__ = ["HitReader", "Hits", "OpenIndex"]

_GENERATOR = "io.anserini.search.query.BagOfWordsQueryGenerator"
_BUILD = "(Ljava/lang/String;Lorg/apache/lucene/analysis/Analyzer;Ljava/lang/String;)Lorg/apache/lucene/search/Query;"
_MOST_CLAUSES = 1 << 20


class Hits(NamedTuple):
    """Document numbers int32 and scores float32 of one query, in Lucene's order."""

    documents: Int32Array
    scores: Float32Array


class HitReader:
    """Brings the hits of one query over as two arrays."""

    def __init__(self, documents: Any, scores: Any) -> None:  # noqa: ANN401 - Java functions
        self._documents = documents
        self._scores = scores

    @classmethod
    def of_top_docs(cls, bridge: JavaBridge) -> HitReader:
        """For Lucene's ``TopDocs``, which holds an object per hit."""
        hits = bridge.chain(
            bridge.getter("org.apache.lucene.search.TopDocs", "scoreDocs", "[Lorg/apache/lucene/search/ScoreDoc;"),
            bridge.static_method("java.util.Arrays", "stream", "([Ljava/lang/Object;)Ljava/util/stream/Stream;"),
        )
        return cls(_column(bridge, hits, "doc", "I", "Int"), _column(bridge, hits, "score", "F", "Double"))

    @classmethod
    def of_scored_docs(cls, bridge: JavaBridge) -> HitReader:
        """For Anserini's ``ScoredDocs``, which holds arrays already."""
        kind = "io.anserini.search.ScoredDocs"
        return cls(
            bridge.function(bridge.getter(kind, "lucene_docids", "[I")),
            bridge.function(bridge.getter(kind, "scores", "[F")),
        )

    def read(self, found: Any) -> Hits:  # noqa: ANN401 - a Java object
        """All hits of one query."""
        return Hits(
            np.array(self._documents.apply(found), dtype=np.int32),
            np.array(self._scores.apply(found), dtype=np.float32),
        )


def _column(bridge: JavaBridge, hits: Any, field: str, kind: str, wide: str) -> Any:  # noqa: ANN401 - Java objects
    """``hits -> stream.mapToInt(hit -> hit.doc).toArray()``, or the same with a float widened to a double."""
    getter = bridge.getter("org.apache.lucene.search.ScoreDoc", field, kind)
    reader = bridge.interface(f"java.util.function.To{wide}Function", getter)
    signature = f"(Ljava/util/function/To{wide}Function;)Ljava/util/stream/{wide}Stream;"
    mapped = bridge.method("java.util.stream.Stream", f"mapTo{wide}", signature)
    bound = bridge.load("java.lang.invoke.MethodHandles").insertArguments(mapped, 1, reader)
    to_array = bridge.method(f"java.util.stream.{wide}Stream", "toArray", f"()[{wide[0]}")
    return bridge.function(bridge.chain(hits, bound, to_array))


class OpenIndex:
    """An index open for searching, scored as the settings say."""

    def __init__(self, analyzer: LuceneAnalyzer, settings: LuceneSettings, folder: Path) -> None:
        self.bridge, self._field = analyzer.bridge, settings.field
        bridge = self.bridge
        self.hits = HitReader.of_scored_docs(bridge) if settings.feedback else HitReader.of_top_docs(bridge)
        with ExitStack() as stack, java_errors(f"opening the index in '{folder}'"):
            directory = open_directory(bridge, folder)
            stack.callback(directory.close)
            reader = bridge.load("org.apache.lucene.index.DirectoryReader").open(directory)
            stack.callback(reader.close)
            self.reader = bridge.cast("org.apache.lucene.index.IndexReader", reader)
            self.statistics = IndexStatistics(bridge, self.reader, settings.field)
            self.searcher = _searcher(bridge, self.reader, settings)
            generator = bridge.load(_GENERATOR)()
            build = bridge.method(_GENERATOR, "buildQuery", _BUILD)
            self._to_query = bridge.function(build.bindTo(generator).bindTo(settings.field).bindTo(analyzer.java))
            self._resources = stack.pop_all()
        self.filter: Any = None

    def close(self) -> None:
        """Close files; calling it again does nothing."""
        with java_errors("closing the index"):
            self._resources.close()

    def queries(self, texts: list[str]) -> list[Any]:
        """A bag-of-words query of each text, a term's count as its weight: Anserini's. See :meth:`filtered`."""
        bridge = self.bridge
        built = bridge.map(self._to_query, bridge.to_java(texts))
        return [bridge.cast("org.apache.lucene.search.Query", built.get(place)) for place in range(len(texts))]

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Set the filter that :meth:`filtered` applies; none for nothing."""
        with java_errors("building the filter"):
            self.filter = filter_query(self.bridge, wanted)

    def filtered(self, query: Any) -> Any:  # noqa: ANN401 - Java objects
        """``query`` among the documents that the filter leaves."""
        return with_filter(self.bridge, query, self.filter)

    @property
    def documents(self) -> int:
        """As many as a search can find; at least 1, for Lucene takes no less, and a k beyond 32 bits not at all."""
        return max(1, int(self.reader.maxDoc()))

    def search(self, query: Any, k: int) -> Any:  # noqa: ANN401 - Java objects
        """The best ``k`` documents as Lucene's ``TopDocs``."""
        return self.searcher.search(query, k)

    def rows(self, ids: Ids) -> Int32Array:
        """The row of each document number (int32), by the ids that Lucene stores; raises for ids it was never sent."""
        stored = self.statistics.stored_values("id")
        rows = ids.rows_of(strings(stored))
        if np.any(rows < 0) or len(np.unique(rows)) != len(rows):
            strange = next((one for one, row in zip(stored, rows, strict=True) if row < 0), "one id twice")
            raise EngineFailureError(
                f"Lucene holds documents that it was not sent ('{strange}')", fix="delete the folder and index again"
            )
        return rows

    def state(self) -> dict[str, str | int]:
        """Lucene's own account of the index."""
        with java_errors("counting the index"):
            return {
                "segments": int(self.reader.leaves().size()),
                "max_doc": int(self.reader.maxDoc()),
                "deleted_documents": int(self.reader.numDeletedDocs()),
                "documents_with_terms": int(self.reader.getDocCount(self._field)),
                "terms": int(self.reader.getSumTotalTermFreq(self._field)),
            }


def _searcher(bridge: JavaBridge, reader: Any, settings: LuceneSettings) -> Any:  # noqa: ANN401 - Java objects
    kind = bridge.load("org.apache.lucene.search.IndexSearcher")
    kind.setMaxClauseCount(_MOST_CLAUSES)
    searcher = kind(reader)
    searcher.setQueryCache(None)
    package = "org.apache.lucene.search.similarities"
    if settings.model == "ql":
        searcher.setSimilarity(bridge.load(f"{package}.LMDirichletSimilarity")(settings.mu))
    else:
        searcher.setSimilarity(bridge.load(f"{package}.BM25Similarity")(settings.k1, settings.b))
    return searcher
