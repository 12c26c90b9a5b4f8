"""A backend in a package of its own: installed, found through its entry point, held to the contract, compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from installation import Environment, tracked_copy

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def environment(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("third-party")
    example = tracked_copy(repository, folder / "copy") / "examples" / "third-party-backend"
    made = Environment(folder / "venv")
    (made.packages / "harness.pth").write_text(str(repository), encoding="utf-8")
    made.install(str(example))
    return made


def test_the_card_is_found_through_the_entry_point(environment: Environment, tmp_path: Path) -> None:
    listed = environment.run(environment.python, "-m", "harness", "backends", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "scipy" in listed.stdout
    assert "SciPy's sparse matrix product" in listed.stdout


def test_the_engine_keeps_the_contract(environment: Environment, repository: Path, tmp_path: Path) -> None:
    tests = repository / "examples" / "third-party-backend" / "tests"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", tests)
    result = environment.run(environment.python, *command, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout


def test_it_is_compared_like_any_other(environment: Environment, tmp_path: Path) -> None:
    backends = "scipy:analyzer=snowball-english,csr:analyzer=snowball-english"
    command = ("compare", "--backends", backends, "--k", "10", "--out", tmp_path / "out", "--format", "json")
    result = environment.run(environment.python, "-m", "harness", *command, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    assert '"scipy' in result.stdout
