"""Folders that live as long as one process: locked while it runs, and removed by the next one when it was killed."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def scratch_folder(parent: Path, prefix: str, rescue: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Make a private folder ``parent/<prefix>…`` for this process, removed at the end.

    Leftovers of killed processes under the same prefix are removed first, see :func:`sweep_scratch`. Raises OSError if
    nothing can be made in ``parent``.
    """
    from filelock import FileLock

    sweep_scratch(parent, prefix, rescue)
    folder = parent / f"{prefix}{secrets.token_hex(8)}"
    # the lock comes first: a folder with an unheld lock may be removed by another process at any moment
    lock = FileLock(folder.with_suffix(".lock"))
    folder.with_suffix(".lock").touch()  # if no file can be made, FileLock would try again for ever
    with lock:
        try:
            folder.mkdir()
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)


def sweep_scratch(parent: Path, prefix: str, rescue: Callable[[Path], None] | None = None) -> None:
    """Remove the folders under ``prefix`` whose process was killed; ``rescue(folder)`` may save something first."""
    from filelock import FileLock, Timeout

    for path in parent.glob(f"{prefix}*.lock"):
        with suppress(Timeout), FileLock(path, timeout=0):  # else its process is alive
            folder = path.with_suffix("")
            if rescue is not None and folder.is_dir():
                rescue(folder)
            shutil.rmtree(folder, ignore_errors=True)
            path.unlink(missing_ok=True)


def in_use(parent: Path, prefix: str) -> bool:
    """Return whether some process has a folder under ``prefix`` now."""
    from filelock import FileLock, Timeout

    for path in parent.glob(f"{prefix}*.lock"):
        try:
            with FileLock(path, timeout=0):
                continue
        except Timeout:
            return True
    return False
