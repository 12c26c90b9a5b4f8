"""The table of queries and backends in every format: values, first ranks, won and lost."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from explorers import qrels_of, run_of, small_explorer

import harness
from harness.cli.app import _build
from harness.data.types import Ids
from harness.errors import UnknownNameError, UsageError
from harness.pipeline.check.checked import CheckResult
from harness.report.documents.query_table import queries_document
from harness.report.formats import render
from harness.report.rankings.explorer import Explorer

RANKS = {"first": 1, "third": 3, "fourth": 4, "seventh": 7, "never": None}


def records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def cells(explorer: Explorer, metric: str | None = None, sort: str | None = None) -> list[list[str]]:
    (table,) = queries_document([explorer], metric, sort, "made").tables()
    return [[f"{cell.text}{cell.mark} {cell.below}".strip() for cell in row] for row in table.rows]


def test_the_largest_changes_come_first() -> None:
    assert cells(small_explorer()) == [
        ["q4", "no pumps at all", "1.0000", "0.0000↓"],
        ["q2", "green pumps", "0.2500", "1.0000↑"],
        ["q1", "red pumps", "1.0000", "0.5000↓"],
        ["q3", "blue pumps", "0.5000", "0.5000"],
        ["q5", "pumping", "–", "–"],
    ]
    assert [row[0] for row in cells(small_explorer(), sort="new")] == ["q2", "q1", "q3", "q4", "q5"]
    assert [row[0] for row in cells(small_explorer(), sort="query")] == ["q1", "q2", "q3", "q4", "q5"]
    labels = small_explorer(labels=["old", "query"])
    assert [row[0] for row in cells(labels, sort="query value")] == ["q2", "q1", "q3", "q4", "q5"]
    assert cells(small_explorer(queries=None))[0] == ["q4", "1.0000", "0.0000↓"]


def test_csv_has_every_query_in_full_precision() -> None:
    values = np.array([[1 / 3, 0.1, 0.5, 1.0, np.nan], [1 / 3, 0.1 + 1e-16, 0.25, 1.0, np.nan]])[:, None, :]
    rows = records(render(queries_document([small_explorer(values=values)], None, None, "made"), "csv"))
    assert rows[0] == {
        "query": "q3", "text": "blue pumps", "metric": "nDCG@10", "old value": "0.5", "new value": "0.25",
        "new change": "lost"
    }  # fmt: skip
    by_id = {row["query"]: row for row in rows}
    assert (by_id["q1"]["old value"], by_id["q1"]["new change"]) == ("0.3333333333333333", "tied")
    assert by_id["q2"]["new change"] == "tied", "rounding is not a change"
    assert (by_id["q5"]["old value"], by_id["q5"]["new change"]) == ("", "")


def test_metrics_of_the_first_relevant_document_have_its_rank() -> None:
    runs = [run_of({"a": ["x", "d"], "b": ["x", "y"], "c": []}), run_of({"a": ["d"], "b": ["x", "y"], "c": ["d"]})]
    values = np.array([[0.5, 0.0, 0.0], [1.0, 0.0, 1.0]])[:, None, :]
    explorer = Explorer(
        Ids.of(["a", "b", "c"]), ["cut", "deep"], runs, ["RR@10"], values,
        qrels=qrels_of({name: {"d": 1} for name in "abc"}), stored_depths=[2, None],
        failed=np.array([[False, False, True], [False, False, False]]),
    )  # fmt: skip
    assert {row[0]: row[1:] for row in cells(explorer)} == {
        "a": ["0.5000 2", "1.0000↑ 1"],
        "b": ["0.0000 unknown", "0.0000 –"],
        "c": ["0.0000", "1.0000↑ 1"],
    }
    (row,) = (
        row for row in records(render(queries_document([explorer], None, None, ""), "csv")) if row["query"] == "a"
    )
    assert (row["cut rank"], row["deep rank"]) == ("2", "1")


def test_labels_that_are_names_of_columns_take_no_figures_of_others() -> None:
    labels = ["query", "text", "metric", "dataset", "text value"]
    values = np.arange(25, dtype=np.float64).reshape(5, 1, 5)
    explorer = small_explorer(labels=labels, runs=[small_explorer().runs[0]] * 5, values=values, dataset="one")
    rows = records(render(queries_document([explorer, explorer], None, None, "made"), "csv"))
    by_id = {row["query"]: row for row in rows}
    assert by_id.keys() == {"q1", "q2", "q3", "q4", "q5"}
    for number, query in enumerate(by_id):
        row = by_id[f"q{number + 1}"]
        assert (row["dataset"], row["metric"]) == ("one", "nDCG@10"), query
        assert [float(row[f"{label} value"]) for label in labels] == [number + 5 * rank for rank in range(5)]
        assert [row[f"{label} change"] for label in labels[1:]] == ["won"] * 4
    assert by_id["q1"]["text"] == "red pumps"


def test_the_legend_names_the_reference_of_each_dataset() -> None:
    explorers = [small_explorer(dataset="one"), small_explorer(dataset="two", reference=1)]
    (table,) = queries_document(explorers, None, None, "made").tables()
    assert [line.split(" on ")[0] for line in table.legend] == ["one: ↑ better than old", "two: ↑ better than new"]


def test_datasets_follow_one_another() -> None:
    explorers = [small_explorer(dataset="one"), small_explorer(dataset="two")]
    rows = records(render(queries_document(explorers, "nDCG@10", None, "made"), "csv"))
    assert [(row["dataset"], row["query"]) for row in rows][4:6] == [("one", "q5"), ("two", "q4")]
    document = queries_document(explorers, None, "old", "made")
    assert [row["query"] for row in document.records][:4] == ["q4", "q1", "q4", "q1"]
    for name in ("table", "markdown", "latex"):
        assert "two" in render(document, name)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def early(question: str, k: int) -> list[str]:
        hits, rank = [f"other-{number}" for number in range(k)], RANKS[question]
        return hits if rank is None else [*hits[: rank - 1], f"about-{question}", *hits[rank - 1 : k - 1]]

    def late(question: str, k: int) -> list[str]:
        return ["another", *early(question, k - 1)]

    golden = [{"id": name, "question": name, "expected": [f"about-{name}"]} for name in RANKS]
    golden.append({"id": "nothing", "question": "never", "expected": []})
    backends = {"early": early, "late": late}
    checked = harness.check(golden, against=backends, k=10, require=["Hit@3>=0.9"], timing=False, isolation="none")
    return checked.save(tmp_path_factory.mktemp("check") / "result").folder or Path()


def command(*arguments: str) -> str:
    done = CliRunner().invoke(_build(), ["report", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_a_check_has_the_rank_and_whether_the_question_is_missed(stored: Path) -> None:
    rows = records(command(str(stored), "--query-table", "--format", "csv"))
    assert [row["query"] for row in rows] == ["third", "fourth", "seventh", "never", "first", "nothing"]
    assert [(row["metric"], row["early value"], row["early rank"], row["early missed"]) for row in rows[:4]] == [
        ("Hit@3", "1.0", "3", "0"), ("Hit@3", "0.0", "4", "1"), ("Hit@3", "0.0", "7", "1"), ("Hit@3", "0.0", "", "1")
    ]  # fmt: skip
    assert [row["late change"] for row in rows] == ["lost", "tied", "tied", "tied", "tied", ""]
    assert (rows[5]["early missed"], rows[5]["early rank"]) == ("", "")
    missed = CheckResult.load(stored).per_question().query("backend == 'late' and missed")["question"]
    assert {row["query"] for row in rows if row["late missed"] == "1"} == set(missed)


def test_python_prints_what_the_command_prints(stored: Path) -> None:
    checked = CheckResult.load(stored)
    assert checked.render_queries("MRR@10", "csv", sort="late") == command(
        str(stored), "--query-table", "--metric", "MRR@10", "--format", "csv", "--sort", "late"
    )
    assert "third" in command(str(stored), "--query-table", "--no-text")
    assert "text" not in command(str(stored), "--query-table", "--no-text", "--format", "csv").split("\n")[0]


def test_two_results_compared(stored: Path) -> None:
    rows = records(harness.diff(stored, stored).render_queries("Hit@10", "csv"))
    changes = {row["query"]: row["early (after) change"] for row in rows}
    assert changes == {**dict.fromkeys(RANKS, "tied"), "nothing": ""}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query-table", "--query", "first"], "--query with --query-table"),
        (["--query-table", "--format", "html"], "the page has every query"),
        (["--query-table", "--format", "json"], "unknown format 'json'"),
        (["--query-table", "--metric", "Hit@4"], "did you mean"),
        (["--query-table", "--sort", "earlie"], "did you mean 'early'"),
        (["--metric", "Hit@3"], "add --query-table"),
    ],
)
def test_options_that_cannot_be(stored: Path, arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(_build(), ["report", str(stored), *arguments])
    assert isinstance(done.exception, UnknownNameError | UsageError)
    assert message in str(done.exception)


def test_a_result_without_values_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "a", "text": "apple"}))
    golden = [{"id": "q", "question": "apple", "expected": ["no-such"]}]
    invalid = harness.check(golden, corpus=tmp_path / "corpus.jsonl", backends="csr", timing=False, isolation="none")
    with pytest.raises(UsageError, match="no values of queries"):
        invalid.render_queries()
