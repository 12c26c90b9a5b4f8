"""Writing a Lucene index: batches of documents become Lucene documents inside the JVM, by Anserini's own generator.

One thread adds and merges, and only neighbouring segments are merged, so Lucene's document numbers follow the order
in which documents were sent: equal scores are then broken by row, in every build.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.data.arrow import numbers
from harness.engines.lucene.filter import with_metadata
from harness.engines.lucene.runtime import open_directory, writer_configuration
from harness.engines.lucene.settings import LuceneSettings
from harness.java.bridge import JavaBridge, java_errors, spans
from harness.text.lucene import LuceneAnalyzer

__all__ = ["FIELD", "IndexBuilder", "is_blank"]

FIELD = "contents"
_JAVA_BLANK = "".join(map(chr, range(0x21)))
_JSON_DOCUMENT = "io.anserini.collection.JsonCollection$Document"
_GENERATOR = "io.anserini.index.generator.DefaultLuceneDocumentGenerator"
_GENERATE = "(Lio/anserini/collection/SourceDocument;)Lorg/apache/lucene/document/Document;"


def is_blank(text: str) -> bool:
    """True for a text that Anserini does not index: nothing but characters up to U+0020."""
    return not text.strip(_JAVA_BLANK)


class IndexBuilder:
    """One index being written; made by :meth:`writing`, which commits it or leaves nothing."""

    def __init__(self, bridge: JavaBridge, settings: LuceneSettings, writer: Any) -> None:  # noqa: ANN401 - Java
        self._bridge = bridge
        self._settings = settings
        self._writer = writer
        arguments = bridge.load("io.anserini.index.IndexCollection$Args")()
        arguments.storeDocvectors = settings.feedback
        generator = bridge.load(_GENERATOR)(arguments)
        parse = bridge.constructor(_JSON_DOCUMENT, "(Lcom/fasterxml/jackson/databind/JsonNode;)V")
        generate = bridge.method(_GENERATOR, "createDocument", _GENERATE).bindTo(generator)
        self._to_document = bridge.function(bridge.chain(parse, generate))
        fields_of = bridge.method("org.apache.lucene.document.Document", "getFields", "()Ljava/util/List;")
        self._fields = bridge.function(fields_of)

    @classmethod
    @contextmanager
    def writing(cls, analyzer: LuceneAnalyzer, settings: LuceneSettings, folder: Path) -> Iterator[IndexBuilder]:
        """A builder on the empty ``folder``; committed and closed at the end, rolled back when anything fails."""
        bridge = analyzer.bridge
        with java_errors(f"writing an index to '{folder}'"), ExitStack() as stack:
            directory = open_directory(bridge, folder)
            stack.callback(directory.close)
            writer = bridge.load("org.apache.lucene.index.IndexWriter")(
                directory, writer_configuration(bridge, analyzer.java, settings.ram_buffer_mb)
            )
            stack.callback(writer.rollback)  # does nothing once the writer is closed
            yield cls(bridge, settings, writer)
            writer.close()

    def add(self, ids: list[str], texts: list[str], metadata: pa.Table | None = None) -> None:
        """Add documents of which none is blank, in order; ``metadata`` has a row for each."""
        for span in spans(texts):
            nodes = [{"id": one, FIELD: text} for one, text in zip(ids[span], texts[span], strict=True)]
            with java_errors(f"indexing '{ids[span.start]}' and {len(nodes) - 1} documents after it"):
                documents = self._bridge.to_nodes(nodes).map(self._to_document).toList()
                if metadata is not None:
                    fields = self._bridge.map(self._fields, self._bridge.cast("java.util.List", documents))
                    rows = numbers(np.arange(span.start, span.stop))
                    documents = with_metadata(self._bridge, fields, metadata, rows)
                self._writer.addDocuments(self._bridge.cast("java.lang.Iterable", documents))

    def finish(self) -> None:
        """Commit, and merge into one segment when the settings want one."""
        with java_errors("committing the index"):
            self._writer.commit()
            if self._settings.segments == "single":
                self._writer.forceMerge(1)
