from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sample_report import sample_report

from harness.errors import ResultError, UsageError
from harness.loaders.trec import read_run
from harness.results.assess import parity_table, per_query_table
from harness.results.comparison import Comparison
from harness.store import (
    ResultTables,
    check_target,
    file_name,
    new_folder,
    read_per_query,
    read_report,
    read_stored_run,
    write_result,
)
from harness.types import Ids, Qrels, Queries, Run

RUN = Run(
    Ids.of(["1", "2"]),
    Ids.of(["a", "b"]),
    np.array([0, 2, 3]),
    np.array([1, 0, 0], np.int32),
    np.array([0.1, 0.1, np.float32(1) / 3], np.float32),
)
QRELS = Qrels(Ids.of(["1"]), Ids.of(["a"]), np.array([0, 1]), np.array([0], np.int32), np.array([1], np.int32))
QUERIES = Queries(Ids.of(["1", "2"]), pa.chunked_array([["secret", "text"]]), "d")


def write(folder: Path, *, overwrite: bool = False, queries: Queries | None = QUERIES) -> None:
    runs = {"lucene:k1=1.2;b=0.75": RUN}
    tables = ResultTables(per_query_table([]), parity_table([]), queries)
    write_result(folder, sample_report(), tables, runs, qrels=QRELS, overwrite=overwrite)


def test_a_result_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "result"
    write(folder)
    assert read_report(folder) == sample_report()
    assert read_report(folder / "report.json") == sample_report()
    assert read_per_query(folder).num_rows == 0
    assert Comparison.load(folder).failed == ["broken"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "parity.parquet",
        "per_query.parquet",
        "qrels.tsv",
        "queries.parquet",
        "report.json",
        "runs",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["result"]


def test_runs_keep_every_bit_of_a_score(tmp_path: Path) -> None:
    write(tmp_path / "r")
    run = read_run(tmp_path / "r" / "runs" / f"{file_name('lucene:k1=1.2;b=0.75')}.trec.gz")
    assert run.scores.view(np.uint32).tolist() == RUN.scores.view(np.uint32).tolist()
    assert run.doc_ids.take(run.rows) == ["b", "a", "a"]


def test_texts_stay_out_on_request(tmp_path: Path) -> None:
    write(tmp_path / "r", queries=None)
    assert not (tmp_path / "r" / "queries.parquet").exists()


def test_an_earlier_result_is_only_replaced_on_request(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    write(folder)
    with pytest.raises(UsageError, match="already holds a result"):
        write(folder)
    (folder / "runs" / "old").touch()
    (folder / "notes.txt").write_text("mine")
    write(folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "runs" / "old").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_folder_of_the_user_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UsageError, match="is not a result of harness"):
        write(tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_newer_schema_is_refused_politely(tmp_path: Path) -> None:
    write(tmp_path / "r")
    path = tmp_path / "r" / "report.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "schema": 99}))
    with pytest.raises(ResultError, match="has schema 99, this harness reads up to 1"):
        read_report(tmp_path / "r")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "names no schema"),
        ('{"schema": 1}', "is damaged: created: Field required"),
    ],
)
def test_a_damaged_report_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(ResultError, match=message):
        read_report(tmp_path)


def test_a_missing_result_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match="no result at"):
        read_report(tmp_path / "nowhere")


def test_labels_become_file_names_that_no_other_label_has() -> None:
    assert file_name("lucene") == "lucene"
    names = {file_name(label) for label in ("run:a/b.trec.gz", "run:a_b.trec.gz", "run_a_b.trec.gz")}
    assert len(names) == 3
    assert all("/" not in name and ":" not in name for name in names)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResultError, match="cannot be written") as caught:
        check_target(tmp_path / "file" / "r", overwrite=False)
    assert caught.value.fix == "choose another --out"
    check_target(tmp_path / "deep" / "er" / "r", overwrite=False)
    assert not (tmp_path / "deep").exists()


def test_new_folders_never_share_a_name(tmp_path: Path) -> None:
    assert [new_folder(tmp_path / "reports", "x").name for _ in range(3)] == ["x", "x-2", "x-3"]


def test_ids_with_spaces_are_kept(tmp_path: Path) -> None:
    spaced = Run(RUN.query_ids, Ids.of(["a b", "ü"]), RUN.indptr, RUN.rows, RUN.scores)
    tables = ResultTables(per_query_table([]), parity_table([]), None)
    write_result(tmp_path / "r", sample_report(), tables, {"x": spaced}, qrels=None, overwrite=False)
    run = read_stored_run(tmp_path / "r", "x")
    assert run.doc_ids.take(run.rows) == ["ü", "a b", "a b"]
    assert run.indptr.tolist() == [0, 2, 3]
    assert run.scores.view(np.uint32).tolist() == RUN.scores.view(np.uint32).tolist()
    with pytest.raises(ResultError, match="holds no run of 'y'"):
        read_stored_run(tmp_path / "r", "y")
