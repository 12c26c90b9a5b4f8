"""Kernels are compiled before any backend's time, memory and deadline begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_world import write_collection

import harness

KERNELS = """
from harness.data.jit import kernel
from {module} import Pair

@kernel
def added(pair: Pair) -> int:
    return pair.one + pair.other
"""
PAIR = """
from typing import NamedTuple

class Pair(NamedTuple):
    one: int
    other: int
"""


class _Recorder:
    """A display that notes which section began which phase."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, str]] = []
        self._label = ""

    def section(self, label: str) -> _Recorder:
        self._label = label
        return self

    def done(self, label: str, outcome: str) -> None:
        """Not needed here."""

    def start(self, phase: str, total: int | None) -> None:
        self.phases.append((self._label, phase))

    def advance(self, amount: int) -> None:
        """Not needed here."""


def test_the_reference_is_compiled_before_the_first_backend_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.pipeline.compare._compiled", set())
    recorder = _Recorder()
    harness.compare("csr:analyzer=whitespace", write_collection(tmp_path), k=2, isolation="none", display=recorder)
    sections = [section for section, _ in recorder.phases]
    assert ("reference", "compile, once per installation") in recorder.phases
    assert sections.index("reference") < sections.index("csr:analyzer=whitespace")


def test_what_an_earlier_version_left_on_disk_is_compiled_again(tmp_path: Path) -> None:
    """Its index names a module that is gone, and Numba reads it before it looks at its age."""

    def run(module: str) -> list[str]:
        (tmp_path / f"{module}.py").write_text(PAIR)
        (tmp_path / "kernels.py").write_text(KERNELS.format(module=module))
        code = "import kernels as k; print(k.added(k.Pair(3, 9)), sum(k.added.stats.cache_hits.values()))"
        found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr
        return found.stdout.split()

    assert [run("arithmetic"), run("arithmetic")] == [["12", "0"], ["12", "1"]]
    (tmp_path / "arithmetic.py").unlink()
    assert [run("doubling"), run("doubling")] == [["12", "0"], ["12", "1"]]
