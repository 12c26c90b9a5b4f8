"""The example of the classic study, with a judge on a loopback port and random vectors for embeddings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from chat_stub import chat_server

QUERIES, JUDGED = 2, 4


def test_the_study_runs_and_shows_every_step(repository: Path, tmp_path: Path) -> None:
    with chat_server() as server:
        command = [sys.executable, str(repository / "examples" / "relevancy_study.py")]
        command += ["--no-timing", "--model", tmp_path.name, "--endpoint", server.url, "--embeddings", "random"]
        command += ["--first", "csr:analyzer=snowball-english"]
        command += ["--judged", str(JUDGED), "--sample-queries", str(QUERIES)]
        environment = {**os.environ, "PYTHONPATH": str(repository)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == QUERIES * JUDGED
    for title in (
        "Quality",
        "Made of other backends",
        "Second stages",
        "Differences from csr:analyzer=snowball-english",
    ):
        assert title in done.stdout
    assert "(≤ " in done.stdout
