"""What is built, and whether it finds its cards wherever it is installed."""

from __future__ import annotations

import json
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from installation import Environment, build, tracked_copy

pytestmark = pytest.mark.packaging

CARDS = """
import json, pathlib, harness
from harness.registry.lookup import find_cards, find_families
datasets = {**find_cards("datasets"), **find_families()}
print(json.dumps({
    "package": str(pathlib.Path(harness.__file__).parent),
    "backends": {name: str(card.path) for name, card in find_cards("backends").items()},
    "datasets": {name: str(card.path) for name, card in datasets.items()},
}))
"""


@pytest.fixture(scope="module")
def clean_copy(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tracked_copy(repository, tmp_path_factory.mktemp("checkout"))


@pytest.fixture(scope="module")
def distributions(clean_copy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(clean_copy, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def of_the_wheel(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("of-the-wheel") / "venv")
    environment.install(str(distributions[1]))
    return environment


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment into which nothing is installed."""
    return Environment(tmp_path_factory.mktemp("without") / "venv")


def names_in_wheel(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(name for name in archive.namelist() if ".dist-info/" not in name)


def card_names(repository: Path, kind: str) -> list[str]:
    return sorted(path.stem for path in (repository / kind).glob("*.toml"))


def test_the_wheel_holds_exactly_the_golden_list(
    distributions: tuple[Path, Path], golden: Callable[[str], None]
) -> None:
    golden("\n".join(names_in_wheel(distributions[1])) + "\n")


def test_the_wheel_carries_licence_and_metadata(distributions: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(distributions[1]) as archive:
        info = {name.partition(".dist-info/")[2]: name for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(info["METADATA"]).decode()
        scripts = archive.read(info["entry_points.txt"]).decode()
    assert {"licenses/LICENSE", "licenses/NOTICE"} <= info.keys()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "harness = harness.cli.app:main" in scripts
    assert "[pytest11]\nharness = harness.integrations.pytest_plugin" in scripts


def test_the_source_distribution_is_the_project_and_nothing_else(
    distributions: tuple[Path, Path], clean_copy: Path
) -> None:
    with tarfile.open(distributions[0]) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    expected = {str(path.relative_to(clean_copy)) for path in clean_copy.rglob("*") if path.is_file()}
    assert packed - {"PKG-INFO"} == expected


def test_cards_are_found_from_the_wheel(of_the_wheel: Environment, repository: Path, tmp_path: Path) -> None:
    found = json.loads(of_the_wheel.run(of_the_wheel.python, "-c", CARDS, cwd=tmp_path).stdout)
    assert Path(found["package"]).is_relative_to(of_the_wheel.packages)
    for kind in ("backends", "datasets"):
        assert sorted(found[kind]) == card_names(repository, kind)
        assert all(Path(path).is_relative_to(found["package"]) for path in found[kind].values())
    listed = of_the_wheel.run(of_the_wheel.harness, "backends", "--format", "json", cwd=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert [card["name"] for card in json.loads(listed.stdout)] == card_names(repository, "backends")


def test_the_bundled_collection_loads_from_the_wheel(of_the_wheel: Environment, tmp_path: Path) -> None:
    code = "from harness.loaders import load_dataset; print(len(load_dataset('cacm').corpus))"
    loaded = of_the_wheel.run(of_the_wheel.python, "-c", code, cwd=tmp_path)
    assert loaded.stdout == "3204\n", loaded.stderr


def test_pytest_finds_the_plugin_of_the_wheel(of_the_wheel: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_plugin.py").write_text(
        "def test_plugin(pytestconfig):\n"
        "    plugin = pytestconfig.pluginmanager.get_plugin('harness')\n"
        f"    assert plugin.__file__.startswith({str(of_the_wheel.packages)!r})\n"
        "    assert pytestconfig.getoption('--golden-set') == []\n",
        encoding="utf-8",
    )
    done = of_the_wheel.run(of_the_wheel.python, "-m", "pytest", "-q", "-W", "error", cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_cards_are_found_from_an_editable_install(clean_copy: Path, repository: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    environment.install("--editable", str(clean_copy))
    found = json.loads(environment.run(environment.python, "-c", CARDS, cwd=tmp_path).stdout)
    assert Path(found["package"]) == clean_copy / "harness"
    for kind in ("backends", "datasets"):
        assert sorted(found[kind]) == card_names(repository, kind)
        assert all(Path(path).parent == clean_copy / kind for path in found[kind].values())


def test_cards_are_found_from_a_checkout(clean_copy: Path, repository: Path, without: Environment) -> None:
    found = json.loads(without.run(without.python, "-c", CARDS, cwd=clean_copy).stdout)
    assert Path(found["package"]) == clean_copy / "harness"
    for kind in ("backends", "datasets"):
        assert sorted(found[kind]) == card_names(repository, kind)


@pytest.mark.parametrize("folder", ["backends", "datasets", "reports"])
def test_no_python_beside_the_cards(repository: Path, folder: str) -> None:
    assert list((repository / folder).rglob("*.py")) == []


def test_no_module_of_the_package_is_called_datasets(repository: Path) -> None:
    assert list((repository / "harness").rglob("datasets")) == []
    assert list((repository / "harness").rglob("datasets.py")) == []


def test_hugging_face_datasets_is_importable_from_the_repository(repository: Path, without: Environment) -> None:
    code = "import datasets; print(datasets.Dataset.__module__, datasets.__file__)"
    imported = without.run(without.python, "-c", code, cwd=repository)
    if "No module named 'datasets'" in imported.stderr:
        pytest.skip("Hugging Face's datasets is not installed (it comes with the extra 'lucene')")
    module, path = imported.stdout.split()
    assert module.startswith("datasets.")
    assert not Path(path).is_relative_to(repository / "datasets")
    assert imported.returncode == 0, sys.version
