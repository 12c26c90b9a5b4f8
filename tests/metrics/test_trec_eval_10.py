"""What trec_eval 10 computes otherwise than release 9: recall points, rbp, and scores of double precision.

Release 10 cannot be installed here. Expected values of topic 302 are those of the test that trec_eval brings
(github.com/usnistgov/trec_eval, ``test/out.test.*``): its relevant documents are at the ranks below, and 27 more are
not returned. ``rbp`` and the values of release 9 are printed there; no stored output has the rounded recall points of
``m_iprec_at_recall.c`` (commit 2a9e2143), so those values are worked out from their formula.
"""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import harness
from harness.data.memory import qrels_from_dict, run_from_dict
from harness.data.ranking import by_wide_scores
from harness.data.types import Ids
from harness.errors import UnknownNameError, UsageError
from harness.loaders.trec import read_run
from harness.loaders.trec_write import write_run, write_run_columns
from harness.metrics import QueryCounts, QuerySet, Scores, TieRule, parse_metric, parse_metrics, score

RELEVANT_RANKS = [
    1, 2, 4, 5, 6, 8, 9, *range(11, 20), 21, 22, 24, 27, 28, 30, 31, 34, 36, 37, 39, 42, 43, 44, 47, 48, 49, 50, 51, 53,
    56, 58, 72, 79, 82, 84, 116, 154, 289, 301, 331, 353, 394, 458,
]  # fmt: skip
RUN = run_from_dict({"302": {f"d{rank}": -float(rank) for rank in range(1, 501)}})
RELEVANT = [f"d{rank}" for rank in RELEVANT_RANKS] + [f"missed{number}" for number in range(27)]
DOUBLE_QRELS = {"q1": {"a": 1, "b": 0, "c": 2}}
DOUBLE = {"q1": {"a": 100000001, "b": 100000000, "c": 99999999}}


def printed(names: list[str], release: int, grade: int = 1) -> list[float]:
    """Return the values of topic 302 to the four digits that trec_eval prints."""
    qrels = qrels_from_dict({"302": dict.fromkeys(RELEVANT, grade)})
    scores = score(RUN, qrels, parse_metrics(names, release))
    return [round(summary.value, 4) for summary in scores.means()]


def test_topic_302_of_trec_evals_own_test() -> None:
    names = ["map", "Rprec", "iprec_at_recall.0.3,0.4,0.5,0.6,0.7", "11pt_avg", "iprec_at_recall.0.25"]
    assert printed(names, 9) == [0.4175, 0.5065, 0.7419, 0.6863, 0.5417, 0.1420, 0.0, 0.4360, 0.75]
    # 46.2 and 19.25 relevant documents are 46 and 19 in release 10, and were 47 and 20 before
    assert printed(names, 10) == [0.4175, 0.5065, 0.7419, 0.6863, 0.5417, 0.1528, 0.0, 0.4370, 0.7917]


@pytest.mark.parametrize("grade", [1, 3])
def test_rbp_of_topic_302_is_of_grades_over_the_highest(grade: int) -> None:
    assert printed(["rbp"], 10, grade) == [0.7628]


def test_rbp_with_several_grades_by_hand() -> None:
    """0.1 · (1/4 + 0.9² · 4/4 + 0.9³ · 2/4), with 4 the highest grade of the query, found or not."""
    run = run_from_dict({"q": {"a": 4.0, "x": 3.0, "b": 2.0, "c": 1.0}})
    qrels = qrels_from_dict({"q": {"a": 1, "b": 4, "c": 2, "missed": 4, "wrong": -1}})
    scores = score(run, qrels, parse_metrics(["RBP_trec_eval_10", "RBP_trec_eval_10@1", "RBP_trec_eval_10(p=0.5)"]))
    assert scores.values[0] == pytest.approx([0.1 * (0.25 + 0.81 + 0.729 / 2), 0.025, 0.5 * (0.25 + 0.25 + 0.0625)])


def test_half_a_document_is_rounded_up() -> None:
    """One of five relevant documents at recall 0.1, which release 9 takes for floor(1.4)."""
    run = run_from_dict({"q": {"x": 3.0, "a": 2.0, "b": 1.0}})
    qrels = qrels_from_dict({"q": dict.fromkeys("abcde", 1)})
    names = parse_metrics("IPrec_trec_eval_10@0.1,IPrec_trec_eval_10@0.09,IPrec_trec_eval_10@0.3,IPrec@0.5")
    assert score(run, qrels, names).values[0] == pytest.approx([2 / 3, 2 / 3, 2 / 3, 0.0])


def test_means_are_added_in_the_order_of_query_ids() -> None:
    """A mean of P@200 that lies between two printed digits: added in pairs it is 0.0959."""
    values = np.random.default_rng(1).multinomial(1919, np.full(100, 0.01)) / 200
    assert f"{values.mean():.4f}" == "0.0959"
    ids = [f"q{number:03}" for number in range(100)]
    for order in (np.arange(100), np.arange(100)[::-1]):
        table = values[order][:, None]
        counts = QueryCounts(100, 100, 100, 100, 0)
        of_queries = Ids.of([ids[row] for row in order])
        scores = Scores(
            (parse_metric("P@200"),), of_queries, table, table, table, counts, TieRule.TREC_EVAL, QuerySet.RELEVANT
        )
        assert f"{scores.means()[0].value:.4f}" == "0.0960"


LINES = "q1 Q0 a 1 100000001 s\nq1 Q0 b 2 100000000 s\nq1 Q0 c 3 99999999 s\n"
FRAME = pd.DataFrame({"qid": ["q1"] * 3, "docno": list("abc"), "score": [100000001.0, 100000000.0, 99999999.0]})


def test_both_releases_have_a_name_for_every_shape_of_a_run(tmp_path) -> None:
    trec, packed, as_json = tmp_path / "run.trec", tmp_path / "run.trec.gz", tmp_path / "run.json"
    predictions, table = tmp_path / "task_predictions.json", tmp_path / "run.parquet"
    trec.write_text(LINES)
    packed.write_bytes(gzip.compress(LINES.encode()))
    as_json.write_text(json.dumps(DOUBLE))
    predictions.write_text(json.dumps({"default": {"test": DOUBLE}}))
    FRAME.to_parquet(table)
    pairs = {"q1": list(DOUBLE["q1"].items())}
    for run in (trec, packed, as_json, predictions, table, DOUBLE, FRAME, pairs):
        for ties, value in (("trec_eval", 0.9502), ("trec_eval_10", 0.7602)):
            scores = harness.evaluate(run, DOUBLE_QRELS, "nDCG@10", ties=ties)
            assert round(scores.means()[0].value, 4) == value, (run, ties)


def test_a_written_run_keeps_its_wide_scores(tmp_path) -> None:
    run = run_from_dict(DOUBLE)
    write_run(tmp_path / "run.trec", run, "t")
    write_run_columns(tmp_path / "run.parquet", run)
    for name in ("run.trec", "run.parquet"):
        wide = read_run(tmp_path / name).wide_scores
        assert wide is not None
        assert wide.tolist() == [100000001.0, 100000000.0, 99999999.0]


def test_wide_scores_become_numbers_that_float32_tells_apart() -> None:
    run = run_from_dict({"p": {"a": 5.0}, "q": {"a": 1.0, "b": 1.0 + 1e-9, "c": 1.0, "d": float("-inf")}, "r": {}})
    assert by_wide_scores(run).scores.tolist() == [0.0, 1.0, 2.0, 1.0, 0.0]
    narrow = run_from_dict({"q": {"a": 1.0, "b": 2.0}})
    assert by_wide_scores(narrow) is narrow


@pytest.mark.parametrize("release", ["10", 10, np.int64(10)])
def test_python_takes_the_choices_of_a_release(release: object) -> None:
    qrels = DOUBLE_QRELS | {"unanswered": {"a": 1}}
    metrics = "ndcg_cut_10,rbp,iprec_at_recall.0.7"
    as_release = harness.evaluate(DOUBLE, qrels, metrics, trec_eval=release).means()
    assert [str(mean.measure) for mean in as_release] == ["nDCG@10", "RBP_trec_eval_10", "IPrec_trec_eval_10@0.7"]
    assert [round(mean.value, 4) for mean in as_release] == [0.7602, 0.131, 1.0]
    assert harness.evaluate(DOUBLE, qrels, metrics, trec_eval="9").means()[0].value == pytest.approx(0.9502, abs=5e-5)
    with pytest.raises(UsageError, match="--trec-eval settles"):
        harness.evaluate(DOUBLE, qrels, metrics, trec_eval="10", ties="engine")
    with pytest.raises(UsageError, match="--trec-eval is 8\n  it must be one of: 9, 10"):
        harness.evaluate(DOUBLE, qrels, metrics, trec_eval=8)


def test_the_audit_shows_both_releases() -> None:
    audit = harness.audit(DOUBLE, DOUBLE_QRELS, "nDCG@10,IPrec@0.3,RBP_trec_eval_10")
    values = audit.values[parse_metric("nDCG@10")]
    assert (round(values["trec_eval 9"], 4), round(values["trec_eval 10"], 4)) == (0.9502, 0.7602)
    (cause,) = audit.difference("nDCG@10", "trec_eval 10").causes
    assert [change.aspect for change in cause] == ["scores compared as"]
    assert audit.values[parse_metric("RBP_trec_eval_10")]["trec_eval 9"] is None
    missed = harness.audit(RUN, {"302": dict.fromkeys(RELEVANT, 1)}, "IPrec@0.6")
    (cause,) = missed.difference("IPrec@0.6", "trec_eval 10").causes
    assert [change.aspect for change in cause] == ["relevant at a recall point"]
    with pytest.raises(UnknownNameError, match="did you mean 'trec_eval 10'"):
        audit.difference("nDCG@10", "trec_eval 1")
