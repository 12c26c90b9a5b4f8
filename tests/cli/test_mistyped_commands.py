"""Mistakes on the command line that are refused before anything runs, with the way out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from warm_harness import harness_command

from harness.cli.output import check_sort_metric


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*harness_command(), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_list_stands_once() -> None:
    """The last of two would count; of a single value that is how commands are changed."""
    refused = run("compare", "--backends", "csr", "--backends", "lucene")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "harness: --backends is given twice\n  give it once, with commas between the values\n"


@pytest.mark.parametrize(
    ("arguments", "fix"),
    [
        ("check golden.jsonl docs.csv", "write --corpus docs.csv"),
        ("compare cacm", "write --dataset cacm"),
        ("regress bl.json", "write --baseline bl.json"),
    ],
)
def test_a_value_without_its_option_names_the_option(arguments: str, fix: str) -> None:
    refused = run(*arguments.split())
    stray = arguments.rsplit(maxsplit=1)[-1]
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"harness: no option precedes {stray}\n  {fix}\n"


def test_a_metric_to_sort_by_that_is_not_measured_is_refused_before_anything_runs(tmp_path: Path) -> None:
    command = ["compare", "--dataset", "cacm", "--backends", "csr", "--metrics", "AP,nDCG@10"]
    refused = run(*command, "--sort", "nDCG@100", "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert refused.stderr.startswith("harness: unknown metric to sort by 'nDCG@100'\n  did you mean 'nDCG@10'?")
    assert not (tmp_path / "out").exists()


def test_check_refuses_another_metric_before_anything_runs_and_another_column_after(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "one two"}\n')
    (tmp_path / "golden.jsonl").write_text('{"id": "1", "question": "one", "expected": ["a"]}\n')
    golden, corpus = tmp_path / "golden.jsonl", tmp_path / "docs.jsonl"
    command = ["check", str(golden), "--corpus", str(corpus), "--backends", "csr", "--out", str(tmp_path / "out")]
    refused = run(*command, "--sort", "Hit@50")
    assert refused.returncode == 2
    assert refused.stderr.startswith("harness: unknown metric to sort by 'Hit@50'\n  did you mean 'Hit@5'?")
    unsorted = run(*command, "--sort", "backnd", "--isolation", "none")
    assert unsorted.returncode == 0
    assert "warning: the rows are not sorted: unknown column to sort by 'backnd'\n  did you mean 'backend'?" in (
        unsorted.stderr
    )
    assert (tmp_path / "out" / "report.json").exists()
    sorted_again = run("report", str(tmp_path / "out"), "--sort", "backnd")
    assert sorted_again.returncode == 2
    assert sorted_again.stderr.startswith("harness: unknown column to sort by 'backnd'\n  did you mean 'backend'?")


@pytest.mark.parametrize("name", [None, "AP", "p", "recall@10", "judged", "frontier", "− exact", "@100", "Δscore"])
def test_what_may_be_another_column_is_not_taken_for_a_metric(name: str | None) -> None:
    check_sort_metric(name, ["AP"])


def test_eval_says_that_no_file_is_there_and_what_takes_a_dataset() -> None:
    refused = run("eval", "--qrels", "cacm", "--run", "absent.trec")
    assert refused.returncode == 3
    assert "Errno" not in refused.stderr
    assert refused.stderr.count("the file does not exist") == 2
    assert "harness compare --dataset cacm --backends run:FILE" in refused.stderr


def test_lists_of_known_names_have_the_width_of_the_terminal() -> None:
    refused = run("datasets", "nonsense", COLUMNS="80")
    assert refused.returncode == 2
    assert max(map(len, refused.stderr.splitlines())) <= 80
    assert "unknown dataset or command 'nonsense'" in refused.stderr


@pytest.mark.parametrize("arguments", ["backends", "backends qdrant"])
def test_pages_have_the_width_of_the_terminal(arguments: str) -> None:
    shown = run(*arguments.split(), COLUMNS="80")
    wide = [line for line in shown.stdout.splitlines() if len(line) > 80]
    assert [line for line in wide if "/" not in line] == [], "only a path or an address stays whole"


@pytest.mark.parametrize("command", ["backends", "check", "verify", "cache remove", "datasets search", "datasets info"])
def test_help_names_arguments_by_what_they_are(command: str) -> None:
    shown = run(*command.split(), "--help").stdout
    assert "<str>" not in shown
    assert "<list[str]>" not in shown


def test_an_unknown_quantity_suggests_the_alias_that_is_near() -> None:
    from harness.errors import UsageError
    from harness.pipeline.check.requirements import parse_requirement

    with pytest.raises(UsageError, match="did you mean 'Hit'"):
        parse_requirement("hitt@1>=0.9", 5)
