"""The documents that matter to each query: the top hits of any ranking, and relevant documents that were missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers
from harness.data.shown_hits import SHOWN_HITS
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, Qrels, Run, owners

DEPTH = SHOWN_HITS
"""Ranks of every ranking that the page holds."""
EXPECTED = 10
"""Relevant documents of a query below these ranks that the page holds with their texts."""
UNJUDGED = -32_768
_CHUNK = 1024


@dataclass(frozen=True, eq=False, slots=True)
class Top:
    """The first hits of R rankings for Q queries: ``docs`` int64 (R, Q, DEPTH) into ``ids``, -1 beyond the last hit.

    ``scores`` float32 (R, Q, DEPTH), NaN there. ``hits`` int64 (R, Q) counts all hits.
    """

    ids: Ids
    docs: Int64Array
    scores: Float32Array
    hits: Int64Array


@dataclass(frozen=True, eq=False, slots=True)
class Pools:
    """One pool of documents a query: its slice ``indptr[q]:indptr[q + 1]`` of ``docs`` (into ``ids``).

    ``grades`` int16 (P,) UNJUDGED without a judgment. ``ranks`` int32 (R, P) count from 1; 0 is not found.
    """

    ids: Ids
    indptr: Int64Array
    docs: Int64Array
    grades: npt.NDArray[np.int16]
    ranks: Int32Array

    @property
    def owners(self) -> Int64Array:
        """The query of each document, int64 (P,)."""
        return owners(self.indptr)

    @property
    def visible(self) -> npt.NDArray[np.bool_]:
        """Which documents are top hits, or among the first ``EXPECTED`` others of their query, bool (P,)."""
        on_top = np.any((self.ranks > 0) & (self.ranks <= DEPTH), axis=0, keepdims=True)[0]
        owner, queries = self.owners, len(self.indptr) - 1
        tops = np.bincount(owner[on_top], minlength=queries)
        visible: npt.NDArray[np.bool_] = np.arange(len(owner)) - self.indptr[owner] < tops[owner] + EXPECTED
        return visible


def top_of(runs: Sequence[Run], query_ids: Ids, qrels: Qrels | None, relevance: int) -> Top:
    """Return the first DEPTH hits of each ranking in its own order, over a column of document ids in ascending order.

    The column holds the relevant documents of ``qrels`` too.
    """
    query_rows = [run.query_ids.rows_of(query_ids) for run in runs]
    slots = [_slots(run, rows) for run, rows in zip(runs, query_rows, strict=True)]
    columns = [
        run.doc_ids.values.take(numbers(np.unique(run.rows[slot_numbers[slot_numbers >= 0]])))
        for run, slot_numbers in zip(runs, slots, strict=True)
    ]
    if qrels is not None:
        columns.append(qrels.doc_ids.values.take(numbers(np.unique(qrels.rows[qrels.grades >= relevance]))))
    ids = Ids(pc.unique(pa.chunked_array(columns, type=pa.string())).sort())
    docs = np.full((len(runs), len(query_ids), DEPTH), -1, dtype=np.int64)
    scores = np.full(docs.shape, np.nan, dtype=np.float32)
    hits = np.zeros(docs.shape[:2], dtype=np.int64)
    for number, (run, rows, slot_numbers) in enumerate(zip(runs, query_rows, slots, strict=True)):
        is_hit = slot_numbers >= 0
        docs[number][is_hit] = ids.rows_of(run.doc_ids)[run.rows[slot_numbers[is_hit]]]
        scores[number][is_hit] = run.scores[slot_numbers[is_hit]]
        hits[number] = np.where(rows >= 0, np.diff(run.indptr)[np.maximum(rows, 0)] if len(run.query_ids) else 0, 0)
    return Top(ids, docs, scores, hits)


def _slots(run: Run, rows: Int32Array) -> Int64Array:
    """Return the positions in the run of each query's first DEPTH hits, int64 (Q, DEPTH), -1 beyond the last."""
    if len(run.query_ids) == 0:
        return np.full((len(rows), DEPTH), -1, dtype=np.int64)
    valid_rows = np.maximum(rows, 0)
    starts, ends = run.indptr[valid_rows], run.indptr[valid_rows + 1]
    number: Int64Array = starts[:, None] + np.arange(DEPTH)
    return np.where((rows[:, None] >= 0) & (number < ends[:, None]), number, -1)


def pools_of(top: Top, runs: Sequence[Run], query_ids: Ids, qrels: Qrels | None, relevance: int) -> Pools:
    """Return each query's documents: the top hits of any ranking, then the other relevant ones, best first."""
    rankings, queries, _ = top.docs.shape
    width = max(len(top.ids), 1)
    best_documents = np.swapaxes(top.docs, 0, 1).reshape(queries, -1)
    keys = (np.arange(queries)[:, None] * width + best_documents)[best_documents >= 0]
    judged = _judged(qrels, query_ids, top.ids)
    all_keys = np.concatenate([keys, _missed(judged, keys, width, relevance)])
    pooled, first = np.unique(all_keys, return_index=True)
    order = np.lexsort((first, pooled // width))
    indptr = np.searchsorted(pooled[order] // width, np.arange(queries + 1))
    ranks = [ranks_of_keys(run, query_ids, top.ids, pooled, width)[order] for run in runs]
    return Pools(
        top.ids,
        indptr,
        pooled[order] % width,
        _grades(judged, pooled, width)[order],
        np.stack(ranks) if rankings else np.zeros((0, len(pooled)), np.int32),
    )


def _judged(qrels: Qrels | None, query_ids: Ids, ids: Ids) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return query number, document number and grade of every judgment of a query and a document of the page."""
    if qrels is None:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    query = np.repeat(query_ids.rows_of(qrels.query_ids).astype(np.int64), np.diff(qrels.indptr))
    doc = ids.rows_of(qrels.doc_ids)[qrels.rows].astype(np.int64)
    valid = (query >= 0) & (doc >= 0)
    return query[valid], doc[valid], qrels.grades[valid].astype(np.int64)


def _missed(judged: tuple[Int64Array, ...], keys: Int64Array, width: int, relevance: int) -> Int64Array:
    """Return the keys of relevant documents that no ranking shows on top, query by query, the best grades first."""
    query, doc, grade = judged
    is_missed = (grade >= relevance) & ~np.isin(query * width + doc, keys)
    query, doc, grade = query[is_missed], doc[is_missed], grade[is_missed]
    order = np.lexsort((doc, -grade, query))
    missed: Int64Array = query[order] * width + doc[order]
    return missed


def _grades(judged: tuple[Int64Array, ...], pooled: Int64Array, width: int) -> npt.NDArray[np.int16]:
    query, doc, grade = judged
    grades = np.full(len(pooled), UNJUDGED, dtype=np.int16)
    number = _find(pooled, query * width + doc)
    grades[number[number >= 0]] = np.clip(grade[number >= 0], UNJUDGED + 1, 32_767)
    return grades


def ranks_of_keys(run: Run, query_ids: Ids, ids: Ids, pooled: Int64Array, width: int) -> Int32Array:
    """Return the rank in a run of each key (query · width + document, ascending), from 1; 0 if the run lacks it."""
    ranks = np.zeros(len(pooled), dtype=np.int32)
    queries, docs = query_ids.rows_of(run.query_ids).astype(np.int64), ids.rows_of(run.doc_ids)
    for start in range(0, len(queries), _CHUNK):
        part = slice(int(run.indptr[start]), int(run.indptr[min(start + _CHUNK, len(queries))]))
        lengths = np.diff(run.indptr[start : start + _CHUNK + 1])
        owner, doc = np.repeat(queries[start : start + _CHUNK], lengths), docs[run.rows[part]]
        rank = np.arange(part.start, part.stop) - np.repeat(run.indptr[start : start + len(lengths)], lengths) + 1
        valid = (owner >= 0) & (doc >= 0)
        number = _find(pooled, owner[valid] * width + doc[valid])
        ranks[number[number >= 0]] = rank[valid][number >= 0]
    return ranks


def _find(sorted_keys: Int64Array, keys: npt.NDArray[Any]) -> Int64Array:
    """Return the position of each key in the sorted ``sorted_keys``, -1 for a missing key."""
    if len(sorted_keys) == 0:
        return np.full(len(keys), -1, dtype=np.int64)
    number = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return np.where(sorted_keys[number] == keys, number, -1)
