"""Waiting until the disk has something: what is in the system's memory alone is lost with the machine's power."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_folder", "sync_path"]


def sync_folder(folder: Path) -> None:
    """Wait until the files of ``folder`` and their names are on the disk; folders inside it are left out."""
    for path in (*(path for path in folder.iterdir() if path.is_file()), folder):
        sync_path(path)


def sync_path(path: Path) -> None:
    """Wait until one file, or the names in one folder, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
