"""Files that others may read, or not: results have the permissions that the process gives every file."""

from __future__ import annotations

import gzip
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness
from harness import Dataset
from harness.results.baseline import save_baseline
from harness.store.disk import replacing


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    former = os.umask(request.param)
    yield request.param
    os.umask(former)


def test_every_file_of_a_result_follows_the_umask(umask: int, tmp_path: Path) -> None:
    dataset = Dataset.of({"d1": "a word"}, {"q1": "word"}, {"q1": {"d1": 1}}, name="one")
    options = {"isolation": "none", "timing": False, "save_runs": "trec", "out": tmp_path / "result"}
    comparison = harness.compare("csr", dataset, **options)
    save_baseline(comparison, tmp_path / "baseline.json")
    written = [tmp_path / "result", *(tmp_path / "result").rglob("*"), tmp_path / "baseline.json"]
    assert {".json", ".html", ".parquet", ".gz"} <= {path.suffix for path in written}
    for path in written:
        full = 0o777 if path.is_dir() else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == full & ~umask, path.relative_to(tmp_path)


def test_a_replaced_file_is_whole_or_as_before(tmp_path: Path) -> None:
    path = tmp_path / "run.gz"
    with replacing(path) as stream:
        stream.write(b"first")
    with pytest.raises(TypeError), replacing(path) as stream:
        stream.write(b"second", None)  # type: ignore[call-arg]
    assert gzip.decompress(path.read_bytes()) == b"first"
    assert list(tmp_path.iterdir()) == [path]
