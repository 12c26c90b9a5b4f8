"""A real worker process, with engines that behave and engines that do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.columns import save_sparse, save_table
from harness.errors import EngineFailureError, EngineTimeoutError
from harness.execution.jobs import TrialJob, read_trial, write_job
from harness.execution.process import RemoteError, Worker
from harness.types import SparseVectors


class Recorder:
    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.advanced = 0

    def start(self, phase: str, total: int | None) -> None:
        self.phases.append((phase, total))

    def advance(self, amount: int) -> None:
        self.advanced += amount


def job_folder(tmp_path: Path, engine: str, *, repeats: int = 2) -> Path:
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
        engine=f"engines_for_tests:{engine}",
        parameters={},
        corpus=str(tmp_path / "corpus.arrow"),
        queries=str(tmp_path / "queries.arrow"),
        vectors=str(tmp_path),
        index_folder=str(tmp_path / "index"),
        k=10,
        repeats=repeats,
        warm_up_queries=5,
        warm_up_seconds=60.0,
    )
    write_job(tmp_path, job)
    return tmp_path


def test_a_trial_in_a_worker(tmp_path: Path) -> None:
    progress = Recorder()
    folder = job_folder(tmp_path, "BruteForce")
    finished = Worker(folder).run(progress)
    record = read_trial(folder)
    assert record.hits.rows.tolist() == [1, 0]
    assert record.hits.scores.tolist() == [3.0, 2.0]
    assert record.hits.indptr.tolist() == [0, 2, 2]
    assert record.search_ns.shape == (2, 2)
    assert (record.search_ns > 0).all()
    assert record.index.sent == record.index.indexed == 3
    assert record.engine.name == "brute force"
    assert progress.phases == [("index", 3), ("warm-up", 5), ("search", 4)]
    assert progress.advanced == 3 + 5 + 4
    assert record.warm_up_queries == 5
    assert finished.peak_rss_bytes is not None
    assert finished.peak_rss_bytes > 10_000_000


def test_an_expected_failure_comes_back_with_its_type(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="the engine is not there") as caught:
        Worker(job_folder(tmp_path, "Unavailable")).run(Recorder())
    assert caught.value.type_name == "EngineUnavailableError"
    assert caught.value.fix == "start it"


def test_an_unexpected_failure_shows_the_log(tmp_path: Path) -> None:
    with pytest.raises(EngineFailureError, match="ended with exit code 1") as caught:
        Worker(job_folder(tmp_path, "Stumbles")).run(Recorder())
    assert "KeyError: 'inner detail'" in str(caught.value)
    assert "about to stumble" in (tmp_path / "log.txt").read_text()


def test_a_crash_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineFailureError, match="killed by signal SIGSEGV"):
        Worker(job_folder(tmp_path, "Segfaults")).run(Recorder())


def test_a_hanging_engine_is_ended_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(EngineTimeoutError, match="still running after 3 s"):
        Worker(job_folder(tmp_path, "Hangs"), deadline_s=3.0).run(Recorder())


def test_peak_memory_is_the_workers_own(tmp_path: Path) -> None:
    large = np.ones(400_000_000, dtype=np.uint8)
    finished = Worker(job_folder(tmp_path, "BruteForce")).run(Recorder())
    assert finished.peak_rss_bytes is not None
    assert finished.peak_rss_bytes < len(large)


def test_a_thread_that_an_engine_leaves_behind_does_not_hold_the_result_back(tmp_path: Path) -> None:
    folder = job_folder(tmp_path, "Lingers")
    Worker(folder, deadline_s=60.0).run(Recorder())
    assert read_trial(folder).index.indexed == 3
