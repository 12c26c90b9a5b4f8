"""Runs and judgments of one content give one set of numbers, whatever they come as; anything else is explained."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
from collections import namedtuple
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from warm_harness import harness_command

import harness
from harness.errors import DataError, RankingError, UsageError
from harness.loaders.trec_write import write_run
from harness.metrics import TieRule
from harness.pipeline.evaluate import as_qrels, as_run

# Ties, ids that are whole numbers, a query without judgments, and one that found nothing that is judged.
RUN = {
    1: {10: 2.0, 9: 2.0, 11: 2.0, 8: 1.5, 7: 0.25},
    2: {7: 3.0, 8: 3.0, 12: 1.0},
    3: {12: 0.5, 13: 0.5},
    99: {7: 1.0},
}
QRELS = {1: {9: 1, 10: 2, 7: 1, 11: 0}, 2: {8: 1}, 3: {7: 3}}
AS_TEXT = {str(query): {str(document): value for document, value in hits.items()} for query, hits in RUN.items()}
METRICS = "nDCG@2,nDCG@10,DCG@3,AP,RR,P@1,R@3,ERR,Judged@5"
ROWS = [(query, document, score) for query, hits in RUN.items() for document, score in hits.items()]
JUDGED = [(query, document, grade) for query, grades in QRELS.items() for document, grade in grades.items()]
LIBRARIES = {
    "ir_measures": (("query_id", "doc_id", "score"), ("query_id", "doc_id", "relevance")),
    "PyTerrier": (("qid", "docno", "score"), ("qid", "docno", "label")),
    "ranx": (("q_id", "doc_id", "score"), ("q_id", "doc_id", "score")),
    "BEIR": (("query-id", "corpus-id", "score"), ("query-id", "corpus-id", "score")),
}


class StreamOnly:
    """A table of a library that is not imported here: all that Polars and others promise is a stream of Arrow's."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


class InterchangeOnly:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return self._table.__dataframe__(nan_as_null, allow_copy)


def frame(rows: list[tuple[int, int, float]], names: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(names))


def arrow(rows: list[tuple[Any, Any, float]], names: tuple[str, ...]) -> pa.Table:
    return pa.table({name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)})


def views(table: pa.Table) -> pa.Table:
    """Ids as Polars hands them out: views of strings, and a dictionary of such for a categorical column."""
    query, document, *_ = table.column_names
    texts = {name: table[name].cast(pa.string()).cast(pa.string_view()) for name in (query, document)}
    encoded = texts[query].cast(pa.string()).combine_chunks().dictionary_encode()
    dictionary = encoded.dictionary.cast(pa.string_view())
    table = table.set_column(0, query, pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.uint32()), dictionary))
    return table.set_column(1, document, texts[document])


def runs() -> dict[str, object]:
    found: dict[str, object] = {
        "dictionaries": RUN,
        "dictionaries of texts": AS_TEXT,
        "pairs": {query: list(hits.items()) for query, hits in RUN.items()},
        "pairs as lists": {query: [list(hit) for hit in hits.items()] for query, hits in RUN.items()},
        "NumPy's numbers": {
            np.int64(query): {np.int32(document): np.float32(score) for document, score in hits.items()}
            for query, hits in RUN.items()
        },
        "hits by query": {
            query: [{"corpus_id": document, "score": score} for document, score in hits.items()]
            for query, hits in RUN.items()
        },
        "triples": ROWS,
        "ScoredDoc": [ir_measures.ScoredDoc(str(query), str(document), score) for query, document, score in ROWS],
        "MTEB": {"mteb_model_meta": {"model_name": "m", "revision": None}, "default": {"test": AS_TEXT}},
        "columns": as_run(RUN),
        "unsorted rows": frame(ROWS[::-1], LIBRARIES["PyTerrier"][0]),
        "PyTerrier's other columns": frame(ROWS, LIBRARIES["PyTerrier"][0]).assign(
            docid=range(len(ROWS)), query="a text", rank=[0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0]
        ),
        "mixed ids": frame([(str(q) if q == 2 else q, d, s) for q, d, s in ROWS], LIBRARIES["ranx"][0]),
        "a stream": StreamOnly(views(arrow(ROWS, LIBRARIES["ranx"][0]))),
        "the interchange protocol": InterchangeOnly(arrow(ROWS, LIBRARIES["ranx"][0])),
        "a batch": arrow(ROWS, LIBRARIES["ranx"][0]).to_batches()[0],
        "a reader": arrow(ROWS, LIBRARIES["ranx"][0]).to_reader(),
    }
    for library, (names, _) in LIBRARIES.items():
        found[f"{library}, pandas"] = frame(ROWS, names)
        found[f"{library}, Arrow"] = arrow(ROWS, names)
    return found


def judgments() -> dict[str, object]:
    found: dict[str, object] = {
        "dictionaries": QRELS,
        "pairs": {query: list(grades.items()) for query, grades in QRELS.items()},
        "triples": JUDGED,
        "Qrel": [ir_measures.Qrel(str(query), str(document), grade) for query, document, grade in JUDGED],
        "columns": as_qrels(QRELS),
        "a stream": StreamOnly(views(arrow(JUDGED, LIBRARIES["PyTerrier"][1]))),
    }
    for library, (_, names) in LIBRARIES.items():
        found[f"{library}, pandas"] = frame(JUDGED, names)
        found[f"{library}, Arrow"] = arrow(JUDGED, names)
    return found


def same(run: Any, qrels: Any, ties: TieRule = TieRule.TREC_EVAL) -> bool:
    """Every value, and every bound that ties allow, to the last bit."""
    options = {"ties": ties} if ties is not TieRule.AVERAGE else {"ties": ties, "metrics": "nDCG@2,DCG@3,AP,R@3"}
    given = {"metrics": METRICS, **options}
    expected, found = harness.evaluate(RUN, QRELS, **given), harness.evaluate(run, qrels, **given)
    assert list(found.query_ids) == list(expected.query_ids) == ["1", "2", "3"]
    assert found.counts == expected.counts
    for side in ("values", "low", "high"):
        np.testing.assert_array_equal(getattr(found, side), getattr(expected, side))
    return True


@pytest.mark.parametrize("ties", [TieRule.TREC_EVAL, TieRule.AVERAGE])
@pytest.mark.parametrize("name", runs())
def test_every_shape_of_a_run_gives_the_same_numbers(name, ties):
    assert same(runs()[name], QRELS, ties)


@pytest.mark.parametrize("name", [name for name in runs() if name not in ("MTEB", "unsorted rows")])
def test_the_order_given_is_that_of_the_engine(name):
    assert same(runs()[name], QRELS, TieRule.ENGINE)


@pytest.mark.parametrize("name", judgments())
def test_every_shape_of_judgments_gives_the_same_numbers(name):
    assert same(RUN, judgments()[name])


def test_the_ties_here_matter():
    scores = harness.evaluate(RUN, QRELS, "nDCG@2")
    assert scores.means()[0].low < scores.means()[0].high


@pytest.mark.parametrize("listed", [list, tuple, np.array, pd.Series])
def test_lists_of_ids_are_best_first_under_every_tie_rule(listed):
    order = [3, 20, 100, 1]
    grades = {0: {3: 1, 100: 2, 20: 0}}
    expected = harness.evaluate({0: {document: -float(rank) for rank, document in enumerate(order)}}, grades, METRICS)
    for ties in (TieRule.TREC_EVAL, TieRule.ENGINE):
        found = harness.evaluate({0: listed(order)}, grades, METRICS, ties=ties)
        np.testing.assert_array_equal(found.values, expected.values)
        np.testing.assert_array_equal(found.low, found.high)
    assert as_run({0: listed(order)}).scores.tolist() == [4.0, 3.0, 2.0, 1.0]


def test_a_document_listed_twice_is_refused():
    with pytest.raises(RankingError, match="'3'"):
        harness.evaluate({0: [3, 4, 3]}, {0: [3]}, "AP")


@pytest.mark.parametrize("relevant", [[3, 7], (3, 7), {3, 7}, frozenset({3, 7}), np.array([3, 7]), {3: 1, 7: 1}])
def test_judgments_without_grades_have_grade_1(relevant):
    found = as_qrels({0: relevant, "one": 3, "other": "7"})
    assert dict(zip(found.doc_ids, [1, 1], strict=True)) == {"3": 1, "7": 1}
    assert found.grades.tolist() == [1] * 4
    assert found.query_ids.to_list() == ["0", "one", "other"]


def test_lists_of_sentence_transformers_number_the_queries():
    """As `util.semantic_search` gives them; judgments name queries by their positions."""
    found = [
        [{"corpus_id": 3, "score": 0.9}, {"corpus_id": 1, "score": 0.5}],
        [],
        [{"corpus_id": 2, "score": 0.4}],
    ]
    scores = harness.evaluate(found, {0: [1], 1: [2], 2: [2]}, "RR,AP")
    assert scores.to_frame()["RR"].to_dict() == {"0": 0.5, "1": 0.0, "2": 1.0}


def test_lists_beside_judgments_that_name_queries_otherwise_are_refused():
    found = [[{"corpus_id": "a", "score": 1.0}], [{"corpus_id": "b", "score": 1.0}]]
    with pytest.raises(UsageError, match=r"2 lists name no query, .* name 1 query otherwise, such as '2'"):
        harness.evaluate(found, {"1": {"a": 1}, "2": {"b": 1}}, "RR")


def test_lists_are_in_the_order_of_a_dataset_and_whole_numbers_are_positions():
    dataset = harness.Dataset.of({"1": "x", "0": "y"}, {"p": "x", "q": "y"}, {"p": {"1": 1}, "q": {"1": 1}})
    by_position = [[{"corpus_id": 0, "score": 1.0}], [{"corpus_id": np.int64(1), "score": 1.0}]]
    by_id = [[{"corpus_id": "1", "score": 1.0}], [{"corpus_id": "0", "score": 1.0}]]
    for found in (by_position, by_id):
        assert harness.evaluate(found, dataset, "RR").to_frame()["RR"].to_dict() == {"p": 1.0, "q": 0.0}
    with pytest.raises(UsageError, match="documents by position, from 0 to 2, and 'dataset' has 2"):
        harness.evaluate([[{"corpus_id": 2, "score": 1.0}], [{"corpus_id": 0, "score": 1.0}]], dataset, "RR")


@pytest.mark.parametrize("names", [("query_id", "doc_id", "relevance"), ("query-id", "corpus-id", "score")])
def test_rows_may_be_dictionaries(names):
    rows = [dict(zip(names, row, strict=True)) for row in [("q", "a", 2), ("q", "b", 0), ("p", "a", 1)]]
    qrels = as_qrels(rows)
    assert (qrels.query_ids.to_list(), qrels.grades.tolist()) == (["q", "p"], [2, 0, 1])
    hits = [dict(zip((*names[:2], "score"), row, strict=True)) for row in [("q", "a", 2.5), ("p", "b", 0.5)]]
    assert as_run(hits).scores.tolist() == [2.5, 0.5]
    with pytest.raises(UsageError, match="as dictionaries or named tuples"):
        as_qrels([{"query_id": "q", "relevance": 1}])


def test_rows_of_one_query_need_not_stand_together():
    rows = [("b", "x", 1.0), ("a", "x", 2.0), ("b", "y", 3.0)]
    run = as_run(rows)
    assert run.query_ids.to_list() == ["b", "a"]
    assert run.indptr.tolist() == [0, 2, 3]


Named = namedtuple("Named", ["run", "qid", "rank", "sim", "docno"])


def test_named_tuples_are_read_by_their_names():
    run = as_run([Named("r", 1, 0, 2.5, "a")])
    assert (run.query_ids.to_list(), run.doc_ids.to_list(), run.scores.tolist()) == (["1"], ["a"], [2.5])


# Files.


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {name: tmp_path / name for name in ("run.trec", "run.json", "run.json.gz", "run.parquet", "st.jsonl")}
    write_run(paths["run.trec"], as_run(RUN), "tag")
    paths["run.json"].write_text(json.dumps(RUN))
    paths["run.json.gz"].write_bytes(gzip.compress(json.dumps(AS_TEXT).encode()))
    # A column more than is read, ids as whole numbers, and queries that do not stand together.
    table = arrow([ROWS[at] for at in (5, 0, 6, 1, 2, 7, 3, 4, 8, 9, 10)], LIBRARIES["PyTerrier"][0])
    parquet.write_table(table.append_column("query", pa.array(["text"] * len(table))), paths["run.parquet"])
    lines = [
        {"query_id": query, "query": "text", "results": [{"corpus_id": d, "score": s} for d, s in hits.items()]}
        for query, hits in RUN.items()
    ]
    paths["st.jsonl"].write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    paths["mteb"] = tmp_path / "Task_predictions.json"
    paths["mteb"].write_text(json.dumps({"mteb_model_meta": {"model_name": "m"}, "default": {"test": AS_TEXT}}))
    for name, content in (("qrels.json", QRELS), ("rows.json", JUDGED)):
        paths[name] = tmp_path / name
        paths[name].write_text(json.dumps(content))
    paths["qrels.parquet"] = tmp_path / "qrels.parquet"
    parquet.write_table(arrow(JUDGED, LIBRARIES["ranx"][1]), paths["qrels.parquet"])
    return paths


@pytest.mark.parametrize("run", ["run.trec", "run.json", "run.json.gz", "run.parquet", "st.jsonl", "mteb"])
def test_every_file_of_a_run_gives_the_same_numbers(files, run):
    assert same(files[run], QRELS)
    assert same(str(files[run]), QRELS)


@pytest.mark.parametrize("qrels", ["qrels.json", "rows.json", "qrels.parquet"])
def test_every_file_of_judgments_gives_the_same_numbers(files, qrels):
    assert same(RUN, files[qrels])


def test_the_command_takes_the_files_too(files):
    """And names a run in a file of several by the file and the run."""
    several = files["mteb"].with_name("several_predictions.json")
    several.write_text(json.dumps({"ko": {"dev": AS_TEXT, "test": AS_TEXT}}))
    chosen = [files["run.trec"], files["run.parquet"], files["mteb"], f"{several}#ko/test", f"{several}#dev"]
    options = [argument for path in chosen for argument in ("--run", path)]
    command = [
        *harness_command(),
        "eval",
        "--qrels",
        files["qrels.json"],
        *options,
        "--format",
        "csv",
        "--metrics",
        "AP",
    ]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    names = [run for _, run, metric, *_ in (row.split(",") for row in rows) if metric == "AP"]
    assert names == [
        "run.trec", "run.parquet", "Task_predictions.json", "several_predictions.json#ko/test",
        "several_predictions.json#dev",
    ]  # fmt: skip
    assert len({row.split(",", 2)[2] for row in rows if ",AP," in row}) == 1


def test_predictions_are_stored_in_no_order(files):
    heap = {"1": {"a": 1.0, "b": 3.0, "c": 2.0}}
    run = as_run({"default": {"test": heap}})
    assert run.doc_ids.take(run.rows) == ["b", "c", "a"]
    assert harness.evaluate({"default": {"test": heap}}, {1: ["b"]}, "RR", ties="engine").means()[0].value == 1.0


def test_one_of_several_predictions_has_to_be_named(tmp_path):
    held = {"mteb_model_meta": {}, "ko": {"dev": AS_TEXT, "test": AS_TEXT}, "en": {"test": AS_TEXT}}
    path = tmp_path / "x_predictions.json"
    path.write_text(json.dumps(held))
    for fragment, problem in [
        ("", "there are 3 runs, and only one can be scored: ko/dev, ko/test, en/test"),
        ("#test", "there are 2 runs"),
        ("#ko", "there are 2 runs"),
        ("#de/test", "there is no run 'de/test': ko/dev, ko/test, en/test"),
    ]:
        with pytest.raises(UsageError, match=problem) as caught:
            harness.evaluate(f"{path}{fragment}", QRELS)
        assert str(path) in str(caught.value)
    assert "predictions['ko']['dev']" in str(caught.value.fix)
    for fragment in ("#ko/test", "#dev", "#en"):
        assert same(f"{path}{fragment}", QRELS)
    with pytest.raises(UsageError, match="there are 3 runs"):
        harness.evaluate(held, QRELS)
    odd = tmp_path / "a#b.json"
    odd.write_text(json.dumps(AS_TEXT))
    assert same(odd, QRELS)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.json", "", "holds nothing"),
        ("x.json", "{", "is not JSON"),
        ("x.json", '{"q": {"a": 1, "a": 2}}', "the key 'a' occurs twice"),
        ("x.json", '["a", "b"]', "it holds a list"),
        ("x.json", '{"q": {"a": "high"}}', "the value is a str"),
        ("x.json", '{"q": 5.5}', "query 'q' has a float"),
        ("x.parquet", "no such file", "cannot be read as Parquet"),
    ],
)
def test_a_malformed_file_is_named_with_its_fault(tmp_path, name, content, problem):
    (tmp_path / name).write_text(content)
    for arguments in ((tmp_path / name, QRELS), (RUN, tmp_path / name)):
        with pytest.raises(DataError, match=problem) as caught:
            harness.evaluate(*arguments)
        assert caught.value.source == str(tmp_path / name)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"query_id": 1}\n{"query_id": 2, "results": []}\nnothing', r"2 problems\n  line 1: .*\n  line 3"),
        ('{"query_id": 1, "results": []}\n{"query_id": 1, "results": []}', "line 2: query 1 occurs twice"),
    ],
)
def test_malformed_predictions_are_named_with_their_lines(tmp_path, content, problem):
    (tmp_path / "x.jsonl").write_text(content)
    with pytest.raises(DataError, match=problem):
        harness.evaluate(tmp_path / "x.jsonl", QRELS)


def test_a_parquet_file_without_the_columns_is_named(tmp_path):
    parquet.write_table(pa.table({"docno": ["a"], "score": [1.0]}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="without a column query_id or qid or q_id; its columns: docno, score"):
        harness.evaluate(tmp_path / "x.parquet", QRELS)


def test_a_fragment_of_a_file_with_one_run_is_refused(files):
    with pytest.raises(DataError, match="holds one run, and none is called 'test'"):
        harness.evaluate(f"{files['run.json']}#test", QRELS)


# Everything else.


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "None"),
        (5, "an int (5)"),
        (object(), "an object"),
        (["d1", "d2"], "a list (['d1', 'd2'])"),
        ([1, 2], "a list ([1, 2])"),
        ([["a"], ["b"]], "a list ([['a'], ['b']])"),
        ({"q1": 0.5}, "a dict in which query 'q1' has a float (0.5)"),
        ({"q0": {"a": 1}, "q1": None}, "a dict in which query 'q1' has None"),
        ({"q1": pd.DataFrame({"a": [1]})}, "a dict in which query 'q1' has a DataFrame"),
        ({"q1": ["a", 1.5]}, "a dict in which query 'q1' has a list (['a', 1.5])"),
        ({"q1": (doc for doc in [2.5])}, "a dict in which query 'q1' has a list ([2.5])"),
        ((row for row in ROWS), "a generator, which can be read once only: make a list of it"),
        (pd.DataFrame(), "a table without a column query_id or qid or q_id and without doc_id"),
        (pd.DataFrame([[1, 2, 3]]), "its columns: 0, 1, 2"),
        (pd.DataFrame({"qid": [1], "docno": [2]}), "; its columns: qid, docno"),
        (pa.table({"qid": [1]}), "a table without a column doc_id or docno or corpus-id"),
        (pd.DataFrame([[1, 2, 3, 4]], columns=["qid", "docno", "score", "score"]), "a table with two columns score"),
        (pd.Series([1, 2]), "a Series"),
        (pd.DataFrame, "a type"),
        (b"run.trec", "a bytes"),
        ([{"query_id": 1}], "a list"),
    ],
)
def test_another_shape_is_described_and_all_that_are_taken_are_listed(value, says):
    with pytest.raises(UsageError) as caught:
        harness.evaluate(value, QRELS)
    assert says in caught.value.problem
    assert caught.value.problem.startswith("the run is ")
    assert caught.value.exit_code == 2
    for shape in (
        "{query id: [document id, …], best first}",
        "PyTerrier",
        "TREC run",
        "(query id, document id, score)",
    ):
        assert shape in str(caught.value)


@pytest.mark.parametrize(
    "value", [None, 5, ["d1"], {"q1": 0.5}, pd.DataFrame({"qid": [1]}), {"q": {"s": {"d": {}}}, "r": 1.5}]
)
def test_other_judgments_are_refused_alike(value):
    with pytest.raises(UsageError, match=r"^the judgments are ") as caught:
        harness.evaluate(RUN, value)
    for shape in (
        "{query id: {document id: grade}}",
        "docno, label (PyTerrier)",
        "harness.data.types.Qrels",
        "of grade 1",
    ):
        assert shape in str(caught.value)


def test_a_run_is_no_set_because_that_has_no_order():
    with pytest.raises(UsageError, match="query 1 has a set"):
        harness.evaluate({1: {"a", "b"}}, QRELS)


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({1.5: {"a": 1.0}}, "the query id is a float (1.5), expected a string or a whole number"),
        ({True: {"a": 1.0}}, "the query id is a bool (True)"),
        ({"q": {None: 1.0}}, "query 'q': a document id is None"),
        ({"q": [(("a", "b"), 1.0)]}, "query 'q': a document id is a tuple (('a', 'b'))"),
        ({"q": {"a": None}}, "query 'q', document 'a': the value is None, expected a number"),
        ({"q": {"a": {1.0}}}, "query 'q', document 'a': the value is a set ({1.0})"),
        ([("q", "a", "high")], "query 'q', document 'a': the value is a str ('high')"),
        ({1: {"a": 1.0}, "1": {"b": 2.0}}, "query id 1 occurs twice: as int and as text"),
        ({"q": {"\ud800": 1.0}}, "holds a lone surrogate, which is not a character"),
        (pd.DataFrame({"qid": [1.5], "docno": ["a"], "score": [1]}), "column 'qid': an id is a float (1.5)"),
        (pa.table({"qid": [1.5], "docno": ["a"], "score": [1]}), "column 'qid' holds double"),
        (pa.table({"qid": ["a", None], "docno": ["a", "b"], "score": [1, 2]}), "column 'qid' lacks 1 id"),
        (pa.table({"qid": ["a"], "docno": ["a"], "score": ["1"]}), "not a number: string"),
    ],
)
def test_wrong_ids_and_numbers_are_named(run, problem):
    with pytest.raises(DataError) as caught:
        harness.evaluate(run, QRELS)
    assert problem in str(caught.value)
    assert caught.value.source == "run"


@pytest.mark.parametrize("score", [None, float("nan")])
def test_a_missing_score_of_a_table_is_refused(score):
    columns = {"qid": [1, 1], "docno": [7, 8], "score": [1.0, score]}
    missing = "column 'score' lacks 1 number" if score is None else "grade nan of document '8' is not a number"
    frame, table = pd.DataFrame(columns), pa.table(columns)
    with pytest.raises(RankingError, match="a score is NaN"):
        harness.evaluate(frame, QRELS)
    with pytest.raises(DataError, match="grade nan of document '8' is not a number"):
        harness.evaluate(RUN, frame)
    with pytest.raises((RankingError, DataError), match="column 'score' lacks 1 number" if score is None else "NaN"):
        harness.evaluate(table, QRELS)
    with pytest.raises(DataError, match=missing):
        harness.evaluate(RUN, table)


@pytest.mark.parametrize("grade", [float("nan"), 2.0**31, float("inf")])
def test_grades_are_numbers_of_32_bits(grade):
    for qrels in ({1: {"a": grade}}, [(1, "a", grade)], pa.table({"qid": [1], "docno": ["a"], "label": [grade]})):
        with pytest.raises(DataError, match="of document 'a' is not a number of 32 bits"):
            harness.evaluate(RUN, qrels)


@pytest.mark.parametrize(
    "run",
    [
        {},
        [],
        [[], []],
        {"q1": {}},
        {"q1": [], "q2": {}},
        {"default": {"test": {}}},
        pd.DataFrame({"qid": [], "docno": [], "score": []}),
    ],
)
def test_a_run_without_hits_is_invalid_and_not_zero(run):
    with pytest.raises(DataError, match="run: 1 problem\n  it holds no hits"):
        harness.evaluate(run, QRELS, ["AP"])


def test_minus_infinity_ranks_last_in_every_shape_and_infinity_is_refused(tmp_path):
    low, high = float("-inf"), float("inf")
    judged = {"q": {"a": 1}}

    def shapes(score):
        hits = {"q": {"a": score, "b": -5.0}}
        frame = pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [score, -5.0]})
        as_json, as_table = tmp_path / "run.json.gz", tmp_path / "run.parquet"
        as_json.write_bytes(gzip.compress(json.dumps(hits).encode()))  # -Infinity, as Python writes it
        frame.to_parquet(as_table)
        return hits, {"q": list(hits["q"].items())}, frame, as_json, as_table

    for run in shapes(low):
        assert harness.evaluate(run, judged, "RR").means()[0].value == 0.5
        assert harness.evaluate(run, judged, "RR", ties="trec_eval_10").means()[0].value == 0.5
    for run in shapes(high):
        named = DataError if isinstance(run, Path) else RankingError
        with pytest.raises(named, match=re.escape(run.name) if isinstance(run, Path) else "infinite"):
            harness.evaluate(run, judged, "RR")


def test_lists_that_end_in_minus_infinity_are_looked_at_without_a_warning_of_numpy():
    """The difference of two infinities is not a number, and NumPy warns of it, which is an error in tests."""
    low = float("-inf")
    run = {f"q{number}": {"a": 2.0, "b": 1.0, "c": low, "d": low} for number in range(6)}
    scores = harness.evaluate(run, {f"q{number}": {"a": 1} for number in range(6)}, "RR")
    assert [finding.check for finding in scores.findings] == []
