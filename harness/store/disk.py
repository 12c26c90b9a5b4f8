"""Files on disk: the space they take, copies of them, and the part of them that the page cache holds."""

from __future__ import annotations

import ctypes
import errno
import gzip
import mmap
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import numpy as np
import numpy.typing as npt

from harness.data.progress import Progress
from harness.errors import EngineUnavailableError

Scalar = TypeVar("Scalar", bound=np.generic)

_CHUNK_BYTES = 1 << 26
_CANNOT_SHARE = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_PROT_READ, _MAP_SHARED = 1, 1
_BLOCK_BYTES = 512  # the unit of st_blocks, for any block size of the file system


def allocated_bytes(folder: Path, *, leave_out: str | None = None) -> int:
    """Return the bytes of the blocks of all files below ``folder``, except files named ``leave_out``.

    Engines preallocate: apparent sizes can be several times as large. A missing folder takes nothing, nor does a file
    that goes away while its folder is read: engines replace files whenever they like.
    """
    blocks = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                status = Path(parent, name).stat()
                blocks += status.st_blocks if name != leave_out and stat.S_ISREG(status.st_mode) else 0
    return blocks * _BLOCK_BYTES


def copy_folder(source: Path, target: Path, progress: Progress) -> None:
    """Copy all files of ``source`` into ``target``, holes left as holes; ``progress`` counts bytes of data.

    File systems that can share blocks between files do so. Raises EngineUnavailableError when there is no room, or
    when a file cannot be read.
    """
    needed, free = allocated_bytes(source), shutil.disk_usage(target).free
    if needed > free:
        raise EngineUnavailableError(
            f"a copy of '{source}' takes {needed:,} bytes, and '{target}' has {free:,} free",
            fix="free disk space, or put the cache on a larger disk: HARNESS_CACHE",
        )
    progress.start("copy", needed)
    try:
        for path in sorted(source.rglob("*")):
            destination = target / path.relative_to(source)
            if path.is_dir():
                destination.mkdir(parents=True, exist_ok=True)
            elif path.is_file():
                destination.parent.mkdir(parents=True, exist_ok=True)
                progress.advance(_copy_file(path, destination))
    except OSError as error:
        raise EngineUnavailableError(
            f"'{source}' cannot be copied: {error}", fix="make it readable, and see that the disk is not full"
        ) from error


def _copy_file(source: Path, target: Path) -> int:
    """Copy a file; return the bytes of data that were copied."""
    with source.open("rb") as read, target.open("wb") as written:
        size = os.fstat(read.fileno()).st_size
        os.ftruncate(written.fileno(), size)
        copied = 0
        for start, stop in _extents(read.fileno(), size):
            _copy_range(read.fileno(), written.fileno(), start, stop)
            copied += stop - start
    return copied


def _extents(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a file that hold data, hole after hole."""
    stop = 0
    while stop < size:
        try:
            start = os.lseek(file, stop, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # nothing but a hole is left
        stop = os.lseek(file, start, os.SEEK_HOLE)
        yield start, stop


def _copy_range(source: int, target: int, start: int, stop: int) -> None:
    while start < stop:
        try:
            # the kernel lets both files share the blocks if it can
            done = os.copy_file_range(source, target, min(stop - start, _CHUNK_BYTES), start, start)
        except (AttributeError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in _CANNOT_SHARE:
                raise
            done = os.pwrite(target, os.pread(source, min(stop - start, _CHUNK_BYTES), start), start)
        if done == 0:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        start += done


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a stream to a temporary neighbour of ``path`` that takes its place if the block succeeds.

    The file has the permissions of every new file of the process. A name that ends with ``.gz`` is compressed.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as raw:
            if path.name.endswith(".gz"):
                # no time of day in the header: the same run gives the same bytes
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed:
                    yield cast("BinaryIO", packed)
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def drop_from_page_cache(folder: Path) -> None:
    """Write out dirty pages in ``folder``, and tell the system that the cached pages of its files are not needed.

    Pages that a process has mapped stay, and so do pages of a file system in memory. Does nothing if the system has no
    such call.
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
    """Return the share of the pages of all files in ``folder`` in memory; None if the system does not report it."""
    counts = [_resident_pages(path) for path in _files(folder)]
    counts_read = [count for count in counts if count is not None]
    if not counts_read or len(counts_read) < len(counts):
        return None
    resident, pages = (sum(values) for values in zip(*counts_read, strict=True))
    return resident / pages if pages else None


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]


def _resident_pages(path: Path) -> tuple[int, int] | None:
    """Return (pages in memory, pages) of one file, from mincore(2)."""
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


def spooled(array: npt.NDArray[Scalar], folder: Path) -> npt.NDArray[Scalar]:
    """Return the same values mapped from a file without a name in ``folder``, which lasts as long as the array.

    Memory then holds only the parts that are read. If the disk is full the array itself is returned.
    """
    if not array.size:
        return array
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            array.tofile(stream)
            stream.flush()
            return np.memmap(stream, array.dtype, "r+", shape=array.shape)
    except OSError:
        return array
