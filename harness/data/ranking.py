"""The only place that orders, cuts and checks ranked lists. Ties live here.

The one ordering: score descending, then document id descending in byte order, as trec_eval orders (it ignores the rank
column of a run). Scores are float32 before they are compared, as in trec_eval 9: 1 and 1 + 1e-8 are a tie. trec_eval 10
compares float64, which :func:`by_wide_scores` is for.

A hit's place is decided by one unsigned 64-bit key: the high half orders the score, the low half breaks ties, and the
larger key comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.jit import inline_kernel, kernel
from harness.data.types import (
    Float32Array,
    Ids,
    Int32Array,
    Int64Array,
    Run,
    UInt32Array,
    UInt64Array,
    offsets_of,
    owners,
    ranks_in,
)
from harness.errors import RankingError


class TieRule(StrEnum):
    """Order of equal scores when a run is measured."""

    TREC_EVAL = "trec_eval"
    """Score descending, compared as float32, then document id descending: the default, and trec_eval up to 9."""
    TREC_EVAL_10 = "trec_eval_10"
    """The same, compared as float64: trec_eval 10."""
    ENGINE = "engine"
    """The order in which the engine returned its hits."""
    AVERAGE = "average"
    """The expected value over all orders of each tie group (McSherry and Najork, ECIR 2008)."""


class TieBreak(StrEnum):
    """Order of equal scores in other tools, for :func:`order_as`."""

    ID_DESCENDING = "document id descending"
    ID_ASCENDING = "document id ascending"
    RUN_ORDER = "the run's own order"
    QUICKSORT = "quicksort, not stable"
    """Numba's ``argsort``, twice, as in ranx: the run's own order in short rankings, any in long ones."""


@inline_kernel
def sortable_bits(score: np.float32) -> np.uint32:
    """Return the bits of a float32 as an unsigned number in the same order (-0.0 equals 0.0; NaN is not allowed)."""
    bits = np.float32(score + np.float32(0.0)).view(np.uint32)
    if bits >> np.uint32(31):
        return ~bits
    return bits | np.uint32(0x80000000)


@inline_kernel
def pack_key(score: np.float32, tie_break: np.uint32) -> np.uint64:
    """Pack a hit into one sort key: the larger key comes first."""
    return (np.uint64(sortable_bits(score)) << np.uint64(32)) | np.uint64(tie_break)


@inline_kernel
def unpack_score(key: np.uint64) -> np.float32:
    """Return the score of a key that :func:`pack_key` made."""
    bits = np.uint32(key >> np.uint64(32))
    if bits >> np.uint32(31):
        return np.uint32(bits ^ np.uint32(0x80000000)).view(np.float32)
    return np.uint32(~bits).view(np.float32)


def pack_keys(scores: Float32Array, tie_break: UInt32Array) -> UInt64Array:
    """Sort keys of many hits (uint64, same shape): ``scores`` without NaN, the larger ``tie_break`` first."""
    bits = (scores.astype(np.float32, copy=False) + np.float32(0.0)).view(np.uint32)
    ordered = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(0x80000000))
    keys: UInt64Array = (ordered.astype(np.uint64) << np.uint64(32)) | tie_break.astype(np.uint64)
    return keys


def unpack_keys(keys: UInt64Array) -> tuple[Float32Array, UInt32Array]:
    """Return scores and tie-breakers of packed keys (float32 and uint32, same shape); -0.0 becomes 0.0."""
    ordered = (keys >> np.uint64(32)).astype(np.uint32)
    bits = np.where(ordered >> np.uint32(31), ordered ^ np.uint32(0x80000000), ~ordered)
    return bits.view(np.float32), (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)


class IdBytes(NamedTuple):
    """An id column as kernels read it: the bytes of id ``i`` are ``content[starts[i]:starts[i + 1]]``.

    ``starts`` int64 (n + 1), ``content`` uint8.
    """

    starts: Int64Array
    content: npt.NDArray[np.uint8]


def id_bytes(ids: Ids) -> IdBytes:
    """Return the bytes of an id column, shared with it: for breaking a few ties without ranking every id."""
    values = ids.values if len(ids) else strings([""])
    _, starts, content = values.buffers()
    wide = np.int64 if pa.types.is_large_string(values.type) else np.int32
    offsets = np.frombuffer(starts, dtype=wide)[values.offset : values.offset + len(values) + 1]
    return IdBytes(offsets.astype(np.int64), np.frombuffer(content or b"\0", dtype=np.uint8))


@inline_kernel
def is_larger_id(ids: IdBytes, first: int, second: int) -> bool:
    """Return whether id ``first`` is after id ``second`` in byte order: it leads among equal scores."""
    start, stop = ids.starts[first], ids.starts[first + 1]
    position, end = ids.starts[second], ids.starts[second + 1]
    while start < stop and position < end and ids.content[start] == ids.content[position]:
        start += 1
        position += 1
    if start < stop and position < end:
        return bool(ids.content[start] > ids.content[position])
    return bool(start < stop)


def order(run: Run, *, wide: bool = False) -> Run:
    """Order a run by the one rule: score descending, then document id descending.

    ``wide`` compares ``wide_scores``, if the run has them. Raises RankingError as :func:`check` does.
    """
    check(run)
    if wide and run.wide_scores is not None:
        return order_as(run, TieBreak.ID_DESCENDING, wide=True)
    keys = pack_keys(run.scores, run.doc_ids.tie_rank[run.rows])
    rows, scores = np.empty_like(run.rows), np.empty_like(run.scores)
    _sort_queries(run.indptr, keys, run.rows, run.scores, rows, scores)
    return Run(run.query_ids, run.doc_ids, run.indptr, rows, scores)


def order_as(run: Run, tie_break: TieBreak, *, wide: bool = False) -> Run:
    """Return the run by score descending, equal scores as another tool places them.

    ``wide`` compares scores as float64, as they were read. The result's own order is the ranking; it is not checked.
    """
    wide_scores = run.wide_scores if wide else None
    rows, scores = np.empty_like(run.rows), np.empty_like(run.scores)
    if tie_break is TieBreak.QUICKSORT:
        exact = run.scores.astype(np.float64) if wide_scores is None else wide_scores
        positions = np.arange(run.hits, dtype=np.int64)
        _quicksort_queries(run.indptr, -exact, positions)
        rows, scores = run.rows[positions], run.scores[positions]
    elif wide_scores is not None:
        positions = np.lexsort((~_tie_ranks(run, tie_break), -wide_scores, owners(run.indptr)))
        rows, scores = run.rows[positions], run.scores[positions]
    else:
        keys = pack_keys(run.scores, _tie_ranks(run, tie_break))
        _sort_queries(run.indptr, keys, run.rows, run.scores, rows, scores)
    return Run(run.query_ids, run.doc_ids, run.indptr, rows, scores)


def by_wide_scores(run: Run) -> Run:
    """Return the run with scores whose order survives float32: the float64 order, numbered within each query.

    A run without ``wide_scores`` is returned as it is: its order is the same in float32. A query has fewer than 2^24
    different scores, up to which float32 holds every whole number.
    """
    wide = run.wide_scores
    if wide is None:
        return run
    by_query = np.lexsort((wide, owners(run.indptr)))
    rises = np.ones(run.hits, dtype=np.int64)
    rises[1:] = wide[by_query][1:] != wide[by_query][:-1]
    numbers = np.empty(run.hits, dtype=np.float32)
    heights = np.cumsum(rises)
    numbers[by_query] = heights - np.repeat(
        heights[run.indptr[:-1].clip(max=max(run.hits - 1, 0))], np.diff(run.indptr)
    )
    return run.with_scores(numbers)


def _tie_ranks(run: Run, tie_break: TieBreak) -> UInt32Array:
    """Return a number for each hit, different within a query, the larger first among equal scores."""
    if tie_break is TieBreak.RUN_ORDER:
        return ~ranks_in(run.indptr).astype(np.uint32)
    ranks = run.doc_ids.tie_rank[run.rows]
    return ~ranks if tie_break is TieBreak.ID_ASCENDING else ranks


def cut(run: Run, k: int | Int64Array) -> Run:
    """Return the first ``k`` hits of every query (or ``k[query]`` of each), in the run's own order; at least 0."""
    lengths = np.diff(run.indptr)
    return select_hits(run, np.flatnonzero(ranks_in(run.indptr) < (np.repeat(k, lengths) if np.ndim(k) else k)))


def select_hits(run: Run, positions: Int64Array) -> Run:
    """Return the run with only the hits at some ascending ``positions``; a query may have no hit left."""
    indptr = np.searchsorted(positions, run.indptr).astype(np.int64)
    wide = None if run.wide_scores is None else run.wide_scores[positions]
    return Run(run.query_ids, run.doc_ids, indptr, run.rows[positions], run.scores[positions], wide)


def without_identical_ids(run: Run) -> Run:
    """Return the run without hits that have their query's id, in its own order; a query may have no hit left.

    If queries are documents too, as in ArguAna and Quora, a query finds itself first.
    """
    itself = np.repeat(run.doc_ids.rows_of(run.query_ids), np.diff(run.indptr))
    return select_hits(run, np.flatnonzero(run.rows != itself))


def among_candidates(run: Run, candidates: Mapping[str, Sequence[str]]) -> Run:
    """Return the run without hits that are not among their query's candidates, in its own order.

    A query that ``candidates`` does not name keeps no hit. Queries are processed one after another: in addition to the
    result this takes as many bytes as there are documents.
    """
    candidates_of_run = candidate_rows(run.query_ids, run.doc_ids, candidates)
    return select_hits(run, candidate_positions(run.indptr, run.rows, candidates_of_run))


def without_excluded(run: Run, excluded: Mapping[str, Sequence[str]]) -> Run:
    """Return the run without documents that its query excludes, in its own order; a query may have no hit left."""
    of_run = candidate_rows(run.query_ids, run.doc_ids, excluded)
    is_left_out = np.zeros(run.hits, dtype=np.bool_)
    is_left_out[candidate_positions(run.indptr, run.rows, of_run)] = True
    return select_hits(run, np.flatnonzero(~is_left_out))


def candidate_positions(indptr: Int64Array, rows: Int32Array, candidates: Run) -> Int64Array:
    """Return the ascending places of the hits that are among their query's ``candidates``; a row of -1 is not.

    ``indptr`` int64 (Q + 1) cuts ``rows`` int32 (H,) into one list for each of the queries of ``candidates``.
    """
    is_candidate = np.zeros(len(candidates.doc_ids) + 1, dtype=np.bool_)  # -1 reads the last element
    parts = [np.empty(0, dtype=np.int64)]
    for query in range(len(indptr) - 1):
        candidate_docs = candidates.rows[candidates.of_query(query)]
        is_candidate[candidate_docs] = True
        parts.append(np.flatnonzero(is_candidate[rows[indptr[query] : indptr[query + 1]]]) + indptr[query])
        is_candidate[candidate_docs] = False
    return np.concatenate(parts)


def all_candidates(run: Run, candidates: Mapping[str, Sequence[str]], queries: Ids, documents: Ids) -> Run:
    """Return exactly the candidates of each of ``queries``, as rows of ``documents``, for a second stage to score.

    Candidates that the run has come first, in the one ordering, and then the others by document id descending. The
    order is the run's only information: scores are minus the number of hits before. Candidates that ``documents`` lacks
    are left out. Raises RankingError as :func:`check` does, of hits that are candidates.
    """
    ranked = order(among_candidates(run, candidates))
    ranked_rows = documents.rows_of(run.doc_ids)[ranked.rows]
    answers = run.query_ids.rows_of(queries)
    candidates_run = candidate_rows(queries, documents, candidates)
    parts = [np.empty(0, dtype=np.int32)]
    for query, answer in enumerate(answers.tolist()):
        first = ranked_rows[ranked.of_query(answer)] if answer >= 0 else ranked_rows[:0]
        rest = np.setdiff1d(candidates_run.rows[candidates_run.of_query(query)], first)
        parts.append(np.concatenate([first[first >= 0], rest[np.argsort(documents.tie_rank[rest])[::-1]]]))
    rows = np.concatenate(parts)
    indptr = offsets_of(np.array([len(part) for part in parts[1:]], dtype=np.int64))
    return Run(queries, documents, indptr, rows, (-ranks_in(indptr)).astype(np.float32))


def candidate_rows(queries: Ids, documents: Ids, candidates: Mapping[str, Sequence[str]]) -> Run:
    """Return each query's candidates, once each by ascending row, as hits that score 0; unknown ids are left out."""
    id_lists = [candidates.get(query, ()) for query in queries]
    owner = np.repeat(np.arange(len(id_lists)), [len(documents) for documents in id_lists])
    rows = documents.rows_of(strings([document for row in id_lists for document in row]))
    keys = np.unique((owner * len(documents) + rows)[rows >= 0])
    owner, rows = np.divmod(keys, max(len(documents), 1))
    indptr = np.searchsorted(owner, np.arange(len(id_lists) + 1)).astype(np.int64)
    return Run(queries, documents, indptr, rows.astype(np.int32), np.zeros(len(rows), dtype=np.float32))


def same_rankings(runs: Sequence[Run]) -> npt.NDArray[np.bool_]:
    """Return for which queries all ``runs`` (at least one) list the same documents at the same ranks: bool (Q,).

    Rankings are compared in their given order, ties included, to their full length; scores are ignored. Empty rankings
    are the same. The runs answer the same queries over the same document column.
    """
    first, *other_runs = runs
    same = np.ones(len(first.indptr) - 1, dtype=np.bool_)
    lengths = np.diff(first.indptr)
    for other in other_runs:
        same &= np.diff(other.indptr) == lengths
        # if lengths differ already, any row may replace a missing one
        positions = np.arange(len(first.rows)) + np.repeat(other.indptr[:-1] - first.indptr[:-1], lengths)
        rows = other.rows.take(positions, mode="clip") if len(other.rows) else np.full(len(first.rows), -1, np.int32)
        moved = np.concatenate([[0], np.cumsum(rows != first.rows)])
        same &= moved[first.indptr[1:]] == moved[first.indptr[:-1]]
    return same


class RankingDigest(NamedTuple):
    """Digests that distinguish two rankings of one query: 16 hexadecimal digits each."""

    order: str
    """Of the document ids, best first."""
    scores: str
    """The scores of documents: equal if rankings differ at most in the order of equal scores."""


def ranking_digests(run: Run, k: int) -> dict[str, RankingDigest]:
    """Return the digests of every ranking of at most ``k`` hits, by query id; of an empty ranking as well.

    For the last group of equal scores in a ranking of ``k`` hits, only the score counts in ``scores``: the cut may have
    gone through it, and other documents of the group may be returned next time. An exception is a group of one
    document: runs without scores are stored with scores that fall by rank.
    """
    rows, positions = np.unique(run.rows, return_inverse=True)
    id_hashes = [blake2b(name.encode(), digest_size=8).digest() for name in run.doc_ids.take(rows)]
    documents = np.frombuffer(b"".join(id_hashes), dtype=np.uint64)[positions]
    scores = run.scores + np.float32(0.0)  # -0.0 is 0.0
    digests = {}
    for row, query in enumerate(run.query_ids):
        hits = run.of_query(row)
        of_query, scored = documents[hits], scores[hits]
        last = scored == scored.min(initial=np.inf)
        is_cut = len(scored) >= k and np.count_nonzero(last) > 1
        hash_terms = np.where(last, np.uint64(0), of_query) if is_cut else of_query
        by_score = np.lexsort((hash_terms, scored))
        digests[query] = RankingDigest(_digest(of_query), _digest(scored[by_score], hash_terms[by_score]))
    return digests


def _digest(*arrays: npt.NDArray[Any]) -> str:
    return blake2b(b"".join(array.tobytes() for array in arrays), digest_size=8).hexdigest()


def best(
    queries: npt.NDArray[np.unsignedinteger[Any]], scores: npt.NDArray[Any], tie_break: UInt32Array, k: int
) -> Int64Array:
    """Return the places of the best ``k`` candidates of each query, best first, by ascending query (int64).

    ``queries`` (unsigned, the narrower the faster), ``scores`` (float32 or float64, without NaN, compared as they are)
    and ``tie_break`` (uint32, the larger first among equal scores, different within a query) have one value a
    candidate. A query with fewer than k candidates keeps all of them.
    """
    if scores.dtype == np.float64:
        order = np.lexsort((~tie_break, -scores, queries))
    else:
        order = np.argsort(pack_keys(scores, tie_break))[::-1]
        order = order[np.argsort(queries[order], kind="stable")]
    grouped = queries[order]
    starts = np.flatnonzero(np.diff(grouped, prepend=grouped[:1]))
    starts = np.concatenate([[0], starts]) if len(grouped) else starts
    lengths = np.diff(starts, append=len(grouped))
    rank = np.arange(len(grouped)) - np.repeat(starts, lengths)
    selected: Int64Array = order[rank < k]
    return selected


def check(run: Run, *, finite: bool = False) -> None:
    """Refuse NaN, infinite scores and documents that occur twice under one query, naming the first of each.

    A score beyond float32's range is infinity here: two of them would be a tie that their source does not have. Minus
    infinity, which tools write for hits that come last, is refused only with ``finite``: of an engine.
    """
    broken = np.flatnonzero(~(np.isfinite(run.scores) if finite else run.scores < np.inf))
    if len(broken):
        nan = bool(np.isnan(run.scores[broken[0]]))
        problem = "a score is NaN" if nan else "a score is infinite, or beyond the range of float32"
        raise RankingError(_describe(problem, run, int(broken[0]), len(broken)), fix="check the source of the score")
    twice = first_duplicate(run.indptr, run.rows, len(run.doc_ids))
    if twice >= 0:
        raise RankingError(
            _describe("a document is ranked twice", run, twice, 1), fix="a ranking lists each document once"
        )


def _describe(problem: str, run: Run, hit: int, count: int) -> str:
    query = int(np.searchsorted(run.indptr, hit, side="right")) - 1
    more = f" ({count} such hits)" if count > 1 else ""
    return f"{problem}: query '{run.query_ids[query]}', document '{run.doc_ids[int(run.rows[hit])]}'{more}"


@kernel
def _sort_queries(
    indptr: Int64Array,
    keys: UInt64Array,
    rows: Int32Array,
    scores: Float32Array,
    out_rows: Int32Array,
    out_scores: Float32Array,
) -> None:
    for query in range(len(indptr) - 1):
        start, stop = indptr[query], indptr[query + 1]
        best_first = np.argsort(keys[start:stop])[::-1]
        for position in range(stop - start):
            out_rows[start + position] = rows[start + best_first[position]]
            out_scores[start + position] = scores[start + best_first[position]]


@kernel
def _quicksort_queries(indptr: Int64Array, keys: npt.NDArray[np.float64], positions: Int64Array) -> None:
    """Permute the ``positions`` of each query by ascending key, twice: the second time moves equal keys again."""
    for query in range(len(indptr) - 1):
        start, stop = indptr[query], indptr[query + 1]
        for _ in range(2):
            by_key = np.argsort(keys[start:stop])
            keys[start:stop] = keys[start:stop][by_key]
            positions[start:stop] = positions[start:stop][by_key]


@kernel
def first_duplicate(indptr: Int64Array, rows: Int32Array, documents: int) -> int:
    """Return the position of the first row that its query already had, -1 when every query lists each row once."""
    seen = np.full(documents, -1, dtype=np.int64)
    for query in range(len(indptr) - 1):
        for hit in range(indptr[query], indptr[query + 1]):
            if seen[rows[hit]] == query:
                return hit
            seen[rows[hit]] = query
    return -1
