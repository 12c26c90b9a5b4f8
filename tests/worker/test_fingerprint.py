"""The hashes around an external index notice every kind of change, and name the file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from harness.errors import EngineFailureError, EngineUnavailableError, IndexChangedError
from harness.testing import RecordingProgress
from harness.worker.attach import changed_too, fingerprint, unchanged


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "segments_1").write_bytes(b"segments")
    (tmp_path / "deep" / "er" / "store").write_bytes(b"")
    return tmp_path


@pytest.fixture
def pending(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("job") / "hashes.json"


def test_every_file_is_hashed_with_progress_in_bytes(folder: Path) -> None:
    progress = RecordingProgress()
    found = fingerprint(folder, progress, "hash before")
    assert dict(found.files) == {
        "deep/er/store": hashlib.sha256(b"").hexdigest(),
        "segments_1": hashlib.sha256(b"segments").hexdigest(),
    }
    assert found.bytes == 8
    assert progress.phases == [("hash before", 8)]
    assert progress.advanced == [8]


def test_a_file_is_hashed_without_its_neighbours(folder: Path) -> None:
    found = fingerprint(folder / "segments_1", RecordingProgress(), "hash before")
    assert dict(found.files) == {"segments_1": hashlib.sha256(b"segments").hexdigest()}


def test_one_digest_names_the_content_wherever_it_lies(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    copy = tmp_path_factory.mktemp("copy")
    (copy / "deep" / "er").mkdir(parents=True)
    for name in ("segments_1", "deep/er/store"):
        (copy / name).write_bytes((folder / name).read_bytes())
    digest = fingerprint(folder, RecordingProgress(), "hash").sha256
    assert fingerprint(copy, RecordingProgress(), "hash").sha256 == digest
    (copy / "segments_1").rename(copy / "segments_2")
    assert fingerprint(copy, RecordingProgress(), "hash").sha256 != digest


def test_nothing_changed(folder: Path, pending: Path) -> None:
    progress = RecordingProgress()
    with unchanged(folder, progress, pending) as before:
        assert len(before.files) == 2
        assert pending.exists()
    assert not pending.exists()
    assert [phase for phase, _ in progress.phases] == ["hash before", "hash after"]


def write(path: Path) -> None:
    path.write_bytes(b"SEGMENTS")


def remove(path: Path) -> None:
    path.unlink()


def add(path: Path) -> None:
    path.with_name("new.lock").touch()


CHANGES = pytest.mark.parametrize(
    ("change", "named"), [(write, "segments_1"), (remove, "segments_1"), (add, "new.lock")]
)


@CHANGES
def test_a_change_is_an_error_that_names_the_file(
    folder: Path, pending: Path, change: Callable[[Path], None], named: str
) -> None:
    with (
        pytest.raises(IndexChangedError, match=f"changed while it was searched: {named}"),
        unchanged(folder, RecordingProgress(), pending),
    ):
        change(folder / "segments_1")


@CHANGES
def test_a_change_is_told_first_when_the_search_fails_too(
    folder: Path, pending: Path, change: Callable[[Path], None], named: str
) -> None:
    def change_and_fail() -> None:
        with unchanged(folder, RecordingProgress(), pending):
            change(folder / "segments_1")
            raise ZeroDivisionError("of nothing")

    with pytest.raises(IndexChangedError) as caught:
        change_and_fail()
    assert caught.value.problem.startswith(f"the index in '{folder}' changed while it was searched: {named}; ")
    assert "the search failed too: an unexpected error: ZeroDivisionError: of nothing" in caught.value.problem
    assert caught.value.log[-1] == "ZeroDivisionError: of nothing"
    assert not pending.exists()


def test_a_failure_that_changed_nothing_is_itself(folder: Path, pending: Path) -> None:
    progress = RecordingProgress()

    def fail() -> None:
        with unchanged(folder, progress, pending):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [phase for phase, _ in progress.phases] == ["hash before", "hash after"]


def test_what_a_killed_process_left_is_compared_by_another(folder: Path, pending: Path) -> None:
    class Killed(BaseException):
        pass

    def die() -> None:
        with unchanged(folder, RecordingProgress(), pending):
            raise Killed

    failure = EngineFailureError("the worker was killed", log=["its last line"])
    assert changed_too(pending, failure, RecordingProgress()) is failure, "nothing was hashed"
    with suppress(Killed):
        die()
    assert changed_too(pending, failure, RecordingProgress()) is failure, "nothing changed"
    with suppress(Killed):
        die()
    (folder / os.fsdecode(b"not UTF-8 \xff")).touch()
    found = changed_too(pending, failure, RecordingProgress())
    assert isinstance(found, IndexChangedError)
    assert found.problem.endswith("; the search failed too: the worker was killed")
    assert found.log == ("its last line",)


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def refuse(self: Path, mode: str = "r") -> object:
        if self.name == "segments_1":
            raise PermissionError(13, "Permission denied", str(self))
        return opened(self, mode)

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(EngineUnavailableError, match="segments_1"):
        fingerprint(folder, RecordingProgress(), "hash")


def test_an_index_that_cannot_be_read_any_more_has_changed(
    folder: Path, pending: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, pattern: str) -> object:
        raise PermissionError(13, "Permission denied", str(self))

    def lose_and_fail() -> None:
        with unchanged(folder, RecordingProgress(), pending):
            monkeypatch.setattr(Path, "rglob", refuse)
            raise ZeroDivisionError

    with pytest.raises(IndexChangedError, match="could be read before it was searched and cannot be now"):
        lose_and_fail()
