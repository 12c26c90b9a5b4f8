"""A trial of an engine of `engines_for_tests` on three documents, saved as the job that it is for a worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.data.types import SparseVectors
from harness.registry.parameters import ParameterValue
from harness.store.columns import save_sparse, save_table
from harness.store.record_files import save
from harness.worker.jobs import TrialJob


def job_folder(
    tmp_path: Path, engine: str, parameters: Mapping[str, ParameterValue] | None = None, *, repeats: int = 2
) -> Path:
    documents = SparseVectors(
        np.array([0, 2, 3, 3]), np.array([0, 1, 1], np.int32), np.array([1.0, 2.0, 3.0], np.float32), 2
    )
    queries = SparseVectors(np.array([0, 1, 1]), np.array([1], np.int32), np.array([1.0], np.float32), 2)
    save_sparse(tmp_path, "documents", documents)
    save_sparse(tmp_path, "queries", queries)
    save_table(tmp_path / "corpus.arrow", pa.table({"id": ["a", "b", "c"], "text": ["x y", "y", ""]}))
    save_table(tmp_path / "queries.arrow", pa.table({"id": ["1", "2"], "text": ["y", "z"]}))
    (tmp_path / "index").mkdir()
    job = TrialJob(
        engine=engine if ":" in engine else f"engines_for_tests:{engine}",
        parameters=parameters or {},
        corpus=tmp_path / "corpus.arrow",
        queries=tmp_path / "queries.arrow",
        document_vectors=(tmp_path,),
        query_vectors=(tmp_path,),
        index_folder=tmp_path / "index",
        k=10,
        repeats=repeats,
        warm_up_queries=5,
        warm_up_seconds=60.0,
    )
    save(tmp_path, job)
    return tmp_path
