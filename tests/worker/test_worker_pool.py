"""Workers that serve several trials: which trials share them, and that no trial notices."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from engines_in_pools import BAD, STATE_LEFT
from processes import assert_all_end, with_variable
from small_world import DOCUMENTS, QUERIES, write_collection
from trial_jobs import job_folder
from warm_process import WARM
from warm_workers import worker_starter

import harness
from harness.errors import HarnessError
from harness.plan.config import Isolation, RunOptions
from harness.registry.lookup import find_cards
from harness.results.comparison import Comparison
from harness.store.cache import Cache
from harness.store.columns import save_table
from harness.store.record_files import load
from harness.testing.samples import RecordingProgress
from harness.worker import spawn
from harness.worker.jobs import TrialRecord
from harness.worker.pool import WorkerPool, engine_key
from harness.worker.process import Worker
from harness.worker.spawn import MARK_VARIABLE

MODULE = "engines_in_pools"
Run = Callable[..., tuple[str, ...]]


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Marks of all workers that were started."""
    marks, start = [], worker_starter() if WARM else spawn.start_worker

    def start_and_note(*arguments: object) -> spawn.WorkerProcess:
        worker = start(*arguments)
        marks.append(worker.mark)
        return worker

    monkeypatch.setattr(spawn, "start_worker", start_and_note)
    return marks


@pytest.fixture
def deadline_s() -> float:
    return 60.0


@pytest.fixture
def pool(deadline_s: float) -> Iterator[WorkerPool]:
    with WorkerPool(deadline_s=deadline_s) as workers:
        yield workers


@pytest.fixture
def run(tmp_path: Path, pool: WorkerPool) -> Run:
    """`run(engine, bad=…, **parameters)` runs a trial of an engine in the pool and returns its log."""
    numbers = itertools.count()

    def run_one(engine: str, *, bad: bool = False, **parameters: str) -> tuple[str, ...]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        job_folder(folder, f"{MODULE}:{engine}", parameters)
        if bad:
            make_bad(folder)
        finished = pool.run(engine, folder, RecordingProgress())
        assert load(folder, TrialRecord).hits.rows.tolist() == [1, 0]
        assert (finished.peak_rss_bytes, finished.peak_anonymous_bytes, finished.peak_server_bytes) == (None,) * 3
        return finished.log

    return run_one


def make_bad(folder: Path) -> None:
    """Give a document of a job the id with which engines fail."""
    import pyarrow as pa

    save_table(folder / "corpus.arrow", pa.table({"id": ["a", BAD, "c"], "text": ["x y", "y", ""]}))


def without_free_memory(error: HarnessError) -> str:
    return re.sub(r"[\d,]+ bytes", "", str(error))


def process_in(log: tuple[str, ...]) -> int:
    numbers = [int(match[1]) for line in log if (match := re.fullmatch(r"process (\d+)", line))]
    assert len(numbers) == 1  # a log holds the lines of its trial and of no other
    return numbers[0]


def test_trials_of_one_engine_share_a_process_and_no_line_of_the_log(run: Run) -> None:
    logs = [run("SaysItsProcess") for _ in range(3)]
    assert len({process_in(log) for log in logs}) == 1
    assert [sum("UserWarning: an old format" in line for line in log) for log in logs] == [1, 1, 1]


def test_random_numbers_are_those_of_a_new_process(run: Run) -> None:
    logs = [run("SeedsRandomNumbers") for _ in range(3)]
    assert len({process_in(log) for log in logs}) == 1
    drawn = {line for log in logs for line in log if line.startswith("drawn ")}
    assert len(drawn) == 6


def test_another_engine_and_another_environment_have_other_processes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = process_in(run("SaysItsProcess")), process_in(run("Raises"))
    assert first != other
    assert process_in(run("SaysItsProcess")) == first
    monkeypatch.setenv("CHANGED_BETWEEN_TRIALS", "1")
    assert process_in(run("SaysItsProcess")) != first


@pytest.mark.parametrize("left", STATE_LEFT)
def test_a_process_that_a_trial_left_changed_serves_no_other(run: Run, started: list[str], left: str) -> None:
    first = process_in(run("SaysItsProcess", left=left))
    assert_all_end(MARK_VARIABLE, started[0])  # nor does anything stay that the trial started
    assert process_in(run("SaysItsProcess")) != first


@pytest.mark.parametrize(
    ("engine", "deadline_s"), [("Raises", 60.0), ("Killed", 60.0), ("Crashes", 60.0), ("Hangs", 5.0)]
)
def test_a_failure_is_that_of_a_separate_process_and_the_next_trial_has_a_new_one(
    run: Run, tmp_path: Path, engine: str, deadline_s: float
) -> None:
    first = process_in(run(engine))
    with pytest.raises(HarnessError) as caught:
        run(engine, bad=True)
    assert process_in(tuple(caught.value.log)) == first
    (tmp_path / "alone").mkdir()
    make_bad(job_folder(tmp_path / "alone", f"{MODULE}:{engine}"))
    with pytest.raises(HarnessError) as alone:
        Worker(tmp_path / "alone", deadline_s=deadline_s).run(RecordingProgress())
    assert type(caught.value) is type(alone.value)
    assert without_free_memory(caught.value) == without_free_memory(alone.value)
    assert process_in(run(engine)) != first


def test_a_worker_that_died_while_it_was_idle_is_replaced(run: Run, started: list[str]) -> None:
    first = process_in(run("SaysItsProcess"))
    psutil.Process(first).kill()
    deadline = time.monotonic() + 60
    while first in [process.pid for process in with_variable(MARK_VARIABLE, started[0])]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert process_in(run("SaysItsProcess")) != first


def test_workers_end_with_the_pool(tmp_path: Path, started: list[str]) -> None:
    with suppress(KeyboardInterrupt), WorkerPool() as pool:
        pool.run("", job_folder(tmp_path, "BruteForce"), RecordingProgress())
        assert with_variable(MARK_VARIABLE, started[0])
        raise KeyboardInterrupt
    assert_all_end(MARK_VARIABLE, started[0])


def test_only_the_engine_s_own_parameters_divide_trials() -> None:
    cards = find_cards("backends")
    csr, lucene = cards["csr"], cards["lucene"]
    assert engine_key(csr, {**csr.defaults, "k1": 2.0}) == engine_key(csr, csr.defaults)
    assert engine_key(csr, {**csr.defaults, "threads": 2}) != engine_key(csr, csr.defaults)
    assert engine_key(lucene, {**lucene.defaults, "heap": "1g"}) != engine_key(lucene, lucene.defaults)


def test_trials_share_where_neither_time_nor_memory_is_measured() -> None:
    untimed = RunOptions(timing=False)
    assert untimed.shares_workers
    for changed in (
        {"timing": True},
        {"memory_limit": 2**30},
        {"isolation": Isolation.NONE},
        {"executor": "ray"},
    ):
        assert not replace(untimed, **changed).shares_workers


def compare_small_datasets(tmp_path: Path, name: str, backends: str, **options: object) -> Comparison:
    folders = []
    for number in range(2):
        texts = {f"{doc_id}-{number}": f"{text} {'mat ' * number}" for doc_id, text in DOCUMENTS.items()}
        folders.append(write_collection(tmp_path / f"small-{number}", documents=texts, queries=QUERIES, judged=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_CACHE", str(tmp_path / name))
        return harness.compare(backends, [str(folder) for folder in folders], k=5, timing=False, **options)


@pytest.mark.parametrize(("engine", "jobs"), [("lucene", 1), ("sqlite", 2)])
def test_stored_records_are_the_same_with_and_without_sharing(
    tmp_path: Path, started: list[str], engine: str, jobs: int
) -> None:
    if engine == "lucene":
        pytest.importorskip("jnius_config", reason="the extra 'lucene' is not installed")
    backends = f"csr:analyzer=whitespace,{engine}"
    compare_small_datasets(tmp_path, "shared", backends, jobs=jobs)
    shared = len(started)
    compare_small_datasets(tmp_path, "alone", backends, memory_limit="4GiB")
    assert shared < len(started) - shared
    records = [stored_records(tmp_path / name) for name in ("shared", "alone")]
    assert len(records[0]) == 4
    assert records[0] == records[1]


def stored_records(cache: Path) -> dict[str, list[object]]:
    """Everything that a trial stores but its times, by the name of its entry."""
    from harness.pipeline.resume import KIND, StoredOutcome

    records = {}
    for folder in (Cache(cache).folder(KIND)).iterdir():
        if not folder.is_dir():
            continue
        outcome = StoredOutcome.load(folder)
        record = outcome.record
        assert record is not None
        hits = record.hits
        arrays = [hits.indptr, hits.rows, hits.scores, record.index.missing_rows]
        records[folder.name] = [
            *(array.tobytes() for array in arrays),
            record.engine,
            record.input,
            (record.index.sent, record.index.indexed, dict(record.index.state)),
            record.storage,
            (record.k, record.warm_up_queries, hits.repeated_calls, hits.queries_per_call),
            record.caveats,
            outcome.failure,
        ]
    return records
