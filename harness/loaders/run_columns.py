"""Runs as Parquet: for ids that hold white space, which separates the columns of TREC's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.arrow import as_numpy, numbers, read_parquet, write_parquet
from harness.errors import DataError
from harness.types import Ids, Run

__all__ = ["RUN_COLUMNS_SUFFIX", "read_run_columns", "write_run_columns"]

RUN_COLUMNS_SUFFIX = ".parquet"
_COLUMNS = ("query_id", "doc_id", "rank", "score")


def write_run_columns(path: Path, run: Run) -> None:
    """Write columns query_id, doc_id, rank (from 1, the engine's order) and score (float32), one row a hit."""
    lengths = np.diff(run.indptr)
    table = {
        "query_id": run.query_ids.values.take(numbers(np.repeat(np.arange(len(lengths)), lengths))),
        "doc_id": run.doc_ids.values.take(numbers(run.rows)),
        "rank": numbers(np.arange(run.hits) - np.repeat(run.indptr[:-1], lengths) + 1),
        "score": numbers(run.scores),
    }
    write_parquet(pa.table(table), path)


def read_run_columns(path: Path) -> Run:
    """Read what :func:`write_run_columns` wrote; a query without hits leaves no row, so it is not there.

    Raises DataError for a file that is no such run.
    """
    try:
        table = read_parquet(path, _COLUMNS)
    except (OSError, pa.ArrowException) as error:
        raise DataError(str(path), [f"cannot be read as a run in Parquet: {error}"]) from error
    queries, documents = (table.column(name).combine_chunks().dictionary_encode() for name in _COLUMNS[:2])
    owner = as_numpy(queries.indices)
    if len(owner) and (np.diff(owner) < 0).any():
        raise DataError(str(path), ["the hits of a query do not stand together"])
    lengths = np.bincount(owner, minlength=len(queries.dictionary))
    return Run(
        Ids(queries.dictionary),
        Ids(documents.dictionary),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        as_numpy(documents.indices).astype(np.int32),
        as_numpy(table.column("score"), null=np.nan).astype(np.float32),
    )
