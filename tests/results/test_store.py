from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_report import sample_report
from warm_harness import script_command

from harness.data.types import Ids, Qrels, Queries, Run
from harness.errors import ResultError, UsageError
from harness.loaders.trec import read_run
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.results.comparison import Comparison
from harness.results.schema import SCHEMA_VERSION
from harness.results.scored import parity_table, per_query_table
from harness.results.stored import ResultContent, StoredResult, file_name, read_report, read_stored_run, write_result
from harness.store.result_folder import check_target
from harness.store.scratch import scratch_folder

RUN = Run(
    Ids.of(["1", "2"]),
    Ids.of(["a", "b"]),
    np.array([0, 2, 3]),
    np.array([1, 0, 0], np.int32),
    np.array([0.1, 0.1, np.float32(1) / 3], np.float32),
)
QRELS = Qrels(Ids.of(["1"]), Ids.of(["a"]), np.array([0, 1]), np.array([0], np.int32), np.array([1], np.int32))
DATASET = "cranfield"
EMPTY = ResultContent(per_query_table([], DATASET), parity_table([], DATASET))
QUERIES = Queries(Ids.of(["1", "2"]), pa.chunked_array([["secret", "text"]]), "d")


def write(folder: Path, *, overwrite: bool = False, queries: Queries | None = QUERIES) -> None:
    content = ResultContent(
        per_query_table([], DATASET),
        parity_table([], DATASET),
        runs={(DATASET, "lucene:k1=1.2;b=0.75"): RUN},
        qrels={DATASET: QRELS},
        queries={DATASET: queries} if queries is not None else {},
    )
    write_result(folder, sample_report(), content, overwrite=overwrite)


def test_a_result_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "result"
    write(folder)
    assert read_report(folder) == sample_report()
    assert read_report(folder / "report.json") == sample_report()
    assert StoredResult.open(folder).per_query().num_rows == 0
    assert Comparison.load(folder).failed == ["broken"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "parity.parquet",
        "per_query.parquet",
        "qrels",
        "queries",
        "report.json",
        "runs",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["result"]


def test_runs_keep_every_bit_of_a_score(tmp_path: Path) -> None:
    write(tmp_path / "r")
    run = read_run(tmp_path / "r" / "runs" / DATASET / f"{file_name('lucene:k1=1.2;b=0.75')}.trec.gz")
    assert run.scores.view(np.uint32).tolist() == RUN.scores.view(np.uint32).tolist()
    assert run.doc_ids.take(run.rows) == ["b", "a", "a"]


def test_texts_stay_out_on_request(tmp_path: Path) -> None:
    write(tmp_path / "r", queries=None)
    assert not (tmp_path / "r" / "queries").exists()


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


@pytest.mark.parametrize(
    ("version", "message", "fix"),
    [
        (SCHEMA_VERSION + 1, "this harness reads schema", "pip install --upgrade retrieval-harness"),
        (SCHEMA_VERSION - 1, "this harness reads schema", "make the file again with this version of harness"),
        (0, "which does not exist", "name a result folder"),
    ],
)
def test_another_schema_is_refused_with_a_remedy(tmp_path: Path, version: int, message: str, fix: str) -> None:
    write(tmp_path / "r")
    path = tmp_path / "r" / "report.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "schema": version}))
    with pytest.raises(ResultError, match=f"has schema {version}, {message}") as refused:
        read_report(tmp_path / "r")
    assert refused.value.fix.startswith(fix)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "names no schema"),
        ('{"schema": true}', "names no schema"),
        (f'{{"schema": {SCHEMA_VERSION}}}', "is damaged: kind: Field required"),
    ],
)
def test_a_damaged_report_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(ResultError, match=message):
        read_report(tmp_path)


@pytest.mark.parametrize("name", ["per_query.parquet", "parity.parquet", f"queries/{DATASET}.parquet"])
def test_a_table_with_other_columns_is_named(tmp_path: Path, name: str) -> None:
    """As a traceback it said nothing of the file."""
    write(tmp_path / "result")
    pq.write_table(pa.table({"a": ["x"], "query_id": [1]}), tmp_path / "result" / name)
    with pytest.raises(ResultError, match=rf"{name}' is not a table that harness wrote: .*; it has a, query_id"):
        read_snapshots(tmp_path / "result")


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("per_query.parquet", "dataset, backend, query_id, metric, value"),
        ("parity.parquet", "dataset, backend, query_id, level"),
        (f"queries/{DATASET}.parquet", "id, text"),
    ],
)
def test_a_table_with_null_values_is_named(tmp_path: Path, name: str, columns: str) -> None:
    """Only the cause of a difference may be null."""
    write(tmp_path / "result")
    schema = pq.read_schema(tmp_path / "result" / name)
    pq.write_table(pa.table([pa.nulls(1, kind) for kind in schema.types], schema=schema), tmp_path / "result" / name)
    with pytest.raises(ResultError, match=rf"{name}' lacks values: {columns} must have one in each row"):
        read_snapshots(tmp_path / "result")


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
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert not (tmp_path / "deep").exists()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, where nobody can make a folder")
@pytest.mark.parametrize("place", ["/proc/result", "/proc/a/result"])
def test_a_place_where_nobody_can_make_a_folder_is_refused_at_once(place: str) -> None:
    with pytest.raises(ResultError, match="'/proc' is not a folder that can be written"):
        check_target(Path(place), overwrite=False)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, where nobody can make a folder")
def test_no_lock_is_waited_for_where_none_can_be() -> None:
    with pytest.raises(OSError, match="/proc"), scratch_folder(Path("/proc"), ".scratch-"):
        pass


def test_numbered_results_never_share_a_name(tmp_path: Path) -> None:
    (tmp_path / "reports" / "x-3").mkdir(parents=True)  # empty: nobody's
    places = [write_result(tmp_path / "reports" / "x", sample_report(), EMPTY, numbered=True).name for _ in range(3)]
    assert places == ["x", "x-2", "x-3"]
    assert all(read_report(tmp_path / "reports" / name) == sample_report() for name in places)


WRITER = """
import sys
from pathlib import Path
from sample_report import sample_report
from harness.errors import UsageError
from harness.pipeline.regress.read_snapshot import read_snapshots
from harness.results.schema import SCHEMA_VERSION
from harness.results.scored import parity_table, per_query_table
from harness.results.stored import ResultContent, write_result

content = ResultContent(per_query_table([], ""), parity_table([], ""))
for _ in range(int(sys.argv[2])):
    try:
        write_result(Path(sys.argv[1]), sample_report(), content, overwrite=sys.argv[3] == "overwrite")
        print("won")
    except UsageError as error:
        print(error.problem)
"""


@pytest.mark.parametrize(("times", "mode"), [(1, "once"), (20, "overwrite")])
def test_processes_that_write_to_one_place_at_once(tmp_path: Path, times: int, mode: str) -> None:
    script, place = tmp_path / "writer.py", tmp_path / "results" / "r"
    script.write_text(WRITER)
    place.parent.mkdir()
    command = [*script_command(), str(script), str(place), str(times), mode]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = sorted(line for process in running for line in process.communicate(timeout=60)[0].splitlines())
    expected = ["won"] * 60 if mode == "overwrite" else [f"'{place}' already holds a result"] * 2 + ["won"]
    assert said == expected
    assert [process.returncode for process in running] == [0, 0, 0]
    assert read_report(place) == sample_report()
    assert [path.name for path in place.parent.iterdir()] == ["r"]


def test_a_result_that_comes_and_goes_meanwhile_is_never_taken_for_a_file(tmp_path: Path) -> None:
    write(tmp_path / "r")
    ended = Event()

    def come_and_go() -> None:
        while not ended.is_set():
            (tmp_path / "r").rename(tmp_path / "elsewhere")
            (tmp_path / "elsewhere").rename(tmp_path / "r")

    with ThreadPoolExecutor(1) as pool:
        moves = pool.submit(come_and_go)
        try:
            for _ in range(200):
                check_target(tmp_path / "r", overwrite=True)
        finally:
            ended.set()
        moves.result()


def test_what_a_killed_writer_took_away_is_put_back(tmp_path: Path) -> None:
    write(tmp_path / "r")
    killed = tmp_path / ".harness-killed"
    (killed / "old" / "1").mkdir(parents=True)
    (tmp_path / "r").rename(killed / "old" / "1" / "r")
    (tmp_path / ".harness-killed.lock").touch()
    write(tmp_path / "other")
    assert read_report(tmp_path / "r") == sample_report()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "r"]


def test_ids_with_spaces_are_kept(tmp_path: Path) -> None:
    spaced = Run(RUN.query_ids, Ids.of(["a b", "ü"]), RUN.indptr, RUN.rows, RUN.scores)
    write_result(tmp_path / "r", sample_report(), EMPTY._replace(runs={(DATASET, "x"): spaced}))
    run = read_stored_run(tmp_path / "r", DATASET, "x")
    assert run.doc_ids.take(run.rows) == ["ü", "a b", "a b"]
    assert run.indptr.tolist() == [0, 2, 3]
    assert run.scores.view(np.uint32).tolist() == RUN.scores.view(np.uint32).tolist()
    with pytest.raises(ResultError, match="holds no run of 'y'"):
        read_stored_run(tmp_path / "r", DATASET, "y")
