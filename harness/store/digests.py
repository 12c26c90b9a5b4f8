"""Checksums of files that are large and hardly ever change, remembered in the cache by the state of the file.

Reading Anserini's jar of 170 MB costs most of a second, and every comparison with Lucene's analyzer needs its digest;
archives of datasets, which are checked against their publishers' MD5, have gigabytes.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from pathlib import Path

from harness.errors import CacheError
from harness.store.cache import JSON, Cache, file_digest

_KIND = "digests"
_SETTLED_NS = 2_000_000_000
"""Clocks of file systems tick in up to two seconds: a file changed since then may change again and look the same."""


def steady_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the checksum of a file, computed again when its path, size, inode or a time of change differs.

    The time of change of the inode is among them, which no program can set. A cache that cannot be written is done
    without. ``algorithm`` is one of hashlib's, for checksums and not for secrets.
    """
    state = path.resolve().stat()
    if time.time_ns() - max(state.st_mtime_ns, state.st_ctime_ns) < _SETTLED_NS:
        return file_digest(path, algorithm)
    changed = (state.st_mtime_ns, state.st_ctime_ns)
    file = (state.st_size, state.st_dev, state.st_ino)
    return _remembered(path.resolve(), algorithm, Cache().root, file, changed)


@functools.cache
def _remembered(path: Path, algorithm: str, root: Path, file: tuple[int, int, int], changed_ns: tuple[int, int]) -> str:
    key: Mapping[str, JSON] = {
        "path": str(path),
        "algorithm": algorithm,
        "size, device, inode": list(file),
        "changed_ns": list(changed_ns),
    }

    def build(folder: Path) -> None:
        (folder / algorithm).write_text(file_digest(path, algorithm), encoding="ascii")

    try:
        cache = Cache() if root is None else Cache(root)
        return (cache.get_or_build(_KIND, key, build) / algorithm).read_text(encoding="ascii")
    except (CacheError, FileNotFoundError):  # or the cache has just been emptied
        return file_digest(path, algorithm)
