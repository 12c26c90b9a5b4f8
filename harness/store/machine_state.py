"""Failures that the state of the machine causes, not an engine: a full disk, no memory, no file descriptors."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from harness.errors import BackendError, HarnessError, MachineError

_NO_SPACE = "no space is left on a disk"
_NO_MEMORY = "no memory is left"
_NO_DESCRIPTORS = "no file descriptors are left"
_REASONS = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the limit on the size of a file is reached",
    errno.EMFILE: _NO_DESCRIPTORS,
    errno.ENFILE: _NO_DESCRIPTORS,
    errno.ENOMEM: _NO_MEMORY,
}
_SIGNS = (
    ("no space left", _NO_SPACE),
    ("not enough space", _NO_SPACE),
    ("storagefull", _NO_SPACE),
    ("disk is full", _NO_SPACE),
    ("(os error 28)", _NO_SPACE),
    ("quota exceeded", _REASONS[errno.EDQUOT]),
    ("file too large", _REASONS[errno.EFBIG]),
    ("filetoolarge", _REASONS[errno.EFBIG]),
    ("too many open files", _NO_DESCRIPTORS),
    ("cannot allocate memory", _NO_MEMORY),
)
"""Words of clients and libraries that do not pass the system's error number on, in lower case."""
_MEMORY_FIX = "close other programs, or use a machine with more memory"
_FIXES = {
    _NO_MEMORY: _MEMORY_FIX,
    _NO_DESCRIPTORS: "raise the limit (ulimit -n), or close other programs",
    _REASONS[errno.EFBIG]: "raise the limit (ulimit -f)",
}
_DISK_FIX = "free some space, or set HARNESS_CACHE and TMPDIR to folders on a disk that has more"


def machine_error(error: BaseException, *paths: Path) -> MachineError | None:
    """Return the error to report if the state of the machine caused ``error``, or an error that it was raised from.

    Args:
        error: the exception.
        paths: folders that were written to; their free space is named if the error names no file.

    Returns:
        None for an error of another cause.
    """
    if isinstance(error, MachineError):
        return error
    for cause in _causes(error):
        reason = _reason(cause)
        if reason is not None:
            filename = getattr(cause, "filename", None) if isinstance(cause, OSError) else None
            candidates = [Path(os.fsdecode(filename))] if isinstance(filename, str | bytes) else list(paths)
            problem = error.problem if isinstance(error, HarnessError) else str(error) or type(error).__name__
            log = error.log if isinstance(error, BackendError) else ()
            return MachineError(f"{reason}: {problem}{free_in_words(reason, candidates)}", fix=_fix(reason), log=log)
    return None


def killed_error(signal_name: str, log: Iterable[str], *paths: Path) -> MachineError | None:
    """Return the error for a process that the system ended, or that died after a message about the machine's state.

    Args:
        signal_name: the signal's name, empty for a process that ended without a signal.
        log: the last lines that it wrote.
        paths: folders that it wrote to.

    Returns:
        None unless the signal is SIGBUS or SIGKILL, or a line of the log shows one of the known states.
    """
    lines = tuple(log)
    ended = f"the worker was killed by signal {signal_name}" if signal_name else "the worker ended"
    if signal_name == "SIGKILL":
        free = f"; free memory: {psutil.virtual_memory().available:,} bytes"
        problem = f"{ended}, which is usually the system running out of memory{free}"
        return MachineError(problem, fix=_MEMORY_FIX, log=lines)
    if signal_name == "SIGBUS":
        problem = f"{ended}: a file that is mapped into memory could not be written or read"
        return MachineError(f"{problem}{free_in_words(_NO_SPACE, paths)}", fix=_DISK_FIX, log=lines)
    for line in reversed(lines):
        reason = _sign_in(line)
        if reason is not None:
            problem = f"{ended} after '{line.strip()}'"
            return MachineError(f"{problem}{free_in_words(reason, paths)}", fix=_fix(reason), log=lines)
    return None


def free_in_words(reason: str, paths: Iterable[Path]) -> str:
    """Return how much room the disks of ``paths`` and of temporary files have, or how much memory is free."""
    if reason == _NO_MEMORY:
        return f"; free memory: {psutil.virtual_memory().available:,} bytes"
    if reason == _NO_DESCRIPTORS:
        return f"; this process has {psutil.Process().num_fds():,} open" if hasattr(psutil.Process, "num_fds") else ""
    disks = {_mount_point(path) for path in [*paths, Path(tempfile.gettempdir())]}
    free = {disk: shutil.disk_usage(disk).free for disk in disks}
    fullest = min(free, key=lambda disk: free[disk])
    return f"; the disk at '{fullest}' has {free[fullest]:,} bytes free"


def _mount_point(start: Path) -> Path:
    path = start.absolute()
    return next(parent for parent in [path, *path.parents] if parent.is_mount() or parent == parent.parent)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and the errors that it was raised from, or while handling."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        pending += [cause.__cause__, None if cause.__suppress_context__ else cause.__context__]


def _reason(cause: BaseException) -> str | None:
    if isinstance(cause, OSError) and cause.errno in _REASONS:
        return _REASONS[cause.errno]
    if isinstance(cause, MemoryError):
        return _NO_MEMORY
    return _sign_in(str(cause))


def _sign_in(text: str) -> str | None:
    folded = text.lower()
    return next((reason for sign, reason in _SIGNS if sign in folded), None)


def _fix(reason: str) -> str:
    return _FIXES.get(reason, _DISK_FIX)
