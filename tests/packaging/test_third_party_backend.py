"""A backend, a metric and a loader in packages of their own: installed, found by their entry points, and used."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from installation import Environment, tracked_copy
from warm_harness import harness_command

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def environment(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("third-party")
    examples = tracked_copy(repository / "examples", folder / "copy")
    made = Environment(folder / "venv")
    (made.packages / "harness.pth").write_text(str(repository), encoding="utf-8")
    made.install(
        str(examples / "third-party-backend"),
        str(examples / "third-party-metric"),
        str(examples / "third-party-loader"),
    )
    return made


def run_harness(environment: Environment, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that finds what is installed there as it finds what is installed beside it, by its entry points."""
    found = {**os.environ, "PYTHONPATH": str(environment.packages)}
    command = [*harness_command(), *arguments]
    return subprocess.run(command, cwd=cwd, env=found, capture_output=True, text=True, check=False)


def test_the_card_is_found_through_the_entry_point(environment: Environment, tmp_path: Path) -> None:
    listed = environment.run(environment.python, "-m", "harness", "backends", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "scipy" in listed.stdout
    assert "SciPy's sparse matrix product" in listed.stdout


def test_the_engine_keeps_the_contract(environment: Environment, repository: Path, tmp_path: Path) -> None:
    tests = repository / "examples" / "third-party-backend" / "tests"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", tests)
    result = environment.run(environment.python, *command, cwd=tmp_path)
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
    assert "skipped" not in result.stdout


@pytest.fixture(scope="module")
def compared(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of the backend and our own by the metric; its folder."""
    place = tmp_path_factory.mktemp("compared")
    backends = "scipy:analyzer=snowball-english,csr:analyzer=snowball-english"
    options = ("--backends", backends, "--k", "10", "--metrics", "NCG@10,nDCG@10", "--out", "out", "--format", "json")
    result = run_harness(environment, "compare", *options, cwd=place)
    assert result.returncode == 0, result.stderr[-3000:]
    (place / "printed.json").write_text(result.stdout, encoding="utf-8")
    return place


def backends_of(compared: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((compared / "printed.json").read_bytes())["trials"]
    return found


def test_it_is_compared_like_any_other(compared: Path) -> None:
    scipy, csr = backends_of(compared)
    assert (scipy["label"], scipy["status"], csr["status"]) == ("scipy:analyzer=snowball-english", "ok", "ok")


def test_the_metric_is_scored_with_ties_like_any_other(environment: Environment, tmp_path: Path) -> None:
    """In a table, under each tie rule, and with the nearest name."""
    (tmp_path / "qrels").write_text("q1 0 a 2\nq1 0 b 1\nq2 0 a 1\n", encoding="utf-8")
    (tmp_path / "run").write_text("q1 Q0 z 1 5 t\nq1 Q0 a 2 5 t\nq1 Q0 b 3 1 t\nq2 Q0 a 1 1 t\n", encoding="utf-8")
    command = (environment, "eval", "--qrels", "qrels", "--run", "run", "--metrics")
    metrics = "ncg@1,NCG(power=2)@3,nDCG@1"
    result = run_harness(*command, metrics, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    header, _, row, *_ = itertools.dropwhile(lambda line: "NCG@1" not in line, result.stdout.splitlines())
    assert header.split() == ["run", "NCG@1", "NCG(power=2.0)@3", "nDCG@1"]
    assert row.split()[1:] == ["0.5000", "[.5000–1.0000]", "1.0000", "0.5000", "[.5000–1.0000]"]
    listed = run_harness(*command, metrics, "--ties", "engine", "--format", "csv", "-q", cwd=tmp_path)
    assert "run,q1,NCG@1,0.0,0.0,1.0" in listed.stdout.splitlines()
    averaged = run_harness(*command, metrics, "--ties", "average", cwd=tmp_path)
    assert (averaged.returncode, "no closed form over tie permutations for NCG@1" in averaged.stderr) == (2, True)
    misspelt = run_harness(*command, "NGC@1", cwd=tmp_path)
    assert (misspelt.returncode, "did you mean 'NCG'" in misspelt.stderr) == (2, True)


MAIL = """From a@b.c Mon Nov 23 10:00:00 2026
Message-ID: <{0}@mail.example>
Subject: {1}

{2}

"""


def test_a_dataset_of_another_package_is_compared(environment: Environment, tmp_path: Path) -> None:
    """Documents by its loader, queries and judgments from files of our own."""
    mail = [("1", "Lunch", "Soup and bread at noon"), ("2", "=?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Greetings from the sea")]
    (tmp_path / "mail.mbox").write_text("".join(MAIL.format(*one) for one in mail), encoding="utf-8")
    (tmp_path / "q.csv").write_text("qid,question\na,soup at noon\nb,the sea\n", encoding="utf-8")
    (tmp_path / "r.txt").write_text("a 0 <1@mail.example> 1\nb Q0\t<2@mail.example> 1\n", encoding="utf-8")
    files = ("--dataset", "mail.mbox", "--queries", "q.csv", "--qrels", "r.txt")
    options = ("--backends", "csr:analyzer=snowball-english", "--no-timing", "--format", "json", "--out", "out")
    result = run_harness(environment, "compare", *files, *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout)
    assert (report["datasets"][0]["documents"], report["datasets"][0]["provenance"]["format"]) == (2, "mbox")
    assert report["trials"][0]["metrics"]["RR@10"]["mean"] == 1.0
    (tmp_path / "mail.mbox").write_text(MAIL.format(*mail[0]) * 2, encoding="utf-8")
    twice = run_harness(environment, "compare", *files, *options, "--overwrite", cwd=tmp_path)
    assert twice.returncode == 3
    assert "record 2: duplicate id '<1@mail.example>', first in record 1" in twice.stderr


def test_a_comparison_has_intervals_of_the_metric_and_is_shown_without_it(compared: Path) -> None:
    for backend in backends_of(compared):
        value = backend["metrics"]["NCG@10"]
        assert value["ci_low"] < value["mean"] < value["ci_high"]
    report = [*harness_command(), "report", "out"]  # without either of the packages
    shown = subprocess.run(report, cwd=compared, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "NCG@10" in shown.stdout
