"""What an open Lucene index says of itself, column by column: fields, ids, terms, lengths, postings.

``harness/java/Index.java`` walks the index and gives whole columns, so that nothing crosses the border one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.data.types import Int32Array, Int64Array
from harness.java.bridge import JavaBridge, java_errors, unpacked_texts

__all__ = ["IndexStatistics", "PostingList"]

_INDEX = "org.apache.lucene.index"


class PostingList(NamedTuple):
    """Documents of one term, ascending, and how often each has it; both int32."""

    documents: Int32Array
    counts: Int32Array


class IndexStatistics:
    """Read-only access to one field of an open index."""

    def __init__(self, bridge: JavaBridge, reader: Any, field: str) -> None:  # noqa: ANN401 - a Java object
        self.field = field
        self._bridge, self._reader = bridge, reader

    def indexed_fields(self) -> list[str]:
        """Names of all fields that can be searched, sorted."""
        with java_errors("listing the indexed fields"):
            fields = self._bridge.load(f"{_INDEX}.FieldInfos").getIndexedFields(self._reader)
            return sorted(map(str, fields.toArray()))

    def has_term_vectors(self) -> bool:
        """True when the field's term vectors are stored, which feedback reads."""
        with java_errors("looking for term vectors"):
            infos = self._bridge.load(f"{_INDEX}.FieldInfos").getMergedFieldInfos(self._reader)
            field = infos.fieldInfo(self.field)
            return field is not None and bool(field.hasVectors())

    def has_counts(self) -> bool:
        """True when the index says how often a term occurs in a document."""
        with java_errors("looking for frequencies"):
            infos = self._bridge.load(f"{_INDEX}.FieldInfos").getMergedFieldInfos(self._reader)
            field = infos.fieldInfo(self.field)
            return field is not None and "FREQS" in str(field.getIndexOptions().toString())

    def stored_fields(self) -> list[str]:
        """Names of what the first document stores."""
        with java_errors("reading a stored document"):
            fields = self._reader.storedFields().document(0).getFields()
            return [str(self._bridge.cast(f"{_INDEX}.IndexableField", one).name()) for one in fields.toArray()]

    def stored_values(self, field: str) -> list[str | None]:
        """A stored field of every document, deleted ones too, by document number; None where it is not stored."""
        with java_errors(f"reading the stored field '{field}'"):
            return unpacked_texts(self._bridge.index.storedValues(self._reader, field))

    def doc_values(self, field: str) -> list[str | None]:
        """The same from a field of doc values, binary or sorted, which Anserini sorts equal scores by."""
        with java_errors(f"reading the doc values of '{field}'"):
            return unpacked_texts(self._bridge.index.docValues(self._reader, field))

    def live_documents(self) -> Int32Array:
        """Numbers of the documents that are not deleted, ascending (int32)."""
        with java_errors("listing the documents that are not deleted"):
            return np.frombuffer(self._bridge.index.liveDocuments(self._reader).tostring(), "<i4")

    def terms(self) -> list[str]:
        """Every term of the field in ascending byte order."""
        with java_errors("listing the terms"):
            return [term or "" for term in unpacked_texts(self._bridge.index.terms(self._reader, self.field))]

    def length_bytes(self) -> Int64Array | None:
        """The byte in which BM25 finds each document's length (int64, by document number); None without lengths.

        It means nothing for a document that lacks the field.
        """
        with java_errors("reading the lengths"):
            found = self._bridge.index.lengths(self._reader, self.field)
        return None if found is None else np.frombuffer(found.tostring(), np.uint8).astype(np.int64)

    def documents_with(self, term: str) -> int:
        """How many documents have the term, deleted ones too."""
        with java_errors(f"looking for the term '{term}'"):
            return int(self._reader.docFreq(self._bridge.load(f"{_INDEX}.Term")(self.field, term)))

    def documents_with_terms(self) -> int:
        """How many documents have any term in the field, deleted ones too."""
        with java_errors("counting the documents with terms"):
            return int(self._reader.getDocCount(self.field))

    def total_terms(self) -> int:
        """How many terms the field has, each as often as it occurs, those of deleted documents too."""
        with java_errors("counting the terms"):
            return int(self._reader.getSumTotalTermFreq(self.field))

    def postings(self, term: str) -> PostingList:
        """Documents of one term, deleted ones too."""
        with java_errors(f"reading the postings of '{term}'"):
            block = self._bridge.index.postings(self._reader, self.field, term).tostring()
        return PostingList(*np.frombuffer(block, "<i4").reshape(2, -1))
