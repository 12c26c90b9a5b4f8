"""Golden sets on disk: JSON Lines, JSON, YAML, CSV or TSV with a header, workbooks, Parquet; plain or compressed.

:data:`harness.data.golden_shapes.SHAPES` has the ways to write one. In the plainest, a line is one question::

    {"id": "q1", "question": "How long is the warranty?", "expected_relevant_doc_ids": ["faq-12", "faq-13"]}

:data:`harness.data.columns.GOLDEN_ROLES` has the names by which fields are found without ``--columns``. Expected ids
are a list, one id, or ``{id: grade}``, and may be records with an id; an inner list holds alternatives, and an empty
list says that nothing answers the question. All other fields are kept for slices. In CSV (``.csv``, ``.tsv``) an empty
cell is an empty list, several ids are separated by ``;`` or ``|`` (unless the corpus has an id with such a character in
it), and a cell that begins with ``[`` or ``{`` is JSON, or a list as Python or NumPy prints it. A line without an id
gets ``line-`` and its number. Lines without ids that have the same question are one question, which expects the
documents of all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Set
from pathlib import Path, PurePosixPath
from typing import Any

from harness.data.columns import OPTION, RECORDS, RecordBatch, abbreviated
from harness.data.golden_fields import GoldenColumns
from harness.data.golden_records import (
    golden_of_objects,
    golden_of_records,
    note_without_expectations,
    read_questions,
)
from harness.data.golden_set import GoldenSet
from harness.data.golden_shapes import GoldenContent, GoldenRecord, is_golden, read_shapes
from harness.data.golden_shapes.promptfoo import tests_path, with_tests
from harness.data.problems import Problems
from harness.errors import DataError
from harness.loaders.containers import WORKBOOKS, plain_name
from harness.loaders.records import (
    TABLES,
    Sheet,
    first_records,
    format_of,
    is_value,
    object_batch,
    read_records,
    read_value,
    unit_of,
)
from harness.loaders.source import Source, leads_outside
from harness.user_path import user_path

__all__ = [
    "golden_of_objects",
    "golden_of_records",
    "is_golden_file",
    "load_golden",
    "read_golden",
    "shaped_content",
    "tests_member",
]


def load_golden(
    path: str | Path,
    columns: Mapping[str, str] | None = None,
    shared_roles: Set[str] = frozenset(),
    *,
    reads_texts: bool = False,
) -> GoldenSet:
    """Read a golden set from a file.

    Args:
        path: the file.
        columns: role -> field or dotted path, for fields without a usual name.
        shared_roles: roles whose field in ``columns`` need not exist, because the documents may have it.
        reads_texts: whether the values of the expected ids' field are read as texts (``--match text``).

    Raises:
        DataError: every problem of the file with its line: no UTF-8, malformed JSON, missing, misspelt or contradicting
            fields, duplicate ids, empty questions, ids expected with two grades, grades that are not whole numbers of 0
            or more; a file without any question, or in which no question expects anything.
    """
    resolved = user_path(path)
    return read_golden(Source(resolved.parent), resolved.name, columns, shared_roles, reads_texts=reads_texts)


def is_golden_file(source: Source, member: str, columns: Mapping[str, str]) -> bool:
    """Return whether a file is a golden set: whether it has questions, and expected ids or texts.

    Of a file of lines or rows the first record is read. A file that cannot be read is none.
    """
    if is_value(format_of(member) or ""):
        try:
            return is_golden(read_content(source, member, columns, Problems(member), []))
        except DataError:
            return False
    records = [GoldenRecord(1, record, is_table(member)) for record in first_records(source, member)[:1]]
    return is_golden(GoldenContent(records, columns=columns))


def read_content(
    source: Source,
    member: str,
    columns: Mapping[str, str],
    problems: Problems,
    notes: list[str],
    *,
    follow: bool = True,
) -> GoldenContent:
    """Return the content of a file as its format has it, before its shape is known; faults are noted.

    ``follow`` reads the file that promptfoo's configuration names in place of tests.
    """
    ending = format_of(member) or ".jsonl"
    with source.open(member) as stream:
        if is_value(ending):
            value = read_value(stream, problems, notes, ending=ending)
            if isinstance(value, dict):
                content = _tests_elsewhere(source, member, value, columns, problems, notes) if follow else None
                return content or GoldenContent(mapping=value, columns=columns)
            if value is not None and not isinstance(value, list | RecordBatch):
                problems.add(None, f"a list of objects is expected, not {abbreviated(value)}")
            batch = object_batch(value, 1, problems) if isinstance(value, list) else value
            return GoldenContent(_records([batch], member), columns=columns)
        sheet = Sheet(columns.get(RECORDS), f"name one, as {OPTION} {RECORDS}=NAME")
        batches = read_records(stream, problems, notes, ending=ending, nested=True, sheet=sheet)
        records = _records(batches, member)
    is_workbook = ending in WORKBOOKS
    left = {role: column for role, column in columns.items() if role != RECORDS or not is_workbook}
    return GoldenContent(records, columns=left)


def _tests_elsewhere(
    source: Source,
    member: str,
    value: Mapping[str, Any],
    columns: Mapping[str, str],
    problems: Problems,
    notes: list[str],
) -> GoldenContent | None:
    """Return the content of the file that promptfoo's configuration names in place of tests; None without one.

    The columns of a table are the variables of a test.
    """
    name = _tests_member(source, member, value)
    if name is None:
        return None
    content = read_content(source, name, columns, problems, notes, follow=False)
    if content.mapping is not None or is_table(name):
        return content
    tests = [dict(record.values) for record in content.records]
    return GoldenContent(mapping=with_tests(value, tests), columns=columns)


def _tests_member(source: Source, member: str, value: Mapping[str, Any]) -> str | None:
    """Return the stored name of a file of tests below the folder of a configuration; None without one."""
    path = tests_path(value)
    if path is None or "://" in path or format_of(path) is None or leads_outside(path):
        return None
    name = (PurePosixPath(member).parent / path).as_posix()
    return name if name != member and source.holds(name) else None


def tests_member(source: Source, member: str) -> str | None:
    """Return the stored name of the file of tests that a file names in place of tests; None for other files."""
    if not is_value(format_of(member) or ""):
        return None
    with source.open(member) as stream:
        value = read_value(stream, Problems(member), [], ending=format_of(member) or "")
    return _tests_member(source, member, value) if isinstance(value, dict) else None


def read_golden(
    source: Source,
    member: str,
    columns: Mapping[str, str] | None = None,
    shared_roles: Set[str] = frozenset(),
    *,
    reads_texts: bool = False,
) -> GoldenSet:
    """Return the golden set in a member of a folder or archive; arguments and errors as in :func:`load_golden`."""
    problems, notes = Problems(source.label(member), unit_of(member)), list[str]()
    content = shaped_content(source, member, columns or {}, problems, notes)
    fields = GoldenColumns(content.columns, OPTION, shared_roles, reads_texts=reads_texts)
    questions = read_questions(content, fields, problems, notes)
    note_without_expectations(questions, fields, problems)
    problems.raise_if_any()
    name, digest, tests = Path(plain_name(member)).stem, source.digest(member), tests_member(source, member)
    if tests is not None:
        digest = hashlib.sha256(f"{digest} {source.digest(tests)}".encode()).hexdigest()
    return GoldenSet(name, source.label(member), questions, digest, tuple(notes), columns=fields.used())


def shaped_content(
    source: Source, member: str, columns: Mapping[str, str], problems: Problems, notes: list[str]
) -> GoldenContent:
    """Return the records of a golden set, and documents that come with them; faulty records are noted.

    Raises DataError for a file in no known shape.
    """
    content = read_content(source, member, columns, problems, notes)
    try:
        return read_shapes(content)
    except ValueError as error:
        problems.add(None, str(error))
        problems.raise_if_any()
        raise


def _records(batches: Iterable[RecordBatch | None], member: str) -> list[GoldenRecord]:
    return [
        GoldenRecord(number, values, is_table(member))
        for batch in batches
        if batch is not None
        for number, values in zip(batch.lines, batch.records, strict=True)
    ]


def is_table(member: str) -> bool:
    """Return whether the values of a file's records are cells."""
    return (format_of(member) or "") in TABLES
