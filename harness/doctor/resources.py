"""Memory, disk space, and the cache."""

from __future__ import annotations

import shutil

from harness.doctor.finding import Finding, fail, ok, warn
from harness.store.cache import Cache
from harness.store.cache_entries import list_entries

__all__ = ["cache", "disk", "memory"]

_GIBIBYTE = 1024**3
_ENOUGH_MEMORY, _LITTLE_MEMORY = 3.0, 1.0
_ENOUGH_DISK, _LITTLE_DISK = 2.0, 0.3
_DAMAGED = "damaged"


def memory() -> Finding:
    """Free memory: Lucene's heap is 2 GiB by default, and each backend runs in a process of its own."""
    import psutil

    found = psutil.virtual_memory()
    free = found.available / _GIBIBYTE
    detail = f"{free:.1f} GiB free of {found.total / _GIBIBYTE:.1f}"
    if free < _LITTLE_MEMORY:
        return fail("memory", detail, "end other programs: engines would be killed by the system")
    if free < _ENOUGH_MEMORY:
        return warn("memory", detail, "end other programs, or give Lucene less (lucene:heap=512m)")
    return ok("memory", detail)


def disk() -> Finding:
    """Room where the cache is: indexes are built there, and Qdrant's log alone reserves 64 MB."""
    folder = Cache().root
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free / _GIBIBYTE
    detail = f"{free:.1f} GiB free at '{there}'"
    if free < _LITTLE_DISK:
        return fail("disk", detail, "free some, or set HARNESS_CACHE to a folder on another disk")
    if free < _ENOUGH_DISK:
        return warn("disk", detail, "large collections need more: free some, or set HARNESS_CACHE to another disk")
    return ok("disk", detail)


def cache() -> Finding:
    """Whether the cache can be written, and what it holds; raises CacheError."""
    kept = Cache()
    kept.folder("work")
    entries = list_entries(kept)
    size = sum(entry.bytes for entry in entries) / 1024**2
    detail = f"'{kept.root}', {len(entries)} entries, {size:,.0f} MiB"
    damaged = sum(entry.state == _DAMAGED for entry in entries)
    if damaged:
        return warn(
            "cache", f"{detail}, {damaged} damaged", "harness cache verify names them; they are rebuilt when used"
        )
    return ok("cache", detail)
