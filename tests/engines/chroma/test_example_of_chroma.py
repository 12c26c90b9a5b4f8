"""The example of Chroma's graph, with fewer vectors: more effort finds more, and the table says so."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from installed import skip_module_without
from warm_harness import script_command

skip_module_without("chromadb")

pytestmark = pytest.mark.integration


def test_more_effort_finds_more(repository: Path) -> None:
    script = repository / "examples" / "chroma_graph.py"
    sizes = ["--documents", "2000", "--dimensions", "128", "--queries", "50"]
    ran = subprocess.run([*script_command(), script, *sizes], capture_output=True, text=True, timeout=300, check=True)
    builds, sweep = (_rows(table) for table in ran.stdout.split("\n\n"))
    recalls = {name: float(recall) for name, recall, *_ in builds}
    assert {row[-1] for row in builds} == {"2,000"}
    assert recalls["defaults"] < 0.985 < recalls["ef_search=400;max_neighbors=32"]
    assert [value for value, *_ in sweep] == ["10", "50", "100", "400"]
    found = [float(recall) for _, recall, *_ in sweep]
    assert found == sorted(found)
    assert found[0] < 0.9 < found[-1]
    assert {best for *_, best in sweep} <= {"yes", "no"}
    assert "yes" in [best for *_, best in sweep]


def _rows(table: str) -> list[list[str]]:
    """Cells of a table in Markdown, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
