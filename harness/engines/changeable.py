"""Engines whose finished index can be changed: documents are deleted, replaced and added.

An engine implements one hook, :meth:`Changeable.change`. The base keeps ids and rows, refuses impossible changes, times
the change, loads the index again and counts its documents. Rows never move: a new document gets the next row, a
replaced document keeps its row, and a deleted document's row stays empty.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import numbers
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, Int32Array
from harness.engines.base import Column, Documents, Engine, Ingestion
from harness.engines.index_folder import MANIFEST, saved_fields, write_manifest
from harness.engines.interface import IndexReport
from harness.errors import RejectedInputError


@dataclass(frozen=True, eq=False, slots=True)
class Changes(Generic[Column]):
    """Documents to delete from an index, and documents to write into it.

    Attributes:
        deleted: Rows of documents to delete (int32, ascending), all in the index.
        rows: Row of each document of ``written`` (int32).
        written: Documents in the form that :meth:`Engine.build` gets.
        replaced: Rows of ``written`` that the index holds with earlier content (int32, ascending).
    """

    deleted: Int32Array
    rows: Int32Array
    written: Documents[Column]
    replaced: Int32Array

    def __len__(self) -> int:
        """Return the number of documents that are deleted or written."""
        return len(self.deleted) + len(self.written)

    @property
    def outdated(self) -> Int32Array:
        """Rows whose content must go: rows of deleted and of replaced documents (int32, ascending)."""
        return np.union1d(self.deleted, self.replaced).astype(np.int32)


class DroppedContents(NamedTuple):
    """Rows (int32) of documents whose earlier content is deleted, and the number of the change that wrote it."""

    rows: Int32Array
    written: Int32Array

    @classmethod
    def of(cls, rows: npt.ArrayLike, written: npt.ArrayLike) -> Self:
        """Return them as int32."""
        return cls(np.asarray(rows, dtype=np.int32), np.asarray(written, dtype=np.int32))


class Changeable(Engine[Column]):
    """An engine that deletes, replaces and adds documents.

    Attributes:
        change_number: Number of changes since the index was built or opened.
        dropped: Contents that these changes deleted or replaced, the earliest first.
    """

    change_number = 0
    dropped = DroppedContents.of([], [])
    _written_by = np.empty(0, dtype=np.int32)
    """The number of the change that wrote each row's content, 0 for the build; unknown for later rows."""

    def __init_subclass__(cls) -> None:
        """Declare the class's capabilities."""
        super().__init_subclass__()
        declared = getattr(cls, "capabilities", None)
        if declared is not None:
            cls.capabilities = replace(declared, changes=True)

    @abstractmethod
    def change(self, folder: Path, changes: Changes[Column], progress: Progress) -> None:
        """Delete and write documents of the open index; :meth:`load` follows.

        Args:
            folder: The index's folder.
            changes: The documents to delete and to write, checked.
            progress: As for :meth:`build`: a separate phase ends ingestion.
        """

    def unchangeable(self) -> str | None:
        """Return why the open index cannot be changed; None if it can."""
        return None

    def apply(self, deleted: Ids, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Check, change, load and count; the manifest is removed during the change, so that an interruption is noticed.

        Raises:
            RejectedInputError: The index cannot be changed, a document to delete is missing or is also to be written,
                or the documents or the index have metadata.
            LostDocumentsError: The engine lost documents.
        """
        folder, loaded = self.folder, self.loaded
        changes, ids = self._changes_of(deleted, documents, loaded.dimensions)
        ingestion = Ingestion(progress, len(changes), clock, "change")
        with self._closed_on_failure():
            (folder / MANIFEST).unlink()
            gone = np.setdiff1d(np.union1d(self.deleted, changes.deleted), changes.rows).astype(np.int32)
            self._keep(finished=False, ids=ids, deleted=gone)
            self.note(changes)
            started = clock()
            with self.translated(lambda: "changing the index"):
                self.change(folder, changes, ingestion)
            ingested = ingestion.end()
            loaded = self._load(folder)
            ready = clock()
            write_manifest(
                folder, self.name, self.index_parameters, ids, indexed=loaded.documents, deleted=self.deleted
            )
        self._keep(_loaded=loaded, finished=True)
        times = ingested - started, ready - ingested
        return IndexReport(len(ids) - len(self.deleted), loaded.documents, loaded.missing, *times, loaded.state)

    def note(self, changes: Changes[Column]) -> None:
        """Count the change, and record the contents that it drops and the origin of the others, before timing starts.

        An engine may override it to record more.
        """
        number = self.change_number + 1
        written = np.zeros(len(self.ids), dtype=np.int32)
        written[: len(self._written_by)] = self._written_by
        outdated = changes.outdated
        dropped = DroppedContents.of(
            np.concatenate([self.dropped.rows, outdated]), np.concatenate([self.dropped.written, written[outdated]])
        )
        written[changes.rows] = number
        self._keep(change_number=number, dropped=dropped, _written_by=written)

    def _changes_of(self, deleted: Ids, documents: Inputs, dimensions: int | None) -> tuple[Changes[Column], Ids]:
        """Return the changes, and the ids of all rows after them."""
        if (reason := self.unchangeable()) is not None:
            raise RejectedInputError(f"the index cannot be changed: {reason}", fix="index all documents again")
        if documents.metadata is not None or saved_fields(self.folder):
            raise RejectedInputError(
                "an index with metadata to filter by is not changed",
                fix="index without metadata, or index everything again",
            )
        leaving, stored_rows = self.ids.rows_of(deleted), self.ids.rows_of(documents.ids)
        gone = np.isin(leaving, self.deleted) | (leaving < 0)
        if gone.any():
            strange = deleted[int(np.flatnonzero(gone)[0])]
            raise RejectedInputError(f"document '{strange}' is to be deleted and is not in the index")
        both = np.intersect1d(leaving, stored_rows)
        if len(both):
            raise RejectedInputError(
                f"document '{self.ids[int(both[0])]}' is to be deleted and to be written",
                fix="insert it only: that replaces the indexed document",
            )
        added = np.flatnonzero(stored_rows < 0)
        rows = stored_rows.astype(np.int32)
        rows[added] = np.arange(len(self.ids), len(self.ids) + len(added), dtype=np.int32)
        written = Documents(documents.ids, self.check(documents, "document", dimensions), None)
        leaving_rows = np.setdiff1d(stored_rows[stored_rows >= 0], self.deleted).astype(np.int32)
        ids = Ids(pa.concat_arrays([self.ids.values, documents.ids.values.take(numbers(added))]))
        return Changes(np.sort(leaving).astype(np.int32), rows, written, leaving_rows), ids
