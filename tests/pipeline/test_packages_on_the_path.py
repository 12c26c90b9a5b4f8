"""What other packages offer is looked up once in a process, and anew where the path has changed."""

from __future__ import annotations

from collections.abc import Mapping
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


def test_the_versions_of_adapters_are_read_again_when_something_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0
    really = resume.packages_distributions

    def counted() -> Mapping[str, list[str]]:
        nonlocal read
        read += 1
        return really()

    monkeypatch.setattr(resume, "packages_distributions", counted)
    monkeypatch.syspath_prepend(tmp_path)
    assert [resume._distributions().get("loader_of_another") for _ in range(3)] == [None] * 3
    assert read == 1
    install(tmp_path)
    assert [resume._distributions().get("loader_of_another") for _ in range(3)] == [["another"]] * 3
    assert read == 2
