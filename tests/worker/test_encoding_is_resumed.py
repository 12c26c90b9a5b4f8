"""SIGKILL while texts are encoded, again and again: nothing is lost but the last chunk, and no byte differs."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
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
from harness.worker.jobs import EncodeJob, EncodePart
from harness.worker.spawn import JOB_END

pytestmark = pytest.mark.integration

TEXTS = 1200
BATCH = 4
CHUNK = 8 * BATCH
KILLS = 4


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


def work(folder: Path, calls: Path, *, kill_after_s: float | None = None) -> int | None:
    """Run the worker, or kill it once it has encoded something and so many seconds went by; its exit code."""
    environment = {**os.environ, "CALLS": str(calls), "OMP_NUM_THREADS": "1"}
    before = calls.stat().st_size if calls.exists() else 0
    with subprocess.Popen(
        [sys.executable, "-m", "harness.worker.main"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        os.write(process.stdin.fileno(), os.fsencode(folder) + JOB_END)
        if kill_after_s is not None:
            while process.poll() is None and (calls.stat().st_size if calls.exists() else 0) == before:
                time.sleep(0.005)
            time.sleep(kill_after_s)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=120)
        return process.returncode


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
    assert work(undisturbed, calls) == 0
    assert len(calls.read_text().splitlines()) == TEXTS
    disturbed, calls = job(tmp_path / "other", encoder), tmp_path / "other.txt"
    moments, killed = np.random.default_rng(len(encoder)), 0
    for _ in range(KILLS):
        killed += work(disturbed, calls, kill_after_s=moments.uniform(0, 0.5)) == -signal.SIGKILL
    assert killed >= 2, "it was done before it could be killed"
    assert work(disturbed, calls) == 0
    assert content(tmp_path / "other") == content(tmp_path / "one")
    times = Counter(calls.read_text().splitlines())
    assert len(times) >= TEXTS
    again = sum(count - 1 for count in times.values())
    assert again <= killed * CHUNK, f"{again} texts were encoded twice after {killed} kills"
