"""Each pitfall of a result is found in results that look right, with its numbers; honest results are left alone."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_array, diags_array

import harness
from harness.cli.evaluate import evaluate as eval_verb
from harness.data.problems import Finding
from harness.data.types import SparseVectors
from harness.errors import DataError, UsageError
from harness.loaders import load_dataset
from harness.metrics import QuerySet, TieRule, official_metrics, parse_metrics, score
from harness.pipeline.evaluate import as_qrels, as_run
from harness.plan.config import EVAL_METRICS
from harness.results.differences import PairedValues
from harness.results.findings import (
    METRIC_CHECKS,
    RUN_CHECKS,
    JudgedRun,
    Weights,
    difference_finding,
    metric_findings,
    requested_metrics,
    run_findings,
)

QUERIES = 40
Hits = Mapping[str, Mapping[str, float]]
Grades = Mapping[str, Mapping[str, int]]


def ranked(*documents: str) -> dict[str, float]:
    return {name: float(len(documents) - place) for place, name in enumerate(documents)}


def one_each(queries: int = QUERIES) -> dict[str, dict[str, int]]:
    return {f"q{row}": {f"d{row}": 1} for row in range(queries)}


def at_rank(rank: int, depth: int = 20, queries: int = QUERIES, apart: int = 1) -> dict[str, dict[str, float]]:
    """Lists with the relevant document of each query at one rank; the others of each query begin ``apart`` further."""
    made = {}
    for row in range(queries):
        others = [f"x{apart * row + place}" for place in range(depth - 1)]
        made[f"q{row}"] = ranked(*others[: rank - 1], f"d{row}", *others[rank - 1 :])
    return made


def judged(
    run: Hits,
    qrels: Grades,
    metrics: str = "nDCG@10,RR@10",
    *,
    ordered: bool = True,
    weights: Weights | None = None,
    ties: TieRule = TieRule.TREC_EVAL,
) -> JudgedRun:
    hits, judgments = as_run(run), as_qrels(qrels)
    scores = score(hits, judgments, parse_metrics(metrics), ties=ties, unjudged=True)
    return JudgedRun(hits, judgments, scores, ordered=ordered, weights=weights)


def only(one: JudgedRun) -> Finding:
    (found,) = run_findings(one)
    return found


def test_an_honest_run_has_no_finding() -> None:
    assert run_findings(judged(at_rank(2), one_each())) == []
    half_found = {**at_rank(1), **{f"q{row}": ranked(*(f"x{place}" for place in range(20))) for row in range(20)}}
    assert run_findings(judged(half_found, one_each())) == []


def test_lists_that_are_not_in_the_order_of_their_scores() -> None:
    """A reranker's order with the scores of the first stage."""
    run = at_rank(2)
    for row in range(15):
        run[f"q{row}"] = {**ranked("a", "b"), f"d{row}": 5.0, "c": 0.5}
    found = only(judged(run, one_each()))
    assert found.check == "unsorted-results"
    assert found.message.startswith("scores rise down the list in 15 of 40 queries; hits are ordered by score")
    assert found.examples == ("query 'q0'", "query 'q1'", "query 'q2'")
    assert "--ties engine" in found.fix
    assert "hits stay in the order of the file" in only(judged(run, one_each(), ties=TieRule.ENGINE)).message
    assert run_findings(judged(run, one_each(), ordered=False)) == []  # JSON states no order


def test_distances_in_place_of_scores() -> None:
    run = {query: {name: -value for name, value in hits.items()} for query, hits in at_rank(1).items()}
    found = next(one for one in run_findings(judged(run, one_each())) if one.check == "unsorted-results")
    assert "scores rise down the list in 40 of 40 queries, and never fall: they look like distances" in found.message
    assert found.fix == "write the negative distance as the score"


def test_scores_of_minus_infinity_are_no_distances() -> None:
    run = {query: dict.fromkeys(list(hits)[:1], float("-inf")) | {"z": 0.5} for query, hits in at_rank(1).items()}
    found = next(one for one in run_findings(judged(run, one_each())) if one.check == "unsorted-results")
    assert "distance" not in found.message + found.fix


def test_a_run_of_another_split() -> None:
    run = {
        **{f"q{row}": ranked(f"d{row}", "x") for row in range(3)},
        **{f"t{row}": ranked("x", "y") for row in range(37)},
    }
    found = next(one for one in run_findings(judged(run, one_each())) if one.check == "wrong-split")
    assert found.message == "3 of the run's 40 queries are judged, and 37 of 40 judged queries are not in the run"
    topics = {**at_rank(2), **{f"t{row}": ranked("x", "y") for row in range(160)}}  # as in TREC: 40 of 200 are judged
    assert run_findings(judged(topics, one_each())) == []
    sample = {f"q{row}": hits for row, hits in enumerate(at_rank(2).values()) if row % 4 == 0}
    assert only(judged(sample, one_each())).check == "unanswered-queries"


def test_a_run_that_lacks_most_queries() -> None:
    found = only(judged(at_rank(1, queries=15), one_each()))
    assert found.check == "unanswered-queries"
    assert found.message == "the run has hits for 15 of the 40 queries that means are over; the other 25 count as 0"
    assert run_findings(judged(at_rank(1, queries=20), one_each())) == []


def test_lists_without_scores_of_their_own() -> None:
    alone = {"q0": {"d0": 1.0}}
    flat = {query: dict.fromkeys(hits, 1.0) for query, hits in at_rank(1).items()}
    found = next(one for one in run_findings(judged({**flat, **alone}, one_each())) if one.check == "equal-scores")
    assert found.message.startswith("all hits have the same score for 39 of the 39 queries with several hits")
    half = {query: hits if row % 2 else at_rank(1)[query] for row, (query, hits) in enumerate(flat.items())}
    assert "equal-scores" not in [one.check for one in run_findings(judged(half, one_each()))]


def test_ids_of_which_some_are_spelled_otherwise() -> None:
    """Numbers below 1,000 lost their zeros, those above meet."""
    run = {f"q{row}": ranked(*(f"{990 + row + place:04}" for place in range(20))) for row in range(QUERIES)}
    qrels = {f"q{row}": {str(990 + row): 1} for row in range(QUERIES)}
    found = only(judged(run, qrels))
    assert found.check == "ids-spelled-otherwise"
    assert found.message == (
        "10 of 40 judged documents are not in the run, and 10 of them are the same but for leading zeros: '990' is "
        "'0990'"
    )


def test_ids_that_never_meet_are_an_error_that_says_why() -> None:
    with pytest.raises(DataError) as caught:
        harness.evaluate(at_rank(1), {query: {f"{doc}.0": 1 for doc in docs} for query, docs in numbers().items()})
    assert caught.value.fix == (
        "check that run and judgments belong to the same dataset; if they do, score the run with --accept "
        "nothing-judged: it is 0"
    )
    run = {query: {f"doc{doc}": 1.0 for doc in docs} for query, docs in numbers().items()}
    with pytest.raises(DataError) as caught:
        harness.evaluate(run, numbers())
    assert caught.value.fix is not None
    assert "40 of them are the same with 'doc' before them: '0' is 'doc0'" in caught.value.fix


def numbers() -> dict[str, dict[str, int]]:
    return {f"q{row}": {str(row): 1} for row in range(QUERIES)}


def test_relevant_documents_that_are_left_out_for_their_id() -> None:
    """Queries and documents are both numbered, and the rule is meant for queries that are documents."""
    qrels = {str(row): {str(row): 1} for row in range(QUERIES)}
    run = {str(row): ranked(str(row), *(f"x{row + place}" for place in range(19))) for row in range(QUERIES)}
    found = harness.evaluate(run, qrels, "nDCG@10", identical_ids="drop").findings
    assert [one.check for one in found] == ["relevant-left-out"]
    assert f"for {QUERIES} of {QUERIES} queries this document is relevant" in found[0].message
    assert found[0].fix.startswith("keep such hits: --identical-ids keep")
    assert harness.evaluate(run, qrels, "nDCG@10").findings == ()


def test_queries_that_find_themselves() -> None:
    """ArguAna's fault: each query is a document, and the relevant one comes second."""
    qrels = {f"arg{row}": {f"arg{row}-counter": 1} for row in range(QUERIES)}
    run = {query: {query: 1.0, f"{query}-counter": 0.8} for query in qrels}
    (found,) = [one for one in harness.evaluate(run, qrels, "nDCG@10").findings if one.check == "query-in-results"]
    assert found.message == (
        "the first hit of every query is the document with the query's own id, which is not relevant; nDCG@10 is "
        "0.631, and 1.000 without such hits"
    )
    assert found.fix.endswith("--identical-ids drop")
    dropped = harness.evaluate(run, qrels, "nDCG@10", identical_ids="drop")
    assert dropped.means()[0].value == 1.0
    assert "query-in-results" not in [one.check for one in dropped.findings]
    # half of the first hits are too many, fewer are not; equal scores count, and a relevant document does not
    tied = {query: dict.fromkeys(hits, 1.0) if row % 2 else dict(reversed([*zip(hits, (0.5, 0.9), strict=True)]))
            for row, (query, hits) in enumerate(run.items())}  # fmt: skip
    assert "20 of 40 queries" in next(
        one.message for one in harness.evaluate(tied, qrels, "RR").findings if one.check == "query-in-results"
    )
    fewer = {**tied, "arg1": {"arg1-counter": 1.0}}
    relevant = {query: {**judged, query: 1} for query, judged in qrels.items()}
    for hits, judgments in ((fewer, qrels), (run, relevant)):
        found_here = [one.check for one in harness.evaluate(hits, judgments, "RR").findings]
        assert "query-in-results" not in found_here


@pytest.mark.parametrize("queries", [1, 9])
def test_a_run_of_which_nothing_is_judged_scores_zero_and_says_so(queries: int) -> None:
    run = {f"q{row}": {f"x{row}": 1.0} for row in range(queries)}
    scores = harness.evaluate(run, one_each(queries), "RR")
    assert scores.means()[0].value == 0.0
    assert [one.check for one in scores.findings] == ["nothing-judged"]
    assert "every metric is 0 (run: 'x0', judgments: 'd0')" in scores.findings[0].message


def test_ten_queries_of_which_nothing_is_judged_are_refused_until_it_is_accepted() -> None:
    run = {f"q{row}": {f"x{row}": 1.0} for row in range(10)}
    with pytest.raises(DataError, match="score the run with --accept nothing-judged"):
        harness.evaluate(run, one_each(10), "RR")
    accepted = harness.evaluate(run, one_each(10), "RR", accept="nothing-judged")
    assert [one.check for one in accepted.findings] == ["nothing-judged"]
    with pytest.raises(UsageError, match="--accept other: no such choice"):
        harness.evaluate(run, one_each(10), "RR", accept=["other"])


def test_ids_in_another_spelling_are_refused_however_few() -> None:
    with pytest.raises(DataError, match="the same but for upper and lower case"):
        harness.evaluate({f"q{row}": {f"D{row}": 1.0} for row in range(4)}, one_each(4), "RR")


@pytest.mark.parametrize("queries", [2, 12])
def test_the_documents_of_a_dataset_decide_whether_a_run_is_of_it(queries: int) -> None:
    texts = {f"{kind}{row}": "text" for kind in "dx" for row in range(queries)}
    dataset = harness.Dataset.of(texts, {f"q{row}": "text" for row in range(queries)}, one_each(queries))
    scores = harness.evaluate({f"q{row}": {f"x{row}": 1.0} for row in range(queries)}, dataset, "RR")
    assert scores.means()[0].value == 0.0
    assert "nothing-judged" in [one.check for one in scores.findings]
    with pytest.raises(DataError, match=r"(?s)is judged(?!.*--accept)"):
        harness.evaluate({f"q{row}": {f"other{row}": 1.0} for row in range(queries)}, dataset, "RR")


def test_queries_whose_only_hit_is_left_out() -> None:
    qrels = {str(row): {str(row + 1): 1} for row in range(QUERIES)}
    run = {str(row): ranked(str(row)) for row in range(QUERIES)}
    (found,) = harness.evaluate(run, qrels, "nDCG@10", identical_ids="drop").findings
    assert found.check == "unanswered-queries"
    assert found.fix.endswith("--identical-ids keep")


def test_metrics_that_are_all_zero() -> None:
    found = only(judged(at_rank(1), {f"q{row}": {f"d{(row + 7) % QUERIES}": 1} for row in range(QUERIES)}))
    assert found.check == "all-zero-metrics"
    assert found.message.startswith(
        "nDCG@10, RR@10 are 0 on all 40 queries, with 800 hits on 98 documents, 40 of them judged"
    )
    few = judged(at_rank(1, queries=4), {f"q{row}": {f"d{(row + 1) % 4}": 1} for row in range(4)})
    assert run_findings(few) == []


@pytest.mark.parametrize(("step", "side"), [(1, "before"), (-1, "after")])
def test_judgments_that_stand_at_the_next_query(step: int, side: str) -> None:
    shifted = {f"q{row}": {f"d{(row + step) % QUERIES}": 1} for row in range(QUERIES)}
    run = {query: {**hits, f"d{(int(query[1:]) + step) % QUERIES}": 11.5} for query, hits in at_rank(2).items()}
    found = only(judged(run, shifted, ordered=False))
    assert found.check == "shifted-judgments"
    assert found.message == (
        f"RR@10 is 0.100, and 0.500 when each query is judged by the judgments of the query {side} it"
    )
    few = judged(at_rank(2, queries=19), {f"q{row}": {f"d{(row + step) % 19}": 1} for row in range(19)})
    assert "shifted-judgments" not in [one.check for one in run_findings(few)]
    assert run_findings(judged(at_rank(2), one_each())) == []


def test_a_metric_deeper_than_the_run() -> None:
    found = only(judged(at_rank(2), one_each(), "nDCG@10,R@1000"))
    assert found.check == "metric-without-support"
    assert found.message == "no list of the run is longer than 20, so R@1000 cannot see more hits than @20 does"
    assert run_findings(judged(at_rank(2), one_each(), "R@20")) == []
    uneven = {query: dict(list(hits.items())[: 5 + row]) for row, (query, hits) in enumerate(at_rank(2, 60).items())}
    assert run_findings(judged(uneven, one_each(), "R@1000")) == []  # lists end where nothing matches any more


def vectors(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> SparseVectors:
    return SparseVectors(np.array([0, len(values)]), np.arange(len(values), dtype=np.int32), values, len(values))


def weights(documents: list[float], *, idf: bool = False) -> Weights:
    made = vectors(np.array(documents, dtype=np.float32))
    return Weights(made, vectors(np.ones(3, dtype=np.float32)), idf)


def test_sparse_weights_that_are_counts() -> None:
    counts = [1.0] * 60 + [2.0] * 30 + [7.0] * 10
    found = only(judged(at_rank(2), one_each(), weights=weights(counts)))
    assert found.check == "raw-weights"
    assert found.message.startswith(
        "all of 100 weights of documents are whole numbers from 1 to 7, and 60% of them are 1"
    )
    assert run_findings(judged(at_rank(2), one_each(), weights=weights(counts, idf=True))) == []
    for learned in ([0.37, 1.2, 2.0], [37.0, 120.0, 1.0, 210.0]):  # SPLADE, and SPLADE as Anserini quantises it
        assert run_findings(judged(at_rank(2), one_each(), weights=weights(learned))) == []


def sparse(matrix: csr_array) -> SparseVectors:
    return SparseVectors.from_scipy(csr_array(matrix.astype(np.float32)))


@pytest.fixture(scope="module")
def counts() -> tuple[csr_array, csr_array, csr_array]:
    """Counts of terms in documents, as Zipf's law has them, those in queries, and the IDF on a diagonal."""
    drawn = np.random.default_rng(0)
    shares = 1.0 / np.arange(1, 2001)
    texts = drawn.multinomial(120, shares / shares.sum(), size=300).astype(np.float64)
    asked = (drawn.random((40, 2000)) < 6 / 2000) + np.eye(40, 2000) + np.eye(40, 2000, 3)
    idf = np.log(1 + (300 - (texts > 0).sum(axis=0) + 0.5) / ((texts > 0).sum(axis=0) + 0.5))
    return csr_array(texts), csr_array(asked.astype(np.float64)), diags_array(idf)


def scaled(counts: csr_array, function: Callable[[np.ndarray], np.ndarray]) -> csr_array:
    return csr_array((function(counts.data), counts.indices, counts.indptr), shape=counts.shape)


def normalised(counts: csr_array) -> csr_array:
    return csr_array(diags_array(1 / np.sqrt(counts.power(2).sum(axis=1))) @ counts)


@pytest.mark.parametrize(
    "function",
    [np.log1p, lambda tf: 1 + np.log(tf), lambda tf: 1 + np.log10(tf), np.sqrt, lambda tf: tf * 1.9 / (tf + 0.9)],
    ids=["log1p", "1+ln", "1+log10", "root", "saturated"],
)
@pytest.mark.parametrize("length", [lambda made: made, normalised], ids=["plain", "normalised"])
def test_sparse_weights_that_are_scaled_counts(counts, function, length) -> None:
    texts, asked, idf = counts
    documents = length(scaled(texts, function))

    def found(documents: csr_array, queries: csr_array, *, engine: bool = False) -> list[str]:
        weights = Weights(sparse(documents), sparse(queries), engine)
        return [one.check for one in run_findings(judged(at_rank(2), one_each(), weights=weights))]

    for queries in (asked, scaled(asked, function)):
        assert found(documents, queries) == ["raw-weights"]
        assert found(documents, queries, engine=True) == []
        assert found(documents @ idf, queries) == []  # as TF-IDF and BM25 weights are stored
        assert found(documents, queries @ idf) == []


def test_learned_sparse_weights_are_not_taken_for_counts(counts) -> None:
    texts, asked, _ = counts
    learned = scaled(texts, lambda tf: np.random.default_rng(1).lognormal(size=len(tf)))
    for documents in (learned, scaled(learned, lambda weight: np.rint(weight * 100)), scaled(learned, np.float16)):
        weights = Weights(sparse(documents), sparse(asked), idf=False)
        assert run_findings(judged(at_rank(2), one_each(), weights=weights)) == []


def many_relevant(row: int) -> dict[str, int]:
    return {f"d{row}-{place}": 1 for place in range(30)}


def test_a_good_first_hit_with_nothing_behind_it() -> None:
    run = {f"q{row}": ranked(f"d{row}-0", *(f"x{place}" for place in range(19))) for row in range(QUERIES)}
    found = only(judged(run, {f"q{row}": many_relevant(row) for row in range(QUERIES)}))
    assert found.check == "high-mrr-low-ndcg"
    assert found.message.startswith("RR@10 is 1.000 and nDCG@10 0.220")
    assert "(30.0 relevant documents per query)" in found.message


LATE = at_rank(8, depth=30, apart=30)
"""1,200 documents, the relevant ones at rank 8."""


def test_relevant_documents_that_are_found_late() -> None:
    found = only(judged(LATE, one_each()))
    assert found.check == "found-but-ranked-low"
    assert found.message == "R@100 is 1.000 and nDCG@10 0.315: relevant documents are found and come late"
    assert "rerank" in found.fix


def test_too_few_documents_for_a_late_find() -> None:
    """Of 100 documents or fewer R@100 is 1 whatever their order; the smallest pool that is looked at has 1,000."""
    late = judged(LATE, one_each())
    for pool, found in ((20.0, []), (999.5, []), (1000.0, ["found-but-ranked-low"]), (None, ["found-but-ranked-low"])):
        assert [one.check for one in run_findings(replace(late, pool=pool))] == found
    few = judged(at_rank(8), one_each())
    assert len(few.run.doc_ids) < 1000
    assert run_findings(few) == []


def test_a_gap_that_the_query_s_own_document_makes() -> None:
    run = {f"q{row}": ranked("y", f"q{row}", *(f"x{place}" for place in range(7)), f"d{row}") for row in range(QUERIES)}
    found = only(replace(judged(run, one_each(), "nDCG@10"), pool=5000.0))
    assert "; without hits that have their query's id nDCG@10 is 0.301" in found.message
    assert found.fix == "drop hits that have their query's id: --identical-ids drop"


def metric_finding(qrels: Grades, metrics: str, queries: QuerySet = QuerySet.RELEVANT) -> list[Finding]:
    return metric_findings(as_qrels(qrels), parse_metrics(metrics), queries=queries)


def test_a_metric_that_no_ranking_can_bring_to_one_half() -> None:
    (found,) = metric_finding(one_each(), "nDCG@10,AP,RR,R@100,Success@5,P@1,P@10,RBP")
    assert found.check == "metric-without-support"
    assert found.message == (
        "P@10 can be at most 0.100 and RBP can be at most 0.200 on these judgments, which have 1.0 relevant documents "
        "a query and grades up to 1"
    )
    assert metric_finding({f"q{row}": many_relevant(row) for row in range(10)}, "P@10,nDCG@10,R@20") == []
    (found,) = metric_finding({f"q{row}": many_relevant(row) for row in range(10)}, "R@10")
    assert "R@10 can be at most 0.333" in found.message
    assert metric_finding(one_each(4), "P@10") == []


@pytest.mark.parametrize(
    ("metrics", "chosen"),
    [
        (EVAL_METRICS, ""),
        ("R@100,P@10,RR,AP,nDCG@10", ""),
        (f"{EVAL_METRICS},P@1000", "P@1000"),
        ("official", ""),
        ("official,P@7", "P@7"),
        ("P@10,nDCG@10", "P@10,nDCG@10"),
    ],
)
def test_whole_sets_of_defaults_are_nobody_s_choice(metrics: str, chosen: str) -> None:
    named = requested_metrics(parse_metrics(metrics), EVAL_METRICS)
    assert ",".join(map(str, named)) == chosen


def test_the_measures_of_trec_eval_alone_are_not_judged() -> None:
    assert metric_findings(as_qrels(one_each()), requested_metrics(official_metrics(), EVAL_METRICS)) == []
    assert [one.check for one in metric_findings(as_qrels(one_each()), official_metrics())] == [
        "metric-without-support",
        "metric-without-support",
    ]


def test_evaluate_has_what_the_command_prints() -> None:
    flat = {query: dict.fromkeys(hits, 1.0) for query, hits in at_rank(8).items()}
    scores = harness.evaluate(flat, one_each(), "nDCG@10,P@10")
    assert [one.check for one in scores.findings] == ["metric-without-support", "equal-scores", "all-zero-metrics"]
    assert [one.check for one in scores.metric_findings] == ["metric-without-support"]
    assert harness.evaluate(at_rank(2), one_each()).findings == ()
    restored = pickle.loads(pickle.dumps(scores))
    assert restored.findings == scores.findings


def test_evaluate_takes_the_order_of_a_file(tmp_path: Path) -> None:
    lines = [f"{query} Q0 {doc} 1 {value} t\n" for query, hits in UNSORTED.items() for doc, value in hits.items()]
    (tmp_path / "run.trec").write_text("".join(lines))
    (tmp_path / "run.json").write_text(json.dumps(UNSORTED))
    checks = {
        ending: [one.check for one in harness.evaluate(tmp_path / f"run.{ending}", one_each()).findings]
        for ending in ("trec", "json")
    }
    assert "unsorted-results" in checks["trec"]
    assert checks["json"] == [one.check for one in harness.evaluate(UNSORTED, one_each()).findings]
    assert "unsorted-results" not in checks["json"]


def test_a_metric_that_needs_negatives() -> None:
    (found,) = metric_finding(one_each(), "Bpref,AP")
    assert found.message == ("Bpref needs documents that are judged not relevant, and all 40 judgments are relevant")
    assert metric_finding({query: {**docs, "x": 0} for query, docs in one_each().items()}, "Bpref") == []


@settings(max_examples=examples(30))
@given(
    grades=st.lists(
        st.dictionaries(st.sampled_from([f"d{n}" for n in range(12)]), st.integers(0, 3), min_size=1),
        min_size=5,
        max_size=9,
    )
)
def test_no_run_exceeds_the_ceiling_that_is_reported(grades: list[dict[str, int]]) -> None:
    qrels = {f"q{row}": docs for row, docs in enumerate(grades)}
    if not any(grade for docs in grades for grade in docs.values()):
        assert metric_finding(qrels, "P@10") == []
        return
    found = metric_finding(qrels, "P@10")
    every = {query: {f"d{n}": float(n) for n in range(12)} for query in qrels}
    value = harness.evaluate(every, qrels, "P@10").means()[0].value
    if found:
        assert value <= float(found[0].message.split(" at most ")[1].split(" ")[0]) + 0.0005


def pair(values_a: np.ndarray[tuple[int], np.dtype[np.float64]], difference: float, noise: float) -> PairedValues:
    moved = np.resize([1.0, -1.0], len(values_a)) * noise
    return PairedValues("a", "b", "nDCG@10", values_a, values_a + difference + moved)


def test_too_few_queries_for_a_difference() -> None:
    found = difference_finding(pair(np.full(20, 0.4), 0.05, 0.2))
    assert found is not None
    assert found.check == "too-few-queries"
    assert (
        found.message == "b and a differ by 0.050 in nDCG@10, and 20 queries show differences from 0.136 on (power 0.8)"
    )
    assert found.fix.startswith("have about 135 queries like these")
    among_eight = difference_finding(pair(np.full(20, 0.4), 0.05, 0.2), 8)
    assert among_eight is not None
    assert "20 queries show differences from 0.182 on" in among_eight.message
    assert difference_finding(pair(np.full(400, 0.4), 0.05, 0.2)) is None
    varied = difference_finding(pair(np.full(5, 0.4), 0.1, 0.5), 30)
    assert varied is not None
    assert varied.message.endswith("in nDCG@10, and 5 queries are too few to show any difference (power 0.8)")
    assert difference_finding(pair(np.full(20, 0.4), 0.01, 0.2)) is None  # below 5 %, which nobody would report
    assert difference_finding(pair(np.full(1, 0.4), 0.3, 0.2)) is None


@given(arrays.arrays(np.float64, st.integers(0, 30), elements=st.floats(0, 1)), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_difference_is_judged_whatever_the_values(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], difference: float, noise: float
) -> None:
    found = difference_finding(pair(values, difference, noise))
    assert found is None or f"{len(values)} queries" in found.message


def test_every_check_is_reached_by_these_tests() -> None:
    """One test or more for each row of the tables; a new check needs one."""
    assert [check.__name__ for check in (*RUN_CHECKS, *METRIC_CHECKS)] == [
        "_unsorted",
        "_other_queries",
        "_unanswered",
        "_relevant_left_out",
        "_equal_scores",
        "_ids_spelled_otherwise",
        "_queries_find_themselves",
        "_nothing_judged",
        "_all_zero",
        "_judgments_of_neighbours",
        "_cut_short",
        "_raw_weights",
        "_first_hit_alone",
        "_ranked_low",
        "_low_ceiling",
        "_no_judged_negatives",
    ]


@pytest.mark.parametrize("name", ["cacm", "chunking-eval"])
def test_perfect_runs_of_bundled_collections_have_none(name: str) -> None:
    qrels = load_dataset(name).qrels
    assert qrels is not None
    by_grade = np.lexsort((-qrels.grades, np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.indptr))))
    scores = np.arange(len(by_grade), 0, -1, dtype=np.float32)
    run = harness.data.types.Run(qrels.query_ids, qrels.doc_ids, qrels.indptr, qrels.rows[by_grade], scores)
    found = score(run, qrels, parse_metrics("nDCG@10,AP,RR@10"))
    assert run_findings(JudgedRun(run, qrels, found, ordered=True)) == []


def shown(
    folder: Path, capsys: pytest.CaptureFixture[str], run: Hits, output: str, ending: str = "trec"
) -> tuple[str, str]:
    """Return what `harness eval` writes to stdout and to stderr."""
    path, qrels = folder / f"run.{ending}", folder / "qrels"
    lines = [
        f"{query} Q0 {doc} {rank} {value} t\n"
        for query, hits in run.items()
        for rank, (doc, value) in enumerate(hits.items(), 1)
    ]
    path.write_text(json.dumps(run) if ending == "json" else "".join(lines))
    judgments = [f"{query} 0 {doc} {grade}\n" for query, docs in one_each().items() for doc, grade in docs.items()]
    qrels.write_text("".join(judgments))
    eval_verb(qrels=qrels, run=[path], metrics="nDCG@10,P@10", format=output)
    printed = capsys.readouterr()
    return printed.out, printed.err


UNSORTED = {query: dict(reversed(hits.items())) for query, hits in at_rank(2).items()}


@pytest.mark.parametrize("output", ["table", "markdown", "csv", "trec_eval"])
def test_eval_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str) -> None:
    out, err = shown(tmp_path, capsys, UNSORTED, output)
    text, other = (out, err) if output in ("table", "markdown") else (err, out)
    assert "run.trec: scores rise down the list in 40 of 40 queries" in text
    assert "P@10 can be at most 0.100" in text
    for check in ("unsorted-results", "metric-without-support"):
        assert check in text
        assert check not in other


def test_eval_has_them_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(tmp_path, capsys, LATE, "json")[0])
    assert [one["check"] for one in found["findings"]] == ["metric-without-support"]
    assert [one["check"] for one in found["runs"][0]["findings"]] == ["found-but-ranked-low"]


def test_eval_takes_no_order_from_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(tmp_path, capsys, UNSORTED, "table", ending="json")
    assert "unsorted-results" not in out + err
