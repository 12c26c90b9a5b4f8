"""Mistakes on the command line that are refused before anything runs, with the way out."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from warm_harness import harness_command

from harness.cli.sort_columns import AT_DEPTH, CHANGE_COLUMNS, CHECK_COLUMNS, COMPARISON_COLUMNS, check_sort
from harness.errors import UnknownNameError


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
    assert refused.stderr == f"harness: no option stands before {stray}\n  {fix}\n"


@pytest.mark.parametrize(
    "arguments", ["compare --dataset cacm --backends csr", "diff a.json b.json", "regress --baseline a.json"]
)
def test_an_unknown_column_to_sort_by_is_refused_before_anything_runs(arguments: str, tmp_path: Path) -> None:
    refused = run(*arguments.split(), "--sort", "foo", "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert refused.stderr.startswith("harness: unknown column to sort by 'foo'\n")
    assert not (tmp_path / "out").exists()


def test_check_refuses_an_unknown_column_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "docs.jsonl").write_text('{"id": "a", "text": "one two"}\n')
    (tmp_path / "golden.jsonl").write_text('{"id": "1", "question": "one", "expected": ["a"]}\n')
    golden, corpus = tmp_path / "golden.jsonl", tmp_path / "docs.jsonl"
    refused = run("check", str(golden), "--corpus", str(corpus), "--backends", "csr", "--sort", "Hit@50")
    assert refused.returncode == 2
    assert refused.stderr.startswith("harness: unknown column to sort by 'Hit@50'\n  did you mean 'Hit@5'?")


@pytest.mark.parametrize(
    ("option", "column", "comes_with"),
    [
        ("--no-timing", "p95 ms", "times: leave out --no-timing"),
        ("--no-timing", "warm-up", "times: leave out --no-timing"),
        ("--repeat=2", "gain", "--cold, --concurrency or --rate"),
        ("--repeat=2", "sd", "--rebuilds"),
    ],
)
def test_a_column_of_what_is_not_measured_is_refused_before_anything_runs(
    option: str, column: str, comes_with: str, tmp_path: Path
) -> None:
    command = ["compare", "--dataset", "cacm", "--backends", "csr", "--metrics", "AP", option, "--sort", column]
    refused = run(*command, "--out", str(tmp_path / "out"))
    assert refused.returncode == 2
    assert refused.stderr == (
        f"harness: no table of this comparison will have the column '{column}' to sort by\n"
        f"  it comes with {comes_with}; or sort by a metric: AP\n"
    )


@pytest.mark.parametrize(
    ("modules", "known"),
    [
        (
            ("quality", "parity_tables", "published"),
            COMPARISON_COLUMNS | {"p50 ms", "p95 ms", "n", "frontier", "index"},
        ),
        (("check",), CHECK_COLUMNS),
        (("regress",), CHANGE_COLUMNS),
    ],
)
def test_every_column_of_a_table_can_be_sorted_by(
    modules: Sequence[str], known: frozenset[str], repository: Path
) -> None:
    literal = {
        call.args[0].value
        for module in modules
        for call in ast.walk(ast.parse((repository / f"harness/report/documents/{module}.py").read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Column"
        if call.args and isinstance(call.args[0], ast.Constant)
    }
    assert len(literal) > 8
    assert {name for name in literal - known if not AT_DEPTH.fullmatch(name)} == set()


def test_metrics_and_depths_can_be_sorted_by() -> None:
    for name in (None, "AP", "p95 ms", "overlap@10", "@100"):
        check_sort(name, ["AP", "p95 ms"])
    with pytest.raises(UnknownNameError, match="did you mean 'AP@5'"):
        check_sort("AP@6", ["AP@5"])


def test_eval_says_that_no_file_is_there_and_what_takes_a_dataset() -> None:
    refused = run("eval", "--qrels", "cacm", "--run", "absent.trec")
    assert refused.returncode == 3
    assert "Errno" not in refused.stderr
    assert refused.stderr.count("no such file is there") == 2
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
