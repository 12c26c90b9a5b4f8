"""Faults of files that were silent or ended in a traceback: each is refused in one error that names the file."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from warm_harness import harness_command

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.encoders.precomputed import PrecomputedEncoder
from harness.encoders.settings import Settings
from harness.errors import CardError, DataError, HarnessError, UnknownNameError, UsageError
from harness.exact.postings import as_sparse
from harness.loaders import load_corpus, load_dataset
from harness.loaders.golden import golden_of_objects, load_golden
from harness.loaders.source import open_source
from harness.plan.backend_spec import parse_backends
from harness.plan.dataset_list import parse_datasets
from harness.registry.cards import EncoderName
from harness.store.decompression import LIMITS
from harness.user_path import user_path

QRELS = {"q1": {"a": 1}}
GOOD_RUN = "q1 Q0 a 1 2 t\nq1 Q0 b 2 1 t\n"
DEEP = '{"a":' * 1000 + "1" + "}" * 1000
FILES = {
    "corpus.jsonl": '{"_id": "a", "text": "one"}\n{"_id": "b", "text": "two"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "one"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\ta\t1\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "toys"
    (place / "qrels").mkdir(parents=True)
    for name, content in FILES.items():
        (place / name).write_text(content)
    return place


def write_table(path: Path, columns: dict[str, object] | pa.Table) -> Path:
    parquet.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("score", "problem"),
    [
        ("NaN", "a score is NaN: query 'q1', document 'a'"),
        ("1e400", "a score is infinite, or beyond the range of float32: query 'q1', document 'a'"),
        ("null", "query 'q1', document 'a': the value is None, expected a number"),
        ("true", "query 'q1', document 'a': the value is a bool (True), expected a number"),
        ('"3.5"', "query 'q1', document 'a': the value is a str ('3.5'), expected a number"),
        (DEEP, "lists and objects are nested more than 100 deep"),
        ('1, "x\\u0085y": 2', "the id 'x\\x85y' holds control characters"),
    ],
)
def test_a_run_of_json_is_refused_with_its_file(tmp_path: Path, score: str, problem: str) -> None:
    run = tmp_path / "run.json"
    run.write_text(f'{{"q1": {{"b": 1, "a": {score}}}}}')
    with pytest.raises(DataError) as caught:
        harness.evaluate(run, QRELS)
    assert (caught.value.source, caught.value.problems) == (str(run), (problem,))


@pytest.mark.parametrize(
    ("scores", "problem"),
    [
        ([1.0, float("nan")], "a score is NaN"),
        ([1.0, None], "column 'score' lacks 1 number"),
        ([1.0, 1e300], "a score is infinite, or beyond"),
        ([True, False], "column 'score' holds a value that is not a number: bool"),
    ],
)
def test_a_run_of_parquet_is_refused_with_its_file(tmp_path: Path, scores: list[object], problem: str) -> None:
    run = write_table(tmp_path / "r.parquet", {"query_id": ["q1", "q1"], "doc_id": ["b", "a"], "score": scores})
    with pytest.raises(DataError, match=problem) as caught:
        harness.evaluate(run, QRELS)
    assert caught.value.source == str(run)


def test_a_faulty_run_stops_none_of_the_others_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "q.qrels").write_text("q1 0 a 1\n")
    (tmp_path / "good.trec").write_text(GOOD_RUN)
    for name, content in {"nan.json": '{"q1": {"a": NaN}}', "none.json": "{}", "no-hits.json": '{"q1": {}}'}.items():
        (tmp_path / name).write_text(content)
    runs = ["good.trec", "nan.json", "none.json", "no-hits.json"]
    command = [*harness_command(), "eval", "q.qrels", *runs, "--metrics", "RR"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "good.trec  1.0000" in done.stdout
    assert "none.json" not in done.stdout
    for name in runs[1:]:
        assert f"{name}: 1 problem" in done.stderr


@pytest.mark.parametrize("content", ["{}", '{"q1": {}}'])
def test_a_run_without_hits_is_invalid_and_named(tmp_path: Path, content: str) -> None:
    run = tmp_path / "run.json"
    run.write_text(content)
    with pytest.raises(DataError, match="it holds no hits") as caught:
        harness.evaluate(run, QRELS)
    assert caught.value.source == str(run)
    toys = harness.Dataset.of({"a": "one"}, {"q1": "one"}, QRELS, name="toys")
    trial = harness.compare(
        f"run:{run}", dataset=toys, isolation="none", timing=False, out=tmp_path / "out"
    ).report.trials[0]
    assert (trial.status, "it holds no hits" in str(trial.error)) == ("failed", True)


@pytest.mark.parametrize("name", ["x\u0085y", "x\u009b31m", "\u00a0x", "x\u2028"])
def test_control_characters_and_outer_spaces_of_unicode_are_no_part_of_an_id(folder: Path, name: str) -> None:
    line = json.dumps({"_id": name, "text": "t"})
    (folder / "corpus.jsonl").write_text(line + "\n")
    with pytest.raises(DataError, match="control characters"):
        load_corpus(folder)
    with pytest.raises(DataError, match="control characters"):
        golden_of_objects([{"id": name, "question": "q", "expected": ["a"]}])


def test_control_characters_in_ids_of_judgments_and_runs_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "q.qrels").write_text("q1 0 a 1\nq1 0 b\u0085 1\n")
    with pytest.raises(DataError, match=r"line 2: the document id 'b\\x85' holds control characters"):
        harness.evaluate({"q1": {"a": 1}}, tmp_path / "q.qrels")
    (tmp_path / "r.trec").write_text("q1 Q0 a\u009b 1 2 t\n")
    with pytest.raises(DataError, match=r"r.trec: 1 problem\n  the id 'a\\x9b' holds control characters"):
        harness.evaluate(tmp_path / "r.trec", QRELS)
    with pytest.raises(DataError, match="holds control characters"):
        harness.evaluate({"q1": {"a\x07": 1}}, QRELS)


def test_columns_that_are_there_twice_and_times_that_python_lacks_are_named(folder: Path) -> None:
    (folder / "corpus.jsonl").unlink()
    table = folder / "corpus.parquet"
    write_table(table, pa.table([["a"], ["x"], ["y"]], names=["_id", "text", "text"]))
    with pytest.raises(DataError, match="the column 'text' occurs 2 times"):
        load_corpus(folder)
    write_table(table, pa.table([["a"], ["x"], [["y"]]], names=["_id", "text", "text"]))
    with pytest.raises(DataError, match="the column 'text' occurs 2 times"):
        load_corpus(folder)
    late = pa.array([2**62], pa.int64()).cast(pa.timestamp("us"), safe=False)
    write_table(table, {"_id": ["a"], "text": ["x"], "when": late})
    with pytest.raises(DataError, match=r"column 'when' of timestamp\[us\]: date value out of range"):
        load_corpus(folder)


@pytest.mark.parametrize(("name", "line"), [("corpus.jsonl", "line 1: "), ("corpus.json", "")])
def test_deep_json_is_refused(folder: Path, name: str, line: str) -> None:
    (folder / "corpus.jsonl").unlink()
    record = f'{{"_id": "a", "text": "t", "m": {DEEP}}}'
    (folder / name).write_text(f"[{record}]" if name.endswith("json") else record)
    with pytest.raises(DataError, match=f"{line}lists and objects are nested more than 100 deep"):
        load_corpus(folder)


def test_deep_and_recursive_objects_of_python_are_refused() -> None:
    nested: list[object] = ["a"]
    for _ in range(3000):
        nested = [nested]
    endless: list[object] = []
    endless.append(endless)
    for value in (nested, endless):
        with pytest.raises(HarnessError, match=r"nested|contains itself"):
            golden_of_objects([{"id": 1, "question": "q", "expected": ["a"], "field": value}])


@pytest.mark.parametrize("part", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_folder_or_a_broken_link_in_the_place_of_a_file_is_named(folder: Path, part: str) -> None:
    (folder / part).unlink()
    (folder / part).symlink_to("nowhere")
    with pytest.raises(DataError, match="is a link to 'nowhere', which does not exist") as caught:
        load_dataset(folder)
    assert caught.value.source == str(folder / part)
    (folder / part).unlink()
    (folder / part).mkdir()
    with pytest.raises(DataError, match="is a folder, and a file is expected"):
        load_dataset(folder)


def test_a_run_that_is_a_broken_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "r.trec").symlink_to("nowhere")
    with pytest.raises(DataError, match="is a link to 'nowhere'"):
        harness.evaluate(tmp_path / "r.trec", QRELS)


def test_paths_that_are_not_utf_8_are_refused_in_words(tmp_path: Path) -> None:
    name = os.fsdecode(b"g\xff.parquet")
    (tmp_path / name).write_bytes(b"")
    for call in (
        lambda: user_path(os.fsencode(tmp_path / name)),  # type: ignore[arg-type] # bytes are paths too
        lambda: harness.evaluate(tmp_path / name, QRELS),
        lambda: load_corpus(str(tmp_path / name)),
        lambda: load_golden(tmp_path / name),
    ):
        with pytest.raises(UsageError, match=r"g\\udcff.parquet' is not UTF-8"):
            call()


def test_a_line_break_in_a_list_of_datasets_and_a_label_with_a_space_are_refused_in_words() -> None:
    for text in ("fi\rqa", "a\nb"):
        with pytest.raises(UsageError, match="is not a list of names: a name holds a line break"):
            parse_datasets(text)
    for item, plain in (("my label=csr", "my-label"), ("=csr", "label"), ("é!=csr", "é")):
        with pytest.raises(UsageError, match=f"is not a label: .*\n  write {plain}=csr"):
            parse_backends(item)


def test_a_card_without_a_name_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ("datasets", "backends"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "mine.toml").write_text('summary = "x"\n')
    with pytest.raises(UnknownNameError, match=r"'datasets/mine\.toml' is not a card: it lacks 'name'"):
        load_dataset("mine")
    with pytest.raises(UnknownNameError, match=r"'backends/mine\.toml' is not a card: it lacks 'name'"):
        parse_backends("mine")


def test_published_scores_of_unknown_metrics_are_refused_before_anything_is_read(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "cards" / "datasets").mkdir(parents=True)
    (tmp_path / "cards" / "datasets" / "mine.toml").write_text(
        f'name = "mine"\nsummary = "s"\nlanguage = "en"\nlicence = "none"\nsource = "here"\n'
        f'format = "beir"\npath = "{folder}"\n'
        '[[published]]\nsystem = "BM25"\nsource = "a paper"\nscores = {"nDGC@10" = "0.5"}\n'
    )
    with pytest.raises(CardError, match=r"the published scores of 'BM25': unknown metric 'nDGC'"):
        load_dataset("mine", cards=tmp_path / "cards")


def test_labels_of_another_dataset_are_refused(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text('{"query_id": "other", "doc_id": "a", "grade": 1}\n')
    with pytest.raises(DataError, match="none of 1 query is judged or in a run, such as 'other'"):
        harness.evaluate({"q1": {"a": 1.0}}, QRELS, labels=labels)
    later = harness.evaluate({"other": {"a": 1.0}, "q1": {"a": 1.0}}, QRELS, "RR", labels=labels)
    assert later.counts.judged == 2


def stored(place: Path, **columns: object) -> PrecomputedEncoder:
    for role in ("documents", "queries"):
        write_table(place / f"{role}.parquet", {"id": ["a"], **columns})
    kind: EncoderName
    backend, kind = ("flat", "dense") if "vector" in columns else ("csr-splade", "splade")
    (spec,) = parse_backends(f"{backend}:model='precomputed:{place}'")
    return PrecomputedEncoder(Settings.of(kind, spec.parameters))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"indices": [[0.5]], "values": [[1.0]]}, "'indices' holds float64, expected whole numbers"),
        ({"indices": pa.array([[2**63]], pa.list_(pa.uint64())), "values": [[1.0]]}, "beyond 64 bits"),
        ({"indices": [["a"]], "values": [[1.0]]}, r"'indices' holds list<.*string>, expected lists of numbers"),
        ({"indices": [None], "values": [None]}, "holds null, expected lists of numbers"),
        ({"vector": ["text"]}, "'vector' holds string, expected lists of numbers"),
        ({"vector": [["text"]]}, r"'vector' holds list<.*string>, expected lists of numbers"),
        ({"vector": pa.array([None], pa.list_(pa.float32()))}, "'vector' has 1 row without a list"),
    ],
)
def test_columns_of_vectors_hold_lists_of_numbers(tmp_path: Path, columns: dict[str, object], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        stored(tmp_path, **columns).encode(Inputs(Ids.of(["a"])), "documents")


def test_unsigned_columns_of_sparse_vectors_are_read(tmp_path: Path) -> None:
    columns = pa.array([[3, 1]], pa.list_(pa.uint32()))
    rows = stored(tmp_path, indices=columns, values=[[2.0, 1.0]]).encode(Inputs(Ids.of(["a"])), "documents")
    assert isinstance(rows, SparseVectors)
    assert (rows.indices.tolist(), rows.values.tolist(), rows.dimensions) == ([1, 3], [1.0, 2.0], 4)
    empty = pa.array([[]], pa.list_(pa.uint32()))
    none = stored(tmp_path, indices=empty, values=pa.array([[]], pa.list_(pa.float32())))
    assert len(none.encode(Inputs(Ids.of(["a"])), "documents")) == 1


@pytest.mark.parametrize(
    ("indptr", "indices", "dimensions", "problem"),
    [
        ([0, 1], np.array([0.5]), 3, "indices is of dtype float64, expected whole numbers"),
        ([0, 1], np.array([2**32 - 1], np.uint32), 3, "indices holds numbers beyond 2,147,483,647"),
        ([0, -5, 1], np.array([1]), 3, "indptr falls after row 0"),
        ([[0, 1]], np.array([1]), 3, "indptr is of shape"),
        ([0, 1], [1], "3", "dimensions is '3', expected a whole number"),
    ],
)
def test_broken_sparse_vectors_from_python_are_refused(
    indptr: object, indices: object, dimensions: object, problem: str
) -> None:
    vectors = SparseVectors(indptr, indices, np.array([1.0]), dimensions)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=problem):
        as_sparse(vectors, "documents")


@pytest.mark.parametrize(
    ("name", "values"),
    [("indptr", [0, 5, 2, 3]), ("indptr", [0, 0, 2, 0]), ("indices", [0, 99, 2]), ("indices", [0.5] * 3)],
)
def test_a_matrix_whose_arrays_do_not_belong_together_is_refused(name: str, values: list[float]) -> None:
    """SciPy would read and write outside of its arrays."""
    from scipy.sparse import csc_array, csr_array

    for kind in (csr_array, csc_array):
        matrix = kind(np.eye(3, dtype=np.float32))
        setattr(matrix, name, np.array(values))
        with pytest.raises(DataError, match=r"do not belong together|expected whole numbers"):
            as_sparse(matrix, "documents")


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_content_has_limits_that_a_variable_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compress: object
) -> None:
    monkeypatch.setenv(LIMITS, "0.0001")  # a line of 53,687 bytes, and 6,710 bytes or 1/50 of the compressed size
    assert callable(compress)
    packed = {"docs.jsonl": json.dumps({"_id": "a", "text": "x" * 60_000}), "r.json": " " * 60_000 + "{}"}
    for name, content in packed.items():
        path = tmp_path / (name + {gzip.compress: ".gz", bz2.compress: ".bz2"}.get(compress, ".xz"))
        path.write_bytes(compress(content.encode()))
        with pytest.raises(DataError, match="is not decompressed further: it holds more than 6,710 bytes") as caught:
            load_corpus(path) if name == "docs.jsonl" else harness.evaluate(path, QRELS)
        assert (caught.value.source, f"{LIMITS}=10" in str(caught.value)) == (str(path), True)
    monkeypatch.setenv(LIMITS, "0.001")
    assert len(load_corpus(tmp_path / path.name.replace("r.json", "docs.jsonl"))) == 1


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_damaged_content_that_is_read_whole_is_named(tmp_path: Path, compress: object) -> None:
    assert callable(compress)
    name = "qrels.json"
    content = json.dumps({str(number): {str(number * number): 1} for number in range(2000)}).encode()
    packed = bytearray(compress(content))
    packed[len(packed) // 2 : len(packed) // 2 + 40] = b"\x55" * 40
    with zipfile.ZipFile(tmp_path / "toys.zip", "w") as archive:
        archive.writestr(name, bytes(packed))
        archive.writestr("corpus.jsonl", FILES["corpus.jsonl"])
    source = open_source(tmp_path / "toys.zip")
    with pytest.raises(DataError, match="cannot be read") as caught, source.open(name) as stream:
        stream.read()
    assert caught.value.source == str(tmp_path / "toys.zip" / name)


def test_members_of_an_archive_and_long_lines_have_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "toys.zip"
    noise = np.random.default_rng(1).integers(0, 10, 80_000)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("corpus.jsonl", json.dumps({"_id": "a", "text": "".join(map(str, noise))}))
        archive.writestr("queries.jsonl", FILES["queries.jsonl"])
    monkeypatch.setattr("harness.store.decompression._LONGEST_LINE", 50_000)
    with pytest.raises(DataError, match="it holds a line of more than 50,000 bytes") as caught:
        load_corpus(path)
    assert caught.value.source == str(path / "corpus.jsonl")
    monkeypatch.setenv(LIMITS, "2")
    assert len(load_corpus(path)) == 1


@pytest.mark.parametrize("value", ["0", "-1", "many", "nan", "inf"])
def test_a_factor_of_the_limits_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(LIMITS, value)
    (tmp_path / "r.json.gz").write_bytes(gzip.compress(b"{}"))
    with pytest.raises(UsageError, match=f"{LIMITS} is '{value}'"):
        harness.evaluate(tmp_path / "r.json.gz", QRELS)


def test_rows_whose_query_id_is_a_list_are_named() -> None:
    rows = [{"query_id": [], "corpus-id": None, "score": None}]
    for call in (lambda: harness.evaluate(rows, QRELS), lambda: harness.evaluate({"q1": {"a": 1.0}}, rows)):
        with pytest.raises(DataError, match=r"row 1: the query id is a list \(\[\]\)"):
            call()


def test_keys_that_are_no_text_are_no_names_of_fields() -> None:
    with pytest.raises(UsageError, match="the run is a list"):
        harness.evaluate([{np.datetime64("2020-01-01"): "q1"}], QRELS)


def test_times_in_tables_of_python_that_python_lacks_are_named() -> None:
    table = pa.table({"_id": pa.array([-(2**63)], pa.int64()).view(pa.time64("ns")), "text": ["t"]})
    with pytest.raises(DataError, match=r"column '_id' of time64\[ns\]"):
        harness.Dataset.of(table, {"q": "text"})
    with pytest.raises(DataError, match=r"column '_id' of time64\[ns\]"):
        golden_of_objects(table)
