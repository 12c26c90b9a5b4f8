"""Files of runs and judgments. TREC's are ``query Q0 document rank score tag`` and ``query 0 document grade``.

Columns are separated by any white space; files are plain or compressed, under any name. A byte-order mark, CRLF and
blank lines are accepted. Whole files go through Arrow's reader; only a file that Arrow refuses is read line by line, to
name every problem with its line. Other layouts are those of :mod:`harness.loaders.run_lines`, tables
(:mod:`harness.loaders.run_tables`) and JSON (:mod:`harness.loaders.structured_files`); a file's ending decides, and the
content of a file with another ending.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data import ranking
from harness.data.arrow import as_numpy
from harness.data.grouping import build_qrels, build_run
from harness.data.judgments import group_judgments
from harness.data.memory import part_of_file
from harness.data.problems import Problems
from harness.data.types import Qrels, Run
from harness.errors import DataError
from harness.loaders.containers import WORKBOOKS
from harness.loaders.qrels import read_judgments
from harness.loaders.records import YAML, unit_of
from harness.loaders.run_lines import (
    first_words,
    positions_in,
    read_other_lines,
    with_spaces,
    without_comments,
    without_plus,
    without_words_after_tag,
)
from harness.loaders.run_tables import header_in, read_run_table
from harness.loaders.source import Source
from harness.loaders.structured_files import (
    format_in,
    is_structured,
    name_in_errors,
    read_content,
    read_structured_run,
    text_content,
)
from harness.loaders.text_columns import ID, normalised, read_columns
from harness.user_path import user_path

_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_QRELS = ("query", "iteration", "document", "grade")
_BEIR_TABS = 2
_GRADE_LIMIT = 2**31
_NO_COLUMNS: Mapping[str, str] = MappingProxyType({})


class TaggedRun(NamedTuple):
    """A run and the tag of its first line."""

    run: Run
    tag: str


def read_run(path: Path | str, columns: Mapping[str, str] = _NO_COLUMNS) -> Run:
    """Return the run in a file: TREC's layout, another layout of lines, a table, or JSON.

    The engine's order is the rank column, and the order of the lines for equal ranks. If a rank is not a whole number
    the column is not used.

    Args:
        path: the file; ``FILE#subset/split`` selects one of several runs in MTEB's predictions.
        columns: fields of a table by role (``query_id``, ``doc_id``, ``score``, ``rank``), for names that differ from
            the usual ones; in lines without a header, numbers of columns from 1.

    Raises:
        DataError: every problem with its line: a wrong number of columns, a score that is not a number or is infinite
            in float32 (minus infinity ranks last), a document ranked twice under one query; and a file that has two
            readings, or none.
        UsageError: the file holds several runs, and the path does not say which is meant.
    """
    return read_tagged_run(path, columns).run


def read_tagged_run(path: Path | str, columns: Mapping[str, str] = _NO_COLUMNS) -> TaggedRun:
    """Like :func:`read_run`, with the run's tag, which trec_eval prints: the file's name if no tag is written."""
    name = part_of_file(path).path.stem
    if is_structured(path):
        return TaggedRun(read_structured_run(path, columns), name)
    file = user_path(path)
    ending = format_in(file)
    content = read_content(file) if ending in WORKBOOKS else text_content(file)
    problems = Problems(str(path), unit_of(f"run{ending}"))
    with name_in_errors(str(path)):
        if ending in (".jsonl", ".ndjson", *YAML, *WORKBOOKS):
            return TaggedRun(read_run_table(content, ending, columns, problems), name)
        first = without_comments(normalised(content[:_START_BYTES])).lstrip(b"\n").split(b"\n", 1)[0]
        if header_in(first.decode("utf-8", "replace"), columns) is not None:
            return TaggedRun(read_run_table(*_table_of(content), columns, problems), name)
        lines = normalised(with_spaces(content, ending))
        run = None if positions_in(columns) else _fast_run(lines)
        if run is None:
            run = _run_of_trec_lines(lines) or read_other_lines(lines, content, columns, problems)
    words = first_words(lines)
    return TaggedRun(run, " ".join(words[5:]) if len(words) >= len(_RUN) else name)


_START_BYTES = 1 << 16


def _table_of(content: bytes) -> tuple[bytes, str]:
    """Return a table, comments before its header as blank lines, and the ending of its format."""
    lines = content.split(b"\n")
    for number, line in enumerate(lines):
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
        lines[number] = b""
    header = next(line for line in lines if line)
    if not any(separator in header for separator in (b",", b";", b"\t", b"|")):  # white space
        return normalised(b"\n".join(lines)).replace(b" ", b"\t"), ".tsv"
    return b"\n".join(lines), ".tsv" if b"\t" in header else ".csv"


def _run_of_trec_lines(content: bytes) -> Run | None:
    """Return the run of TREC's lines with comments or words after the tag; None when a line has to be looked at."""
    plain = without_comments(content)
    shortened = without_words_after_tag(plain)
    if shortened is not None:
        return _fast_run(shortened)
    return _fast_run(plain) if plain is not content else None


def read_qrels(path: Path | str, columns: Mapping[str, str] = _NO_COLUMNS) -> Qrels:
    """Return the judgments in a file: lines in TREC's layout, BEIR's or SVMrank's, a table, or an export in JSON.

    BEIR's header may be missing; tables (CSV, TSV, JSON, JSON Lines, Parquet) are recognised by the file's ending, and
    ``columns`` are their fields by role, for names that differ from the defaults. Grades may be real-valued.

    Raises DataError with every problem and its line: a wrong number of columns, a grade that is not a number, a
    document judged twice under one query with two grades; and for a file without judgments.
    """
    file = user_path(path)
    problems = Problems(str(file), unit_of(file.name))
    content = None if format_in(file) is not None else text_content(file)
    fast = None if content is None else _fast_qrels(content)
    if fast is not None:
        return fast
    judgments = read_judgments(Source(file.parent), file.name, columns, problems, [])
    qrels = group_judgments(judgments, problems)
    problems.raise_if_any()
    if not len(qrels):
        raise DataError(str(path), ["the file holds no judgments"])
    return qrels


def _fast_run(content: bytes) -> Run | None:
    """Return the run by Arrow's reader; None when a line has to be looked at."""
    numbers = {"score": pa.float64(), "rank": pa.int64()}
    table = read_columns(content, _RUN, {"query": ID, "document": ID, **numbers})
    if table is None:
        content = without_plus(content, _RUN.index("rank") + 1)
        table = read_columns(content, _RUN, {"query": ID, "document": ID, **numbers})
    if table is None:  # trec_eval does not read ranks, so they may be anything
        table = read_columns(content, _RUN, {"query": ID, "document": ID, "score": pa.float64()})
    if table is None:
        return None
    ranks_read = as_numpy(table["rank"]) if "rank" in table.column_names else None
    run = build_run(table["query"], table["document"], as_numpy(table["score"]), ranks_read)
    if not bool((run.scores < np.inf).all()) or ranking.first_duplicate(run.indptr, run.rows, len(run.doc_ids)) >= 0:
        return None
    return run


def _fast_qrels(content: bytes) -> Qrels | None:
    """Return the judgments of TREC's lines by Arrow's reader; None when a line has to be looked at."""
    if content.lstrip().split(b"\n", 1)[0].rstrip(b"\r").count(b"\t") == _BEIR_TABS:  # it may be a header
        return None
    lines = normalised(content)
    table = read_columns(lines, _QRELS, {"query": ID, "document": ID, "grade": pa.int32()})
    if table is None:
        table = read_columns(lines, _QRELS, {"query": ID, "document": ID, "grade": pa.float64()})
    if table is None or not bool((np.abs(as_numpy(table["grade"])) < _GRADE_LIMIT).all()):
        return None
    try:
        return build_qrels(table["query"], table["document"], as_numpy(table["grade"]))
    except DataError:  # a document judged twice: found again line by line, with its line
        return None
