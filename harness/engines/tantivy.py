"""Tantivy, a search library in Rust: its BM25 over analysed terms, in the process.

Tantivy fixes k1 = 1.2 and b = 0.75, stores a document's length in one byte, takes N and avgdl over all documents of all
segments, and computes in float32 (``src/query/bm25.rs``). Equal scores come by segment and document number. Deleted
documents count until their segment is merged; then the remaining documents count for avgdl with their stored lengths
(``src/indexer/merger.rs``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from harness.data.inputs import columns_of
from harness.data.progress import Progress
from harness.data.types import Int32Array
from harness.engines.base import Documents, Filterable, LoadedIndex
from harness.engines.changeable import Changeable, Changes
from harness.engines.index_folder import field_columns, saved_fields
from harness.engines.interface import Capabilities, EngineInfo, Remains
from harness.registry.field_weights import fields_of
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = ["TantivyEngine"]

_TERMS = "terms"
_ROW = "row"
_CHANGE = "change"
"""The number of the change that wrote a document; documents of the build lack it."""
_MEGABYTE = 1_000_000
_Contents: TypeAlias = Mapping[str, tuple[set[tuple[int, int]], set[tuple[int, int]]]]
"""The content of each segment, and its deleted part: rows, each with the number of the change that wrote it."""


class TantivyEngine(Filterable[pa.ChunkedArray], Changeable[pa.ChunkedArray]):
    """Documents of terms without positions; a query is a disjunction of its terms, with repeats.

    Over several fields it is one disjunction of the terms in each field, boosted by the field's weight.

    A filter restricts the matching documents and leaves every score as it is.
    """

    name = "tantivy"
    packages = ("tantivy",)
    faults = (ValueError, OSError, RuntimeError)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=True,
        shares_index=True,
        threads=True,
        fields=True,
    )

    _searcher: Any
    _schema: Any
    _clauses: list[Any]
    _before: _Contents
    """The content of the segments before the last change, which removed the contents of the rows ``_outdated``."""
    _outdated: set[int]
    _rounded: set[tuple[int, int]]
    """Contents that were in a segment with deleted contents when it was merged."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        fields = fields_of(parameters)
        self._searched = {f"{_TERMS}_{number}": field.weight for number, field in enumerate(fields)} or {_TERMS: 1.0}

    def info(self) -> EngineInfo:
        """Import the library."""
        self._tantivy: Any = require("tantivy", extra="tantivy", feature="backend tantivy")
        version, _, index_format = str(self._tantivy.__version__).removeprefix("tantivy v").partition(", ")
        self._format = index_format.removeprefix("index_format ")
        self._clauses = []
        self.resources.callback(setattr, self, "_searcher", None)  # its files stay mapped as long as it exists
        self._before, self._outdated, self._rounded = {}, set(), set()
        return EngineInfo("Tantivy", version, "embedded")

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        """Add documents and commit; getting ready means waiting until segments are merged."""
        schema = self._tantivy.SchemaBuilder()
        for name in self._searched:
            schema.add_text_field(name, tokenizer_name="whitespace", index_option="freq")
        schema.add_unsigned_field(_ROW, fast=True, indexed=True)
        schema.add_unsigned_field(_CHANGE, fast=True)
        for field in field_columns(documents.fields).values():
            schema.add_text_field(field, tokenizer_name="raw", index_option="basic")
        writer = self._writer(_unwatched(self._tantivy.Index(schema.build(), path=str(folder), reuse=False)))
        self._write(writer, np.arange(len(documents), dtype=np.int32), documents, progress)

    def change(self, folder: Path, changes: Changes[pa.ChunkedArray], progress: Progress) -> None:
        """Delete by the field of the row and add, in one commit; getting ready is the same as after a build."""
        index = _unwatched(self._tantivy.Index.open(str(folder)))
        writer = self._writer(index)
        # by a query: a term of a numeric field silently deletes nothing
        outdated = self._tantivy.Query.term_set_query(index.schema, _ROW, changes.outdated.tolist())
        writer.delete_documents_by_query(outdated)
        self._write(writer, changes.rows, changes.written, progress)

    def _writer(self, index: Any) -> Any:
        threads, heap = int(self.parameters["writer_threads"]), int(self.parameters["heap_mb"]) * _MEGABYTE
        return index.writer(heap_size=heap, num_threads=threads)

    def _write(
        self,
        writer: Any,
        rows: Int32Array,
        documents: Documents[pa.ChunkedArray],
        progress: Progress,
    ) -> None:
        commit_interval = 0 if self.change_number else int(self.parameters["commit_every"])
        values = documents.metadata.to_pydict().values() if documents.metadata is not None else ()
        columns = list(zip(field_columns(documents.fields).values(), values, strict=True))
        texts = zip(*columns_of(documents.column).values(), strict=True)
        for position, (row, terms) in enumerate(zip(rows.tolist(), texts, strict=True)):
            document = self._tantivy.Document()
            for name, text in zip(self._searched, terms, strict=True):
                document.add_text(name, text.as_py())
            document.add_unsigned(_ROW, row)
            if self.change_number:
                document.add_unsigned(_CHANGE, self.change_number)
            for field, column in columns:
                if column[position] is not None:
                    document.add_text(field, column[position])
            writer.add_document(document)
            progress.advance(1)
            if commit_interval and (position + 1) % commit_interval == 0:
                writer.commit()
        writer.commit()
        progress.start("merge", None)
        writer.wait_merging_threads()

    def load(self, folder: Path) -> LoadedIndex:
        """Open the last commit."""
        index = _unwatched(self._tantivy.Index.open(str(folder)))
        self._schema, self._searcher = index.schema, index.searcher()
        segments, documents = int(self._searcher.num_segments), int(self._searcher.num_docs)
        deleted = sum(segment["max_doc"] for segment in _segments(folder)) - documents
        return LoadedIndex(
            documents, {"segments": segments, "deleted_documents": deleted, "index_format": self._format}
        )

    def note(self, changes: Changes[pa.ChunkedArray]) -> None:
        """Also record the content of the segments before timing starts."""
        self._note_merged()
        self._before, self._outdated = self._contents(), set(changes.outdated.tolist())
        super().note(changes)

    def _note_merged(self) -> None:
        """Record the segments with deleted documents that the last change merged."""
        segment_ids = {segment["segment_id"] for segment in _segments(self.folder)}
        for segment, (documents, dead) in self._before.items():
            if segment not in segment_ids and (dead or not self._outdated.isdisjoint(row for row, _ in documents)):
                self._rounded |= documents

    def _contents(self) -> _Contents:
        """Return the content of each segment, and its deleted part.

        Columns of deleted documents can be read until the segment is merged.
        """
        everything, count = self._tantivy.Query.all_query(), max(1, int(self._searcher.num_docs))
        live_addresses = {
            (address.segment_ord, address.doc) for _, address in self._searcher.search(everything, count).hits
        }
        contents = {}
        for number, segment in enumerate(_segments(self.folder)):
            addresses = [self._tantivy.DocAddress(number, document) for document in range(segment["max_doc"])]
            rows, written = (self._searcher.fast_field_values(field, addresses) for field in (_ROW, _CHANGE))
            stored_rows = [(row, change or 0) for row, change in zip(rows, written, strict=True)]
            dead = {content for address, content in enumerate(stored_rows) if (number, address) not in live_addresses}
            contents[segment["segment_id"]] = set(stored_rows), dead
        return contents

    def remains(self) -> Remains:
        """List the deleted documents in segments, and the contents that merging left with stored lengths."""
        self._note_merged()
        segments = self._contents().values()
        dead = sorted(content for _, deleted in segments for content in deleted)
        rounded = sorted(
            row
            for documents, deleted in segments
            for row, change in documents - deleted
            if (row, change) in self._rounded
        )
        rows, written = np.array(dead, dtype=np.int32).reshape(-1, 2).T
        was_rounded = np.array([content in self._rounded for content in dead], dtype=np.bool_)
        return Remains(rows, written, rounded=np.array(rounded, dtype=np.int32), rounded_rows=was_rounded)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterable[Any]:
        """Return Tantivy's queries."""
        return (self._query(terms) for terms in queries.to_pylist())

    def _query(self, terms: str) -> Any:
        if not terms:
            return None
        query, occur = self._tantivy.Query, self._tantivy.Occur
        disjunction = query.boolean_query(
            [
                (occur.Should, self._boosted(self._term(name, term, "freq"), weight))
                for name, weight in self._searched.items()
                for term in terms.split(" ")
            ]
        )
        if not self._clauses:
            return disjunction
        return query.boolean_query([(occur.Must, clause) for clause in (disjunction, *self._clauses)])

    def _boosted(self, query: Any, weight: float) -> Any:
        return query if weight == 1.0 else self._tantivy.Query.boost_query(query, weight)

    def _term(self, field: str, value: str, option: str) -> Any:
        return self._tantivy.Query.term_query(self._schema, field, value, index_option=option)

    def retrieve(self, query: Any, k: int) -> list[Any]:
        """Return pairs of a score and the address of a document."""
        hits: list[Any] = self._searcher.search(query, k, count=False).hits
        return hits

    def columns(self, answer: list[Any]) -> tuple[list[int], list[float]]:
        """Read the rows of the documents from their column."""
        rows = self._searcher.fast_field_values(_ROW, [address for _, address in answer])
        return rows, [score for score, _ in answer]

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Require the values, without an effect on the score."""
        columns = field_columns(saved_fields(self.folder))
        self._clauses = [
            self._tantivy.Query.const_score_query(self._term(columns[name], value, "basic"), 0.0)
            for name, value in conditions.items()
        ]


def _unwatched(index: Any) -> Any:
    """Prevent a thread from reopening each commit while times are taken, and after the index is closed and gone."""
    index.config_reader(reload_policy="Manual")
    return index


def _segments(folder: Path) -> list[Mapping[str, Any]]:
    """Return the segments of the last commit by Tantivy's own file, in the order of their numbers."""
    return list(orjson.loads((folder / "meta.json").read_bytes())["segments"])
