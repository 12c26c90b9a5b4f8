"""Entries of the cache, listed, checked and removed without harm to processes that use it at the same time."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from harness.errors import CacheError
from harness.store.cache import JSON, MANIFEST, UNFINISHED, Cache, entry_fault, entry_lock, recover
from harness.store.scratch import in_use, sweep_scratch

WORK = "work"
"""The sub-folder of the cache where running comparisons keep their private files."""
COMPARISON = "compare-"
"""Prefix of the names of running comparisons' folders in :data:`WORK`."""
PREPARED = "prepare-"
"""Prefix of folders in which texts are prepared whose content is not known beforehand."""
_COMPLETE, _DAMAGED, _BUSY, _BEGUN = "complete", "damaged", "in use", "unfinished"
_NAME = re.compile(r"[0-9a-f]{32}")
_PATIENCE_S = 5.0
_USERS = "users.txt"
"""Names of the datasets that use an entry, a line each, in addition to the manifest's list."""


class Entry(NamedTuple):
    """One entry: its kind, its name within the kind (32 digits), its path, and the key it was made from.

    ``key`` is empty when the manifest cannot be read. ``about`` is a short description, "" when none was given.
    ``state`` is ``complete`` (for trials ``finished`` or ``failed``), ``in use`` while some process builds, replaces or
    reads the entry, ``unfinished`` for an interrupted build that can be resumed, ``damaged`` when its manifest cannot
    be read. ``bytes`` counts all its files, ``made`` is in seconds since 1970.
    """

    kind: str
    name: str
    path: Path
    key: Mapping[str, JSON]
    about: str
    state: str
    bytes: int
    made: float

    def fault(self) -> str | None:
        """Return the problem that its checksums show, or None; reads all its files.

        Also None when the entry is deleted or unfinished, or some process has been building it for seconds: then there
        is nothing yet.
        """
        from filelock import Timeout

        if self.path.suffix == UNFINISHED:
            return None

        with suppress(Timeout), entry_lock(self.path, timeout_s=_PATIENCE_S):
            return entry_fault(self.path) if self.path.exists() else None
        return None


def list_entries(cache: Cache) -> list[Entry]:
    """Return every entry, by kind and age, oldest first; empty when there is no cache yet."""
    entries = []
    for path in _entry_folders(cache):
        with suppress(FileNotFoundError):  # another process removed or replaced it just now
            entries.append(_entry(path, cache.root))
    return sorted(entries, key=lambda entry: (entry.kind, entry.made, entry.name))


def remove_entry(entry: Entry) -> bool:
    """Remove an entry; False when a process builds, replaces or reads it, and it stays.

    Raises CacheError if the cache cannot be written.
    """
    from filelock import Timeout

    try:
        with entry_lock(entry.path, timeout_s=0):
            # renamed first: an incomplete entry must never have its name
            doomed = entry.path.with_suffix(".removed.tmp")
            if entry.path.exists():
                entry.path.rename(doomed)
            # leftovers of killed processes too: an earlier state among them would be put back in the entry's place
            for left in (doomed, *entry.path.parent.glob(f"{entry.name}.*.tmp")):
                shutil.rmtree(left, ignore_errors=True)
            entry.path.with_suffix(".lock").unlink(missing_ok=True)
    except Timeout:
        return False
    except OSError as error:
        raise CacheError(
            f"'{entry.path}' cannot be removed: {error.strerror or error}", fix="make the cache's folder writable"
        ) from error
    return True


def note_user(entry: Path, name: str) -> None:
    """Note in an entry's folder that a dataset uses it, so that it outlives the dataset that it was made for."""
    with suppress(OSError):  # of a cache that may only be read nothing is removed either
        names = users_of(entry)
        if name and name not in names:
            _write_users(entry, names | {name})


def leave_entry(entry: Path, names: Set[str]) -> frozenset[str]:
    """Take datasets from the users of the entry in a folder; return the others, for whom it stays."""
    other_users = users_of(entry) - names
    if other_users:
        _write_users(entry, other_users)
    return other_users


def users_of(entry: Path) -> frozenset[str]:
    """Return the datasets that use the entry in a folder: the noted ones, else the dataset it was made for."""
    if (entry / _USERS).is_file():
        return frozenset((entry / _USERS).read_text(encoding="utf-8").splitlines())
    return frozenset(filter(None, [_entry(entry, entry.parent.parent).about]))


def _write_users(entry: Path, names: Iterable[str]) -> None:
    text = "".join(f"{name}\n" for name in sorted(names))
    (entry / f"{_USERS}.new").write_text(text, encoding="utf-8")
    (entry / f"{_USERS}.new").replace(entry / _USERS)


def comparison_running(cache: Cache) -> bool:
    """Return whether a comparison uses this cache now: its workers may read any entry except trials."""
    return in_use(cache.root / WORK, COMPARISON)


def sweep(cache: Cache) -> None:
    """Remove leftovers of killed processes: folders of comparisons, and entries that were never completed."""
    from filelock import Timeout

    sweep_scratch(cache.root / WORK, COMPARISON)
    for left in cache.root.rglob("*.tmp"):
        if not _NAME.match(left.name) or not left.is_dir():
            continue
        entry = left.parent / left.name.partition(".")[0]
        with suppress(Timeout), entry_lock(entry, timeout_s=0):
            recover(entry)
            shutil.rmtree(left, ignore_errors=True)


def _entry_folders(cache: Cache) -> Iterator[Path]:
    if not cache.root.is_dir():
        return
    for kind in sorted(cache.root.iterdir()):
        if kind.is_dir() and kind.name != WORK:
            for folder, names, _ in os.walk(kind):  # ignores folders that another process removes in the meantime
                paths = (Path(folder, name) for name in sorted(names))
                candidates = (path for path in paths if _NAME.fullmatch(path.stem) and path.suffix in ("", UNFINISHED))
                yield from filter(Path.is_dir, candidates)


def _entry(path: Path, root: Path) -> Entry:
    manifest = path / MANIFEST
    files = [file.stat() for file in path.rglob("*") if file.is_file()]
    made = manifest.stat().st_mtime if manifest.exists() else path.stat().st_mtime
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
        key, about, state = content["key"]["key"], content.get("about", ""), content.get("state", _COMPLETE)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        key, about, state = {}, "", _DAMAGED
    if path.suffix == UNFINISHED:
        about, state = " ".join(path.relative_to(root).parts[1:-1]), _BEGUN
    return Entry(
        kind=path.relative_to(root).parts[0],
        name=path.stem,
        path=path,
        key=key,
        about=about,
        state=_BUSY if _is_locked(path) else state,
        bytes=sum(stat.st_size for stat in files),
        made=made,
    )


def _is_locked(path: Path) -> bool:
    from filelock import Timeout

    if not path.with_suffix(".lock").exists():
        return False
    try:
        with entry_lock(path, timeout_s=0):
            return False
    except Timeout:
        return True
