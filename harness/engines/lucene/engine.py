"""What all engines on Lucene share: the JVM, writing an index with one thread, opening and searching it, filters.

One thread adds and merges, and only neighbouring segments are merged, so that Lucene's document numbers follow the
order in which documents were sent: equal scores are then broken by row, in every build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from harness.data.arrow import numbers
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.engines.base import Documents, EngineInfo, External, ExternalIndex, Filterable, LoadedIndex
from harness.engines.external_index import source_folder, theirs
from harness.engines.lucene.filter import filter_query, with_metadata
from harness.engines.lucene.held import READABLE, held_documents, require_intact
from harness.engines.lucene.hits import read_hits
from harness.engines.lucene.statistics import IndexStatistics
from harness.errors import BackendError, EngineFailureError
from harness.java.bridge import REBUILD, JavaBridge, java_errors
from harness.java.jvm import find_jar, jar_digest, start
from harness.registry.parameters import ParameterValue
from harness.text.lucene import versions

__all__ = ["WARM_UP_QUERIES", "Batch", "LuceneIndexEngine", "RowsEngine"]

WARM_UP_QUERIES = 1000
"""The JVM compiles Lucene's search until about so many queries have run: benchmarks/warm_up.py."""
_MOST_CLAUSES = 1 << 20

Column = TypeVar("Column")


class Batch(NamedTuple):
    """Some documents on their way into an index.

    Attributes:
        documents: A Java list of documents, each a collection of fields.
        rows: The row of each document in the list (int64).
    """

    documents: Any
    rows: Int64Array


class LuceneIndexEngine(Filterable[Column], ExternalIndex[Column]):
    """An index of Lucene, built here or by somebody else; a subclass says what its documents and queries are."""

    own_field: ClassVar[str]
    """The field of an index that the harness builds; an external one names its own."""
    search_parameters = frozenset({"heap", "jar"})

    bridge: JavaBridge
    reader: Any
    searcher: Any
    statistics: IndexStatistics
    java_filter: Any = None
    row_of: Int32Array
    """The row of each of Lucene's document numbers, -1 for a deleted document."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self.external = bool(parameters["existing"])
        self.field = str(parameters["field"]) if self.external else self.own_field

    # What a subclass says.

    def java_documents(self, documents: Documents[Column]) -> Iterator[Batch]:
        """Make Java documents, batch by batch, in order."""
        raise NotImplementedError

    def prepare(self, queries: Column, k: int) -> list[Any]:
        """Make a Java query of each row that finds its best ``k`` among the documents of the filter."""
        raise NotImplementedError

    def start_java(self) -> JavaBridge:
        """Start the JVM if need be."""
        return JavaBridge(start(heap=str(self.parameters["heap"]), jar=str(self.parameters["jar"]) or None))

    def java_analyzer(self) -> Any:  # noqa: ANN401 - a Java object
        """Return what makes terms of texts."""
        return self.bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()

    def configure_writer(self, configuration: Any) -> None:  # noqa: ANN401 - a Java object
        """Change the configuration of the writer."""

    def configure_searcher(self) -> None:
        """Look at the index that was opened, and change its searcher."""

    def scores(self, found: Float32Array) -> Float32Array:
        """Return scores of the harness from Lucene's, in the same order."""
        return found

    def state(self) -> Mapping[str, ParameterValue]:
        """Say for the report what is in the index, beside segments and documents."""
        return {}

    def numbered_rows(self) -> Int32Array:
        """Return the row (int32) of each document number of an index that was built here."""
        return np.arange(int(self.reader.maxDoc()), dtype=np.int32)

    def missing_rows(self) -> Int32Array:
        """Return the rows (int32) of documents that the engine leaves out."""
        return np.empty(0, dtype=np.int32)

    def packed_hits(self, answer: Any) -> Any:  # noqa: ANN401 - Java objects
        """Return the bytes that hold the hits of what :meth:`retrieve` found."""
        return self.bridge.index.hits(answer)

    def require_field(self) -> None:
        """Refuse an external index whose field is not what this engine searches; raises RejectedInputError."""

    # The hooks of the base.

    def info(self) -> EngineInfo:
        """Start the JVM."""
        self.bridge = self.start_java()
        return self._info("embedded")

    def build(self, folder: Path, documents: Documents[Column], progress: Progress) -> None:
        """Write all documents with one thread; getting ready is committing, merging when asked to, and opening."""
        with ExitStack() as stack:
            directory = self._directory(folder)
            stack.callback(directory.close)
            writer = self.bridge.load("org.apache.lucene.index.IndexWriter")(directory, self._configuration())
            stack.callback(writer.rollback)  # does nothing once the writer is closed
            for java, rows in self.java_documents(documents):
                self._add(writer, java, rows, documents)
                progress.advance(len(rows))
            progress.start("commit", None)
            writer.commit()
            if self.parameters["segments"] == "single":
                writer.forceMerge(1)
            writer.close()

    def _add(self, writer: Any, java: Any, rows: Int64Array, documents: Documents[Column]) -> None:  # noqa: ANN401 - Java
        with self.translated(
            lambda: f"indexing '{documents.ids[int(rows[0])]}' and {len(rows) - 1} documents after it"
        ):
            if documents.metadata is not None:
                java = with_metadata(self.bridge, java, documents.metadata, numbers(rows))
            writer.addDocuments(self.bridge.cast("java.lang.Iterable", java))

    def _configuration(self) -> Any:  # noqa: ANN401 - a Java object
        load = self.bridge.load
        configuration = load("org.apache.lucene.index.IndexWriterConfig")(self.java_analyzer())
        configuration.setOpenMode(load("org.apache.lucene.index.IndexWriterConfig$OpenMode").CREATE)
        configuration.setRAMBufferSizeMB(float(self.parameters["ram_buffer_mb"]))
        configuration.setUseCompoundFile(False)
        configuration.setMergePolicy(load("org.apache.lucene.index.LogByteSizeMergePolicy")())
        configuration.setMergeScheduler(load("org.apache.lucene.index.SerialMergeScheduler")())
        self.configure_writer(configuration)
        return configuration

    def load(self, folder: Path) -> LoadedIndex:
        """Open a reader, and a searcher that caches nothing."""
        self._open_reader(folder)
        self.row_of = self.numbered_rows()
        return LoadedIndex(int(self.reader.numDocs()), self._state(), missing=self.missing_rows())

    def retrieve(self, query: Any, k: int) -> Any:  # noqa: ANN401 - Java objects
        """Search for Lucene's ``TopDocs``."""
        return self.searcher.search(query, k)

    def columns(self, answer: Any) -> tuple[Int32Array, Float32Array]:  # noqa: ANN401 - a Java object
        """Bring the hits over as two arrays, in Lucene's order: equal scores by row ascending."""
        documents, scores = read_hits(self.packed_hits(answer))
        return self.row_of[documents], self.scores(scores)

    @contextmanager
    def translated(
        self,
        doing: Callable[[], str],
        kind: type[BackendError] = EngineFailureError,  # noqa: ARG002 - Java's exception decides
        fix: str | None = None,  # noqa: ARG002
    ) -> Iterator[None]:
        """Raise a Java exception as one of ours; nobody is told to delete an index that is not ours."""
        instead = theirs(REBUILD, READABLE) if self.external else nullcontext()
        # to look for Java's exceptions before Java was started would start it, with other options
        with instead, java_errors(doing) if hasattr(self, "bridge") else nullcontext():
            yield

    def filter(self, wanted: Mapping[str, str]) -> None:
        """Filter by exact terms, in Lucene's query."""
        self.java_filter = filter_query(self.bridge, wanted)

    # External indexes.

    @property
    def source(self) -> Path | None:
        """The user's own index, None where one is built."""
        return source_folder(self.parameters) if self.external else None

    def open_external(self, folder: Path, progress: Progress) -> External:  # noqa: ARG002 - Lucene reads without writing
        """Open the user's index with a reader, which takes no lock; a writer may have it open meanwhile."""
        source = source_folder(self.parameters)
        self.bridge = self.start_java()
        progress.start("attach", None)
        with self.translated(lambda: f"opening the index in '{source}'"):
            self._open_reader(source, before_search=lambda: self._require_readable(source))
            state = self._state()
        loaded = LoadedIndex(len(self._external_ids), state)
        return External(self._info("embedded, an existing index"), self._external_ids, loaded, source)

    def _require_readable(self, source: Path) -> None:
        require_intact(self.bridge, self.reader, source)
        self.require_field()
        self._external_ids, self.row_of = held_documents(self.statistics, str(self.parameters["id_field"]))

    # Java objects.

    def _info(self, mode: str) -> EngineInfo:
        found = versions(self.bridge)
        return EngineInfo("Lucene", f"{found['lucene']} (Anserini {found['anserini']})", mode)

    def _state(self) -> Mapping[str, ParameterValue]:
        load = self.bridge.load
        counts: dict[str, ParameterValue] = {"segments": int(self.reader.leaves().size())}
        if self.external:
            counts |= {"max_doc": int(self.reader.maxDoc()), "deleted_documents": int(self.reader.numDeletedDocs())}
        return {
            **counts,
            **self.state(),
            "heap": str(self.parameters["heap"]),
            "java": str(load("java.lang.System").getProperty("java.version")),
            "java_processors": int(load("java.lang.Runtime").getRuntime().availableProcessors()),
        }

    def _directory(self, folder: Path) -> Any:  # noqa: ANN401 - a Java object
        path = self.bridge.load("java.io.File")(str(folder.absolute())).toPath()
        return self.bridge.load("org.apache.lucene.store.FSDirectory").open(path)

    def _open_reader(self, folder: Path, before_search: Callable[[], None] = lambda: None) -> None:
        directory = self._directory(folder)
        self.resources.callback(directory.close)
        reader = self.bridge.load("org.apache.lucene.index.DirectoryReader").open(directory)
        self.resources.callback(reader.close)
        self.reader = self.bridge.cast("org.apache.lucene.index.IndexReader", reader)
        self.statistics = IndexStatistics(self.bridge, self.reader, self.field)
        before_search()
        kind = self.bridge.load("org.apache.lucene.search.IndexSearcher")
        kind.setMaxClauseCount(_MOST_CLAUSES)
        self.searcher = kind(self.reader)
        self.searcher.setQueryCache(None)
        self.configure_searcher()


class RowsEngine(LuceneIndexEngine[Column]):
    """An engine whose documents are rows of vectors: all are written, so that Lucene's numbers are the rows."""

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Name the jar that computes the hits, with its SHA-256. Starts no JVM; raises EngineUnavailableError."""
        jar = find_jar(str(parameters["jar"]) or None)
        return {"jar": jar.name, "sha256": jar_digest(jar)}
