"""Several runs by the same judgments: paired tests between them, on the command line and in Python."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.trec_write import write_run
from harness.pipeline.evaluate import as_run
from harness.pipeline.evaluated_runs import EvaluatedRuns

QUERIES = [f"q{number}" for number in range(8)]
QRELS = {query: {"a": 1} for query in QUERIES}
FIRST = {query: {"x": 3.0, "a": 2.0} for query in QUERIES}
SECOND = {query: {"a": 3.0, "x": 2.0} for query in QUERIES}
HALF = {query: {"a": 3.0, "x": 2.0} if number % 2 else {"x": 3.0, "a": 2.0} for number, query in enumerate(QUERIES)}
METRICS = "RR,P@1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with judgments and three runs."""
    monkeypatch.chdir(tmp_path)
    Path("q.qrels").write_text("".join(f"{query} 0 a 1\n" for query in QUERIES))
    for name, run in (("first", FIRST), ("second", SECOND), ("half", HALF)):
        write_run(Path(f"{name}.trec"), as_run(run), name)
    return tmp_path


def command(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(_build(), ["eval", "q.qrels", *arguments, "--metrics", METRICS])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def test_each_run_is_tested_against_the_first() -> None:
    evaluated = harness.evaluate({"first": FIRST, "second": SECOND, "half": HALF}, QRELS, METRICS)
    assert isinstance(evaluated, EvaluatedRuns)
    assert evaluated.reference == "first"
    rows = {(row.b, row.metric): row for row in evaluated.tests}
    assert list(rows) == [("second", "RR"), ("second", "P@1"), ("half", "RR"), ("half", "P@1")]
    better = rows["second", "RR"]
    # all 8 differences are +0.5, so 2 of 2^8 flips of signs are as extreme; 4 tests are corrected together
    assert (better.a, better.difference, better.p, better.comparisons) == ("first", 0.5, 2 / 256, 4)
    assert better.p_adjusted == 4 * 2 / 256
    assert (better.wins, better.ties, better.losses, better.verdict) == (8, 0, 0, "better")
    half = rows["half", "P@1"]  # 4 queries of 8 moved: 2 of 2^4
    assert (half.difference, half.p, half.verdict) == (0.5, 2 / 16, "undecided")
    assert half.effect == pytest.approx(0.5 / (8 * 0.25 / 7) ** 0.5)
    assert half.ci_low is not None
    assert half.ci_high is not None
    assert 0 <= half.ci_low < 0.5 < half.ci_high <= 1


def test_runs_have_the_differences_that_a_comparison_of_them_has(folder: Path) -> None:
    dataset = harness.Dataset.of(
        {"a": "one", "x": "two"}, dict.fromkeys(QUERIES, "text"), {query: {"a": 1} for query in QUERIES}
    )
    compared = harness.compare(
        dataset=dataset, backends="run:first.trec,run:second.trec,run:half.trec", metrics=METRICS, timing=False
    )
    evaluated = harness.evaluate([f"{name}.trec" for name in ("first", "second", "half")], dataset, METRICS)
    names = ["p", "p_adjusted", "comparisons", "ci_low", "ci_high", "effect", "detectable", "verdict", "wins"]
    pd.testing.assert_frame_equal(compared.differences()[names], evaluated.differences()[names])


@pytest.mark.parametrize(
    "runs",
    [
        ["first.trec", "second.trec", "half.trec"],
        [Path("first.trec"), Path("second.trec"), Path("half.trec")],
        [FIRST, SECOND, HALF],
        [as_run(FIRST), as_run(SECOND), as_run(HALF)],
        [pd.DataFrame([(q, d, s) for q, h in run.items() for d, s in h.items()], columns=["qid", "docno", "score"])
         for run in (FIRST, SECOND, HALF)],
        {"A": "first.trec", "B": SECOND, "C": as_run(HALF)},
    ],
)  # fmt: skip
def test_runs_of_every_shape_are_compared_alike(folder: Path, runs: object) -> None:
    evaluated = harness.evaluate(runs, "q.qrels", METRICS)
    assert isinstance(evaluated, EvaluatedRuns)
    names = list(runs) if isinstance(runs, dict) else [f"run {number}" for number in (1, 2, 3)]
    names = ["first.trec", "second.trec", "half.trec"] if isinstance(runs, list) and len(str(runs[0])) < 20 else names
    assert list(evaluated.runs) == names
    assert evaluated.metrics()["RR"].to_list() == [0.5, 1.0, 0.75]
    assert evaluated.differences()["b"].to_list() == [names[1]] * 2 + [names[2]] * 2


def test_the_command_prints_what_python_gives(folder: Path) -> None:
    files = ["first.trec", "second.trec", "half.trec"]
    for options, keywords in (([], {}), (["--reference", "half.trec"], {"reference": "half.trec"})):
        evaluated = harness.evaluate(files, "q.qrels", METRICS, **keywords)
        assert isinstance(evaluated, EvaluatedRuns)
        for form in ("markdown", "latex", "csv", "json"):
            assert command(*files, *options, "--format", form) == evaluated.render(form)
    stored = json.loads(evaluated.render("json"))
    assert stored["reference"] == "half.trec"
    assert [(row["a"], row["b"]) for row in stored["differences"]] == (
        [("half.trec", "first.trec")] * 2 + [("half.trec", "second.trec")] * 2
    )
    rows = {row["metric"]: row for row in csv.DictReader(io.StringIO(evaluated.render("csv")))}
    assert float(rows["difference.RR from half.trec"]["mean"]) == 0.25
    assert float(rows["p_adjusted.RR from half.trec"]["mean"]) == 4 * 2 / 16
    assert "Differences from half.trec" in str(evaluated)


def test_the_reference_may_be_named_by_its_path(folder: Path) -> None:
    Path("runs").mkdir()
    Path("first.trec").rename("runs/first.trec")
    printed = command("second.trec", "runs/first.trec", "--reference", "runs/first.trec")
    assert "Differences from first.trec" in printed
    assert "second.trec  1.0000 ▲  1.0000 ▲" in printed
    assert "▲ better than first.trec, p < 0.05 after Holm's correction for 2 comparisons" in printed


def test_every_pair_is_compared_on_request(folder: Path) -> None:
    printed = command("first.trec", "second.trec", "half.trec", "--all-pairs")
    assert [
        pair in printed for pair in ("second.trec − first.trec", "half.trec − first.trec", "half.trec − second.trec")
    ]
    evaluated = harness.evaluate([FIRST, SECOND, HALF], QRELS, METRICS, all_pairs=True)
    assert isinstance(evaluated, EvaluatedRuns)
    assert evaluated.reference is None
    assert len(evaluated.tests) == 6


def test_options_of_differences_are_refused_without_any(folder: Path) -> None:
    with pytest.raises(UsageError, match="--reference with one run: there is nothing to compare it with"):
        command("first.trec", "--reference", "first.trec")
    with pytest.raises(UsageError, match="--all-pairs with one run"):
        harness.evaluate("first.trec", "q.qrels", all_pairs=True)
    with pytest.raises(UnknownNameError, match=r"unknown run 'frist\.trec'"):
        command("first.trec", "half.trec", "--reference", "frist.trec")
    with pytest.raises(UsageError, match="--all-pairs with --reference"):
        command("first.trec", "half.trec", "--reference", "half.trec", "--all-pairs")
    with pytest.raises(UsageError, match="--audit does not take --reference"):
        command("first.trec", "--audit", "--reference", "half.trec")
    with pytest.raises(UsageError, match=r"given more than once: first\.trec"):
        harness.evaluate(["first.trec", "first.trec"], "q.qrels")


def test_a_reference_that_cannot_be_scored_leaves_no_differences(folder: Path) -> None:
    Path("first.trec").write_text("")
    with pytest.raises(DataError, match=r"first\.trec"):
        command("first.trec", "second.trec", "half.trec", "--reference", "first.trec", code=3)
    with pytest.raises(DataError, match=r"first\.trec"):
        harness.evaluate(["first.trec", "second.trec"], "q.qrels")


def test_equal_runs_and_counts_are_not_tested() -> None:
    evaluated = harness.evaluate([FIRST, dict(FIRST)], QRELS, "RR,NumRet")
    assert isinstance(evaluated, EvaluatedRuns)
    (row,) = evaluated.tests
    assert (row.metric, row.verdict, row.p) == ("RR", "same", 1.0)
    assert "= equal on every query" in str(evaluated)


def test_the_answer_is_which_run_is_best_and_over_how_many_queries() -> None:
    equal = harness.evaluate([FIRST, dict(FIRST)], QRELS, "NumRet,RR")
    assert f"are equal: the same RR on all {len(QRELS)} queries" in str(equal)
    for options in ({}, {"all_pairs": True}):
        evaluated = harness.evaluate({"a": FIRST, "b": SECOND}, QRELS, METRICS, **options)
        beginning = f"b is best on RR over {len(QRELS)} queries; b is 0.5000 above a, significant (adjusted p "
        assert beginning in " ".join(str(evaluated).split())
        assert beginning in evaluated.render("markdown")
    assert "best on" not in str(harness.evaluate({"a": FIRST}, QRELS, METRICS))


def test_a_mapping_of_one_run_has_means_by_name():
    one, several = (harness.evaluate(runs, QRELS, METRICS) for runs in ({"a": FIRST}, {"a": FIRST, "b": SECOND}))
    assert list(one.means()) == ["a"]
    assert one.means()["a"] == several.means()["a"] == harness.evaluate(FIRST, QRELS, METRICS).means()
    assert len(one.differences()) == 0
