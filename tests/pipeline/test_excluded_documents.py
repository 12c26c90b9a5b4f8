"""Queries that exclude documents, as BRIGHT's `excluded_ids`: such hits are left out before anything is scored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chroma_indexes import write_folder
from installed import skip_without

import harness
from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.types import DocumentContent, Ids, Run
from harness.errors import DataError
from harness.loaders import load_dataset
from harness.pipeline.check.checked import CheckResult
from harness.report.documents.check import check_document
from harness.report.documents.compare import comparison_header
from harness.results.hit_rules import HitRules

pytestmark = pytest.mark.integration

DOCUMENTS = {f"d{number}": "pump " * number + "water" for number in range(1, 7)}
QUERIES = [
    {"_id": "q1", "text": "pump", "excluded_ids": ["d6", "d5", "absent"]},
    {"_id": "q2", "text": "pump", "excluded_ids": ["N/A"]},
    {"_id": "q3", "text": "pump"},
]
QRELS = {"q1": {"d4": 1}, "q2": {"d6": 1}, "q3": {"d6": 1}}
QUICK: dict[str, Any] = {"timing": False, "isolation": "none", "k": 3, "metrics": "RR@3"}


def lines(records: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in BEIR's layout."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(lines([{"_id": key, "text": text} for key, text in DOCUMENTS.items()]))
    (tmp_path / "queries.jsonl").write_text(lines(QUERIES))
    rows = "".join(f"{query}\t{document}\t1\n" for query, judged in QRELS.items() for document in judged)
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows)
    return tmp_path


def hits(compared: harness.Comparison) -> dict[str, list[str]]:
    (run,) = compared.runs.values()
    return {query: run.doc_ids.take(run.rows[run.of_query(row)]) for row, query in enumerate(run.query_ids)}


def test_excluded_hits_are_left_out_counted_and_replaced(folder):
    compared = harness.compare("csr:k1=0.9", str(folder), **QUICK)
    plain = harness.compare("csr:k1=0.9", str(folder), **QUICK, queries=[str(_without_exclusions(folder))])
    of_plain = hits(plain)
    assert hits(compared) == {**of_plain, "q1": hits(compared)["q1"]}
    assert not {"d5", "d6"} & set(hits(compared)["q1"])
    assert len(hits(compared)["q1"]) == 3
    info = compared.report.dataset.excluded
    assert (info.queries, info.documents, info.unknown) == (1, 2, 1)
    assert plain.report.dataset.excluded is None
    assert compared.report.dataset.sha256 != plain.report.dataset.sha256
    assert "2 hits are left out because the query excludes the document" in compared.report.trials[0].notes
    assert "1 query excludes 2 documents, and 1 id that no document has" in comparison_header(compared.report)
    assert compared.report.trials[0].parity.different == 0


def _without_exclusions(folder: Path) -> Path:
    path = folder / "plain.jsonl"
    path.write_text(lines([{"_id": query["_id"], "text": query["text"]} for query in QUERIES]))
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_other_files_of_queries_exclude_too(folder, ending):
    (folder / "queries.jsonl").unlink()
    path = folder / f"queries.{ending}"
    if ending == "csv":
        path.write_text('_id,text,excluded_ids\nq1,pump,"[""d6"",""d5""]"\nq2,pump,d1;d2\nq3,pump,\n')
    elif ending == "json":
        path.write_text(json.dumps(QUERIES))
    else:
        excluded = [query.get("excluded_ids", []) for query in QUERIES]
        pq.write_table(pa.table({"_id": ["q1", "q2", "q3"], "text": ["pump"] * 3, "excluded_ids": excluded}), path)
    found = load_dataset(str(folder)).excluded
    assert set(found["q1"]) >= {"d6", "d5"}
    assert tuple(found.get("q2", ())) == (("d1", "d2") if ending == "csv" else ())
    assert not found.get("q3")


def test_a_repository_of_the_hub_layout(tmp_path):
    configs = {
        "corpus": [{"_id": key, "text": text} for key, text in DOCUMENTS.items()],
        "queries": QUERIES,
        "default": [{"query-id": "q1", "corpus-id": "d4", "score": 1}],
    }
    card = "".join(f"- config_name: {name}\n  data_files: {name}.parquet\n" for name in configs)
    (tmp_path / "README.md").write_text(f"---\nconfigs:\n{card}---\n")
    for name, rows in configs.items():
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / f"{name}.parquet")
    assert load_dataset(f"hf:{tmp_path}").excluded["q1"] == ("d6", "d5", "absent")


def test_questions_of_a_golden_set_exclude(tmp_path, folder):
    golden = [{"id": "q1", "question": "pump", "expected": ["d4"], "excluded_ids": ["d6", "d5"]}]
    options = {"timing": False, "isolation": "none", "backends": "csr", "k": 3}
    corpus = str(folder / "corpus.jsonl")
    checked = harness.check(golden, corpus=corpus, **options)
    assert not {"d5", "d6"} & set(checked.report.trials[0].questions[0].top)
    assert "1 question excludes 2 documents" in check_document(checked.report).subtitle
    compared = harness.compare("csr", corpus, queries=[str(_golden_file(tmp_path, golden))], **QUICK)
    assert hits(compared)["q1"] == checked.report.trials[0].questions[0].top


def top(checked: CheckResult, label: str = "mine") -> list[str]:
    return list(checked.trial(label).questions[0].top)


def test_called_backends_leave_excluded_hits_out_and_return_as_many_more():
    golden = [{"id": "q1", "question": "pump", "expected": ["d4"], "excluded_ids": ["d6", "d5", "absent"]}]
    requested: list[int] = []

    def retrieve(question: str, k: int) -> list[tuple[str, float]]:
        requested.append(k)
        return [(name, float(name[1:])) for name in sorted(DOCUMENTS, reverse=True)][:k]

    options: dict[str, Any] = {"timing": False, "isolation": "none", "k": 2}
    checked = harness.check(golden, against={"mine": retrieve}, require="MRR@2>=1", **options)
    assert (set(requested), top(checked)) == ({5}, ["d4", "d3"])
    assert checked.report.verdict == "passed"
    assert "2 hits are left out because the query excludes the document" in checked.trial("mine").notes
    assert not any("kept with --against" in note for note in checked.report.notes)
    plain = harness.check([{**golden[0], "excluded_ids": []}], against={"mine": retrieve}, **options)
    assert (requested[-1], top(plain)) == (2, ["d6", "d5"])
    deaf = harness.check(golden, against={"mine": lambda question, k: sorted(DOCUMENTS)}, **options)
    assert [problem.check for problem in deaf.report.preflight] == ["too-many-hits"]


def test_hits_matched_by_a_field_stay_with_a_note():
    hits = [{"id": name, "source": f"{name[0]}.pdf"} for name in ("a1", "a2", "b1", "b2")]
    golden = [{"id": "q1", "question": "pump", "expected": ["b.pdf"], "excluded_ids": ["a.pdf"]}]
    options: dict[str, Any] = {"timing": False, "isolation": "none", "k": 3}
    checked = harness.check(golden, against={"mine": lambda question, k: hits[:k]}, match="field:source", **options)
    assert any("kept with --against" in note for note in checked.report.notes), "hits are not known by their ids alone"
    assert len(top(checked)) == 3


def test_an_external_index_leaves_excluded_hits_out(tmp_path):
    skip_without("chromadb")
    vectors = np.linspace(1, 2, 18, dtype=np.float32).reshape(6, 3)
    write_folder(tmp_path / "db", Inputs(ids=Ids.of(DOCUMENTS), dense=vectors), name="docs")
    (tmp_path / "made").mkdir()
    np.save(tmp_path / "made" / "queries.npy", vectors[[5]])
    (tmp_path / "made" / "queries.ids.txt").write_text("q1\n")
    golden = [{"id": "q1", "question": "pump", "expected": ["d4"], "excluded_ids": ["d6", "d5"]}]
    index = f"mine=chroma:path={tmp_path / 'db'};collection=docs;model=precomputed:{tmp_path / 'made'}"
    checked = harness.check(golden, against=index, k=2, timing=False, isolation="none")
    plain = harness.check(
        [{**golden[0], "excluded_ids": ["absent"]}], against=index, k=2, timing=False, isolation="none"
    )
    assert (top(checked), top(plain)) == (["d4", "d3"], ["d6", "d5"])
    assert "2 hits are left out because the query excludes the document" in checked.trial("mine").notes


def test_shared_values_of_an_index_are_compared_with_excluded_ids():
    run = Run(Ids.of(["q"]), Ids.of(["1", "2", "3"]), np.array([0, 3]), np.arange(3, dtype=np.int32), -np.arange(3.0))
    content = DocumentContent(pa.chunked_array([strings(["a", "a", None])]), repeats=True)
    rules = HitRules(Ids.of([]), drops_itself=False, candidates=None, excluded={"q": ["a", "3"]})
    by_value = rules.filter_hits(replace(run, content=content), 2)
    assert by_value.rows.tolist() == [2]
    assert by_value.content is content
    assert rules.notes(replace(run, content=content)) == ["2 hits are left out because the query excludes the document"]
    assert rules.filter_hits(run, None).rows.tolist() == [0, 1]


def _golden_file(folder: Path, golden: Sequence[Mapping[str, Any]]) -> Path:
    path = folder / "golden-questions.jsonl"
    path.write_text(lines(golden))
    return path


def test_datasets_of_objects_exclude_in_comparisons_checks_and_evaluations():
    dataset = harness.Dataset.of(DOCUMENTS, QUERIES, QRELS)
    run = {"q1": ["d6", "d5", "d4"], "q2": ["d6"], "q3": ["d6"]}
    assert harness.evaluate(run, dataset, "RR").means()[0].value == 1.0
    assert harness.evaluate(run, QRELS, "RR").means()[0].value < 1.0
    assert "d6" not in hits(harness.compare("csr", dataset, **QUICK))["q1"]
    checked = harness.check(dataset, backends="csr", k=3, timing=False, isolation="none")
    assert "d6" not in checked.report.trials[0].questions[0].top


def test_a_field_without_ids_is_refused(folder):
    (folder / "queries.jsonl").write_text(lines([{**QUERIES[0], "excluded_ids": [["d6"]]}, *QUERIES[1:]]))
    with pytest.raises(DataError, match="'excluded_ids' holds"):
        load_dataset(str(folder))
