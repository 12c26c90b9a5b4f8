"""Runs that are read for a dataset: other documents, no judged hit, queries that find themselves, float64."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness

pytestmark = pytest.mark.integration

DOCUMENTS = {"a": "cats", "b": "dogs", "c": "mice", "x": "rats", "y": "bats"}
QUERIES = {"1": "cats", "2": "dogs"}
QRELS = {"1": {"a": 2, "c": 1}, "2": {"b": 1}}
QUICK = {"timing": False, "isolation": "none"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one run of this dataset's documents and one of others."""
    monkeypatch.chdir(tmp_path)
    Path("nothing.trec").write_text("1 Q0 x 1 3.0 s\n2 Q0 y 1 3.0 s\n")
    Path("other.trec").write_text("1 Q0 zz1 1 3.0 s\n2 Q0 zz2 1 3.0 s\n")
    return tmp_path


def test_the_corpus_decides_whether_a_comparison_scores_a_run_0() -> None:
    dataset = harness.Dataset.of(DOCUMENTS, QUERIES, QRELS)
    found = harness.compare("run:nothing.trec,run:other.trec", dataset, metrics="nDCG@10,RR@10", **QUICK)
    nothing, other = found.report.trials
    assert (nothing.status, nothing.metrics["nDCG@10"].mean) == ("ok", 0.0)
    assert [one.check for one in found.report.findings if one.backend == nothing.label] == ["nothing-judged"]
    assert other.status == "failed"
    assert other.error is not None
    assert "none of its 2 document ids is judged" in other.error.message


def test_the_corpus_decides_whether_a_check_scores_a_run_0() -> None:
    corpus = [json.dumps({"id": name, "text": text}) for name, text in DOCUMENTS.items()]
    Path("corpus.jsonl").write_text("\n".join(corpus))
    golden = [{"id": name, "question": text, "expected": list(QRELS[name])} for name, text in QUERIES.items()]
    Path("golden.jsonl").write_text("\n".join(map(json.dumps, golden)))
    checked = harness.check(
        "golden.jsonl", corpus="corpus.jsonl", backends="run:nothing.trec,run:other.trec", k=3, metrics="RR@3", **QUICK
    )
    nothing, other = checked.report.trials
    assert nothing.metrics["RR@3"].mean == 0.0
    assert [one.check for one in checked.report.warnings if one.backend == nothing.label] == ["nothing-judged"]
    assert other.status == "failed"


def test_a_comparison_says_that_queries_find_themselves() -> None:
    names = [f"arg{number}" for number in range(6)]
    documents = {name: "text" for query in names for name in (query, f"{query}-counter")}
    dataset = harness.Dataset.of(documents, dict.fromkeys(names, "ask"), {one: {f"{one}-counter": 1} for one in names})
    Path("self.trec").write_text("".join(f"{one} Q0 {one} 1 1.0 s\n{one} Q0 {one}-counter 2 0.8 s\n" for one in names))
    means = {}
    for rule in ("keep", "drop"):
        found = harness.compare("run:self.trec", dataset, metrics="nDCG@10", identical_ids=rule, **QUICK)
        means[rule] = round(found.report.trials[0].metrics["nDCG@10"].mean, 4)
        assert ("query-in-results" in [one.check for one in found.report.findings]) == (rule == "keep")
    assert means == {"keep": 0.6309, "drop": 1.0}


def test_a_stored_run_keeps_its_order_in_float64(tmp_path: Path) -> None:
    Path("double.trec").write_text("1 Q0 a 1 100000001 s\n1 Q0 b 2 100000000 s\n1 Q0 c 3 99999999 s\n")
    dataset = harness.Dataset.of(DOCUMENTS, {"1": "cats"}, {"1": {"a": 1, "b": 0, "c": 2}})
    for ties, mean in (("trec_eval", 0.9502), ("trec_eval_10", 0.7602)):
        found = harness.compare("run:double.trec", dataset, metrics="nDCG@10", ties=ties, out=tmp_path / ties, **QUICK)
        assert round(found.report.trials[0].metrics["nDCG@10"].mean, 4) == mean
        (stored,) = (tmp_path / ties / "runs").rglob("*.trec*")
        assert round(harness.evaluate(stored, dataset, "nDCG@10", ties=ties).means()[0].value, 4) == mean
