"""The cache: folders named after the values they were made from. It can be deleted at any time.

An entry is built in a temporary folder under a lock, described by a manifest with the checksum of every file, and
renamed when it is complete. An entry is checked against its manifest before it is handed out: a damaged one is named
on the log and rebuilt. Several processes may use one cache at once. How entries are listed and removed is in
:mod:`harness.store.cache_entries`.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.errors import CacheError, UsageError
from harness.user_path import user_path

JSON = str | int | float | bool | None | Sequence["JSON"] | Mapping[str, "JSON"]
Content = TypeVar("Content")
_State = tuple[tuple[str, int, int], ...]
"""Name, size and time of change of each file of an entry."""

MANIFEST = "manifest.json"
"""The file of an entry that holds its key and the checksums of the others."""
UNFINISHED = ".unfinished"
"""Suffix of the folder of an entry that was begun and can be continued."""
_SCHEME = 1
_NAME_LENGTH = 32
_REPLACED = "replaced"
"""Name of an earlier entry inside a temporary folder, while its replacement is moved into place."""
_SILENT_WAIT_S = 2.0
_OWNER_ONLY = 0o700
_MODE_VARIABLE = "HARNESS_CACHE_MODE"
_FIX = "set HARNESS_CACHE to a folder that can be written and has room"
_WRITING_ONLY = (errno.EROFS, errno.EFBIG)
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
_log = logging.getLogger("harness")


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file by an algorithm of hashlib, in hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, partial(hashlib.new, algorithm, usedforsecurity=False)).hexdigest()


def _default_root() -> Path:
    variable = os.environ.get("HARNESS_CACHE")
    if variable:
        try:
            return user_path(variable)
        except UsageError as error:
            raise CacheError(f"HARNESS_CACHE: {error.problem}", fix=error.fix) from error
    import platformdirs

    return Path(platformdirs.user_cache_dir("retrieval-harness"))


class ContinuedEntry(NamedTuple):
    """An entry that is built in steps: ``folder`` holds its finished part, all of it when ``finished``.

    Afterwards it lies in ``entry``, which is the same folder when it was finished before.
    """

    entry: Path
    folder: Path
    finished: bool


@dataclass(eq=False)
class Cache:
    """A content-addressed store of folders.

    ``kind`` is a plain word that names a sub-folder, ``key`` holds everything that changes an entry's content.
    ``about`` is a short description for lists of the cache. Every method raises CacheError when the cache cannot be
    written, for any reason, or its disk is full; exceptions of the caller's functions pass through.

    ``root`` is by default ``$HARNESS_CACHE``, else the platform's cache folder; it is made when first used.
    """

    root: Path = field(default_factory=_default_root)
    _verified: dict[Path, _State] = field(default_factory=dict, init=False)
    _handed_out: dict[Path, None] = field(default_factory=dict, init=False)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Translate errors of writing to the cache; its folder is made if need be, for its owner only."""
        root = self.root
        try:
            if not root.is_dir():
                mode = _root_mode()
                root.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):  # another process made it at the same time
                    root.mkdir(_OWNER_ONLY)
                    root.chmod(mode)  # mkdir takes the process's umask off
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CacheError(f"the disk of the cache '{root}' is full", fix=_FIX) from error
            if _concerns(error, root):
                reason = error.strerror or error
                raise CacheError(f"the cache '{root}' cannot be written: {reason}", fix=_FIX) from error
            raise

    def folder(self, name: str) -> Path:
        """Return the sub-folder ``name`` for work of the caller's own, made if need be.

        It lies among temporary files if the cache exists and cannot be written: complete entries can still be read.
        """
        path = self.root / name
        with self._writing():
            try:
                path.mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=path).close()
            except OSError as error:
                if error.errno not in _READ_ONLY or not self.root.is_dir():
                    raise
                path = Path(tempfile.gettempdir(), f"retrieval-harness-{os.getuid()}", name)
                path.mkdir(_OWNER_ONLY, parents=True, exist_ok=True)
                if path.stat().st_uid != os.getuid():
                    raise
        return path

    def get_or_build(
        self, kind: str, key: Mapping[str, JSON], build: Callable[[Path], None], *, about: str = ""
    ) -> Path:
        """Return the folder of an entry, made by ``build(folder)`` unless it is there and undamaged.

        ``build`` gets an empty folder and fills it; when it fails, no entry is left behind. An entry keeps the words
        ``about`` it that it was built with.
        """
        entry, text = self._entry_path(kind, key)
        if entry_fault(entry, text, self._verified) is not None:
            with self.lock(kind, key):
                fault = entry_fault(entry, text, self._verified)
                if fault is not None:  # else another process built it in the meantime
                    _clear(entry, fault)
                    _build(entry, text, build, {"about": about} if about else {})
        self._handed_out[entry] = None
        return entry

    @contextmanager
    def lock(self, kind: str, key: Mapping[str, JSON]) -> Iterator[LockedEntry]:
        """Hold the lock of an entry, so that no other process builds, replaces, reads or removes it."""
        entry, text = self._entry_path(kind, key)
        with self._writing(), entry_lock(entry):
            yield LockedEntry(entry, text, self._verified)

    def get(self, kind: str, key: Mapping[str, JSON], read: Callable[[Path], Content]) -> Content | None:
        """Return ``read(folder)`` of an entry, which no process replaces in the meantime; None without an entry.

        A damaged entry is named on the log and counts as none.
        """
        entry, _ = self._entry_path(kind, key)
        if not entry.exists() and not entry.with_suffix(".lock").exists():
            return None
        with self.lock(kind, key) as locked:
            return locked.get(read)

    def put(
        self,
        kind: str,
        key: Mapping[str, JSON],
        write: Callable[[Path], None],
        *,
        about: str,
        state: str = "complete",
    ) -> None:
        """Rebuild an entry by ``write(folder)``, completely or not at all; it replaces an existing entry."""
        with self.lock(kind, key) as locked:
            locked.put(write, about=about, state=state)

    @contextmanager
    def continued(
        self, kind: str, key: Mapping[str, JSON], *, shelf: Sequence[str], about: str
    ) -> Iterator[ContinuedEntry]:
        """Yield an entry that takes long to build, with the output of an interrupted build in its folder.

        Unless it is ``finished``, the caller completes the folder inside the ``with`` block, alone; a failure leaves it
        as it is. ``shelf`` are names of folders below the kind's, for users who browse the cache: an entry is found by
        its key on any shelf.
        """
        placed, text = self._entry_path(kind, key)
        entry = self._lying(placed) or placed.parent.joinpath(*shelf, placed.name)
        if entry_fault(entry, text, self._verified) is None:
            self._handed_out[entry] = None
            yield ContinuedEntry(entry, entry, finished=True)
            return
        with self._writing(), entry_lock(entry):
            fault = entry_fault(entry, text, self._verified)
            if fault is not None:
                _clear(entry, fault)
                folder = entry.with_suffix(UNFINISHED)
                folder.mkdir(exist_ok=True)
                yield ContinuedEntry(entry, folder, finished=False)
                _describe(folder, text, {"about": about})
                folder.rename(entry)
        self._handed_out[entry] = None
        if fault is None:  # another process built it in the meantime
            yield ContinuedEntry(entry, entry, finished=True)

    def holds(self, kind: str, key: Mapping[str, JSON]) -> bool:
        """Return whether there is a finished entry, on any shelf; its checksums are compared when it is used."""
        entry = self._lying(self._entry_path(kind, key)[0])
        return entry is not None and (entry / MANIFEST).is_file()

    def begun(self, kind: str, key: Mapping[str, JSON]) -> Path | None:
        """Return the folder that an interrupted :meth:`continued` left; None if nothing is begun."""
        entry = self._lying(self._entry_path(kind, key)[0])
        folder = entry.with_suffix(UNFINISHED) if entry is not None else None
        return folder if folder is not None and folder.is_dir() else None

    @contextmanager
    def intact(self) -> Iterator[None]:
        """Guard a block that reads entries of :meth:`get_or_build`, which no lock holds in place.

        A failure becomes a CacheError when one of the entries is gone, for example removed by a user.
        """
        try:
            yield
        except Exception as error:
            gone = [f"{entry.parent.name} {entry.name[:12]}" for entry in list(self._handed_out) if not entry.exists()]
            if gone and not isinstance(error, CacheError):
                raise CacheError(
                    f"the cache '{self.root}' was emptied while it was used: {', '.join(gone)}",
                    fix="run again; missing parts are rebuilt",
                ) from error
            raise

    def _entry_path(self, kind: str, key: Mapping[str, JSON]) -> tuple[Path, str]:
        """Return the present or future path of an entry, and its key as text."""
        return self.root / kind / entry_name(kind, key), _canonical({"scheme": _SCHEME, "kind": kind, "key": key})

    def _lying(self, placed: Path) -> Path | None:
        """Return the path of an entry that :meth:`continued` began or finished; None without such an entry."""
        paths = sorted(path for path in placed.parent.rglob(f"{placed.name}*") if path.suffix in ("", UNFINISHED))
        return paths[0].with_suffix("") if paths else None


class LockedEntry(NamedTuple):
    """An entry while its lock is held: read, replaced, or one after the other without anything getting between."""

    path: Path
    key: str
    verified: dict[Path, _State]

    def get(self, read: Callable[[Path], Content]) -> Content | None:
        """Return ``read(folder)``; None when there is no entry, or a damaged one, which is logged."""
        recover(self.path)
        fault = entry_fault(self.path, self.key, self.verified)
        if fault is None:
            return read(self.path)
        if self.path.exists():
            _log.warning("cache entry '%s' is damaged and is not used: %s", self.path, fault)
        return None

    def put(self, write: Callable[[Path], None], *, about: str, state: str = "complete", durable: bool = False) -> None:
        """Rebuild the entry by ``write(folder)``, completely or not at all.

        A ``durable`` entry is on the disk afterwards, even if the machine fails.
        """
        _sweep(self.path)
        _build(self.path, self.key, write, {"about": about, "state": state}, durable=durable)


def entry_name(kind: str, key: Mapping[str, JSON]) -> str:
    """Return the name of an entry within its kind: 32 hexadecimal digits."""
    return hashlib.sha256(_canonical({"scheme": _SCHEME, "kind": kind, "key": key}).encode()).hexdigest()[:_NAME_LENGTH]


@contextmanager
def entry_lock(entry: Path, *, timeout_s: float | None = None) -> Iterator[None]:
    """Hold the lock of one entry, so that no other process builds, replaces, reads or removes it.

    Raises filelock.Timeout when another process still holds it after ``timeout_s``; None waits for as long as it takes,
    and says so.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(entry.with_suffix(".lock"))
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=_SILENT_WAIT_S if timeout_s is None else timeout_s)
    except Timeout:
        if timeout_s is not None:
            raise
        _log.warning("another process works on cache entry '%s': waiting until it is done", entry)
        lock.acquire()
    except OSError as error:
        if error.errno not in _READ_ONLY or not entry.exists():
            raise  # an existing entry of a cache that cannot be written is only read
    try:
        yield
    finally:
        lock.release()


def entry_fault(entry: Path, key: str | None = None, verified: dict[Path, _State] | None = None) -> str | None:
    """Return the problem of an entry according to its manifest, or None.

    ``key`` is the required key, None for any. ``verified`` are the states of entries whose checksums were right before:
    these are not computed again.
    """
    try:
        manifest = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))
        if key is not None and manifest["key"] != json.loads(key):
            return "its manifest names another key"
        stats = ((name, (entry / name).stat()) for name in manifest["files"])
        state = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
        if verified is not None and verified.get(entry) == state:
            return None
        for name, expected in manifest["files"].items():
            path = entry / name
            if path.stat().st_size != expected["bytes"] or file_digest(path) != expected["sha256"]:
                return f"the checksum of '{name}' is wrong"
    except OSError as error:
        return f"'{error.filename}': {error.strerror}"
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read: {error}"
    if verified is not None:
        verified[entry] = state
    return None


def _canonical(content: Mapping[str, JSON]) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _clear(entry: Path, fault: str) -> None:
    """Remove a damaged entry, which is logged, and leftovers of killed builds; the caller has its lock."""
    if entry.exists():
        _log.warning("cache entry '%s' is damaged and is rebuilt: %s", entry, fault)
        entry.rename(_temporary(entry) / "damaged")
    _sweep(entry)


def _sweep(entry: Path) -> None:
    for left in entry.parent.glob(f"{entry.name}.*.tmp"):
        shutil.rmtree(left)


def recover(entry: Path) -> None:
    """Put an entry back that a killed process had moved away without replacing it; the caller has its lock."""
    aside = [] if entry.exists() else sorted(entry.parent.glob(f"{entry.name}.*.tmp/{_REPLACED}"))
    if aside:
        aside[0].rename(entry)


def _build(
    entry: Path, key: str, build: Callable[[Path], None], words: Mapping[str, str], *, durable: bool = False
) -> None:
    folder, replaced = _temporary(entry), _temporary(entry)
    try:
        build(folder)
        _describe(folder, key, words)
        if durable:
            for path in (*filter(Path.is_file, folder.iterdir()), folder):
                _sync(path)
        if entry.exists():
            entry.rename(replaced / _REPLACED)
        folder.rename(entry)
        if durable:
            _sync(entry.parent)
    except BaseException:
        recover(entry)  # interrupted between the two
        raise
    finally:
        for left in (folder, replaced):
            if left.exists():
                shutil.rmtree(left)


def _describe(folder: Path, key: str, words: Mapping[str, str]) -> None:
    """Write the manifest: the entry's key, the checksum of each file, and words for people."""
    files = {
        str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    manifest = {"key": json.loads(key), "files": files, **words}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _temporary(entry: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"{entry.name}.", suffix=".tmp", dir=entry.parent))


def _root_mode() -> int:
    """Return the permissions of a new cache folder; raises CacheError if HARNESS_CACHE_MODE is not of this form."""
    text = os.environ.get(_MODE_VARIABLE, "")
    if not text:
        return _OWNER_ONLY
    if not re.fullmatch(r"0?[0-7]{3,4}", text) or int(text, 8) & _OWNER_ONLY != _OWNER_ONLY:
        raise CacheError(
            f"{_MODE_VARIABLE} is '{text}'",
            fix="write permissions that include all of the owner's, such as 0700, 0750 or 2770",
        )
    return int(text, 8)


def _concerns(error: OSError, root: Path) -> bool:
    """Return whether the failing file lies in the cache or on the way to it, and is not a file that a build reads."""
    if error.filename is None:  # a stream that was open already
        return error.errno in _WRITING_ONLY
    failed, home = Path(os.fsdecode(error.filename)).absolute(), root.absolute()
    return failed.is_relative_to(home) or home.is_relative_to(failed)
