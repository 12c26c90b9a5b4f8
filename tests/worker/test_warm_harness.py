"""What is run warm is what would be run: the same streams, folder, environment, exit code and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from small_world import write_cards, write_collection
from warm_harness import harness_command, script_command
from warm_process import WARM

import harness

pytestmark = [
    pytest.mark.usefixtures("warm_workers"),
    pytest.mark.integration,
    pytest.mark.skipif(not WARM, reason="what is warm on Linux is started as users do elsewhere"),
]

SCRIPT = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ.get("ANSWER"), "PATH" in os.environ, sys.stdin.read(), __name__)
print("to whom it may concern", file=sys.stderr)
import beside
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("command", [script_command, lambda: [sys.executable]], ids=["warm", "cold"])
def test_a_script_has_its_arguments_streams_folder_and_environment(command, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("print('imported')")
    done = subprocess.run(
        [*command(), str(tmp_path / "script.py"), "7", "two words"],
        cwd=tmp_path, env={"ANSWER": "42"}, input="given", capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = f"['7', 'two words'] {tmp_path} 42 False given __main__\nimported\n"
    assert (done.returncode, done.stdout, done.stderr) == (7, said, "to whom it may concern\n")


@pytest.mark.parametrize("arguments", [["--version"], ["eval"], ["backends", "none"], ["backends"]])
def test_a_command_says_and_ends_as_the_cold_one(arguments: list[str]) -> None:
    warm, cold = (
        subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        for command in (harness_command(), [sys.executable, "-m", "harness"])
    )
    assert (warm.returncode, warm.stdout, warm.stderr) == (cold.returncode, cold.stdout, cold.stderr)


def test_a_script_that_a_signal_ends_says_so_as_a_shell_does(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([*script_command(), str(tmp_path / "script.py")], check=False)
    assert done.returncode == 128 + signal.SIGKILL


def test_what_is_run_ends_with_who_asked_for_it(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import time; print('begun', flush=True); time.sleep(600)")
    command = [*script_command(), str(tmp_path / "script.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "begun\n"
        asking.kill()
        assert asking.stdout.read() == ""  # whoever held the pipe is gone


def test_a_worker_is_a_child_in_a_session_of_its_own_with_what_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = """
import os
from engines_for_tests import BruteForce

class Tells(BruteForce):
    def open(self, folder, ids):
        with open(os.environ["TOLD"], "w") as told:
            told.write(f"{os.getppid()} {os.getsid(0) == os.getpid()} {'HARNESS_WORKER' in os.environ} {os.getcwd()}")
        return super().open(folder, ids)
"""
    (tmp_path / "telling.py").write_text(engine)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    cards = write_cards(tmp_path / "cards", module="telling", good="Tells")
    compared = harness.compare("good", write_collection(tmp_path / "small"), cards=cards, k=3)
    assert compared.failed == []
    assert (tmp_path / "told").read_text() == f"{os.getpid()} True True {Path.cwd()}"
