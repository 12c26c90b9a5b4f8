"""Documents of a Lucene index that somebody else made: which of them there are, and what they are called."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.adapters.existing import unique_ids
from harness.adapters.lucene_statistics import IndexStatistics
from harness.errors import RejectedInputError
from harness.types import Ids, Int32Array

__all__ = ["READABLE", "Held", "held_documents"]

READABLE = (
    "path= must name a folder that the Lucene of this jar can read: for an index of another version, name the Anserini "
    "jar that made it (jar=)"
)
"""What to do about an index of the user's that cannot be read."""


class Held(NamedTuple):
    """Documents of an existing index: their ids by row, and the row of each Lucene number (int32, -1 if deleted)."""

    ids: Ids
    row_of: Int32Array


def held_documents(statistics: IndexStatistics, id_field: str) -> Held:
    """Ids of what is not deleted, in Lucene's order, from a stored field, or else from one of doc values.

    Raises RejectedInputError for a field that is not there, or not in every document, and for ids that occur twice.
    """
    live = statistics.live_documents()
    names = statistics.stored_values(id_field)
    if all(one is None for one in names):
        names = statistics.doc_values(id_field)
    if names and all(one is None for one in names):
        stored = ", ".join(statistics.stored_fields()) or "none"
        raise RejectedInputError(
            f"no document of the index has the stored field '{id_field}', and none has doc values of it",
            fix=f"name the one that holds the ids (id_field=); the first document stores {stored}",
        )
    ids = unique_ids([names[number] for number in live.tolist()], f"stored field '{id_field}'")
    row_of = np.full(len(names), -1, dtype=np.int32)
    row_of[live] = np.arange(len(live), dtype=np.int32)
    return Held(ids, row_of)
