"""The files of a dataset of ``ir_datasets``: their list, their download, and the meaning of their faults.

The library downloads a file when it is first read: to a temporary name, resumed if the server allows it, checked
against its MD5, and moved into place. It does not check an existing file, so :func:`verify` does. The files of a
dataset are listed nowhere; they are found by following the references of its parts.
"""

from __future__ import annotations

import errno
import functools
import logging
import tarfile
import types
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from harness.data.progress import Progress, SilentDisplay
from harness.errors import DataError
from harness.loaders.base import OFFLINE, is_offline
from harness.store.digests import steady_digest

_STORE = ".pklz4"
"""The ending of the library's own index of the documents in a file."""
_PATHS = ("_cache_path", "_extract_path", "extract_path", "_output_file", "_docstore_path", "_affected_files")
"""Attributes of the library's objects that name the files they write."""
_FAULTS = (
    OSError,  # of the network and of checksums too: the library's and requests' errors derive from it
    ValueError,
    RuntimeError,
    KeyError,
    AssertionError,
    EOFError,
    ImportError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
)

_log = logging.getLogger("harness.irds")


class Part(NamedTuple):
    """Documents, queries or qrels of a dataset: its spec, the part's name, and the object that reads it.

    ``handlers`` are the readers of all parts of the dataset, so that all missing files are named at once.
    """

    spec: str
    name: str
    handler: Any
    handlers: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that a dataset is made of.

    ``urls`` are empty for a file that only its owners distribute; ``instructions`` then say how to get it. ``path`` is
    the path that the library checks before it downloads, None if it reads from the network each time. ``is_cached``
    says whether the file stays there; otherwise it is deleted after reading.
    """

    urls: tuple[str, ...]
    path: Path | None
    is_cached: bool
    md5: str | None
    terms: str | None
    instructions: str | None

    @property
    def is_local(self) -> bool:
        """Return whether the file is at the path that the library checks."""
        return self.path is not None and self.path.exists()

    @property
    def how_to_get(self) -> str:
        """Return which file to put at which path, for a machine without a network."""
        facts = f" (MD5 {self.md5})" if self.md5 else ""
        if not self.urls:
            return self.instructions or f"ask its owners for the file, and put it at {self.path}"
        if self.path is None:
            return f"{self.urls[0]}{facts} is read from the network each time, and cannot be put in place"
        return f"put {self.urls[0]}{facts} at {self.path}"


def files_of(handlers: Iterable[Any]) -> list[RemoteFile]:
    """Return the files that parts of a dataset are made of, each once, in the order of their places."""
    from ir_datasets.datasets.base import ExpectedFile
    from ir_datasets.util import Download

    files: dict[tuple[str, str], RemoteFile] = {}
    for part in _objects(handlers):
        file = None
        if isinstance(part, Download):
            file = _remote_file(part)
        elif isinstance(part, ExpectedFile):
            path = Path(part._path)
            instructions = (part._instructions or "").format(path=path) or None
            file = RemoteFile((), path, True, part._expected_md5, None, instructions)
        if file is not None:
            files.setdefault((str(file.path), file.md5 or ""), file)
    return [files[key] for key in sorted(files)]


def _remote_file(download: Any) -> RemoteFile:
    from ir_datasets.util import LocalDownload

    local = next((mirror for mirror in download.mirrors if isinstance(mirror, LocalDownload)), None)
    urls = tuple(url for mirror in download.mirrors if (url := getattr(mirror, "url", getattr(mirror, "uri", None))))
    is_cached = download._cache_path is not None
    path = download._cache_path if is_cached else local.path(force=False) if local is not None else None
    return RemoteFile(
        urls,
        None if path is None else Path(path),
        is_cached,
        download.expected_md5,
        download.dua,
        None if local is None or urls else local._message,
    )


def stored_paths(handlers: Iterable[Any], home: Path) -> set[Path]:
    """Return the files and folders below ``home`` that parts of a dataset are kept in, if they are there.

    An empty index of the library, which it leaves behind if a download failed, holds nothing.
    """
    from ir_datasets.util import Cache

    candidates: list[Path] = []
    for part in _objects(handlers):
        attributes = vars(part) if hasattr(part, "__dict__") else {}
        names = (*_PATHS, "_path") if isinstance(part, Cache) else _PATHS
        for value in (attributes.get(name) for name in names):
            values = value if isinstance(value, list | tuple) else [value]
            candidates += [Path(path) for path in values if isinstance(path, str | Path)]
    candidates += [path.with_name(path.name + _STORE) for path in candidates]
    existing = {path for path in candidates if path != home and path.is_relative_to(home) and path.exists()}
    empty = {path for path in existing if path.name.endswith(_STORE) and (path / "bin").is_file()}
    return existing - {path for path in empty if (path / "bin").stat().st_size == 0}


def _objects(roots: Iterable[Any]) -> Iterator[Any]:
    """Yield the library's objects that ``roots`` refer to, and their files, each once."""
    seen, waiting = set[int](), list(roots)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            waiting += value
        elif isinstance(value, types.FunctionType):
            waiting += filter(_is_no_list_of_datasets, (cell.cell_contents for cell in value.__closure__ or ()))
        elif isinstance(value, types.MethodType):
            waiting += [value.__self__, value.__func__]
        elif isinstance(value, functools.partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif type(value).__module__.partition(".")[0] == "ir_datasets" and not isinstance(value, type):
            yield value
            waiting += vars(value).values() if hasattr(value, "__dict__") else ()


def _is_no_list_of_datasets(value: object) -> bool:
    """Return whether a function's value is not the list of a family's datasets, to which each of them refers."""
    from ir_datasets.datasets.base import Dataset

    return not (isinstance(value, dict) and any(isinstance(entry, Dataset) for entry in value.values()))


def verify(part: Part) -> None:
    """Check the existing files of a part against their MD5; raise DataError for different content."""
    for file in files_of([part.handler]):
        if file.md5 is None or file.path is None or not file.path.is_file():
            continue
        actual = steady_digest(file.path, "md5")
        if actual != file.md5.lower():
            raise DataError(
                str(file.path),
                [f"its MD5 is {actual}, and {part.spec} expects {file.md5}"],
                fix=f"remove it, and {file.how_to_get}" if is_offline() else "remove it, and it is downloaded again",
            )


class _OfflineError(RuntimeError):
    """Something would have been downloaded."""


class _Bar:
    """Replacement for the library's progress bar."""

    def __init__(self, progress: Progress) -> None:
        self.n, self.bar_format, self._progress = 0, "", progress

    def update(self, amount: int = 1) -> None:
        self.n += amount
        self._progress.advance(amount)

    def set_postfix(self, *args: object, **kwargs: object) -> None:
        """Say nothing: the phase's name is enough."""


@contextmanager
def reading(part: Part, progress: Progress | None) -> Iterator[Progress]:
    """Let the library read a part: its progress, its log and its errors become ours.

    Raises DataError for any failure: the network, a checksum, a full disk, a damaged archive, a missing module; and for
    a file that is not here if ``HARNESS_OFFLINE`` forbids downloading it.
    """
    from ir_datasets.log import Logger
    from ir_datasets.util.download import GoogleDriveDownload, RequestsDownload

    visible_progress: Progress = progress or SilentDisplay()

    @contextmanager
    def bar(logger: object, *args: object, **kwargs: Any) -> Iterator[_Bar]:
        visible_progress.start(f"fetching {_short(kwargs.get('desc'))}", kwargs.get("total"))
        yield _Bar(visible_progress)

    def counted(logger: object, items: Iterable[Any], *args: Any, **kwargs: Any) -> Iterator[Any]:
        total = kwargs.get("total")
        visible_progress.start(f"indexing {part.spec}", total if isinstance(total, int) else None)
        for item in items:
            visible_progress.advance(1)
            yield item

    def refuse(download: Any) -> Any:
        raise _OfflineError(download.url)

    for file in files_of([part.handler]):
        if file.terms and not file.is_local and not is_offline():
            _log.warning("%s: %s", part.spec, file.terms.strip())
    with ExitStack() as replaced:
        for name, ours in (("logger", lambda logger: _LIBRARY_LOG), ("pbar_raw", bar), ("pbar", counted)):
            replaced.enter_context(_attribute(Logger, name, ours))
        if is_offline():
            for kind in (RequestsDownload, GoogleDriveDownload):
                replaced.enter_context(_attribute(kind, "stream", refuse))
        try:
            yield visible_progress
        except _FAULTS as error:
            raise _translated(part, error) from error


@contextmanager
def _attribute(owner: type, name: str, value: object) -> Iterator[None]:
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _LibraryLog(logging.LoggerAdapter[logging.Logger]):
    """The library's log as ours, one level below: it logs every step."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        super().log(max(level - 10, logging.DEBUG), msg, *args, **kwargs)


_LIBRARY_LOG = _LibraryLog(_log)


def _short(description: object) -> str:
    """Return the file's name of a URL, and any other text as it is."""
    text = str(description or "")
    return text.rstrip("/").rpartition("/")[2] if "://" in text else text


def _translated(part: Part, error: Exception) -> DataError:
    """Return the failure, its file, and a remedy."""
    from ir_datasets.lazy_libs import requests
    from ir_datasets.util import HashVerificationError, home_path

    causes: list[Exception] = [error]
    if isinstance(error, RuntimeError) and len(error.args) > 1 and isinstance(error.args[1], list):
        causes += [cause for _, cause in error.args[1]]  # of each place in which the library looked for a file
    cause = next((fault for fault in reversed(causes) if not isinstance(fault, FileNotFoundError)), causes[-1])
    missing = [file for file in files_of([part.handler]) if not file.is_local]
    part_name = f"{part.spec} ({part.name})"
    if isinstance(cause, _OfflineError):
        missing_files = _missing_files(part, home_path())
        instructions = "\n  ".join(file.how_to_get for file in missing_files) or f"download {cause} on another machine"
        names = ", ".join(_short(file.urls[0] if file.urls else file.path) for file in missing_files) or _short(cause)
        problem = f"{OFFLINE} is set, and this machine lacks {names}"
        return DataError(part.spec, [problem], fix=f"{instructions}\n  or leave {OFFLINE} out")
    if isinstance(cause, FileNotFoundError) and (closed := [file for file in missing if not file.urls]):
        problem, fix = "its files are given away by their owners only", "; ".join(file.how_to_get for file in closed)
    elif isinstance(cause, ImportError):
        problem, fix = f"ir_datasets needs the Python module '{cause.name}' for it", f"pip install {cause.name}"
    elif getattr(cause, "errno", None) == errno.ENOSPC or "Insufficient disk space" in str(cause):
        problem = f"no space is left: {cause}"
        fix = (
            f"nothing half-written was kept: make room below {home_path()}, or name another disk in the environment "
            "variable IR_DATASETS_HOME"
        )
    elif isinstance(cause, HashVerificationError):
        problem = f"the downloaded file differs: {cause}"
        fix = "it was not kept: try again; if its publisher changed it, a newer ir_datasets may know it"
    elif isinstance(cause, requests().exceptions.RequestException):
        instructions = "; ".join(file.how_to_get for file in missing if file.path is not None)
        problem = f"the download failed: {cause}"
        fix = f"nothing half-written was kept: try again{f', or {instructions}' if instructions else ''}"
    else:
        problem = f"ir_datasets cannot read it: {type(cause).__name__}: {cause}"
        fix = f"if a file below {home_path()} is damaged, remove it, and it is fetched again"
    return DataError(part_name, [problem], fix=fix)


def _missing_files(part: Part, home: Path) -> list[RemoteFile]:
    """Return the files that are not here of the part that is read and of the others that cannot be read either.

    A separate part is left out if the library has kept the data that it extracted from its files.
    """
    handlers = [part.handler]
    for handler in part.handlers:
        paths = {file.path for file in files_of([handler])}
        if not stored_paths([handler], Path(home)) - paths:
            handlers.append(handler)
    return [file for file in files_of(handlers) if not file.is_local]
