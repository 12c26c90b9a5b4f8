"""Putting an index out of the system's page cache, as far as that goes without being root."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

__all__ = ["drop", "resident_share"]

_PROT_READ, _MAP_SHARED = 1, 1


def drop(folder: Path) -> None:
    """Write out what is dirty in ``folder``, and tell the system that the cached pages of its files are not needed.

    Pages that a process has mapped stay, and so do those of a file system that lives in memory. Does nothing where the
    system has no such call.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    for path in _files(folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # only clean pages are dropped
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def resident_share(folder: Path) -> float | None:
    """The share of the pages of all files in ``folder`` that are in memory; None where the system does not tell."""
    counts = [_resident_pages(path) for path in _files(folder)]
    if not counts or any(found is None for found in counts):
        return None
    resident, pages = (sum(values) for values in zip(*(found for found in counts if found is not None), strict=True))
    return resident / pages if pages else None


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]


def _resident_pages(path: Path) -> tuple[int, int] | None:
    """(pages in memory, pages) of one file, from mincore(2)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "mincore"):
        return None
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    table = ctypes.create_string_buffer(pages)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        address = libc.mmap(None, size, _PROT_READ, _MAP_SHARED, descriptor, 0)
        if address in (None, ctypes.c_void_p(-1).value):
            return None
        failed = libc.mincore(address, size, ctypes.addressof(table))
        libc.munmap(address, size)
    finally:
        os.close(descriptor)
    return None if failed else (sum(value & 1 for value in table.raw), pages)
