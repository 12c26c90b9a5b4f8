"""Documents, queries and judgments in files of any known shape: the building blocks of the loaders of files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias

import numpy as np

from harness.data.columns import (
    DOCUMENT_ROLES,
    GOLDEN_ONLY,
    GOLDEN_ROLE_NAMES,
    OPTION,
    QUERY_ROLES,
    ColumnMap,
    RecordBatch,
    TextBatch,
    text_batches,
)
from harness.data.exclusions import FIELDS, excluded_by
from harness.data.filtering import Conditions
from harness.data.golden_fields import GoldenColumns
from harness.data.golden_records import UnreadExpectations, filters_of_queries
from harness.data.golden_set import GoldenSet, excluded_documents, forbidden_documents
from harness.data.golden_shapes import GoldenRecord
from harness.data.judgments import Judgments
from harness.data.problems import Problems
from harness.data.types import Ids
from harness.errors import DataError, UsageError, nearest
from harness.loaders.base import DatasetSpec, JudgmentSource, TextSource
from harness.loaders.containers import UTF16, WORKBOOKS, is_utf16
from harness.loaders.golden import is_golden_file, is_table, read_golden, shaped_content, tests_member
from harness.loaders.qrels import read_judgments
from harness.loaders.records import ENDINGS, TABLES, format_of, read_records, unit_of
from harness.loaders.source import Source
from harness.loaders.trec_markup import is_topics, read_topics
from harness.store.cache import JSON
from harness.user_path import user_path

_SCHEME = 1
_SEPARATORS = re.compile(r"[,;|\t]|\s+")
_SHARED = frozenset({"id"})
"""Roles that questions and documents have."""

ReadRecords: TypeAlias = Callable[[Problems, list[str]], Iterator[RecordBatch]]
ReadStream: TypeAlias = Callable[[BinaryIO, Problems, list[str]], Iterator[RecordBatch]]


class Files(NamedTuple):
    """One file or several of a folder or an archive."""

    source: Source
    names: tuple[str, ...]

    @classmethod
    def of_path(cls, path: Path) -> Files:
        """Return one file by its path; whether it is there shows when it is read."""
        path = user_path(path)
        return cls(Source(path.parent), (path.name,))

    @property
    def label(self) -> str:
        """Their place, for messages."""
        return self.source.label(self.names[0]) if len(self.names) == 1 else str(self.source.path)

    @property
    def name(self) -> str:
        """Return the same in short."""
        return self.names[0] if len(self.names) == 1 else self.source.path.name

    @property
    def digests(self) -> Mapping[str, str]:
        """Return SHA-256 of the file on disk by its name; of several files together by the name of their folder."""
        each = {self.source.raw_name(name): self.source.digest(name) for name in self.names}
        if len(each) == 1:
            return each
        together = "".join(f"{digest} {name}\n" for name, digest in each.items())
        return {f"{self.source.path.name}/": hashlib.sha256(together.encode()).hexdigest()}

    def state(self) -> object:
        """Return a value that changes when a file does."""
        return [self.source.state(name) for name in self.names]

    def records(self, read: ReadStream) -> ReadRecords:
        """Return the records of all files; ``read`` gets the open stream of each."""

        def records(problems: Problems, notes: list[str]) -> Iterator[RecordBatch]:
            for name in self.names:
                with self.source.open(name) as stream:
                    yield from read(stream, problems, notes)

        return records


def text_source(files: Files, read: ReadRecords, columns: ColumnMap, unit: str) -> TextSource:
    """Return the documents or queries of records."""

    def batches(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        return text_batches(read(problems, notes), columns, problems)

    return TextSource(
        files.label,
        batches,
        name=files.name,
        key={"files": {**files.digests}, "names": list(files.names), "columns": {**columns.columns}, "reader": _SCHEME},
        digests=files.digests,
        state=files.state,
        unit=unit,
    )


def _table(files: Files, columns: ColumnMap, otherwise: str = ".jsonl") -> TextSource:
    """Return the texts of a table; ``otherwise`` is the format of a file whose ending says nothing."""
    (name,) = files.names
    return text_source(files, files.records(_reader(name, columns, otherwise)), columns, unit_of(name))


def _reader(name: str, columns: ColumnMap, otherwise: str = ".jsonl") -> partial[Iterator[RecordBatch]]:
    """Return the reader of the records of a table, to which its stream, problems and notes are given."""
    ending = format_of(name) or otherwise
    is_tabbed = ending in (".tsv", ".tab")
    without_header = tuple(role.sure for role in columns.roles if role.required) if is_tabbed else ()
    return partial(read_records, ending=ending, is_header=columns.is_header, without_header=without_header)


def _has_two_columns(start: bytes) -> bool:
    """Return whether every complete line at the beginning of a file is an id and a text with a tab between."""
    lines = [line for line in start.split(b"\n")[: start.count(b"\n") or 1] if line.strip()]
    return bool(lines) and all(line.count(b"\t") == 1 and not line.startswith(b"\t") for line in lines)


def document_columns(spec: DatasetSpec) -> ColumnMap:
    """Return the fields of documents."""
    return ColumnMap(DOCUMENT_ROLES, spec.columns, shared_roles=spec.shared_roles)


class QueryFilters(NamedTuple):
    """The filters of queries, by query id, and notes on fields without filters."""

    conditions: Mapping[str, Conditions]
    notes: Sequence[str]


def with_query_fields(
    source: TextSource, files: Files, columns: ColumnMap, unit: str, columns_by_role: Mapping[str, str]
) -> TextSource:
    """Return the queries of tables with the documents that they exclude and with their filters, as golden sets have it.

    Both raise DataError for a field of another form.
    """
    fields = GoldenColumns({role: field for role, field in columns_by_role.items() if role == "filter"})

    @cache
    def records() -> list[tuple[str, GoldenRecord]]:
        return _records_with_fields(files, columns, unit, fields)

    @cache
    def filters() -> QueryFilters:
        problems, notes = Problems(files.label, unit), list[str]()
        conditions = filters_of_queries(records(), fields, problems, notes)
        problems.raise_if_any()
        return QueryFilters(conditions, notes)

    def read(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        unread = UnreadExpectations()
        for batch in source.read(problems, notes):
            unread.add(batch.records or ())
            yield batch
        if not problems.count:
            notes.extend([*filters().notes, *unread.notes()])

    return replace(
        source,
        read=read,
        excluded=lambda documents: _excluded_by(records(), documents, Problems(files.label, unit)),
        filters=lambda: filters().conditions,
    )


def _records_with_fields(
    files: Files, columns: ColumnMap, unit: str, fields: GoldenColumns
) -> list[tuple[str, GoldenRecord]]:
    """Return id and record of the queries with a field that excludes or filters; all if ``--columns`` names a filter.

    The rows of a table have the same fields: without one in the first rows it is not read further.
    """
    problems, queries = Problems(files.label, unit), list[tuple[str, GoldenRecord]]()
    for name in files.names:
        has_rows = format_of(name) in (*TABLES, ".parquet")
        with files.source.open(name) as stream:
            for batch in _reader(name, columns)(stream, problems, [], nested=True):
                selected = _select_records(batch, fields)
                if has_rows and not selected.records:
                    break
                for texts in text_batches([selected], columns, problems):
                    for line, query, record in zip(texts.lines or (), texts.ids, texts.records or (), strict=True):
                        queries.append((query, GoldenRecord(line, record, is_table(name))))
    problems.raise_if_any()
    return queries


def _select_records(batch: RecordBatch, fields: GoldenColumns) -> RecordBatch:
    """Return the records with a field that excludes or filters; all if ``--columns`` names a filter."""

    def has_field(names: Mapping[str, object]) -> bool:
        return not names.keys().isdisjoint(FIELDS) or fields.has_filter(names)

    if fields.column("filter") is not None:
        return batch
    if not has_field(dict.fromkeys(chain.from_iterable(batch.records))):
        return RecordBatch([], [])
    pairs = zip(batch.lines, batch.records, strict=True)
    selected = [(line, record) for line, record in pairs if has_field(record)]
    return RecordBatch([line for line, _ in selected], [record for _, record in selected])


def _excluded_by(
    records: Iterable[tuple[str, GoldenRecord]], documents: Ids, problems: Problems
) -> dict[str, tuple[str, ...]]:
    """Return the documents that queries exclude, by query id; a cell of several ids is read as ``documents`` write it.

    Raises DataError for a field without ids.
    """
    excluded = dict[str, tuple[str, ...]]()
    for query, record in records:
        if record.values.keys().isdisjoint(FIELDS):
            continue
        try:
            excluded[query] = excluded_by(record.values, table=record.table).among(documents)
        except ValueError as error:
            problems.add(record.line, str(error))
    problems.raise_if_any()
    return excluded


def documents_in(files: Files, spec: DatasetSpec) -> TextSource:
    """Return the documents of a table."""
    return _table(files, document_columns(spec))


def shared_with_questions(files: Files, spec: DatasetSpec) -> DatasetSpec:
    """Return the spec of documents whose ``--columns id=FIELD`` may be meant for a golden set that has the field."""
    (name,) = files.names
    if "id" not in spec.columns or format_of(name) is None:
        return spec
    if not is_golden_file(files.source, name, spec.columns):
        return spec
    content = shaped_content(files.source, name, spec.columns, Problems(name), [])
    columns = GoldenColumns(content.columns)
    has_id = any(columns.has("id", record.values) for record in content.records)
    return replace(spec, shared_roles=_SHARED) if has_id else spec


class Questions(NamedTuple):
    """Queries, and the judgments that a golden set has too; None without them."""

    queries: TextSource
    judgments: JudgmentSource | None


def questions_in(files: Files, spec: DatasetSpec) -> Questions:
    """Return the queries of a table, of TREC topics, or of a golden set, which brings judgments too.

    A file with another ending is a table if each line is an id and a text with a tab between.
    """
    columns = ColumnMap(QUERY_ROLES, spec.columns)
    (name,) = files.names
    start = files.source.start_of(name)
    if format_of(name) is None and is_utf16(start):
        raise DataError(files.label, [UTF16])
    if is_topics(start):
        return Questions(text_source(files, files.records(read_topics), columns, "topic"), None)
    if format_of(name) is None and _has_two_columns(start):
        return Questions(_table(files, columns, ".tsv"), None)
    if format_of(name) is None:
        raise files.source.unread(name) or DataError(
            files.label,
            ["is neither a table nor TREC topics"],
            fix=f"queries are read from {', '.join(ENDINGS)} files, and from lines of an id, a tab and the text",
        )
    if GOLDEN_ONLY & spec.columns.keys() or is_golden_file(files.source, name, spec.columns):
        return golden_questions(files, spec.columns)
    source = with_query_fields(_table(files, columns), files, columns, unit_of(name), spec.columns)
    return Questions(source, None)


def golden_questions(files: Files, columns: Mapping[str, str]) -> Questions:
    """Return the queries and judgments of a golden set."""

    @cache
    def golden() -> GoldenSet:
        return read_golden(files.source, files.names[0], columns, _SHARED)

    def resolved(documents: Ids) -> GoldenSet:
        def find_ids(names: Set[str]) -> Set[str]:
            candidates = sorted(names)
            return set(Ids.of(candidates).take(np.flatnonzero(documents.rows_of(Ids.of(candidates)) >= 0)))

        return golden().with_known_ids(find_ids)

    def questions(problems: Problems, notes: list[str]) -> Iterator[TextBatch]:
        notes.extend(golden().notes)
        ids, texts, lines = zip(*((q.id, q.question, q.line) for q in golden()), strict=True)
        yield TextBatch(ids, texts, lines=lines)

    def judgments(problems: Problems, notes: list[str]) -> Judgments:
        return _judgments_of(golden().require_ids())

    def judgments_for(documents: Ids, problems: Problems, notes: list[str]) -> Judgments:
        read = resolved(documents)
        notes.extend(read.notes[len(golden().notes) :])
        return _judgments_of(read.require_ids())

    key: dict[str, JSON] = {"files": {**files.digests}, "names": list(files.names), "reader": _SCHEME, "golden": True}
    if (tests := tests_member(files.source, files.names[0])) is not None:
        key["tests"] = files.source.digest(tests)
    if golden_columns := {role: field for role, field in columns.items() if role in GOLDEN_ROLE_NAMES}:
        key["columns"] = {**golden_columns}
    queries = TextSource(
        files.label,
        questions,
        files.name,
        key,
        files.digests,
        files.state,
        excluded=lambda documents: excluded_documents(resolved(documents)),
        filters=lambda: {question.id: question.filter for question in golden() if question.filter},
        forbidden=lambda documents: forbidden_documents(resolved(documents)),
    )
    source = JudgmentSource(files.label, judgments, files.name, files.digests, read_for=judgments_for)
    return Questions(queries, source)


def _judgments_of(golden: GoldenSet) -> Judgments:
    expected = [(q.line, q.id, document.id, document.grade, document.group) for q in golden for document in q.expected]
    return Judgments(*map(list, zip(*expected, strict=True))) if expected else Judgments([], [], [], [])


def judgments_in(files: Files, spec: DatasetSpec) -> JudgmentSource:
    """Return the judgments of a table, or of lines in BEIR's or TREC's layout."""
    (name,) = files.names

    def read(problems: Problems, notes: list[str]) -> Judgments:
        _note_absent_fields(files.source, name, spec.columns, problems)
        return read_judgments(files.source, name, spec.columns, problems, notes)

    return JudgmentSource(files.label, read, name, files.digests, unit_of(name))


def _note_absent_fields(source: Source, name: str, columns: Mapping[str, str], problems: Problems) -> None:
    """Note fields that ``--columns`` names and judgments in lines lack; those of a table are looked up when read."""
    fields = {role: columns[role] for role in ("doc_id", "grade") if role in columns}
    first = source.start_of(name).lstrip().split(b"\n", 1)[0].decode("utf-8", "replace") if fields else ""
    is_object = first.startswith(("{", "["))
    for role, field in fields.items() if not is_object and format_of(name) not in (*WORKBOOKS, ".parquet") else ():
        names = [cell.strip(' "\r') for cell in _SEPARATORS.split(first)]
        if field not in names:
            problems.add(
                None, f"there is no field '{field}', which {OPTION} names as the {role} (first line: {first!r})"
            )


def choose_split(label: str, splits: Sequence[str], requested: str | None, usual: str = "test") -> str:
    """Return the requested split, else the usual one or the only one; "" without splits.

    Raises UsageError for a split that is not there, and for several without the usual one.
    """
    if requested is not None and requested not in splits:
        splits_text = f"there are: {', '.join(splits)}" if splits else "it has no judgments, so leave the split out"
        raise UsageError(f"{label} has no split '{requested}'{nearest(requested, splits)}", fix=splits_text)
    if requested is None and len(splits) > 1 and usual not in splits:
        raise UsageError(f"{label} has several splits and no '{usual}'", fix=f"choose one: {', '.join(splits)}")
    return requested or (usual if usual in splits else next(iter(splits), ""))


def judged_elsewhere(judgments: Mapping[str, JudgmentSource], split: str) -> frozenset[str]:
    """Return the queries that other splits judge and this one does not; faults of their files are not looked at."""
    if len(judgments) < 2 or not split:
        return frozenset()
    judged = {name: set(source.read(Problems(name), []).query_ids) for name, source in judgments.items()}
    return frozenset(set[str]().union(*judged.values()) - judged[split])
