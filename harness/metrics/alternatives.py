"""Groups of alternatives: judged documents of a query, any one of which is enough.

A group counts once in every metric: the first of its documents in the ranking that is relevant counts with its grade,
later ones keep their rank and neither gain nor cost anything. The ideal ranking, and with it the number of relevant
documents, has each group once, with the grade of its best member. AutoRAG reads its lists of lists so for recall; its
precision and nDCG count every document of a group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data import ranking
from harness.data.ranking import TieRule
from harness.data.types import Grades, Qrels, Run, owners
from harness.errors import UsageError

COUNTED_ALREADY = -(2**31)
"""The grade of a document whose group another document counts for: judged, and without any gain."""
_NOT_A_HIT = -1


class CountedGroups(NamedTuple):
    """Judgments in which each group counts once, for one run.

    ``tied`` bool (Q,) marks queries in which members of one group have equal scores: which of them counts depends on
    the order of ties, so that no range over it is known.
    """

    qrels: Qrels
    tied: npt.NDArray[np.bool_]


def count_groups_once(run: Run, qrels: Qrels, ties: TieRule, level: float) -> CountedGroups:
    """Return judgments by which each group of alternatives counts once in a run.

    The first hit of a group with at least grade ``level`` counts, else the first with a grade above 0. Raises
    UsageError under the tie rule ``average``, under which no hit is the first, RankingError as
    :func:`harness.data.ranking.order` does.
    """
    if qrels.groups is None:
        raise AssertionError("judgments without groups of alternatives")
    if ties is TieRule.AVERAGE:
        raise UsageError(
            "--ties average with groups of alternatives: no hit of a group is the first",
            fix="use another rule, or judge without groups",
        )
    wide = ranking.by_wide_scores(run) if ties is TieRule.TREC_EVAL_10 else run
    ordered = wide if ties is TieRule.ENGINE else ranking.order(wide)
    judged_rows, answers = qrels.doc_ids.rows_of(ordered.doc_ids), ordered.query_ids.rows_of(qrels.query_ids)
    grades, best = qrels.grades.copy(), qrels.grades.copy()
    tied = np.zeros(len(qrels.query_ids), dtype=np.bool_)
    for query in np.flatnonzero(_repeats(qrels)).tolist():
        start, stop = int(qrels.indptr[query]), int(qrels.indptr[query + 1])
        hits = ordered.of_query(int(answers[query])) if answers[query] >= 0 else slice(0)
        positions = np.full(len(qrels.doc_ids), _NOT_A_HIT, dtype=np.int64)
        documents = judged_rows[ordered.rows[hits]]
        positions[documents[documents >= 0]] = np.flatnonzero(documents >= 0)
        ranks = positions[qrels.rows[start:stop]]
        for group in np.unique(qrels.groups[start:stop]).tolist():
            members = np.flatnonzero((qrels.groups[start:stop] == group) & (qrels.grades[start:stop] > 0))
            counted = _counted(members, ranks, qrels.grades[start:stop], level)
            rest = members[members != counted]
            grades[start + rest] = COUNTED_ALREADY
            if len(members):
                top = members[np.argmax(qrels.grades[start:stop][members])]
                best[start + members[members != top]] = COUNTED_ALREADY
            among = members[ranks[members] != _NOT_A_HIT]
            scores = ordered.scores[hits][ranks[among]]
            tied[query] |= len(among) > 0 and np.count_nonzero(scores == scores[among == counted]) > 1
    return CountedGroups(replace(qrels, grades=grades, groups=None, ideal=_descending(qrels, best)), tied)


def _repeats(qrels: Qrels) -> npt.NDArray[np.bool_]:
    """Return which queries have a group with several members, bool (Q,)."""
    owner = owners(qrels.indptr)
    pairs = np.unique(np.stack([owner, np.asarray(qrels.groups, dtype=np.int64)]), axis=1)
    sizes: npt.NDArray[np.bool_] = np.bincount(pairs[0], minlength=len(qrels.query_ids)) < np.diff(qrels.indptr)
    return sizes


def _counted(members: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64], grades: Grades, level: float) -> int:
    """Return the member of a group that counts: the first relevant hit, else the first hit, else the best member."""
    if not len(members):
        return -1
    hits = members[ranks[members] != _NOT_A_HIT]
    relevant = hits[grades[hits] >= level]
    candidates = relevant if len(relevant) else hits
    chosen = candidates[np.argmin(ranks[candidates])] if len(candidates) else members[np.argmax(grades[members])]
    return int(chosen)


def _descending(qrels: Qrels, grades: Grades) -> Grades:
    return replace(qrels, grades=grades, groups=None).descending_grades
