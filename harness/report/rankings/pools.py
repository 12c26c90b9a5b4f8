"""Ranks of the documents that matter to each query, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from harness.report.rankings.explorer import Explorer, KeptRanks
from harness.results.pools import UNJUDGED, Pools, Top, pools_of, top_of


def ranks_in_pools(explorer: Explorer, top: Top, pools: Pools) -> list[list[int | None]]:
    """Return the ranks of all pools by ranking: 0 not found, None if a document may stand below the kept hits."""
    owner = np.repeat(np.arange(len(pools.indptr) - 1), np.diff(pools.indptr))
    ranks: list[list[int | None]] = []
    for number, ranking in enumerate(pools.ranks):
        stored_depth = explorer.stored_depths[number] if explorer.stored_depths is not None else None
        values: list[int | None] = ranking.tolist()
        if stored_depth is not None:
            further = explorer.stored_ranks[number] if explorer.stored_ranks is not None else None
            for position in np.flatnonzero((ranking == 0) & (top.hits[number][owner] >= stored_depth)).tolist():
                values[position] = _stored_rank(explorer, pools, further, int(owner[position]), position)
        ranks.append(values)
    return ranks


def first_ranks(explorer: Explorer) -> list[list[int | None]]:
    """Return for each ranking the rank of every query's first relevant or expected document.

    0 if the ranking has none, None if it may stand below the kept hits.
    """
    if explorer.expected is not None:
        return [
            [_first(_expected_ranks(explorer, query, number)) for query in range(len(explorer.query_ids))]
            for number in range(len(explorer.runs))
        ]
    top = top_of(explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)
    pools = pools_of(top, explorer.runs, explorer.query_ids, explorer.qrels, explorer.relevance)
    relevant = ((pools.grades != UNJUDGED) & (pools.grades >= explorer.relevance)).tolist()
    bounds = list(pairwise(pools.indptr.tolist()))
    return [
        [
            _first(rank for rank, counts in zip(ranking[start:end], relevant[start:end], strict=True) if counts)
            for start, end in bounds
        ]
        for ranking in ranks_in_pools(explorer, top, pools)
    ]


def _expected_ranks(explorer: Explorer, query: int, ranking: int) -> list[int | None]:
    expected = explorer.expected[query] if explorer.expected is not None else ()
    return [one.ranks[ranking] for one in expected if one.grade >= explorer.relevance]


def _first(ranks: Iterable[int | None]) -> int | None:
    """Return the best of some ranks, 0 if all are 0, None if none is above 0 and some are unknown."""
    all_ranks = list(ranks)
    hits = [rank for rank in all_ranks if rank]
    return min(hits) if hits else None if None in all_ranks else 0


def _stored_rank(explorer: Explorer, pools: Pools, stored: KeptRanks | None, query: int, number: int) -> int | None:
    """Return the kept rank of a pool's document, 0 if it was not found, None if that is unknown."""
    if stored is None:
        return None
    rank = stored.ranks.get(explorer.query_ids[query], {}).get(pools.ids[int(pools.docs[number])])
    is_relevant = pools.grades[number] != UNJUDGED and pools.grades[number] >= explorer.relevance
    return rank or (0 if stored.complete and is_relevant else None)
