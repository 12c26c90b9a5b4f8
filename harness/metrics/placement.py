"""Find the judged hits of a run and their ranks, without sorting the run.

One pass over the hits marks the judged ones and counts duplicates. Ties are then settled among the hits with the same
score only. A run that would make this slow (huge tie groups, or unsorted with many judged hits) is sorted once by
:func:`harness.data.ranking.order`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data import ranking
from harness.data.id_spelling import respelling
from harness.data.jit import inner_kernel, kernel, read_only
from harness.data.ranking import IdBytes, TieRule, is_larger_id
from harness.data.types import Float32Array, Ids, Int32Array, Int64Array, Qrels, Run
from harness.errors import DataError
from harness.metrics.judged import JudgedHits

_MOST_COMPARISONS = 8
"""Comparisons of ids per hit beyond which sorting the whole run is cheaper than settling each tie."""
_SCORES_PER_ID = 8
"""Comparisons of scores, which are vectorised, in the time of one comparison of ids."""


class NothingJudgedError(DataError):
    """None of a run's documents is judged, in any known spelling: it is of another dataset, or misses everything."""


class _Hits(NamedTuple):
    """The run's arrays, and which judged query (or -1) each of its queries is."""

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array
    query_of: Int32Array


class _Marks(NamedTuple):
    """Judged hits in the slices of ``JudgedHits``: ``hits`` int64 (J,) is the hit's position in the run.

    ``unsorted`` uint8 (run queries,) is 1 if scores do not descend, NaN included.
    """

    indptr: Int64Array
    counts: Int64Array
    hits: Int64Array
    grades: Int32Array
    retrieved: Int64Array
    unsorted: npt.NDArray[np.uint8]


def judge_hits(run: Run, qrels: Qrels, ties: TieRule, *, unjudged: bool = False) -> JudgedHits:
    """Return the judged hits of every judged query with their ranks under the tie rule.

    Under ``average`` tied hits share the rank of their group's first position. Raises RankingError for scores that are
    not finite and for a document that occurs twice under one query, DataError for a run if none of its query ids is
    judged, or none of its document ids unless ``unjudged`` allows it.
    """
    ideal = qrels.descending_grades
    if qrels.has_fractions:  # placed by the number of each value, so that nothing is compiled for another type
        values, positions = np.unique(qrels.grades, return_inverse=True)
        judged = judge_hits(run, replace(qrels, grades=positions.astype(np.int32)), ties, unjudged=unjudged)
        return judged._replace(grades=values.astype(np.float64)[judged.grades], ideal=ideal)
    run = _uniform(ranking.by_wide_scores(run) if ties is TieRule.TREC_EVAL_10 else run)
    qrels = replace(qrels, indptr=read_only(qrels.indptr), rows=read_only(qrels.rows), grades=read_only(qrels.grades))
    query_of = _match("query", run.query_ids, qrels.query_ids)
    document_of = _match("document", run.doc_ids, qrels.doc_ids, unjudged=unjudged)
    in_both = np.flatnonzero(document_of >= 0)
    row_of = np.full(len(qrels.doc_ids), -1, dtype=np.int32)
    row_of[document_of[in_both]] = in_both
    judged_rows = row_of[qrels.rows]
    ranks, above, tied = (np.zeros(len(qrels), dtype=np.int64) for _ in range(3))
    hits = _Hits(run.indptr, run.rows, run.scores, query_of)
    marks = _marked(run, hits, qrels, judged_rows)
    budget = _MOST_COMPARISONS * max(len(run.rows), 1)
    if ties is not TieRule.ENGINE and _group_ties(hits, marks, budget, above, tied):
        if ties is TieRule.AVERAGE:
            ranks[:] = above + 1
        else:
            _settle_ties(hits, marks, ranking.id_bytes(run.doc_ids), above, tied, ranks)
        _sort_by_rank(marks, ranks, above, tied)
    else:
        if ties is not TieRule.ENGINE:
            run = _uniform(ranking.order(run))
            hits = _Hits(run.indptr, run.rows, run.scores, query_of)
            marks = _marked(run, hits, qrels, judged_rows)
        _keep_run_order(hits, marks, ranks, above, tied)
        if ties is TieRule.AVERAGE:
            ranks[:] = above + 1
    return JudgedHits(marks.indptr, marks.counts, ranks, marks.grades, above, tied, ideal, marks.retrieved)


def _uniform(run: Run) -> Run:
    """Return the run with read-only views of its arrays: one type, mapped from disk or not, so one compilation."""
    return replace(run, indptr=read_only(run.indptr), rows=read_only(run.rows), scores=read_only(run.scores))


def _match(kind: str, ids: Ids, judged: Ids, *, unjudged: bool = False) -> Int32Array:
    """Return the judged row of each id of the run; refuse a run that shares no id, which is a mistake, never 0."""
    judged_rows = judged.rows_of(ids)
    if not unjudged and len(ids) and len(judged) and not bool((judged_rows >= 0).any()):
        none = f"none of its {len(ids):,} {kind} ids is judged" if len(ids) > 1 else f"its only {kind} id is not judged"
        spelled = respelling(judged.to_list(), ids)
        raise (DataError if kind == "query" or spelled is not None else NothingJudgedError)(
            "run",
            [f"{none} (run: '{ids[0]}', judgments: '{judged[0]}')"],
            fix="check that run and judgments belong to the same dataset"
            if spelled is None
            else f"there are {len(judged):,} judged {kind} ids, and {spelled}: write ids alike in both files",
        )
    return judged_rows


def _marked(run: Run, hits: _Hits, qrels: Qrels, judged_rows: Int32Array) -> _Marks:
    marks = _Marks(
        qrels.indptr,
        counts=np.zeros(len(qrels.query_ids), dtype=np.int64),
        hits=np.zeros(len(qrels), dtype=np.int64),
        grades=np.zeros(len(qrels), dtype=np.int32),
        retrieved=np.zeros(len(qrels.query_ids), dtype=np.int64),
        unsorted=np.zeros(len(run.query_ids), dtype=np.uint8),
    )
    grades = qrels.grades.astype(np.int32, copy=False)
    duplicates = _mark_hits(hits, marks, judged_rows, grades, np.full(len(run.doc_ids), -1, dtype=np.int32))
    if duplicates or not (run.scores < np.inf).all():
        ranking.check(run)
    return marks


@kernel
def _mark_hits(hits: _Hits, marks: _Marks, judged_rows: Int32Array, grades: Int32Array, seen: Int32Array) -> int:
    """Fill ``marks``; return the number of documents that are ranked twice.

    ``seen`` holds, for each document, the last run query that ranked it, or -2 - (its judgment) while the current query
    has one and has not met it yet.
    """
    duplicates = 0
    for query in range(len(hits.query_of)):
        begin, end = hits.indptr[query], hits.indptr[query + 1]
        judged_query = hits.query_of[query]
        start, stop = np.int64(0), np.int64(0)
        if judged_query >= 0:
            start, stop = marks.indptr[judged_query], marks.indptr[judged_query + 1]
            marks.retrieved[judged_query] = end - begin
        for judgment in range(start, stop):
            if judged_rows[judgment] >= 0:
                seen[judged_rows[judgment]] = -2 - judgment
        position, stamp = start, np.int32(query)
        for hit in range(np.uint64(begin), np.uint64(end)):
            row = np.uint64(hits.rows[hit])  # signed numbers would be tested for counting from the end
            before = seen[row]
            seen[row] = stamp
            if before <= -2:
                marks.hits[position] = hit
                marks.grades[position] = grades[-2 - before]
                position += 1
            duplicates += before == stamp
        if judged_query >= 0:
            marks.counts[judged_query] = position - start
        for judgment in range(start, stop):
            if judged_rows[judgment] >= 0 and seen[judged_rows[judgment]] <= -2:
                seen[judged_rows[judgment]] = -1
        ascents = 0
        scores = hits.scores[begin:end]
        for hit in range(np.uint64(1), np.uint64(len(scores))):
            ascents += not scores[hit - np.uint64(1)] >= scores[hit]  # "not >=" holds for NaN too, "<" would not
        marks.unsorted[query] = ascents > 0 or (begin < end and hits.scores[begin] != hits.scores[begin])
    return duplicates


@inner_kernel
def _stretch(scores: Float32Array, begin: int, end: int, position: int) -> tuple[int, int]:
    """Return the first, and one past the last, neighbour of ``position`` that has its score."""
    low, high = position, position + 1
    while low > begin and scores[low - 1] == scores[position]:
        low -= 1
    while high < end and scores[high] == scores[position]:
        high += 1
    return low, high


@kernel
def _keep_run_order(hits: _Hits, marks: _Marks, ranks: Int64Array, above: Int64Array, tied: Int64Array) -> None:
    """Rank by position; a tie group is a stretch of neighbours with one score."""
    for query in range(len(hits.query_of)):
        judged_query = hits.query_of[query]
        if judged_query < 0:
            continue
        begin, end = hits.indptr[query], hits.indptr[query + 1]
        start = marks.indptr[judged_query]
        low, high = begin, begin
        for position in range(start, start + marks.counts[judged_query]):
            hit_position = marks.hits[position]
            ranks[position] = hit_position - begin + 1
            if hit_position >= high:
                low, high = _stretch(hits.scores, begin, end, hit_position)
            above[position], tied[position] = low - begin, high - low


@kernel
def _group_ties(hits: _Hits, marks: _Marks, budget: int, above: Int64Array, tied: Int64Array) -> bool:
    """Count higher and equal scores for each judged hit; return False once settling the ties exceeds ``budget``."""
    spent = 0
    for query in range(len(hits.query_of)):
        judged_query = hits.query_of[query]
        if judged_query < 0:
            continue
        begin, end = hits.indptr[query], hits.indptr[query + 1]
        start = marks.indptr[judged_query]
        low, high = begin, begin
        for position in range(start, start + marks.counts[judged_query]):
            hit_position = marks.hits[position]
            score = hits.scores[hit_position]
            if marks.unsorted[query]:
                higher, equal = 0, 0
                for hit in range(np.uint64(begin), np.uint64(end)):
                    higher += hits.scores[hit] > score
                    equal += hits.scores[hit] == score
                above[position], tied[position] = higher, equal
                spent += (end - begin) // _SCORES_PER_ID + (end - begin if equal > 1 else 0)
            else:
                if hit_position >= high:
                    low, high = _stretch(hits.scores, begin, end, hit_position)
                above[position], tied[position] = low - begin, high - low
                spent += high - low if high - low > 1 else 0
        if spent > budget:
            return False
    return True


@kernel
def _settle_ties(
    hits: _Hits, marks: _Marks, ids: IdBytes, above: Int64Array, tied: Int64Array, ranks: Int64Array
) -> None:
    """Rank within tie groups: one more than the group's hits with a larger id."""
    for query in range(len(hits.query_of)):
        judged_query = hits.query_of[query]
        if judged_query < 0:
            continue
        begin, end = hits.indptr[query], hits.indptr[query + 1]
        start = marks.indptr[judged_query]
        for position in range(start, start + marks.counts[judged_query]):
            ranks[position] = above[position] + 1
            if tied[position] == 1:
                continue
            hit_position = marks.hits[position]
            first, last = begin, end
            if not marks.unsorted[query]:
                first, last = begin + above[position], begin + above[position] + tied[position]
            for hit in range(first, last):
                if hits.scores[hit] == hits.scores[hit_position] and is_larger_id(
                    ids, hits.rows[hit], hits.rows[hit_position]
                ):
                    ranks[position] += 1


@kernel
def _sort_by_rank(marks: _Marks, ranks: Int64Array, above: Int64Array, tied: Int64Array) -> None:
    """Sort each query's judged hits by insertion: a sorted run leaves little to move."""
    for query in range(len(marks.counts)):
        start = marks.indptr[query]
        for position in range(start + 1, start + marks.counts[query]):
            rank, higher, equal, grade = ranks[position], above[position], tied[position], marks.grades[position]
            hole = position
            while hole > start and ranks[hole - 1] > rank:
                ranks[hole], above[hole], tied[hole] = ranks[hole - 1], above[hole - 1], tied[hole - 1]
                marks.grades[hole] = marks.grades[hole - 1]
                hole -= 1
            ranks[hole], above[hole], tied[hole], marks.grades[hole] = rank, higher, equal, grade
