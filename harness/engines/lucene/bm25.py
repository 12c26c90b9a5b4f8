"""Lucene, through Anserini's jar in the JVM of this process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.data.arrow import numbers
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, Int32Array
from harness.engines.checks import require_announced_ids, require_positive_k
from harness.engines.disk import allocated_bytes
from harness.engines.existing import theirs
from harness.engines.interface import Attached, Capabilities, Content, EngineInfo, IndexReport, SearchResult, Storage
from harness.engines.lucene.existing import differs, documents_of
from harness.engines.lucene.feedback import Feedback, require_enough_documents
from harness.engines.lucene.held import READABLE, require_intact
from harness.engines.lucene.index import IndexBuilder, is_blank
from harness.engines.lucene.runtime import info_of, java_of
from harness.engines.lucene.search import Hits, OpenIndex
from harness.engines.lucene.settings import LuceneSettings
from harness.engines.manifest import check_manifest, write_manifest
from harness.engines.stored_metadata import require_fields, save_fields
from harness.errors import BackendError, EngineFailureError, RejectedInputError
from harness.java.bridge import REBUILD, java_errors
from harness.registry.parameters import ParameterValue
from harness.text.lucene import LuceneAnalyzer

__all__ = ["LuceneEngine"]

_NAME = "lucene"
_BATCH = 1024


class LuceneEngine:
    """BM25, query likelihood, RM3 and AX by Lucene and Anserini, indexed and searched with one thread.

    Search times hold Lucene's search (and the feedback round of RM3 and AX), not the analysis of the query's text,
    which is no part of the search of engines that take vectors either.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="text",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        existing=True,
        filters=True,
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._settings = LuceneSettings.of(parameters)
        self._analyzer: LuceneAnalyzer | None = None
        self._folder = Path()
        self._ids = Ids.of([])
        self._index: OpenIndex | None = None
        self._row_of = np.empty(0, dtype=np.int32)

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start the JVM if need be, and open the index in ``folder`` if there is one."""
        settings = self._settings
        has_index = check_manifest(folder, _NAME, settings.of_index, ids)
        self._analyzer = LuceneAnalyzer(settings.language, heap=settings.heap, jar=settings.jar)
        self._folder, self._ids = folder.absolute(), ids
        if has_index:
            self._open_index()
        return info_of(self._analyzer.bridge, "embedded")

    @property
    def source(self) -> Path | None:
        """The user's own index, None where one is built."""
        existing = self._settings.existing
        return existing.folder if existing is not None else None

    def attach(self, folder: Path, progress: Progress) -> Attached:  # noqa: ARG002 - Lucene reads without writing
        """Open the user's index with a reader, which takes no lock; a writer may hold it meanwhile."""
        settings, existing = self._settings, self._settings.existing
        if existing is None:
            raise RejectedInputError("no existing index is named", fix="give existing=true and path=")
        self._analyzer = LuceneAnalyzer(settings.language, heap=settings.heap, jar=settings.jar)
        progress.start("attach", None)
        with theirs(REBUILD, READABLE), ExitStack() as stack:
            index = OpenIndex(self._analyzer, settings, existing.folder)
            stack.callback(index.close)
            require_intact(index.bridge, index.reader, existing.folder)
            held = documents_of(index, settings, existing.id_field)
            require_enough_documents(settings, len(held.ids))
            state = index.state()
            stack.pop_all()
        self._folder, self._index = existing.folder, index
        self._ids, self._row_of = held
        info = info_of(self._analyzer.bridge, "embedded, existing index")
        return Attached(info, held.ids, {**state, "heap": settings.heap, **java_of(self._analyzer.bridge)})

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares statistics, lengths, terms, and the postings of the queries' terms."""
        self._opened()
        if self._index is None:
            raise EngineFailureError("no existing index is attached", fix="call attach first")
        with theirs(REBUILD, READABLE):
            return differs(self._index, content, len(self._ids), progress)

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Index all documents that have text; Anserini's indexer drops the others too."""
        analyzer = self._opened()
        if self._index is not None:
            raise RejectedInputError(f"'{self._folder}' holds an index already", fix="index into a new folder")
        _require_texts(documents, "document")
        require_announced_ids(documents, self._ids)
        started = clock()
        with IndexBuilder.writing(analyzer, self._settings, self._folder) as builder:
            _add_all(builder, documents, progress)
            added = clock()
            builder.finish()
        index = self._open_index()
        ready = clock()
        save_fields(self._folder, documents.metadata)
        write_manifest(self._folder, _NAME, self._settings.of_index, self._ids)
        missing = np.ones(len(documents), dtype=bool)
        missing[self._row_of] = False
        return IndexReport(
            sent=len(documents),
            indexed=len(self._row_of),
            missing_rows=np.flatnonzero(missing).astype(np.int32),
            index_ns=added - started,
            ready_ns=ready - added,
            state={**index.state(), "heap": self._settings.heap, **java_of(analyzer.bridge)},
        )

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Filter by exact terms, in Lucene's query; raises RejectedInputError for a field that was not indexed.

        RM3 and AX expand queries by documents that match.
        """
        self._opened()
        if self._index is None:
            raise RejectedInputError("Lucene has no index yet", fix="index documents before filtering")
        require_fields(self._folder, wanted)
        self._index.restrict(wanted)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` documents of each query: score descending, then Lucene's document number (the row) ascending.

        RM3 and AX rank by the expanded query's scores. Under QL a document that matches can score 0.
        """
        analyzer = self._opened()
        if self._index is None:
            raise RejectedInputError("Lucene has no index yet", fix="index documents before searching")
        require_positive_k(k)
        with theirs(REBUILD, READABLE) if self._settings.existing is not None else nullcontext():
            return self._search(analyzer, self._index, queries, k, clock)

    def _search(
        self, analyzer: LuceneAnalyzer, index: OpenIndex, queries: Inputs, k: int, clock: Clock
    ) -> SearchResult:
        depth = min(k, index.documents)
        texts = _require_texts(queries, "query")
        with java_errors("building the queries"):
            built = index.queries(texts)
            feedback = Feedback(analyzer, index, self._settings, self._folder) if self._settings.feedback else None
            if feedback is None:
                built = [index.filtered(query) for query in built]
        times_ns: list[tuple[int, int]] = []
        found: list[Hits] = []
        with java_errors(lambda: f"searching query '{queries.ids[len(found)]}'"):
            for text, query in zip(texts, built, strict=True):
                started = clock()
                top_docs = index.search(query, depth) if feedback is None else feedback.search(query, text, depth)
                searched = clock()
                found.append(index.hits.read(top_docs))
                times_ns.append((searched - started, clock() - searched))
        search_ns, transfer_ns = np.array(times_ns, dtype=np.int64).reshape(-1, 2).T
        return _result(found, self._row_of, search_ns, transfer_ns)

    def storage(self) -> Storage:
        """Allocated bytes of Lucene's files; Lucene keeps no write-ahead log."""
        self._opened()
        return Storage(allocated_bytes(self._folder), 0)

    def close(self) -> None:
        """Close the index; the JVM stays, as it must."""
        if self._index is not None:
            self._index.close()
        self._index, self._analyzer = None, None

    def _opened(self) -> LuceneAnalyzer:
        if self._analyzer is None:
            raise EngineFailureError("Lucene is not open", fix="call open() before, and nothing after close()")
        return self._analyzer

    def _open_index(self) -> OpenIndex:
        index = OpenIndex(self._opened(), self._settings, self._folder)
        try:
            self._row_of = index.rows(self._ids)
            require_enough_documents(self._settings, len(self._row_of))
        except BackendError:
            index.close()
            raise
        self._index = index
        return index


def _require_texts(inputs: Inputs, what: str) -> list[str]:
    if inputs.texts is None:
        raise RejectedInputError(f"the {what} inputs hold no texts", fix="Lucene analyses texts by itself: pass them")
    if len(inputs.texts) != len(inputs.ids):
        raise RejectedInputError(f"{len(inputs.texts)} texts came with {len(inputs.ids)} {what} ids")
    texts: list[str] = inputs.texts.to_pylist()
    return texts


def _add_all(builder: IndexBuilder, documents: Inputs, progress: Progress) -> None:
    progress.start("index", len(documents))
    for start in range(0, len(documents), _BATCH):
        ids = documents.ids.values.slice(start, _BATCH).to_pylist()
        texts = documents.texts.slice(start, _BATCH).to_pylist() if documents.texts is not None else []
        kept = [place for place, text in enumerate(texts) if not is_blank(text)]
        metadata = documents.metadata
        if metadata is not None:
            metadata = metadata.take(numbers(start + np.array(kept, dtype=np.int64)))
        builder.add([ids[place] for place in kept], [texts[place] for place in kept], metadata)
        progress.advance(len(ids))


def _result(found: list[Hits], row_of: Int32Array, search_ns: np.ndarray, transfer_ns: np.ndarray) -> SearchResult:
    indptr = np.zeros(len(found) + 1, dtype=np.int64)
    np.cumsum([len(hits.documents) for hits in found], out=indptr[1:])
    documents = np.concatenate([np.empty(0, dtype=np.int32), *(hits.documents for hits in found)])
    scores = np.concatenate([np.empty(0, dtype=np.float32), *(hits.scores for hits in found)])
    return SearchResult(indptr, row_of[documents], scores, search_ns, transfer_ns)
