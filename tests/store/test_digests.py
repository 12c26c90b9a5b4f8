from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from harness.store import digests
from harness.store.cache import Cache, file_digest
from harness.store.cache_entries import list_entries
from harness.store.digests import steady_digest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return Cache()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files whose content was read, in order."""
    files = list[Path]()

    def reading(path: Path, algorithm: str) -> str:
        files.append(path)
        return file_digest(path, algorithm)

    monkeypatch.setattr(digests, "file_digest", reading)
    return files


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that was changed an hour ago, by the clock of this module."""
    path = tmp_path / "large.jar"
    path.write_bytes(b"one")
    later = time.time_ns() + 3_600_000_000_000
    monkeypatch.setattr(digests.time, "time_ns", lambda: later)
    digests._remembered.cache_clear()
    return path


def forget() -> None:
    """As in another process."""
    digests._remembered.cache_clear()


def test_a_file_that_stays_is_read_once_for_all_processes(file: Path, cache: Cache, read: list[Path]):
    for _ in range(2):
        assert steady_digest(file) == hashlib.sha256(b"one").hexdigest()
        forget()
    assert read == [file]
    assert [entry.kind for entry in list_entries(cache)] == ["digests"]


def test_digests_by_two_algorithms_are_remembered_beside_each_other(file: Path, cache: Cache, read: list[Path]):
    for _ in range(2):
        assert steady_digest(file, "md5") == hashlib.md5(b"one", usedforsecurity=False).hexdigest()
        assert steady_digest(file) == steady_digest(file, "sha256") == hashlib.sha256(b"one").hexdigest()
        forget()
    assert read == [file, file]


def test_other_content_of_the_same_size_and_date_is_another_digest(file: Path, cache: Cache, read: list[Path]):
    steady_digest(file)
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # clocks of file systems tick every few milliseconds
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert steady_digest(file) == hashlib.sha256(b"two").hexdigest()
    assert read == [file, file]


def test_a_file_that_was_changed_just_now_is_not_remembered(tmp_path: Path, cache: Cache):
    path = tmp_path / "new.jar"
    path.write_bytes(b"one")
    assert steady_digest(path) == hashlib.sha256(b"one").hexdigest()
    assert list_entries(cache) == []


def test_a_link_is_its_file(file: Path, cache: Cache, read: list[Path], tmp_path: Path):
    (tmp_path / "link.jar").symlink_to(file)
    assert steady_digest(tmp_path / "link.jar") == steady_digest(file)
    assert read == [file]


def test_a_damaged_entry_is_made_anew(file: Path, cache: Cache, read: list[Path]):
    steady_digest(file)
    forget()
    (list_entries(cache)[0].path / "sha256").write_text("0" * 64)
    assert steady_digest(file) == hashlib.sha256(b"one").hexdigest()
    assert read == [file, file]


def test_a_cache_that_cannot_be_written_is_done_without(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "no folder").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "no folder"))
    assert steady_digest(file) == hashlib.sha256(b"one").hexdigest()
