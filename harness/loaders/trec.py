"""TREC's files: runs (``query Q0 document rank score tag``) and judgments (``query 0 document grade``).

Columns are separated by any white space; files are plain or gzip-compressed, whatever their name. A byte-order mark,
CRLF and blank lines are accepted. Whole files go through Arrow's reader; only a file that Arrow refuses is read line by
line, to name every problem with its line.
"""

from __future__ import annotations

import gzip
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import csv

from harness import ranking
from harness.arrow import as_numpy
from harness.data.judgments import group_judgments
from harness.data.problems import Problems
from harness.errors import DataError
from harness.loaders.grouping import build_qrels, build_run
from harness.loaders.qrels import read_judgment_lines
from harness.loaders.run_columns import RUN_COLUMNS_SUFFIX, read_run_columns
from harness.loaders.trec_lines import parse_qrels_lines, parse_run_lines
from harness.types import Qrels, Run

__all__ = ["TaggedRun", "read_qrels", "read_run", "read_tagged_run"]

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_BLOCK_BYTES = 1 << 24
_RUN = ("query", "q0", "document", "rank", "score", "tag")
_QRELS = ("query", "iteration", "document", "grade")
_BEIR_TABS = 2
_ID = pa.dictionary(pa.int32(), pa.string())


class TaggedRun(NamedTuple):
    """A run and the tag of its first line."""

    run: Run
    tag: str


def read_run(path: Path | str) -> Run:
    """A TREC run, or a run in Parquet that ``harness compare`` stored.

    The engine's order is the rank column, and the order of the lines where ranks are equal. Where a rank is no whole
    number the column is not used. Raises DataError with every problem and its line: a wrong number of columns, a score
    that is no number, a document ranked twice under one query.
    """
    return read_tagged_run(path).run


def read_tagged_run(path: Path | str) -> TaggedRun:
    """Like :func:`read_run`, with the run's tag, which trec_eval prints; a run in Parquet has its file's name."""
    if Path(path).suffix == RUN_COLUMNS_SUFFIX:
        return TaggedRun(read_run_columns(Path(path)), Path(path).stem)
    content = _normalised(_content(Path(path)))
    run = _fast_run(content)
    if run is None:
        run = parse_run_lines(content, Problems(str(path)))
    return TaggedRun(run, content.lstrip(b"\n").split(b"\n", 1)[0].rsplit(b" ", 1)[-1].decode("utf-8"))


def read_qrels(path: Path | str) -> Qrels:
    """Judgments in TREC's layout (four columns) or BEIR's (three, separated by tabs, with or without its header).

    Raises DataError with every problem and its line: a wrong number of columns, a grade that is no whole number, a
    document judged twice under one query; and for a file without judgments.
    """
    qrels = _read_qrels(Path(path))
    if not len(qrels):
        raise DataError(str(path), ["the file holds no judgments"])
    return qrels


def _read_qrels(path: Path) -> Qrels:
    content = _content(path)
    problems = Problems(str(path))
    if content.lstrip().split(b"\n", 1)[0].rstrip(b"\r").count(b"\t") == _BEIR_TABS:
        qrels = group_judgments(read_judgment_lines(BytesIO(content), problems, []), problems)
        problems.raise_if_any()
        return qrels
    normal = _normalised(content)
    fast = _fast_qrels(normal)
    return parse_qrels_lines(normal, problems) if fast is None else fast


def _content(path: Path) -> bytes:
    """The file's bytes, decompressed where they begin as gzip does; raises DataError when unreadable or empty."""
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(str(path), [f"cannot be read: {error}"], fix="give a plain or gzip-compressed file") from error
    content = content.removeprefix(_BOM)
    if not content or content.isspace():
        raise DataError(str(path), ["holds nothing"])
    return content


def _normalised(content: bytes) -> bytes:
    """The same lines with one space between columns and none around them."""
    for other in (b"\r\n", b"\t", b"\v", b"\f"):
        if other in content:
            content = content.replace(other, b"\n" if other == b"\r\n" else b" ")
    while b"  " in content:
        content = content.replace(b"  ", b" ")
    return content.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ")


def _fast_run(content: bytes) -> Run | None:
    """The run by Arrow's reader; None when a line has to be looked at."""
    numbers = {"score": pa.float64(), "rank": pa.int64()}
    table = _table(content, _RUN, {"query": _ID, "document": _ID, **numbers})
    if table is None:  # trec_eval does not read ranks, so they may be anything
        table = _table(content, _RUN, {"query": _ID, "document": _ID, "score": pa.float64()})
    if table is None:
        return None
    places = as_numpy(table["rank"]) if "rank" in table.column_names else None
    run = build_run(table["query"], table["document"], as_numpy(table["score"]), places)
    if bool(np.isnan(run.scores).any()) or ranking.first_duplicate(run.indptr, run.rows, len(run.doc_ids)) >= 0:
        return None
    return run


def _fast_qrels(content: bytes) -> Qrels | None:
    table = _table(content, _QRELS, {"query": _ID, "document": _ID, "grade": pa.int32()})
    if table is None:
        return None
    try:
        return build_qrels(table["query"], table["document"], as_numpy(table["grade"]))
    except DataError:  # a document judged twice: found again line by line, with its line
        return None


def _table(content: bytes, names: tuple[str, ...], types: dict[str, Any]) -> pa.Table | None:
    """The columns named in ``types``; None when a line has another number of columns or a value does not fit."""
    try:
        return csv.read_csv(
            pa.py_buffer(content),
            read_options=csv.ReadOptions(column_names=names, block_size=_BLOCK_BYTES),
            parse_options=csv.ParseOptions(delimiter=" ", quote_char=False, double_quote=False),
            convert_options=csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pa.ArrowInvalid:
        return None
