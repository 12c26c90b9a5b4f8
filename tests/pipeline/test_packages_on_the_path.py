"""What other packages offer is looked up once in a process, and anew where the path has changed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import Distribution, packages_distributions, version
from pathlib import Path

import pytest

from harness.loaders.registry import loaders
from harness.pipeline import resume

LOADER = """
class Loader:
    name = "of-another"
    def matches(self, spec): return False
    def load(self, spec): raise NotImplementedError
"""


def install(folder: Path) -> None:
    described = folder / "another-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[harness.loaders]\nof-another = loader_of_another:Loader\n")
    (described / "top_level.txt").write_text("loader_of_another\n")
    (folder / "loader_of_another.py").write_text(LOADER)


def test_a_loader_is_found_where_its_package_is_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    assert "of-another" not in loaders()
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        assert "of-another" in loaders()
        assert loaders() is loaders()
    assert "of-another" not in loaders()


def test_the_versions_of_engines_are_read_again_when_something_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    really = resume.distributions

    def counted() -> Iterable[Distribution]:
        nonlocal read
        read += 1
        return really()

    monkeypatch.setattr(resume, "distributions", counted)
    monkeypatch.syspath_prepend(tmp_path)
    assert [resume._distributions_of("loader_of_another") for _ in range(3)] == [{}] * 3
    assert read == 1
    install(tmp_path)
    assert [resume._distributions_of("loader_of_another") for _ in range(3)] == [{"another": "1.0"}] * 3
    assert read == 2


def test_the_distributions_of_packages_are_those_of_the_library_that_lists_all() -> None:
    listed = packages_distributions()
    for package in ("numpy", "yaml", "_pytest", "py", "no_such_package"):
        expected = {name: version(name) for name in listed.get(package, ())}
        assert resume._distributions_of(package) == expected
