"""Engines on Lucene whose documents are rows of vectors: written in order, so that Lucene's numbers are the rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from harness.data.arrow import numbers
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.engines.checks import require_announced_ids, require_positive_k
from harness.engines.disk import allocated_bytes
from harness.engines.existing import source_folder, theirs
from harness.engines.hits import HitCollector
from harness.engines.interface import Attached, Capabilities, Content, EngineInfo, IndexReport, SearchResult, Storage
from harness.engines.lucene.filter import filter_query, with_metadata
from harness.engines.lucene.held import READABLE, Held, held_documents, require_intact
from harness.engines.lucene.runtime import info_of, java_of, open_directory, writer_configuration
from harness.engines.lucene.search import HitReader
from harness.engines.lucene.statistics import IndexStatistics
from harness.engines.manifest import check_manifest, write_manifest
from harness.engines.stored_metadata import require_fields, save_fields
from harness.errors import EngineFailureError, LostDocumentsError, RejectedInputError
from harness.java.bridge import REBUILD, JavaBridge, java_errors
from harness.java.jvm import find_jar, jar_digest, start
from harness.registry.parameters import ParameterValue

__all__ = ["RowsEngine"]

_FREE = ("heap", "jar")
_MOST_CLAUSES = 1 << 20


Vectors = TypeVar("Vectors", Float32Array, SparseVectors)


class RowsEngine(Generic[Vectors]):
    """What they share: the JVM, writing and opening an index, and searching it with one thread.

    A subclass says how its vectors become Java documents and queries, in :meth:`require`, :meth:`documents`,
    :meth:`queries`, and, where they differ from Lucene's defaults, :meth:`configure`, :meth:`prepare`, :meth:`scores`.
    """

    capabilities: ClassVar[Capabilities]
    name: ClassVar[str]
    """In the manifest of an index, and in messages."""
    own_field: ClassVar[str]
    """The field of an index that the harness builds; an existing one names its own."""
    of_search: ClassVar[tuple[str, ...]] = ()
    """Parameters that change searches only."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self.parameters = dict(parameters)
        self._bridge: JavaBridge | None = None
        self._folder = Path()
        self._ids = Ids.of([])
        self.existing = bool(parameters["existing"])
        self.field = str(parameters["field"]) if self.existing else self.own_field
        self._held: Held | None = None
        self._resources = ExitStack()
        self._reader: Any = None
        self._searcher: Any = None
        self.filter: Any = None

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """The jar that computes the hits, by name and SHA-256. Starts no JVM; raises EngineUnavailableError."""
        jar = find_jar(str(parameters["jar"]) or None)
        return {"jar": jar.name, "sha256": jar_digest(jar)}

    def require(self, inputs: Inputs, what: str) -> Vectors:
        """The vectors, those refused that Lucene would answer wrongly; ``what`` is ``"document"`` or ``"query"``."""
        raise NotImplementedError

    def documents(self, bridge: JavaBridge, vectors: Vectors) -> Iterator[tuple[int, Any]]:
        """Batches, in order: how many documents, and a Java list of them."""
        raise NotImplementedError

    def queries(self, bridge: JavaBridge, vectors: Vectors, depth: int) -> list[Any]:
        """A Java query for each row of ``vectors`` that finds its best ``depth`` among the documents of the ``filter``,
        where there is one; None for a row that finds nothing.
        """
        raise NotImplementedError

    def configure(self, bridge: JavaBridge, configuration: Any) -> None:  # noqa: ANN401 - a Java object
        """Change the writer's configuration."""

    def analyzer(self, bridge: JavaBridge) -> Any:  # noqa: ANN401 - a Java object
        """What makes terms of texts."""
        return bridge.load("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()

    def prepare(self, bridge: JavaBridge, reader: Any, searcher: Any) -> None:  # noqa: ANN401 - Java objects
        """Look at the index that was opened, and change its searcher."""

    def scores(self, found: Float32Array) -> Float32Array:
        """Scores of the harness from Lucene's, in the same order."""
        return found

    def state(self, bridge: JavaBridge, reader: Any) -> Mapping[str, ParameterValue]:  # noqa: ANN401, ARG002 - Java
        """What the report says of the index beside segments and documents."""
        return {}

    def require_field(self, bridge: JavaBridge, reader: Any) -> None:  # noqa: ANN401 - Java objects
        """Refuse an existing index whose field is not what this engine searches; raises RejectedInputError."""
        raise NotImplementedError

    def compare(self, bridge: JavaBridge, reader: Any, content: Content, held: Held, progress: Progress) -> str | None:  # noqa: ANN401 - Java objects
        """As :meth:`differs`, of an existing index that was opened."""
        raise NotImplementedError

    @property
    def source(self) -> Path | None:
        """The user's own index, None where one is built."""
        return source_folder(self.parameters) if self.existing else None

    def attach(self, folder: Path, progress: Progress) -> Attached:  # noqa: ARG002 - Lucene reads without writing
        """Open the user's index with a reader, which takes no lock; a writer may hold it meanwhile."""
        source = self.source
        if source is None:
            raise RejectedInputError("no existing index is named", fix="give existing=true and path=")
        self._bridge = bridge = self._started()
        progress.start("attach", None)
        self._folder = source
        with theirs(REBUILD, READABLE), ExitStack() as stack, java_errors(f"opening the index in '{source}'"):
            reader = self._open_reader(bridge, stack)
            require_intact(bridge, reader, source)
            self.require_field(bridge, reader)
            held = held_documents(IndexStatistics(bridge, reader, self.field), str(self.parameters["id_field"]))
            self._ids, self._held = held.ids, held
            self._ready(bridge, reader, stack)
            state = {
                "segments": int(reader.leaves().size()),
                "max_doc": int(reader.maxDoc()),
                "deleted_documents": int(reader.numDeletedDocs()),
                **self.state(bridge, reader),
                "heap": str(self.parameters["heap"]),
                **java_of(bridge),
            }
        return Attached(info_of(bridge, "embedded, an existing index"), held.ids, state)

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares all that the scores of these queries depend on."""
        bridge = self._opened()
        if self._held is None:
            raise RejectedInputError("no existing index is attached", fix="call attach first")
        with theirs(REBUILD, READABLE):
            return self.compare(bridge, self._reader, content, self._held, progress)

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start the JVM if need be, and open the index in ``folder`` if there is one."""
        has_index = check_manifest(folder, self.name, self.parameters, ids, free=(*_FREE, *self.of_search))
        self._bridge = self._started()
        self._folder, self._ids = folder.absolute(), ids
        if has_index:
            self._open_index(self._bridge)
        return info_of(self._bridge, "embedded")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Write all documents with one thread, commit, and merge when asked to; raises RejectedInputError."""
        bridge = self._opened()
        if self._searcher is not None:
            raise RejectedInputError(f"'{self._folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        vectors = self.require(documents, "document")
        progress.start("index", len(documents))
        started = clock()
        with java_errors(f"writing an index to '{self._folder}'"), ExitStack() as stack:
            directory = open_directory(bridge, self._folder)
            stack.callback(directory.close)
            configuration = writer_configuration(bridge, self.analyzer(bridge), float(self.parameters["ram_buffer_mb"]))
            self.configure(bridge, configuration)
            writer = bridge.load("org.apache.lucene.index.IndexWriter")(directory, configuration)
            stack.callback(writer.rollback)  # does nothing once the writer is closed
            sent, metadata = 0, documents.metadata
            for count, batch in self.documents(bridge, vectors):
                if metadata is not None:
                    batch = with_metadata(bridge, batch, metadata, numbers(np.arange(sent, sent + count)))  # noqa: PLW2901
                sent += count
                writer.addDocuments(bridge.cast("java.lang.Iterable", batch))
                progress.advance(count)
            added = clock()
            writer.commit()
            if self.parameters["segments"] == "single":
                writer.forceMerge(1)
            writer.close()
        self._open_index(bridge)
        ready = clock()
        save_fields(self._folder, documents.metadata)
        write_manifest(self._folder, self.name, self.parameters, self._ids)
        with java_errors("counting the index"):
            state = {
                "segments": int(self._reader.leaves().size()),
                **self.state(bridge, self._reader),
                "heap": str(self.parameters["heap"]),
                **java_of(bridge),
            }
        missing = np.empty(0, dtype=np.int32)  # fewer than were sent is an error of opening: numbers are rows
        return IndexReport(len(documents), len(documents), missing, added - started, ready - added, state)

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Filter by exact terms, in Lucene's query; raises RejectedInputError for a field that was not indexed."""
        bridge = self._opened()
        require_fields(self._folder, wanted)
        with java_errors("building the filter"):
            self.filter = filter_query(bridge, wanted)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query, equal scores by row ascending; queries are made before the clock runs."""
        bridge = self._opened()
        if self._searcher is None:
            raise RejectedInputError("Lucene has no index yet", fix="index documents before searching")
        require_positive_k(k)
        vectors = self.require(queries, "query")
        depth = min(k, max(1, len(self._ids)))
        with theirs(REBUILD, READABLE) if self.existing else nullcontext():
            return self._search(bridge, queries, vectors, depth, clock)

    def _search(self, bridge: JavaBridge, queries: Inputs, vectors: Vectors, depth: int, clock: Clock) -> SearchResult:
        collector = HitCollector(len(queries))
        with java_errors("building the queries"):
            built = self.queries(bridge, vectors, depth)
            hits = HitReader.of_top_docs(bridge)
        nothing = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32)
        with java_errors(lambda: f"searching query '{queries.ids[len(collector)]}'"):
            for one in built:
                started = clock()
                found = self._searcher.search(one, depth) if one is not None else None
                searched = clock()
                rows, scores = hits.read(found) if found is not None else nothing
                rows = rows if self._held is None else self._held.row_of[rows]
                collector.add(rows, self.scores(scores), searched - started, clock() - searched)
        return collector.result()

    def storage(self) -> Storage:
        """Allocated bytes of Lucene's files; Lucene keeps no write-ahead log."""
        self._opened()
        return Storage(allocated_bytes(self._folder), 0)

    def close(self) -> None:
        """Close the index; the JVM stays, as it must."""
        with java_errors("closing the index") if self._bridge is not None else ExitStack():
            self._resources.close()
        self._bridge, self._reader, self._searcher, self.filter, self._held = None, None, None, None, None

    def _opened(self) -> JavaBridge:
        if self._bridge is None:
            raise EngineFailureError(f"{self.name} is not open", fix="call open() before, and nothing after close()")
        return self._bridge

    def _started(self) -> JavaBridge:
        return JavaBridge(start(heap=str(self.parameters["heap"]), jar=str(self.parameters["jar"]) or None))

    def _open_index(self, bridge: JavaBridge) -> None:
        with ExitStack() as stack, java_errors(f"opening the index in '{self._folder}'"):
            reader = self._open_reader(bridge, stack)
            held = int(reader.maxDoc())
            if held != len(self._ids) or reader.numDeletedDocs():
                raise LostDocumentsError(
                    f"the index in '{self._folder}' holds {held} of {len(self._ids)} documents",
                    fix="delete the folder and index again",
                )
            self._ready(bridge, reader, stack)

    def _open_reader(self, bridge: JavaBridge, stack: ExitStack) -> Any:  # noqa: ANN401 - a Java object
        directory = open_directory(bridge, self._folder)
        stack.callback(directory.close)
        reader = bridge.load("org.apache.lucene.index.DirectoryReader").open(directory)
        stack.callback(reader.close)
        return bridge.cast("org.apache.lucene.index.IndexReader", reader)

    def _ready(self, bridge: JavaBridge, reader: Any, stack: ExitStack) -> None:  # noqa: ANN401 - a Java object
        """Keep what ``stack`` holds open, to be searched."""
        kind = bridge.load("org.apache.lucene.search.IndexSearcher")
        kind.setMaxClauseCount(_MOST_CLAUSES)
        searcher = kind(reader)
        searcher.setQueryCache(None)
        self.prepare(bridge, reader, searcher)
        self._reader, self._searcher, self._resources = reader, searcher, stack.pop_all()
