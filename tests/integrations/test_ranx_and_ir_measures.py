"""Runs, judgments and results to ranx and ir_measures and back: nothing lost but what the other cannot hold."""

from typing import Any

import numpy as np
import pytest
from installed import skip_without

import harness
from harness.data.memory import qrels_from_dict
from harness.data.types import Qrels, Run
from harness.errors import DataError, RankingError
from harness.integrations.hits_by_id import qrels_by_id, run_by_id, run_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries

HITS = {
    "q2": {"d10": 2.5, "d9": float(np.float32(0.1)), "d1": float(np.float32(0.1)), "d2": -1.0},
    "q1": {"été 1": 1.0, "😀": 0.5, "<a:b>": 0.25},
    "none": {},
    "10": {"d1": float(np.float32(3.0e38))},
}
GRADES = {"q2": {"d10": 2, "d9": 0, "x": -1}, "q1": {"😀": 1}, "10": {"d1": 3}}


def long(scores: Any) -> Any:
    """Values as `Comparison.per_query()` has them, one row a query and metric."""
    return scores.to_frame().reset_index().melt("query_id", var_name="metric")


def same_run(ours: Run, theirs: Run) -> None:
    assert run_by_id(ours) == run_by_id(theirs)
    assert ours.scores.dtype == theirs.scores.dtype == np.float32


def test_hits_by_id_keep_everything() -> None:
    run = run_of(HITS)
    assert run_by_id(run) == HITS
    assert [list(hits) for hits in run_by_id(run).values()] == [list(hits) for hits in HITS.values()]
    assert qrels_by_id(qrels_from_dict(GRADES)) == GRADES
    assert isinstance(qrels_from_dict({}), Qrels)


def test_scores_that_float32_would_make_equal_stay_apart() -> None:
    run = run_of({"q": {"a": 1.0 + 1e-12, "b": 1.0}})
    assert run.wide_scores is not None
    assert run_by_id(run)["q"] == {"a": 1.0 + 1e-12, "b": 1.0}
    assert run_of({"q": {"a": 0.1, "b": 0.2}}).wide_scores is None


def test_what_is_no_run_is_refused() -> None:
    with pytest.raises(RankingError):
        run_of({"q": {"a": float("nan")}})
    with pytest.raises(DataError, match="whole number"):
        qrels_by_id(qrels_from_dict({"q": {"a": 0.5}}))


@pytest.mark.parametrize("hits", [HITS, {"q": {"a": 1.0, "b": 1.0}, "none": {}}, {"none": {}}])
def test_a_run_through_ranx(hits: dict[str, dict[str, float]]) -> None:
    """Nothing changes but the order of queries, which ranx sorts."""
    skip_without("ranx")
    from harness.integrations.ranx import run_from_ranx, run_to_ranx

    made = run_to_ranx(run_of(hits), "mine")
    assert made.name == "mine"
    back = run_by_id(run_from_ranx(made))
    assert [(query, list(of_query.items())) for query, of_query in back.items()] == [
        (query, list(hits[query].items())) for query in sorted(hits)
    ]


def test_judgments_through_ranx() -> None:
    skip_without("ranx")
    from harness.integrations.ranx import qrels_from_ranx, qrels_to_ranx

    back = qrels_by_id(qrels_from_ranx(qrels_to_ranx(qrels_from_dict(GRADES))))
    assert back == GRADES
    assert list(back["q2"].values()) == [2, 0, -1]  # the ideal order, which nDCG of ranx relies on


def test_results_through_ranx_are_what_it_computes() -> None:
    skip_without("ranx")
    import ranx

    from harness.integrations.ranx import qrels_to_ranx, results_from_ranx, results_to_ranx, run_to_ranx

    hits = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"b": 3.0, "a": 2.0}}
    grades = {"q1": {"b": 1, "c": 2}, "q2": {"b": 1}}
    run, qrels = run_to_ranx(run_of(hits)), qrels_to_ranx(qrels_from_dict(grades))
    ranx.evaluate(qrels, run, ["ndcg@10", "mrr@10"])  # it compiles each for seconds
    theirs = results_from_ranx(run)
    scored = harness.evaluate(run_of(hits), qrels_from_dict(grades), metrics=["nDCG@10", "RR@10"])
    ours = long(scored)
    joined = theirs.merge(ours, on=["query_id", "metric"])
    assert len(joined) == len(theirs) == 4
    assert joined["value_x"].to_numpy() == pytest.approx(joined["value_y"].to_numpy(), abs=1e-12)
    again = results_to_ranx(ours, run_to_ranx(run_of(hits)))
    assert again.mean_scores["mrr@10"] == pytest.approx(run.mean_scores["mrr@10"])


def test_runs_and_judgments_through_ir_measures() -> None:
    skip_without("ir_measures")
    from harness.integrations import ir_measures as through

    filled = {query: hits for query, hits in HITS.items() if hits}
    back = through.run_from_ir_measures(through.run_to_ir_measures(run_of(HITS)))
    assert run_by_id(back) == filled
    assert [list(hits) for hits in run_by_id(back).values()] == [list(hits) for hits in filled.values()]
    same_run(back, run_of(filled))
    assert qrels_by_id(through.qrels_from_ir_measures(through.qrels_to_ir_measures(qrels_from_dict(GRADES)))) == GRADES
    with pytest.raises(DataError, match="'d1' twice"):
        through.run_from_ir_measures(through.run_to_ir_measures(run_of({"10": {"d1": 1.0}})) * 2)


def test_results_through_ir_measures_are_what_it_computes() -> None:
    skip_without("ir_measures")
    import ir_measures

    from harness.integrations import ir_measures as through

    run, qrels = run_of({query: HITS[query] for query in ("q2", "q1", "10")}), qrels_from_dict(GRADES)
    metrics: list[Any] = [ir_measures.nDCG @ 10, ir_measures.RR, ir_measures.P @ 2]
    calculated = list(
        ir_measures.iter_calc(metrics, through.qrels_to_ir_measures(qrels), through.run_to_ir_measures(run))
    )
    theirs = through.results_from_ir_measures(calculated)
    ours = long(harness.evaluate(run, qrels, metrics=["nDCG@10", "RR", "P@2"]))
    joined = theirs.merge(ours, on=["query_id", "metric"])
    assert len(joined) == len(theirs) == 9
    assert joined["value_x"].to_numpy() == pytest.approx(joined["value_y"].to_numpy(), abs=1e-12)
    assert {(one.query_id, one.measure) for one in through.results_to_ir_measures(ours)} == {
        (one.query_id, one.measure) for one in calculated
    }
