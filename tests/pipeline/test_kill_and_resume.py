"""SIGKILL and Ctrl-C, then `--resume missing`: a few rounds of the measurement in `benchmarks/`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration


def test_a_killed_comparison_ends_as_an_undisturbed_one(repository: Path) -> None:
    script = repository / "benchmarks" / "kill_and_resume.py"
    # without the JVM of Lucene's analysis, which tests of interruptions have: each round starts with an empty cache
    backends = "csr:analyzer=snowball-english,csr:analyzer=whitespace"
    arguments = ["--backends", backends, "--kills", "2", "--k", "20"]
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": f"{repository}{os.pathsep}{os.environ['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 rounds ended as an undisturbed comparison, with nothing left behind." in done.stdout
