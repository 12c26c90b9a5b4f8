"""Stored results that contradict themselves: refused with the file and the field, whatever reads them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import harness
from harness import Comparison, Dataset
from harness.cli.app import _build
from harness.errors import ResultError
from harness.results.baseline import save_baseline
from harness.results.stored import read_report


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the results of a comparison and of a check."""
    folder = tmp_path_factory.mktemp("stored")
    documents = {"d1": "a word", "d2": "another word", "d3": "none"}
    dataset = Dataset.of(documents, {"q1": "word", "q2": "another"}, {"q1": {"d1": 1}, "q2": {"d2": 1}}, name="one")
    comparison = harness.compare("csr", dataset, timing=False, isolation="none", out=folder / "comparison")
    save_baseline(comparison, folder / "baseline.json")
    golden = [{"id": name, "question": "word", "expected_relevant_doc_ids": [name]} for name in ("d1", "d2")]
    harness.check(golden, corpus=dataset, backends="csr", timing=False, isolation="none", out=folder / "check")
    return folder


def _edited(result: Path, folder: Path, edit: Callable[[Any], None]) -> Path:
    """A copy of a stored result folder whose report was edited by hand."""
    shutil.copytree(result, folder)
    report = json.loads((folder / "report.json").read_bytes())
    edit(report)
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")
    return folder


def _mean(report: Any) -> None:
    name, value = next(iter(report["trials"][0]["metrics"].items()))
    report["trials"][0]["metrics"][name] = {**value, "mean": 5.0}


def _mean_and_range(report: Any) -> None:
    name, value = next(iter(report["trials"][0]["metrics"].items()))
    report["trials"][0]["metrics"][name] = {**value, "mean": 5.0, "min": 5.0, "max": 5.0, "ci_low": 5.0, "ci_high": 5.0}


def _interval(report: Any) -> None:
    name, value = next(iter(report["trials"][0]["metrics"].items()))
    report["trials"][0]["metrics"][name] = {**value, "ci_low": 0.9, "ci_high": 0.1}


def _twice(report: Any) -> None:
    report["trials"].append(report["trials"][0])


def _other_kind(report: Any) -> None:
    report["kind"] = "check" if report["kind"] != "check" else "compare"


def _elsewhere(report: Any) -> None:
    report["trials"][0]["dataset"] = "elsewhere"


def _no_depth(report: Any) -> None:
    del report["plan"]["resolved"]["k"]


def _other_ties(report: Any) -> None:
    report["plan"]["resolved"]["ties"] = ["trec_eval"]


def _no_schema(report: Any) -> None:
    report["schema"] = -1


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_mean, r"report.json' contradicts itself: trials.0.metrics.\S+: the mean 5 is outside of its range"),
        (
            _mean_and_range,
            r"per_query.parquet' contradicts itself: trials.0.metrics.\S+: the mean is 5, but the mean of",
        ),
        (_interval, r"trials.0.metrics.\S+: the interval \[0.9, 0.1\] is empty"),
        (_twice, r"trials: '.* on .*' occurs 2 times"),
        (_other_kind, r"was written by `harness check`|has a part 'golden', which is missing"),
        (_elsewhere, r"trials.0.dataset: 'elsewhere' is not among the datasets"),
        (_no_depth, r"plan.resolved.k: None is not an integer"),
        (_other_ties, r"plan.resolved.ties: \['trec_eval'\] is not one of trec_eval"),
        (_no_schema, r"has schema -1, which does not exist"),
    ],
)
def test_a_comparison_that_contradicts_itself_is_refused_with_file_and_field(
    edit: Callable[[Any], None], message: str, stored: Path, tmp_path: Path
) -> None:
    folder = _edited(stored / "comparison", tmp_path / "result", edit)
    for verb in (["report", str(folder)], ["diff", str(stored / "comparison"), str(folder)]):
        done = CliRunner().invoke(_build(), verb)
        assert isinstance(done.exception, ResultError), done.output
        assert re.search(message, str(done.exception))


def test_values_of_other_queries_are_refused(stored: Path, tmp_path: Path) -> None:
    folder = _edited(stored / "comparison", tmp_path / "result", lambda _: None)
    table = pq.read_table(folder / "per_query.parquet")
    renamed = pa.array([f"other-{query}" for query in table["query_id"].to_pylist()], table["query_id"].type)
    position = table.schema.get_field_index("query_id")
    pq.write_table(table.set_column(position, "query_id", renamed), folder / "per_query.parquet")
    with pytest.raises(ResultError, match=r"query_id: query 'other-.*' has values, and no judgment"):
        Comparison.load(folder)


def test_means_of_a_check_that_are_not_those_of_its_questions(stored: Path, tmp_path: Path) -> None:
    folder = _edited(stored / "check", tmp_path / "result", _mean_and_range)
    with pytest.raises(ResultError, match=r"trials.0.metrics.\S+: the mean is 5, but the mean of the queries is"):
        read_report(folder)


def test_a_baseline_whose_report_contradicts_itself(stored: Path, tmp_path: Path) -> None:
    baseline = json.loads((stored / "baseline.json").read_bytes())
    _mean(baseline["report"])
    (tmp_path / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    with pytest.raises(ResultError, match=r"baseline.json' contradicts itself: trials.0.metrics"):
        harness.diff(tmp_path / "baseline.json", stored / "comparison")


def test_a_baseline_without_one_of_its_datasets(stored: Path, tmp_path: Path) -> None:
    baseline = json.loads((stored / "baseline.json").read_bytes())
    (name,) = baseline["datasets"]
    baseline["datasets"] = {}
    (tmp_path / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    with pytest.raises(
        ResultError, match=rf"baseline.json' is damaged: its report names {name}, and it has values of no"
    ):
        harness.diff(tmp_path / "baseline.json", stored / "comparison")


def test_a_result_without_a_dataset(stored: Path, tmp_path: Path) -> None:
    baseline = json.loads((stored / "baseline.json").read_bytes())
    baseline["datasets"], baseline["report"]["datasets"], baseline["report"]["trials"] = {}, [], []
    (tmp_path / "baseline.json").write_text(json.dumps(baseline), encoding="utf-8")
    with pytest.raises(ResultError, match="names no dataset"):
        harness.diff(stored / "comparison", tmp_path / "baseline.json")
