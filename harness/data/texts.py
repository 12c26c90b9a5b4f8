"""Texts of documents and queries as columns: title and text joined, ids checked, and a digest of the content."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, strings, text_scalar
from harness.data.columns import TextBatch, abbreviated, null_text
from harness.data.problems import Problems
from harness.data.types import BAD_ID, BAD_ID_IS, Ids, Int64Array
from harness.wording import LONE_SURROGATE

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

TEXT_SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])
_DIGITS = 12
"""Hexadecimal digits of the digest of one text."""

_TITLE_FIELDS = (
    "title",
    "headline",
    "heading",
    "subject",
    "doc_title",
    "document_title",
    "article_title",
    "page_title",
)
"""Fields that hold a title, if they are not used as such; ``name`` is as often the name of a file."""


class JoinRule(NamedTuple):
    """Rule that joins one or two fields into one text: in order, ``separator`` between them if both are filled."""

    fields: tuple[str, ...] = ("title", "text")
    separator: str = " "

    def __str__(self) -> str:
        if len(self.fields) == 1:
            return f"{self.fields[0]} alone"
        return f"{f' + {self.separator!r} + '.join(self.fields)}, without the separator if one is empty"


class TitleCounts(NamedTuple):
    """Number of records that have a title, and whether it is searched.

    ``filled`` counts the titles that are not empty. ``unused`` counts, for each field that is called like a title and
    plays no role, the records in which it is filled.
    """

    records: int
    filled: int
    searched: bool
    unused: dict[str, int]


class TitleCounter:
    """Counts titles batch by batch; the records of a batch count if it has them."""

    def __init__(self) -> None:
        """Start at 0."""
        self._records = self._filled = 0
        self._unused = Counter[str]()

    def add(self, batch: TextBatch) -> None:
        """Count one batch."""
        self._records += len(batch.ids)
        self._filled += sum(map(bool, batch.titles or ()))
        if not batch.records:
            return
        for field in _TITLE_FIELDS:
            if field in batch.records[0] and field not in batch.used:
                self._unused[field] += sum(bool(record.get(field)) for record in batch.records)

    def counts(self, rule: JoinRule) -> TitleCounts:
        """Return the counts for texts that are joined by ``rule``."""
        return TitleCounts(self._records, self._filled, "title" in rule.fields, dict(self._unused))


def joined(batch: TextBatch, lines: Int64Array, rule: JoinRule, problems: Problems) -> pa.RecordBatch:
    """Return a batch as columns ``id`` and ``text``; bad ids and texts that are null are noted by their ``lines``."""
    titles = None if batch.titles is None else [title or "" for title in batch.titles]
    values = {"text": batch.texts, **({"title": titles} if titles is not None else {})}
    try:
        ids, parts = strings(batch.ids), [strings(values[field]) for field in rule.fields if field in values]
    except (TypeError, UnicodeEncodeError):
        for line, *cells in zip(lines.tolist(), batch.ids, *values.values(), strict=True):
            for value in cells:
                if value is not None and not isinstance(value, str):
                    problems.add(line, f"{abbreviated(value)} is not a text")
                elif value is not None and LONE_SURROGATE.search(value):
                    problems.add(line, f"{value!r} holds a lone surrogate, which is not a character")
        return pa.RecordBatch.from_pylist([], schema=TEXT_SCHEMA)
    if any(column.null_count for column in (ids, *parts)):
        for column, problem in ((ids, "the id is null"), *((part, null_text("text")) for part in parts)):
            for row in np.flatnonzero(as_numpy(pc.is_null(column))).tolist():
                problems.add(int(lines[row]), problem)
        return pa.RecordBatch.from_pylist([], schema=TEXT_SCHEMA)
    for row in np.flatnonzero(as_numpy(pc.match_substring_regex(ids, BAD_ID))).tolist():
        problems.add(int(lines[row]), f"the id {batch.ids[row]!r} {BAD_ID_IS}")
    text = parts[0] if parts else strings([""] * len(ids))
    if len(parts) > 1:
        first, second = parts
        nothing, separator = text_scalar(""), text_scalar(rule.separator)
        alone = pc.or_(pc.equal(first, nothing), pc.equal(second, nothing))
        text = pc.binary_join_element_wise(first, pc.if_else(alone, nothing, separator), second, nothing)
    return pa.record_batch([ids, text], schema=TEXT_SCHEMA)


def note_duplicates(ids: pa.StringArray, lines: Int64Array, problems: Problems) -> None:
    """Note every id that an earlier line has. Sorting takes a tenth of the memory of a hash table of all ids."""
    order = pc.sort_indices(ids)
    ordered = ids.take(order)
    repeats = np.flatnonzero(as_numpy(pc.equal(ordered[1:], ordered[:-1]))) + 1
    if not len(repeats):
        return
    rows = as_numpy(order)
    starts = np.ones(len(rows), dtype=bool)
    starts[repeats] = False
    first = np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))
    for position in repeats[np.argsort(rows[repeats])].tolist():
        row = int(rows[position])
        problems.add(
            int(lines[row]), f"duplicate id '{ids[row]}', first {problems.location(int(lines[rows[first[position]]]))}"
        )


def content_digest(ids: Ids, texts: pa.ChunkedArray) -> str:
    """Return the SHA-256 that names ids and texts in their order, however they are cut into chunks."""
    of_ids, of_texts = ColumnDigest(), ColumnDigest()
    of_ids.update(ids.values)
    for chunk in texts.chunks:
        of_texts.update(chunk)
    return joined_digest(of_ids, of_texts)


@dataclass(frozen=True, slots=True)
class ColumnDigest:
    """SHA-256 of a string column, fed chunk by chunk: lengths and bytes apart, so that chunks do not matter."""

    lengths: Hash = dataclass_field(default_factory=hashlib.sha256)
    content: Hash = dataclass_field(default_factory=hashlib.sha256)

    def update(self, values: pa.StringArray) -> None:
        """Add the next chunk."""
        self.lengths.update(as_numpy(pc.binary_length(values)).astype("<i8").data)
        data = values.buffers()[2]
        if len(values) and data is not None:
            offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[
                values.offset : values.offset + len(values) + 1
            ]
            self.content.update(memoryview(data)[int(offsets[0]) : int(offsets[-1])])


def text_digest(text: str) -> str:
    """Return a short name of a query's text: two queries are the same when they share id and text."""
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def joined_digest(*columns: ColumnDigest) -> str:
    """Return the SHA-256 of columns in their order, in hexadecimal digits."""
    digests = [digest.digest() for column in columns for digest in (column.lengths, column.content)]
    return hashlib.sha256(b"".join(digests)).hexdigest()
