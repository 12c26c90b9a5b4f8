"""What adapters share for indexes that were there before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from harness.data.types import Ids, Int32Array, SparseVectors
from harness.engines.interface import ExpectedContent
from harness.errors import BackendError, EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = [
    "NOT_THESE_VECTORS",
    "other_vectors",
    "other_weights",
    "places_of",
    "read_ids",
    "require_same_columns",
    "source_folder",
    "spread_rows",
    "theirs",
    "unique_ids",
]

_NAMED = 5
NOT_THESE_VECTORS = (
    "a column is a term by its number alone: the index must have been made from the vectors that this encoder gives, "
    "with the same model, or for BM25 with the same collection, analyzer, k1 and b"
)


@contextmanager
def theirs(rebuild: str, instead: str) -> Iterator[None]:
    """Never tell anybody to delete an index that is not ours: the remedy ``rebuild`` becomes ``instead``."""
    try:
        yield
    except BackendError as error:
        if error.fix != rebuild:
            raise
        raise type(error)(error.what, fix=instead) from error


def source_folder(parameters: Mapping[str, ParameterValue]) -> Path:
    """The user's folder, absolute, ``~`` expanded."""
    return Path(str(parameters["path"])).expanduser().absolute()


def unique_ids(ids: Sequence[str | None], where: str) -> Ids:
    """Ids of the documents of an index, each once and none missing; ``where`` says what they were read from.

    Raises RejectedInputError, naming documents by number, or ids that occur twice.
    """
    absent = [row for row, one in enumerate(ids) if one is None]
    if absent:
        named = ", ".join(map(str, absent[:_NAMED])) + (", …" if len(absent) > _NAMED else "")
        raise RejectedInputError(
            f"{len(absent):,} of {len(ids):,} documents have no {where} (numbers {named})",
            fix="name one that every document has: without an id a hit means nothing",
        )
    present = [one for one in ids if one is not None]
    if len(set(present)) != len(present):
        twice = [one for one, count in Counter(present).most_common(_NAMED) if count > 1]
        raise RejectedInputError(
            f"several documents have the same {where}: {', '.join(repr(one) for one in twice)}",
            fix="a ranking must not hold an id twice: name one that is unique",
        )
    return Ids.of(present)


def require_same_columns(stored: SparseVectors, expected: SparseVectors, ids: Ids) -> Int32Array:
    """Rows whose stored weights are not the expected ones (int32), all columns being the same.

    Columns are terms by number only: with other columns for one document the numbers mean something else, and every
    answer is nonsense. Raises RejectedInputError naming the first such document.
    """
    lengths, wanted = np.diff(stored.indptr), np.diff(expected.indptr)
    strange = np.flatnonzero(lengths != wanted)
    if len(strange) == 0:
        rows = np.repeat(np.arange(len(stored)), lengths)
        strange = rows[stored.indices != expected.indices]
    if len(strange):
        raise RejectedInputError(
            f"the vector of document '{ids[int(strange[0])]}' in the index has other columns than the encoder gives it",
            fix=NOT_THESE_VECTORS,
        )
    differs = rows[stored.values.view(np.uint32) != expected.values.view(np.uint32)]
    return np.unique(differs).astype(np.int32)


def other_weights(rows: Int32Array, ids: Ids) -> str:
    """The reason why there is no oracle where ``rows`` of ``ids`` (at least one) hold other weights than expected."""
    return f"{len(rows):,} documents have other weights than the encoder gives, '{ids[int(rows[0])]}' first"


def other_vectors(rows: Int32Array, ids: Ids) -> str:
    """The same where ``rows`` of ``ids`` hold other dense vectors."""
    return f"{len(rows):,} documents have other vectors than the encoder gives, '{ids[int(rows[0])]}' first"


def places_of(content: ExpectedContent, documents: int) -> Int32Array:
    """The collection's place of each of the ``documents`` of an index (int32), -1 for those that it does not know."""
    places = np.full(documents, -1, dtype=np.int32)
    places[content.rows] = np.arange(len(content.rows), dtype=np.int32)
    return places


def spread_rows(documents: int, count: int) -> Int32Array:
    """Return at most ``count`` rows (int32, ascending) from all over an index of so many documents."""
    return np.unique(np.linspace(0, documents - 1, num=min(documents, count)).astype(np.int32))


def read_ids(path: Path, documents: int) -> Ids:
    """Ids of an index of so many documents from a file with one a line, in the order of its rows.

    Raises EngineUnavailableError for a file that cannot be read, RejectedInputError for another number of ids, or one
    that occurs twice.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineUnavailableError(
            f"the documents' ids cannot be read from '{path}': {error}",
            fix="write one id a line, in the order of the index's rows, and name the file: id_file=",
        ) from error
    if len(lines) != documents:
        raise RejectedInputError(f"'{path}' names {len(lines)} documents, the index holds {documents}")
    return unique_ids([line or None for line in lines], f"id in '{path}'")
