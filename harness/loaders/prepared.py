"""Texts made ready: parsed once into an Arrow IPC file in the cache, memory-mapped from then on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from harness.arrow import as_numpy, strings, text_scalar
from harness.errors import DataError
from harness.loaders.jsonl import RecordBatch, read_records
from harness.loaders.problems import Problems
from harness.loaders.source import Source
from harness.protocols import Progress
from harness.storage.cache import JSON, Cache
from harness.storage.columns import load_table
from harness.types import BAD_ID, BAD_ID_IS, Ids

__all__ = ["JoinRule", "Texts", "content_digest", "prepare_texts"]

_SCHEME = 1
_TABLE, _FACTS = "texts.arrow", "facts.json"
_SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string())])


class JoinRule(NamedTuple):
    """How one or two fields of a record become one text: in order, ``separator`` between them if both are filled."""

    fields: tuple[str, ...] = ("title", "text")
    separator: str = " "

    def __str__(self) -> str:
        if len(self.fields) == 1:
            return f"{self.fields[0]} alone"
        return f"{f' + {self.separator!r} + '.join(self.fields)}, without the separator where one is empty"


class Texts(NamedTuple):
    """Prepared documents or queries.

    ``digest`` and ``path`` as in :class:`harness.types.Corpus`; ``notes`` say what was accepted although it is odd.
    """

    ids: Ids
    texts: pa.ChunkedArray
    digest: str
    path: Path
    notes: tuple[str, ...]


def prepare_texts(
    source: Source, member: str, rule: JoinRule, cache: Cache, progress: Progress | None, total: int | None = None
) -> Texts:
    """The texts of a JSON Lines member, from the cache when the same bytes were prepared before.

    The key is the SHA-256 of the file, so an edited file is never mistaken for the old one. ``total`` is the expected
    number of records, for ``progress``. Raises DataError with every problem of the file; one without any record is an
    error too.
    """
    before = source.state(member)
    key: dict[str, JSON] = {
        "scheme": _SCHEME,
        "sha256": source.digest(member),
        "member": member,
        "join": [*rule.fields, rule.separator],
    }

    def build(folder: Path) -> None:
        if progress is not None:
            progress.start(f"reading {member}", total)
        _build(folder, source, member, rule, progress)
        if source.state(member) != before:
            raise DataError(source.label(member), ["changed while it was being read"], fix="try again")

    folder = cache.get_or_build("texts", key, build)
    table = load_table(folder / _TABLE)
    facts = orjson.loads((folder / _FACTS).read_bytes())
    ids = Ids(table.column("id").combine_chunks())
    return Texts(ids, table.column("text"), facts["digest"], folder / _TABLE, tuple(facts["notes"]))


def content_digest(ids: Ids, texts: pa.ChunkedArray) -> str:
    """SHA-256 that names ids and texts in their order, however they are cut into chunks."""
    digest = _Digest()
    digest.ids.update(ids.values)
    for chunk in texts.chunks:
        digest.texts.update(chunk)
    return digest.hexdigest()


def _build(folder: Path, source: Source, member: str, rule: JoinRule, progress: Progress | None) -> None:
    problems, notes = Problems(source.label(member)), list[str]()
    digest, lines, ids = _Digest(), list[np.ndarray[tuple[int], np.dtype[np.int64]]](), list[pa.StringArray]()
    with (
        source.open(member) as stream,
        pa.OSFile(str(folder / _TABLE), "wb") as sink,
        pa.ipc.new_file(sink, _SCHEMA) as writer,
    ):
        for batch in read_records(stream, rule.fields, problems, notes):
            columns = _columns(batch, rule, problems)
            digest.ids.update(columns.column("id"))
            digest.texts.update(columns.column("text"))
            writer.write_batch(columns)
            lines.append(np.array(batch.lines, dtype=np.int64))
            ids.append(columns.column("id"))
            if progress is not None:
                progress.advance(len(batch.lines))
    if ids:
        _note_duplicates(pa.concat_arrays(ids), np.concatenate(lines), problems)
    elif not problems.count:
        problems.add(None, "the file holds no records")
    problems.raise_if_any()
    (folder / _FACTS).write_bytes(orjson.dumps({"digest": digest.hexdigest(), "notes": notes}))


def _columns(batch: RecordBatch, rule: JoinRule, problems: Problems) -> pa.RecordBatch:
    ids = strings(batch.ids)
    for row in _true_rows(pc.match_substring_regex(ids, BAD_ID)):
        problems.add(batch.lines[row], f"the id {batch.ids[row]!r} {BAD_ID_IS}")
    parts = [strings(values) for values in batch.fields]
    text = parts[0]
    if len(parts) > 1:
        first, second = parts
        nothing, separator = text_scalar(""), text_scalar(rule.separator)
        alone = pc.or_(pc.equal(first, nothing), pc.equal(second, nothing))
        text = pc.binary_join_element_wise(first, pc.if_else(alone, nothing, separator), second, nothing)
    return pa.record_batch([ids, text], schema=_SCHEMA)


def _true_rows(mask: pa.BooleanArray) -> Iterator[int]:
    yield from np.flatnonzero(as_numpy(mask)).tolist()


def _note_duplicates(
    ids: pa.StringArray, lines: np.ndarray[tuple[int], np.dtype[np.int64]], problems: Problems
) -> None:
    """Sorting takes a tenth of the memory of a hash table of all ids."""
    order = pc.sort_indices(ids)
    ordered = ids.take(order)
    repeats = np.flatnonzero(as_numpy(pc.equal(ordered[1:], ordered[:-1]))) + 1
    if not len(repeats):
        return
    rows = as_numpy(order)
    starts = np.ones(len(rows), dtype=bool)
    starts[repeats] = False
    first = np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))
    for place in repeats[np.argsort(rows[repeats])].tolist():
        row = int(rows[place])
        problems.add(int(lines[row]), f"duplicate id '{ids[row]}', first on line {lines[rows[first[place]]]}")


class _ColumnDigest:
    """SHA-256 of a string column, fed chunk by chunk: lengths and bytes apart, so that chunks do not matter."""

    def __init__(self) -> None:
        self._lengths, self._bytes = hashlib.sha256(), hashlib.sha256()

    def update(self, values: pa.StringArray) -> None:
        self._lengths.update(as_numpy(pc.binary_length(values)).astype("<i8").data)
        data = values.buffers()[2]
        if len(values) and data is not None:
            offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[
                values.offset : values.offset + len(values) + 1
            ]
            self._bytes.update(memoryview(data)[int(offsets[0]) : int(offsets[-1])])

    def digest(self) -> bytes:
        return self._lengths.digest() + self._bytes.digest()


class _Digest:
    def __init__(self) -> None:
        self.ids, self.texts = _ColumnDigest(), _ColumnDigest()

    def hexdigest(self) -> str:
        return hashlib.sha256(self.ids.digest() + self.texts.digest()).hexdigest()
