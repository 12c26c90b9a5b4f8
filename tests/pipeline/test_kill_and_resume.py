"""SIGKILL, then `--resume missing`: a few rounds of the measurement in `benchmarks/`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from small_world import write_collection
from warm_harness import harness_command

pytestmark = pytest.mark.integration


def test_a_killed_comparison_ends_as_an_undisturbed_one(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(repository / "benchmarks")
    measurement = importlib.import_module("kill_and_resume")
    monkeypatch.setattr(measurement, "RESUMING", harness_command())
    # without the JVM of Lucene's analysis, which tests of interruptions have: each round starts with an empty cache
    backends = "csr:analyzer=whitespace,csr:analyzer=whitespace;k1=1.5"
    collection = str(write_collection(tmp_path / "small"))
    arguments = ["--backends", backends, "--dataset", collection, "--kills", "2", "--k", "3", "--victims", "both"]
    monkeypatch.setattr(sys, "argv", ["kill_and_resume.py", *arguments])
    code, shown = measurement.main(), capsys.readouterr().out
    assert code == 0, shown
    assert "2 of 2 rounds ended as an undisturbed comparison, with nothing left behind." in shown
