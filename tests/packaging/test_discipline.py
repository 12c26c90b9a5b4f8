"""Habits that the contributing guide promises, read from the source, where the linter does not check them."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

# Where `except Exception` or `suppress(Exception)` may stand, and why.
BOUNDARIES = {
    "loaders/registry.py": "a loader of another package that cannot be imported or made: the others go on",
    "loaders/other_packages.py": "a loader of another package: whatever it raises is named with loader and package",
    "cli/app.py": "the command line: a traceback, how to report it, and an exit code of its own",
    "worker/main.py": "a module that cannot be imported early: whoever needs it imports it again, and says why",
    "worker/dispatch.py": "one backend's end: whatever an engine lets through is its failure, with the traceback",
    "metrics/functions.py": "a metric of another package: whatever it raises fails the scoring, with metric and query",
    "registry/foreign_code.py": "an engine's class, card or formula of another package: what it raises is named",
    "doctor/machine.py": "a check that breaks is itself a finding, and hides no other",
    "engines/server_collection.py": "hands what happened in a thread with a deadline over to the one that waits",
    "engines/chroma/embedded.py": "a panic of the engine is a BaseException that cannot be imported",
    "engines/lancedb/engine.py": "a panic of the engine is a BaseException that cannot be imported",
    "engines/callable/python_callable.py": "whatever the code of a user raises fails one question, with its traceback",
    "engines/qdrant/edge.py": "Edge raises bare Exception objects; whatever is not its own is raised again",
}


class Module:
    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.text = path.relative_to(root), path.read_text(encoding="utf-8")

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @functools.cached_property
    def handlers(self) -> list[ast.ExceptHandler]:
        nodes = ast.walk(self.tree) if "except" in self.text else ()
        return [node for node in nodes if isinstance(node, ast.ExceptHandler)]

    @functools.cached_property
    def suppressions(self) -> list[ast.Call]:
        nodes = ast.walk(self.tree) if "suppress(" in self.text else ()
        return [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress")]


@pytest.fixture(scope="module")
def modules(repository: Path) -> list[Module]:
    root = repository / "harness"
    return [Module(path, root) for path in sorted(root.rglob("*.py"))]


def test_no_broad_except_outside_the_boundaries(modules: list[Module]) -> None:
    def is_broad(caught: list[ast.expr]) -> bool:
        named = {name for kind in caught for name in re.findall(r"\w+", ast.unparse(kind))}
        return bool(named & {"Exception", "BaseException"})

    def passes_on(handler: ast.ExceptHandler) -> bool:
        """One that cleans up and ends with a bare `raise` hides nothing."""
        last = handler.body[-1]
        return isinstance(last, ast.Raise) and last.exc is None

    broad = [
        str(module.path)
        for module in modules
        for caught in (
            *([one.type or ast.Name("Exception")] for one in module.handlers if not passes_on(one)),
            *(one.args for one in module.suppressions),
        )
        if is_broad(caught)
    ]
    assert sorted(broad) == sorted(BOUNDARIES), "one handler for each boundary"


def test_no_exception_is_swallowed(modules: list[Module]) -> None:
    assert [
        f"{module.path}:{handler.lineno}"
        for module in modules
        for handler in module.handlers
        if all(isinstance(one, ast.Pass) for one in handler.body)
    ] == []


def test_packages_list_their_names(modules: list[Module]) -> None:
    """In a module an underscore marks what is private. That listed names exist is the linter's to check (F822)."""
    for module in modules:
        if module.path.name == "__init__.py" and len(module.tree.body) > 1:
            targets = {
                ast.unparse(target)
                for node in module.tree.body
                if isinstance(node, ast.Assign | ast.AnnAssign)
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            }
            assert "__all__" in targets, f"{module.path} defines names but no __all__"


def test_golden_files_belong_to_tests(repository: Path, golden_orphans: list[Path]) -> None:
    assert golden_orphans == [], "no test reads these"
    folder = repository / "tests" / "golden"
    modules = {path.stem.removeprefix("test_") for path in (repository / "tests").rglob("test_*.py")}
    assert {path.parent.name for path in folder.rglob("*.txt")} <= modules
    assert [path.name for path in folder.iterdir() if path.is_file() and path.suffix != ".py"] == []


def test_no_path_of_somebodys_machine_in_the_repository(repository: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=repository, capture_output=True, text=True, check=True)
    homes = [f"/{folder}/" for folder in ("home", "root", "Users")]
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        path = repository / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yml", ".json", ".html", ""} and path.is_file():
            text = path.read_text(encoding="utf-8")
            places = [*homes, "/tmp/"] if name.startswith("reports/") else homes
            found += [f"{name}: {place}" for place in places if place in text]
    assert found == []
