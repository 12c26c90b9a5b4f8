"""BM25, query likelihood, RM3 and AX on texts, by Lucene and Anserini."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.inputs import Inputs, columns_of
from harness.data.progress import Progress
from harness.data.types import Ids, Int32Array, TermCounts
from harness.engines.base import Documents
from harness.engines.changeable import Changeable, Changes
from harness.engines.interface import ExpectedContent, Remains, ScoreTrees
from harness.engines.lucene.engine import Batch, Hits, LuceneIndexEngine, promises
from harness.engines.lucene.external_index import require_indexed_term, require_searchable
from harness.engines.lucene.reader import IndexReader
from harness.errors import EngineFailureError, RejectedInputError, UnknownNameError, UsageError
from harness.exact.lucene import byte_lengths
from harness.java.bridge import JavaBridge, JavaObject, packed_texts, spans
from harness.registry.cards import FIELDS
from harness.registry.field_weights import field_names, fields_of
from harness.registry.parameters import ParameterValue
from harness.text.analyzers import ENGLISH
from harness.text.lucene_analyzer import LuceneAnalyzer, languages

FIELD = "contents"
_ID = "id"
_SEARCHED = "text."
"""Prefix of the fields that are searched separately."""
_CHANGE = "harness.change"
"""The field with the number of the change that wrote a document; documents of the build lack it."""
_BATCH = 1024
_PREFIX = "lucene-"
_MAX_EXAMPLES = 3
_JAVA_BLANK = "".join(map(chr, range(0x21)))
_QUERIES = "io.anserini.search.query.BagOfWordsQueryGenerator"
_RERANKERS = "io.anserini.rerank.lib"
_OTHER_FIELD = "name the field (field=) and the analyzer that the index was made with"


def is_blank(text: str) -> bool:
    """Return whether Anserini leaves a text out: it contains only characters up to U+0020."""
    return not text.strip(_JAVA_BLANK)


class LuceneEngine(LuceneIndexEngine[pa.ChunkedArray], Changeable[pa.ChunkedArray]):
    """Texts, analysed by Lucene; Anserini's own generator makes the documents and drops those without text.

    Search times include Lucene's search (and the feedback round of RM3 and AX), but not the analysis of the query's
    text, just as they exclude encoding for engines that take vectors. RM3 and AX rank by the expanded query's scores,
    and expand from documents that match the filter. Under QL a matching document can score 0.

    A change deletes by id and adds: Lucene decides when to merge, and until then its statistics count the documents
    deleted from the remaining segments.
    """

    capabilities = replace(promises("text"), fields=True)
    name = "lucene"
    index_field = FIELD

    analyzer: LuceneAnalyzer
    _feedback: _Feedback

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        if parameters["rm3"] and parameters["axiom"]:
            raise UsageError("rm3 and axiom exclude each other", fix="name the backend twice, once with each")
        self._with_feedback = bool(parameters["rm3"] or parameters["axiom"])
        self._language = _language_of(str(parameters["analyzer"]))
        self._fields = fields_of(parameters)
        if self._fields and self._with_feedback:
            raise UsageError("rm3 and axiom expand queries of a single field", fix="leave fields= or the feedback out")
        if self._fields and self.external:
            if parameters["field"] != FIELD:
                raise UsageError("field and fields name searched fields twice", fix="name all of them in fields=")
            self.field = self._fields[0].name

    @property
    def index_parameters(self) -> dict[str, ParameterValue]:
        """Return the parameters that change the index, as opposed to the search in it."""
        parameters = {name: self.parameters[name] for name in ("segments", "ram_buffer_mb")}
        return {
            **parameters,
            "analyzer": f"{_PREFIX}{self._language}",
            "term_vectors": self._with_feedback,
            "fields": field_names(str(self.parameters.get(FIELDS, ""))),
        }

    def start_java(self) -> JavaBridge:
        """Start the JVM if necessary, with the analyzer of the language."""
        heap, jar = str(self.parameters["heap"]), str(self.parameters["jar"]) or None
        self.analyzer = LuceneAnalyzer(self._language, heap=heap, jar=jar)
        return self.analyzer.bridge

    def java_analyzer(self) -> JavaObject:
        """Return the analyzer of the language."""
        return self.analyzer.java

    def java_documents(self, documents: Documents[pa.ChunkedArray]) -> Iterator[Batch]:
        """Make documents of all texts that are not blank; of several fields, of all documents."""
        for start in range(0, len(documents), _BATCH):
            ids = documents.ids.values.slice(start, _BATCH).to_pylist()
            columns = {
                name: column.to_pylist() for name, column in columns_of(documents.column.slice(start, _BATCH)).items()
            }
            texts = list(map("".join, zip(*columns.values(), strict=True)))
            # fields that are not searched may hold text
            nonblank = [position for position, text in enumerate(texts) if self._fields or not is_blank(text)]
            for span in spans([texts[position] for position in nonblank]):
                names, *contents = (
                    packed_texts([column[position] for position in nonblank[span]])
                    for column in (ids, *columns.values())
                )
                java = self._documents_of(names, dict(zip(columns, contents, strict=True)))
                yield Batch(java, np.array(nonblank[span], dtype=np.int64) + start)

    def _documents_of(self, names: bytes, contents: Mapping[str, bytes]) -> JavaObject:
        """Return a Java list of documents with their packed texts, by field."""
        index, vectors = self.bridge.index, self._with_feedback
        (first, texts), *further = contents.items()
        java = index.textDocuments(names, texts, self._java_field(first), vectors)
        for field, texts in further:
            java = index.withText(java, self._java_field(field), texts, vectors)
        return java

    def _java_field(self, name: str) -> str:
        """Return Lucene's name of a searched field: distinct from Anserini's names in an index of the harness."""
        return name if self.external else f"{_SEARCHED}{name}" if name else self.field

    def configure_searcher(self) -> None:
        """Set the scoring of the parameters; refuse AX on a small index.

        Anserini draws R times N different documents, and never ends if there are fewer.
        """
        parameters, package = self.parameters, "org.apache.lucene.search.similarities"
        documents, sampled = self.reader.documents, int(parameters["axiom_r"]) * int(parameters["axiom_n"])
        if parameters["axiom"] and documents < sampled:
            raise RejectedInputError(
                f"AX samples axiom_r times axiom_n = {sampled} documents; the index holds {documents}",
                fix="lower axiom_r or axiom_n",
            )
        if parameters["model"] == "ql":
            similarity = self.bridge.load(f"{package}.LMDirichletSimilarity")(parameters["mu"])
        else:
            similarity = self.bridge.load(f"{package}.BM25Similarity")(parameters["k1"], parameters["b"])
        self.searcher.setSimilarity(similarity)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> list[JavaObject]:
        """Make Anserini's bag-of-words query of each text, with a term's count as its weight."""
        generator, texts = self.bridge.load(_QUERIES)(), queries.to_pylist()
        searched: JavaObject = self.field if not self._fields else self._weights()
        built = [generator.buildQuery(searched, self.analyzer.java, text) for text in texts]
        if not self._with_feedback:
            return [self.filtered(query) for query in built]
        self._feedback = _Feedback(self)
        return list(zip(built, texts, strict=True))

    def _weights(self) -> JavaObject:
        """Return a Java map of the searched fields, in their order, and their weights."""
        java, number = self.bridge.load("java.util.LinkedHashMap")(), self.bridge.load("java.lang.Float")
        for name, weight in self._fields:
            java.put(self._java_field(name), number(weight))
        return self.bridge.cast("java.util.Map", java)

    def retrieve(self, query: JavaObject, k: int) -> JavaObject:
        """Search once, or twice with feedback."""
        if not self._with_feedback:
            return super().retrieve(query, k)
        built, text = query
        return self._feedback.search(built, text, k)

    def hits(self, answer: JavaObject) -> Hits:
        """Read Anserini's hits with feedback, Lucene's without."""
        if not self._with_feedback:
            return super().hits(answer)
        return Hits(np.array(answer.lucene_docids, dtype=np.int32), np.array(answer.scores, dtype=np.float32))

    def explain(self, query: Inputs, rows: Int32Array) -> ScoreTrees:
        """Return Lucene's own explanation of scores; none with feedback."""
        if self._with_feedback:
            return ScoreTrees(note="Anserini does not explain the query that rm3 or axiom expanded")
        names = {f"{self._java_field(field.name)}:": f"{field.name}:" for field in self._fields}
        return ScoreTrees(self.score_trees(query, rows), names or {f"{self.field}:": ""})

    def state(self) -> Mapping[str, ParameterValue]:
        """Return Lucene's own account of the index."""
        counts: dict[str, ParameterValue] = {
            "max_doc": self.reader.max_doc,
            "deleted_documents": self.reader.deleted_documents,
        }
        if not self._fields:
            return counts | {
                "documents_with_terms": self.reader.documents_with_terms(),
                "terms": self.reader.total_terms(),
            }
        for name, reader in self._readers().items():
            counts |= {
                f"documents_with_{name}": reader.documents_with_terms(),
                f"terms_of_{name}": reader.total_terms(),
            }
        return counts

    def _readers(self) -> dict[str, IndexReader]:
        """Return a reader of each searched field."""
        names = [field.name for field in self._fields]
        return {name: IndexReader(self.bridge, self.reader.java, self._java_field(name)) for name in names}

    def numbered_rows(self) -> Int32Array:
        """Find the rows by the ids that Lucene stores; raises EngineFailureError for ids that were never sent."""
        stored, live = self.reader.stored_values(_ID), self.reader.live_documents()
        rows = np.full(len(stored), -1, dtype=np.int32)
        names = [stored[number] for number in live.tolist()]
        rows[live] = self.ids.rows_of(strings(names))
        if np.any(rows[live] < 0) or len(np.unique(rows[live])) != len(live):
            strange = next((name for name, row in zip(names, rows[live], strict=True) if row < 0), "one id twice")
            raise EngineFailureError(
                f"Lucene holds documents that it was not sent ('{strange}')", fix="delete the folder and index again"
            )
        return rows

    def change(self, folder: Path, changes: Changes[pa.ChunkedArray], progress: Progress) -> None:
        """Delete by id and add with one thread; getting ready means committing, with any due merges."""
        with ExitStack() as stack:
            writer = self._writer(folder, stack, "APPEND")
            self.bridge.index.delete(writer, _ID, packed_texts(self.ids.take(changes.outdated)))
            progress.advance(len(changes.deleted))
            for batch in self.java_documents(changes.written):
                numbers = packed_texts([str(self.change_number)] * len(batch.rows))
                java = self.bridge.index.withField(batch.documents, _CHANGE, numbers)
                self._add(writer, batch._replace(documents=java), changes.written)
                progress.advance(len(batch.rows))
            progress.start("commit", None)
            self._commit(writer)

    def remains(self) -> Remains:
        """List the deleted documents of unmerged segments, and the order of Lucene's numbers."""
        deleted = np.flatnonzero(self.row_of < 0)
        names = self.reader.stored_values(_ID)
        written = np.zeros(len(names), dtype=np.int32)
        by_change = IndexReader(self.bridge, self.reader.java, _CHANGE)
        for number in range(1, self.change_number + 1):
            written[by_change.postings(str(number)).documents] = number
        rows = self.ids.rows_of(strings([names[number] for number in deleted.tolist()]))
        return Remains(rows, written[deleted], self.row_of[self.row_of >= 0])

    def missing_rows(self) -> Int32Array:
        """Return the documents without text."""
        missing = np.ones(len(self.ids), dtype=bool)
        missing[self.row_of[self.row_of >= 0]] = False
        return np.flatnonzero(missing).astype(np.int32)

    def require_field(self) -> None:
        """Require a field of terms, and term vectors for feedback."""
        for reader in self._readers().values() or (self.reader,):
            require_searchable(reader, "text field", "fields" if self._fields else "field")
        if self._with_feedback and not self.reader.has_term_vectors():
            raise RejectedInputError(
                f"rm3 and axiom read term vectors, and the index stores none for '{self.field}'",
                fix="search without feedback, or index with term vectors (Anserini: -storeDocvectors)",
            )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare BM25's inputs: counts, the byte of each document's length, terms, postings of the queries.

        Raises RejectedInputError if no query can find anything.
        """
        counts, reader = content.terms, self.reader
        if self._fields:
            return "several fields are searched, and only a single field is compared with the dataset"
        if counts is None:
            return "nothing analysed the dataset"
        shared = np.intersect1d(counts.queries.indices, counts.documents.indices)
        require_indexed_term(reader, counts.vocabulary.take(shared), _OTHER_FIELD)
        if len(content.rows) != self.loaded.documents:
            return "it holds other documents"
        if deleted := reader.deleted_documents:
            return f"{deleted:,} documents are deleted but not merged away, and Lucene's statistics still count them"
        filled, terms = int(np.count_nonzero(counts.lengths)), int(counts.lengths.sum())
        for name, stored, expected in (
            ("documents with terms", reader.documents_with_terms(), filled),
            ("terms", reader.total_terms(), terms),
        ):
            if stored != expected:
                return f"the index has {stored:,} {name}, the dataset's part of it {expected:,}"
        return self._other_lengths(counts, content.documents.ids) or self._other_terms(counts, progress)

    def _other_lengths(self, counts: TermCounts, ids: Ids) -> str | None:
        lengths = self.reader.length_bytes()
        if lengths is None:
            return "the index stores no lengths of its documents (norms)"
        filled = counts.documents.nonempty_rows
        strange = filled[lengths[filled] != byte_lengths(counts.lengths)[filled]]
        if len(strange):
            examples = ", ".join(ids.take(strange[:_MAX_EXAMPLES]))
            return f"{len(strange):,} documents have other lengths than the analyzer gives them: {examples} first"
        return None

    def _other_terms(self, counts: TermCounts, progress: Progress) -> str | None:
        used = np.unique(counts.documents.indices)
        if self.reader.terms() != counts.vocabulary.take(used):
            return "the index has other terms than the analyzer makes of the dataset"
        columns = np.unique(counts.queries.indices)
        progress.start("compare", len(columns))
        by_term = counts.documents.to_scipy().tocsc()
        for column, term in zip(columns.tolist(), counts.vocabulary.take(columns), strict=True):
            postings = self.reader.postings(term)
            expected = slice(int(by_term.indptr[column]), int(by_term.indptr[column + 1]))
            same = np.array_equal(postings.documents, by_term.indices[expected])
            if not same or not np.array_equal(postings.counts, by_term.data[expected]):
                return f"the term '{term}' has other postings than the analyzer gives it"
            progress.advance(1)
        return None


def _language_of(analyzer: str) -> str:
    """Return the language of an analyzer; English for ``auto``, which remains only if no dataset set it.

    Raises:
        UsageError: It is not an analyzer of Lucene's.
        UnknownNameError: The language does not exist.
    """
    language = ENGLISH if analyzer == "auto" else analyzer.removeprefix(_PREFIX)
    if analyzer != "auto" and not analyzer.startswith(_PREFIX):
        raise UsageError(
            f"the analyzer '{analyzer}' is not one of Lucene's",
            fix=f"Lucene analyses by itself: {_PREFIX}<language>, {_PREFIX}english for example",
        )
    if language not in languages():
        raise UnknownNameError("analyzer", analyzer, [_PREFIX + name for name in languages()])
    return language


class _Feedback:
    """RM3 or AX by Anserini's own reranker, over true scores and Lucene's order of ties: it searches twice."""

    def __init__(self, engine: LuceneEngine) -> None:
        self._engine, self._analyzer = engine, engine.analyzer.java
        bridge, field, parameters = engine.bridge, engine.field, engine.parameters
        self._utilities = bridge.load("io.anserini.analysis.AnalyzerUtils")
        self._context = bridge.load("io.anserini.rerank.RerankerContext")
        self._scored_docs = bridge.load("io.anserini.search.ScoredDocs")
        self._arguments = bridge.load("io.anserini.search.SearchCollection$Args")()
        self._arguments.arbitraryScoreTieBreak = True
        if parameters["axiom"]:
            # AX samples documents from a list that Anserini keeps in a static field, whichever index it came from
            bridge.index.clearStatic(f"{_RERANKERS}.AxiomReranker", "internalDocidsCache")
            numbers = [parameters[name] for name in ("axiom_seed", "axiom_r", "axiom_n", "axiom_beta", "axiom_top")]
            arguments = (None, str(engine.folder), None, field, True, *numbers, None, False, False)
            self._depth = int(parameters["axiom_r"])
            self._reranker = bridge.load(f"{_RERANKERS}.AxiomReranker")(self._analyzer, *arguments)
        else:
            numbers = [parameters[name] for name in ("rm3_fb_terms", "rm3_fb_docs", "rm3_original_query_weight")]
            self._depth = int(parameters["rm3_fb_docs"])
            self._reranker = bridge.load(f"{_RERANKERS}.Rm3Reranker")(
                self._analyzer, None, field, *numbers, False, True
            )

    def search(self, query: JavaObject, text: str, k: int) -> JavaObject:
        """Return the best ``k`` of the expanded query as Anserini's ``ScoredDocs``; both searches are filtered."""
        engine = self._engine
        first = engine.searcher.search(engine.filtered(query), self._depth)
        before = self._scored_docs.fromTopDocs(first, engine.searcher)
        tokens = self._utilities.analyze(self._analyzer, text)
        self._arguments.hits = k
        context = self._context(engine.searcher, "q", query, None, text, tokens, engine.java_filter, self._arguments)
        after = self._reranker.rerank(before, context)
        if after.equals(before):
            raise EngineFailureError("Anserini swallowed an error", fix="see Java's output on stderr")
        return after
