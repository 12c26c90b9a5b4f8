"""What the report says of an index that was there before."""

from __future__ import annotations

import numpy as np

from harness.data.dataset import Dataset
from harness.results import schema
from harness.worker.jobs import ExternalIndexRecord, TrialRecord

__all__ = ["external_index_notes", "external_index_stats"]

_NAMED = 20


def external_index_stats(held: ExternalIndexRecord) -> schema.ExternalIndexStats:
    """The report's fields of an external index."""
    strange = np.flatnonzero(held.rows < 0)
    return schema.ExternalIndexStats(
        in_collection=len(held.rows) - len(strange),
        not_in_collection=len(strange),
        examples=held.ids.take(strange[:_NAMED]),
        no_reference=held.no_reference,
        files=held.files,
        file_bytes=held.file_bytes,
        sha256=held.sha256,
    )


def external_index_notes(
    record: TrialRecord, held: ExternalIndexRecord, dataset: Dataset, *, has_reference: bool
) -> list[str]:
    """What a reader must know: which documents differ, that nothing was changed, and why there is no parity.

    ``has_reference`` is False where the backend would have no reference with an index of its own either.
    """
    stats = external_index_stats(held)
    notes = [f"an external index of {len(held.rows):,} documents, searched as it is"]
    if stats.files is not None and stats.file_bytes is not None:
        notes.append(f"its {stats.files:,} files ({stats.file_bytes:,} bytes) had the same SHA-256 before and after")
    if not len(dataset.corpus):
        return [*notes, f"not held against a reference: {held.no_reference}"]
    if stats.not_in_collection:
        found = _listed(stats.examples, stats.not_in_collection)
        notes.append(f"{stats.not_in_collection:,} of its documents are not in the collection: {found}")
    absent = record.index.missing_rows
    if len(absent):
        empty = set(dataset.corpus.empty_rows.tolist())
        because = ", because they are empty" if set(absent.tolist()) <= empty else ""
        found = _listed(dataset.corpus.ids.take(absent[:_NAMED]), len(absent))
        notes.append(f"{len(absent):,} documents of the collection are not in it{because}: {found}")
    if has_reference and held.no_reference is not None:
        notes.append(f"not held against a reference: {held.no_reference}")
    return notes


def _listed(ids: list[str], count: int) -> str:
    more = f" and {count - len(ids):,} more" if count > len(ids) else ""
    return ", ".join(ids) + more
