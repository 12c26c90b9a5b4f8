"""Group columns of (query, document, number) into runs and judgments."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data import ranking
from harness.data.arrow import as_numpy
from harness.data.types import (
    HAS_CONTROL,
    Float32Array,
    Grades,
    Ids,
    Int32Array,
    Int64Array,
    Qrels,
    Run,
    offsets_of,
    rows_with_control,
)
from harness.errors import DataError
from harness.wording import counted

_LIMIT = 2**31


def build_run(
    queries: pa.ChunkedArray, documents: pa.ChunkedArray, scores: npt.NDArray[Any], positions: npt.NDArray[Any] | None
) -> Run:
    """Build a run from columns of equal length: string ids (or dictionaries of them), and scores as float64.

    Queries keep the order of their first line. Within a query the engine's order is the order of ``positions``, or of
    the lines if places are equal or None. Raises DataError for ids with control characters.
    """
    query_ids, codes = _encode("run", queries)
    doc_ids, rows = _encode("run", documents)
    order, grouped = None, bool((codes[1:] >= codes[:-1]).all())
    if positions is not None:
        rising = (positions[1:] >= positions[:-1]) | (codes[1:] != codes[:-1])
        order = None if grouped and bool(rising.all()) else np.lexsort((positions, codes))
    elif not grouped:
        order = np.argsort(codes, kind="stable")
    values = to_float32(scores)
    wide = scores if loses_order(codes, scores, values) else None
    if order is not None:
        rows, values = rows[order], values[order]
        wide = None if wide is None else wide[order]
    return Run(query_ids, doc_ids, offsets_of(np.bincount(codes, minlength=len(query_ids))), rows, values, wide)


def build_ranked_run(queries: pa.ChunkedArray, documents: pa.ChunkedArray, ranks: npt.NDArray[Any]) -> Run:
    """Build a run from columns of equal length that has ranks and no scores: scores fall with the rank, down to 1.

    Raises DataError for ranks that are not whole numbers, ids with control characters, and a rank that occurs twice
    under a query.
    """
    if not bool((ranks == np.rint(ranks)).all()):
        raise DataError("run", [f"the rank {ranks[ranks != np.rint(ranks)][0]:g} is not a whole number"])
    run = build_run(queries, documents, -ranks.astype(np.float64), ranks)
    lengths = np.diff(run.indptr)
    owner = np.repeat(np.arange(len(lengths)), lengths)
    twice = np.flatnonzero((owner[1:] == owner[:-1]) & (run.scores[1:] == run.scores[:-1]))
    if len(twice):
        query, rank = run.query_ids[int(owner[twice[0]])], -run.scores[twice[0]]
        raise DataError("run", [f"query '{query}' has two documents of rank {rank:g}, and there is no score"])
    return run.with_scores((np.repeat(run.indptr[1:], lengths) - np.arange(run.hits)).astype(np.float32))


def require_hits(run: Run, source: str) -> None:
    """Raise DataError for a run without any hits: its producer failed, and it has no score."""
    if not run.hits:
        queries = f" for any of its {counted(len(run.query_ids), 'query')}" if len(run.query_ids) > 1 else ""
        raise DataError(source, [f"it holds no hits{queries}"], fix="a run that answers nothing is invalid, not 0")


def build_judgments(queries: pa.ChunkedArray, documents: pa.ChunkedArray, grades: npt.NDArray[np.float64]) -> Qrels:
    """Build judgments from columns of equal length with grades as float64, which may include NaN.

    Raises DataError for a grade that is not a number of 32 bits, and as :func:`build_qrels` does.
    """
    broken = np.flatnonzero(~(np.abs(grades) < _LIMIT))
    if len(broken):
        quoted_pairs = [
            f"grade {grades[position]:g} of document '{documents[int(position)].as_py()}' is not a number of 32 bits"
            for position in broken
        ]
        raise DataError("judgments", quoted_pairs)
    return build_qrels(queries, documents, grades)


def build_qrels(queries: pa.ChunkedArray, documents: pa.ChunkedArray, grades: npt.NDArray[Any]) -> Qrels:
    """Build judgments from columns of equal length; a judgment repeated with the same grade counts once.

    Grades become int32 if all are whole, float64 otherwise.

    Raises DataError for a document that is judged twice under a query with two grades, and for ids with control
    characters.
    """
    query_ids, codes = _encode("judgments", queries)
    doc_ids, rows = _encode("judgments", documents)
    values = narrowed(grades)
    if not (codes[1:] >= codes[:-1]).all():
        order = np.argsort(codes, kind="stable")
        codes, rows, values = codes[order], rows[order], values[order]
    indptr = offsets_of(np.bincount(codes, minlength=len(query_ids)))
    if ranking.first_duplicate(indptr, rows, len(doc_ids)) < 0:
        return Qrels(query_ids, doc_ids, indptr, rows, values)
    first = first_of_pair(codes, rows)
    for again in np.flatnonzero(values != values[first]).tolist():
        query, document = query_ids[int(codes[again])], doc_ids[int(rows[again])]
        two = f"with the grades {values[first[again]]} and {values[again]}"
        raise DataError("judgments", [f"query '{query}' judges document '{document}' twice, {two}"])
    is_first = first == np.arange(len(first))
    indptr = offsets_of(np.bincount(codes[is_first], minlength=len(query_ids)))
    return Qrels(query_ids, doc_ids, indptr, rows[is_first], values[is_first], int(len(is_first) - is_first.sum()))


def narrowed(grades: npt.NDArray[Any]) -> Grades:
    """Return grades as int32 if all are whole numbers, which must fit, otherwise as float64."""
    if grades.dtype.kind != "f" or bool((grades == np.rint(grades)).all()):
        return grades.astype(np.int32)
    return grades.astype(np.float64)


def first_of_pair(queries: npt.NDArray[Any], documents: npt.NDArray[Any]) -> Int64Array:
    """Return the position (J,) at which each pair of query and document row first occurs."""
    pairs = queries.astype(np.int64) * (int(documents.max(initial=0)) + 1) + documents
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    positions: Int64Array = first[inverse]
    return positions


def to_float32(scores: npt.NDArray[Any]) -> Float32Array:
    """Round scores as trec_eval 9 does.

    A score beyond the range of float32, on either side, becomes infinity, which is refused; minus infinity stays.
    """
    with np.errstate(over="ignore"):
        narrow = scores.astype(np.float32)
    return np.where(np.isneginf(narrow) & ~np.isneginf(scores), np.float32(np.inf), narrow)


def loses_order(codes: Int32Array, wide: npt.NDArray[Any], narrow: Float32Array) -> bool:
    """Return whether float32 makes two different scores of a query equal."""
    if wide.dtype != np.float64 or bool((wide == narrow).all()):
        return False
    sorted_already = (codes[1:] != codes[:-1]) | (wide[1:] <= wide[:-1])
    if not bool(sorted_already.all()):
        order = np.lexsort((wide, codes))
        codes, wide, narrow = codes[order], wide[order], narrow[order]
    return bool(((codes[1:] == codes[:-1]) & (narrow[1:] == narrow[:-1]) & (wide[1:] != wide[:-1])).any())


def _encode(source: str, column: pa.ChunkedArray) -> tuple[Ids, Int32Array]:
    """Return the distinct ids in the order of their first line, and the row of each line's id.

    Raises DataError for ids with control characters.
    """
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    combined = encoded.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.nulls(0, encoded.type)
    rows: Int32Array = as_numpy(combined.indices).astype(np.int32, copy=False)
    ids = Ids(combined.dictionary.cast(pa.string()))
    broken = rows_with_control(ids.values)
    if broken:
        raise DataError(source, [f"the id {ids[row]!r} {HAS_CONTROL}" for row in broken])
    return ids, rows
