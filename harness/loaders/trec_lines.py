"""TREC's files line by line: slower than Arrow's reader, and able to say what is wrong with each line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.arrow import strings
from harness.data.grouping import build_qrels, build_run, to_float32
from harness.data.problems import Problems
from harness.types import Qrels, Run
from harness.wording import counted

__all__ = ["parse_qrels_lines", "parse_run_lines"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_LIMIT = 2**31
_DIGITS = 32
_RUN = ("query", "Q0", "document", "rank", "score", "tag")
_QRELS = ("query", "iteration", "document", "grade")


class _Columns(NamedTuple):
    queries: list[str]
    documents: list[str]
    values: list[float]
    ranks: list[str]


def parse_run_lines(content: bytes, problems: Problems) -> Run:
    """Return a run from normalised lines; raises DataError that names every faulty line."""
    columns = _read(content, problems, _RUN, _score_problem)
    whole = all(_INTEGER.fullmatch(rank) for rank in columns.ranks)
    places = np.array([int(rank) for rank in columns.ranks], dtype=np.float64) if whole else None
    return build_run(_column(columns.queries), _column(columns.documents), np.array(columns.values), places)


def parse_qrels_lines(content: bytes, problems: Problems) -> Qrels:
    """Return judgments from normalised lines; raises DataError that names every faulty line."""
    columns = _read(content, problems, _QRELS, _grade_problem)
    return build_qrels(_column(columns.queries), _column(columns.documents), np.array(columns.values))


def _read(content: bytes, problems: Problems, names: Sequence[str], wrong: Callable[[str], str | None]) -> _Columns:
    """Query, document and number of every line; the number is the fifth column of a run, the fourth of judgments."""
    columns = _Columns([], [], [], [])
    first_lines: dict[str, dict[str, int]] = {}
    at = names.index("score") if "score" in names else names.index("grade")
    for line, parts in _lines(content, problems):
        if len(parts) != len(names):
            problems.add(line, f"{counted(len(parts), 'column')}, expected {len(names)}: {' '.join(names)}")
            continue
        problem = wrong(parts[at])
        if problem is not None:
            problems.add(line, problem)
            continue
        query, document = parts[0], parts[2]
        before = first_lines.setdefault(query, {}).setdefault(document, line)
        if before != line:
            problems.add(line, f"document '{document}' is listed for query '{query}' on line {before} already")
            continue
        columns.queries.append(query)
        columns.documents.append(document)
        columns.values.append(float(parts[at]))
        columns.ranks.append(parts[3])
    problems.raise_if_any()
    return columns


def _lines(content: bytes, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    for line, raw in enumerate(content.split(b"\n"), 1):
        if not raw:
            continue
        try:
            yield line, raw.decode("utf-8").split(" ")
        except UnicodeDecodeError as error:
            problems.add(line, f"not UTF-8: byte 0x{raw[error.start]:02x}")


def _score_problem(text: str) -> str | None:
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        return f"the score '{text}' is not a number"
    if np.isnan(number):
        return "the score is NaN"
    if not np.isfinite(to_float32(np.array(number))):
        return f"the score '{text}' is infinite, or beyond the range of float32"
    return None


def _grade_problem(text: str) -> str | None:
    if not _INTEGER.fullmatch(text):
        return f"the grade '{text}' is not a whole number"
    return (
        None
        if len(text) <= _DIGITS and -_LIMIT <= int(text) < _LIMIT
        else f"the grade '{text}' does not fit into 32 bits"
    )


def _column(values: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([strings(values)])
