"""Searching an index that was there before: which of its documents the collection knows, and whether it is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.data.arrow import numbers, take_rows
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, Int32Array, SparseVectors
from harness.engines.interface import (
    EngineInfo,
    EngineProtocol,
    ExpectedContent,
    ExternalIndexProtocol,
    IndexHandle,
    IndexReport,
    StoredDocuments,
    WithStoredVectors,
)
from harness.errors import EngineFailureError, IndexChangedError, RejectedInputError
from harness.text import load_counts
from harness.worker.fingerprint import Fingerprint, unchanged
from harness.worker.jobs import ExternalIndexRecord, TrialJob

__all__ = ["Ready", "attach", "read_only"]

_EXAMPLES = 3
_SAMPLED = 16
"""Documents whose vectors are compared with the model's: enough for a part of an index that another model made."""


@dataclass(frozen=True, eq=False, slots=True)
class Ready:
    """An index that can be searched: ``documents`` are its rows; ``external`` is None when it was built just now.

    ``open_ns`` is the time that opening took: of an existing index with copying it, where that is needed, and reading
    its ids.
    """

    info: EngineInfo
    open_ns: int
    report: IndexReport
    documents: int
    external: ExternalIndexRecord | None = None
    changed: Callable[[], str | None] | None = None

    def require_unchanged(self) -> None:
        """Raise IndexChangedError when the engine says that its index changed since it was attached."""
        said = self.changed() if self.changed is not None else None
        if said is not None:
            raise IndexChangedError(
                f"the index changed while it was searched: {said}", fix="search a copy, or stop whatever writes to it"
            )


@contextmanager
def read_only(engine: EngineProtocol, job: TrialJob, progress: Progress) -> Iterator[Fingerprint | None]:
    """Around everything from before ``attach`` until after ``close``: raises IndexChangedError for changed files.

    Yields what the user's files hold, None for an index that has no files here.
    """
    source = _external(engine).source
    if source is None:
        yield None
        return
    if job.hashes is None:
        raise AssertionError("a job with an existing index names no file for its hashes")
    with unchanged(source, progress, Path(job.hashes)) as before:
        yield before


def attach(
    engine: EngineProtocol,
    job: TrialJob,
    documents: Inputs,
    queries: Inputs,
    files: Fingerprint | None,
    progress: Progress,
    clock: Clock,
) -> Ready:
    """Open the user's index and find the collection's documents in it; with no documents, there is no collection.

    Raises RejectedInputError when the collection knows none of its documents, and whatever the engine raises.
    """
    index = _external(engine)
    started = clock()
    attached = index.attach(Path(job.index_folder), progress)
    opened = clock()
    rows = _collection_rows(attached, documents.ids)
    if len(documents) == 0:
        sample = engine.stored_documents(_SAMPLED) if isinstance(engine, WithStoredVectors) else None
        return _alone(attached, rows, sample, files, opened - started)
    known = np.flatnonzero(rows >= 0).astype(np.int32)
    terms = load_counts(Path(job.terms)) if job.terms is not None else None
    content = ExpectedContent(
        rows=known,
        documents=_take(documents, rows[known]),
        queries=queries,
        terms=terms.of_documents(rows[known]) if terms is not None else None,
    )
    reason = index.mismatch(content, progress)
    unknown = len(rows) - len(known)
    if unknown:
        reason = f"{unknown:,} of the index's {len(rows):,} documents are not in the collection"
    held = np.zeros(len(documents), dtype=bool)
    held[rows[known]] = True
    record = _record(attached, rows, reason, files)
    absent = np.flatnonzero(~held).astype(np.int32)
    report = IndexReport(0, len(rows), absent, 0, 0, {"existing": True, **attached.state})
    return Ready(attached.info, opened - started, report, len(rows), record, attached.changed)


def _alone(
    attached: IndexHandle, rows: Int32Array, sample: StoredDocuments | None, files: Fingerprint | None, open_ns: int
) -> Ready:
    """An index with nothing to compare it with: its own documents are all there are."""
    record = _record(attached, rows, "there is no collection to hold it against", files)
    record = replace(record, sample=sample)
    nothing = np.empty(0, dtype=np.int32)
    report = IndexReport(0, len(rows), nothing, 0, 0, {"existing": True, **attached.state})
    return Ready(attached.info, open_ns, report, len(rows), record, attached.changed)


def _record(
    attached: IndexHandle, rows: Int32Array, no_oracle: str | None, files: Fingerprint | None
) -> ExternalIndexRecord:
    return ExternalIndexRecord(
        ids=attached.ids,
        rows=rows,
        no_oracle=no_oracle,
        files=len(files.files) if files is not None else None,
        file_bytes=files.bytes if files is not None else None,
        sha256=files.sha256 if files is not None else None,
    )


def _external(engine: EngineProtocol) -> ExternalIndexProtocol:
    if not engine.capabilities.external or not isinstance(engine, ExternalIndexProtocol):
        raise EngineFailureError(
            f"'{type(engine).__name__}' cannot search an existing index, although its card offers it",
            fix="this is a defect of the engine: it does not subclass harness.engines.base.ExternalIndex",
        )
    return engine


def _collection_rows(attached: IndexHandle, ids: Ids) -> Int32Array:
    """The collection's row of each document of the index, -1 where it has none; all -1 without a collection."""
    if len(attached.ids) == 0:
        raise RejectedInputError("the existing index holds no documents", fix="name another")
    distinct = len(attached.ids.values.unique())
    if distinct != len(attached.ids):
        raise EngineFailureError(
            f"the adapter names {len(attached.ids)} documents by {distinct} ids", fix="this is a defect of the adapter"
        )
    rows = ids.rows_of(attached.ids)
    if len(ids) and not np.any(rows >= 0):
        theirs, ours = (_examples(attached.ids), _examples(ids))
        raise RejectedInputError(
            f"no document of the existing index is in the collection: the index has {theirs}, the collection {ours}",
            fix="name the collection that was indexed, or where the index keeps the document ids (its card says how)",
        )
    return rows


def _examples(ids: Ids) -> str:
    return ", ".join(f"'{one}'" for one in ids.values[:_EXAMPLES].to_pylist())


def _take(inputs: Inputs, rows: Int32Array) -> Inputs:
    chosen = numbers(rows)
    texts = take_rows(inputs.texts, rows) if inputs.texts is not None else None
    sparse: SparseVectors | None = inputs.sparse.take(rows) if inputs.sparse is not None else None
    dense = inputs.dense[rows] if inputs.dense is not None else None
    return Inputs(Ids(inputs.ids.values.take(chosen)), texts, sparse, dense)
