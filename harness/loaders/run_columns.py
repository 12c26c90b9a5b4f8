"""Runs as Parquet: for ids that hold white space, which separates the columns of TREC's format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.arrow import numbers, write_parquet
from harness.types import Run

__all__ = ["RUN_COLUMNS_SUFFIX", "write_run_columns"]

RUN_COLUMNS_SUFFIX = ".parquet"


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
