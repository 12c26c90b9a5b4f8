"""Golden sets as people have them: each file of ``tests/cases/golden`` gives the values of a plain one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import lz4.frame
import pyarrow.parquet as pq
import pytest
import zstandard

import harness
from harness.data.dataset import Dataset, DatasetFiles
from harness.loaders import load_dataset

CASES = Path(__file__).parent.parent / "cases" / "golden"
CHUNKS = CASES / "chunks.jsonl"
VALUES = pytest.approx({"Hit@3": 1.0, "MRR@3": 0.875, "Recall@3": 1.0, "nDCG@3": 0.907732}, abs=1e-6)
QUICK: dict[str, Any] = {"backends": "csr:analyzer=snowball-english", "k": 3, "timing": False, "isolation": "none"}
LANGSMITH = "question=inputs.question,expected=outputs.doc_ids"


def values(golden: Any, corpus: Any = CHUNKS, **options: Any) -> dict[str, float]:
    report = harness.check(golden, corpus=corpus, **QUICK, **options).report
    assert report.golden.questions == 4
    metrics = report.trials[0].metrics
    return {name: metrics[name].mean for name in ("Hit@3", "MRR@3", "Recall@3", "nDCG@3")}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ragas-ids.jsonl", {}),
        ("ragas.csv", {}),
        ("ragas.jsonl", {}),
        ("deepeval.json", {}),
        ("llamaindex.json", {}),
        ("llamaindex.json", {"corpus": ()}),
        ("autorag", {"corpus": ()}),
        ("autorag/qa.parquet", {}),
        ("autorag/qa.parquet", {"corpus": CASES / "autorag"}),
        ("autorag/qa.parquet", {"corpus": CASES / "autorag" / "corpus.parquet"}),
        ("nested.jsonl", {}),
        ("langsmith.json", {"columns": LANGSMITH}),
        ("relevant-ids.json", {}),
        ("wrapped.json", {}),
        ("wrapped.json", {"columns": "records=tests"}),
        ("golden.yaml", {}),
        ("long.csv", {}),
    ],
)
def test_a_file_gives_the_values_of_a_plain_golden_set(name: str, options: dict[str, Any]) -> None:
    assert values(CASES / name, **options) == VALUES


@pytest.mark.parametrize("pack", [("gz", gzip.compress), ("zst", zstandard.compress), ("lz4", lz4.frame.compress)])
@pytest.mark.parametrize("name", ["ragas.csv", "llamaindex.json", "golden.yaml", "long.csv"])
def test_a_compressed_file_gives_them_too(name: str, pack: Any, tmp_path: Path) -> None:
    ending, compress = pack
    path = tmp_path / f"{name}.{ending}"
    path.write_bytes(compress((CASES / name).read_bytes()))
    assert values(path) == VALUES


@pytest.mark.parametrize("name", ["ragas-ids.jsonl", "llamaindex.json", "langsmith.json", "wrapped.json", "long.csv"])
def test_comparisons_take_the_same_files_as_queries(name: str) -> None:
    columns = dict(part.split("=") for part in LANGSMITH.split(",")) if name == "langsmith.json" else {}
    dataset = load_dataset(CHUNKS, files=DatasetFiles(queries=CASES / name, columns=columns))
    judged = {len(dataset.qrels.of_queries(dataset.queries.ids)), len(dataset.queries)}
    assert (judged, len(dataset.corpus)) == ({5, 4}, 6)


@pytest.mark.parametrize("name", ["llamaindex.json", "autorag"])
def test_a_golden_set_with_documents_is_a_dataset(name: str) -> None:
    dataset = load_dataset(str(CASES / name))
    assert (len(dataset.corpus), len(dataset.queries), len(dataset.qrels)) == (6, 4, 5)


@pytest.mark.parametrize(
    "name", ["ragas-ids.jsonl", "ragas.jsonl", "nested.jsonl", "llamaindex.json", "relevant-ids.json", "wrapped.json"]
)
def test_objects_of_the_same_shape_give_them_too(name: str) -> None:
    text = (CASES / name).read_text()
    golden = [json.loads(line) for line in text.splitlines()] if name.endswith("jsonl") else json.loads(text)
    assert values(golden) == VALUES
    if name == "llamaindex.json":
        assert values(golden, corpus=()) == VALUES
        assert len(Dataset.of(golden).qrels) == 5
    if name != "ragas.jsonl":
        chunks = [json.loads(line) for line in CHUNKS.read_text().splitlines()]
        dataset = Dataset.of(chunks, golden)
        assert values(dataset, corpus=()) == VALUES


def test_tables_of_autorag_are_objects_too() -> None:
    questions, corpus = (pq.read_table(CASES / "autorag" / f"{name}.parquet") for name in ("qa", "corpus"))
    assert values(questions) == VALUES
    assert values(Dataset.of(corpus, questions.to_pandas(), columns={"text": "contents"}), corpus=()) == VALUES


def test_a_row_for_each_document_is_graded() -> None:
    report = harness.check(CASES / "long.csv", corpus=CHUNKS, **QUICK).report
    grades = [{one.id: one.grade for one in question.expected} for question in report.trials[0].questions]
    assert grades == [{"terms#1": 2}, {"filter#1": 2}, {"pump#2": 2}, {"terms#2": 2, "terms#1": 1}]


def test_an_id_with_a_separator_is_whole() -> None:
    corpus = CASES / "pipe-ids-corpus.jsonl"
    report = harness.check(CASES / "pipe-ids.csv", corpus=corpus, **QUICK).report
    assert report.trials[0].metrics["Hit@3"].mean == 1.0


def test_questions_without_ids_stay_the_same_below_a_new_first_line() -> None:
    """The pairs of ``diff`` are tested with questions of other files; here are the public ones."""
    before, after = (
        harness.check(CASES / f"no-ids-{number}.jsonl", corpus=CASES / "no-ids-corpus.jsonl", **QUICK)
        for number in (1, 2)
    )
    assert len(before.per_question()) == 20
    texts = [{one.question for one in checked.report.trials[0].questions} for checked in (before, after)]
    assert len(texts[0] & texts[1]) == 20
