"""The first worker of a command starts before its job is known; nothing starts while an engine works."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from processes import assert_all_end, with_variable
from small_world import write_cards, write_collection

from harness.cli.early_worker import early_worker
from harness.errors import EngineFailureError
from harness.testing.samples import RecordingProgress
from harness.worker import spawn
from harness.worker.process import Worker
from harness.worker.spawn import MARK_VARIABLE, start_early, take_worker


def test_the_first_job_gets_the_worker_that_waits() -> None:
    with tempfile.TemporaryFile() as log, start_early("json"):
        waiting = spawn._early[0]
        assert take_worker(log) == waiting
        later = take_worker(log)
        assert later.mark != waiting.mark
        for worker in (waiting, later):
            assert worker.process.stdin is not None
            worker.process.stdin.close()
            assert worker.process.wait(60) == 0  # there will be no job
            spawn._end(worker)


def test_a_worker_without_a_job_ends_with_the_block() -> None:
    with start_early():
        mark = spawn._early[0].mark
        assert len(with_variable(MARK_VARIABLE, mark)) == 1
    assert_all_end(MARK_VARIABLE, mark)
    assert spawn._early == []


def test_the_next_worker_starts_early_only_where_the_first_did() -> None:
    spawn.start_next()
    assert spawn._early == []
    with tempfile.TemporaryFile() as log, start_early("json"):
        spawn.start_next()
        first, second = spawn._early
        assert second.process.args == [*first.process.args[:-1], "json"]
        assert [take_worker(log), take_worker(log)] == [first, second]
        for worker in (first, second):
            spawn._end(worker)


def test_a_worker_that_died_while_it_waited_is_replaced() -> None:
    with tempfile.TemporaryFile() as log, start_early():
        dead = spawn._early[0]
        dead.process.kill()
        dead.process.wait()
        worker = take_worker(log)
        assert worker.mark != dead.mark
        spawn._end(worker)


def test_what_an_early_worker_says_before_it_dies_is_in_the_job_s_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "import os, sys, time\nprint('cannot be loaded', file=sys.stderr, flush=True)\ntime.sleep(1)\nos.abort()\n"
    (tmp_path / "aborting.py").write_text(module)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with start_early("aborting"), pytest.raises(EngineFailureError, match="killed by signal SIGABRT") as failure:
        Worker(tmp_path).run(RecordingProgress())
    assert "cannot be loaded" in failure.value.log


def test_a_worker_ends_when_its_parent_dies_before_there_is_a_job() -> None:
    program = """
import os
from harness.errors import EngineFailureError
from harness.worker import spawn
from harness.testing.samples import RecordingProgress
from harness.worker.process import Worker
with spawn.start_early():
    print(spawn._early[0].mark, flush=True)
    os._exit(1)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        mark = parent.stdout.readline().strip()
    assert mark
    assert_all_end(MARK_VARIABLE, mark, within_s=60)


def test_no_other_worker_is_there_while_an_engine_builds_or_searches(tmp_path: Path) -> None:
    cards = write_cards(tmp_path / "cards", first="NotesWorkers", second="NotesWorkers")
    collection, noted = write_collection(tmp_path / "small"), tmp_path / "noted"
    result = subprocess.run(
        [sys.executable, "-m", "harness", "compare", "--backends", "first,second", "--dataset", str(collection),
         "--cards", str(cards), "--k", "3", "--out", str(tmp_path / "out")],
        env={**os.environ, "NOTED_WORKERS": str(noted), "HARNESS_CACHE": str(tmp_path / "cache")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    notes = [line.split(":") for line in noted.read_text().splitlines()]
    assert len({worker for worker, _ in notes}) == 2
    assert {others.strip() for _, others in notes} == {""}


def test_none_is_started_for_trials_that_run_elsewhere() -> None:
    with early_worker("csr", "process", "ray:10.0.0.1:6379", None):
        assert spawn._early == []
    with early_worker("csr", "none", "local", None):
        assert spawn._early == []
    with early_worker("csr", "process", "local", None):
        assert len(spawn._early) == 1
