"""The folder of a result on disk: built next to its place, and renamed when it is complete.

Leftovers of killed processes are removed or put back; of several processes that write to one place one wins; files that
the user put next to an earlier result stay.
"""

from __future__ import annotations

import errno
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from harness.errors import ResultError, UsageError
from harness.store.scratch import scratch_folder
from harness.user_path import user_path

REPORT_NAME = "report.json"
PER_QUERY, PARITY, LATENCIES = "per_query.parquet", "parity.parquet", "latencies.parquet"
EXPLANATIONS = "explanations.parquet"
RUNS, QRELS, QUERIES, TEXTS = "runs", "qrels", "queries", "texts"
_OURS = {REPORT_NAME, PER_QUERY, PARITY, LATENCIES, EXPLANATIONS, RUNS, QRELS, QUERIES, TEXTS, "report.html"}
"""Names that a new result never takes over from the result that it replaces."""
_SCRATCH, _NEW, _OLD = ".harness-", "new", "old"


@dataclass(slots=True)
class Building:
    """A result that is being written in ``folder``; ``target`` is its final path."""

    folder: Path
    target: Path


@contextmanager
def result_folder(target: Path, *, overwrite: bool, numbered: bool, runs: bool = True) -> Iterator[Building]:
    """Yield a folder to fill, which is moved into its place when the block ends; a failure leaves nothing.

    ``runs`` says whether the new result holds any. Raises UsageError as
    :func:`check_target`, with ``numbered`` never; ResultError when it cannot be written.
    """
    target = target_path(target)
    if not numbered:
        check_target(target, overwrite=overwrite, runs=runs)
    with _readable_failure(target), _beside(target) as scratch:
        building = Building(scratch / _NEW, target)
        building.folder.mkdir()
        yield building
        if numbered:
            building.target = _rename_numbered(building.folder, target)
        else:
            _rename_to_target(building.folder, target, scratch / _OLD, overwrite=overwrite, runs=runs)


def check_target(folder: Path, *, overwrite: bool, runs: bool = True) -> None:
    """Refuse a place where a result cannot be written, or would replace something of the user's.

    Only an earlier result may be replaced, and a result with runs only by another with runs. Raises UsageError, and
    ResultError for a folder in which nothing can be made.
    """
    folder = target_path(folder)
    # One look: between two, another process may rename its result away and back.
    with suppress(FileNotFoundError, NotADirectoryError):
        if not stat.S_ISDIR(folder.stat().st_mode):
            raise UsageError(f"'{folder}' exists and is not a folder", fix="choose another --out")
    if folder.absolute() == Path(folder.absolute().anchor):
        raise UsageError(f"'{folder}' is the root folder", fix="choose another --out")
    nearest = next(parent for parent in folder.absolute().parents if parent.exists())
    if not nearest.is_dir() or not _takes_folders(nearest):
        raise ResultError(
            f"the result cannot be written to '{folder}': '{nearest}' is not a folder that can be written",
            fix="choose another --out",
        )
    names = _names(folder)
    if not names:
        return
    if not runs and RUNS in names:
        raise UsageError(f"'{folder}' holds the result of a run, which would be lost", fix="choose another --out")
    if REPORT_NAME not in names:
        raise UsageError(f"'{folder}' exists and is not a result of harness", fix="choose another --out")
    if not overwrite:
        raise UsageError(f"'{folder}' already holds a result", fix="choose another --out, or pass --overwrite")


def target_path(path: Path) -> Path:
    """Return the path where a file or folder is written: the target's path for a link.

    Raises UsageError for a link, also on the way to the path, whose target does not exist or that leads to itself.
    """
    path = user_path(path)
    for link in (part for part in [path, *path.parents] if part.is_symlink() and not part.exists()):
        raise UsageError(
            f"'{path}' cannot be written: '{link}' is a link to '{link.readlink()}', which does not exist or leads "
            "back to the link",
            fix="remove the link, make its target, or choose another path",
        )
    return path.resolve() if path.is_symlink() else path


def _takes_folders(parent: Path) -> bool:
    """Try to make a folder: of /proc its permissions say yes, and root may do everything."""
    try:
        Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent)).rmdir()
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT)  # reported at the end, with a remedy
    return True


def _names(folder: Path) -> set[str]:
    """Return the names in a folder, empty for other paths; of one folder, even if others take its place."""
    while True:
        try:
            before = folder.stat().st_ino
            names = {path.name for path in folder.iterdir()}
            if folder.stat().st_ino == before:
                return names
        except FileNotFoundError:
            if not folder.exists():
                return set()
        except NotADirectoryError:
            return set()


@contextmanager
def _readable_failure(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        path = error.filename if error.filename is not None else folder
        raise ResultError(
            f"the result cannot be written to '{folder}': {error.strerror or error} ('{path}')",
            fix="free some space, or choose another --out",
        ) from error


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """Yield a scratch folder on the file system of the result's place; first removes leftovers of killed processes."""

    def put_back(abandoned: Path) -> None:
        """Restore an earlier result that was taken away and never replaced: its process was killed just then."""
        for earlier in (abandoned / _OLD).glob("*/*"):
            if not (folder.parent / earlier.name).exists():
                earlier.rename(folder.parent / earlier.name)

    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent, _SCRATCH, put_back) as scratch:
        yield scratch


def _rename_to_target(building: Path, folder: Path, old: Path, *, overwrite: bool, runs: bool) -> None:
    """Rename the finished result to its place, after removing the earlier result that it may replace.

    Another process may write to the same place at any moment: a rename to a folder that holds something fails, and
    then everything is looked at again.
    """
    for attempt in count(1):
        check_target(folder, overwrite=overwrite, runs=runs)
        if overwrite:
            _take_away(folder, old / str(attempt) / folder.name, building)
        if _rename(building, folder):
            return


def _take_away(folder: Path, target: Path, building: Path) -> None:
    """Move an existing earlier result out of the way, and copy the user's additions to it into the new one."""
    target.parent.mkdir(parents=True)
    try:
        folder.rename(target)
    except FileNotFoundError:
        return
    try:
        _keep_foreign(target, building)
    except OSError:
        _rename(target, folder)
        raise


def _rename_numbered(building: Path, folder: Path) -> Path:
    for number in count(1):
        candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
        if _rename(building, candidate):
            return candidate
    raise AssertionError("unreachable: count() does not end")


def _rename(building: Path, folder: Path) -> bool:
    """Rename to ``folder``, which may be an empty folder; False when it holds something."""
    try:
        building.rename(folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _keep_foreign(folder: Path, building: Path) -> None:
    """Copy the user's additions to an earlier result into the new one."""
    for path in folder.iterdir():
        if path.name in _OURS or (building / path.name).exists():
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, building / path.name, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(path, building / path.name, follow_symlinks=False)
