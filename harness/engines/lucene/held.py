"""Documents of a Lucene index that somebody else made: which of them there are, and what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harness.data.types import Ids, Int32Array
from harness.engines.external_index import theirs, unique_ids
from harness.engines.lucene.statistics import IndexStatistics
from harness.engines.lucene.stored_vectors import leaves_of
from harness.errors import RejectedInputError
from harness.java.bridge import REBUILD, JavaBridge, java_errors

__all__ = ["READABLE", "Held", "held_documents", "require_intact", "require_some_term"]

_NAMED = 3
READABLE = (
    "path= must name a folder that the Lucene of this jar can read: for an index of another version, name the Anserini "
    "jar that made it (jar=)"
)
"""What to do about an index of the user's that cannot be read."""


class Held(NamedTuple):
    """Documents of an existing index: their ids by row, and the row of each Lucene number (int32, -1 if deleted)."""

    ids: Ids
    row_of: Int32Array


def require_intact(bridge: JavaBridge, reader: Any, folder: Path) -> None:  # noqa: ANN401 - a Java object
    """Read every file of the index and compare it with Lucene's own checksum, which opening and searching do not.

    Raises EngineUnavailableError for a file that is damaged: its answers would be wrong without a word.
    """
    doing = f"comparing the files of the index in '{folder}' with their checksums"
    with theirs(REBUILD, "the index is damaged: take a backup of it, or make it again"), java_errors(doing):
        for leaf in leaves_of(bridge, reader):
            leaf.reader().checkIntegrity()


def require_some_term(statistics: IndexStatistics, terms: Sequence[str], fix: str) -> None:
    """Refuse a field that holds none of ``terms``, which queries have in common with documents that the index knows.

    Every query would be answered with nothing, and a mean of 0 would say that the index is bad.
    """
    if not terms or any(statistics.documents_with(term) for term in terms):
        return
    held = statistics.terms()
    found = f"has terms such as {', '.join(repr(one) for one in held[:_NAMED])}" if held else "has no terms"
    raise RejectedInputError(
        f"no query would find anything: the field '{statistics.field}' {found}, and none that the queries and the "
        f"collection's documents have, '{terms[0]}' first",
        fix=fix,
    )


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
