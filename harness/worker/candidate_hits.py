"""Hits among the candidates that a dataset names for each query: all that a worker keeps of an engine's hits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.data import ranking
from harness.data.arrow import as_numpy, numbers
from harness.data.types import Ids, Int32Array, Run
from harness.engines.interface import SearchResult
from harness.store.columns import load_table, save_table


def save_candidates(path: Path, candidates: Run) -> None:
    """Write the rows of each query's candidates."""
    save_table(path, pa.table({"rows": pa.LargeListArray.from_arrays(candidates.indptr, numbers(candidates.rows))}))


@dataclass(frozen=True, eq=False, slots=True)
class CandidateHits:
    """The ``candidates`` of each query; ``rows`` are the collection's row of each document of an external index."""

    candidates: Run
    rows: Int32Array | None = None

    @classmethod
    def load(cls, path: Path, queries: Ids, documents: Ids) -> CandidateHits:
        """Return the candidates in a file, of these queries and documents."""
        candidate_rows = load_table(path).column("rows").combine_chunks()
        flat = as_numpy(candidate_rows.values)
        return cls(
            Run(queries, documents, as_numpy(candidate_rows.offsets), flat, np.zeros(len(flat), dtype=np.float32))
        )

    def of(self, result: SearchResult, queries: Int32Array) -> SearchResult:
        """Return the hits of ``result``, the answer to these queries (their rows), that are candidates."""
        rows = result.rows if self.rows is None else self.rows[result.rows]
        positions = ranking.candidate_positions(result.indptr, rows, self.candidates.of_queries(queries))
        indptr = np.searchsorted(positions, result.indptr).astype(np.int64)
        return result._replace(indptr=indptr, rows=result.rows[positions], scores=result.scores[positions])
