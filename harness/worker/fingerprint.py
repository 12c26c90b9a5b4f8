"""Every file of a folder by its SHA-256: the proof that searching an index changed nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.data.progress import Progress
from harness.errors import EngineUnavailableError, HarnessError, IndexChangedError
from harness.worker.failure import harness_error

__all__ = ["Fingerprint", "changed_too", "fingerprint", "unchanged"]

_CHUNK_BYTES = 1 << 22
_NAMED = 10
_FIX = "search a copy, or stop whatever writes to it; if nothing does, it is a defect of the adapter"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Digest of each file by its path in the folder, ``bytes`` read, and one ``sha256`` over names and digests."""

    files: Mapping[str, str]
    bytes: int

    @property
    def sha256(self) -> str:
        """Names the content of the folder, wherever it lies."""
        listed = "".join(f"{digest}  {name}\n" for name, digest in self.files.items())
        return hashlib.sha256(listed.encode(errors="surrogateescape")).hexdigest()


def fingerprint(folder: Path, progress: Progress, phase: str) -> Fingerprint:
    """Read every file below ``folder``, with progress in bytes; raises EngineUnavailableError for an unreadable one."""
    try:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        progress.start(phase, sum(path.stat().st_size for path in files))
        digests, read = {}, 0
        for path in files:
            digest = hashlib.sha256()
            with path.open("rb") as content:
                while chunk := content.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    read += len(chunk)
                    progress.advance(len(chunk))
            digests[path.relative_to(folder).as_posix()] = digest.hexdigest()
    except OSError as error:
        raise EngineUnavailableError(
            f"the existing index in '{folder}' cannot be read: {error}", fix="make its files readable"
        ) from error
    return Fingerprint(digests, read)


@contextmanager
def unchanged(folder: Path, progress: Progress, pending: Path) -> Iterator[Fingerprint]:
    """Hash ``folder`` before and after, also when what is done in between fails.

    Raises IndexChangedError naming the files that are not as they were; a failure is then in its message and log.
    The first hashes lie in the file ``pending`` until they were compared: what kills this process leaves them there,
    for :func:`changed_too`.
    """
    before = fingerprint(folder, progress, "hash before")
    _save(pending, folder, before)
    try:
        yield before
    except Exception as error:
        found = changed_too(pending, harness_error(error), progress)
        if isinstance(found, IndexChangedError):
            raise found from error
        raise
    changed = _changed(folder, before, progress)
    pending.unlink()
    if changed is not None:
        raise IndexChangedError(changed, fix=_FIX)


def changed_too(pending: Path, failure: HarnessError, progress: Progress) -> HarnessError:
    """What to say of a ``failure``: itself, or the IndexChangedError of an index that was hashed and is not the same.

    ``pending`` is the file of :func:`unchanged`; without it nothing was hashed, or it was compared already.
    """
    if not pending.exists():
        return failure
    # not orjson: names of files that are no UTF-8 are in it
    kept = json.loads(pending.read_text(encoding="utf-8"))
    pending.unlink()
    changed = _changed(Path(kept["folder"]), Fingerprint(kept["files"], kept["bytes"]), progress)
    if changed is None:
        return failure
    return IndexChangedError(f"{changed}; the search failed too: {failure.what}", fix=_FIX, log=failure.log)


def _save(pending: Path, folder: Path, before: Fingerprint) -> None:
    content = {"folder": str(folder), "files": dict(before.files), "bytes": before.bytes}
    unfinished = pending.with_suffix(".tmp")
    unfinished.write_text(json.dumps(content), encoding="utf-8")
    unfinished.rename(pending)


def _changed(folder: Path, before: Fingerprint, progress: Progress) -> str | None:
    """Which files are not as they were, in a sentence; None when all are."""
    try:
        after = fingerprint(folder, progress, "hash after")
    except EngineUnavailableError as error:
        return f"the index in '{folder}' could be read before it was searched and cannot be now: {error.what}"
    names = sorted(before.files.keys() | after.files.keys())
    changed = [name for name in names if before.files.get(name) != after.files.get(name)]
    if not changed:
        return None
    more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
    return f"the index in '{folder}' changed while it was searched: {', '.join(changed[:_NAMED])}{more}"
