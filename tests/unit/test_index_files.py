"""Dropping an index from the page cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from harness.execution.load.page_cache import drop, resident_share


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops pages of a file on request")
def test_an_index_leaves_the_page_cache(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "index").write_bytes(os.urandom(5_000_000))
    (tmp_path / "empty").touch()
    if resident_share(tmp_path) is None:
        pytest.skip("this system does not tell which pages are in memory")
    assert resident_share(tmp_path) == 1.0
    drop(tmp_path)
    if resident_share(tmp_path) == 1.0:
        pytest.skip("temporary files are kept in memory on this machine")
    assert resident_share(tmp_path) == 0.0
    (tmp_path / "inner" / "index").read_bytes()
    assert (resident_share(tmp_path) or 0) > 0.9


def test_nothing_has_no_share(tmp_path: Path) -> None:
    assert resident_share(tmp_path) is None
