"""The queries of scored runs: as a table of every query, and on a page."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.errors import UnknownNameError, UsageError
from harness.report.rankings.of_runs import run_explorers

QRELS = {"1": {"a": 1, "b": 0}, "2": {"c": 2}, "3": {"d": 1}}
RUNS = {
    "first": {"1": {"a": 3.0, "b": 2.0}, "2": {"z": 3.0, "c": 2.0}},
    "second": {"1": {"b": 3.0, "a": 2.0}, "2": {"c": 3.0}, "3": {"d": 3.0}},
}


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "qrels.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, of in QRELS.items() for d, g in of.items()))
    for name, run in RUNS.items():
        rows = [f"{q} Q0 {d} 1 {score} x\n" for q, hits in run.items() for d, score in hits.items()]
        (tmp_path / f"{name}.trec").write_text("".join(rows))
    return [str(tmp_path / name) for name in ("qrels.txt", "first.trec", "second.trec")]


def test_every_query_has_the_value_of_every_run(files: list[str]) -> None:
    names = ["query", "first value", "first rank", "second value", "second rank"]
    table = [["3", "0.0", "", "1.0", "1"], ["2", "0.5", "2", "1.0", "1"], ["1", "1.0", "1", "0.5", "2"]]
    rows = [{"metric": "RR", **dict(zip(names, row, strict=True))} for row in table]
    expected = [{**row, "second change": change} for row, change in zip(rows, ("won", "won", "lost"), strict=True)]
    evaluated = harness.evaluate(RUNS, QRELS, metrics="RR,AP")
    assert list(csv.DictReader(io.StringIO(evaluated.render_queries(format="csv")))) == expected
    assert "AP of 3 queries" in evaluated.render_queries("AP")
    options = ["--query-table", "--metrics", "RR", "--format", "csv"]
    printed = CliRunner().invoke(_build(), ["eval", *files, *options]).stdout
    assert printed.replace(".trec", "") == evaluated.render_queries(format="csv")
    with pytest.raises(UnknownNameError, match="unknown metric 'P@1'"):
        evaluated.render_queries("P@1")


def test_hits_are_in_the_order_that_was_scored() -> None:
    run = {"1": {"a": 1.0, "b": 1.0}}
    for ties, order in (("trec_eval", ["b", "a"]), ("engine", ["a", "b"])):
        (explorer,) = run_explorers(harness.evaluate({"x": run, "y": run}, {"1": {"a": 1}}, metrics="RR", ties=ties))
        assert explorer.runs[0].doc_ids.take(explorer.runs[0].rows) == order
        assert explorer.values is not None
        assert explorer.values[:, 0, 0].tolist() == [1 / (1 + order.index("a"))] * 2


def test_grades_that_are_fractions_are_relevant_or_not() -> None:
    qrels = {"1": {"a": 0.25, "b": 0.75}}
    evaluated = harness.evaluate({"x": {"1": {"a": 2.0, "b": 1.0}}}, qrels, metrics="RR", relevance=0.5)
    (explorer,) = run_explorers(evaluated)
    assert explorer.qrels is not None
    assert (explorer.qrels.grades.tolist(), explorer.relevance) == ([0, 1], 1)
    assert explorer.values is not None
    np.testing.assert_array_equal(explorer.values, [[[0.5]]])


def test_the_page_has_scores_and_queries(files: list[str]) -> None:
    done = CliRunner().invoke(_build(), ["eval", *files, "--format", "html", "--metrics", "RR"])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("<!doctype html>")
    assert "Differences from first.trec" in done.stdout
    assert 'id="queries-data"' in done.stdout
    assert "Run it again" not in done.stdout
    assert harness.evaluate(RUNS, QRELS, metrics="RR").html().count('id="explorer"') == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--query-table", "--format", "json"], "--query-table has no format 'json'"),
        (["--query-table", "--format", "html"], "--query-table has no format 'html'"),
        (["--query-table", "--per-query"], "--per-query with --query-table"),
        (["--format", "html", "--per-query"], "--per-query with --format html"),
    ],
)
def test_options_that_cannot_be(files: list[str], options: list[str], message: str) -> None:
    done = CliRunner().invoke(_build(), ["eval", *files, *options])
    assert isinstance(done.exception, UsageError)
    assert message in str(done.exception)


def test_an_audit_has_neither(files: list[str]) -> None:
    for options, message in ((["--query-table"], "--query-table"), (["--format", "html"], "has no format 'html'")):
        done = CliRunner().invoke(_build(), ["eval", *files[:2], "--audit", *options])
        assert isinstance(done.exception, UsageError)
        assert message in str(done.exception)
