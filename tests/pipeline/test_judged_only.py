"""`--judged-only`: metrics on condensed lists and the mean if every unjudged hit were relevant, everywhere."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import harness
from harness.cli.app import _build
from harness.errors import UsageError
from harness.report.documents.check import check_document
from harness.report.formats import render

pytestmark = pytest.mark.integration

RUN = {"q1": ["x", "a", "y", "b"], "q2": ["c", "z"]}
QRELS = {"q1": {"a": 1, "b": 1, "n": 0}, "q2": {"c": 2}}
CHUNKS = Path(__file__).resolve().parent.parent / "cases" / "golden" / "chunks.jsonl"


def evaluated(tmp_path: Path, *options: str) -> str:
    """Return the output of `harness eval`."""
    run, qrels = tmp_path / "a.trec", tmp_path / "qrels.txt"
    ranked = [(query, document, rank) for query, hits in RUN.items() for rank, document in enumerate(hits, 1)]
    run.write_text("".join(f"{query} Q0 {document} {rank} {-rank} t\n" for query, document, rank in ranked))
    judged = [(query, document, grade) for query, grades in QRELS.items() for document, grade in grades.items()]
    qrels.write_text("".join(f"{query} 0 {document} {grade}\n" for query, document, grade in judged))
    words = ["eval", "--qrels", str(qrels), "--run", str(run), "--metrics", "RR,P@2,Bpref", *options]
    done = CliRunner().invoke(_build(), words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_eval_shows_condensed_lists_beside_the_ordinary_figures(tmp_path):
    content = json.loads(evaluated(tmp_path, "--judged-only", "--format", "json"))["runs"][0]["measures"]
    assert list(content) == ["RR", "RR(judged_only=True)", "P@2", "P(judged_only=True)@2", "Bpref"]
    assert {name: entry["value"] for name, entry in content.items()} == {
        "RR": 0.75, "RR(judged_only=True)": 1.0, "P@2": 0.5, "P(judged_only=True)@2": 0.75, "Bpref": 1.0,
    }  # fmt: skip
    assert {name: entry.get("if_unjudged_relevant") for name, entry in content.items()} == {
        "RR": 1.0, "RR(judged_only=True)": None, "P@2": 1.0, "P(judged_only=True)@2": None, "Bpref": None,
    }  # fmt: skip
    shown = evaluated(tmp_path, "--judged-only")
    assert "Unjudged hits" in shown
    assert "all relevant" in shown
    rows = list(csv.reader(io.StringIO(evaluated(tmp_path, "--judged-only", "--format", "csv"))))
    assert any("if_unjudged_relevant.P@2" in row and "1.0" in row for row in rows)
    assert "Unjudged hits" not in evaluated(tmp_path)


def test_python_has_the_same():
    scores = harness.evaluate(RUN, QRELS, "P@2", judged_only=True)
    assert [str(measure) for measure in scores.measures] == ["P@2", "P(judged_only=True)@2"]
    assert {str(measure): value for measure, value in scores.means_if_relevant().items()} == {"P@2": 1.0}


def test_an_audit_has_conventions_of_its_own(tmp_path):
    run, qrels = tmp_path / "run.trec", tmp_path / "qrels.txt"
    run.write_text("q Q0 a 1 1 t\n")
    qrels.write_text("q 0 a 1\n")
    words = ["eval", "--qrels", str(qrels), "--run", str(run), "--audit", "--judged-only"]
    with pytest.raises(UsageError, match="--audit does not take --judged-only"):
        CliRunner().invoke(_build(), words, catch_exceptions=False)


def test_a_comparison_stores_and_shows_them(tmp_path):
    documents = {"a": "pump", "b": "pump pump", "c": "filter", "x": "pump pump pump"}
    dataset = harness.Dataset.of(documents, {"q1": "pump", "q2": "filter"}, {"q1": {"a": 1, "n": 0}, "q2": {"c": 1}})
    options: dict[str, Any] = {"metrics": "P@2,nDCG@2", "timing": False, "isolation": "none", "k": 3}
    compared = harness.compare("csr", dataset, judged_only=True, **options, out=tmp_path / "result")
    stored = harness.Comparison.load(tmp_path / "result").report.trials[0].metrics
    assert list(stored) == ["P@2", "P(judged_only=True)@2", "nDCG@2", "nDCG(judged_only=True)@2"]
    assert stored["P@2"].if_unjudged_relevant is not None
    assert stored["P(judged_only=True)@2"].if_unjudged_relevant is None
    assert "Unjudged hits" in compared.render("markdown", verbose=True)
    assert "Unjudged hits" in (tmp_path / "result" / "report.html").read_text()
    plain = harness.compare("csr", dataset, **options)
    assert plain.report.trials[0].metrics["P@2"] == stored["P@2"].model_copy(update={"if_unjudged_relevant": None})


def test_a_check_has_them_for_searched_and_existing_backends():
    golden = [{"id": "a", "question": "new filter", "expected": {"filter#2": 2, "pump#1": 0}}]
    result = harness.check(
        golden, corpus=str(CHUNKS), backends="csr", against={"mine": lambda question, k: ["terms#1", "filter#2"]},
        k=3, metrics="MRR,Hit@1", judged_only=True, timing=False, isolation="none", require=["Hit@1<=1"],
    )  # fmt: skip
    mine, csr = result.trial("mine").metrics, result.trial("csr").metrics
    assert list(mine) == list(csr) == ["MRR@3", "MRR(judged_only=True)@3", "Hit@1", "Hit(judged_only=True)@1"]
    assert (mine["MRR@3"].mean, mine["MRR(judged_only=True)@3"].mean) == (0.5, 1.0)
    assert mine["Hit@1"].if_unjudged_relevant == 1.0
    assert csr["Hit@1"].if_unjudged_relevant == 1.0
    assert "Unjudged hits" in render(check_document(result.report), "markdown")
