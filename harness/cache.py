"""The cache: folders named by what they were made from. It can be deleted at any time.

An entry is built in a temporary folder under a lock, described by a manifest with the checksum of every file, and
renamed when it is complete. An entry is checked against its manifest before it is handed out: a damaged one is named
on the log and rebuilt. Several processes may use one cache at once.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.errors import CacheError

__all__ = ["JSON", "Cache", "file_digest"]

JSON = str | int | float | bool | None | Sequence["JSON"] | Mapping[str, "JSON"]

_SCHEME = 1
_MANIFEST = "manifest.json"
_FIX = "set HARNESS_CACHE to a folder that can be written and has room"
_WRITING_ONLY = (errno.EROFS, errno.EFBIG)
_log = logging.getLogger("harness")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Cache:
    """A content-addressed store of folders.

    ``root`` defaults to ``$HARNESS_CACHE``, else to the platform's cache folder. Nothing is created before the first
    build.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = _default_root() if root is None else root
        self._verified: dict[Path, tuple[tuple[str, int, int], ...]] = {}

    def folder(self, name: str) -> Path:
        """The sub-folder ``name`` for work of the caller's own, created if need be.

        Raises CacheError when it cannot be created or written.
        """
        path = self.root / name
        with _writing(self.root):
            path.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=path).close()
        return path

    def get_or_build(self, kind: str, key: Mapping[str, JSON], build: Callable[[Path], None]) -> Path:
        """The folder of the entry ``key``, made by ``build(folder)`` unless it is there and undamaged.

        ``kind`` is a plain word that names the sub-folder; ``key`` says everything that changes the content. ``build``
        gets an empty folder and fills it; what it raises passes through and leaves no entry behind. Raises CacheError
        when the cache cannot be written, for whatever reason, or its disk is full.
        """
        text = json.dumps({"scheme": _SCHEME, "kind": kind, "key": key}, sort_keys=True, separators=(",", ":"))
        name = hashlib.sha256(text.encode()).hexdigest()[:32]
        entry = self.root / kind / name
        if self._fault(entry, text) is None:
            return entry
        with _writing(self.root), self._lock(entry):
            fault = self._fault(entry, text)
            if fault is None:
                return entry
            if entry.exists():
                _log.warning("cache entry '%s' is damaged and is rebuilt: %s", entry, fault)
            self._clear(entry)
            self._build(entry, text, build)
        return entry

    @contextmanager
    def _lock(self, entry: Path) -> Iterator[None]:
        from filelock import FileLock

        entry.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(entry.with_suffix(".lock")):
            yield

    def _clear(self, entry: Path) -> None:
        """Remove the damaged entry and what killed builds left: nobody else builds while the lock is held."""
        if entry.exists():
            doomed = Path(tempfile.mkdtemp(prefix=f"{entry.name}.", suffix=".tmp", dir=entry.parent))
            entry.rename(doomed / "damaged")
        for left in entry.parent.glob(f"{entry.name}.*.tmp"):
            shutil.rmtree(left)

    def _build(self, entry: Path, key: str, build: Callable[[Path], None]) -> None:
        folder = Path(tempfile.mkdtemp(prefix=f"{entry.name}.", suffix=".tmp", dir=entry.parent))
        try:
            build(folder)
            files = {
                str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
            manifest = {"key": json.loads(key), "files": files}
            (folder / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            folder.rename(entry)
        finally:
            if folder.exists():
                shutil.rmtree(folder)

    def _fault(self, entry: Path, key: str) -> str | None:
        """What is wrong with an entry, or None. Its checksums are computed once per process and file state."""
        try:
            manifest = json.loads((entry / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["key"] != json.loads(key):
                return "its manifest names another key"
            state = _state(entry, manifest["files"])
            if self._verified.get(entry) == state:
                return None
            for name, expected in manifest["files"].items():
                path = entry / name
                if path.stat().st_size != expected["bytes"] or file_digest(path) != expected["sha256"]:
                    return f"the checksum of '{name}' is wrong"
        except OSError as error:
            return f"'{error.filename}': {error.strerror}"
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return f"its manifest cannot be read: {error}"
        self._verified[entry] = state
        return None


def _state(entry: Path, files: Mapping[str, Any]) -> tuple[tuple[str, int, int], ...]:
    stats = ((name, (entry / name).stat()) for name in files)
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)


def _default_root() -> Path:
    given = os.environ.get("HARNESS_CACHE")
    if given:
        try:
            return Path(given).expanduser()
        except RuntimeError as error:
            raise CacheError(f"the cache '{given}' cannot be found: {error}", fix=_FIX) from error
    import platformdirs

    return Path(platformdirs.user_cache_dir("retrieval-harness"))


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CacheError(f"the disk of the cache '{root}' is full", fix=_FIX) from error
        if _concerns(error, root):
            raise CacheError(f"the cache '{root}' cannot be written: {error.strerror or error}", fix=_FIX) from error
        raise


def _concerns(error: OSError, root: Path) -> bool:
    """Whether the file that failed lies in the cache or on the way to it: not a file that a build reads."""
    if error.filename is None:  # a stream that was open already
        return error.errno in _WRITING_ONLY
    failed, home = Path(os.fsdecode(error.filename)).absolute(), root.absolute()
    return failed.is_relative_to(home) or home.is_relative_to(failed)
