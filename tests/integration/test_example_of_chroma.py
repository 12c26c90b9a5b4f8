"""The example of Chroma's graph, with fewer vectors: more effort finds more, and the table says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("chromadb", reason="the extra 'chroma' is not installed")

pytestmark = pytest.mark.integration


def test_more_effort_finds_more(repository: Path) -> None:
    script = repository / "examples" / "chroma_graph.py"
    sizes = ["--documents", "4000", "--dimensions", "128", "--queries", "50"]
    ran = subprocess.run([sys.executable, script, *sizes], capture_output=True, text=True, timeout=300, check=True)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ran.stdout.splitlines()[2:]]
    recalls = {name: float(recall) for name, recall, *_ in rows}
    assert {row[-1] for row in rows} == {"4,000"}
    assert recalls["defaults"] < 0.95 < recalls["ef_search=400;max_neighbors=32"]
