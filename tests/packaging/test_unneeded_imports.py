"""No process of a command loads pandas (a third of a second and 50 MB in each), nor SciPy's matrices where none is.

Nor h5py without an HDF5 file, nor torch and Transformers where nothing is encoded by a model: here commands run as if
neither of the two was installed.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

# Notes that a Python process began, and when it first looks for some packages; hides those that are to be missing.
WATCH = """
import os, sys
from importlib.machinery import PathFinder

def note(word):
    with open(os.environ["HARNESS_TEST_LOG"], "a") as log:
        log.write(f"{word} {sys.orig_argv}" + chr(10))

MISSING = ("torch", "transformers")

class Watch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in ("pandas", "scipy.sparse", "h5py", *MISSING):
            note(name)
        return None if name in MISSING else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Watch
note("began")
"""


class Watched:
    """The command line, with a watch on imports in every process that it starts."""

    def __init__(self, repository: Path, folder: Path) -> None:
        (folder / "watch").mkdir()
        (folder / "watch" / "sitecustomize.py").write_text(WATCH)
        self.log, self.repository = folder / "log", repository
        path = os.pathsep.join([str(folder / "watch"), str(repository), os.environ.get("PYTHONPATH", "")])
        self.environment = {
            **os.environ,
            "PYTHONPATH": path,
            "HARNESS_TEST_LOG": str(self.log),
        }

    def run(self, statement: list[str]) -> list[str]:
        """What the processes of a command noted, each with its own command line."""
        self.log.unlink(missing_ok=True)
        result = subprocess.run(
            [sys.executable, *statement],
            cwd=self.repository,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return self.log.read_text().splitlines()

    def harness(self, folder: Path, *commands: str) -> list[str]:
        """What commands note that one process runs in ``folder``, each as if it was alone."""
        program = f"""
import os, shlex, sys
from harness.cli.app import main
os.chdir({str(folder)!r})
for command in {commands}:
    sys.argv = ["harness", *shlex.split(command)]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""
        return self.run(["-c", program])


@pytest.fixture(scope="module")
def watched(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(repository, tmp_path_factory.mktemp("watched"))


def workers(notes: list[str]) -> int:
    return sum(note.startswith("began") and "harness.worker.main" in note for note in notes)


def looked_for(package: str, notes: list[str]) -> list[str]:
    return [note for note in notes if note.split()[0] == package]


def test_the_watch_sees_every_process(watched: Watched) -> None:
    program = (
        "import subprocess, sys; "
        "subprocess.run([sys.executable, '-c', 'import os, pyarrow, scipy.sparse; pyarrow.array([1]); os._exit(0)'])"
    )
    notes = watched.run(["-c", program])
    assert [note.split()[0] for note in notes] == ["began", "began", "scipy.sparse", "pandas"]


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_hidden_package_is_missing(watched: Watched, package: str) -> None:
    program = f"""
from importlib.util import find_spec
assert find_spec("{package}") is None
try:
    import {package}
except ModuleNotFoundError as error:
    assert error.name == "{package}"
else:
    raise SystemExit("it was imported")
"""
    assert len(looked_for(package, watched.run(["-c", program]))) == 2


def test_no_process_of_a_comparison_and_of_what_comes_after_it(watched: Watched, tmp_path: Path) -> None:
    """One process runs the commands in turn, and loads nothing that any of them would load."""
    packages = {"csr": "harness", "qdrant": "qdrant_edge", "lucene": "jnius_config"}
    backends = [name for name, package in packages.items() if importlib.util.find_spec(package) is not None]
    small = "--dataset chunking-eval --sample-queries 5 --k 5 --filter document=chatlogs"
    scored = "--qrels out/qrels/chunking-eval.tsv --run out/runs/chunking-eval/csr.trec.gz"
    notes = watched.harness(
        tmp_path,
        f"compare --backends {','.join(backends)} {small} --out out --save-baseline baseline.json",
        "regress --baseline baseline.json --backends csr --out again --rule tolerance",
        "report out --format html",
        "diff out out --out diff",
        f"eval {scored}",
    )
    assert workers(notes) >= len(backends) + 1
    for package in ("pandas", "torch", "transformers", "h5py"):
        assert looked_for(package, notes) == []


def test_no_process_of_a_check(watched: Watched, tmp_path: Path) -> None:
    notes = watched.harness(tmp_path, "check chunking-eval --backends csr --out out")
    assert workers(notes) >= 1
    assert looked_for("pandas", notes) == []
    assert looked_for("scipy.sparse", notes) == []
