"""The base of all engines on Lucene: the JVM, writing an index, opening and searching it, filters.

One thread adds and merges, and only neighbouring segments are merged, so that Lucene's document numbers follow the
order in which documents were sent: equal scores are then broken by row, in every build.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers, text_scalar
from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.engines.base import Capabilities, Documents, EngineInfo, External, ExternalIndex, Filterable, LoadedIndex
from harness.engines.external_index import TEXT_FIELDS, foreign_index_errors, source_folder
from harness.engines.interface import InputKind, ScoreTree
from harness.engines.lucene.external_index import READABLE, map_documents, require_intact
from harness.engines.lucene.reader import IndexReader
from harness.errors import BackendError, EngineFailureError
from harness.java.bridge import REBUILD, JavaBridge, JavaObject, java_errors, packed_texts
from harness.java.jvm import find_jar, start
from harness.registry.parameters import ParameterValue
from harness.store.digests import steady_digest
from harness.text.lucene_analyzer import versions

_WARM_UP_QUERIES = 1000
"""The JVM compiles Lucene's search until about this many queries have run: benchmarks/warm_up.py."""
_MOST_CLAUSES = 1 << 20
_SEARCH, _INDEX = "org.apache.lucene.search", "org.apache.lucene.index"

Column = TypeVar("Column")


def promises(kind: InputKind, *, exact: bool = True) -> Capabilities:
    """Return the promises of an engine on Lucene that reads a ``kind`` of input."""
    return Capabilities(
        kind,
        exact=exact,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=exact,
        shares_index=True,
        warm_up_queries=_WARM_UP_QUERIES,
    )


class Batch(NamedTuple):
    """A batch of documents to be indexed.

    Attributes:
        documents: A Java list of documents, each a collection of fields.
        rows: Row of each document in the list (int64).
    """

    documents: JavaObject
    rows: Int64Array


class Hits(NamedTuple):
    """Document numbers (int32) and scores (float32) of one query, in Lucene's order."""

    documents: Int32Array
    scores: Float32Array


class LuceneIndexEngine(Filterable[Column], ExternalIndex[Column]):
    """A Lucene index, built by the harness or outside it; a subclass defines its documents and queries."""

    index_field: ClassVar[str]
    """The field of an index that the harness builds; an external index names its own."""
    search_parameters = frozenset({"heap", "jar"})

    bridge: JavaBridge
    reader: IndexReader
    searcher: JavaObject
    row_of: Int32Array
    """The row of each of Lucene's document numbers, -1 for a deleted document."""
    java_filter: JavaObject = None
    """The query that documents must match; None for all documents."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._reading = ExitStack()
        self.external = bool(parameters["external"])
        self.field = str(parameters["field"]) if self.external else self.index_field

    # The hooks of a subclass.

    @abstractmethod
    def java_documents(self, documents: Documents[Column]) -> Iterator[Batch]:
        """Make Java documents, batch by batch, in order."""

    @abstractmethod
    def prepare(self, queries: Column, k: int) -> list[JavaObject]:
        """Make a Java query from each row that finds its best ``k`` among the documents of the filter."""

    @abstractmethod
    def require_field(self) -> None:
        """Refuse an external index whose field this engine cannot search; raises RejectedInputError."""

    def start_java(self) -> JavaBridge:
        """Start the JVM if necessary."""
        return JavaBridge(start(heap=str(self.parameters["heap"]), jar=str(self.parameters["jar"]) or None))

    def java_analyzer(self) -> JavaObject:
        """Return Lucene's analyzer, which splits texts into terms."""
        return self.bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()

    def configure_writer(self, configuration: JavaObject) -> None:
        """Change the configuration of the writer."""

    def configure_searcher(self) -> None:
        """Inspect the opened index, and change its searcher."""

    def hits(self, answer: JavaObject) -> Hits:
        """Read the hits of a :meth:`retrieve` result: they cross the bridge as one block of bytes."""
        content = self.bridge.index.hits(answer).tostring()
        half = len(content) // 8
        return Hits(np.frombuffer(content, "<i4", half), np.frombuffer(content, "<f4", half, 4 * half))

    def scores(self, lucene: Float32Array) -> Float32Array:
        """Return the harness's scores from Lucene's, in the same order."""
        return lucene

    def state(self) -> Mapping[str, ParameterValue]:
        """Return entries of the index's state for the report, besides segments and documents."""
        return {}

    def numbered_rows(self) -> Int32Array:
        """Return the row (int32) of each document number of an index built by the harness."""
        return np.arange(self.reader.max_doc, dtype=np.int32)

    def missing_rows(self) -> Int32Array:
        """Return the rows (int32) of documents that the engine leaves out."""
        return np.empty(0, dtype=np.int32)

    # The hooks of the base.

    def info(self) -> EngineInfo:
        """Start the JVM."""
        self.bridge = self.start_java()
        return self._info("embedded")

    def build(self, folder: Path, documents: Documents[Column], progress: Progress) -> None:
        """Write all documents with one thread; getting ready means committing, merging if requested, and opening."""
        with ExitStack() as stack:
            writer = self._writer(folder, stack, "CREATE")
            for batch in self.java_documents(documents):
                self._add(writer, batch, documents)
                progress.advance(len(batch.rows))
            progress.start("commit", None)
            self._commit(writer)

    def _writer(self, folder: Path, stack: ExitStack, mode: str) -> JavaObject:
        """Return a writer that the stack closes; ``mode`` is a name of Lucene's ``OpenMode``."""
        load, directory = self.bridge.load, self._directory(folder)
        stack.callback(directory.close)
        configuration = load(f"{_INDEX}.IndexWriterConfig")(self.java_analyzer())
        configuration.setRAMBufferSizeMB(float(self.parameters["ram_buffer_mb"]))
        configuration.setUseCompoundFile(False)
        configuration.setMergePolicy(load(f"{_INDEX}.LogByteSizeMergePolicy")())
        configuration.setMergeScheduler(load(f"{_INDEX}.SerialMergeScheduler")())
        self.configure_writer(configuration)
        configuration.setOpenMode(getattr(load(f"{_INDEX}.IndexWriterConfig$OpenMode"), mode))
        writer = load(f"{_INDEX}.IndexWriter")(directory, configuration)
        stack.callback(writer.rollback)  # does nothing once the writer is closed
        return writer

    def _commit(self, writer: JavaObject) -> None:
        writer.commit()
        if self.parameters["segments"] == "single":
            writer.forceMerge(1)
        writer.close()

    def _add(self, writer: JavaObject, batch: Batch, documents: Documents[Column]) -> None:
        """Write documents, each with a field for each metadata value."""
        java, rows = batch
        first = documents.ids[int(rows[0])]
        with self.translated(lambda: f"indexing '{first}' and {len(rows) - 1} documents after it"):
            table = pa.table({}) if documents.metadata is None else documents.metadata.take(numbers(rows))
            for name, values in zip(table.column_names, table.columns, strict=True):
                # a document without a value gets an empty term, which no filter finds
                texts = packed_texts(pc.fill_null(values, text_scalar("")).to_pylist())
                java = self.bridge.index.withField(java, _metadata_field(name), texts)
            writer.addDocuments(self.bridge.cast("java.lang.Iterable", java))

    def load(self, folder: Path) -> LoadedIndex:
        """Open a reader, and a searcher that caches nothing."""
        self._open_reader(folder)
        self._open_searcher()
        self.row_of = self.numbered_rows()
        return LoadedIndex(self.reader.documents, self._state(), missing=self.missing_rows())

    def retrieve(self, query: JavaObject, k: int) -> JavaObject:
        """Search for Lucene's ``TopDocs``."""
        return self.searcher.search(query, k)

    def columns(self, answer: JavaObject) -> tuple[Int32Array, Float32Array]:
        """Bring the hits over as two arrays, in Lucene's order: equal scores by row ascending."""
        documents, scores = self.hits(answer)
        return self.row_of[documents], self.scores(scores)

    @contextmanager
    def translated(
        self,
        doing: Callable[[], str],
        kind: type[BackendError] = EngineFailureError,
        fix: str | None = None,
    ) -> Iterator[None]:
        """Translate Java exceptions; never advise users to delete their own index."""
        instead = foreign_index_errors(REBUILD, READABLE) if self.external else nullcontext()
        # looking for Java's exceptions before Java has started would start it, with other options
        with instead, java_errors(doing) if hasattr(self, "bridge") else nullcontext():
            yield

    def score_trees(self, query: Inputs, rows: Int32Array) -> tuple[ScoreTree | None, ...]:
        """Return Lucene's explanation of each document's score; None for a document that does not match the query."""
        number_of = {row: number for number, row in enumerate(self.row_of.tolist())}
        with self.translated(lambda: f"explaining scores of query '{query.ids[0]}'"):
            (built,) = self.prepare(self.check(query, "query", None), 1)
            numbers = [None if built is None else number_of.get(row) for row in rows.tolist()]
            answers = [None if number is None else self.searcher.explain(built, number) for number in numbers]
            return tuple(None if java is None or not java.isMatch() else _score_tree(java) for java in answers)

    # Filters: a field of exact terms for each field of metadata, and clauses that do not score.

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter by exact terms, in Lucene's query."""
        term, query = self.bridge.load(f"{_INDEX}.Term"), self.bridge.load(f"{_SEARCH}.TermQuery")
        clauses = [(query(term(_metadata_field(field), value)), "FILTER") for field, value in conditions.items()]
        self.java_filter = self._all_of(clauses) if conditions else None

    def filtered(self, query: JavaObject) -> JavaObject:
        """Return ``query`` among the documents of the filter, with its own scores."""
        return query if self.java_filter is None else self._all_of([(query, "MUST"), (self.java_filter, "FILTER")])

    def _all_of(self, clauses: Sequence[tuple[JavaObject, str]]) -> JavaObject:
        """Return the query for documents that match every clause; only MUST clauses score."""
        occur = self.bridge.load(f"{_SEARCH}.BooleanClause$Occur")
        builder = self.bridge.load(f"{_SEARCH}.BooleanQuery$Builder")()
        for query, name in clauses:
            builder.add(self.bridge.cast(f"{_SEARCH}.Query", query), getattr(occur, name))
        return self.bridge.cast(f"{_SEARCH}.Query", builder.build())

    # External indexes.

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open the user's index with a reader, which takes no lock; a writer may have it open at the same time."""
        source = source_folder(self.parameters)
        self.bridge = self.start_java()
        progress.start("attach", None)
        with self.translated(lambda: f"opening the index in '{source}'"):
            self._open_reader(source)
            require_intact(self.reader, source)
            self.require_field()
            ids, self.row_of, values = map_documents(self.reader, str(self.parameters["id_field"]))
            self._open_searcher()
            loaded = LoadedIndex(len(ids), self._state())
        return External(self._info("embedded, an external index"), ids, loaded, source, values=values)

    def stored_texts(self, rows: Int32Array) -> list[str | None]:
        """Return the stored texts of documents: of the searched field, or else of a field with a usual name."""
        numbers = np.flatnonzero(self.row_of >= 0)[rows].tolist()
        for name in dict.fromkeys((self.field, "contents", *TEXT_FIELDS)):
            texts = self.reader.stored_texts(name, numbers)
            if any(text is not None for text in texts):
                return texts
        return [None] * len(rows)

    # Java objects.

    def _info(self, mode: str) -> EngineInfo:
        version_of = versions(self.bridge)
        return EngineInfo("Lucene", f"{version_of['lucene']} (Anserini {version_of['anserini']})", mode)

    def _state(self) -> Mapping[str, ParameterValue]:
        load, reader = self.bridge.load, self.reader
        counts: dict[str, ParameterValue] = {"segments": len(reader.leaves())}
        if self.external:
            counts |= {"max_doc": reader.max_doc, "deleted_documents": reader.deleted_documents}
        return {
            **counts,
            **self.state(),
            "heap": str(self.parameters["heap"]),
            "java": str(load("java.lang.System").getProperty("java.version")),
            "java_processors": int(load("java.lang.Runtime").getRuntime().availableProcessors()),
        }

    def _directory(self, folder: Path) -> JavaObject:
        path = self.bridge.load("java.io.File")(str(folder.absolute())).toPath()
        return self.bridge.load("org.apache.lucene.store.FSDirectory").open(path)

    def _open_reader(self, folder: Path) -> None:
        """Open a reader, in place of an earlier reader."""
        self._reading.close()
        self.resources.callback(self._reading.close)
        directory = self._directory(folder)
        self._reading.callback(directory.close)
        java = self.bridge.load(f"{_INDEX}.DirectoryReader").open(directory)
        self._reading.callback(java.close)
        self.reader = IndexReader(self.bridge, java, self.field)

    def _open_searcher(self) -> None:
        kind = self.bridge.load(f"{_SEARCH}.IndexSearcher")
        kind.setMaxClauseCount(_MOST_CLAUSES)
        self.searcher = kind(self.reader.java)
        self.searcher.setQueryCache(None)
        self.configure_searcher()


class RowsEngine(LuceneIndexEngine[Column]):
    """An engine whose documents are rows of vectors: all are written, so that Lucene's numbers are the rows."""

    no_changes = "Lucene can delete documents, and the harness, to which its numbers are rows, does not do it yet"

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return the jar that computes the hits, with its SHA-256. Starts no JVM; raises EngineUnavailableError."""
        jar = find_jar(str(parameters["jar"]) or None)
        return {"jar": jar.name, "sha256": steady_digest(jar)}


def _score_tree(java: JavaObject) -> ScoreTree:
    value, description = float(java.getValue().doubleValue()), str(java.getDescription())
    return ScoreTree(value, description, tuple(map(_score_tree, java.getDetails())))


def _metadata_field(name: str) -> str:
    """Return the Lucene field of a metadata field, distinct from Anserini's fields and fields of vectors."""
    return f"metadata.{name}"
