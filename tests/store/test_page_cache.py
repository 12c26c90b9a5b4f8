"""Dropping an index from the page cache."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.store.disk import drop_from_page_cache, resident_share

LASTING = Path("/var/tmp")


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk: `make test` keeps other temporary files in memory."""
    with tempfile.TemporaryDirectory(dir=LASTING if LASTING.is_dir() else None) as folder:
        yield Path(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops pages of a file on request")
def test_an_index_leaves_the_page_cache(on_disk: Path) -> None:
    (on_disk / "inner").mkdir()
    (on_disk / "inner" / "index").write_bytes(os.urandom(5_000_000))
    (on_disk / "empty").touch()
    if resident_share(on_disk) is None:
        pytest.skip("this system does not tell which pages are in memory")
    assert resident_share(on_disk) == 1.0
    drop_from_page_cache(on_disk)
    if resident_share(on_disk) == 1.0:
        pytest.skip("files of /var/tmp are kept in memory on this machine")
    assert resident_share(on_disk) == 0.0
    (on_disk / "inner" / "index").read_bytes()
    assert (resident_share(on_disk) or 0) > 0.9


def test_nothing_has_no_share(tmp_path: Path) -> None:
    assert resident_share(tmp_path) is None
