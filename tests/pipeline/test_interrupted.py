"""Ctrl-C, SIGTERM and SIGHUP at any moment: the documented exit code, a message, nothing half-written or left behind.

One random moment of each kind is tried by default; ``pytest --interruptions 50 tests/pipeline/test_interrupted.py``
tries more.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from processes import assert_all_end, with_variable
from small_world import write_cards, write_collection
from warm_harness import harness_command

from harness.exact import compile_kernels
from harness.results.comparison import Comparison

pytestmark = pytest.mark.integration

# A test run in the background ignores SIGINT, and its children inherit that.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from harness.cli.app import main
print("ready", file=sys.stderr, flush=True)
main()
"""
SECONDS_TO_END = 10
BACKENDS = "csr:analyzer=whitespace,qdrant:analyzer=whitespace"
WITH_JAVA = f"lucene,{BACKENDS}"
LOGS = "work/compare-*/trial-*/log.txt"


class Ended(NamedTuple):
    code: int
    out: str
    err: str
    seconds: float


class Run:
    """One comparison of the command line, with a cache of its own by which its processes are known."""

    def __init__(self, folder: Path, *options: str, cache: Path | None = None) -> None:
        """``cache`` holds what is there before."""
        self.folder, self.result, self.cache = folder, folder / "out" / "result", folder / "cache"
        if cache is not None:
            shutil.copytree(cache, self.cache)
        self.environment = {**os.environ, "HARNESS_CACHE": str(self.cache)}
        command = [sys.executable, "-c", PROGRAM, "compare", "--out", str(self.result), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=self.environment,
        )
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == "ready\n"

    def end(self, number: signal.Signals | None = None, *, group: bool = False) -> Ended:
        started = time.monotonic()
        if number is not None and group:
            os.killpg(self.process.pid, number)
        elif number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=600)
        return Ended(self.process.returncode, out, err, time.monotonic() - started)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()
        for process in with_variable("HARNESS_CACHE", str(self.cache)):
            process.kill()

    def assert_interrupted(self, ended: Ended) -> None:
        """As it must be after a signal, unless the signal came when everything was done."""
        self.assert_nothing_is_left()
        assert "Traceback" not in ended.err
        assert "Exception ignored" not in ended.err
        assert ended.seconds < SECONDS_TO_END
        if ended.code == 0:
            assert self.result.exists()
            return
        assert ended.code == 130, ended.err
        assert "harness: interrupted" in ended.err.splitlines()

    def assert_nothing_is_left(self) -> None:
        assert_all_end("HARNESS_CACHE", str(self.cache))
        work = self.cache / "work"
        assert not work.exists() or list(work.iterdir()) == []
        out = self.result.parent
        assert not out.exists() or list(out.iterdir()) in ([], [self.result])
        if self.result.exists():
            stored = Comparison.load(self.result)
            assert [stored.run(trial.label) for trial in stored.report.trials if trial.label not in stored.failed]


@pytest.fixture
def runs() -> Iterator[list[Run]]:
    started: list[Run] = []
    yield started
    for run in started:
        run.kill()


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_collection(tmp_path_factory.mktemp("data") / "small"))


class Whole(NamedTuple):
    """A comparison that nobody interrupts: how long it takes, what comes out, and the terms that it leaves behind."""

    seconds: float
    metrics: dict[str, Any]
    cache: Path


def metrics_of(result: Path) -> dict[str, Any]:
    return {
        backend["label"]: backend["metrics"] for backend in json.loads((result / "report.json").read_bytes())["trials"]
    }


@pytest.fixture(scope="module")
def whole(collection: str, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    compile_kernels()
    run = Run(tmp_path_factory.mktemp("whole"), "--backends", BACKENDS, "--dataset", collection, "--no-timing")
    ended = run.end()
    assert ended.code == 0, ended.err
    return Whole(ended.seconds, metrics_of(run.result), run.cache)


class Way(NamedTuple):
    """What is compared, how, and the signals that take turns, in this order."""

    backends: str
    options: tuple[str, ...]
    signals: tuple[signal.Signals, signal.Signals]


WAYS = {
    "one after the other": Way(WITH_JAVA, ("--timing",), (signal.SIGINT, signal.SIGTERM)),
    "side by side": Way(BACKENDS, ("--no-timing", "--jobs", "2"), (signal.SIGHUP, signal.SIGINT)),
    "in the harness's own process": Way(
        WITH_JAVA, ("--no-timing", "--isolation", "none"), (signal.SIGINT, signal.SIGTERM)
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_signal_at_a_random_moment(
    request: pytest.FixtureRequest, whole: Whole, collection: str, tmp_path: Path, runs: list[Run], name: str
) -> None:
    way = WAYS[name]
    moments = random.Random(name)
    for place in range(request.config.getoption("--interruptions")):
        run = Run(tmp_path / str(place), "--backends", way.backends, "--dataset", collection, *way.options)
        runs.append(run)
        time.sleep(moments.uniform(0, whole.seconds))
        run.assert_interrupted(run.end(way.signals[place % 2]))
    again = [
        *harness_command(),
        "compare",
        "--backends",
        BACKENDS,
        "--dataset",
        collection,
        "--no-timing",
        "--overwrite",
    ]
    subprocess.run([*again, "--out", run.result], env=run.environment, check=True, capture_output=True)
    assert metrics_of(run.result) == whole.metrics


def run_of_engines(
    whole: Whole, collection: str, folder: Path, runs: list[Run], options: tuple[str, ...], **engines: str
) -> Run:
    """A comparison of engines made for tests; returns when each of the first ones says that it is about to hang."""
    cards = write_cards(folder / "cards", **engines)
    given = ("--backends", ",".join(engines), "--dataset", collection, "--cards", str(cards))
    run = Run(folder, *given, *options, cache=whole.cache)
    runs.append(run)
    expected = 2 if "--jobs" in options else 1
    deadline = time.monotonic() + 60
    while sum("about to hang" in log.read_text("utf-8") for log in run.cache.glob(LOGS)) < expected:
        assert run.process.poll() is None
        assert time.monotonic() < deadline, "no engine came that far"
        time.sleep(0.05)
    return run


@pytest.mark.parametrize("works", [False, True], ids=["as a worker starts", "while an engine works"])
def test_ctrl_c_ends_everything_as_a_terminal_sends_it(
    whole: Whole, collection: str, tmp_path: Path, runs: list[Run], works: bool
) -> None:
    """To the whole group; the other tests send it to the parent alone."""
    if works:
        run = run_of_engines(whole, collection, tmp_path, runs, ("--timing",), slow="Hangs")
    else:
        run = Run(tmp_path, "--backends", "csr:analyzer=whitespace", "--dataset", collection)
        runs.append(run)
        deadline = time.monotonic() + 60
        while not psutil.Process(run.process.pid).children():
            assert run.process.poll() is None
            assert time.monotonic() < deadline, "no worker was started"
            time.sleep(0.05)
    ended = run.end(signal.SIGINT, group=True)
    run.assert_interrupted(ended)
    assert (ended.code, ended.out) == (130, "")
    assert not run.result.exists()


@pytest.mark.parametrize("options", [("--timing",), ("--no-timing", "--jobs", "2")], ids=["one", "two"])
def test_a_second_ctrl_c_waits_for_no_engine(
    whole: Whole, collection: str, tmp_path: Path, runs: list[Run], options: tuple[str, ...]
) -> None:
    run = run_of_engines(whole, collection, tmp_path, runs, options, deaf="HangsDeaf", locked="HoldsTheLock")
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert run.process.poll() is None
    ended = run.end(signal.SIGINT)
    run.assert_interrupted(ended)
    assert ended.seconds < 3  # what an engine is given to end by itself


def test_a_killed_harness_takes_its_workers_along(
    whole: Whole, collection: str, tmp_path: Path, runs: list[Run]
) -> None:
    options = ("--no-timing", "--jobs", "2")
    run = run_of_engines(whole, collection, tmp_path, runs, options, deaf="HangsDeaf", locked="HoldsTheLock")
    run.end(signal.SIGKILL)
    assert_all_end("HARNESS_CACHE", str(run.cache))


def test_ctrl_c_ends_the_clients_of_a_load(whole: Whole, collection: str, tmp_path: Path, runs: list[Run]) -> None:
    backend = ("--backends", "csr:analyzer=whitespace", "--dataset", collection)
    run = Run(tmp_path, *backend, "--concurrency", "2", "--load-seconds", "600", cache=whole.cache)
    runs.append(run)
    deadline = time.monotonic() + 90
    while not list((run.cache / "work").glob("compare-*/trial-*/closed-*/go")):
        assert run.process.poll() is None
        assert time.monotonic() < deadline, "the clients never began"
        time.sleep(0.05)
    clients = [one for one in psutil.Process(run.process.pid).children() if "harness.worker.main" in one.cmdline()]
    assert len(clients) == 2
    ended = run.end(signal.SIGINT)
    run.assert_interrupted(ended)
    assert ended.code == 130
