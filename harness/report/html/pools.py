"""The documents that matter to each query: what any ranking shows on top, and what is relevant but missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import numbers
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, Qrels, Run

__all__ = ["DEPTH", "MISSED", "NO_PLACE", "UNJUDGED", "Pools", "Top", "pools_of", "top_of"]

DEPTH = 10
"""Ranks of every ranking that the page holds."""
MISSED = 10
"""Relevant documents of a query beyond those ranks, at most."""
NO_PLACE = 65_535
UNJUDGED = -32_768
_HIGHEST_RANK = 65_535
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

    ``place`` uint16 (R, Q, DEPTH) says where in its query's pool the document at each rank lies, NO_PLACE beyond the
    last hit. ``grades`` int16 (P,) UNJUDGED where there is none. ``ranks`` uint16 (R, P) count from 1; 0 is not found.
    """

    ids: Ids
    indptr: Int64Array
    docs: Int64Array
    place: npt.NDArray[np.uint16]
    grades: npt.NDArray[np.int16]
    ranks: npt.NDArray[np.uint16]


def top_of(runs: Sequence[Run], query_ids: Ids, qrels: Qrels | None, relevance: int) -> Top:
    """The first DEPTH hits of each ranking in its own order, over one column of document ids in ascending order.

    The column holds the relevant documents of ``qrels`` too.
    """
    places = [run.query_ids.rows_of(query_ids) for run in runs]
    slots = [_slots(run, rows) for run, rows in zip(runs, places, strict=True)]
    named = [
        run.doc_ids.values.take(numbers(np.unique(run.rows[at[at >= 0]]))) for run, at in zip(runs, slots, strict=True)
    ]
    if qrels is not None:
        named.append(qrels.doc_ids.values.take(numbers(np.unique(qrels.rows[qrels.grades >= relevance]))))
    ids = Ids(pc.unique(pa.chunked_array(named, type=pa.string())).sort())
    docs = np.full((len(runs), len(query_ids), DEPTH), -1, dtype=np.int64)
    scores = np.full(docs.shape, np.nan, dtype=np.float32)
    hits = np.zeros(docs.shape[:2], dtype=np.int64)
    for number, (run, rows, at) in enumerate(zip(runs, places, slots, strict=True)):
        found = at >= 0
        docs[number][found] = ids.rows_of(run.doc_ids)[run.rows[at[found]]]
        scores[number][found] = run.scores[at[found]]
        hits[number] = np.where(rows >= 0, np.diff(run.indptr)[np.maximum(rows, 0)] if len(run.query_ids) else 0, 0)
    return Top(ids, docs, scores, hits)


def _slots(run: Run, rows: Int32Array) -> Int64Array:
    """Where in the run each of the first DEPTH hits of each query lies, int64 (Q, DEPTH), -1 beyond the last."""
    if len(run.query_ids) == 0:
        return np.full((len(rows), DEPTH), -1, dtype=np.int64)
    known = np.maximum(rows, 0)
    starts, ends = run.indptr[known], run.indptr[known + 1]
    at: Int64Array = starts[:, None] + np.arange(DEPTH)
    return np.where((rows[:, None] >= 0) & (at < ends[:, None]), at, -1)


def pools_of(top: Top, runs: Sequence[Run], query_ids: Ids, qrels: Qrels | None, relevance: int) -> Pools:
    """Each query's documents, in the order in which the rankings show them, the missed relevant ones last."""
    rankings, queries, _ = top.docs.shape
    width = max(len(top.ids), 1)
    shown = np.swapaxes(top.docs, 0, 1).reshape(queries, -1)
    keys = (np.arange(queries)[:, None] * width + shown)[shown >= 0]
    judged = _judged(qrels, query_ids, top.ids)
    missed = _missed(judged, keys, width, relevance)
    every = np.concatenate([keys, missed])
    known, first, where = np.unique(every, return_index=True, return_inverse=True)
    order = np.lexsort((first, known // width))
    position = np.empty(len(known), dtype=np.int64)
    position[order] = np.arange(len(known))
    indptr = np.searchsorted(known[order] // width, np.arange(queries + 1))
    flat = np.full(shown.shape, NO_PLACE, dtype=np.uint16)
    owner = np.nonzero(shown >= 0)[0]
    flat[shown >= 0] = position[where[: len(keys)]] - indptr[owner]
    place = np.swapaxes(flat.reshape(queries, rankings, DEPTH), 0, 1)
    grades = _grades(judged, known, width)[order]
    ranks = (
        np.stack([_ranks(run, query_ids, top.ids, known, width)[order] for run in runs])
        if runs
        else np.zeros((0, len(known)), np.uint16)
    )
    return Pools(top.ids, indptr, known[order] % width, np.ascontiguousarray(place), grades, ranks)


def _judged(qrels: Qrels | None, query_ids: Ids, ids: Ids) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Query number, document number and grade of every judgment of a query and a document that the page knows."""
    if qrels is None:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    query = np.repeat(query_ids.rows_of(qrels.query_ids).astype(np.int64), np.diff(qrels.indptr))
    doc = ids.rows_of(qrels.doc_ids)[qrels.rows].astype(np.int64)
    kept = (query >= 0) & (doc >= 0)
    return query[kept], doc[kept], qrels.grades[kept].astype(np.int64)


def _missed(judged: tuple[Int64Array, ...], keys: Int64Array, width: int, relevance: int) -> Int64Array:
    """Keys of relevant documents that no ranking shows, the best grades first, at most MISSED a query."""
    query, doc, grade = judged
    wanted = (grade >= relevance) & ~np.isin(query * width + doc, keys)
    query, doc, grade = query[wanted], doc[wanted], grade[wanted]
    order = np.lexsort((doc, -grade, query))
    query, doc = query[order], doc[order]
    nth = np.arange(len(query)) - np.searchsorted(query, query)
    missed: Int64Array = (query * width + doc)[nth < MISSED]
    return missed


def _grades(judged: tuple[Int64Array, ...], known: Int64Array, width: int) -> npt.NDArray[np.int16]:
    query, doc, grade = judged
    grades = np.full(len(known), UNJUDGED, dtype=np.int16)
    at = _find(known, query * width + doc)
    grades[at[at >= 0]] = np.clip(grade[at >= 0], UNJUDGED + 1, 32_767)
    return grades


def _ranks(run: Run, query_ids: Ids, ids: Ids, known: Int64Array, width: int) -> npt.NDArray[np.uint16]:
    """The rank of each known key in a run, from 1; 0 where the run lacks it, or ranks it beyond what 16 bits hold."""
    ranks = np.zeros(len(known), dtype=np.uint16)
    queries, docs = query_ids.rows_of(run.query_ids).astype(np.int64), ids.rows_of(run.doc_ids)
    for start in range(0, len(queries), _CHUNK):
        part = slice(int(run.indptr[start]), int(run.indptr[min(start + _CHUNK, len(queries))]))
        lengths = np.diff(run.indptr[start : start + _CHUNK + 1])
        owner, doc = np.repeat(queries[start : start + _CHUNK], lengths), docs[run.rows[part]]
        rank = np.arange(part.start, part.stop) - np.repeat(run.indptr[start : start + len(lengths)], lengths) + 1
        kept = (owner >= 0) & (doc >= 0) & (rank <= _HIGHEST_RANK)
        at = _find(known, owner[kept] * width + doc[kept])
        ranks[at[at >= 0]] = rank[kept][at >= 0]
    return ranks


def _find(known: Int64Array, keys: npt.NDArray[Any]) -> Int64Array:
    """Where each key lies in the sorted ``known``, -1 where it does not."""
    if len(known) == 0:
        return np.full(len(keys), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[at] == keys, at, -1)
