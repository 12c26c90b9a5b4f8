"""Ctrl-C while backends run: the documented exit code, a message, nothing half-written, no process left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.integration

# A test run in the background ignores SIGINT, and its children inherit that.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from harness.cli.app import main
main()
"""


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("after_s", [0, 2], ids=["while the worker starts", "while it searches"])
@pytest.mark.parametrize("to_the_group", [True, False], ids=["as a terminal sends it", "to the parent alone"])
def test_ctrl_c_ends_everything(tmp_path: Path, repository: Path, to_the_group: bool, after_s: float) -> None:
    result = tmp_path / "result"
    command = [sys.executable, "-c", PROGRAM, "compare", "--backends", "csr", "--repeat", "10000", "--out", str(result)]
    with subprocess.Popen(
        command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 60
        while not (workers := descendants(process)):
            assert process.poll() is None
            assert time.monotonic() < deadline, "no worker was started"
            time.sleep(0.05)
        time.sleep(after_s)
        if to_the_group:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("harness: interrupted\n")
    assert "Traceback" not in err
    assert out == ""
    assert list(tmp_path.iterdir()) == []
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert alive == []
