"""Judgments in a file: a table, a JSON object, or lines of text in BEIR's layout or TREC's.

BEIR's is a header, which may be missing, and three columns separated by tabs: query, document, integer grade. TREC's
has four columns separated by any white space: query, iteration (``0`` or ``Q0``), document, grade.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from harness.data.columns import JUDGMENT_ROLES, ColumnMap, judgments_of
from harness.data.judgments import BEIR_COLUMNS, Judgments, grade_of, grade_problem, ungrouped
from harness.data.problems import Problems
from harness.loaders.records import DELIMITERS, first_fields, format_of, read_records
from harness.loaders.source import Source, read_lines
from harness.loaders.structured_files import qrels_of_json
from harness.wording import counted

_TREC_COLUMNS = 4
_TREC_LAYOUT = "query 0 document grade"
_RUN_COLUMNS = 6
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_ITERATIONS = ("0", "Q0")
RUN_FOR_JUDGMENTS = (
    "looks like a run, not like judgments: it has the six columns query Q0 document rank score tag (harness eval takes "
    "the judgments first)"
)
JUDGMENTS_FOR_RUN = (
    "looks like judgments, not like a run: a run has the six columns query Q0 document rank score tag (harness eval "
    "takes the judgments first)"
)
_OBJECTS = re.compile(rb"\s*\[\s*\{")
"""The beginning of a list of objects, which is a table."""


def read_judgments(
    source: Source, member: str, columns_by_role: Mapping[str, str], problems: Problems, notes: list[str]
) -> Judgments:
    """Return the judgments in a file; faulty ones are noted in ``problems`` and left out.

    Args:
        source: the folder or archive that holds the file.
        member: its name there. A ``.tsv`` whose header is not BEIR's is a table, any other holds lines.
        columns_by_role: role -> field of a table, for names that differ from the defaults.
        problems: receives faulty lines.
        notes: receives accepted oddities.
    """
    ending, columns = format_of(member), ColumnMap(JUDGMENT_ROLES, columns_by_role)
    if ending == ".json" and not _OBJECTS.match(source.start_of(member)):
        with source.open(member) as stream:
            return ungrouped(qrels_of_json(stream.read(), source.label(member)))
    lines = ending is None or (ending in DELIMITERS and ending != ".csv" and not _is_table(source, member, columns))
    with source.open(member) as stream:
        if ending is None or lines:
            return read_judgment_lines(stream, problems, notes)
        return judgments_of(read_records(stream, problems, notes, ending=ending), columns, problems, notes)


def _is_table(source: Source, member: str, columns: ColumnMap) -> bool:
    names = first_fields(source, member)
    return tuple(names) != BEIR_COLUMNS and columns.is_header(names)


def read_judgment_lines(stream: BinaryIO, problems: Problems, notes: list[str]) -> Judgments:
    """Read a file of judgments; faulty lines are noted in ``problems`` and left out.

    The first line decides between the layouts. Grades are whole numbers within 32 bits, also written ``1.0``; negative
    grades are allowed.
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
            if _is_run(line):
                problems.add(None, RUN_FOR_JUDGMENTS)
                break
            trec = _is_trec(line)
            if tuple(line.lower().split("\t")) == BEIR_COLUMNS:
                continue
        columns = _words(line) if trec else line.split("\t")
        problem = _trec_problem(columns) if trec else _problem(columns)
        if len(columns) != (_TREC_COLUMNS if trec else len(BEIR_COLUMNS)):
            problems.add_once(number, problem or "")
            continue
        if problem is not None:
            problems.add(number, problem)
            continue
        if trec:
            del columns[1]
        judgments.lines.append(number)
        judgments.query_ids.append(columns[0])
        judgments.doc_ids.append(columns[1])
        judgments.grades.append(grade_of(columns[2]))
    return judgments


def looks_like_judgments(columns: Sequence[str]) -> bool:
    """Return whether the columns of a line fit TREC's layout of judgments, or BEIR's header."""
    if tuple(column.lower() for column in columns) == BEIR_COLUMNS:
        return True
    return len(columns) == _TREC_COLUMNS and grade_problem(columns[-1]) is None


def _is_run(line: str) -> bool:
    """Return whether a line has the six columns of a run, with a number for rank and score."""
    columns = _words(line)
    return len(columns) == _RUN_COLUMNS and all(_NUMBER.fullmatch(column) for column in columns[3:5])


def _is_trec(line: str) -> bool:
    """Return whether a line has TREC's four columns, or several without a tab: BEIR's ids may hold a space."""
    columns, tabs = _words(line), line.count("\t")
    if not tabs and len(columns) > 1:
        return True
    return len(columns) == _TREC_COLUMNS and (tabs != len(BEIR_COLUMNS) - 1 or columns[1] in _ITERATIONS)


def _words(line: str) -> list[str]:
    """Return the columns between ASCII white space: an id may hold other white space."""
    return [word for word in re.split(r"[ \t\r\v\f]+", line) if word]


def _trec_problem(columns: Sequence[str]) -> str | None:
    if len(columns) == _TREC_COLUMNS:
        return grade_problem(columns[-1])
    text = f"{counted(len(columns), 'column')}, expected TREC's four: {_TREC_LAYOUT}"
    beir = len(columns) == len(BEIR_COLUMNS) and columns[1] not in _ITERATIONS
    return f"{text} (or three separated by tabs: query, document, grade)" if beir else text


def _problem(columns: Sequence[str]) -> str | None:
    if len(columns) != len(BEIR_COLUMNS):
        text = f"{counted(len(columns), 'column')}, expected 3 separated by tabs: query, document, grade"
        if len(columns) == 1 and len(columns[0].split()) > 1:
            return f"{text} (these are separated by spaces)"
        return (
            f"{text} (four are TREC's layout, which the first line has not)" if len(columns) == _TREC_COLUMNS else text
        )
    if not columns[0] or not columns[1]:
        return "the query's or the document's id is empty"
    problem = grade_problem(columns[2])
    if problem is not None and columns[1] in _ITERATIONS:
        return f"{problem} (TREC's layout has four columns: {_TREC_LAYOUT})"
    if problem is not None and not any(character.isdigit() for character in columns[2]):
        return f"{problem} (a header must be: {' '.join(BEIR_COLUMNS)})"
    return problem
