"""Golden sets on disk: JSON Lines, a JSON array, CSV or TSV with a header, Parquet; plain or compressed.

A line is one question::

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

from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from harness.data.columns import OPTION, RecordBatch
from harness.data.golden_fields import GoldenColumns
from harness.data.golden_records import (
    GoldenRecord,
    golden_of_objects,
    golden_of_records,
    note_without_expectations,
    read_questions,
)
from harness.data.golden_set import GoldenSet
from harness.data.problems import Problems
from harness.loaders.containers import plain_name
from harness.loaders.records import TABLES, format_of, read_records, unit_of
from harness.loaders.source import Source
from harness.user_path import user_path

__all__ = ["golden_of_objects", "golden_of_records", "is_golden", "load_golden", "read_golden"]


def load_golden(
    path: str | Path, columns: Mapping[str, str] | None = None, shared_roles: Set[str] = frozenset()
) -> GoldenSet:
    """Read a golden set from a file.

    Args:
        path: the file.
        columns: role -> field or dotted path, for fields without a usual name.
        shared_roles: roles whose field in ``columns`` need not exist, because the documents may have it.

    Raises:
        DataError: every problem of the file with its line: no UTF-8, malformed JSON, missing, misspelt or contradicting
            fields, duplicate ids, empty questions, ids expected with two grades, grades that are not whole numbers of 0
            or more; a file without any question, or in which no question expects anything.
    """
    resolved = user_path(path)
    return read_golden(Source(resolved.parent), resolved.name, columns, shared_roles)


def is_golden(record: Mapping[str, Any], columns: Mapping[str, str] | None = None) -> bool:
    """Return whether a record belongs to a golden set: whether it has a question, and expected ids or texts."""
    return GoldenColumns(columns).covers(record)


def read_golden(
    source: Source, member: str, columns: Mapping[str, str] | None = None, shared_roles: Set[str] = frozenset()
) -> GoldenSet:
    """Return the golden set in a member of a folder or archive; arguments and errors as in :func:`load_golden`."""
    problems, notes = Problems(source.label(member), unit_of(member)), list[str]()
    ending, fields = format_of(member) or ".jsonl", GoldenColumns(columns, OPTION, shared_roles)
    with source.open(member) as stream:
        batches = read_records(stream, problems, notes, ending=ending, nested=True)
        questions = read_questions(_records(batches, ending), fields, problems, notes)
    note_without_expectations(questions, fields, problems)
    problems.raise_if_any()
    name = Path(plain_name(member)).stem
    return GoldenSet(name, source.label(member), questions, source.digest(member), tuple(notes), columns=fields.used())


def _records(batches: Iterable[RecordBatch], ending: str) -> Iterator[GoldenRecord]:
    for batch in batches:
        for number, values in zip(batch.lines, batch.records, strict=True):
            yield GoldenRecord(number, values, ending in TABLES)
