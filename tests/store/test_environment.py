"""The state of the code that ran is that of the whole package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.store.environment import harness_state


def git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_result_names_the_commit_of_the_package(repository: Path) -> None:
    if shutil.which("git") is None or not (repository / ".git").exists():
        pytest.skip("the package does not lie in a checkout")
    state = harness_state()
    assert state.commit == git(repository, "rev-parse", "HEAD")
    assert state.dirty == bool(git(repository, "status", "--porcelain", "--", "harness"))
