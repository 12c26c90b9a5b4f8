"""Backends that do what they must not, installed as a package of their own: each is reported as what it is, the others
have their results, and nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from processes import assert_all_end, with_variable
from small_world import write_cards, write_collection
from warm_harness import harness_command

pytestmark = pytest.mark.integration

DEADLINE_S = 20


class Expected(NamedTuple):
    engine: str
    type: str
    message: str
    log: str = ""


TIMEOUT = ("EngineTimeoutError", f"still running after {DEADLINE_S} s")
FAILING = {
    "segfaulting": Expected("Segfaults", "EngineFailureError", "killed by signal SIGSEGV", "Segmentation fault"),
    "killed": Expected("IsKilled", "MachineError", "signal SIGKILL.*running out of memory"),
    "hanging": Expected("Hangs", *TIMEOUT, "about to hang"),
    "deaf": Expected("HangsDeaf", *TIMEOUT),
    "locked": Expected("HoldsTheLock", *TIMEOUT),
    "eating": Expected("EatsMemory", "MemoryLimitError", r"more than the 600 MiB it was given"),
    "losing": Expected("LosesDocuments", "LostDocumentsError", "lost 1 documents that are not empty: d2"),
    "stumbling": Expected(
        "Stumbles", "EngineFailureError", "an unexpected error: KeyError: 'inner detail'", "about to st"
    ),
    "leaving": Expected("Leaves", "EngineFailureError", "ended with exit code 0 and left no result"),
    "exiting": Expected("Exits", "EngineFailureError", "ended with exit code 0 and left no result"),
    "nameless": Expected("CannotSayWhatItIs", "EngineFailureError", "an unexpected error: ValueError: no version"),
    "silent": Expected("NeverSaysWhatItIs", *TIMEOUT),
    "crashing": Expected("LeavesProcessesAndCrashes", "EngineFailureError", "killed by signal SIGSEGV"),
}
FINE = {
    "good": "BruteForce",
    "garbage": "PrintsGarbage",
    "parent": "LeavesProcesses",
    "numberless": "SaysWhatIsNoNumber",
}
STAYING = ("parent", "deaf", "locked", "eating", "crashing")
"""Those that would leave processes behind, or are measured while they run."""


@pytest.fixture(scope="module")
def environment(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Where the package is installed, and a cache of its own by which its processes are known."""
    site = tmp_path_factory.mktemp("site")
    write_cards(site / "cards", **FINE, **{name: expected.engine for name, expected in FAILING.items()})
    write_cards(site / "cards", module="no_such_module", absent="Engine")
    module = "from pathlib import Path\n\n\ndef cards():\n    return Path(__file__).parent / 'cards' / 'backends'\n"
    (site / "misbehaving.py").write_text(module)
    metadata = site / "misbehaving-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[harness.backends]\nmisbehaving = misbehaving:cards\n")
    paths = os.pathsep.join([str(repository), str(site), str(repository / "tests" / "support")])
    cache = str(tmp_path_factory.mktemp("cache"))
    yield {**os.environ, "PYTHONPATH": paths, "HARNESS_CACHE": cache}
    for process in with_variable("HARNESS_CACHE", cache):
        process.kill()


class Done(NamedTuple):
    code: int
    out: str
    report: dict[str, Any]

    def backend(self, label: str) -> dict[str, Any]:
        (found,) = (backend for backend in self.report["trials"] if backend["label"] == label)
        return dict(found)


def compare(
    backends: list[str], environment: dict[str, str], folder: Path, *options: str, harness: Sequence[str] | None = None
) -> Done:
    collection = write_collection(folder / "small")
    command = [*(harness or harness_command()), "compare", "--backends", ",".join(backends), *options]
    command += ["--dataset", str(collection), "--out", str(folder / "r"), "--k", "3", "--no-timing"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, json.loads((folder / "r" / "report.json").read_bytes()))


@pytest.fixture(scope="module")
def staying(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Started cold: processes are found by the environment that they were started with, and memory is limited."""
    limits = ("--deadline", str(DEADLINE_S), "--memory-limit", "600MiB", "--jobs", "4")
    cold = [sys.executable, "-m", "harness"]
    return compare([*STAYING], environment, tmp_path_factory.mktemp("staying"), *limits, harness=cold)


@pytest.fixture(scope="module")
def others(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Done:
    backends = [name for name in ("absent", *FINE, *FAILING) if name not in STAYING]
    limits = ("--deadline", str(DEADLINE_S), "--jobs", "4")
    return compare(backends, environment, tmp_path_factory.mktemp("others"), *limits)


@pytest.fixture(scope="module")
def all_of_them(staying: Done, others: Done) -> Callable[[str], Done]:
    """The comparison that a backend took part in."""
    return lambda name: staying if name in STAYING else others


@pytest.mark.parametrize("name", FAILING)
def test_each_is_reported_as_what_it_is(all_of_them: Callable[[str], Done], name: str) -> None:
    done, expected = all_of_them(name), FAILING[name]
    backend = done.backend(name)
    assert backend["status"] == "failed"
    assert backend["error"]["type"] == expected.type
    assert re.search(expected.message, backend["error"]["message"])
    assert expected.log in "\n".join(backend["error"]["log"])
    assert (backend["metrics"], backend["search"], backend["parity"]) == ({}, None, None)
    assert f"✕ {name} failed\n" in done.out


def test_one_that_cannot_be_imported_takes_no_result_with_it(others: Done) -> None:
    assert "module 'no_such_module' of 'engine' cannot be imported" in others.backend("absent")["error"]["message"]
    assert others.backend("good")["status"] == "ok"
    assert (others.backend("good")["deterministic"], others.backend("absent")["deterministic"]) == (True, None)


def test_the_command_says_that_some_failed(staying: Done, others: Done) -> None:
    assert staying.code == others.code == 3


def test_the_others_have_the_results_that_they_have_alone(
    all_of_them: Callable[[str], Done], environment: dict[str, str], tmp_path: Path
) -> None:
    alone = compare([*FINE], environment, tmp_path)
    assert alone.code == 0
    for name in FINE:
        one, other = all_of_them(name).backend(name), alone.backend(name)
        for backend in (one, other):
            backend.pop("measured_at")
            for peak in ("peak_rss_bytes", "peak_anonymous_bytes", "peak_server_bytes"):
                backend["index"].pop(peak)
        assert one == other


def test_state_that_is_no_number_is_told_as_text(others: Done) -> None:
    assert others.backend("numberless")["index"]["state"] == {"mean": "nan", "largest": "inf", "segments": 1}


@pytest.mark.usefixtures("all_of_them")
def test_nothing_stays_behind(environment: dict[str, str]) -> None:
    cache = environment["HARNESS_CACHE"]
    assert_all_end("HARNESS_CACHE", cache)
    assert list(Path(cache, "work").iterdir()) == []
