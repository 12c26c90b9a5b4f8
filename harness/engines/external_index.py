"""Indexes made outside the harness: reading their ids, and comparing their vectors with the encoder's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.field_paths import field_paths
from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, SparseVectors
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.errors import BackendError, EngineUnavailableError, IndexChangedError, RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.user_path import user_path

_MAX_EXAMPLES = 5
_PAGE_OF_TEXTS = 500
NOT_THESE_VECTORS = (
    "a column is a term by its number alone: the index must have been made from the vectors that this encoder gives, "
    "with the same model, or for BM25 with the same dataset, analyzer, k1 and b"
)
TEXT_FIELDS = ("text", "content", "page_content", "document")
"""Fields searched for texts if no field is named: LangChain's and LlamaIndex's names."""
Preserved: TypeAlias = Literal["bits", "unit", "direction", "product"]
"""The form in which an index keeps a vector: unchanged, divided by its length, times any number above 0, or as a
separate direction and length, whose product it returns."""
_PRODUCT_STEPS = 8
"""Steps of its largest value by which a product of direction and length may differ (4 were seen with Chroma)."""
Page = TypeVar("Page", Float32Array, SparseVectors)
_ROUNDOFF, _HALF_ROUNDOFF = 2.0**-24, 2.0**-11
_AS_IT_IS = 1e-6
"""Qdrant leaves a vector unchanged if its squared length differs from 1 by at most this."""
_STEPS = 2
"""Steps of its datatype by which a number may differ: one from its own rounding, one from the expected number's."""


class DocumentKeys:
    """The engine's keys of the documents of an external index, numbered in the order in which the index lists them.

    Attributes:
        ids: Ids of the documents, by row.
        values: Values of the named id field, by row, if several documents share some, or if some have none, which is
            null: ids are then the engine's keys.
        noun: The engine's own word for a document, in messages.
    """

    ids: Ids
    values: pa.StringArray | None = None
    noun: ClassVar[str] = "document"

    def __init__(self, pages: Iterable[tuple[Iterable[Any], Iterable[str | None]]], field: str, key: str = "") -> None:
        """Read the keys and ids of all documents.

        Args:
            pages: Keys of documents, and their values in the id field, aligned.
            field: Name of the id field in messages.
            key: Name of the engine's keys in messages: they are the ids if no document has a value in the field. "" if
                the user named the field: some document must have a value then, and several may share it.

        Raises:
            RejectedInputError: No document has an id, or in a field that the user did not name, some have none or share
                one.
        """
        ids: list[str | None] = []
        self._keys: list[Any] = []
        for keys, values in pages:
            self._keys += keys
            ids += values
        if key and not any(value is not None for value in ids):
            ids, field = [str(name) for name in self._keys], key
        if key:
            self.ids = unique_ids(ids, field)
        else:
            self.ids, self.values = ids_or_values(ids, field, self._keys)
        self._row_of = {name: row for row, name in enumerate(self._keys)}

    def keys(self, rows: Int32Array) -> list[Any]:
        """Return the keys of rows."""
        return [self._keys[row] for row in rows.tolist()]

    def rows(self, keys: Iterable[Any]) -> Int32Array:
        """Return the rows (int32) of keys; raises IndexChangedError for a document that did not exist before."""
        try:
            return np.fromiter((self._row_of[key] for key in keys), dtype=np.int32)
        except KeyError as error:
            raise IndexChangedError(
                f"the {self.noun} {error} was added while the index was searched",
                fix="stop other programs from writing to it",
            ) from error


class DocumentSample(NamedTuple):
    """Documents of an external index that have a vector: ``rows`` int32 (n,) in any order, ``vectors`` and texts.

    ``texts`` maps possible locations of texts, as named in messages, to a text of each document, None if it has no
    text.
    """

    rows: Int32Array
    vectors: Any
    texts: Mapping[str, Sequence[str | None]] = {}


class ExternalRows(ABC):
    """The vectors of an external index, by row, for comparison with the encoder's and for samples.

    A subclass implements :meth:`pages` and :meth:`sample`, which read from the index.

    Attributes:
        ids: Ids of the documents, by row.
        sparse: Whether the vectors are sparse.
        stored_as: How the index keeps dense vectors.
        half: Whether it keeps them as float16.
    """

    ids: Ids
    sparse = False
    stored_as: Preserved = "bits"
    half = False

    @abstractmethod
    def pages(self) -> Iterator[tuple[Int32Array, Any]]:
        """Yield rows of documents that have a vector, and the vectors, page by page."""

    @abstractmethod
    def sample(self, rows: Int32Array) -> DocumentSample:
        """Read the documents of ``rows`` that have a vector."""

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector, page by page; see :meth:`harness.engines.base.ExternalIndex.mismatch`."""
        if self.sparse:
            return compare_sparse(content, len(self.ids), self.pages(), progress)
        return compare_dense(content, len(self.ids), self.pages(), progress, self.stored_as, half=self.half)

    def texts(self, rows: Int32Array) -> list[str | None]:
        """Return the text of each of some documents, from the first location that has it; None if there is none."""
        text_of: dict[int, str] = {}
        for start in range(0, len(rows), _PAGE_OF_TEXTS):
            page = self.sample(rows[start : start + _PAGE_OF_TEXTS])
            for values in page.texts.values():
                for row, text in zip(page.rows.tolist(), values, strict=True):
                    if text:
                        text_of.setdefault(row, text)
        return [text_of.get(row) for row in rows.tolist()]

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return at most ``count`` documents with a vector, sampled across the index, by row ascending.

        Their texts come from the only location, or from the first location in which a document has a text.
        """
        rows, vectors, texts = self.sample(spread_rows(len(self.ids), count))
        order = np.argsort(rows)
        source = next((name for name, values in texts.items() if any(values) or len(texts) == 1), "")
        values = texts[source] if source else [None] * len(rows)
        return StoredDocuments(
            rows[order],
            tuple(values[position] for position in order.tolist()),
            dense=None if self.sparse else np.ascontiguousarray(vectors[order]),
            sparse=vectors.take(order) if self.sparse else None,
            text_source=source,
        )


@contextmanager
def foreign_index_errors(rebuild: str, instead: str) -> Iterator[None]:
    """Replace an error's remedy ``rebuild`` with ``instead``: never advise users to delete their own index."""
    try:
        yield
    except BackendError as error:
        if error.fix != rebuild:
            raise
        raise type(error)(error.problem, fix=instead) from error


def source_folder(parameters: Mapping[str, ParameterValue]) -> Path:
    """Return the user's folder, absolute, ``~`` expanded."""
    return user_path(str(parameters["path"])).absolute()


def unique_ids(ids: Sequence[str | None], source: str) -> Ids:
    """Return the ids of an index's documents, unique and complete; ``source`` names their source.

    Raises RejectedInputError, naming documents by number, or ids that occur twice.
    """
    absent = [row for row, doc_id in enumerate(ids) if doc_id is None]
    if absent:
        rows_text = ", ".join(map(str, absent[:_MAX_EXAMPLES])) + (", …" if len(absent) > _MAX_EXAMPLES else "")
        raise RejectedInputError(
            f"{len(absent):,} of {len(ids):,} documents have no {source} (numbers {rows_text})",
            fix="name a column that every document has: a hit without an id means nothing",
        )
    present = [doc_id for doc_id in ids if doc_id is not None]
    if len(set(present)) != len(present):
        twice = [doc_id for doc_id, count in Counter(present).most_common(_MAX_EXAMPLES) if count > 1]
        raise RejectedInputError(
            f"several documents have the same {source}: {', '.join(repr(doc_id) for doc_id in twice)}",
            fix="a ranking must not hold an id twice: name a unique column",
        )
    return Ids.of(present)


def ids_or_values(
    names: Sequence[str | None], source: str, keys: Iterable[object]
) -> tuple[Ids, pa.StringArray | None]:
    """Return the ids that a user-named field gives, and None; or the engine's ``keys``, and the field's values.

    The values are returned if several documents share some, as chunks of a file share its name, or if some documents
    have none, which is null. Raises as :func:`unique_ids` if no document has a value, or the keys are no ids.
    """
    all_keys = list(keys)
    key_texts = list(map(str, all_keys))
    are_ids = None not in names and len(set(names)) == len(names)
    if are_ids or set(names) == {None} or None in all_keys or len(set(key_texts)) < len(key_texts):
        return unique_ids(names, source), None
    return Ids.of(key_texts), strings(names)


def as_id(value: object) -> str | None:
    """Return text and whole numbers as an id; None for anything else."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def choose_column(
    source: str, parameter: str, requested: str, present: Sequence[str], usual: Sequence[str] = ()
) -> str:
    """Return the column to read.

    Args:
        source: The table, for messages.
        parameter: Names the column.
        requested: Its value; "" for the first existing ``usual`` name, or without usual names for the only column.
        present: Columns that can be it.
        usual: Names that are looked for.

    Raises:
        RejectedInputError: There is no such column, or more than one.
    """
    columns_text = ", ".join(f"'{name}'" for name in present) or "none"
    if requested and requested not in present:
        raise RejectedInputError(
            f"{source} has no column '{requested}' that can be the {parameter}", fix=f"it has: {columns_text}"
        )
    chosen = [requested] if requested else [name for name in usual or present if name in present]
    if not chosen or (not usual and len(chosen) > 1):
        raise RejectedInputError(
            f"{source} has {len(present)} columns that can be the {parameter}: {columns_text}",
            fix=f"name one: {parameter}=",
        )
    return chosen[0]


class Columns(NamedTuple):
    """Columns of a table made outside the harness.

    ``id`` is "" for ids inside a column, and ``text`` without a text column.
    """

    vector: str
    id: str
    text: str


def choose_columns(
    table: str,
    parameters: Mapping[str, ParameterValue],
    vectors: Sequence[str],
    plain: Sequence[str],
    texts: Sequence[str],
    id_names: Sequence[str],
    has_field: Callable[[str], bool],
) -> Columns:
    """Return the columns that parameters ``vector_column``, ``id_column`` and ``text_column`` name, or usual columns.

    Args:
        table: The table, for messages.
        parameters: Parameters of the backend.
        vectors: Columns of vectors; ``plain`` columns can hold ids, ``texts`` columns can hold texts.
        plain: See ``vectors``.
        texts: See ``vectors``.
        id_names: Usual names of the column of ids.
        has_field: Function that returns whether a column holds a field inside it.

    Raises:
        RejectedInputError: There is no such column, or more than one.
    """
    text = str(parameters["text_column"]) or next((name for name in TEXT_FIELDS if name in texts), "")
    id_column = str(parameters["id_column"])
    id_column = next((path for path in field_paths(id_column) if path in plain), id_column)
    is_inside = bool(id_column) and id_column not in plain and has_field(id_column)
    return Columns(
        choose_column(table, "vector_column", str(parameters["vector_column"]), vectors),
        "" if is_inside else choose_column(table, "id_column", id_column, plain, id_names),
        choose_column(table, "text_column", text, texts) if text else "",
    )


def require_similarity(described: str, similarities: Sequence[str], requested: str) -> str:
    """Return the ``requested`` similarity, the first one for "".

    Raises RejectedInputError for a similarity that is not among the index's ``similarities``; ``described`` names
    these.
    """
    if requested not in ("", *similarities):
        raise RejectedInputError(
            f"{described}, which is not similarity={requested}",
            fix=f"say similarity={' or similarity='.join(similarities)}, or leave it out",
        )
    return requested or similarities[0]


def sparse_of(
    columns: Sequence[Sequence[int]], weights: Sequence[Sequence[float]], dimensions: int | None = None
) -> SparseVectors:
    """Return vectors with ascending columns; the index may return them in any order.

    Without ``dimensions`` there are as many columns as the vectors have.
    """
    indptr = np.zeros(len(columns) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in columns], out=indptr[1:])
    indices = np.array([column for row in columns for column in row], dtype=np.int64)
    values = np.array([weight for row in weights for weight in row], dtype=np.float32)
    order = np.lexsort((indices, np.repeat(np.arange(len(columns)), np.diff(indptr))))
    # a column beyond the vocabulary stays so: it differs from all columns of the encoder
    narrow = np.minimum(indices[order], np.iinfo(np.int32).max).astype(np.int32)
    return SparseVectors(indptr, narrow, values[order], dimensions or int(narrow.max(initial=-1)) + 1)


def positions_of(content: ExpectedContent, documents: int) -> Int32Array:
    """Return each index document's position in the dataset (int32), -1 if the dataset lacks it."""
    positions = np.full(documents, -1, dtype=np.int32)
    positions[content.rows] = np.arange(len(content.rows), dtype=np.int32)
    return positions


def spread_rows(documents: int, count: int) -> Int32Array:
    """Return at most ``count`` rows (int32, ascending), spread across an index of this many documents."""
    return np.unique(np.linspace(0, documents - 1, num=min(documents, count)).astype(np.int32))


def read_ids(path: Path, documents: int) -> Ids:
    """Read the ids of an index from a file with an id per line, in the order of its rows.

    Raises EngineUnavailableError for a file that cannot be read, RejectedInputError for a wrong number of ids or a
    repeated id.
    """
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")  # an id may hold U+2028
    except (OSError, UnicodeDecodeError) as error:
        raise EngineUnavailableError(
            f"the documents' ids cannot be read from '{path}': {error}",
            fix="write one id per line, in the order of the index's rows, and name the file: id_file=",
        ) from error
    if len(lines) != documents:
        raise RejectedInputError(
            f"'{path}' names {len(lines)} documents, the index holds {documents}",
            fix="give it one line for each document, in the order of the index's rows",
        )
    return unique_ids([line or None for line in lines], f"id in '{path}'")


def compare_dense(
    content: ExpectedContent,
    documents: int,
    pages: Iterable[tuple[Int32Array, Float32Array]],
    progress: Progress,
    preserved: Preserved = "bits",
    *,
    half: bool = False,
) -> str | None:
    """Compare an index's vectors with ``content``; return why they differ, None if they are equal.

    Args:
        content: Expected content of the index. documents: Number of its documents.
        pages: Rows of documents that have a vector, and the vectors, float32 (n, d).
        progress: Advanced by the rows of each page.
        preserved: How the index keeps vectors.
        half: Whether it keeps them as float16.

    Raises:
        RejectedInputError: There is nothing to compare with, or the dimensions differ from the encoder's.
    """
    expected, queries, ids = content.documents.dense, content.queries.dense, content.documents.ids
    if expected is None or queries is None:
        raise RejectedInputError("there are no dense vectors to compare the index with", fix="encode them")
    absent, strange, off = np.ones(len(expected), dtype=np.bool_), [np.empty(0, dtype=np.int32)], 0.0
    for positions, valid, stored in _pages_in_dataset(content, documents, pages, progress):
        if stored.shape[1] != queries.shape[1]:
            raise RejectedInputError(
                f"the index has vectors of {stored.shape[1]} dimensions, the encoder gives {queries.shape[1]}",
                fix="name the model and the truncate_dim that the index was made with",
            )
        absent[positions] = False
        other = ~same_vectors(stored[valid], expected[positions], preserved, half=half)
        strange.append(positions[other])
        off = max(off, float(np.abs(stored[valid][other] - expected[positions][other]).max(initial=0.0)))
    if absent.any():
        return f"{absent.sum():,} documents have no such vector, '{ids[int(absent.argmax())]}' first"
    different = _different("vectors", np.concatenate(strange), ids)
    return different and f"{different}; values differ by up to {off:.2g}"


def compare_sparse(
    content: ExpectedContent, documents: int, pages: Iterable[tuple[Int32Array, SparseVectors]], progress: Progress
) -> str | None:
    """Compare sparse vectors as :func:`compare_dense` does dense ones.

    Columns are only numbers of terms: if one document has other columns, the numbers mean something else and every
    answer is meaningless. Raises RejectedInputError naming the first such document.
    """
    expected, ids = content.documents.sparse, content.documents.ids
    if expected is None:
        raise RejectedInputError("there are no sparse vectors to compare the index with", fix="encode them")
    strange = [np.empty(0, dtype=np.int32)]
    for positions, valid, page in _pages_in_dataset(content, documents, pages, progress):
        stored, expected_rows = page.take(valid), expected.take(positions)
        lengths = np.diff(stored.indptr)
        rows, other = (
            np.repeat(np.arange(len(stored)), lengths),
            np.flatnonzero(lengths != np.diff(expected_rows.indptr)),
        )
        if len(other) == 0:
            other = rows[stored.indices != expected_rows.indices]
        if len(other):
            doc_id = ids[int(positions[other[0]])]
            raise RejectedInputError(
                f"the vector of document '{doc_id}' in the index has other columns than the encoder gives it",
                fix=NOT_THESE_VECTORS,
            )
        strange.append(
            positions[np.unique(rows[stored.values.view(np.uint32) != expected_rows.values.view(np.uint32)])]
        )
    return _different("weights", np.concatenate(strange), ids)


def _pages_in_dataset(
    content: ExpectedContent, documents: int, pages: Iterable[tuple[Int32Array, Page]], progress: Progress
) -> Iterator[tuple[Int32Array, Int64Array, Page]]:
    """Yield the pages with documents of the dataset: their positions in the dataset and in the page, and the page."""
    position_of = positions_of(content, documents)
    progress.start("compare", documents)
    for rows, page in pages:
        positions = position_of[rows]
        valid = np.flatnonzero(positions >= 0)
        if len(valid):
            yield positions[valid], valid, page
        progress.advance(len(rows))


def _different(kind: str, positions: Int32Array, ids: Ids) -> str | None:
    """Return a sentence that the documents at ``positions`` differ; None if ``positions`` is empty."""
    if len(positions) == 0:
        return None
    return f"{len(positions):,} documents have other {kind} than the encoder gives, '{ids[int(positions.min())]}' first"


def same_vectors(
    stored: Float32Array, expected: Float32Array, preserved: Preserved, *, half: bool = False
) -> npt.NDArray[np.bool_]:
    """Return which rows of ``stored`` (n, d) equal the rows of ``expected`` (n, d), kept that way: bool (n,).

    A length is summed in float32 in an unknown order. So a vector divided by it may have a common factor that is as far
    from 1 as the rounding of the sum allows; each value is then within two steps of the datatype, float32 or (``half``)
    float16.
    """
    from harness.exact.dense import vector_lengths  # only dense vectors need this import

    if preserved == "bits":
        comparable = expected.astype(np.float16).astype(np.float32) if half else expected
        return np.asarray((stored == comparable).all(axis=1))
    if preserved == "product":
        allowed = _PRODUCT_STEPS * np.spacing(np.abs(expected).max(axis=1, initial=0.0))
        return np.asarray((np.abs(stored - expected) <= allowed[:, None]).all(axis=1))
    lengths = vector_lengths(np.ascontiguousarray(expected))
    directions = expected / np.where(lengths > 0, lengths, 1)[:, None]
    factors = (stored * directions).sum(axis=1)
    nearest = factors[:, None] * directions
    step = np.spacing(np.abs(nearest).astype(np.float16 if half else np.float32)).astype(np.float64)
    close = (np.abs(stored - nearest) <= _STEPS * step).all(axis=1)
    if preserved == "direction":
        return np.asarray(close & (factors > 0))
    # each of d squares and their sum are rounded, the root halves that error, and is rounded itself
    allowed_factor = max(_AS_IT_IS, (expected.shape[1] / 2 + 2) * _ROUNDOFF) + (_HALF_ROUNDOFF if half else _ROUNDOFF)
    return np.asarray(close & (np.abs(factors - 1) <= allowed_factor))
