"""Lucene indexes made outside the harness: checking their files, and reading their documents' ids."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.field_paths import field_paths
from harness.data.types import Ids, Int32Array
from harness.engines.external_index import foreign_index_errors, ids_or_values, unique_ids
from harness.engines.lucene.reader import IndexReader
from harness.errors import RejectedInputError
from harness.java.bridge import REBUILD, java_errors

_MAX_EXAMPLES = 3
READABLE = (
    "path= must name the folder that holds segments_N of an index that the Lucene of this jar can read: take a backup "
    "of a damaged one, and for an index of another version, name the Anserini jar that made it (jar=)"
)
"""Remedy for a user's index that cannot be read."""


_ID_FIELD = "id"
"""The default of ``id_field``, Anserini's name: a user who names another field may mean one that documents share."""


class DocumentMap(NamedTuple):
    """Documents of an external index: their ids by row, and the row of each Lucene number (int32, -1 if deleted).

    ``values`` are the values of the named field if several documents share some; ids are then Lucene's numbers.
    """

    ids: Ids
    row_of: Int32Array
    values: pa.StringArray | None = None


def require_intact(reader: IndexReader, folder: Path) -> None:
    """Read every file of the index and compare it with Lucene's own checksum, which opening and searching do not.

    Raises:
        EngineUnavailableError: A file is damaged: answers would be silently wrong.
    """
    doing = f"comparing the files of the index in '{folder}' with their checksums"
    with (
        foreign_index_errors(REBUILD, "the index is damaged: take a backup of it, or make it again"),
        java_errors(doing),
    ):
        for leaf in reader.leaves():
            leaf.reader().checkIntegrity()


def require_searchable(reader: IndexReader, subject: str, parameter: str = "field") -> None:
    """Refuse an index without the field; ``subject`` describes the field in messages. Raises RejectedInputError.

    ``parameter`` is the name of the parameter that names the field.
    """
    indexed = reader.indexed_fields()
    if reader.field not in indexed:
        raise RejectedInputError(
            f"no document of the index has the {subject} '{reader.field}'",
            fix=f"name one that is indexed ({parameter}=): {', '.join(indexed) or 'there is none'}",
        )


def require_indexed_term(reader: IndexReader, terms: Sequence[str], fix: str) -> None:
    """Refuse a field without any of ``terms``, the queries' terms that occur in documents of the index.

    Every query would get no hits, and a mean of 0 would make the index look bad.
    """
    if not terms or any(reader.documents_with(term) for term in terms):
        return
    stored = reader.terms()
    examples = f"has terms such as {', '.join(map(repr, stored[:_MAX_EXAMPLES]))}" if stored else "has no terms"
    raise RejectedInputError(
        f"no query would find anything: the field '{reader.field}' {examples}, and none that the queries and the "
        f"dataset's documents have, '{terms[0]}' first",
        fix=fix,
    )


def map_documents(reader: IndexReader, id_field: str) -> DocumentMap:
    """Read the ids of undeleted documents, in Lucene's order, from a stored field or else from doc values.

    Raises:
        RejectedInputError: The field is missing, or missing in some documents, or an id occurs twice.
    """
    live = reader.live_documents()
    names: list[str | None] = []
    for path in field_paths(id_field):
        names = reader.stored_values(path)
        if all(name is None for name in names):
            names = reader.doc_values(path)
        if any(name is not None for name in names):
            break
    if names and all(name is None for name in names):
        stored = ", ".join(reader.stored_fields()) or "none"
        raise RejectedInputError(
            f"no document of the index has the stored field '{id_field}', and none has doc values of it",
            fix=f"name the one that holds the ids (id_field=); the first document stores {stored}",
        )
    numbers, source = live.tolist(), f"stored field '{id_field}'"
    of_live, values = [names[number] for number in numbers], None
    if id_field == _ID_FIELD:
        ids = unique_ids(of_live, source)
    else:
        ids, values = ids_or_values(of_live, source, numbers)
    row_of = np.full(len(names), -1, dtype=np.int32)
    row_of[live] = np.arange(len(live), dtype=np.int32)
    return DocumentMap(ids, row_of, values)
