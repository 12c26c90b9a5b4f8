"""`harness.evaluate` on every form of input, and the verb `eval` in every format."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from warm_harness import harness_command

import harness
from harness.cli.evaluate import evaluate as eval_verb
from harness.errors import DataError, HarnessError, UsageError
from harness.loaders.trec_write import write_run
from harness.metrics import QuerySet, TieRule
from harness.pipeline.evaluate import as_qrels, as_run

QRELS = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"a": 1}, "q3": {"z": 0}, "q10": {"a": 1}}
RUN = {"q1": {"a": 2.0, "b": 2.0, "c": 1.0}, "q3": {"z": 1.0}, "q10": {"a": 3.0}, "q99": {"a": 1.0}}
OTHER = {"q1": {"c": 2.0, "b": 2.0}, "q2": {"a": 1.0}}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / name for name in ("qrels", "beir.tsv", "run.trec", "run.trec.gz", "other.trec")}
    lines = [(query, document, grade) for query, judged in QRELS.items() for document, grade in judged.items()]
    paths["qrels"].write_text("".join(f"{query} 0 {document} {grade}\n" for query, document, grade in lines))
    rows = "".join(f"{query}\t{document}\t{grade}\n" for query, document, grade in lines)
    paths["beir.tsv"].write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    write_run(paths["run.trec"], as_run(RUN), "first")
    paths["run.trec.gz"].write_bytes(gzip.compress(paths["run.trec"].read_bytes()))
    write_run(paths["other.trec"], as_run(OTHER), "second")
    return paths


def _frame(table, names):
    return pd.DataFrame([(q, d, v) for q, inner in table.items() for d, v in inner.items()], columns=names)


def test_a_run_without_judged_documents_is_zeros_as_for_trec_eval(tmp_path, capfd):
    """Elsewhere ten queries or more of such a run are of another collection, unless that is accepted."""
    from harness.cli.evaluate import evaluate as command
    from harness.metrics import TieRule

    (tmp_path / "qrels").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "run").write_text("q1 Q0 zz 1 2.0 t\n")
    command(qrels=tmp_path / "qrels", run=[tmp_path / "run"], format="trec_eval", ties=TieRule.TREC_EVAL)
    printed = dict(line.split("\tall\t") for line in capfd.readouterr().out.splitlines())
    printed = {name.strip(): value for name, value in printed.items()}
    assert (printed["num_q"], printed["num_rel_ret"], printed["map"], printed["P_10"]) == ("1", "0", "0.0000", "0.0000")
    many = range(10)
    (tmp_path / "many").write_text("".join(f"q{n} 0 a{n} 1\n" for n in many))
    (tmp_path / "other").write_text("".join(f"q{n} Q0 zz 1 2.0 t\n" for n in many))
    with pytest.raises(DataError, match="its only document id is not judged"):
        command(qrels=tmp_path / "many", run=[tmp_path / "other"])
    command(qrels=tmp_path / "many", run=[tmp_path / "other"], accept=["nothing-judged"])
    command(qrels=tmp_path / "qrels", run=[tmp_path / "run"])
    assert capfd.readouterr().out.count("nothing-judged") == 2


def test_every_form_of_input_gives_the_same_scores(files):
    expected = harness.evaluate(RUN, QRELS, "nDCG@10,AP")
    runs = [
        files["run.trec"],
        str(files["run.trec.gz"]),
        as_run(RUN),
        _frame(RUN, ["query_id", "doc_id", "score"]),
        _frame(RUN, ["qid", "docno", "score"]).assign(rank=[1, 2, 3, 1, 1, 1]),
    ]
    judgments = [
        files["qrels"],
        str(files["beir.tsv"]),
        as_qrels(QRELS),
        _frame(QRELS, ["query_id", "doc_id", "relevance"]),
        _frame(QRELS, ["qid", "docno", "label"]),
    ]
    for run, qrels in zip(runs, judgments, strict=True):
        scores = harness.evaluate(run, qrels, ["nDCG@10", "AP"])
        np.testing.assert_array_equal(scores.values, expected.values)
        assert list(scores.query_ids) == ["q1", "q2", "q10"]
    frame = expected.to_frame()
    assert frame.loc["q10", "AP"] == 1.0
    assert list(frame.columns) == ["nDCG@10", "AP"]


def test_faults_of_the_call_are_named(files):
    with pytest.raises(UsageError, match=r"--ties trec: no such choice \(did you mean 'trec_eval'"):
        harness.evaluate(RUN, QRELS, ties="trec")
    with pytest.raises(UsageError, match="--queries all: no such choice"):
        harness.evaluate(RUN, QRELS, queries="all")
    with pytest.raises(UsageError, match="without a column query_id or qid or q_id; its columns: doc_id, score"):
        harness.evaluate(pd.DataFrame({"doc_id": ["a"], "score": [1.0]}), QRELS)
    with pytest.raises(DataError, match=r"lacks 1 id$"):
        harness.evaluate(pd.DataFrame({"qid": ["q1", None], "docno": ["a", "b"], "score": [1.0, 2.0]}), QRELS)
    with pytest.raises(DataError, match="not a number"):
        harness.evaluate(pd.DataFrame({"qid": ["q1"], "docno": ["a"], "score": ["high"]}), QRELS)
    with pytest.raises(DataError, match="query 'q1' judges document 'a' twice, with the grades 1 and 2"):
        harness.evaluate(RUN, pd.DataFrame({"qid": ["q1"] * 2, "docno": ["a", "a"], "label": [1, 2]}))
    with pytest.raises(DataError) as caught:
        harness.evaluate(files["run.trec"], {"elsewhere": {"a": 1}})
    assert str(files["run.trec"]) in str(caught.value)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        harness.nonsense


def _printed(capsys, files, runs=("run.trec",), **options):
    eval_verb(qrels=files["qrels"], run=[files[name] for name in runs], **options)
    return capsys.readouterr()


def test_the_text_is_trec_evals(files, capsys):
    """Every line as trec_eval prints it: `%-22s\\t%s\\t%6.4f`, counts as whole numbers, queries in byte order."""
    values = pytrec_eval.RelevanceEvaluator(QRELS, {"official"}).evaluate(RUN)
    cuts = [f"P_{cut}" for cut in (5, 10, 15, 20, 30, 100, 200, 500, 1000)]
    recalls = [f"iprec_at_recall_{tenth / 10:.2f}" for tenth in range(11)]
    names = ["num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank"]
    expected = []
    for query in sorted(values):
        single = (name for name in (*names, *recalls, *cuts) if name not in ("num_q", "gm_map"))
        expected += [_line(name, query, values[query][name]) for name in single]
    expected.append(f"{'runid':<22}\tall\tfirst")
    for name in (*names, *recalls, *cuts):
        every = [values[query][name] for query in values]
        expected.append(_line(name, "all", pytrec_eval.compute_aggregated_measure(name, every)))
    printed = _printed(capsys, files, format="trec_eval", per_query=True)
    assert printed.out.splitlines() == expected
    assert "4 queries judged, 3 with a relevant document, 3 answered; averaged over 3 (answered)" in printed.err


def _line(name, query, value):
    return f"{name:<22}\t{query}\t{value:.0f}" if name.startswith("num_") else f"{name:<22}\t{query}\t{value:6.4f}"


def test_trec_evals_text_keeps_its_order_and_names_what_it_lacks(files, capsys):
    printed = _printed(capsys, files, metrics="RR@10,ndcg_cut.10,P_5,map,AP(rel=2)", format="trec_eval", relevance=1)
    names = [line.split("\t")[0].strip() for line in printed.out.splitlines()]
    assert names == ["map", "P_5", "ndcg_cut_10", "RR@10", "AP(rel=2)"]
    leveled = _printed(capsys, files, metrics="map,AP(rel=2)", format="trec_eval", relevance=2)
    assert leveled.out.splitlines() == [f"{'map':<22}\tall\t0.1111"]


@pytest.mark.parametrize("output", ["table", "markdown", "latex", "csv", "json"])
@pytest.mark.parametrize("per_query", [False, True])
def test_output_is_as_recorded(files, capsys, golden, output, per_query):
    runs = ("run.trec", "other.trec")
    printed = _printed(capsys, files, runs, metrics="nDCG@10,AP,infAP,NumRet", format=output, per_query=per_query)
    golden(printed.out)


def test_csv_and_json_carry_full_precision_and_nothing_for_unknown(files, capsys):
    rows = list(csv.DictReader(io.StringIO(_printed(capsys, files, metrics="AP,infAP", format="csv").out)))
    scores = harness.evaluate(RUN, QRELS, "AP,infAP")
    named = {row["metric"]: row for row in rows}
    assert list(named) == ["AP", "ties.AP", "infAP"]
    assert float(named["AP"]["mean"]) == scores.means()[0].value
    assert float(named["ties.AP"]["high"]) == scores.means()[0].high
    assert (named["AP"]["dataset"], named["AP"]["backend"], named["AP"]["n"]) == ("qrels", "run.trec", "3")
    assert named["infAP"]["low"] == ""
    entry = json.loads(_printed(capsys, files, metrics="AP,infAP", format="json").out)["runs"][0]
    assert entry["measures"]["AP"]["high"] == scores.means()[0].high
    assert entry["measures"]["infAP"]["low"] is None
    assert entry["queries"] == {
        "set": "relevant", "judged": 4, "relevant": 3, "answered": 3, "evaluated": 3, "unjudged": 1,
    }  # fmt: skip


def test_trec_evals_own_choice_of_queries(files, capsys):
    printed = _printed(capsys, files, metrics="AP", trec_eval="9")
    assert "averaged over 3 (answered)" in " ".join(printed.out.split())
    with pytest.raises(UsageError, match="--trec-eval settles"):
        _printed(capsys, files, trec_eval="9", queries=QuerySet.JUDGED)
    with pytest.raises(UsageError, match="no closed form over tie permutations for Bpref"):
        _printed(capsys, files, metrics="Bpref", ties=TieRule.AVERAGE)


def test_every_faulty_file_is_reported_at_once(files, capsys):
    files["qrels"].write_text("q1 0 a one\n")
    files["other.trec"].write_text("q1 Q0 a 1 nan t\n")
    with pytest.raises(HarnessError) as caught:
        _printed(capsys, files, ("run.trec", "other.trec"))
    assert "the grade 'one' is not a number" in str(caught.value)
    assert "the score is NaN" in str(caught.value)
    assert caught.value.exit_code == 3


def test_a_run_of_another_collection_is_invalid_and_named(files, capsys):
    files["other.trec"].write_text("x1 Q0 a 1 1 t\n")
    with pytest.raises(DataError, match=r"other\.trec: 1 problem") as caught:
        _printed(capsys, files, ("run.trec", "other.trec"))
    assert "its only query id is not judged (run: 'x1', judgments: 'q1')" in str(caught.value)
    assert capsys.readouterr().out.splitlines()[0] == "run.trec against qrels"


@pytest.mark.parametrize("output", ["table", "markdown", "csv", "json", "trec_eval"])
def test_a_broken_run_stops_none_of_the_others(files, capsys, output):
    files["broken.trec"] = files["run.trec"].with_name("broken.trec")
    files["broken.trec"].write_text("q1 Q0 a 1 nan t\n")
    files["alien.trec"] = files["run.trec"].with_name("alien.trec")
    files["alien.trec"].write_text("x1 Q0 a 1 1 t\n")
    with pytest.raises(DataError) as caught:
        _printed(capsys, files, ("broken.trec", "run.trec", "alien.trec", "other.trec"), metrics="AP", format=output)
    expected, printed = caught.value, capsys.readouterr()
    assert expected.exit_code == 3
    assert "broken.trec: 1 problem\n  line 1: the score is NaN" in str(expected)
    assert "alien.trec: 1 problem" in str(expected)
    assert printed.out == _printed(capsys, files, ("run.trec", "other.trec"), metrics="AP", format=output).out


def test_faulty_judgments_stop_everything(files, capsys):
    for text, problem in [
        ("query-id\tcorpus-id\tscore\n", "holds no judgments"),
        ("q1 0 a 1 2\n", "5 columns, expected"),
    ]:
        files["qrels"].write_text(text)
        with pytest.raises(DataError, match=problem):
            _printed(capsys, files)
    files["qrels"].write_text("q1\n")
    with pytest.raises(DataError, match="line 1: 1 column, expected 3 separated by tabs"):
        _printed(capsys, files)
    assert capsys.readouterr().out == ""


def test_a_run_given_twice_is_refused(files, capsys):
    with pytest.raises(UsageError, match=r"given more than once: .*run\.trec"):
        _printed(capsys, files, ("run.trec", "other.trec", "run.trec"))


def test_the_lowest_relevant_grade_is_named_as_in_compare_and_as_in_trec_eval(files):
    command = [*harness_command(), "eval", "--qrels", files["qrels"], "--run", files["run.trec"]]
    outputs = {
        subprocess.run([*command, name, "2"], capture_output=True, text=True, check=True).stdout
        for name in ("--relevance", "--relevance-level", "-l")
    }
    assert len(outputs) == 1
    assert "1 with a relevant document" in outputs.pop()


def test_one_judged_query_is_no_plural(files, capsys):
    files["qrels"].write_text("q1 0 a 1\n")
    assert "run.trec: 1 query judged, 1 with" in _printed(capsys, files).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": 5}, "the metrics are of type int"),
        ({"metrics": None}, "the metrics are of type NoneType"),
        ({"ties": 5}, "--ties is 5\n  it must be one of: trec_eval, trec_eval_10, engine, average"),
        ({"queries": []}, "--queries is [], a list"),
        ({"relevences": 2}, "harness.evaluate() has no keyword 'relevences'\n  did you mean 'relevance'?"),
        ({"metric": "AP"}, "harness.evaluate() has no keyword 'metric'\n  did you mean 'metrics'?"),
        ({"relevance": "2"}, "--relevance is '2'\n  it must be a number above 0 and at most 2,147,483,647"),
    ],
)
def test_options_of_another_type_are_refused(options, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        harness.evaluate(RUN, QRELS, **options)


@pytest.mark.parametrize(
    "run", [{}, {"q1": {}}, {"q1": {}, "q2": {}}, pd.DataFrame({"qid": [], "docno": [], "score": []})]
)
def test_a_run_without_any_hits_is_invalid_and_not_zero(run):
    with pytest.raises(DataError, match="run: 1 problem\n  it holds no hits"):
        harness.evaluate(run, QRELS, ["AP"])


def test_a_query_that_was_answered_with_nothing_counts_as_zero():
    assert harness.evaluate({"q1": {}, "q2": {"a": 1.0}}, QRELS, ["AP"]).means()[0].value == pytest.approx(1 / 3)


@pytest.mark.parametrize("qrels", [{}, {"q1": {}}])
def test_judgments_of_nothing_are_invalid(qrels):
    with pytest.raises(DataError, match="judgments: 1 problem\n  there are none"):
        harness.evaluate(RUN, qrels, ["AP"])


def test_scores_are_shown_in_short():
    assert repr(harness.evaluate(RUN, QRELS, ["AP", "P@10", "NumRet"])) == (
        "<Scores of 3 queries: AP=0.5278, P@10=0.1, NumRet=4>"
    )
