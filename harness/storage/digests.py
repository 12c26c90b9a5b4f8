"""SHA-256 of files that are large and hardly ever change, remembered in the cache by the state of the file.

Reading Anserini's jar of 170 MB costs most of a second, and every comparison with Lucene's analyzer needs its digest.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from pathlib import Path

from harness.errors import CacheError
from harness.storage.cache import JSON, Cache, file_digest

__all__ = ["steady_digest"]

_KIND = "digests"
_NAME = "sha256"
_SETTLED_NS = 2_000_000_000
"""Clocks of file systems tick in up to two seconds: a file changed since then may change again and look the same."""


def steady_digest(path: Path) -> str:
    """SHA-256 of a file, read anew when its place, size, inode or a time of change is another.

    The time of change of the inode is among them, which no program can set. A cache that cannot be written is done
    without.
    """
    found = path.resolve().stat()
    if time.time_ns() - max(found.st_mtime_ns, found.st_ctime_ns) < _SETTLED_NS:
        return file_digest(path)
    changed = (found.st_mtime_ns, found.st_ctime_ns)
    return _remembered(path.resolve(), Cache().root, (found.st_size, found.st_dev, found.st_ino), changed)


@functools.cache
def _remembered(path: Path, root: Path, file: tuple[int, int, int], changed_ns: tuple[int, int]) -> str:
    key: Mapping[str, JSON] = {"path": str(path), "size, device, inode": list(file), "changed_ns": list(changed_ns)}

    def build(folder: Path) -> None:
        (folder / _NAME).write_text(file_digest(path), encoding="ascii")

    try:
        return (Cache(root).get_or_build(_KIND, key, build) / _NAME).read_text(encoding="ascii")
    except (CacheError, FileNotFoundError):  # or somebody has just emptied it
        return file_digest(path)
