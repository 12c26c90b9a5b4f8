"""Search an external index: which of its documents the collection knows, and proof that nothing in it changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.shown_hits import first_documents
from harness.data.types import Float32Array, Ids, Int32Array
from harness.engines.external_index import unique_ids
from harness.engines.interface import (
    EngineInfo,
    EngineInterface,
    IndexHandle,
    IndexReport,
    SearchResult,
)
from harness.engines.mapped_inputs import expected_content
from harness.errors import (
    EngineFailureError,
    EngineUnavailableError,
    HarnessError,
    IndexChangedError,
    RejectedInputError,
)
from harness.text import load_counts
from harness.worker.failure import harness_error
from harness.worker.jobs import ExternalIndexRecord, TrialJob

_EXAMPLES = 3
_SAMPLED = 16
"""Documents whose vectors are compared with the model's: enough for a part of an index that another model made."""
_MOST_READ_BACK = 50_000
"""Vectors of 1,024 dimensions are 200 MB then, and most of a minute of a server's time."""
_CHUNK_BYTES = 1 << 22
_MAX_NAMES = 10
_FIX = "search a copy, or stop other programs from writing to it; if none does, it is a defect of the engine"


@dataclass(frozen=True, eq=False, slots=True)
class Ready:
    """A searchable index: ``documents`` are its rows; ``external`` is None for an index built just now.

    ``open_ns`` is the opening time: for an external index including copying it, if needed, and reading its ids.
    """

    info: EngineInfo
    open_ns: int
    report: IndexReport
    documents: int
    external: ExternalIndexRecord | None = None
    changed: Callable[[], str | None] | None = None

    def require_unchanged(self) -> None:
        """Raise IndexChangedError when the engine says that its index changed since it was attached."""
        reason = self.changed() if self.changed is not None else None
        if reason is not None:
            raise IndexChangedError(
                f"the index changed while it was searched: {reason}",
                fix="search a copy, or stop other programs from writing to it",
            )


@contextmanager
def read_only(engine: EngineInterface, job: TrialJob, progress: Progress) -> Iterator[Fingerprint | None]:
    """Guard everything from before ``attach`` until after ``close``; raise IndexChangedError for changed files.

    Yields the fingerprint of the user's files, None for an index that has no files here.
    """
    source = engine.source
    if source is None:
        yield None
        return
    if job.hashes is None:
        raise AssertionError("a job with an external index names no file for its hashes")
    with unchanged(source, progress, job.hashes) as before:
        yield before


def attach(
    engine: EngineInterface,
    job: TrialJob,
    documents: Inputs,
    queries: Inputs,
    files: Fingerprint | None,
    progress: Progress,
    clock: Clock,
) -> Ready:
    """Open the user's index and find the collection's documents in it; without documents, there is no collection.

    Raises RejectedInputError when the collection has none of its documents, and the engine's own exceptions.
    """
    started = clock()
    handle = engine.attach(job.index_folder, progress)
    opened = clock()
    if handle.values is not None and (len(documents) or (handle.values.null_count and not job.content.field)):
        unique_ids(handle.values.to_pylist(), "value in the field that was named for ids")
    values = handle.ids.values if handle.values is None and job.content.field else handle.values
    rows = _collection_rows(handle, documents.ids)
    sample = vectors = None
    if len(documents):
        reason = _mismatch(engine, rows, job, documents, queries, progress)
    else:
        sample = engine.stored_documents(_SAMPLED)
        vectors, reason = _stored_vectors(engine, len(handle.ids), progress)
    matches = engine.stored_matches([group.conditions for group in job.filters]) if job.filters else []
    record = ExternalIndexRecord(
        ids=handle.ids,
        rows=rows,
        no_reference=reason,
        files=len(files.files) if files is not None else None,
        file_bytes=files.bytes if files is not None else None,
        sha256=files.sha256 if files is not None else None,
        sample=sample,
        vectors=vectors,
        values=tuple(values.to_pylist()) if values is not None else None,
        repeats=handle.values is not None,
        matching=tuple(match.rows for match in matches),
        unmatched=tuple(match.problem for match in matches),
    )
    absent = np.setdiff1d(np.arange(len(documents), dtype=np.int32), rows)
    report = IndexReport(0, len(rows), absent, 0, 0, {"existing": True, **handle.state})
    return Ready(handle.info, opened - started, report, len(rows), record, handle.changed)


def _mismatch(
    engine: EngineInterface,
    rows: Int32Array,
    job: TrialJob,
    documents: Inputs,
    queries: Inputs,
    progress: Progress,
) -> str | None:
    """Return why the index cannot be compared with a reference of the collection; None if both match."""
    terms = load_counts(job.terms) if job.terms is not None else None
    content = expected_content(rows, documents, queries, terms)
    reason = engine.mismatch(content, progress)  # also if some are unknown: it refuses queries that mean nothing
    if len(content.rows) == len(rows):
        return reason
    return f"{len(rows) - len(content.rows):,} of the index's {len(rows):,} documents are not in the dataset"


def _stored_vectors(
    engine: EngineInterface, documents: int, progress: Progress
) -> tuple[Float32Array | None, str | None]:
    """Return all vectors of an index, from which a reference can be made without a dataset, or why there are none."""
    if engine.capabilities.reads(external=True) != "dense":
        return None, "there is no dataset to compare it with"
    if documents > _MOST_READ_BACK:
        return None, f"without a dataset at most {_MOST_READ_BACK:,} vectors are read back, and it has {documents:,}"
    progress.start("read vectors", None)
    stored = engine.stored_documents(documents)
    if stored.dense is None or len(stored.rows) < documents:
        return None, f"it gives back the vectors of {len(stored.rows):,} of its {documents:,} documents"
    return np.ascontiguousarray(stored.dense[np.argsort(stored.rows)]), None


def _collection_rows(handle: IndexHandle, ids: Ids) -> Int32Array:
    """Return the collection's row of each document of the index, -1 for documents it lacks."""
    if len(handle.ids) == 0:
        raise RejectedInputError("the external index holds no documents", fix="name another")
    distinct = len(handle.ids.values.unique())
    if distinct != len(handle.ids):
        raise EngineFailureError(
            f"the engine names {len(handle.ids)} documents by {distinct} ids", fix="this is a defect of the engine"
        )
    rows = ids.rows_of(handle.ids)
    if len(ids) and not np.any(rows >= 0):
        external, harness_vectors = (
            ", ".join(f"'{name}'" for name in column.values[:_EXAMPLES].to_pylist()) for column in (handle.ids, ids)
        )
        raise RejectedInputError(
            f"no document of the external index is in the dataset: the index has {external}, the dataset "
            f"{harness_vectors}",
            fix="name the dataset that was indexed, or the location of the document ids in the index (see its card)",
        )
    return rows


def add_texts(
    engine: EngineInterface, external: ExternalIndexRecord, hits: SearchResult, *, matched: bool
) -> ExternalIndexRecord:
    """Return the record with texts of its documents.

    Texts that are ``matched`` are of all documents if their vectors were read, else of all hits. Otherwise they are of
    the first hits, which reports show, unless the index was searched with a dataset that has the texts.
    """
    if matched:
        rows = np.arange(len(external.ids), dtype=np.int32) if external.vectors is not None else np.unique(hits.rows)
    elif external.sample is not None:
        rows = first_documents(hits.indptr, hits.rows)
    else:
        return external
    return replace(external, text_rows=rows, texts=tuple(engine.stored_texts(rows)))


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Digest of each file by its path in the folder, ``bytes`` read, and one ``sha256`` over names and digests."""

    files: Mapping[str, str]
    bytes: int

    @property
    def sha256(self) -> str:
        """Names the content of the folder, wherever it lies."""
        lines = "".join(f"{digest}  {name}\n" for name, digest in self.files.items())
        return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()


def fingerprint(folder: Path, progress: Progress, phase: str) -> Fingerprint:
    """Read every file below ``folder``, or the only file that it is, with progress in bytes.

    Raises EngineUnavailableError for an unreadable one.
    """
    try:
        single = folder.is_file()
        files = [folder] if single else sorted(path for path in folder.rglob("*") if path.is_file())
        progress.start(phase, sum(path.stat().st_size for path in files))
        digests, read = {}, 0
        for path in files:
            digest = hashlib.sha256()
            with path.open("rb") as content:
                while chunk := content.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    read += len(chunk)
                    progress.advance(len(chunk))
            digests[path.name if single else path.relative_to(folder).as_posix()] = digest.hexdigest()
    except OSError as error:
        raise EngineUnavailableError(
            f"the external index in '{folder}' cannot be read: {error}", fix="make its files readable"
        ) from error
    return Fingerprint(digests, read)


@contextmanager
def unchanged(folder: Path, progress: Progress, pending: Path) -> Iterator[Fingerprint]:
    """Hash the files of ``folder`` before and after the block, also when the block fails.

    Raises IndexChangedError naming the files that changed; a failure of the block is then in its message and log. The
    first hashes lie in the file ``pending`` until they are compared: a killed process leaves them there for
    :func:`changed_too`.
    """
    before = fingerprint(folder, progress, "hash before")
    content = {"folder": str(folder), "files": dict(before.files), "bytes": before.bytes}
    unfinished = pending.with_suffix(".tmp")
    unfinished.write_text(json.dumps(content), encoding="utf-8")  # not orjson: names of files may be no UTF-8
    unfinished.rename(pending)
    try:
        yield before
    except Exception as error:
        failure = changed_too(pending, harness_error(error), progress)
        if isinstance(failure, IndexChangedError):
            raise failure from error
        raise
    changed = _changed(folder, before, progress)
    pending.unlink()
    if changed is not None:
        raise IndexChangedError(changed, fix=_FIX)


def changed_too(pending: Path, failure: HarnessError, progress: Progress) -> HarnessError:
    """Return the ``failure``, or an IndexChangedError if the index was hashed and has changed.

    ``pending`` is the file of :func:`unchanged`; without it nothing was hashed, or it was compared already.
    """
    if not pending.exists():
        return failure
    pending_changes = json.loads(pending.read_text(encoding="utf-8"))
    pending.unlink()
    changed = _changed(
        Path(pending_changes["folder"]), Fingerprint(pending_changes["files"], pending_changes["bytes"]), progress
    )
    if changed is None:
        return failure
    return IndexChangedError(f"{changed}; the search failed too: {failure.problem}", fix=_FIX, log=failure.log)


def _changed(folder: Path, before: Fingerprint, progress: Progress) -> str | None:
    """Say in a sentence which files changed; None when none did."""
    try:
        after = fingerprint(folder, progress, "hash after")
    except EngineUnavailableError as error:
        return f"the index in '{folder}' could be read before it was searched and cannot be now: {error.problem}"
    names = sorted(before.files.keys() | after.files.keys())
    changed = [name for name in names if before.files.get(name) != after.files.get(name)]
    if not changed:
        return None
    more = f" and {len(changed) - _MAX_NAMES} more" if len(changed) > _MAX_NAMES else ""
    return f"the index in '{folder}' changed while it was searched: {', '.join(changed[:_MAX_NAMES])}{more}"
