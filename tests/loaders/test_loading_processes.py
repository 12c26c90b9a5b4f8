"""Several processes that prepare the same collection in the same cache at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.integration

LOAD = """
import logging, sys
from pathlib import Path
from harness.store.cache import Cache
from harness.loaders import load_dataset

logging.basicConfig(level=logging.WARNING)
dataset = load_dataset("cacm", cache=Cache(Path(sys.argv[1])))
print(len(dataset.corpus), dataset.corpus.digest)
"""


def test_processes_that_prepare_the_same_collection_at_once(tmp_path, repository):
    command = [sys.executable, "-c", LOAD, str(tmp_path)]
    running = [
        subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len({output for output, _ in outputs}) == 1
    assert outputs[0][0].startswith("3204 ")
    assert [errors for _, errors in outputs] == [""] * 3
    assert len(list(tmp_path.glob("texts/*/manifest.json"))) == 2
    assert not list(tmp_path.rglob("*.tmp"))
