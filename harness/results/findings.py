"""Pitfalls in results that look like results, and how a stored result lists them.

:data:`RUN_CHECKS` look at one run and its scores, :data:`METRIC_CHECKS` only at metrics and judgments; each returns a
finding or None. :func:`difference_finding` looks at a difference between two backends. A threshold lies where honest
results end; docstrings name published results (BM25 by Anserini on BEIR). Fewer than five evaluated queries are an
example rather than a collection, and only their order is examined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.dataset import Dataset
from harness.data.id_spelling import respellings
from harness.data.problems import Finding
from harness.data.ranking import without_identical_ids
from harness.data.types import Ids, Qrels, Run, SparseVectors
from harness.loaders.structured_files import states_order
from harness.metrics import Metric, QuerySet, Scores, TieRule, is_mean, official_metrics, parse_metrics, score
from harness.metrics.table import KINDS
from harness.plan.config import COMPARE_METRICS
from harness.plan.plan import Plan
from harness.results.differences import SIGNIFICANT, PairedValues, common_queries
from harness.results.schema import FindingInfo, PairedDifference, TrialResult
from harness.results.scored import ScoredTrial
from harness.results.truncation import truncation_findings
from harness.stats.power import detectable_difference, queries_needed
from harness.wording import counted, too_few_to_show
from harness.worker.outcome import Outcome

_MAX_EXAMPLES = 3
_FEW_QUERIES = 5
_QUERIES_IN_A_ROW = 20
_SAMPLE = 1_000_000
_ONCE = 0.5
"""Share of the terms of a text that occur once in it."""
_SHAPE = parse_metrics("nDCG@10,RR@10,R@100")
_SMALLEST_POOL = 1000
"""Least number of documents for R@100 to mean anything: a random order has then found a tenth of the relevant ones."""


class Weights(NamedTuple):
    """Sparse vectors that an encoder made, and whether the engine multiplies them by the IDF."""

    documents: SparseVectors
    queries: SparseVectors
    idf: bool


@dataclass(frozen=True, eq=False)
class JudgedRun:
    """A run with its judgments and scores.

    ``ordered`` says that the run was read from a file whose lists are ranked: TREC's, or a table. ``weights`` are the
    learned sparse vectors behind it, None for any other run. ``pool`` is how many documents compete for a query's
    ranking: all of them, or its candidates (their mean number); None if only the run is known. ``drops_itself`` says
    that hits with their query's id were left out.
    """

    run: Run
    qrels: Qrels
    scores: Scores
    relevance: float = 1
    ordered: bool = False
    weights: Weights | None = None
    pool: float | None = None
    drops_itself: bool = False

    @cached_property
    def shape(self) -> dict[str, float]:
        """nDCG@10, RR@10 and R@100, regardless of the requested metrics."""
        return self.shape_by(self.qrels)

    def shape_by(self, qrels: Qrels) -> dict[str, float]:
        """Return nDCG@10, RR@10 and R@100 by other judgments of the same documents."""
        scores = score(
            self.run,
            qrels,
            _SHAPE,
            ties=TieRule.TREC_EVAL,
            queries=self.scores.queries,
            relevance=self.relevance,
            unjudged=True,
        )
        return {measure.name: summary.value for measure, summary in zip(_SHAPE, scores.means(), strict=True)}


def run_findings(judged: JudgedRun) -> list[Finding]:
    """Return the findings of every check of a run, in the order of the table."""
    few, findings = judged.scores.counts.evaluated < _FEW_QUERIES, list[Finding]()
    for find, causes in RUN_CHECKS.items():
        is_explained = any(finding.check in causes for finding in findings)
        if is_explained or (few and find not in CHECKS_OF_FEW_QUERIES):
            continue
        if find in _EXAMINED_FIELDS and not getattr(judged, _EXAMINED_FIELDS[find]):
            continue
        finding = find(judged)
        if finding is not None:
            findings.append(finding)
    return findings


def metric_findings(
    qrels: Qrels, measures: Sequence[Metric], *, relevance: float = 1, queries: QuerySet = QuerySet.RELEVANT
) -> list[Finding]:
    """Return the measures that the judgments cannot support, in the order of the table; nothing without judgments."""
    if not measures or len(qrels.query_ids) < _FEW_QUERIES or not bool((qrels.grades >= relevance).any()):
        return []
    judged = _JudgedMetrics(qrels, tuple(measures), relevance, queries)
    return [finding for check in METRIC_CHECKS if (finding := check(judged)) is not None]


def requested_metrics(measures: Sequence[Metric], default: str | Sequence[str]) -> tuple[Metric, ...]:
    """Return the measures that the user chose, for :func:`metric_findings`.

    Left out are the measures of ``default``, which a command takes if none is named, and trec_eval's official measures,
    if the whole set is among ``measures``. Such a set is meant for every collection, including P@10 with one relevant
    document a query: the user did not choose it for these judgments.
    """
    for default_set in (set(parse_metrics(default)), set(official_metrics())):
        if default_set <= set(measures):
            measures = [measure for measure in measures if measure not in default_set]
    return tuple(measures)


def _warning(check: str, message: str, fix: str, examples: tuple[str, ...] = ()) -> Finding:
    return Finding(check, "warning", message, fix, examples)


def _unsorted(judged: JudgedRun) -> Finding | None:
    """Find lists of a file whose scores rise somewhere, contrary to the ranks of the file.

    trec_eval ignores ranks and sorts by score, so the intended ranking is not the ranking that is scored. JSON states
    no order, and MTEB's predictions have none: such files are not examined.
    """
    run = judged.run
    owner = np.repeat(np.arange(len(run.query_ids)), np.diff(run.indptr))
    before, after = run.scores[:-1], run.scores[1:]  # compared, because minus infinity less itself is not a number
    within = owner[1:] == owner[:-1]
    rising = np.unique(owner[1:][within & (after > before)])
    if not len(rising):
        return None
    # minus infinity is a score written for "last", and never a distance
    distances = not bool((within & ((after < before) | np.isneginf(before) | np.isneginf(after))).any())
    by_score = judged.scores.ties is not TieRule.ENGINE
    taken = "hits are ordered by score, as trec_eval does" if by_score else "hits stay in the order of the file"
    never_fall = ", and never fall: they look like distances" if distances else ""
    return _warning(
        "unsorted-results",
        f"scores rise down the list in {len(rising):,} of {counted(len(run.query_ids), 'query', 'queries')}{never_fall}"
        f"; {taken}",
        "write the negative distance as the score"
        if distances
        else "write the score that made the order (a reranker's, not the first stage's)"
        + (", or score the file's order: --ties engine" if by_score else ""),
        _example_ids(run.query_ids, rising),
    )


def _other_queries(judged: JudgedRun) -> Finding | None:
    """Find a run and judgments that share fewer than half of the queries of either.

    A run of all topics, only some of them judged, shares all the judged topics; a run of a sample shares all of its
    own.
    """
    answered = Ids(judged.run.query_ids.values)
    common = int(np.count_nonzero(judged.qrels.query_ids.rows_of(answered) >= 0))
    in_run, in_qrels = len(answered), len(judged.qrels.query_ids)
    if min(in_run, in_qrels) < _FEW_QUERIES or 2 * common >= min(in_run, in_qrels):
        return None
    return _warning(
        "wrong-split",
        f"{common:,} of the run's {in_run:,} queries are judged, and {in_qrels - common:,} of {in_qrels:,} judged "
        "queries are not in the run",
        "look whether run and judgments are of the same split, and whether query ids are numbered alike",
    )


def _unanswered(judged: JudgedRun) -> Finding | None:
    """Find a run that answers fewer than half of the queries that its means are over; the others count as 0."""
    counts = judged.scores.counts
    if 2 * counts.answered >= counts.evaluated:
        return None
    fix = "look for the rest of the run; if the run is a sample, --queries answered averages over its queries"
    if judged.drops_itself:
        fix = (
            "hits that have their query's id are left out; if queries and documents are numbered independently, keep "
            "such hits: --identical-ids keep"
        )
    return _warning(
        "unanswered-queries",
        f"the run has hits for {counts.answered:,} of the {counts.evaluated:,} queries that means are over; the other "
        f"{counts.evaluated - counts.answered:,} count as 0",
        fix,
    )


def _relevant_left_out(judged: JudgedRun) -> Finding | None:
    """Find queries whose relevant documents include the one with the query's id, which the rule leaves out.

    Reported is a tenth of them: queries that are documents never judge themselves in ArguAna and Quora, and ids that
    are numbered independently coincide for all or for few.
    """
    qrels, evaluated = judged.qrels, judged.scores.counts.evaluated
    if not judged.drops_itself:
        return None
    itself = np.repeat(qrels.doc_ids.rows_of(qrels.query_ids), np.diff(qrels.indptr))
    count = int(np.count_nonzero((qrels.rows == itself) & (qrels.grades >= judged.relevance)))
    if 10 * count < evaluated or not count:
        return None
    return _warning(
        "relevant-left-out",
        f"hits that have their query's id are left out, and for {count:,} of {evaluated:,} queries this document is "
        "relevant: it can never be found",
        "keep such hits: --identical-ids keep; or remove these judgments, if a query must not find itself",
    )


def _equal_scores(judged: JudgedRun) -> Finding | None:
    """Find a run in which nearly all lists of several hits have the same score throughout: its order is by id.

    Nine tenths: a scoring function leaves a list tied if its query has one rare term, not nearly everywhere.
    """
    run = judged.run
    lengths = np.diff(run.indptr)
    starts = run.indptr[:-1][lengths > 1]
    if len(starts) < _FEW_QUERIES:
        return None
    steps = np.zeros(run.hits, dtype=np.int64)
    steps[1:] = run.scores[1:] != run.scores[:-1]
    steps[run.indptr[:-1][lengths > 0]] = 0
    tied = np.add.reduceat(steps, starts) == 0
    if 10 * np.count_nonzero(tied) < 9 * len(tied):
        return None
    return _warning(
        "equal-scores",
        f"all hits have the same score for {np.count_nonzero(tied):,} of the {len(tied):,} queries with several "
        "hits: this measures the order of document ids",
        "write the score that made the order, or measure the order of the file: --ties engine",
    )


def _ids_spelled_otherwise(judged: JudgedRun) -> Finding | None:
    """Find judged documents or queries that the run has in another spelling: a tenth of them and 3.

    Any number is enough if they differ only as one id does by mistake, in Unicode normalisation for example. Ids of
    which none meet are an error. CACM writes 7 % of its judged documents without the zeros that the corpus has;
    Anserini's figures count them as missing, and so do ours.
    """
    clauses = []
    for kind, ids, valid_ids in (
        ("document", judged.qrels.doc_ids, judged.run.doc_ids),
        ("query", judged.qrels.query_ids, judged.run.query_ids),
    ):
        missing = ids.take(np.flatnonzero(valid_ids.rows_of(ids) < 0))
        if not missing:
            continue
        spellings = respellings(missing, valid_ids, share=max(3, len(ids) / 10) / len(missing))
        if spellings:
            total = counted(len(ids), f"judged {kind}", f"judged {'queries' if kind == 'query' else 'documents'}")
            clauses.append(f"{len(missing):,} of {total} are not in the run, and {', and '.join(map(str, spellings))}")
    if not clauses:
        return None
    return _warning(
        "ids-spelled-otherwise",
        "; ".join(clauses),
        "write ids alike in the run and in the judgments: an id in another spelling counts as another id",
    )


def _nothing_judged(judged: JudgedRun) -> Finding | None:
    """Find a run none of whose hits is judged for any query: as good as wrong, or of other documents."""
    run, documents = judged.run, judged.qrels.doc_ids
    if not len(run.rows) or not len(documents) or bool((documents.rows_of(run.doc_ids)[run.rows] >= 0).any()):
        return None
    hit = run.doc_ids[int(run.rows[0])]
    return _warning(
        "nothing-judged",
        f"none of the run's hits is judged for any query, so every metric is 0 (run: '{hit}', judgments: "
        f"'{documents[0]}')",
        "check that run and judgments are of one dataset; if they are, check how queries are encoded",
    )


def _queries_find_themselves(judged: JudgedRun) -> Finding | None:
    """Find queries whose best hit is the document with their id, if they are at least half of the queries with hits.

    Queries are documents in ArguAna and Quora, and their own document is never relevant to them there. A query to which
    it is relevant is not counted. Ids that are numbered independently coincide for few of the best hits.
    """
    run, qrels = judged.run, judged.qrels
    lengths = np.diff(run.indptr)
    if judged.drops_itself or not run.hits:
        return None
    owner = np.repeat(np.arange(len(lengths)), lengths)
    filled = np.flatnonzero(lengths)
    best = np.zeros(len(lengths), dtype=np.float32)
    best[filled] = np.maximum.reduceat(run.scores, run.indptr[filled])
    is_itself = run.rows == run.doc_ids.rows_of(run.query_ids)[owner]
    first = np.unique(owner[is_itself & (run.scores == best[owner])])
    of_judgment = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.indptr))
    relevant = (qrels.rows == qrels.doc_ids.rows_of(qrels.query_ids)[of_judgment]) & (qrels.grades >= judged.relevance)
    relevant_ids = Ids.of(qrels.query_ids.take(np.unique(of_judgment[relevant])))
    first = first[relevant_ids.rows_of(Ids.of(run.query_ids.take(first))) < 0]
    if not len(first) or 2 * len(first) < len(filled):
        return None
    count = "every query" if len(first) == len(filled) else f"{len(first):,} of {len(filled):,} queries"
    without = replace(judged, run=without_identical_ids(run)).shape["nDCG"]
    return _warning(
        "query-in-results",
        f"the first hit of {count} is the document with the query's own id, which is not relevant; nDCG@10 is "
        f"{judged.shape['nDCG']:.3f}, and {without:.3f} without such hits",
        "leave out hits that have their query's id: --identical-ids drop",
        _example_ids(run.query_ids, first),
    )


def _all_zero(judged: JudgedRun) -> Finding | None:
    """Find a run that has hits, judged ones among them, and no metric above 0."""
    values = {str(summary.measure): summary.value for summary in judged.scores.means() if _is_share(summary.measure)}
    if not values or any(values.values()) or not judged.run.hits:
        return None
    known_documents = int(np.count_nonzero(judged.qrels.doc_ids.rows_of(judged.run.doc_ids) >= 0))
    return _warning(
        "all-zero-metrics",
        f"{', '.join(values)} {'is' if len(values) == 1 else 'are'} 0 on all {judged.scores.counts.evaluated:,} "
        f"queries, with {judged.run.hits:,} hits on {len(judged.run.doc_ids):,} documents, {known_documents:,} of "
        "them judged "
        "for some query",
        "look whether queries and judgments are numbered alike, and whether queries are encoded as documents are: even "
        "a random ranking finds something now and then",
    )


def _judgments_of_neighbours(judged: JudgedRun) -> Finding | None:
    """Find judgments that are one query too early or too late, by which a run is far better than by its own.

    Topics of one collection overlap, yet nowhere so that three times as much is found for the neighbour.
    """
    reciprocal_ranks, queries = judged.shape["RR"], judged.qrels.query_ids.to_list()
    if judged.scores.counts.evaluated < _QUERIES_IN_A_ROW or reciprocal_ranks >= 1 / 3:
        return None
    for step, side in ((1, "before"), (-1, "after")):
        moved = Ids.of([*queries[step:], *queries[:step]])
        other = judged.shape_by(replace(judged.qrels, query_ids=moved))["RR"]
        if other >= max(3 * reciprocal_ranks, 0.2):
            return _warning(
                "shifted-judgments",
                f"RR@10 is {reciprocal_ranks:.3f}, and {other:.3f} when each query is judged by the judgments of "
                "the query "
                f"{side} it",
                "look for a line too many or too few in the step that joined ids with queries or judgments",
            )
    return None


def _cut_short(judged: JudgedRun) -> Finding | None:
    """Find metrics that look deeper than the run: R@1000 of lists that all end at 100.

    The lists end there if nine in ten do, the others are shorter, and the run knows more documents than that.
    """
    lengths = np.diff(judged.run.indptr)
    depth = int(lengths.max(initial=0))
    ends_at_depth = 10 * np.count_nonzero(lengths == depth) >= 9 * np.count_nonzero(lengths)
    deeper = [
        str(measure)
        for measure in judged.scores.measures
        if _is_share(measure) and isinstance(measure.cutoff, int) and measure.cutoff > depth
    ]
    too_small = not depth or len(judged.run.doc_ids) <= depth
    if not deeper or not ends_at_depth or not judged.ordered or too_small:
        return None
    return _warning(
        "metric-without-support",
        f"no list of the run is longer than {depth:,}, so {', '.join(deeper)} cannot see more hits than @{depth} does",
        f"retrieve more hits for the run, or ask for @{depth}",
    )


def _raw_weights(judged: JudgedRun) -> Finding | None:
    """Find sparse vectors of counts of terms, or of scaled counts, with no IDF anywhere.

    Counts are integers, at least half of them 1: half of the terms of a text occur once (Zipf's law); learned weights
    that were rounded to integers are seldom 1. Scaled counts (logarithms, saturated or normalised counts) depend on the
    count of a term and on its document, so that half of a document's terms share its smallest weight. Learned weights
    differ from term to term, and so do weights that include an IDF, in documents or queries. A term that every document
    has then counts as much as a term that distinguishes them. The first million values are examined.
    """
    weights = judged.weights
    if weights is None or weights.idf:
        return None
    values, query_weights = weights.documents.values[:_SAMPLE], weights.queries.values[:_SAMPLE]
    if not len(values) or values.min() <= 0:
        return None
    fix = "let the engine multiply by the IDF (idf=true), or weigh the vectors before they are stored"
    if values.min() >= 1 and all((part == np.rint(part)).all() for part in (values, query_weights)):
        ones = float(np.mean(values == 1))
        if ones < _ONCE:
            return None
        return _warning(
            "raw-weights",
            f"all of {len(values):,} weights of documents are whole numbers from 1 to {int(values.max())}, and "
            f"{ones:.0%} of them are 1: these look like counts of terms, and no IDF is applied",
            fix,
        )
    share = _share_of_smallest(weights.documents)
    of_queries = _share_of_smallest(weights.queries)
    if share is None or share < _ONCE or of_queries is None or of_queries < _ONCE:  # one term has no other to weigh
        return None
    return _warning(
        "raw-weights",
        f"{share:.0%} of the weights of documents equal the smallest of their document, whatever the term: these look "
        "like scaled counts of terms, and no IDF is applied",
        fix,
    )


def _share_of_smallest(vectors: SparseVectors) -> float | None:
    """Return the share of weights that equal the smallest of their text, which itself is left out.

    None if no text has two weights.
    """
    rows = int(np.searchsorted(vectors.indptr, _SAMPLE, side="right")) - 1
    indptr = vectors.indptr[: rows + 1]
    lengths = np.diff(indptr)
    several = lengths > 1
    if not several.any():
        return None
    filled = lengths > 0
    values = vectors.values[: indptr[-1]]
    smallest = np.minimum.reduceat(values, indptr[:-1][filled])
    equal = np.add.reduceat((values == np.repeat(smallest, lengths[filled])).astype(np.int64), indptr[:-1][filled])
    return float((equal - 1)[several[filled]].sum() / (lengths - 1)[several].sum())


def _first_hit_alone(judged: JudgedRun) -> Finding | None:
    """Find a good first hit with little behind it: RR@10 of at least 0.5, and an nDCG@10 below half of it.

    Of one relevant document a query nDCG@10 is never below RR@10, as 1 / log2(1 + rank) >= 1 / rank: it is the other
    relevant documents that are missing.
    """
    reciprocal, gain = judged.shape["RR"], judged.shape["nDCG"]
    if reciprocal < 0.5 or 2 * gain >= reciprocal:
        return None
    relevant = _relevant_counts(judged.qrels, judged.relevance)
    return _warning(
        "high-mrr-low-ndcg",
        f"RR@10 is {reciprocal:.3f} and nDCG@10 {gain:.3f}: the first relevant document comes early, but the others "
        f"do not ({relevant.mean():.1f} relevant documents per query)",
        "check whether near-duplicates fill the top, whether low grades crowd out high ones, and whether results of "
        "one "
        "document are merged; if one good hit is enough, report RR",
    )


def _ranked_low(judged: JudgedRun) -> Finding | None:
    """Find relevant documents that are among the first 100 and not among the first 10.

    Reported is R@100 of at least 0.8 with an nDCG@10 below 0.4 of it. BM25 on ArguAna, the widest gap in BEIR, has
    0.932 and 0.397 once the query's own document is dropped. Of 100 documents or fewer R@100 is 1 in any order, so at
    least 1,000 must compete for a place; if only the run is known, it must have as many.
    """
    if (len(judged.run.doc_ids) if judged.pool is None else judged.pool) < _SMALLEST_POOL:
        return None
    recall, gain = judged.shape["R"], judged.shape["nDCG"]
    if recall < 0.8 or gain >= 0.4 * recall:
        return None
    without = replace(judged, run=without_identical_ids(judged.run)).shape["nDCG"]
    itself = f"; without hits that have their query's id nDCG@10 is {without:.3f}" if without - gain >= 0.01 else ""
    return _warning(
        "found-but-ranked-low",
        f"R@100 is {recall:.3f} and nDCG@10 {gain:.3f}: relevant documents are found and come late{itself}",
        "drop hits that have their query's id: --identical-ids drop"
        if itself
        else "rerank the first 100 hits; look first whether scores are distances, and whether queries need a prompt",
    )


_RunCheck = Callable[[JudgedRun], Finding | None]
RUN_CHECKS: Mapping[_RunCheck, tuple[str, ...]] = {
    _unsorted: (),
    _other_queries: (),
    _unanswered: ("wrong-split",),
    _relevant_left_out: (),
    _equal_scores: (),
    _ids_spelled_otherwise: (),
    _queries_find_themselves: (),
    _nothing_judged: ("relevant-left-out",),
    _all_zero: ("nothing-judged", "relevant-left-out"),
    _judgments_of_neighbours: (),
    _cut_short: (),
    _raw_weights: (),
    _first_hit_alone: (),
    _ranked_low: ("query-in-results",),
}
"""Every check of a run, with earlier findings that explain its finding: it is left out after one of them."""
CHECKS_OF_FEW_QUERIES: frozenset[_RunCheck] = frozenset(
    [_unsorted, _ids_spelled_otherwise, _nothing_judged, _raw_weights]
)
"""Checks of runs of fewer than 5 evaluated queries."""
_EXAMINED_FIELDS: Mapping[_RunCheck, str] = {_unsorted: "ordered", _raw_weights: "weights"}
"""Checks of a part of a :class:`JudgedRun` that few runs have, with the field that says so."""


class _JudgedMetrics(NamedTuple):
    """Judgments, and the metrics that are taken by them."""

    qrels: Qrels
    measures: tuple[Metric, ...]
    relevance: float
    queries: QuerySet


def _low_ceiling(judged: _JudgedMetrics) -> Finding | None:
    """Find metrics that even a perfect ranking leaves below 0.5: P@10 of one relevant document a query is 0.1."""
    measures = [measure for measure in judged.measures if _is_share(measure)]
    if not measures:
        return None
    best = score(_perfect(judged), judged.qrels, measures, queries=judged.queries, relevance=judged.relevance)
    bounds = [
        f"{summary.measure} can be at most {summary.value:.3f}" for summary in best.means() if summary.value < 0.5
    ]
    if not bounds:
        return None
    relevant = _relevant_counts(judged.qrels, judged.relevance)
    return _warning(
        "metric-without-support",
        f"{' and '.join(bounds)} on these judgments, which "
        f"have {relevant.mean():.1f} relevant documents a query and grades up to {judged.qrels.grades.max():g}",
        "read it against that, or take a metric that can reach 1: nDCG, AP, RR, R_cap, Success",
    )


def _no_judged_negatives(judged: _JudgedMetrics) -> Finding | None:
    """Find metrics that compare relevant with judged non-relevant documents if no document is judged non-relevant."""
    names = [str(measure) for measure in judged.measures if measure.name in ("Bpref", "infAP")]
    if not names or bool((judged.qrels.grades < judged.relevance).any()):
        return None
    return _warning(
        "metric-without-support",
        f"{' and '.join(names)} {'needs' if len(names) == 1 else 'need'} documents that are judged not relevant, and "
        f"all {len(judged.qrels):,} judgments are relevant",
        "take AP or nDCG, or judgments with grade 0",
    )


METRIC_CHECKS: tuple[Callable[[_JudgedMetrics], Finding | None], ...] = (_low_ceiling, _no_judged_negatives)
"""Every check of metrics against judgments."""


def difference_finding(pair: PairedValues, family: int = 1) -> Finding | None:
    """Find a difference that is usually reported and that this many queries cannot show.

    The caller passes differences that are not significant. Reported are differences of at least 5 % of the larger mean
    (our own bound of differences that are usually reported) and below the smallest difference that this many queries
    show with power 0.8, at the level that ``family`` tests leave each, as in the verdict.
    """
    differences = pair.values_b - pair.values_a
    if len(differences) < _FEW_QUERIES:
        return None
    observed = abs(float(differences.mean()))
    larger = max(abs(float(pair.values_a.mean())), abs(float(pair.values_b.mean())))
    alpha = SIGNIFICANT / family
    detectable = detectable_difference(differences, alpha=alpha)
    if detectable is None or observed < 0.05 * larger or observed >= detectable:
        return None
    needed = queries_needed(differences, observed, alpha=alpha)
    sensitivity = f"{len(differences):,} queries show differences from {detectable:.3f} on"
    return _warning(
        "too-few-queries",
        f"{pair.b} and {pair.a} differ by {observed:.3f} in {pair.metric}, and "
        f"{too_few_to_show(len(differences), detectable, larger) or sensitivity} (power 0.8)",
        f"have about {needed:,} queries like these, or claim no difference" if needed else "claim no difference",
    )


def _perfect(judged: _JudgedMetrics) -> Run:
    """Return the relevant documents of every query, scored by grade."""
    qrels = judged.qrels
    relevant_rows = np.flatnonzero(qrels.grades >= judged.relevance)
    indptr = np.searchsorted(relevant_rows, qrels.indptr).astype(np.int64)
    grades = qrels.grades[relevant_rows].astype(np.float32)
    return Run(qrels.query_ids, qrels.doc_ids, indptr, qrels.rows[relevant_rows], grades)


def _is_share(measure: Metric) -> bool:
    """Return whether a metric is a mean of values from 0 to 1 that relevant documents raise."""
    kind = KINDS.get(measure.name)
    return kind is not None and kind.range == "0 to 1" and is_mean(measure) and kind.name != "Judged"


def _relevant_counts(qrels: Qrels, relevance: float) -> npt.NDArray[np.int64]:
    """Return the number of relevant documents of each query that has any."""
    owner = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.indptr))
    counts = np.bincount(owner[qrels.grades >= relevance], minlength=len(qrels.query_ids))
    positive: npt.NDArray[np.int64] = counts[counts > 0].astype(np.int64)
    return positive


def _example_ids(ids: Ids, rows: npt.NDArray[Any]) -> tuple[str, ...]:
    return tuple(f"query '{name}'" for name in ids.take(rows[:_MAX_EXAMPLES]))


def result_findings(
    plan: Plan,
    dataset: Dataset,
    scored: Sequence[ScoredTrial],
    trials: Sequence[TrialResult],
    differences: Sequence[PairedDifference],
) -> list[FindingInfo]:
    """Return the pitfalls of texts, metrics, each backend's run, and differences between backends, on one dataset."""
    findings = [
        finding
        for trial in trials
        if trial.truncation
        for finding in recorded(truncation_findings(trial.truncation), dataset.name, trial.label)
    ]
    qrels, relevance = dataset.qrels, plan.request.relevance
    if qrels is None:
        return findings
    if len(qrels.query_ids) >= _FEW_QUERIES:
        metrics = requested_metrics(plan.measures, COMPARE_METRICS)
        findings += recorded(metric_findings(qrels, metrics, relevance=relevance, queries=plan.queries), dataset.name)
    for backend in scored:
        if backend.scores is None or backend.outcome.run is None:
            continue
        path = backend.outcome.trial.spec.run_path
        ordered = path is not None and states_order(path)
        vectors = backend.outcome.vectors
        is_learned = vectors is not None and vectors.terms is None  # BM25's weights are made here, and known
        weights = _weights(backend.outcome) if is_learned else None
        judged = JudgedRun(
            backend.outcome.run,
            qrels,
            backend.scores,
            relevance,
            ordered,
            weights,
            dataset.competing,
            drops_itself=dataset.identical_ids == "drop",
        )
        findings += recorded(run_findings(judged), dataset.name, backend.outcome.trial.label)
    primary = next((str(measure) for measure in plan.measures if is_mean(measure)), None)
    if primary is not None and differences:
        pairs = notable_differences(scored, differences, primary)
        family = max(1, sum(row.verdict != "same" for row in differences))
        too_small = [difference_finding(pair, family) for pair in pairs]
        findings += recorded([finding for finding in too_small if finding is not None], dataset.name)
    return findings


def notable_differences(
    scored: Sequence[ScoredTrial], rows: Sequence[PairedDifference], metric: str
) -> list[PairedValues]:
    """Return the values behind each undecided difference in ``metric`` that ties do not explain."""
    scores = {backend.outcome.trial.label: backend.scores for backend in scored if backend.scores is not None}
    pairs = []
    for row in rows:
        if row.metric != metric or row.verdict != "undecided" or row.within_ties:
            continue
        a, b = scores[row.a], scores[row.b]
        column = [str(measure) for measure in a.measures].index(metric)
        common_a, common_b = common_queries(a, b)
        pairs.append(PairedValues(row.a, row.b, metric, a.values[common_a, column], b.values[common_b, column]))
    return pairs


def recorded(findings: Sequence[Finding], dataset: str, backend: str | None = None) -> list[FindingInfo]:
    """Return findings as a result lists them."""
    return [
        FindingInfo(
            check=finding.check,
            dataset=dataset,
            backend=backend,
            message=finding.message,
            fix=finding.fix,
            examples=list(finding.examples),
        )
        for finding in findings
    ]


def _weights(outcome: Outcome) -> Weights | None:
    """Return the learned sparse vectors of an outcome, None for dense ones."""
    vectors = outcome.vectors
    if vectors is None or vectors.sparse is None or vectors.sparse.documents is None:
        return None
    idf = bool(outcome.trial.parameters.get("idf", False))
    return Weights(vectors.sparse.documents, vectors.sparse.queries, idf)
