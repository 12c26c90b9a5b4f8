"""A hit that has its query's id counts or is left out, as the collection's rule says, wherever hits are scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import harness

pytestmark = pytest.mark.integration

DOCUMENTS = {"a": "cats", "b": "dogs", "c": "cats in a garden"}
QUERIES = {"a": "cats", "z": "dogs"}
QRELS = {"a": {"c": 1}, "z": {"b": 1}}
CARD = """
name = "pets"
summary = "a query that is a document"
format = "beir"
path = "../pets"
language = "en"
licence = "none"
source = "here"
identical_ids = "{rule}"
"""


@pytest.mark.parametrize(("rule", "hits", "mean"), [("keep", ["a", "c"], 0.75), ("drop", ["c"], 1.0)])
def test_every_backend_and_the_scoring_of_runs_follow_the_rule(rule: str, hits: list[str], mean: float) -> None:
    dataset = harness.Dataset.of(DOCUMENTS, QUERIES, QRELS, identical_ids=rule)  # type: ignore[arg-type]
    found = harness.compare("csr,qdrant,rrf:csr+qdrant", dataset, k=2, metrics="RR@2", timing=False, isolation="none")
    assert not found.failed
    for backend in found.report.trials:
        assert backend.metrics["RR@2"].mean == mean
        run = found.runs[backend.label]
        assert run.doc_ids.take(run.rows[run.of_query(0)]) == hits, "a hit that is left out takes no other's place"
    scores = harness.evaluate({"a": ["a", "c"], "z": ["b"]}, dataset, "RR@2")
    assert scores.means()[0].value == mean


@pytest.mark.parametrize(("rule", "mean"), [("keep", 0.5), ("drop", 1.0)])
def test_a_check_follows_the_rule_of_a_card_and_of_an_object(rule: str, mean: float, tmp_path: Path) -> None:
    pets, golden = tmp_path / "pets", tmp_path / "golden.jsonl"
    pets.mkdir()
    lines = [json.dumps({"_id": name, "text": text}) for name, text in DOCUMENTS.items()]
    (pets / "corpus.jsonl").write_text("\n".join(lines))
    golden.write_text(json.dumps({"id": "a", "question": "cats", "expected_relevant_doc_ids": ["c"]}))
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "pets.toml").write_text(CARD.format(rule=rule))
    whole = harness.Dataset.of(DOCUMENTS, QUERIES, identical_ids=rule)  # type: ignore[arg-type]
    for corpus in ("pets", whole):
        checked = harness.check(
            golden, corpus=corpus, backends="csr", k=2, metrics="RR@2", timing=False, isolation="none", cards=tmp_path
        )
        assert checked.report.trials[0].metrics["RR@2"].mean == mean
