from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from harness.errors import CacheError
from harness.store.cache import Cache, entry_lock
from harness.store.cache_entries import list_entries, remove_entry

KEY = {"file": "abc", "k1": 0.9, "nested": [1, None, True]}


class Builder:
    def __init__(self, text: str = "content") -> None:
        self.text, self.calls = text, 0

    def __call__(self, folder: Path) -> None:
        self.calls += 1
        (folder / "data").write_text(self.text)
        (folder / "inner").mkdir()
        (folder / "inner" / "more").write_text("more")


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def test_an_entry_is_built_once(cache):
    build = Builder()
    first, second = cache.get_or_build("toys", KEY, build), cache.get_or_build("toys", KEY, build)
    again = Cache(cache.root).get_or_build("toys", dict(reversed(KEY.items())), build)
    assert first == second == again
    assert build.calls == 1
    assert (first / "data").read_text() == "content"
    assert (first / "inner" / "more").read_text() == "more"


@pytest.mark.parametrize("other", [("toys", KEY | {"k1": 0.90001}), ("tins", KEY)])
def test_another_key_or_kind_is_another_entry(cache, other):
    build = Builder()
    assert cache.get_or_build("toys", KEY, build) != cache.get_or_build(*other, build)
    assert build.calls == 2


def truncate(entry: Path) -> None:
    (entry / "data").write_text("cont")


def flip_same_size(entry: Path) -> None:
    stat = (entry / "data").stat()
    (entry / "data").write_text("kontent")
    os.utime(entry / "data", ns=(stat.st_atime_ns, stat.st_mtime_ns))


def remove(entry: Path) -> None:
    (entry / "inner" / "more").unlink()


def break_manifest(entry: Path) -> None:
    (entry / "manifest.json").write_text('{"key"')


def empty_manifest(entry: Path) -> None:
    (entry / "manifest.json").write_text("[]")


def remove_manifest(entry: Path) -> None:
    (entry / "manifest.json").unlink()


def another_key(entry: Path) -> None:
    manifest = json.loads((entry / "manifest.json").read_text())
    manifest["key"]["kind"] = "other"
    (entry / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "damage", [truncate, flip_same_size, remove, break_manifest, empty_manifest, remove_manifest, another_key]
)
def test_a_damaged_entry_is_named_and_rebuilt(cache, damage, caplog):
    build = Builder()
    entry = cache.get_or_build("toys", KEY, build)
    damage(entry)
    assert Cache(cache.root).get_or_build("toys", KEY, build) == entry
    assert build.calls == 2
    assert (entry / "data").read_text() == "content"
    assert (entry / "inner" / "more").read_text() == "more"
    assert f"cache entry '{entry}' is damaged and is rebuilt" in caplog.text


def test_damage_within_one_process_is_noticed(cache):
    build = Builder()
    truncate(cache.get_or_build("toys", KEY, build))
    assert (cache.get_or_build("toys", KEY, build) / "data").read_text() == "content"


def test_a_failed_build_leaves_nothing(cache):
    def fail(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        cache.get_or_build("toys", KEY, fail)
    assert [path.suffix for path in (cache.root / "toys").iterdir()] == [".lock"]
    assert cache.get_or_build("toys", KEY, Builder()).is_dir()


def test_leftovers_of_a_killed_build_are_removed(cache):
    entry = cache.get_or_build("toys", KEY, Builder())
    left = entry.parent / f"{entry.name}.killed.tmp"
    left.mkdir()
    truncate(entry)
    cache.get_or_build("toys", KEY, Builder())
    assert not left.exists()


def test_a_full_disk_is_one_message(cache):
    def fill(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "data"))

    with pytest.raises(CacheError, match=r"is full\n.*HARNESS_CACHE"):
        cache.get_or_build("toys", KEY, fill)


def test_errors_of_the_source_pass_through(cache):
    def unreadable(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/corpus.jsonl")

    with pytest.raises(PermissionError):
        cache.get_or_build("toys", KEY, unreadable)


def test_a_cache_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match="cannot be written"):
        Cache(tmp_path / "file" / "cache").get_or_build("toys", KEY, Builder())


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that cannot be written")
@pytest.mark.parametrize("place", ["none", "none/of/these", "self/status/cache"])
def test_a_cache_that_cannot_be_created_is_one_message(place):
    cache = Cache(Path("/proc") / place)
    for use in (lambda: cache.get_or_build("toys", KEY, Builder()), lambda: cache.folder("work")):
        with pytest.raises(CacheError, match=rf"the cache '/proc/{place}' cannot be written: .*\n  set HARNESS_CACHE"):
            use()


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.EROFS, errno.ENOTDIR, errno.EIO, errno.EMFILE])
def test_whatever_fails_within_the_cache_names_it(cache, number):
    def fail(folder: Path) -> None:
        raise OSError(number, os.strerror(number), str(folder / "data"))

    with pytest.raises(CacheError, match=rf"cannot be written: {os.strerror(number)}\n.*HARNESS_CACHE"):
        cache.get_or_build("toys", KEY, fail)


def test_a_relative_cache_is_recognised_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(CacheError, match="the cache 'file/cache' cannot be written"):
        Cache(Path("file/cache")).get_or_build("toys", KEY, Builder())


def test_a_stream_to_a_file_system_that_became_read_only(cache):
    def fail(folder: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def lost(folder: Path) -> None:
        raise ConnectionResetError(errno.ECONNRESET, "the server went away")

    with pytest.raises(CacheError, match="Read-only file system"):
        cache.get_or_build("toys", KEY, fail)
    with pytest.raises(ConnectionResetError):
        cache.get_or_build("toys", KEY, lost)


def test_a_folder_for_work(cache):
    folder = cache.folder("work")
    assert folder == cache.root / "work"
    (folder / "file").touch()
    assert list(cache.folder("work").iterdir()) == [folder / "file"]


def test_a_home_that_does_not_exist(monkeypatch):
    monkeypatch.setenv("HARNESS_CACHE", "~no-such-user/cache")
    with pytest.raises(CacheError, match=r"HARNESS_CACHE: '~no-such-user/cache' is in the home folder of a user who"):
        Cache()


@pytest.mark.parametrize(
    ("mode", "permissions"), [(None, 0o700), ("", 0o700), ("0750", 0o750), ("770", 0o770), ("2770", 0o2770)]
)
@pytest.mark.parametrize("use", ["folder", "get_or_build", "put", "continued"])
def test_a_new_cache_folder_is_its_owners_unless_the_user_says_otherwise(tmp_path, monkeypatch, mode, permissions, use):
    if mode is not None:
        monkeypatch.setenv("HARNESS_CACHE_MODE", mode)
    cache = Cache(tmp_path / "deep" / "er" / "cache")
    if use == "folder":
        cache.folder("work")
    elif use == "get_or_build":
        cache.get_or_build("kind", {}, lambda folder: None)
    elif use == "put":
        cache.put("kind", {}, lambda folder: None, about="")
    else:
        with cache.continued("kind", {}, shelf=[], about=""):
            pass
    assert stat.S_IMODE(cache.root.stat().st_mode) == permissions


def test_an_existing_cache_folder_keeps_its_permissions(tmp_path):
    tmp_path.chmod(0o755)
    Cache(tmp_path).folder("work")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


@pytest.mark.parametrize("mode", ["rwx", "0600", "77", "0o700", "888", "-700"])
def test_permissions_without_those_of_the_owner_are_refused(tmp_path, monkeypatch, mode):
    monkeypatch.setenv("HARNESS_CACHE_MODE", mode)
    with pytest.raises(CacheError, match=f"HARNESS_CACHE_MODE is '{mode}'"):
        Cache(tmp_path / "cache").folder("work")
    assert not (tmp_path / "cache").exists()


def test_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    assert Cache().root == tmp_path
    monkeypatch.delenv("HARNESS_CACHE")
    assert Cache().root.name == "retrieval-harness"


CONTENDER = """
import sys, time
from pathlib import Path
from harness.store.cache import Cache

def build(folder):
    with open(sys.argv[2], "a") as log:
        log.write("built\\n")
    (folder / "data").write_text("x" * 100_000)
    time.sleep(0.3)
    (folder / "late").write_text("late")

entry = Cache(Path(sys.argv[1])).get_or_build("toys", {"a": 1}, build)
print((entry / "late").read_text())
"""


def test_processes_that_build_the_same_entry_at_once(tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-c", CONTENDER, str(tmp_path / "cache"), str(log)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=60)[0] for process in running] == ["late\n"] * 3
    assert log.read_text() == "built\n"


def test_an_entry_that_could_not_be_built_was_not_taken_away(tmp_path: Path) -> None:
    def fails(folder: Path) -> None:
        raise ValueError(f"nothing goes into {folder.name}")

    cache = Cache(tmp_path)
    with pytest.raises(ValueError, match="nothing goes into"), cache.intact():
        cache.get_or_build("plain", {"a": 1}, fails)


def test_whoever_waits_for_another_process_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("harness.store.cache._SILENT_WAIT_S", 0.01)
    entry, entered = tmp_path / "entry", threading.Event()

    def enter() -> None:
        with entry_lock(entry):
            entered.set()

    waiting = threading.Thread(target=enter)
    with entry_lock(entry):
        waiting.start()
        deadline = time.monotonic() + 10
        while not caplog.messages and time.monotonic() < deadline:
            time.sleep(0.01)
        assert caplog.messages == [f"another process works on cache entry '{entry}': waiting until it is done"]
        assert not entered.is_set()
    waiting.join(10)
    assert entered.is_set()


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A cache with one entry whose files cannot be written any more, by whoever runs the tests."""
    cache = Cache(tmp_path / "cache")
    cache.get_or_build("kind", {"a": 1}, lambda folder: (folder / "data").write_text("x"))

    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    make_folder, make_file = Path.mkdir, tempfile.TemporaryFile

    def mkdir(path, *arguments, **keywords):
        return (refuse if path.is_relative_to(cache.root) and not path.exists() else make_folder)(
            path, *arguments, **keywords
        )

    def temporary(**keywords):
        folder = Path(keywords["dir"])
        return refuse(folder) if folder.is_relative_to(cache.root) else make_file(**keywords)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    monkeypatch.setattr("filelock.FileLock.acquire", lambda lock, **_: refuse(lock.lock_file))
    monkeypatch.setattr(Path, "rename", lambda path, _: refuse(path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return Cache(cache.root)


def test_a_warm_cache_that_cannot_be_written_is_used(read_only):
    folder = read_only.get_or_build("kind", {"a": 1}, lambda _: pytest.fail("it is built again"))
    assert (folder / "data").read_text() == "x"
    assert read_only.get("kind", {"a": 1}, lambda folder: (folder / "data").read_text()) == "x"
    (entry,) = list_entries(read_only)
    assert (entry.state, entry.fault()) == ("complete", None)
    work = read_only.folder("work")
    assert not work.is_relative_to(read_only.root)
    (work / "file").write_text("writable")
    assert stat.S_IMODE(work.stat().st_mode) == 0o700


def test_what_a_cache_that_cannot_be_written_lacks_is_one_message(read_only):
    with pytest.raises(CacheError, match="cannot be written: Read-only file system"):
        read_only.get_or_build("kind", {"a": 2}, lambda _: None)
    (entry,) = list_entries(read_only)
    with pytest.raises(CacheError, match="cannot be removed: Read-only file system"):
        remove_entry(entry)
