"""The explanations that a result and its page hold are those of `harness explain`, for every kind of backend."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dense_engines import blind_card

import harness
from harness.data.dataset import Dataset
from harness.errors import ResultError
from harness.pipeline import hit_explanations
from harness.pipeline.check.checked import CheckResult
from harness.results.comparison import Comparison
from harness.results.explanation import DocumentScore, Explanation

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]

WORDS = ["fuse", "panel", "wire", "garden", "shed", "wall", "house", "lamp", "switch", "plug"]
DOCUMENTS = {f"d{row}": f"{WORDS[row % 10]} {WORDS[(row * 7) % 10]} number {row}" for row in range(24)} | {"empty": ""}
QUERIES = {"q1": "the fuse fuse panel", "q2": "lamp", "q3": "zeppelin"}
RELEVANT = {"q1": {"d3": 1, "d0": 2, "empty": 1}, "q2": {"d17": 1, "d9": 1}, "q3": {"d5": 1, "ghost": 1}}
BACKENDS = [
    "flat:model=random",
    "blind:model=random",
    "words=csr:analyzer=whitespace",
    "steep=csr:analyzer=whitespace;k1=2",
    "both=rrf:words+(flat:model=random);weights=2+1",
    "again=words|dense:model=random;candidates=3",
    "outer=rrf:(rrf:words+(flat:model=random);weights=2+1)+words",
]
K = 4


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return Dataset.of(DOCUMENTS, QUERIES, RELEVANT, name="house")


@pytest.fixture(scope="module")
def cards(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The card of flat for an engine that misses every other document, as a graph may."""
    return blind_card(tmp_path_factory.mktemp("cards"), repository)


@pytest.fixture(scope="module")
def compared(dataset: Dataset, cards: Path, tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    out = tmp_path_factory.mktemp("result") / "house"
    return harness.compare(BACKENDS, dataset, k=K, cards=cards, out=out, timing=False)


@pytest.fixture(scope="module")
def explanations(dataset: Dataset, cards: Path) -> dict[str, Explanation]:
    return {
        query: harness.explain(query=query, dataset=dataset, backends=BACKENDS, k=K, cards=cards, doc=list(DOCUMENTS))
        for query in ("q1", "q3")
    }


def rows_of(compared: Comparison) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    """The rows of each backend, query and document."""
    assert compared.explanations is not None
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in compared.explanations.to_pylist():
        rows.setdefault((row["backend"], row["query_id"], row["doc_id"]), []).append(row)
    return rows


def scores_of(explanations: Mapping[str, Explanation]) -> Iterator[tuple[str, str, str, str, DocumentScore]]:
    for query, explanation in explanations.items():
        for backend in explanation.backends:
            for document in backend.documents:
                yield backend.label, backend.kind, query, document.document, document


def test_each_first_hit_and_relevant_document_is_explained_in_every_backend(compared: Comparison) -> None:
    rows = rows_of(compared)
    labels = [trial.label for trial in compared.report.trials]
    for query in QUERIES:
        hits = {
            name
            for label in labels
            for name in compared.run(label).doc_ids.take(
                compared.run(label).rows[compared.run(label).of_query(list(QUERIES).index(query))]
            )
        }
        for label in labels:
            assert {name for of, of_query, name in rows if (of, of_query) == (label, query)} == hits | {
                *RELEVANT[query]
            }


def test_they_are_those_of_explain(compared: Comparison, explanations: Mapping[str, Explanation]) -> None:
    rows, kinds = rows_of(compared), set()
    for label, kind, query, name, document in scores_of(explanations):
        stored = rows.get((label, query, name))
        if stored is None:
            continue
        kinds.add(kind)
        assert not (document.rank and document.absence), "a hit that cannot be one"
        first = stored[0]
        assert {row["kind"] for row in stored} == {kind}
        assert (first["rank"], first["score"]) == (document.rank, document.score)
        assert (first["length"], first["stored_length"]) == (document.length, document.stored_length)
        deep = kind == "fusion"  # the fusion of the exact lists has all of their documents
        exact_rank = document.exact_rank if deep or (document.exact_rank or K + 1) <= K else None
        assert (first["exact_rank"], first["exact_score"]) == (exact_rank, document.exact_score)
        note = hit_explanations.MISSED if document.vector and document.vector.missed else document.absence
        assert (first["note"] or "") == note
        parts = [row for row in stored if row["part"] is not None]
        names = ("part", "weight", "tf", "df", "documents", "contribution")
        assert [tuple(row[one] for one in names) for row in parts if kind == "terms"] == [
            (part.term, part.weight, part.tf, part.df, part.documents, part.contribution)
            for part in document.terms
            if part.tf is not None
        ]
        assert [row["idf"] for row in parts if kind == "terms"] == [part.idf for part in document.terms if part.tf]
        lists = [(row["part"], row["list_rank"], row["list_score"]) for row in parts if row["list_rank"] is not None]
        assert lists == [(part.name, part.rank, part.score) for part in document.lists if part.rank is not None]
        if kind == "fusion":
            shares = [row["contribution"] for row in parts]
            assert shares == pytest.approx([part.contribution for part in document.lists], nan_ok=True)
        if document.vector is not None:
            assert tuple(row["part"] for row in parts) == document.vector.instead
            assert first["norm"] == pytest.approx(document.vector.norm)
    assert kinds == {"terms", "vectors", "fusion", "second stage"}


def test_a_second_stage_names_documents_that_it_did_not_see(compared: Comparison) -> None:
    first = {key: rows[0] for key, rows in rows_of(compared).items() if key[0] == "again"}
    assert all((row["note"] is None) == (row["rank"] is not None) for row in first.values())
    assert {row["note"] for row in first.values()} == {
        None,
        "it has no text",
        "not in the index",
        "no hit: it has none of the query's terms",
        "not among the candidates of the second stage",
    }


def test_they_are_read_back_and_the_page_has_them_without_the_documents(compared: Comparison) -> None:
    assert compared.folder is not None
    read = Comparison.load(compared.folder)
    assert read.explanations is not None
    assert read.explanations.equals(compared.explanations)
    assert read.corpus is None
    assert '"explanations-data">[{"query"' in read.html()
    assert "fuse" not in read.html(keep_text=False)


def test_results_without_them_show_the_command(compared: Comparison, tmp_path: Path) -> None:
    assert compared.folder is not None
    (tmp_path / "old").mkdir()
    for path in compared.folder.rglob("*"):
        if path.is_file() and path.name != "explanations.parquet":
            target = tmp_path / "old" / path.relative_to(compared.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    page = Comparison.load(tmp_path / "old").html()
    assert 'id="explanations-data">[]</script>' in page
    assert "harness explain --backends" in page


def test_a_damaged_table_is_named(compared: Comparison, tmp_path: Path) -> None:
    copy = compared.save(tmp_path / "copy")
    assert copy.folder is not None
    assert copy.explanations is not None
    path = copy.folder / "explanations.parquet"
    pq.write_table(copy.explanations.drop_columns("contribution"), path)
    with pytest.raises(ResultError, match=r"explanations\.parquet' is not a table that harness wrote: 'contribution'"):
        Comparison.load(copy.folder)
    columns = {**dict(zip(copy.explanations.column_names, copy.explanations.columns, strict=True))}
    columns["doc_id"] = pa.array([None] * len(copy.explanations), pa.string())
    pq.write_table(pa.table(columns), path)
    with pytest.raises(ResultError, match="lacks values: doc_id"):
        Comparison.load(copy.folder)


def test_texts_that_are_left_out_leave_no_terms(dataset: Dataset, tmp_path: Path) -> None:
    result = harness.compare("csr:analyzer=whitespace", dataset, k=K, timing=False, out=tmp_path / "r", no_text=True)
    assert result.explanations is None
    assert not (tmp_path / "r" / "explanations.parquet").exists()


def test_more_documents_than_a_result_explains_are_those_of_the_queries_that_differ_most(
    compared: Comparison, dataset: Dataset, cards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = rows_of(compared)
    counts = {query: sum(of_query == query for _, of_query, _ in complete) for query in QUERIES}
    largest = max(counts, key=lambda query: counts[query])
    monkeypatch.setattr(hit_explanations, "MOST", counts[largest])
    result = harness.compare(BACKENDS, dataset, k=K, cards=cards, out=tmp_path / "result", timing=False)
    assert rows_of(result) == {key: rows for key, rows in complete.items() if key[1] == largest}
    monkeypatch.setattr(hit_explanations, "MOST", counts[largest] - 1)
    result = harness.compare(BACKENDS, dataset, k=K, cards=cards, out=tmp_path / "smaller", timing=False)
    explained = {query for _, query, _ in rows_of(result)}
    assert largest not in explained
    assert counts[largest] > sum(counts[query] for query in explained) > 0, "a query that does not fit leaves room"
    assert all(
        counts[query] + sum(counts[one] for one in explained) >= counts[largest] for query in counts.keys() - explained
    )


def test_nothing_of_it_is_loaded_without_a_folder() -> None:
    code = (
        "import sys, harness\n"
        "made = harness.compare('csr:analyzer=whitespace', harness.Dataset.of({'d': 'a b'}, {'q': 'a'}),\n"
        "                       timing=False, isolation='none')\n"
        "assert made.explanations is None\n"
        "assert 'harness.pipeline.hit_explanations' not in sys.modules\n"
        "assert 'harness.parity.contributions' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_check_explains_the_hits_and_expected_documents_of_its_questions(tmp_path: Path) -> None:
    golden = [
        {"id": "g1", "question": "fuse panel", "expected_relevant_doc_ids": ["d3", "d21"]},
        {"id": "g2", "question": "lamp", "expected_relevant_doc_ids": ["d12"]},
    ]
    corpus = Dataset.of(DOCUMENTS, QUERIES, name="house")
    options: dict[str, Any] = {"corpus": corpus, "backends": ["csr:analyzer=whitespace"], "k": K, "timing": False}
    checked = harness.check(golden, out=tmp_path / "checked", **options)
    assert checked.explanations is not None
    rows = checked.explanations.to_pylist()
    for question, expected in {"g1": {"d3", "d21"}, "g2": {"d12"}}.items():
        run = checked.run(checked.report.trials[0].label)
        hits = set(run.doc_ids.take(run.rows[run.of_query(int(question[1]) - 1)]))
        assert {row["doc_id"] for row in rows if row["query_id"] == question} == hits | expected
    missing = [row for row in rows if (row["query_id"], row["doc_id"]) == ("g2", "d12")]
    assert [(row["part"], row["note"]) for row in missing] == [(None, "no hit: it has none of the query's terms")]
    assert checked.folder is not None
    read = CheckResult.load(checked.folder)
    assert read.explanations is not None
    assert read.explanations.equals(checked.explanations)
    page = read.html()
    assert '"explanations-data">[{"query"' in page
    assert '"explain":["harness explain RESULT"]' in page
    assert 'id="explanations-data">[]</script>' in read.html(keep_text=False)
    assert harness.check(golden, **options).explanations is None
    assert harness.check(golden, out=tmp_path / "bare", no_text=True, **options).explanations is None
