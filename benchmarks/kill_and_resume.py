"""Kill or interrupt a comparison, resume it, and compare its result with that of an undisturbed comparison.

Each round has its own cache. With `--victims parents` SIGKILL or SIGINT goes only to the harness's process, so after
SIGKILL its workers have to notice by themselves: every second round is ended just after one backend has said that it is
finished, the others at a random moment. With `--victims workers` SIGKILL goes to a worker at a random moment, or to the
first one that starts after it: the comparison ends with exit code 3, and the worker's trial is not stored; or with 0,
if the worker had no work yet. `both` takes turns. Then the same command runs with `--resume missing`. The exit code is
1 when any round ends otherwise than an undisturbed comparison, runs a backend again whose outcome was stored, or leaves
anything behind: a process, a folder, a file that is half-written; and, in two rounds a backend or more, when some
backend was never stored before the end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from harness.exact import compile_kernels
from harness.registry.lookup import find_cards, load_engine
from harness.results.comparison import Comparison
from harness.results.schema import TrialResult
from harness.store.cache import Cache
from harness.store.cache_entries import list_entries

MARK = "HARNESS_KILL_AND_RESUME"
PATIENCE_S = 10.0
SOON_S = 0.3
"""How long after a backend's last word a round may be ended."""
ATTEMPTS = 5
"""Rounds tried for each one asked for: those that were over before their moment came do not count."""


COMMAND = [sys.executable, "-m", "harness"]
RESUMING = COMMAND
"""What resumes a comparison, and verifies the cache."""


class Place(NamedTuple):
    """Where one round happens: its cache, the folder of its result, and the mark that its processes inherit."""

    cache: Path
    out: Path
    mark: str

    @classmethod
    def below(cls, folder: Path) -> Place:
        """A fresh one."""
        return cls(folder / "cache", folder / "results" / "r", uuid.uuid4().hex)

    def start(self, arguments: list[str], *more: str) -> subprocess.Popen[str]:
        """The comparison, started; ``more`` are the options that resume it."""
        harness = RESUMING if more else COMMAND
        command = [*harness, "compare", *arguments, "--out", str(self.out), *more]
        environment = {**os.environ, "HARNESS_CACHE": str(self.cache), MARK: self.mark}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=pipe, text=True)

    def processes(self) -> list[psutil.Process]:
        """Every process that this round started and that still runs, whoever is its parent now."""
        return [process for process in psutil.process_iter() if _environment(process).get(MARK) == self.mark]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return {} if process.status() == psutil.STATUS_ZOMBIE else process.environ()
    except psutil.Error:  # ended meanwhile, or somebody else's
        return {}


class Moment(NamedTuple):
    """When a round is ended: seconds after its start, or after ``label`` has reported that it is finished.

    ``worker`` is true if a worker is killed instead of the harness's process.
    """

    seconds: float
    label: str | None = None
    worker: bool = False

    def wait(self, process: subprocess.Popen[str]) -> None:
        """Return when the moment has come; at once when the process has ended."""
        if self.label is not None and process.stderr is not None:
            for line in process.stderr:
                if line.startswith(f"{self.label}: "):
                    break
        time.sleep(self.seconds)

    def __str__(self) -> str:
        moment = f"{self.seconds:.1f}" if self.label is None else f"{self.label} + {self.seconds:.1f}"
        return f"{moment}, a worker" if self.worker else moment


class Round(NamedTuple):
    """What became of one kill."""

    moment: Moment
    running: int
    finished: tuple[str, ...]
    resume_s: float
    reused: tuple[str, ...]
    wrong: tuple[str, ...]


def kill_and_resume(
    folder: Path, arguments: list[str], moment: Moment, number: signal.Signals, expected: Comparison
) -> Round | None:
    """One round in ``folder``, which must not exist; ``wrong`` is what a user would complain about.

    None when the comparison ended before the moment came, or before a worker could be killed.
    """
    place = Place.below(folder)
    process = place.start(arguments)
    moment.wait(process)
    running = len(place.processes())
    if not moment.worker:
        process.send_signal(number)
    elif not _kill_a_worker(place, process):
        process.communicate()
        _survivors(place)
        return None
    _, said = process.communicate()
    if process.returncode == 0 and not moment.worker:
        return None
    wrong = [f"process {left.pid} outlived its parent" for left in _survivors(place)]
    if process.returncode not in ((0, 3) if moment.worker else _codes(number, place)):
        wrong.append(f"the exit code was {process.returncode}: {said[-2000:]}")
    finished = _stored(place)
    if place.out.exists():
        Comparison.load(place.out)  # killed after the result was put in its place: it must be whole
    started = time.monotonic()
    resumed = place.start(arguments, "--resume", "missing", "--overwrite")
    _, error = resumed.communicate(timeout=600)
    took_s = time.monotonic() - started
    if resumed.returncode != 0:
        return Round(moment, running, finished, took_s, (), (*wrong, f"exit code {resumed.returncode}: {error}"))
    result = Comparison.load(place.out)
    reused = tuple(backend.label for backend in result.report.trials if backend.reused)
    wrong += [f"{label} was stored and ran again" for label in finished if label not in reused]
    wrong += [f"{label} was never stored and is called re-used" for label in reused if label not in finished]
    wrong += [*_differences(expected, result), *_left_behind(place)]
    return Round(moment, running, finished, took_s, reused, tuple(wrong))


def _kill_a_worker(place: Place, process: subprocess.Popen[str]) -> bool:
    """Send SIGKILL to a worker of the round as soon as there is one; false if the comparison ends without."""
    while process.poll() is None:
        for other in place.processes():
            with contextlib.suppress(psutil.Error):
                if any(part.startswith("harness.worker.") for part in other.cmdline()):
                    other.kill()
                    return True
        time.sleep(0.02)
    return False


def _codes(number: signal.Signals, place: Place) -> tuple[int, ...]:
    """How the process may end: by SIGINT itself only while Python starts, before the harness has touched its cache."""
    if number is signal.SIGKILL:
        return (-number,)
    return (130,) if place.cache.exists() else (130, -number)


def _stored(place: Place) -> tuple[str, ...]:
    """Labels of the backends whose outcome is stored now."""
    entries = [entry for entry in list_entries(Cache(place.cache)) if entry.kind == "trials"]
    return tuple(entry.about.rpartition(" on ")[0] for entry in entries if entry.state == "finished")


def undisturbed(folder: Path, arguments: list[str]) -> tuple[Comparison, float]:
    """The comparison to hold the others against, and the seconds that it took."""
    place = Place.below(folder)
    started = time.monotonic()
    process = place.start(arguments)
    _, error = process.communicate(timeout=600)
    if process.returncode != 0:
        raise SystemExit(error)
    return Comparison.load(place.out), time.monotonic() - started


def _survivors(place: Place) -> list[psutil.Process]:
    deadline = time.monotonic() + PATIENCE_S
    while (left := place.processes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _differences(expected: Comparison, result: Comparison) -> Iterator[str]:
    plans = [
        {name: value for name, value in one.report.plan.resolved.items() if name != "resume"}
        for one in (expected, result)
    ]
    if plans[0] != plans[1] or expected.report.dataset != result.report.dataset:
        yield "the plan or the dataset differs"
    for one, other in zip(expected.report.trials, result.report.trials, strict=True):
        if _counts(one) != _counts(other):
            yield f"{one.label}: counts differ"
        if load_engine(find_cards("backends")[one.name]).capabilities.deterministic:
            if (one.metrics, one.parity, one.queries) != (other.metrics, other.parity, other.queries):
                yield f"{one.label}: metrics or parity differ"
            hits = [(run.indptr, run.rows, run.scores) for run in (expected.run(one.label), result.run(one.label))]
            if not all(np.array_equal(a, b) for a, b in zip(*hits, strict=True)):
                yield f"{one.label}: hits differ"


def _counts(backend: TrialResult) -> tuple[object, ...]:
    index, search = backend.index, backend.search
    if index is None or search is None:
        return (backend.status,)
    documents = (index.documents_sent, index.documents_indexed, index.missing)
    return (backend.status, backend.engine, *documents, search.queries, search.k, search.repeats, search.hits)


def _left_behind(place: Place) -> Iterator[str]:
    folders = [*(place.cache / "work").iterdir(), *place.cache.glob("*/*.tmp")]
    folders += [path for path in place.out.parent.iterdir() if path != place.out]
    yield from (f"'{path}' was left behind" for path in folders)
    yield from (f"process {process.pid} was left behind" for process in place.processes())
    environment = {**os.environ, "HARNESS_CACHE": str(place.cache)}
    verified = subprocess.run(
        [*RESUMING, "cache", "verify"], env=environment, capture_output=True, text=True, check=False
    )
    if verified.returncode != 0:
        yield f"the cache is damaged: {verified.stdout}"


def main() -> int:
    """Print one row a round; 1 when something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--backends", default="csr,qdrant,lucene")
    parser.add_argument("--dataset", default="cacm")
    parser.add_argument("--k", default="100")
    parser.add_argument("--sample-queries", default=None)
    parser.add_argument("--signal", choices=("KILL", "INT"), default="KILL")
    parser.add_argument("--victims", choices=("parents", "workers", "both"), default="parents")
    options = parser.parse_args()
    arguments = ["--backends", options.backends, "--dataset", options.dataset, "--k", options.k]
    if options.sample_queries is not None:
        arguments += ["--sample-queries", options.sample_queries]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would ours
    with tempfile.TemporaryDirectory(prefix="kill-and-resume-") as folder:
        compile_kernels()
        expected, whole_s = undisturbed(Path(folder) / "undisturbed", arguments)
        print(f"Undisturbed, with an empty cache: {whole_s:.1f} s.\n")
        print("| ended after s | its processes | stored by then | resumed in s | re-used | wrong |")
        print("|--:|--:|---|--:|---|---|")
        labels = [backend.label for backend in expected.report.trials]
        number = signal.Signals[f"SIG{options.signal}"]
        rounds: list[Round] = []
        for moment in islice(_moments(labels, whole_s, options, rounds), ATTEMPTS * options.kills):
            with tempfile.TemporaryDirectory(dir=folder) as own:
                one = kill_and_resume(Path(own) / "round", arguments, moment, number, expected)
            if one is not None:
                rounds.append(one)
                print(_row(one), flush=True)
            if len(rounds) == options.kills:
                break
    return _verdict(rounds, labels, options.kills)


def _moments(labels: list[str], whole_s: float, options: argparse.Namespace, rounds: list[Round]) -> Iterator[Moment]:
    """Of parents turn about: just after one backend has finished, each in its turn, and any moment of the whole."""
    chance = np.random.default_rng(options.seed)
    while True:
        workers = sum(one.moment.worker for one in rounds)
        parents = len(rounds) - workers
        if options.victims == "workers" or (options.victims == "both" and workers < parents):
            yield Moment(chance.uniform(0, whole_s), worker=True)
            continue
        turn, at_random = divmod(parents, 2)
        label = None if at_random else labels[turn % len(labels)]
        yield Moment(chance.uniform(0, whole_s if label is None else SOON_S), label)


def _row(one: Round) -> str:
    stored, reused, wrong = ", ".join(one.finished) or "–", ", ".join(one.reused) or "–", "; ".join(one.wrong)
    cells = (str(one.moment), str(one.running), stored, f"{one.resume_s:.1f}", reused, wrong or "nothing")
    return f"| {' | '.join(cells)} |"


def _verdict(rounds: list[Round], labels: list[str], wanted: int) -> int:
    """Say how it went; 1 when something was wrong or was not tried."""
    good = sum(not one.wrong for one in rounds)
    print(f"\n{good} of {wanted} rounds ended as an undisturbed comparison, with nothing left behind.")
    untried = set(labels) - {label for one in rounds for label in one.finished}
    if untried:
        print(f"Never stored before the end, so that re-using it was not tried: {', '.join(sorted(untried))}.")
    tried = not untried or wanted < 2 * len(labels)
    return 0 if good == wanted and tried else 1


if __name__ == "__main__":
    sys.exit(main())
