"""Paths as users write them: ``~`` expanded, and refused if no file system can take them."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError

__all__ = ["absence", "existing_path", "user_path"]

_LONGEST_NAME = 255
"""Bytes of one name of a path: the limit of ext4, XFS, APFS and NTFS."""


def user_path(text: str | os.PathLike[str]) -> Path:
    """Return the path that a user wrote, with ``~`` and ``~user`` expanded to home folders.

    Raises UsageError for a user who does not exist, a name of more than 255 bytes, a null character, and a name that is
    not UTF-8: reports, caches and other programs cannot hold such a path.
    """
    written = os.fsdecode(text)
    if "\0" in written:
        raise UsageError(f"the path {written!r} holds a null character", fix="remove it")
    try:
        written.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"the path {written!r} is not UTF-8", fix="rename the file or folder") from error
    try:
        path = Path(written).expanduser()
    except RuntimeError as error:
        user = Path(written).parts[0]
        raise UsageError(
            f"'{written}' is in the home folder of a user who does not exist: '{user}'",
            fix=f"write ./{written} for a folder with this name, or the whole path",
        ) from error
    longest = max(path.parts, key=_bytes_of, default="")
    if _bytes_of(longest) > _LONGEST_NAME:
        raise UsageError(
            f"the name '{longest}' has {_bytes_of(longest):,} bytes; a file system takes at most {_LONGEST_NAME}",
            fix="use a shorter name",
        )
    return path


def existing_path(text: str | os.PathLike[str]) -> Path | None:
    """Return the path that a user wrote if something exists there; None also for text that cannot be a path."""
    try:
        path = user_path(text)
        return path if path.exists() else None
    except (UsageError, OSError):
        return None


def absence(path: Path) -> str:
    """Return, in words to follow a path, why it cannot be read as a file: a folder, or a broken link."""
    if path.is_dir():
        return "is a folder, and a file is expected"
    if path.is_symlink():
        return f"is a link to '{path.readlink()}', which does not exist"
    return "does not exist"


def _bytes_of(name: str) -> int:
    return len(os.fsencode(name))
