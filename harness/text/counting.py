"""Count terms: texts through an analyzer into sparse columns, a batch at a time.

Tokens live no longer than their batch: each distinct (document, term) pair costs eight bytes on disk, and each distinct
term one string.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.jit import kernel
from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, SparseVectors, TermCounts, offsets_of
from harness.store.columns import load_column, load_ids, load_sparse, save_ids, save_sparse
from harness.text.analyzers import Analyzer, CountingAnalyzer, Texts


def count_terms(
    analyzer: Analyzer,
    documents: Iterable[Texts],
    queries: Sequence[str],
    progress: Progress | None = None,
    *,
    total: int | None = None,
    folder: Path | None = None,
) -> TermCounts:
    """Analyse and count ``documents`` (batches of texts, in corpus order) and ``queries``.

    The vocabulary is the documents' terms in ascending byte order, so the result depends only on the texts, not on the
    batches. A query term that no document has is counted in ``unknown_terms`` and nowhere else. A term of no characters
    makes a document longer and is not a term of a query, as in Anserini. Documents or queries without terms become
    empty rows; an empty corpus gives an empty vocabulary. ``total`` (documents) is for ``progress`` only. Counts are
    memory-mapped from files without a name, in ``folder`` or in the system's folder for temporary files.
    """
    if progress is not None:
        progress.start("analyse", total)
    counter = analyzer.counter() if isinstance(analyzer, CountingAnalyzer) else _Counter(analyzer)
    with closing(_Parts(folder)) as parts:
        for batch in documents:
            parts.add(counter.add(batch))
            if progress is not None:
                progress.advance(len(batch))
        terms = counter.vocabulary()
        order = sorted(range(len(terms)), key=terms.__getitem__)
        column_of = np.empty(len(terms), dtype=np.int32)
        column_of[order] = np.arange(len(terms), dtype=np.int32)
        return _add_query_terms(analyzer, queries, parts.join(column_of), [terms[number] for number in order])


def save_counts(folder: Path, counts: TermCounts) -> None:
    """Write counts into an existing folder; :func:`load_counts` memory-maps them."""
    save_sparse(folder, "documents", counts.documents)
    save_sparse(folder, "queries", counts.queries)
    save_ids(folder / "vocabulary.arrow", counts.vocabulary)
    np.save(folder / "unknown_terms.npy", counts.unknown_terms, allow_pickle=False)


def load_counts(folder: Path) -> TermCounts:
    """Memory-map the files of :func:`save_counts`; raises CacheError when a file is missing or damaged."""
    return TermCounts(
        documents=load_sparse(folder, "documents"),
        queries=load_sparse(folder, "queries"),
        vocabulary=load_ids(folder / "vocabulary.arrow"),
        unknown_terms=load_column(folder / "unknown_terms.npy"),
    )


class _Counter:
    """Counts terms that an analyzer hands over as strings."""

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        # a new term gets the next number inside the look-up: no line of Python runs for any term
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__

    def add(self, texts: Texts) -> SparseVectors:
        """Count a batch, in columns by the order in which terms occurred first."""
        analysed = self._analyzer.analyze(texts.to_pylist() if isinstance(texts, pa.ChunkedArray) else texts)
        rows, columns = _pairs([list(map(self._numbers.__getitem__, terms)) for terms in analysed])
        return _count_pairs(rows, columns, len(analysed), len(self._numbers))

    def vocabulary(self) -> list[str]:
        """Return the terms in the order of their numbers."""
        return list(self._numbers)


def _pairs(columns: Sequence[Sequence[int]]) -> tuple[Int64Array, Int64Array]:
    """Flatten the columns of each row into aligned rows and columns."""
    lengths = np.fromiter(map(len, columns), dtype=np.int64, count=len(columns))
    flat = np.fromiter(chain.from_iterable(columns), dtype=np.int64, count=lengths.sum())
    return np.repeat(np.arange(len(columns), dtype=np.int64), lengths), flat


def _count_pairs(rows: Int64Array, columns: Int64Array, height: int, width: int) -> SparseVectors:
    # row and column in one integer: a single sort counts equal pairs, and leaves columns ascending in each row
    keys, counts = np.unique((rows << 32) | columns, return_counts=True)
    indptr = np.searchsorted(keys, np.arange(height + 1, dtype=np.int64) << 32).astype(np.int64)
    indices = (keys & 0xFFFFFFFF).astype(np.int32)
    return SparseVectors(indptr, indices, counts.astype(np.float32), width)


def _add_query_terms(
    analyzer: Analyzer, queries: Sequence[str], documents: SparseVectors, vocabulary: list[str]
) -> TermCounts:
    column_of = {term: column for column, term in enumerate(vocabulary)}
    query_columns = [[column_of.get(term, -1) for term in terms if term] for terms in analyzer.analyze(queries)]
    rows, columns = _pairs(query_columns)
    in_vocabulary = columns >= 0
    return TermCounts(
        documents=documents,
        queries=_count_pairs(rows[in_vocabulary], columns[in_vocabulary], len(query_columns), len(vocabulary)),
        vocabulary=Ids.of(vocabulary),
        unknown_terms=np.bincount(rows[~in_vocabulary], minlength=len(query_columns)).astype(np.int32),
    )


class _Parts:
    """Counts of the batches so far, in files without a name: of 8.8 million passages they are gigabytes."""

    def __init__(self, folder: Path | None) -> None:
        self._lengths: list[Int64Array] = []
        self._indices = TemporaryFile(dir=folder)  # noqa: SIM115 - closed by close
        self._values = TemporaryFile(dir=folder)  # noqa: SIM115 - as well

    def add(self, part: SparseVectors) -> None:
        self._lengths.append(np.diff(part.indptr))
        self._indices.write(np.ascontiguousarray(part.indices, dtype=np.int32).data)
        self._values.write(np.ascontiguousarray(part.values, dtype=np.float32).data)

    def join(self, column_of: Int32Array) -> SparseVectors:
        """Return all rows as one CSR, mapped from the files, under the final column numbers, ascending in each row."""
        indptr = offsets_of(np.concatenate([np.zeros(0, dtype=np.int64), *self._lengths]))
        indices: Int32Array = _mapped(self._indices, np.dtype(np.int32))
        values: Float32Array = _mapped(self._values, np.dtype(np.float32))
        _renumber(indptr, column_of, indices, values)
        return SparseVectors(indptr, indices, values, len(column_of))

    def close(self) -> None:
        """Close the files; mapped data stays."""
        self._indices.close()
        self._values.close()


def _mapped(file: IO[bytes], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Map the content of a file; an empty file cannot be mapped."""
    # the file has no name, so its space is free as soon as the last array that maps it is gone
    file.flush()
    return np.memmap(file, dtype=dtype, mode="r+").view(np.ndarray) if file.tell() else np.empty(0, dtype=dtype)


@kernel
def _renumber(indptr: Int64Array, column_of: Int32Array, indices: Int32Array, values: Float32Array) -> None:
    """Write the final columns of every row in place, and sort the row by them."""
    longest = 0
    for row in range(len(indptr) - 1):
        longest = max(longest, indptr[row + 1] - indptr[row])
    keys = np.empty(longest, dtype=np.int64)
    for row in range(len(indptr) - 1):
        start, length = indptr[row], indptr[row + 1] - indptr[row]
        # column and count in one integer, so that sorting moves both; counts are whole numbers far below 2^32
        for position in range(length):
            keys[position] = (np.int64(column_of[indices[start + position]]) << 32) | np.int64(values[start + position])
        keys[:length].sort()
        for position in range(length):
            indices[start + position] = np.int32(keys[position] >> 32)
            values[start + position] = np.float32(keys[position] & 0xFFFFFFFF)
