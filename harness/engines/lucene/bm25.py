"""BM25, query likelihood, RM3 and AX of texts, by Lucene and Anserini."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.progress import Progress
from harness.data.terms import TermCounts
from harness.data.types import Ids, Int32Array
from harness.engines.base import Capabilities, Documents
from harness.engines.interface import ExpectedContent
from harness.engines.lucene.engine import WARM_UP_QUERIES, Batch, LuceneIndexEngine
from harness.engines.lucene.feedback import Feedback, require_enough_documents
from harness.engines.lucene.filter import with_filter
from harness.engines.lucene.held import require_some_term
from harness.engines.lucene.settings import LuceneSettings
from harness.errors import EngineFailureError, RejectedInputError
from harness.exact.lucene import byte_lengths
from harness.java.bridge import JavaBridge, packed_texts, spans
from harness.registry.parameters import ParameterValue
from harness.text.lucene import LuceneAnalyzer

__all__ = ["FIELD", "LuceneEngine", "is_blank"]

FIELD = "contents"
_BATCH = 1024
_NAMED = 3
_JAVA_BLANK = "".join(map(chr, range(0x21)))
_DOCUMENTS = "io.anserini.index.generator.DefaultLuceneDocumentGenerator"
_QUERIES = "io.anserini.search.query.BagOfWordsQueryGenerator"
_OTHER_FIELD = "name the field (field=) and the analyzer that the index was made with"


def is_blank(text: str) -> bool:
    """Return whether Anserini leaves a text out: it holds nothing but characters up to U+0020."""
    return not text.strip(_JAVA_BLANK)


class LuceneEngine(LuceneIndexEngine[pa.ChunkedArray]):
    """Texts, analysed by Lucene; documents by Anserini's own generator, which drops those without text.

    Search times hold Lucene's search (and the feedback round of RM3 and AX), not the analysis of the query's text,
    which is no part of the search of engines that take vectors either. RM3 and AX rank by the expanded query's scores,
    and expand by documents that match the filter. Under QL a document that matches can score 0.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="text",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        warm_up_queries=WARM_UP_QUERIES,
    )
    name = "lucene"
    own_field = FIELD

    analyzer: LuceneAnalyzer

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self.settings = LuceneSettings.of(parameters)

    @property
    def index_parameters(self) -> dict[str, ParameterValue]:
        """What changes the index, as opposed to the search in it."""
        return self.settings.of_index

    def start_java(self) -> JavaBridge:
        """Start the JVM if need be, with the analyzer of the language."""
        settings = self.settings
        self.analyzer = LuceneAnalyzer(settings.language, heap=settings.heap, jar=settings.jar)
        return self.analyzer.bridge

    def java_analyzer(self) -> Any:  # noqa: ANN401 - a Java object
        """Return the analyzer of the language."""
        return self.analyzer.java

    def java_documents(self, documents: Documents[pa.ChunkedArray]) -> Iterator[Batch]:
        """Make Anserini's documents of all texts that are not blank."""
        bridge = self.bridge
        arguments = bridge.load("io.anserini.index.IndexCollection$Args")()
        arguments.storeDocvectors = self.settings.feedback
        generator = bridge.load(_DOCUMENTS)(arguments)
        for start in range(0, len(documents), _BATCH):
            ids = documents.ids.values.slice(start, _BATCH).to_pylist()
            texts = documents.column.slice(start, _BATCH).to_pylist()
            kept = [place for place, text in enumerate(texts) if not is_blank(text)]
            for span in spans([texts[place] for place in kept]):
                names, contents = (packed_texts([column[place] for place in kept[span]]) for column in (ids, texts))
                rows = np.array(kept[span], dtype=np.int64) + start
                yield Batch(bridge.anserini.documents(generator, names, contents), rows)

    def configure_searcher(self) -> None:
        """Score as the settings say."""
        settings, package = self.settings, "org.apache.lucene.search.similarities"
        require_enough_documents(settings, int(self.reader.numDocs()))
        if settings.model == "ql":
            similarity = self.bridge.load(f"{package}.LMDirichletSimilarity")(settings.mu)
        else:
            similarity = self.bridge.load(f"{package}.BM25Similarity")(settings.k1, settings.b)
        self.searcher.setSimilarity(similarity)

    def packed_hits(self, answer: Any) -> Any:  # noqa: ANN401 - Java objects
        """Return the bytes of Anserini's hits with feedback, of Lucene's without."""
        return self.bridge.anserini.hits(answer) if self.settings.feedback else super().packed_hits(answer)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> list[Any]:  # noqa: ARG002 - the depth is that of the search
        """Make a bag-of-words query of each text, a term's count as its weight: Anserini's."""
        bridge, texts = self.bridge, queries.to_pylist()
        generator = bridge.load(_QUERIES)()
        built = bridge.anserini.queries(generator, self.field, self.analyzer.java, packed_texts(texts))
        java = bridge.queries(built)
        if not self.settings.feedback:
            return [with_filter(bridge, query, self.java_filter) for query in java]
        self._feedback = Feedback(self.analyzer, self.searcher, self.java_filter, self.settings, self.folder)
        return list(zip(java, texts, strict=True))

    def retrieve(self, query: Any, k: int) -> Any:  # noqa: ANN401 - Java objects
        """Search once, or twice with feedback."""
        if not self.settings.feedback:
            return super().retrieve(query, k)
        java, text = query
        return self._feedback.search(java, text, k)

    def state(self) -> Mapping[str, ParameterValue]:
        """Give Lucene's own account of the index."""
        return {
            "max_doc": int(self.reader.maxDoc()),
            "deleted_documents": int(self.reader.numDeletedDocs()),
            "documents_with_terms": self.statistics.documents_with_terms(),
            "terms": self.statistics.total_terms(),
        }

    def numbered_rows(self) -> Int32Array:
        """Find the rows by the ids that Lucene stores; raises EngineFailureError for ids that it was never sent."""
        stored = self.statistics.stored_values("id")
        rows = self.ids.rows_of(strings(stored))
        if np.any(rows < 0) or len(np.unique(rows)) != len(rows):
            strange = next((name for name, row in zip(stored, rows, strict=True) if row < 0), "one id twice")
            raise EngineFailureError(
                f"Lucene holds documents that it was not sent ('{strange}')", fix="delete the folder and index again"
            )
        return rows

    def missing_rows(self) -> Int32Array:
        """Return the documents without text."""
        missing = np.ones(len(self.ids), dtype=bool)
        missing[self.row_of] = False
        return np.flatnonzero(missing).astype(np.int32)

    def require_field(self) -> None:
        """The field must hold terms, and term vectors for feedback."""
        indexed = self.statistics.indexed_fields()
        if self.field not in indexed:
            raise RejectedInputError(
                f"no document of the index has the text field '{self.field}'",
                fix=f"name one that is indexed (field=): {', '.join(indexed) or 'there is none'}",
            )
        if self.settings.feedback and not self.statistics.has_term_vectors():
            raise RejectedInputError(
                f"rm3 and axiom read term vectors, and the index stores none for '{self.field}'",
                fix="search without feedback, or index with term vectors (Anserini: -storeDocvectors)",
            )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare all that BM25 depends on.

        That is the number of documents and of terms, each document's length as its byte says it, and the postings of
        the queries' terms; and the terms of the whole field besides, so that a term which the collection lacks is one
        that the index lacks. Raises RejectedInputError when no query can find anything.
        """
        counts = content.terms
        if counts is None:
            return "nothing analysed the collection"
        asked = np.intersect1d(counts.queries.indices, counts.documents.indices)
        require_some_term(self.statistics, counts.vocabulary.take(asked), _OTHER_FIELD)
        if len(content.rows) != self.loaded.documents:
            return "it holds other documents"
        deleted = int(self.reader.numDeletedDocs())
        if deleted:
            return f"{deleted:,} documents are deleted but not merged away, and Lucene's statistics still count them"
        filled, terms = int(np.count_nonzero(counts.lengths)), int(counts.lengths.sum())
        for what, theirs, ours in (
            ("documents with terms", self.statistics.documents_with_terms(), filled),
            ("terms", self.statistics.total_terms(), terms),
        ):
            if theirs != ours:
                return f"the index has {theirs:,} {what}, the collection's part of it {ours:,}"
        return self._other_lengths(counts, content.documents.ids) or self._other_terms(counts, progress)

    def _other_lengths(self, counts: TermCounts, ids: Ids) -> str | None:
        lengths = self.statistics.length_bytes()
        if lengths is None:
            return "the index stores no lengths of its documents (norms)"
        filled = counts.documents.nonempty_rows
        strange = filled[lengths[filled] != byte_lengths(counts.lengths)[filled]]
        if len(strange):
            named = ", ".join(ids.take(strange[:_NAMED]))
            return f"{len(strange):,} documents have other lengths than the analyzer gives them: {named} first"
        return None

    def _other_terms(self, counts: TermCounts, progress: Progress) -> str | None:
        used = np.unique(counts.documents.indices)
        if self.statistics.terms() != counts.vocabulary.take(used):
            return "the index has other terms than the analyzer makes of the collection"
        asked = np.unique(counts.queries.indices)
        progress.start("compare", len(asked))
        by_term = counts.documents.to_scipy().tocsc()
        for column, term in zip(asked.tolist(), counts.vocabulary.take(asked), strict=True):
            postings = self.statistics.postings(term)
            ours = slice(int(by_term.indptr[column]), int(by_term.indptr[column + 1]))
            same = np.array_equal(postings.documents, by_term.indices[ours])
            if not same or not np.array_equal(postings.counts, by_term.data[ours]):
                return f"the term '{term}' has other postings than the analyzer gives it"
            progress.advance(1)
        return None
