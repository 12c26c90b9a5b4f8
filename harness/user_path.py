"""Paths as users write them: ``~`` expanded, and refused if no file system can take them."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UsageError

__all__ = ["existing_path", "user_path"]

_LONGEST_NAME = 255
"""Bytes of one name of a path: the limit of ext4, XFS, APFS and NTFS."""


def user_path(text: str | os.PathLike[str]) -> Path:
    """Return the path that a user wrote, with ``~`` and ``~user`` expanded to home folders.

    Raises UsageError for a user who does not exist, a name of more than 255 bytes, and a null character.
    """
    written = os.fspath(text)
    if "\0" in written:
        raise UsageError(f"the path {written!r} holds a null character", fix="remove it")
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


def _bytes_of(name: str) -> int:
    return len(os.fsencode(name))
