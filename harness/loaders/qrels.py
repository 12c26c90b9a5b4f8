"""Judgments in a file: a table, a JSON object, or lines of text in BEIR's layout, TREC's or SVMrank's.

BEIR's is a header, which may be missing, and three columns separated by tabs: query, document, grade. TREC's has four
columns separated by any white space: query, iteration (``0`` or ``Q0``), document, grade. SVMrank's is in
:mod:`harness.loaders.svmrank`. Lines that begin with ``#`` are comments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from harness.data.columns import JUDGMENT_ROLES, ColumnMap, judgments_of
from harness.data.judgments import BEIR_COLUMNS, Judgments, grade_of, grade_problem, ungrouped
from harness.data.problems import Problems
from harness.loaders.records import DELIMITERS, first_fields, format_of, read_records
from harness.loaders.source import Source, read_lines
from harness.loaders.structured_files import json_ending, qrels_of_json
from harness.loaders.svmrank import add_judgment, is_svmrank
from harness.loaders.text_columns import NUMBER, words_of
from harness.wording import counted

_TREC_COLUMNS = 4
_TREC_LAYOUT = "query 0 document grade"
_RUN_COLUMNS = 6
ITERATIONS = ("0", "Q0")
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
    start = source.start_of(member)
    if ending is None:
        ending = json_ending(start) or _ending_of_table(start, columns)
    if ending == ".json" and not _OBJECTS.match(start):
        with source.open(member) as stream:
            qrels = qrels_of_json(stream.read(), source.label(member), columns_by_role)
        notes.extend(qrels.notes)
        return ungrouped(qrels)
    lines = ending is None or (ending in DELIMITERS and ending != ".csv" and not _is_table(source, member, columns))
    with source.open(member) as stream:
        if ending is None or lines:
            return read_judgment_lines(stream, problems, notes)
        records = read_records(stream, problems, notes, ending=ending, single_cells=True)
        return judgments_of(records, columns, problems, notes)


def _ending_of_table(start: bytes, columns: ColumnMap) -> str | None:
    """Return the ending of the format of a table with a header, for a file whose ending says nothing; else None."""
    first = start.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace")
    separator = next((separator for separator in ",;\t|" if separator in first), None)
    names = [] if separator is None else [cell.strip(' "\r') for cell in first.split(separator)]
    if len(names) < len(BEIR_COLUMNS) - 1 or tuple(names) == BEIR_COLUMNS or not columns.covers(names):
        return None
    return ".tsv" if separator == "\t" else ".csv"


def _is_table(source: Source, member: str, columns: ColumnMap) -> bool:
    names = first_fields(source, member)
    return tuple(names) != BEIR_COLUMNS and columns.is_header(names)


def read_judgment_lines(stream: BinaryIO, problems: Problems, notes: list[str]) -> Judgments:
    """Read a file of judgments; faulty lines are noted in ``problems`` and left out.

    The first line decides between the layouts. Grades are numbers within 32 bits; negative grades are allowed.
    """
    judgments = Judgments([], [], [], [])
    add: Callable[[str, int, Judgments, Problems], None] | None = None
    comments = 0
    for number, content in read_lines(stream, problems, notes):
        try:
            line = content.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            problems.add(number, f"not UTF-8: byte 0x{content[error.start]:02x} in column {error.start + 1}")
            continue
        if _is_comment(line):
            comments += 1
            continue
        if add is None:
            if _is_run(line):
                problems.add(None, RUN_FOR_JUDGMENTS)
                break
            add = _reader_of(line)
            if tuple(line.lower().split("\t")) == BEIR_COLUMNS:
                continue
        add(line, number, judgments, problems)
    if comments:
        notes.append(f"{counted(comments, 'comment')} {'was' if comments == 1 else 'were'} ignored")
    return judgments


def _reader_of(line: str) -> Callable[[str, int, Judgments, Problems], None]:
    """Return the reader of lines in the layout of the first one."""
    if is_svmrank(line):
        return add_judgment
    return _add_trec if _is_trec(line) else _add_beir


def _add_trec(line: str, number: int, judgments: Judgments, problems: Problems) -> None:
    columns = words_of(line)
    problem = _trec_problem(columns)
    if len(columns) != _TREC_COLUMNS:
        problems.add_once(number, problem or "")
    else:
        _add([columns[0], *columns[2:]], number, problem, judgments, problems)


def _add_beir(line: str, number: int, judgments: Judgments, problems: Problems) -> None:
    columns = line.split("\t")
    problem = _problem(columns)
    if len(columns) != len(BEIR_COLUMNS):
        problems.add_once(number, problem or "")
    else:
        _add(columns, number, problem, judgments, problems)


def _add(columns: Sequence[str], number: int, problem: str | None, judgments: Judgments, problems: Problems) -> None:
    if problem is not None:
        problems.add(number, problem)
        return
    judgments.lines.append(number)
    judgments.query_ids.append(columns[0])
    judgments.doc_ids.append(columns[1])
    judgments.grades.append(grade_of(columns[2]))


def _is_comment(line: str) -> bool:
    """Return whether a line begins with ``#`` and is not a judgment of a query whose id does."""
    if not line.startswith("#"):
        return False
    words, cells = words_of(line), line.split("\t")
    judged = len(words) == _TREC_COLUMNS and words[1] in ITERATIONS and grade_problem(words[-1]) is None
    return not judged and (len(cells) != len(BEIR_COLUMNS) or grade_problem(cells[-1]) is not None)


def looks_like_judgments(columns: Sequence[str]) -> bool:
    """Return whether the columns of a line fit TREC's layout of judgments, or BEIR's header."""
    if tuple(column.lower() for column in columns) == BEIR_COLUMNS:
        return True
    return len(columns) == _TREC_COLUMNS and grade_problem(columns[-1]) is None


def _is_run(line: str) -> bool:
    """Return whether a line has the six columns of a run, with a number for rank and score."""
    columns = words_of(line)
    return len(columns) >= _RUN_COLUMNS and all(NUMBER.fullmatch(column) for column in columns[3:5])


def _is_trec(line: str) -> bool:
    """Return whether a line has TREC's four columns, or several without a tab: BEIR's ids may hold a space."""
    columns, tabs = words_of(line), line.count("\t")
    if not tabs and len(columns) > 1:
        return True
    return len(columns) == _TREC_COLUMNS and (tabs != len(BEIR_COLUMNS) - 1 or columns[1] in ITERATIONS)


def _trec_problem(columns: Sequence[str]) -> str | None:
    if len(columns) == _TREC_COLUMNS:
        return grade_problem(columns[-1])
    text = f"{counted(len(columns), 'column')}, expected TREC's four: {_TREC_LAYOUT}"
    beir = len(columns) == len(BEIR_COLUMNS) and columns[1] not in ITERATIONS
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
    if problem is not None and columns[1] in ITERATIONS:
        return f"{problem} (TREC's layout has four columns: {_TREC_LAYOUT})"
    if problem is not None and not any(character.isdigit() for character in columns[2]):
        return f"{problem} (a header must be: {' '.join(BEIR_COLUMNS)})"
    return problem
