"""Every measurement can be started, and stands in the page of results with its command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

SCRIPTS = sorted((Path(__file__).resolve().parents[2] / "benchmarks").glob("*.py"))
# one process for all: most of the time of each is what it imports
STARTS = """
import runpy, sys, traceback
sys.path.insert(0, sys.argv[1])
for script in sys.argv[2:]:
    try:
        sys.argv = [script, "--help"]
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        print(f"{script} ended with {end.code or 0}")
    except Exception:
        traceback.print_exc()
"""


@pytest.fixture(scope="module")
def said(repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", STARTS, str(repository / "benchmarks"), *map(str, SCRIPTS)],
        env={**os.environ, "PYTHONPATH": str(repository)},
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_it_starts_and_is_reported(script: Path, said: subprocess.CompletedProcess[str]) -> None:
    assert f"{script} ended with 0\n" in said.stdout, said.stderr
    assert f"python benchmarks/{script.name}" in (script.parent / "README.md").read_text(encoding="utf-8")
