"""Runs in tables: CSV, TSV and other separated columns with a header, and JSON Lines, one hit a row."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.columns import RUN_ROLES, ColumnMap, abbreviated
from harness.data.grouping import build_ranked_run, build_run
from harness.data.judgments import BEIR_COLUMNS
from harness.data.problems import Problems
from harness.data.python_values import as_id
from harness.data.types import Run
from harness.errors import DataError
from harness.loaders.qrels import JUDGMENTS_FOR_RUN
from harness.loaders.records import read_records
from harness.loaders.run_lines import score_problem
from harness.loaders.text_columns import NUMBER

_SEPARATORS = re.compile(r"[,;\t|]")
_FEWEST = 2


def header_in(first_line: str, columns: Mapping[str, str]) -> list[str] | None:
    """Return the names in the header of a table of hits, None if a line is not such a header.

    A header has names for the ids of queries and documents or, between commas, semicolons or tabs, no number.
    """
    separator = _SEPARATORS.search(first_line)
    cells = first_line.split(separator[0]) if separator else first_line.split()
    names = [cell.strip(' "\r\n') for cell in cells]
    has_numbers = any(map(NUMBER.fullmatch, names))
    is_header = ColumnMap(RUN_ROLES[:2], columns).covers(names) or (separator is not None and not has_numbers)
    return names if len(names) > _FEWEST and is_header else None


def read_run_table(content: bytes, ending: str, columns: Mapping[str, str], problems: Problems) -> Run:
    """Return the run in a table, one row a hit; raises DataError for every faulty row.

    Args:
        content: the table; comments may precede its header.
        ending: the ending of its format, as :func:`harness.loaders.records.format_of` returns it.
        columns: fields by role that the user named. A rank without a score is enough.
        problems: receives faulty rows.
    """
    mapping = ColumnMap(RUN_ROLES, columns)
    hits: dict[str, list[Any]] = {role.name: [] for role in RUN_ROLES}
    names: Sequence[str] = ()
    lines = dict[tuple[str, str], int]()
    for batch in read_records(BytesIO(content), problems, [], ending=ending):
        for line, record in zip(batch.lines, batch.records, strict=True):
            names = names or tuple(record)
            fields = mapping.resolve(tuple(record))
            if isinstance(fields, str):
                problems.add_once(line, fields)
                continue
            if not {"score", "rank"} & fields.keys():
                problems.add_once(line, _without_order(names, fields, mapping.called))
                continue
            hit = _hit_of(record, fields, line, problems)
            if hit is None:
                continue
            first = lines.setdefault((hit["query_id"], hit["doc_id"]), line)
            if first != line:
                already = f"document '{hit['doc_id']}' is listed for query '{hit['query_id']}' on line {first} already"
                problems.add(line, already)
                continue
            for role, values in hits.items():
                values.append(hit.get(role))
    if not hits["query_id"] and not problems.count:
        problems.add(None, "the file holds no hits")
    problems.raise_if_any()
    _refuse_judgments(names, hits["score"], columns, problems)
    return _built(hits)


def _hit_of(
    record: Mapping[str, Any], fields: Mapping[str, str], line: int, problems: Problems
) -> dict[str, Any] | None:
    before = problems.count
    hit: dict[str, Any] = {}
    for role in ("query_id", "doc_id"):
        value = record[fields[role]]
        hit[role] = as_id(value)
        if not hit[role]:
            problems.add(line, f"'{fields[role]}' is {abbreviated(value)}, expected a string or an integer")
    for role in ("score", "rank"):
        if role not in fields:
            continue
        value = record[fields[role]]
        text = value.strip() if isinstance(value, str) else str(value)
        problem = f"the {role} is {abbreviated(value)}" if isinstance(value, bool | None) else score_problem(text)
        if problem is not None:
            problems.add(line, problem if role == "score" else problem.replace("the score", "the rank"))
            continue
        hit[role] = float(text)
    return hit if problems.count == before else None


def _without_order(names: Sequence[str], fields: Mapping[str, str], called: str) -> str:
    other_names = [name for name in names if name not in fields.values()]
    example = other_names[0] if other_names else "…"
    return (
        f"no field for the score or the rank; name it, as {called} score={example} or rank={example} "
        f"(there are: {', '.join(names)})"
    )


def _refuse_judgments(
    names: Sequence[str], scores: Sequence[float | None], columns: Mapping[str, str], problems: Problems
) -> None:
    """Raise DataError for BEIR's header above whole numbers, unless the user named the column of scores."""
    are_whole = all(score is not None and score.is_integer() for score in scores)
    if tuple(names) == BEIR_COLUMNS and are_whole and "score" not in columns:
        fix = "if it is a run, say so: --columns score=score"
        raise DataError(problems.source, [JUDGMENTS_FOR_RUN], fix=fix)


def _built(hits: Mapping[str, list[Any]]) -> Run:
    queries, documents = (pa.chunked_array([strings(hits[role])]) for role in ("query_id", "doc_id"))
    ranks = None if None in hits["rank"] else np.array(hits["rank"], dtype=np.float64)
    if ranks is not None and not bool((ranks == np.rint(ranks)).all()):
        ranks = None if None not in hits["score"] else ranks
    if None in hits["score"]:
        if ranks is None:
            raise DataError("run", ["some rows have a score and others only a rank"], fix="write one kind of rows")
        return build_ranked_run(queries, documents, ranks)
    return build_run(queries, documents, np.array(hits["score"], dtype=np.float64), ranks)
