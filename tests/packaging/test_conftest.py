"""What `tests/conftest.py` adds to pytest: golden files, a table of skipped tests, a switch that forbids skips."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.skip(reason="no engine here")
def test_one(): ...

def test_two():
    pytest.skip("no collection here\\nnor there")

@pytest.mark.xfail(strict=True, reason="never")
def test_three():
    assert False

def test_four(): ...
"""


@pytest.fixture
def project(repository: Path, tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_bytes((repository / "tests" / "conftest.py").read_bytes())
    (tmp_path / "tests" / "test_some.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "tests" / "test_module.py").write_text(
        "import pytest\npytest.importorskip('nothing_of_the_kind', reason='no such module')\n", encoding="utf-8"
    )
    return tmp_path


def run(project: Path, forbid: str = "", *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments, "tests"],
        cwd=project,
        env={**environment, "HARNESS_FORBID_SKIPS": forbid, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n", "1")])
def test_the_table_counts_reasons(project: Path, workers: tuple[str, ...]) -> None:
    result = run(project, "", *workers)
    assert result.returncode == 0, result.stdout
    rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "1 tests/test_some.py no engine here" in rows
    assert "1 tests/test_some.py no collection here" in rows
    assert "1 tests/test_module.py no such module" in rows
    assert "1 passed, 3 skipped, 1 xfailed" in result.stdout


@pytest.mark.parametrize(
    ("forbid", "forbidden"),
    [("1", {"no such module", "no engine here", "no collection here"}), ("engine", {"no engine here"})],
)
def test_forbidden_skips_fail(project: Path, forbid: str, forbidden: set[str]) -> None:
    result = run(project, forbid, "--continue-on-collection-errors")
    assert result.returncode == 1
    named = re.findall(r"^skipped where HARNESS_FORBID_SKIPS forbids it: (.+)$", result.stdout, re.MULTILINE)
    assert set(named) == forbidden
    assert "1 passed" in result.stdout
    assert "1 xfailed" in result.stdout


GOLDEN = """
import pytest

@pytest.mark.parametrize("word", ["one", "two"])
def test_word(golden, word):
    golden(word + "\\n")

def test_orphans(golden_orphans):
    assert [str(path) for path in golden_orphans] == []
"""


def test_golden_files_are_written_compared_and_never_left_behind(project: Path) -> None:
    (project / "tests" / "test_some.py").write_text(GOLDEN, encoding="utf-8")
    folder = project / "tests" / "golden" / "some"
    assert "2 failed" in run(project).stdout
    assert run(project, "", "--update-golden").returncode == 0
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "word-one.txt": "one\n",
        "word-two.txt": "two\n",
    }
    assert run(project).returncode == 0
    (folder / "word-one.txt").write_text("another\n")
    (folder / "word-three.txt").write_text("left behind\n")
    result = run(project)
    assert "2 failed, 1 passed" in result.stdout
    assert "differs from tests/golden/some/word-one.txt" in result.stdout
    assert "some/word-three.txt" in result.stdout
