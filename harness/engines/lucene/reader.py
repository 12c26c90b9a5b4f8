"""An open index of Lucene, read in whole columns: its fields, ids, terms, lengths, postings and vectors.

``harness/java/Index.java`` walks the index, so that no values cross the bridge one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.java.bridge import JavaBridge, JavaObject, java_errors, unpacked_texts

_INDEX = "org.apache.lucene.index"
_CODECS = "org.apache.lucene.codecs"
_VECTORS_PER_CALL = 1024
_FEW = 100
"""Documents for each that is read alone: as long as reading a column of this many takes."""
_FORMAT = "PerFieldKnnVectorsFormat.format"


class PostingList(NamedTuple):
    """Documents of a term, ascending, and its frequency in each; both int32."""

    documents: Int32Array
    counts: Int32Array


class VectorField(NamedTuple):
    """A field of vectors: Lucene's names of its similarity, of its numbers and of the formats of its segments."""

    dimensions: int
    function: str
    encoding: str
    formats: frozenset[str]


class VectorBlock(NamedTuple):
    """Document numbers, int32 (n,), and their vectors, float32 (n, d)."""

    documents: Int32Array
    vectors: Float32Array


class IndexReader:
    """Lucene's reader of an index and its searched ``field``. Deleted documents count everywhere."""

    def __init__(self, bridge: JavaBridge, reader: JavaObject, field: str) -> None:
        self.field, self._bridge = field, bridge
        self.java = bridge.cast(f"{_INDEX}.IndexReader", reader)

    @property
    def documents(self) -> int:
        """Number of documents, without deleted documents."""
        return int(self.java.numDocs())

    @property
    def max_doc(self) -> int:
        """Number of document numbers."""
        return int(self.java.maxDoc())

    @property
    def deleted_documents(self) -> int:
        """Number of documents that are deleted and not yet merged away."""
        return int(self.java.numDeletedDocs())

    def leaves(self) -> list[JavaObject]:
        """Return the context of each segment, in order."""
        leaves = self.java.leaves()
        return [self._bridge.cast(f"{_INDEX}.LeafReaderContext", leaves.get(number)) for number in range(leaves.size())]

    # Fields.

    def indexed_fields(self) -> list[str]:
        """Return the names of all fields that can be searched, sorted."""
        with java_errors("listing the indexed fields"):
            fields = self._bridge.load(f"{_INDEX}.FieldInfos").getIndexedFields(self.java)
            return sorted(map(str, fields.toArray()))

    def has_term_vectors(self) -> bool:
        """Return whether the field's term vectors are stored, which feedback reads."""
        with java_errors("looking for term vectors"):
            field = self._field_info()
            return field is not None and bool(field.hasVectors())

    def has_counts(self) -> bool:
        """Return whether the index holds a term's frequency in a document."""
        with java_errors("looking for frequencies"):
            field = self._field_info()
            return field is not None and "FREQS" in str(field.getIndexOptions().toString())

    def _field_info(self) -> JavaObject:
        return self._bridge.load(f"{_INDEX}.FieldInfos").getMergedFieldInfos(self.java).fieldInfo(self.field)

    # Documents.

    def stored_fields(self) -> list[str]:
        """Return the names of the first document's stored fields."""
        with java_errors("reading a stored document"):
            fields = self.java.storedFields().document(0).getFields()
            return [str(self._bridge.cast(f"{_INDEX}.IndexableField", field).name()) for field in fields.toArray()]

    def stored_values(self, field: str) -> list[str | None]:
        """Return a stored field of every document, by document number; None if it is not stored."""
        with java_errors(f"reading the stored field '{field}'"):
            return unpacked_texts(self._bridge.index.storedValues(self.java, field))

    def stored_texts(self, field: str, documents: Sequence[int]) -> list[str | None]:
        """Return a stored field of some documents, by number; None if it is not stored.

        The whole column is read unless the documents are few.
        """
        if len(documents) * _FEW > self.max_doc:
            values = self.stored_values(field)
            return [values[number] for number in documents]
        with java_errors(f"reading the stored field '{field}'"):
            stored = self.java.storedFields()
            return [stored.document(number).get(field) for number in documents]

    def doc_values(self, field: str) -> list[str | None]:
        """Return the same from a field of doc values, binary or sorted, which Anserini sorts equal scores by."""
        with java_errors(f"reading the doc values of '{field}'"):
            return unpacked_texts(self._bridge.index.docValues(self.java, field))

    def live_documents(self) -> Int32Array:
        """Return the numbers of the documents that are not deleted, ascending (int32)."""
        with java_errors("listing the documents that are not deleted"):
            return np.frombuffer(self._bridge.index.liveDocuments(self.java).tostring(), "<i4")

    # Terms of the field.

    def terms(self) -> list[str]:
        """Return every term in ascending byte order."""
        with java_errors("listing the terms"):
            return [term or "" for term in unpacked_texts(self._bridge.index.terms(self.java, self.field))]

    def length_bytes(self) -> Int64Array | None:
        """Return the byte from which BM25 reads each document's length (int64, by document number).

        It is meaningless for a document that lacks the field. The result is None for a field without lengths.
        """
        with java_errors("reading the lengths"):
            lengths = self._bridge.index.lengths(self.java, self.field)
        return None if lengths is None else np.frombuffer(lengths.tostring(), np.uint8).astype(np.int64)

    def documents_with(self, term: str) -> int:
        """Return the number of documents with the term."""
        with java_errors(f"looking for the term '{term}'"):
            return int(self.java.docFreq(self._bridge.load(f"{_INDEX}.Term")(self.field, term)))

    def documents_with_terms(self) -> int:
        """Return the number of documents with any term."""
        with java_errors("counting the documents with terms"):
            return int(self.java.getDocCount(self.field))

    def total_terms(self) -> int:
        """Return the number of occurrences of all terms."""
        with java_errors("counting the terms"):
            return int(self.java.getSumTotalTermFreq(self.field))

    def postings(self, term: str) -> PostingList:
        """Return the documents of one term."""
        with java_errors(f"reading the postings of '{term}'"):
            block = self._bridge.index.postings(self.java, self.field, term).tostring()
        return PostingList(*np.frombuffer(block, "<i4").reshape(2, -1))

    # Vectors.

    def vector_fields(self) -> dict[str, VectorField]:
        """Return all fields of vectors by name."""
        by_name: dict[str, VectorField] = {}
        with java_errors("listing the fields of vectors"):
            for leaf in self.leaves():
                infos = leaf.reader().getFieldInfos().iterator()
                while infos.hasNext():
                    info = self._bridge.cast(f"{_INDEX}.FieldInfo", infos.next())
                    if not info.hasVectorValues():
                        continue
                    name, formats = str(info.name), frozenset([str(info.getAttribute(_FORMAT))])
                    by_name[name] = VectorField(
                        int(info.getVectorDimension()),
                        str(info.getVectorSimilarityFunction().toString()),
                        str(info.getVectorEncoding().toString()),
                        formats | (by_name[name].formats if name in by_name else frozenset()),
                    )
        return by_name

    def vectors(self) -> Iterator[VectorBlock]:
        """Yield the vectors of the field, block by block, in the order of document numbers."""
        with java_errors(f"reading the vectors of the field '{self.field}'"):
            for leaf in self.leaves():
                values = leaf.reader().getFloatVectorValues(self.field)
                if values is None:
                    continue
                dimensions = int(values.dimension())
                while block := self._bridge.index.nextVectors(values, _VECTORS_PER_CALL).tostring():
                    count = len(block) // (4 * (1 + dimensions))
                    documents = np.frombuffer(block, "<i4", count) + np.int32(leaf.docBase)
                    vectors = np.frombuffer(block, "<f4", offset=4 * count)
                    yield VectorBlock(documents, vectors.reshape(count, dimensions))

    def graph_sizes(self) -> list[int]:
        """Return the number of vectors of the field in the graph of each segment."""
        sizes, bridge = [], self._bridge
        for leaf in self.leaves():
            if leaf.reader().getFloatVectorValues(self.field) is None:
                continue
            vectors = bridge.cast(f"{_INDEX}.CodecReader", leaf.reader()).getVectorReader()
            fields = bridge.cast(f"{_CODECS}.perfield.PerFieldKnnVectorsFormat$FieldsReader", vectors)
            graphs = bridge.cast(f"{_CODECS}.HnswGraphProvider", fields.getFieldReader(self.field))
            sizes.append(int(graphs.getGraph(self.field).size()))
        return sizes
