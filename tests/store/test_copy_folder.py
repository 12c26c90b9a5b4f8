"""Copies of an index: every file, holes as holes, and a word about room before anything is written."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.errors import EngineUnavailableError
from harness.store.disk import allocated_bytes, copy_folder, spooled
from harness.testing import RecordingProgress

MIB = 1 << 20


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "plain").write_bytes(b"plain")
    (folder / "deep" / "er" / "nothing").write_bytes(b"")
    with (folder / "deep" / "holes").open("wb") as file:
        file.write(b"start")
        file.seek(20 * MIB)
        file.write(b"middle")
        file.truncate(50 * MIB)
    with (folder / "all-hole").open("wb") as file:
        file.truncate(MIB)
    return folder


def content(folder: Path) -> dict[str, bytes | None]:
    paths = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in paths}


def copied(source: Path) -> tuple[Path, RecordingProgress]:
    target, progress = source.parent / "target", RecordingProgress()
    target.mkdir()
    copy_folder(source, target, progress)
    return target, progress


def test_everything_is_copied_and_holes_stay_holes(source: Path) -> None:
    target, progress = copied(source)
    assert content(target) == content(source)
    assert allocated_bytes(target) <= allocated_bytes(source) + MIB
    ((phase, total),) = progress.phases
    assert (phase, total) == ("copy", allocated_bytes(source))
    assert progress.advanced[0] >= len(b"start") + len(b"middle") + len(b"plain")


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EOPNOTSUPP])
def test_without_the_kernels_help_the_copy_is_the_same(
    source: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, "not here")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    assert content(copied(source)[0]) == content(source)


def test_other_failures_are_told(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    with pytest.raises(EngineUnavailableError, match=r"cannot be copied: .*No space left"):
        copied(source)


def test_a_full_disk_is_noticed_before_anything_is_copied(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(source)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10))
    with pytest.raises(EngineUnavailableError, match=r"and '.*target' has 10 free"):
        copied(source)
    assert not list((source.parent / "target").iterdir())


def test_a_spooled_array_is_the_same_and_leaves_no_file(tmp_path: Path) -> None:
    for array in (np.arange(5, dtype=np.int32), np.array([], dtype=np.float32), np.float32([0.1, -2.5])):
        mapped = spooled(array, tmp_path)
        assert mapped.dtype == array.dtype
        assert mapped.tolist() == array.tolist()
    assert list(tmp_path.iterdir()) == []
