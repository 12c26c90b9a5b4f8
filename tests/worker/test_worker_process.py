"""A real worker process, with engines that behave and engines that do not.

Where it is about neither memory nor how a process starts, dies or is known, it is a copy of one that has imported.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import assert_all_end
from trial_jobs import job_folder
from warm_process import WARM
from warm_workers import worker_starter

from harness.errors import EngineFailureError, EngineTimeoutError, MachineError, MemoryLimitError
from harness.store.record_files import load, save
from harness.worker import spawn
from harness.worker.failure import RemoteError
from harness.worker.jobs import TrialJob, TrialRecord
from harness.worker.process import Worker
from harness.worker.spawn import MARK_VARIABLE

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> None:
    if WARM:
        monkeypatch.setattr(spawn, "start_worker", worker_starter())


class Recorder:
    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.advanced = 0

    def start(self, phase: str, total: int | None) -> None:
        self.phases.append((phase, total))

    def advance(self, amount: int) -> None:
        self.advanced += amount


def test_a_trial_in_a_worker(tmp_path: Path) -> None:
    progress = Recorder()
    folder = job_folder(tmp_path, "BruteForce")
    finished = Worker(folder).run(progress)
    record = load(folder, TrialRecord)
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
    assert record.warm_up_ns > 0
    assert record.open_ns > 0
    assert record.input == "sparse"
    assert finished.peak_rss_bytes is not None
    assert finished.peak_rss_bytes > 10_000_000


@pytest.mark.usefixtures("copied")
def test_an_expected_failure_comes_back_with_its_type(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="the engine is not there") as caught:
        Worker(job_folder(tmp_path, "Unavailable")).run(Recorder())
    assert caught.value.type_name == "EngineUnavailableError"
    assert caught.value.fix == "start it"


@pytest.mark.usefixtures("copied")
def test_an_unexpected_failure_shows_the_log(tmp_path: Path) -> None:
    with pytest.raises(RemoteError, match="an unexpected error: KeyError: 'inner detail'") as caught:
        Worker(job_folder(tmp_path, "Stumbles")).run(Recorder())
    assert caught.value.type_name == "EngineFailureError"
    assert caught.value.log[0] == "about to stumble"
    assert caught.value.log[-1] == "KeyError: 'inner detail'"


def test_a_crash_is_named(tmp_path: Path) -> None:
    with pytest.raises(EngineFailureError, match="killed by signal SIGSEGV") as caught:
        Worker(job_folder(tmp_path, "Segfaults")).run(Recorder())
    assert any("engines_for_tests.py" in line for line in caught.value.log)


@pytest.mark.usefixtures("copied")
def test_a_process_that_only_goes_away_is_no_success(tmp_path: Path) -> None:
    with pytest.raises(EngineFailureError, match="ended with exit code 0 and left no result"):
        Worker(job_folder(tmp_path, "Leaves")).run(Recorder())


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("engine", ["HangsDeaf", "HoldsTheLock"])
def test_whatever_an_engine_does_to_stay_it_is_ended(tmp_path: Path, engine: str) -> None:
    started = time.monotonic()
    with pytest.raises(EngineTimeoutError):
        Worker(job_folder(tmp_path, engine), deadline_s=2.0).run(Recorder())
    assert time.monotonic() - started < 2 + 3 + 5  # the deadline, the grace, and a slow machine


def test_an_engine_that_eats_memory_is_ended_at_its_limit(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match=r"used \d+ MiB of memory, more than the 400 MiB it was given"):
        Worker(job_folder(tmp_path, "EatsMemory"), memory_limit_bytes=400 * 1024**2).run(Recorder())


def test_what_a_child_takes_counts_against_the_limit(tmp_path: Path) -> None:
    worker = Worker(job_folder(tmp_path, "ChildEatsMemory"), memory_limit_bytes=500 * 1024**2, deadline_s=60.0)
    with pytest.raises(
        MemoryLimitError, match=r"MiB of memory with the processes that it started, more than the 500 MiB"
    ):
        worker.run(Recorder())


def test_both_peaks_include_a_server_that_the_engine_started(tmp_path: Path) -> None:
    """Through the shell that starts it; the shell that guards every worker is no server."""
    (tmp_path / "alone").mkdir()
    alone = Worker(job_folder(tmp_path / "alone", "BruteForce")).run(Recorder())
    served = Worker(job_folder(tmp_path, "StartsAServer"), memory_limit_bytes=2 * 1024**3).run(Recorder())
    mebibyte = 1024**2
    assert alone.peak_server_bytes is None
    assert served.peak_server_bytes is not None
    assert 120 * mebibyte <= served.peak_server_bytes < 160 * mebibyte
    assert served.peak_anonymous_bytes is not None
    assert served.peak_anonymous_bytes >= 120 * mebibyte
    assert served.peak_rss_bytes is not None
    assert alone.peak_rss_bytes is not None
    assert served.peak_rss_bytes - alone.peak_rss_bytes > 100 * mebibyte


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what processes share")
def test_pages_that_processes_share_count_once(tmp_path: Path) -> None:
    folder = job_folder(tmp_path, "SharesMemory")
    Worker(folder, memory_limit_bytes=800 * 1024**2, deadline_s=60.0).run(Recorder())
    assert load(folder, TrialRecord).index.indexed == 3


@pytest.mark.parametrize("engine", ["LeavesProcesses", "LeavesProcessesAndCrashes"])
def test_what_an_engine_started_ends_with_its_worker(tmp_path: Path, engine: str) -> None:
    worker = Worker(job_folder(tmp_path, engine), deadline_s=60.0)
    with suppress(EngineFailureError):
        worker.run(Recorder())
    started = [int(number) for number in (tmp_path / "index" / "started").read_text().split()]
    assert len(started) == 3
    mark = (tmp_path / "index" / "mark").read_text()
    assert_all_end(MARK_VARIABLE, mark)


@pytest.mark.usefixtures("copied")
def test_a_hanging_engine_is_ended_at_the_deadline(tmp_path: Path) -> None:
    with pytest.raises(EngineTimeoutError, match=r"still running after 1\.5 s"):
        Worker(job_folder(tmp_path, "Hangs"), deadline_s=1.5).run(Recorder())


def test_peak_memory_is_the_workers_own(tmp_path: Path) -> None:
    large = np.ones(400_000_000, dtype=np.uint8)
    finished = Worker(job_folder(tmp_path, "BruteForce")).run(Recorder())
    assert finished.peak_rss_bytes is not None
    assert finished.peak_rss_bytes < len(large)


@pytest.mark.usefixtures("copied")
def test_a_thread_that_an_engine_leaves_behind_does_not_hold_the_result_back(tmp_path: Path) -> None:
    folder = job_folder(tmp_path, "Lingers")
    Worker(folder, deadline_s=60.0).run(Recorder())
    assert load(folder, TrialRecord).index.indexed == 3


class Clients:
    """Lets a waiting trial go on some seconds later."""

    def __init__(self, release: Path, *, after_s: float) -> None:
        self.release, self.after_s, self.calls = release, after_s, 0

    def __call__(self) -> None:
        self.calls += 1
        threading.Timer(self.after_s, self.release.touch).start()


def held_folder(tmp_path: Path, engine: str) -> Path:
    folder = job_folder(tmp_path, f"engines_under_load:{engine}")
    save(folder, replace(load(folder, TrialJob), release=tmp_path / "release"))
    return folder


@pytest.mark.usefixtures("copied")
def test_the_deadline_stands_still_while_the_index_is_held_for_clients(tmp_path: Path) -> None:
    progress, clients = Recorder(), Clients(tmp_path / "release", after_s=11.0)
    started = time.monotonic()
    Worker(held_folder(tmp_path, "Server"), deadline_s=10.0).run(progress, clients)
    assert time.monotonic() - started > 11
    assert clients.calls == 1
    assert progress.phases[-1] == ("close", None)


@pytest.mark.usefixtures("copied")
def test_the_deadline_goes_on_after_it_was_held(tmp_path: Path) -> None:
    progress, clients = Recorder(), Clients(tmp_path / "release", after_s=0.1)
    with pytest.raises(EngineTimeoutError, match="still running after 5 s"):
        Worker(held_folder(tmp_path, "NeverCloses"), deadline_s=5.0).run(progress, clients)
    assert progress.phases[-1][0] == "close"


@pytest.mark.usefixtures("copied")
def test_a_held_engine_that_dies_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="killed by signal SIGKILL"):
        Worker(held_folder(tmp_path, "DiesWhileHeld"), deadline_s=60.0).run(Recorder())


def test_a_held_engine_that_grows_is_ended_at_its_limit(tmp_path: Path) -> None:
    with pytest.raises(MemoryLimitError, match=r"more than the 400 MiB it was given"):
        Worker(held_folder(tmp_path, "GrowsWhileHeld"), memory_limit_bytes=400 * 1024**2).run(Recorder())
