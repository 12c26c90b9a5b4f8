"""Writes runs as TREC files or, for ids that hold white space, as Parquet; and judgments in BEIR's columns."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers, text_scalar, write_parquet
from harness.data.types import Float32Array, Float64Array, Qrels, Run
from harness.errors import DataError
from harness.store.disk import replacing
from harness.user_path import user_path

_QUERIES_PER_BLOCK = 256


def write_run(path: Path | str, run: Run, tag: str) -> None:
    """Write a run as ``query Q0 document rank score tag``, gzip-compressed when the name ends with ``.gz``.

    The rank column holds the engine's order (from 1). Scores have the fewest digits that give the same float32 again,
    or the same float64 if the run has ``wide_scores``, so reading the file gives the same run. Queries without hits
    leave no line. The file appears complete or not at all. Raises DataError for a tag or an id with white space, which
    the format cannot hold.
    """
    path = user_path(path)
    _refuse_white_space(path, run, tag)
    with replacing(path) as stream:
        for first in range(0, len(run.query_ids), _QUERIES_PER_BLOCK):
            last = min(first + _QUERIES_PER_BLOCK, len(run.query_ids))
            stream.write(_lines(run, first, last, tag))


def write_run_columns(path: Path, run: Run) -> None:
    """Write columns query_id, doc_id, rank (from 1, the engine's order) and score, one row a hit.

    Scores are float32, or float64 if the run has ``wide_scores``.
    """
    lengths = np.diff(run.indptr)
    table = {
        "query_id": run.query_ids.values.take(numbers(np.repeat(np.arange(len(lengths)), lengths))),
        "doc_id": run.doc_ids.values.take(numbers(run.rows)),
        "rank": numbers(np.arange(run.hits) - np.repeat(run.indptr[:-1], lengths) + 1),
        "score": numbers(_scores(run)),
    }
    write_parquet(pa.table(table), path)


def write_qrels(path: Path | str, qrels: Qrels) -> None:
    """Write judgments as ``query-id``, ``corpus-id``, ``score`` with tabs between and a header, as BEIR does.

    The file appears complete or not at all. Ids may hold spaces, but not tabs or line breaks (loaders refuse those).
    """
    owner = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.indptr))
    joined = pc.binary_join_element_wise(
        qrels.query_ids.values.take(numbers(owner)),
        qrels.doc_ids.values.take(numbers(qrels.rows)),
        pc.binary_join_element_wise(numbers(qrels.grades).cast(pa.string()), text_scalar(""), text_scalar("\n")),
        text_scalar("\t"),
    )
    with replacing(user_path(path)) as stream:
        stream.write(b"query-id\tcorpus-id\tscore\n")
        stream.write(b"".join(cast("list[bytes]", joined.cast(pa.binary()).to_pylist())))


def _scores(run: Run) -> Float32Array | Float64Array:
    return run.scores if run.wide_scores is None else run.wide_scores


def _lines(run: Run, first: int, last: int, tag: str) -> bytes:
    begin, end = int(run.indptr[first]), int(run.indptr[last])
    if begin == end:
        return b""
    lengths = np.diff(run.indptr[first : last + 1])
    query = run.query_ids.values.take(numbers(np.repeat(np.arange(first, last), lengths)))
    document = run.doc_ids.values.take(numbers(run.rows[begin:end]))
    rank = np.arange(begin, end) - np.repeat(run.indptr[first:last], lengths) + 1
    score = numbers(_scores(run)[begin:end]).cast(pa.string())
    joined = pc.binary_join_element_wise(
        query,
        text_scalar("Q0"),
        document,
        numbers(rank).cast(pa.string()),
        score,
        text_scalar(tag + "\n"),
        text_scalar(" "),
    )
    return b"".join(cast("list[bytes]", joined.cast(pa.binary()).to_pylist()))


def _refuse_white_space(path: Path, run: Run, tag: str) -> None:
    problems = [f"the tag '{tag}' is empty or holds white space"] if not tag or len(tag.split()) != 1 else []
    for kind, ids in (("query", run.query_ids), ("document", run.doc_ids)):
        broken = pc.match_substring_regex(ids.values, r"^$|\s")
        problems += [
            f"the {kind} id '{name}' is empty or holds white space" for name in ids.values.filter(broken).to_pylist()
        ]
    if problems:
        raise DataError(str(path), problems, fix="TREC's format separates columns by white space")
