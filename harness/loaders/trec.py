"""Files of runs and judgments. TREC's are ``query Q0 document rank score tag`` and ``query 0 document grade``.

Columns are separated by any white space; files are plain or compressed, under any name. A byte-order mark, CRLF and
blank lines are accepted. Whole files go through Arrow's reader; only a file that Arrow refuses is read line by line, to
name every problem with its line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from harness.data import ranking
from harness.data.arrow import as_numpy, strings
from harness.data.columns import JUDGMENT_ROLES, ColumnMap
from harness.data.grouping import build_qrels, build_run, to_float32
from harness.data.judgments import group_judgments
from harness.data.memory import part_of_file
from harness.data.problems import Problems
from harness.data.types import Qrels, Run
from harness.errors import DataError
from harness.loaders.qrels import JUDGMENTS_FOR_RUN, looks_like_judgments, read_judgment_lines, read_judgments
from harness.loaders.records import format_of, unit_of
from harness.loaders.source import Source
from harness.loaders.structured_files import is_structured, name_in_errors, read_structured_run, text_content
from harness.user_path import user_path
from harness.wording import counted

_BLOCK_BYTES = 1 << 24
_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_QRELS = ("query", "iteration", "document", "grade")
_BEIR_TABS = 2
_HEADER = ColumnMap([role for role in JUDGMENT_ROLES if role.name in ("query_id", "doc_id")], {})
_INTEGER = re.compile(r"[+-]?[0-9]+")
_ID = pa.dictionary(pa.int32(), pa.string())


class TaggedRun(NamedTuple):
    """A run and the tag of its first line."""

    run: Run
    tag: str


def read_run(path: Path | str) -> Run:
    """Return the run in a file: TREC's layout, or by the file's ending Parquet with named columns or JSON.

    The engine's order is the rank column, and the order of the lines for equal ranks. If a rank is not a whole number
    the column is not used. JSON and Parquet are read as :mod:`harness.loaders.structured_files` says.

    Raises:
        DataError: every problem with its line: a wrong number of columns, a score that is not a number or is infinite
            in float32 (minus infinity ranks last), a document ranked twice under one query.
        UsageError: the file holds several runs, and the path does not say which is meant.
    """
    return read_tagged_run(path).run


def read_tagged_run(path: Path | str) -> TaggedRun:
    """Like :func:`read_run`, with the run's tag, which trec_eval prints: the file's name if no tag is written."""
    if is_structured(path):
        return TaggedRun(read_structured_run(path), part_of_file(path).path.stem)
    content = _normalised(text_content(user_path(path)))
    with name_in_errors(str(path)):
        run = _fast_run(content)
        if run is None:
            run = _parse_run_lines(content, Problems(str(path)))
    return TaggedRun(run, content.lstrip(b"\n").split(b"\n", 1)[0].rsplit(b" ", 1)[-1].decode("utf-8"))


def read_qrels(path: Path | str, columns: Mapping[str, str] = MappingProxyType({})) -> Qrels:
    """Return the judgments in a file: TREC's layout (four columns), BEIR's (three, separated by tabs), or a table.

    BEIR's header may be missing; tables (CSV, TSV, JSON, JSON Lines, Parquet) are recognised by the file's ending, and
    ``columns`` are their fields by role, for names that differ from the defaults.

    Raises DataError with every problem and its line: a wrong number of columns, a grade that is not a whole number, a
    document judged twice under one query with two grades; and for a file without judgments.
    """
    file = user_path(path)
    problems = Problems(str(file), unit_of(file.name))
    if format_of(file.name) is not None:
        judgments = read_judgments(Source(file.parent), file.name, columns, problems, [])
    else:
        content = text_content(file)
        fast = _fast_qrels(content)
        if fast is not None:
            return fast
        judgments = read_judgment_lines(BytesIO(content), problems, [])
    qrels = group_judgments(judgments, problems)
    problems.raise_if_any()
    if not len(qrels):
        raise DataError(str(path), ["the file holds no judgments"])
    return qrels


def _normalised(content: bytes) -> bytes:
    """Return the same lines with one space between columns and none around them."""
    for other in (b"\r\n", b"\t", b"\v", b"\f"):
        if other in content:
            content = content.replace(other, b"\n" if other == b"\r\n" else b" ")
    while b"  " in content:
        content = content.replace(b"  ", b" ")
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _fast_run(content: bytes) -> Run | None:
    """Return the run by Arrow's reader; None when a line has to be looked at."""
    numbers = {"score": pa.float64(), "rank": pa.int64()}
    table = _table(content, _RUN, {"query": _ID, "document": _ID, **numbers})
    if table is None:  # trec_eval does not read ranks, so they may be anything
        table = _table(content, _RUN, {"query": _ID, "document": _ID, "score": pa.float64()})
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
    table = _table(_normalised(content), _QRELS, {"query": _ID, "document": _ID, "grade": pa.int32()})
    if table is None:
        return None
    try:
        return build_qrels(table["query"], table["document"], as_numpy(table["grade"]))
    except DataError:  # a document judged twice: found again line by line, with its line
        return None


def _table(content: bytes, names: tuple[str, ...], types: dict[str, Any]) -> pa.Table | None:
    """Return the columns named in ``types``; None when a line has another number of columns or a value does not fit."""
    try:
        return csv.read_csv(
            pa.py_buffer(content),
            read_options=csv.ReadOptions(
                use_threads=len(content) > _BLOCK_BYTES, column_names=names, block_size=_BLOCK_BYTES
            ),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None


def _parse_run_lines(content: bytes, problems: Problems) -> Run:
    """Return a run from normalised lines; raises DataError that names every faulty line."""
    queries, documents, ranks, scores = list[str](), list[str](), list[str](), list[float]()
    first_lines: dict[tuple[str, str], int] = {}
    _refuse_other_layouts(content, problems)
    for line, raw in enumerate(content.split(b"\n"), 1):
        try:
            parts = raw.decode("utf-8").split(" ")
        except UnicodeDecodeError as error:
            problems.add(line, f"not UTF-8: byte 0x{raw[error.start]:02x}")
            continue
        if len(parts) != len(_RUN):
            if raw:
                problems.add_once(line, f"{counted(len(parts), 'column')}, expected {len(_RUN)}: {' '.join(_RUN)}")
            continue
        query, _, document, rank, score, _ = parts
        problem = _score_problem(score)
        if problem is None and (before := first_lines.setdefault((query, document), line)) != line:
            problem = f"document '{document}' is listed for query '{query}' on line {before} already"
        if problem is not None:
            problems.add(line, problem)
            continue
        queries.append(query)
        documents.append(document)
        ranks.append(rank)
        scores.append(float(score))
    problems.raise_if_any()
    are_integers = all(map(_INTEGER.fullmatch, ranks))
    ranks_read = np.array(list(map(int, ranks)), dtype=np.float64) if are_integers else None
    query_column, document_column = (pa.chunked_array([strings(values)]) for values in (queries, documents))
    return build_run(query_column, document_column, np.array(scores), ranks_read)


def _refuse_other_layouts(content: bytes, problems: Problems) -> None:
    """Raise DataError for judgments, and for a table, by the first line."""
    first = content.lstrip().split(b"\n", 1)[0].decode("utf-8", "replace")
    words, cells = first.split(), [cell.strip(' "') for cell in re.split("[,;]", first)]
    fix = None
    if len(words) == len(_RUN):
        return
    if looks_like_judgments(words):
        problems.add(None, JUDGMENTS_FOR_RUN)
    elif len(cells) > _BEIR_TABS or _HEADER.covers(words):
        names = cells if len(cells) > _BEIR_TABS else words
        layout = (
            f"with the columns {', '.join(names)}" if _HEADER.covers(names) else "separated by commas or semicolons"
        )
        problems.add(None, f"is a table {layout}; a run is not read from such a table")
        fix = (
            "write it as Parquet, as with pandas: read_csv(FILE).to_parquet('run.parquet'), with the columns query_id, "
            "doc_id and score; or as TREC's lines: query Q0 document rank score tag"
        )
    problems.raise_if_any(fix=fix)


def _score_problem(text: str) -> str | None:
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        return f"the score '{text}' is not a number"
    if np.isnan(number):
        return "the score is NaN"
    if to_float32(np.array(number)) == np.inf:
        return f"the score '{text}' is infinite, or beyond the range of float32"
    return None
