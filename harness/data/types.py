"""Frozen columnar data that flows between loaders, encoders, engines, metrics and reports.

Row numbers are positions in an id column. They are the internal ids that engines get; external ids appear only where
people or files need them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, numbers, strings
from harness.wording import label_model_in_words

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
UInt32Array = npt.NDArray[np.uint32]
UInt64Array = npt.NDArray[np.uint64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
Grades = Int32Array | Float64Array
"""Grades of judgments: int32 if all are whole numbers, else float64."""
Similarity = Literal["cosine", "dot", "l2"]
"""Score of two dense vectors: cosine, dot product, or the negative squared Euclidean distance."""
_SPACE = rb"[ \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]".decode("unicode_escape")
CONTROL = r"[\x00-\x1f\x7f-\x9f]"
"""Matches control characters, C0 and C1, as :data:`BAD_ID` does."""
BAD_ID = rf"^$|^{_SPACE}|{_SPACE}$|{CONTROL}"
"""Matches ids that are refused: a regular expression that Arrow and Python read alike, unlike ``\\s``."""
BAD_ID_IS = "is empty, or has outer spaces or control characters"


_ROWS_PER_BLOCK = 4096
HAS_CONTROL = "holds control characters"
LINE_ID = "line-"
"""Prefix of the ids of queries to which their file gives none; the number of the line follows."""


def rows_with_control(ids: pa.StringArray) -> list[int]:
    """Return the rows of ids that hold control characters."""
    return np.flatnonzero(as_numpy(pc.match_substring_regex(ids, CONTROL))).tolist()


@dataclass(frozen=True, eq=False)
class Ids:
    """A column of unique external ids; the position of an id is its row number.

    ``values`` is an Arrow string array without nulls. Uniqueness is the maker's duty (loaders report duplicates with
    file and line); it is not checked here.
    """

    values: pa.StringArray

    @classmethod
    def of(cls, ids: Iterable[str]) -> Ids:
        """Make ids of any iterable of strings, in its order."""
        return cls(strings(ids))

    def __getstate__(self) -> dict[str, pa.StringArray]:
        """Leave out remembered values: the rows of other columns are kept only as long as those columns live."""
        return {"values": self.values}

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> str:
        return str(self.values[int(row)].as_py())

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def to_list(self) -> list[str]:
        """Return all ids as Python strings: for the edges (client libraries, files), never for a hot path."""
        ids: list[str] = self.values.to_pylist()
        return ids

    def take(self, rows: npt.NDArray[Any]) -> list[str]:
        """Return the ids at ``rows``, as Python strings."""
        ids: list[str] = self.values.take(numbers(rows)).to_pylist()
        return ids

    def rows_of(self, ids: pa.Array | Ids) -> Int32Array:
        """Return the first row number of each id, -1 if it is not in this column.

        The answer for another id column is remembered as long as that column lives: a corpus is matched with the same
        judgments for every backend, measure set and tie rule.
        """
        if isinstance(ids, Ids) and ids in self._matched:
            return self._matched[ids]
        lookup = ids.values if isinstance(ids, Ids) else ids
        rows: Int32Array
        if len(lookup) >= len(self):  # the smaller column is hashed, at 60 bytes an id
            rows = as_numpy(pc.index_in(lookup, value_set=self.values), null=-1)
        else:
            coded = pc.dictionary_encode(lookup)
            position = as_numpy(pc.index_in(self.values, value_set=coded.dictionary), null=-1)
            matches = np.flatnonzero(position >= 0)[::-1]
            first = np.full(len(coded.dictionary) + 1, -1, dtype=np.int32)
            first[position[matches]] = matches  # the last assignment counts: the first row's
            rows = first[as_numpy(coded.indices, null=len(coded.dictionary))]
        if isinstance(ids, Ids):
            self._matched[ids] = rows
        return rows

    @cached_property
    def _matched(self) -> WeakKeyDictionary[Ids, Int32Array]:
        return WeakKeyDictionary()

    def count_line_ids(self) -> int:
        """Return how many ids stand for a line of a file that gives none."""
        return int(pc.sum(pc.match_substring_regex(self.values, rf"^{LINE_ID}[0-9]+$")).as_py() or 0)

    @cached_property
    def hold_white_space(self) -> bool:
        """True if an id holds white space, which separates the columns of TREC's format."""
        return bool(pc.any(pc.match_substring_regex(self.values, r"\s")).as_py())

    @cached_property
    def tie_rank(self) -> UInt32Array:
        """Position of each row's id among all ids in ascending byte order (uint32, shape (n,)).

        trec_eval breaks equal scores by the *larger* id first, comparing bytes as C's ``strcmp`` does; Arrow compares
        UTF-8 bytes, which is the same order.
        """
        order = as_numpy(pc.sort_indices(self.values))
        rank = np.empty(len(self), dtype=np.uint32)
        rank[order] = np.arange(len(self), dtype=np.uint32)
        return rank


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents: ids and the searchable text of each (title and text joined by the loader's one rule).

    ``texts`` is an Arrow string column of the same length, usually memory-mapped. ``digest`` is the SHA-256 of ids and
    texts in order, so it identifies the content in any location. ``path`` is the Arrow IPC file (columns id and text)
    that the columns are mapped from, None when they live in memory only.
    """

    ids: Ids
    texts: pa.ChunkedArray
    digest: str
    path: Path | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def empty_rows(self) -> Int32Array:
        """Rows whose text is empty or white space only."""
        empty = [np.empty(0, dtype=np.int32)]
        for start in range(0, len(self), _ROWS_PER_BLOCK):  # trimming copies the texts
            trimmed = pc.utf8_trim_whitespace(self.texts.slice(start, _ROWS_PER_BLOCK))
            empty.append((np.flatnonzero(as_numpy(pc.binary_length(trimmed)) == 0) + start).astype(np.int32))
        return np.concatenate(empty)

    def batches(self, size: int) -> Iterator[list[str]]:
        """Yield texts in order, ``size`` at a time, as Python strings."""
        for start in range(0, len(self), size):
            yield self.texts.slice(start, size).to_pylist()


@dataclass(frozen=True, eq=False)
class Queries:
    """Queries: ids and texts, in the order of their file. ``digest`` as in :class:`Corpus`."""

    ids: Ids
    texts: pa.ChunkedArray
    digest: str

    def __len__(self) -> int:
        return len(self.ids)


class LabelModel(NamedTuple):
    """A model that graded documents, the digest of its prompt, and the date of its latest grade; None for unknown."""

    model: str
    prompt_digest: str | None
    date: str | None

    def __str__(self) -> str:
        return label_model_in_words(*self)


@dataclass(frozen=True, eq=False)
class Qrels:
    """Graded judgments, grouped by query.

    ``indptr`` int64 (Q + 1), ``rows`` int32 (J,) into ``doc_ids``, ``grades`` (J,): int32, or float64 if a grade is not
    a whole number. A grade of at least the relevance threshold is relevant; negative grades are allowed (trec_eval's
    codes) and never relevant. ``doc_ids`` holds the judged documents only, not the corpus. ``repeated`` counts
    judgments that were there again with the same grade, and are left out. ``groups`` int32 (J,) makes judgments of one
    query with the same number alternatives: one of them is enough, and a group counts once; None if no judgment has an
    alternative. ``ideal`` (J,) are the grades of the best ranking, in descending order for each query, None for all
    grades. ``notes`` are accepted oddities of their file, such as ratings without a value. ``human`` are the judgments
    without grades by models, None if no model gave a grade; ``models`` are these models, with the pairs of query and
    document that they graded, None if that is not stored.
    """

    query_ids: Ids
    doc_ids: Ids
    indptr: Int64Array
    rows: Int32Array
    grades: Grades
    repeated: int = 0
    groups: Int32Array | None = None
    ideal: Grades | None = None
    notes: tuple[str, ...] = ()
    human: Qrels | None = None
    models: Mapping[LabelModel, Collection[tuple[str, str]] | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def descending_grades(self) -> Grades:
        """Return the grades of each query's best ranking, in the slices of ``indptr`` (shape (J,))."""
        if self.ideal is not None:
            return self.ideal
        return self.grades[np.lexsort((-self.grades.astype(np.float64), owners(self.indptr)))]

    @property
    def has_fractions(self) -> bool:
        """Return whether a grade is not a whole number."""
        return self.grades.dtype.kind == "f"

    def of_queries(self, queries: Ids) -> Qrels:
        """Return the judgments of those queries only, in this object's order."""
        common = np.flatnonzero(queries.rows_of(self.query_ids) >= 0)
        indptr, positions = gather(self.indptr, common)
        query_ids = Ids(self.query_ids.values.take(numbers(common)))
        groups = None if self.groups is None else self.groups[positions]
        chosen = Qrels(query_ids, self.doc_ids, indptr, self.rows[positions], self.grades[positions], groups=groups)
        human = None if self.human is None else self.human.of_queries(queries)
        if human is None or len(human) == len(chosen):
            return chosen
        names = set(query_ids)
        models = {
            model: pairs
            for model, pairs in self.models.items()
            if pairs is None or any(query in names for query, _ in pairs)
        }
        return replace(chosen, human=human, models=models)

    @property
    def by_people(self) -> Qrels:
        """Return the judgments without grades by models."""
        return self if self.human is None else self.human

    @property
    def groups_by_id(self) -> dict[str, dict[str, int]]:
        """Query -> document -> its group of alternatives; empty without groups."""
        if self.groups is None:
            return {}
        documents, bounds = self.doc_ids.take(self.rows), self.indptr.tolist()
        return {
            query: dict(zip(documents[start:stop], self.groups[start:stop].tolist(), strict=True))
            for query, start, stop in zip(self.query_ids, bounds[:-1], bounds[1:], strict=True)
        }

    def with_groups(
        self, groups_by_query: Mapping[str, Mapping[str, int | None]] | Mapping[str, Mapping[str, int]]
    ) -> Qrels:
        """Return the same judgments with groups of alternatives, each document's by query and document.

        None, and no entry, is a group with one member. Without any two members of a group there are no groups.
        """
        numbered: list[int] = []
        documents, bounds = self.doc_ids.take(self.rows), self.indptr.tolist()
        repeats = False
        for query, start, stop in zip(self.query_ids, bounds[:-1], bounds[1:], strict=True):
            groups_of_query, numbers_by_group = groups_by_query.get(query, {}), dict[int, int]()
            for position, document in enumerate(documents[start:stop]):
                group = groups_of_query.get(document)
                first = position if group is None else numbers_by_group.setdefault(group, position)
                repeats = repeats or first != position
                numbered.append(first)
        return replace(self, groups=np.array(numbered, dtype=np.int32)) if repeats else self


@dataclass(frozen=True, eq=False)
class DocumentContent:
    """Facts about the documents of an id column besides their ids, which expectations may name.

    ``values`` are the values of a field, ``texts`` the texts, each a string column with null for an unknown one; None
    if they were not read. ``complete`` says that all texts were read, not only those of hits. ``repeats`` says that the
    values are of a field from which ids were to be read, but which several documents share.
    """

    values: pa.ChunkedArray | None = None
    texts: pa.ChunkedArray | None = None
    complete: bool = False
    repeats: bool = False


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked documents of every query from one backend, in the order in which the engine gave them.

    ``indptr`` int64 (Q + 1), ``rows`` int32 (H,) into ``doc_ids``, ``scores`` float32 (H,). A query without hits, whose
    search found nothing, has an empty slice.

    ``wide_scores`` float64 (H,) are the scores as they were read, kept only if float32 makes two different scores of a
    query equal: tools that compare in double precision order them otherwise. A run that is put in another order does
    not keep them.

    ``content`` are facts about ``doc_ids`` that a backend itself reports, None if its documents are the corpus's.
    """

    query_ids: Ids
    doc_ids: Ids
    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array
    wide_scores: Float64Array | None = None
    content: DocumentContent | None = None

    def of_queries(self, queries: npt.NDArray[Any]) -> Run:
        """Return the run of some queries, given by number, in that order."""
        indptr, positions = gather(self.indptr, queries)
        query_ids = Ids(self.query_ids.values.take(numbers(queries)))
        wide = None if self.wide_scores is None else self.wide_scores[positions]
        return Run(query_ids, self.doc_ids, indptr, self.rows[positions], self.scores[positions], wide)

    def with_scores(self, scores: Float32Array) -> Run:
        """Return the same hits with other scores, float32 (H,), and without ``wide_scores``, which would be stale."""
        return Run(self.query_ids, self.doc_ids, self.indptr, self.rows, scores)

    @property
    def hits(self) -> int:
        """Number of hits over all queries."""
        return len(self.rows)

    def of_query(self, query: int) -> slice:
        """Return the slice of ``rows`` and ``scores`` that belongs to query number ``query``."""
        return slice(int(self.indptr[query]), int(self.indptr[query + 1]))


@dataclass(frozen=True, eq=False)
class SparseVectors:
    """Sparse vectors as CSR arrays: one row per document or query, one column a dimension (a term).

    ``indptr`` int64 (n + 1), ``indices`` int32 (nnz,) ascending and unique within a row, ``values`` float32 (nnz,).
    Arrays may be memory-mapped.
    """

    indptr: Int64Array
    indices: Int32Array
    values: Float32Array
    dimensions: int

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        return len(self.values)

    def row(self, row: int) -> tuple[Int32Array, Float32Array]:
        """Return indices and values of one row."""
        cut = slice(int(self.indptr[row]), int(self.indptr[row + 1]))
        return self.indices[cut], self.values[cut]

    def slice(self, start: int, stop: int) -> SparseVectors:
        """Return rows ``start`` to ``stop``, without copying their values."""
        indptr = self.indptr[start : stop + 1]
        values = slice(int(indptr[0]), int(indptr[-1]))
        return SparseVectors(indptr - indptr[0], self.indices[values], self.values[values], self.dimensions)

    def take(self, rows: npt.NDArray[Any]) -> SparseVectors:
        """Return some of the vectors, in the order of ``rows``."""
        indptr, positions = gather(self.indptr, rows)
        return SparseVectors(indptr, self.indices[positions], self.values[positions], self.dimensions)

    def only(self, mask: npt.NDArray[np.bool_]) -> SparseVectors:
        """Return the vectors with only some of their values: ``mask`` bool (nnz,)."""
        return SparseVectors(
            offsets_of(mask)[self.indptr], self.indices[mask], np.asarray(self.values)[mask], self.dimensions
        )

    @cached_property
    def nonempty_rows(self) -> Int32Array:
        """Rows that have at least one stored value."""
        return np.flatnonzero(np.diff(self.indptr) > 0).astype(np.int32)

    def to_scipy(self) -> Any:
        """Return the same vectors as ``scipy.sparse.csr_array`` (float32), sharing memory."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.indices, self.indptr), shape=(len(self), self.dimensions))

    @classmethod
    def from_scipy(cls, matrix: Any) -> SparseVectors:
        """Convert any SciPy sparse matrix or array: duplicates summed, indices sorted; the input is left as it was."""
        from scipy.sparse import csr_array

        csr = csr_array(matrix, copy=True)
        csr.sum_duplicates()
        return cls(
            indptr=csr.indptr.astype(np.int64, copy=False),
            indices=csr.indices.astype(np.int32, copy=False),
            values=csr.data.astype(np.float32, copy=False),
            dimensions=int(csr.shape[1]),
        )


def offsets_of(lengths: npt.NDArray[Any]) -> Int64Array:
    """Return the start of each of consecutive lists, and the end of the last one: int64 (n + 1)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def owners(indptr: Int64Array) -> Int64Array:
    """Return the number of the list that each value is in, int64; lists begin at ``indptr``."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def ranks_in(indptr: Int64Array) -> Int64Array:
    """Return the place of each value in its list, from 0, int64; lists begin at ``indptr``."""
    return np.arange(int(indptr[-1])) - np.repeat(indptr[:-1], np.diff(indptr))


def gather(indptr: Int64Array, rows: npt.NDArray[Any]) -> tuple[Int64Array, Int64Array]:
    """Return offsets of the chosen rows among themselves, and the present place of each of their values."""
    lengths = np.diff(indptr)[rows]
    offsets = offsets_of(lengths)
    return offsets, np.arange(offsets[-1]) + np.repeat(indptr[:-1][rows] - offsets[:-1], lengths)


@dataclass(frozen=True, eq=False)
class TermCounts:
    """Counts of each term of the corpus in each document and each query.

    ``documents`` and ``queries`` share the columns of ``vocabulary`` (the terms of the corpus in ascending byte order);
    their values are counts. ``unknown_terms`` int32 (Q,) counts query tokens that no document contains.

    Documents of several fields have a column for each term of each field, all terms of the first field first, and
    queries have their terms in every field; ``field_weights`` float64 (F,) are the fields' weights, None for a single
    text. ``known_lengths`` int64 (n,) are the documents' lengths if the values are not their counts.
    """

    documents: SparseVectors
    queries: SparseVectors
    vocabulary: Ids
    unknown_terms: Int32Array
    field_weights: Float64Array | None = None
    known_lengths: Int64Array | None = None

    @property
    def fields(self) -> int:
        """Number of fields: 1 for documents that are one text."""
        return 1 if self.field_weights is None else len(self.field_weights)

    @property
    def terms_per_field(self) -> int:
        """Number of columns of each field."""
        return self.documents.dimensions // self.fields

    def field_lengths(self) -> Int64Array:
        """Return the terms in each field of each document, repeats included (int64, shape (n, F))."""
        if self.field_weights is None:
            return self.lengths[:, np.newaxis]
        lengths = np.zeros((len(self.documents), self.fields), dtype=np.int64)
        for start in range(0, len(self.documents), _ROWS_PER_BLOCK):
            block = self.documents.slice(start, min(start + _ROWS_PER_BLOCK, len(self.documents)))
            keys = owners(block.indptr) * self.fields + block.indices // self.terms_per_field
            of_block = np.bincount(keys, weights=block.values, minlength=len(block) * self.fields)
            lengths[start : start + len(block)] = of_block.reshape(len(block), self.fields)
        return lengths

    @cached_property
    def lengths(self) -> Int64Array:
        """Terms in each document, repeats included (int64, shape (n,)); 0 for a document without terms."""
        if self.known_lengths is not None:
            return self.known_lengths
        lengths = np.zeros(len(self.documents), dtype=np.int64)
        for start in range(0, len(self.documents), _ROWS_PER_BLOCK):  # reduceat copies all values that it gets
            block = self.documents.slice(start, min(start + _ROWS_PER_BLOCK, len(self.documents)))
            filled = block.nonempty_rows
            if len(filled):
                lengths[start + filled] = np.add.reduceat(block.values, block.indptr[filled], dtype=np.float64)
        return lengths

    def of_documents(self, rows: Int32Array) -> TermCounts:
        """Return the counts of some documents, in the order of ``rows``; queries and vocabulary stay."""
        lengths = self.known_lengths
        return replace(
            self, documents=self.documents.take(rows), known_lengths=None if lengths is None else lengths[rows]
        )


def faulty_rows(vectors: SparseVectors) -> Iterator[tuple[int, str]]:
    """Return each row with a value that is not finite or with columns that repeat, fall or lie outside the dimensions.

    Returns:
        The row's number and its first such value or column, in words that follow "the vector".
    """
    for first in range(0, len(vectors), _ROWS_PER_BLOCK):
        indptr = vectors.indptr[first : first + _ROWS_PER_BLOCK + 1]
        part = slice(int(indptr[0]), int(indptr[-1]))
        indices, values = vectors.indices[part], vectors.values[part]
        falls = np.zeros(len(indices) + 1, dtype=np.bool_)
        falls[1:-1] = indices[1:] <= indices[:-1]
        falls[indptr - indptr[0]] = False  # at the start of a row
        faults = {
            "has a value that is NaN or infinite": ~np.isfinite(values),
            f"has a column number below 0 or beyond its {vectors.dimensions} dimensions": (
                (indices < 0) | (indices >= vectors.dimensions)
            ),
            "has column numbers that repeat or fall": falls[:-1],
        }
        if not any(fault.any() for fault in faults.values()):
            continue
        positions = np.flatnonzero(np.logical_or.reduce(list(faults.values())))
        rows, firsts = np.unique(np.searchsorted(indptr, positions + part.start, side="right") - 1, return_index=True)
        for row, position in zip(rows.tolist(), positions[firsts].tolist(), strict=True):
            yield first + row, next(words for words, fault in faults.items() if fault[position])
