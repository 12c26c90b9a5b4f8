"""SIGKILL while texts are encoded, again and again: nothing is lost but the last chunk, and no byte differs."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from harness.registry.parameters import encoder_parameters
from harness.store.columns import save_table
from harness.store.record_files import save
from harness.worker import spawn
from harness.worker.jobs import EncodeJob, EncodePart

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

TEXTS = 800
BATCH = 4
CHUNK = 8 * BATCH
KILLS = 2


def job(folder: Path, encoder: Literal["dense", "splade"]) -> Path:
    """A job in `folder` whose vectors go to its `target`."""
    (folder / "target").mkdir(parents=True)
    save_table(
        folder / "texts.arrow",
        pa.table({"id": [f"d{n}" for n in range(TEXTS)], "text": [f"text {n}" for n in range(TEXTS)]}),
    )
    kind = "Dense" if encoder == "dense" else "Sparse"
    given = {name: one.default for name, one in encoder_parameters(encoder).items()}
    parameters = {**given, "model": f"python:slow_model:{kind}", "batch_size": BATCH}
    part = EncodePart("documents", folder / "texts.arrow", folder / "target")
    save(folder, EncodeJob(encoder, parameters, (part,)))
    return folder


def work(folder: Path, calls: Path, monkeypatch: pytest.MonkeyPatch, *, kill_after: int | None = None) -> int:
    """Run the worker, or kill it once it has encoded so many texts more; its exit code."""
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = lines(calls)
    with (folder / "log.txt").open("wb") as log:
        worker = spawn.start_worker(log)
    process = worker.process
    try:
        spawn.send_job(worker, folder)
        while kill_after is not None and process.poll() is None:
            if lines(calls) >= before + kill_after:
                os.killpg(process.pid, signal.SIGKILL)
                break
            time.sleep(0.005)
        return process.wait()
    finally:
        spawn._end(worker)


def lines(calls: Path) -> int:
    return len(calls.read_text().splitlines()) if calls.exists() else 0


def content(folder: Path) -> dict[str, str]:
    """Digests of the vectors."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((folder / "target").glob("*.npy"))
    }


@pytest.mark.parametrize("encoder", ["dense", "splade"])
def test_what_was_encoded_before_a_kill_is_not_encoded_again(
    tmp_path: Path, repository: Path, encoder: Literal["dense", "splade"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository / "tests" / "support"), str(repository)]))
    undisturbed, calls = job(tmp_path / "one", encoder), tmp_path / "one.txt"
    assert work(undisturbed, calls, monkeypatch) == 0
    assert lines(calls) == TEXTS
    disturbed, calls = job(tmp_path / "other", encoder), tmp_path / "other.txt"
    moments = np.random.default_rng(len(encoder))
    for _ in range(KILLS):
        assert work(disturbed, calls, monkeypatch, kill_after=moments.integers(1, TEXTS // 4)) == -signal.SIGKILL
    assert work(disturbed, calls, monkeypatch) == 0
    assert content(tmp_path / "other") == content(tmp_path / "one")
    times = Counter(calls.read_text().splitlines())
    assert len(times) >= TEXTS
    again = sum(count - 1 for count in times.values())
    assert again <= KILLS * CHUNK, f"{again} texts were encoded twice after {KILLS} kills"
