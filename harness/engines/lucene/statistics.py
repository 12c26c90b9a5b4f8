"""What an open Lucene index says of itself, column by column: fields, ids, terms, lengths, postings.

Java streams walk the index and give whole arrays, so that nothing crosses the border one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from harness.data.types import Int32Array, Int64Array
from harness.java.bridge import JavaBridge, java_errors

__all__ = ["IndexStatistics", "PostingList"]

_INDEX = "org.apache.lucene.index"
_AT_ONCE = 65_536
_FREQS = 8  # PostingsEnum.FREQS


class PostingList(NamedTuple):
    """Documents of one term, ascending, and how often each has it; both int32."""

    documents: Int32Array
    counts: Int32Array


class IndexStatistics:
    """Read-only access to one field of an open index."""

    def __init__(self, bridge: JavaBridge, reader: Any, field: str) -> None:  # noqa: ANN401 - a Java object
        self.field = field
        self._bridge, self._reader = bridge, reader
        self._next_document = bridge.method("org.apache.lucene.search.DocIdSetIterator", "nextDoc", "()I")
        self._count = bridge.method(f"{_INDEX}.PostingsEnum", "freq", "()I")

    def indexed_fields(self) -> list[str]:
        """Names of all fields that can be searched, sorted."""
        with java_errors("listing the indexed fields"):
            fields = self._bridge.load(f"{_INDEX}.FieldInfos").getIndexedFields(self._reader)
            return sorted(self._bridge.to_python(fields))

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
        bridge = self._bridge
        with java_errors("reading a stored document"):
            fields = self._reader.storedFields().document(0).getFields()
            name = bridge.method(f"{_INDEX}.IndexableField", "name", "()Ljava/lang/String;")
            names: list[str] = bridge.to_python(fields.stream().map(bridge.function(name)).toList())
            return names

    def stored_values(self, field: str) -> list[str | None]:
        """A stored field of every document, deleted ones too, by document number; None where it is not stored."""
        bridge, found = self._bridge, list[str | None]()
        document = bridge.method(f"{_INDEX}.StoredFields", "document", "(I)Lorg/apache/lucene/document/Document;")
        get = bridge.method("org.apache.lucene.document.Document", "get", "(Ljava/lang/String;)Ljava/lang/String;")
        with java_errors(f"reading the stored field '{field}'"):
            of_field = bridge.load("java.lang.invoke.MethodHandles").insertArguments(get, 1, field)
            read = bridge.function(bridge.chain(document.bindTo(self._reader.storedFields()), of_field))
            for start in range(0, self._reader.maxDoc(), _AT_ONCE):
                stop = min(start + _AT_ONCE, self._reader.maxDoc())
                numbers = bridge.load("java.util.stream.IntStream").range(start, stop).boxed()
                found.extend(bridge.to_python(numbers.map(read).toList()))
        return found

    def doc_values(self, field: str) -> list[str | None]:
        """The same from a field of doc values, binary or sorted, which Anserini sorts equal scores by."""
        bridge, most = self._bridge, int(self._reader.maxDoc())
        found: list[str | None] = [None] * most
        with java_errors(f"reading the doc values of '{field}'"):
            for kind in ("Binary", "Sorted"):
                values = [self._values(kind, field) for _ in range(3)]  # each is walked once, from the start
                if values[0] is None:
                    continue
                seek = bridge.method(f"{_INDEX}.{kind}DocValues", "advanceExact", "(I)Z")
                has = [bridge.interface("java.util.function.IntPredicate", seek.bindTo(one)) for one in values[:2]]
                read = bridge.then(seek.bindTo(values[2]), self._text_of(kind, values[2]))
                numbers = bridge.load("java.util.stream.IntStream").range
                texts = numbers(0, most).filter(has[0]).boxed().map(bridge.function(read)).toList()
                held = numbers(0, most).filter(has[1]).toArray()
                for number, text in zip(held, bridge.to_python(texts), strict=True):
                    found[number] = text
        return found

    def _values(self, kind: str, field: str) -> Any:  # noqa: ANN401 - a Java object
        """Doc values of that kind; None where the field has others or none."""
        infos = self._bridge.load(f"{_INDEX}.FieldInfos").getMergedFieldInfos(self._reader)
        info = infos.fieldInfo(field)
        if info is None or str(info.getDocValuesType().toString()) != kind.upper():
            return None
        return getattr(self._bridge.load(f"{_INDEX}.MultiDocValues"), f"get{kind}Values")(self._reader, field)

    def _text_of(self, kind: str, values: Any) -> Any:  # noqa: ANN401 - Java objects
        """A method handle without arguments: the text of the document that ``values`` stand at."""
        bridge, of_bytes = self._bridge, "org.apache.lucene.util.BytesRef"
        text = bridge.method(of_bytes, "utf8ToString", "()Ljava/lang/String;")
        if kind == "Binary":
            read = bridge.method(f"{_INDEX}.BinaryDocValues", "binaryValue", f"()L{of_bytes.replace('.', '/')};")
            return bridge.chain(read.bindTo(values), text)
        owner = f"{_INDEX}.SortedDocValues"
        look_up = bridge.method(owner, "lookupOrd", f"(I)L{of_bytes.replace('.', '/')};").bindTo(values)
        return bridge.chain(bridge.method(owner, "ordValue", "()I").bindTo(values), look_up, text)

    def live_documents(self) -> Int32Array:
        """Numbers of the documents that are not deleted, ascending (int32)."""
        bridge, most = self._bridge, int(self._reader.maxDoc())
        if not self._reader.hasDeletions():
            return np.arange(most, dtype=np.int32)
        with java_errors("listing the documents that are not deleted"):
            bits = bridge.load(f"{_INDEX}.MultiBits").getLiveDocs(self._reader)
            lives = bridge.method("org.apache.lucene.util.Bits", "get", "(I)Z").bindTo(bits)
            is_live = bridge.interface("java.util.function.IntPredicate", lives)
            live = bridge.load("java.util.stream.IntStream").range(0, most).filter(is_live).toArray()
        return np.array(live, dtype=np.int32)

    def terms(self) -> list[str]:
        """Every term of the field in ascending byte order."""
        bridge = self._bridge
        with java_errors("listing the terms"):
            terms = bridge.load(f"{_INDEX}.MultiTerms").getTerms(self._reader, self.field)
            if terms is None:
                return []
            kind = "org.apache.lucene.util.BytesRef"
            step = bridge.method(f"{kind}Iterator", "next", "()Lorg/apache/lucene/util/BytesRef;")
            supplier = bridge.interface("java.util.function.Supplier", step.bindTo(terms.iterator()))
            present = bridge.static_method("java.util.Objects", "nonNull", "(Ljava/lang/Object;)Z")
            more = bridge.interface("java.util.function.Predicate", present)
            text = bridge.method(kind, "utf8ToString", "()Ljava/lang/String;")
            stream = bridge.load("java.util.stream.Stream").generate(supplier).takeWhile(more)
            found: list[str] = bridge.to_python(stream.map(bridge.function(text)).toList())
            return found

    def length_bytes(self) -> Int64Array | None:
        """The byte in which BM25 finds each document's length (int64, by document number); None without lengths.

        It means nothing for a document that lacks the field.
        """
        bridge, most = self._bridge, int(self._reader.maxDoc())
        kind = f"{_INDEX}.NumericDocValues"
        with java_errors("reading the lengths"):
            norms = bridge.load(f"{_INDEX}.MultiDocValues").getNormValues(self._reader, self.field)
            if norms is None:
                return None
            seek = bridge.method(kind, "advanceExact", "(I)Z").bindTo(norms)
            read = bridge.then(seek, bridge.method(kind, "longValue", "()J").bindTo(norms))
            of_document = bridge.interface("java.util.function.IntToLongFunction", read)
            found = bridge.load("java.util.stream.IntStream").range(0, most).mapToLong(of_document).toArray()
        return np.array(found, dtype=np.int64) & 0xFF

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
        bridge = self._bridge
        with java_errors(f"reading the postings of '{term}'"):
            length = int(self._reader.docFreq(bridge.load(f"{_INDEX}.Term")(self.field, term)))
            if length == 0:
                return PostingList(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32))
            documents = self._next_document.bindTo(self._walk(term))
            counted = self._walk(term)
            counts = bridge.then(self._next_document.bindTo(counted), self._count.bindTo(counted))
            return PostingList(self._ints(documents, length), self._ints(counts, length))

    def _walk(self, term: str) -> Any:  # noqa: ANN401 - a Java object
        key = self._bridge.load("org.apache.lucene.util.BytesRef")(term.encode())
        return self._bridge.load(f"{_INDEX}.MultiTerms").getTermPostingsEnum(self._reader, self.field, key, _FREQS)

    def _ints(self, handle: Any, length: int) -> Int32Array:  # noqa: ANN401 - a Java object
        supplier = self._bridge.interface("java.util.function.IntSupplier", handle)
        stream = self._bridge.load("java.util.stream.IntStream").generate(supplier).limit(length)
        return np.array(stream.toArray(), dtype=np.int32)
