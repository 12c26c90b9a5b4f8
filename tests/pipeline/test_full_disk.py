"""A full disk, a killed worker, no file descriptors: named with place and room, never stored, and run again."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_world import write_collection

import harness
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError, MachineError
from harness.pipeline.resume import KIND
from harness.results.schema import TrialResult
from harness.store.cache import Cache
from harness.store.columns import load_column, reserved_column
from harness.store.machine_state import killed_error, machine_error

pytestmark = pytest.mark.usefixtures("warm_workers")


def mounted(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("a file system in memory cannot be mounted: there is no program 'mount'")
    if done.returncode:
        pytest.skip("a file system in memory cannot be mounted: that takes root's rights")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A cache on a disk of the size that the test names."""
    for folder in mounted(tmp_path / "disk", request.param):
        monkeypatch.setenv("HARNESS_CACHE", str(folder / "cache"))
        yield folder


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    write_collection(tmp_path / "small")
    return tmp_path / "small"


def trial_of(backend: str, dataset: str | Path, **options: object) -> TrialResult:
    comparison = harness.compare(backend, dataset, timing=False, k=10, **options)
    return comparison.report.trials[0]


def stored() -> list[Path]:
    return [path for path in (Cache().root / KIND).glob("*") if path.is_dir()]


@pytest.mark.parametrize("small_disk", ["3m"], indirect=True)
def test_a_full_disk_is_named_with_its_room_and_the_trial_runs_again(small_disk: Path) -> None:
    trial = trial_of("csr:analyzer=snowball-english", "cacm")
    assert trial.status == "failed"
    assert trial.error is not None
    assert trial.error.type == "MachineError"
    assert trial.error.message.count("no space is left on a disk") == 1
    assert f"the disk at '{small_disk}' has" in trial.error.message
    assert stored() == []
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    again = trial_of("csr:analyzer=snowball-english", "cacm", resume="missing")
    assert (again.status, again.reused) == ("ok", False)


@pytest.mark.integration
@pytest.mark.parametrize("small_disk", ["8m"], indirect=True)
def test_a_worker_that_sigbus_ends_is_a_state_of_the_machine(small_disk: Path) -> None:
    pytest.importorskip("qdrant_edge")
    trial = trial_of("qdrant:analyzer=snowball-english", "cacm")
    assert trial.error is not None
    assert trial.error.type == "MachineError"
    assert "0 bytes free" in trial.error.message or "no space is left" in trial.error.message
    assert stored() == []


def failure_of_trial(collection: Path) -> str | None:
    try:
        error = trial_of("csr", collection, isolation="none").error
    except HarnessError as raised:
        return str(raised)
    return None if error is None else error.message


@pytest.mark.parametrize("failing", range(0, 40, 5))
def test_a_disk_that_fills_at_any_write_is_never_an_outcome(
    failing: int, collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    opened, left = Path.open, [failing]

    def full(path: Path, mode: str = "r", *arguments: object, **keywords: object) -> object:
        if set(mode) & set("wxa") and path.is_relative_to(tmp_path / "cache"):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return opened(path, mode, *arguments, **keywords)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        failed = failure_of_trial(collection)
    assert failed is None or "is full" in failed or "no space is left" in failed
    again = trial_of("csr", collection, isolation="none", resume="missing")
    assert again.status == "ok"


def test_no_file_descriptors_left(tmp_path: Path) -> None:
    error = machine_error(OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(tmp_path)))
    assert error is not None
    assert "no file descriptors are left" in str(error)
    assert "ulimit -n" in str(error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "x"), "no space is left on a disk"),
        (OSError(errno.EDQUOT, "x"), "quota"),
        (OSError(errno.EFBIG, "x"), "limit on the size of a file"),
        (MemoryError("9 GiB"), "no memory is left"),
        (RuntimeError("IO Error: No space left on device (os error 28)"), "no space is left on a disk"),
        (ValueError("code: 13, database or disk is full"), "no space is left on a disk"),
        (RuntimeError("Too many open files"), "no file descriptors are left"),
    ],
)
def test_what_an_error_was_raised_from_decides(error: Exception, reason: str, tmp_path: Path) -> None:
    try:
        try:
            raise error
        except Exception as cause:
            raise EngineFailureError("the engine failed", fix="look", log=["a line"]) from cause
    except EngineFailureError as wrapped:
        state = machine_error(wrapped, tmp_path)
    assert isinstance(state, MachineError)
    assert reason in str(state)
    assert "the engine failed" in str(state)
    assert state.log == ("a line",)


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "x"), ValueError("a full text"), EngineUnavailableError("away")]
)
def test_other_errors_are_no_state_of_the_machine(error: Exception) -> None:
    assert machine_error(error) is None


def test_signals_and_logs_of_workers(tmp_path: Path) -> None:
    assert "free memory" in str(killed_error("SIGKILL", [], tmp_path))
    assert "bytes free" in str(killed_error("SIGBUS", [], tmp_path))
    assert "No space left" in str(killed_error("SIGABRT", ["thread panicked: No space left on device", "x"], tmp_path))
    assert killed_error("SIGSEGV", ["nothing of the kind"], tmp_path) is None
    assert killed_error("", [], tmp_path) is None


def test_a_reserved_column_is_a_whole_file(tmp_path: Path) -> None:
    column = reserved_column(tmp_path / "a.npy", np.dtype("uint64"), 1000)
    column[:] = range(1000)
    column.flush()
    assert load_column(tmp_path / "a.npy").tolist() == list(range(1000))
    assert (tmp_path / "a.npy").stat().st_blocks * 512 >= 8000


@pytest.mark.parametrize("small_disk", ["1m"], indirect=True)
def test_a_column_without_room_is_an_error_and_no_signal(small_disk: Path) -> None:
    with pytest.raises(OSError, match="No space left"):
        reserved_column(small_disk / "a.npy", np.dtype("uint64"), 1_000_000)
