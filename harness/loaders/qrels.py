"""Judgments as lines of text, in BEIR's layout or TREC's.

BEIR's is a header, which may be missing, and three columns separated by tabs: query, document, integer grade. TREC's
has four columns separated by any white space: query, iteration (``0`` or ``Q0``), document, grade.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import numpy as np

from harness.arrow import as_numpy, strings
from harness.loaders.problems import Problems
from harness.loaders.source import read_lines
from harness.types import Ids, Int64Array, Qrels
from harness.wording import counted

__all__ = ["Judgments", "grade_problem", "group_judgments", "judged_query_ids", "read_judgment_lines"]

_HEADER = ("query-id", "corpus-id", "score")
_TREC_COLUMNS = 4
_GRADE = re.compile(r"[+-]?[0-9]+")
_LIMIT = 2**31


class Judgments(NamedTuple):
    """Judgments in the order of their file: the line of each, its query, its document and its grade."""

    lines: list[int]
    query_ids: list[str]
    doc_ids: list[str]
    grades: list[int]


def read_judgment_lines(stream: BinaryIO, problems: Problems, notes: list[str]) -> Judgments:
    """Read a file of judgments; faulty lines are noted in ``problems`` and left out.

    The first line decides between the layouts. Grades are integers within 32 bits; negative ones are allowed.
    """
    judgments = Judgments([], [], [], [])
    trec: bool | None = None
    for number, content in read_lines(stream, problems, notes):
        try:
            line = content.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            problems.add(number, f"not UTF-8: byte 0x{content[error.start]:02x} in column {error.start + 1}")
            continue
        if trec is None:
            trec = line.count("\t") != len(_HEADER) - 1 and len(line.split()) == _TREC_COLUMNS
            if tuple(line.split("\t")) == _HEADER:
                continue
        columns = _trec_columns(line) if trec else line.split("\t")
        problem = _problem(columns)
        if problem is not None:
            problems.add(number, problem)
            continue
        judgments.lines.append(number)
        judgments.query_ids.append(columns[0])
        judgments.doc_ids.append(columns[1])
        judgments.grades.append(int(columns[2]))
    return judgments


def _trec_columns(line: str) -> list[str]:
    """Return query, document and grade; a line of another number of columns as it is."""
    columns = line.split()
    return [columns[0], *columns[2:]] if len(columns) == _TREC_COLUMNS else columns


def group_judgments(judgments: Judgments, problems: Problems) -> Qrels:
    """The judgments grouped by query: queries and documents in the order in which they first occur.

    A document judged twice under one query is noted in ``problems``.
    """
    queries = strings(judgments.query_ids).dictionary_encode()
    documents = strings(judgments.doc_ids).dictionary_encode()
    query_rows, doc_rows = (as_numpy(column.indices).astype(np.int64) for column in (queries, documents))
    _note_repeats(judgments, query_rows * len(documents.dictionary) + doc_rows, problems)
    order = np.argsort(query_rows, kind="stable")
    indptr = np.zeros(len(queries.dictionary) + 1, dtype=np.int64)
    np.cumsum(np.bincount(query_rows, minlength=len(queries.dictionary)), out=indptr[1:])
    return Qrels(
        query_ids=Ids(queries.dictionary),
        doc_ids=Ids(documents.dictionary),
        indptr=indptr,
        rows=doc_rows[order].astype(np.int32),
        grades=np.array(judgments.grades, dtype=np.int32)[order],
    )


def judged_query_ids(stream: BinaryIO) -> set[str]:
    """The queries that a file of judgments names. Its other columns are not looked at, nor its faults reported."""
    ids = (line.content.partition(b"\t")[0] for line in read_lines(stream, Problems(""), []))
    return {query_id.decode("utf-8", errors="replace") for query_id in ids}


def _problem(columns: Sequence[str]) -> str | None:
    if len(columns) != len(_HEADER):
        text = f"{counted(len(columns), 'column')}, expected 3 separated by tabs: query, document, grade"
        if len(columns) == 1 and len(columns[0].split()) > 1:
            return f"{text} (these are separated by spaces)"
        return (
            f"{text} (four are TREC's layout, which the first line has not)" if len(columns) == _TREC_COLUMNS else text
        )
    if not columns[0] or not columns[1]:
        return "the query's or the document's id is empty"
    return grade_problem(columns[2])


def grade_problem(text: str) -> str | None:
    """Return what is wrong with a grade, None for a whole number within 32 bits."""
    if not _GRADE.fullmatch(text):
        if not any(character.isdigit() for character in text):
            return f"the grade '{text}' is not an integer (a header must be: {' '.join(_HEADER)})"
        return f"the grade '{text}' is not an integer"
    if not -_LIMIT <= int(text) < _LIMIT:
        return f"the grade '{text}' does not fit into 32 bits"
    return None


def _note_repeats(judgments: Judgments, pairs: Int64Array, problems: Problems) -> None:
    first, inverse = np.unique(pairs, return_index=True, return_inverse=True)[1:]
    for row in np.flatnonzero(first[inverse] != np.arange(len(pairs))).tolist():
        problems.add(
            judgments.lines[row],
            f"document '{judgments.doc_ids[row]}' was judged for query '{judgments.query_ids[row]}' "
            f"{problems.place(judgments.lines[first[inverse[row]]])} already",
        )
