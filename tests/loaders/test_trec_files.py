"""TREC runs and judgments: what is accepted, what is refused and how it is named."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.memory import qrels_from_dict, run_from_dict
from harness.data.ranking import order
from harness.data.types import Ids, Run
from harness.errors import DataError
from harness.loaders.trec import read_qrels, read_run, read_tagged_run
from harness.loaders.trec_write import write_run

RUN = "q1 Q0 a 1 2.5 tag\nq1 Q0 b 2 -1e-3 tag\nq2 Q0 a 1 3e38 tag\n"
QRELS = "q1 0 a 2\nq1 0 b -1\nq2 0 a 0\n"


def _as_dict(run):
    return {
        query: dict(
            zip(run.doc_ids.take(run.rows[run.of_query(row)]), run.scores[run.of_query(row)].tolist(), strict=True)
        )
        for row, query in enumerate(run.query_ids)
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text,
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace(" ", " \t  "),
        lambda text: "\ufeff" + text,
        lambda text: "\n" + text.replace("\n", "  \n\n   "),
    ],
)
@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_every_spelling_of_the_lines_is_the_same_file(tmp_path, change, pack):
    (tmp_path / "run").write_bytes(pack(change(RUN).encode()))
    (tmp_path / "qrels").write_bytes(pack(change(QRELS).encode()))
    tagged = read_tagged_run(tmp_path / "run")
    assert tagged.tag == "tag"
    expected = {"q1": {"a": 2.5, "b": float(np.float32(-1e-3))}, "q2": {"a": float(np.float32(3e38))}}
    assert _as_dict(tagged.run) == expected
    qrels = read_qrels(tmp_path / "qrels")
    assert list(qrels.query_ids) == ["q1", "q2"]
    assert qrels.grades.tolist() == [2, -1, 0]


def test_beir_judgments_are_recognised_with_and_without_header(tmp_path):
    body = "q1\ta\t2\nq1\tb\t0\nq2\ta\t1\n"
    (tmp_path / "with").write_text("query-id\tcorpus-id\tscore\n" + body)
    (tmp_path / "without").write_text(body)
    for name in ("with", "without"):
        qrels = read_qrels(tmp_path / name)
        assert list(qrels.query_ids) == ["q1", "q2"]
        assert qrels.grades.tolist() == [2, 0, 1]


def test_engine_order_is_the_rank_column_and_then_the_line(tmp_path):
    path = tmp_path / "run"
    path.write_text("q Q0 c 3 1 t\nq Q0 a 1 1 t\np Q0 x 0 1 t\nq Q0 b 2 1 t\np Q0 y 0 9 t\n")
    run = read_run(path)
    assert {query: list(hits) for query, hits in _as_dict(run).items()} == {"q": ["a", "b", "c"], "p": ["x", "y"]}
    path.write_text("q Q0 c - 1 t\nq Q0 a 1 1 t\n")
    assert list(_as_dict(read_run(path))["q"]) == ["c", "a"]


def test_all_problems_of_a_run_are_named_with_their_lines(tmp_path):
    path = tmp_path / "run.txt"
    path.write_bytes(
        b"q Q0 a 1 2.5 t\n\nq Q0 b 2 1.5\nq Q0 c 3 high t\nq Q0 d 4 nan t\nq Q0 a 5 1 t\nq Q0 \xff 6 1 t\n"
        b"q Q0 e 7 1_0 t\nq Q0 f 8 -inf t\nq Q0 g 9 1e39 t\n"
    )
    with pytest.raises(DataError) as caught:
        read_run(path)
    assert str(caught.value).splitlines() == [
        f"{path}: 7 problems",
        "  line 3: 5 columns, expected 6: query Q0 document rank score tag",
        "  line 4: the score 'high' is not a number",
        "  line 5: the score is NaN",
        "  line 6: document 'a' is listed for query 'q' on line 1 already",
        "  line 7: not UTF-8: byte 0xff",
        "  line 8: the score '1_0' is not a number",
        "  line 10: the score '1e39' is infinite, or beyond the range of float32",
    ]


def test_all_problems_of_judgments_are_named_with_their_lines(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("q 0 a 1\nq 0 b 1,5\nq 0 a 2\nq 0 c\nq 0 d 99999999999\n")
    with pytest.raises(DataError) as caught:
        read_qrels(path)
    assert str(caught.value).splitlines() == [
        f"{path}: 4 problems",
        "  line 2: the grade '1,5' is not a number",
        "  line 3: document 'a' is judged for query 'q' with grade 2, and on line 1 with 1",
        "  line 4: 3 columns, expected TREC's four: query 0 document grade",
        "  line 5: the grade '99999999999' does not fit into 32 bits",
    ]


def test_the_first_twenty_problems_are_shown_and_the_rest_counted(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("".join(f"q Q0 d 1 oops{row} t\n" for row in range(25)))
    with pytest.raises(DataError, match="25 problems") as caught:
        read_run(path)
    assert str(caught.value).splitlines()[-1] == "  … and 5 more"


def test_a_grade_arrow_refuses_but_trec_allows_is_read_line_by_line(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("q 0 a +1\n")
    assert read_qrels(path).grades.tolist() == [1]


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf\n"])
def test_an_empty_file_is_refused(tmp_path, content):
    path = tmp_path / "run"
    path.write_bytes(content)
    with pytest.raises(DataError, match="holds nothing"):
        read_run(path)


def test_an_unreadable_or_damaged_file_is_refused(tmp_path):
    with pytest.raises(DataError, match="the file does not exist"):
        read_run(tmp_path / "absent")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(RUN.encode() * 50)[:-20])
    with pytest.raises(DataError, match=r"is cut or damaged after line \d+: Compressed"):
        read_run(tmp_path / "cut.gz")


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=30),
    st.booleans(),
)
def test_a_written_run_is_read_back_bit_for_bit(tmp_path_factory, scores, packed):
    path = tmp_path_factory.mktemp("runs") / ("run.trec.gz" if packed else "run.trec")
    values = np.array(scores, dtype=np.float32)
    rows = np.arange(len(scores), dtype=np.int32)[::-1].copy()
    run = Run(
        Ids.of(["q", "none"]), Ids.of(f"d{row}" for row in rows), np.array([0, len(rows), len(rows)]), rows, values
    )
    write_run(path, run, "tag")
    again = read_run(path)
    assert list(again.query_ids) == ["q"]
    assert again.doc_ids.take(again.rows) == run.doc_ids.take(run.rows)
    assert again.scores.view(np.uint32).tolist() == values.view(np.uint32).tolist()


def test_a_run_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("before")
    for bad in ({"q 1": {"a": 1.0}}, {"q": {"a b": 1.0}}):
        with pytest.raises(DataError, match="white space"):
            write_run(path, run_from_dict(bad), "tag")
    with pytest.raises(DataError, match="tag"):
        write_run(path, run_from_dict({"q": {"a": 1.0}}), "two words")
    assert path.read_text() == "before"
    write_run(path, run_from_dict({"q": {"a": 1.0}}), "tag")
    assert path.read_text() == "q Q0 a 1 1 tag\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.trec"]


def test_dictionaries_are_refused_with_their_fault():
    with pytest.raises(DataError, match="run"):
        run_from_dict({"q": {"a": "high"}})
    with pytest.raises(DataError, match="run"):
        run_from_dict({"q": {7.5: 1.0}})
    with pytest.raises(DataError, match=r"grade 1e\+10 of document 'a' is not a number of 32 bits"):
        qrels_from_dict({"q": {"a": 1e10}})
    with pytest.raises(DataError, match="not a number of 32 bits"):
        qrels_from_dict({"q": {"a": float("nan")}})


@pytest.mark.parametrize(
    "content", ["q 0 a 2.0\nq 0 b 0.\nq 0 c -1.00\n", "query-id\tcorpus-id\tscore\nq\ta\t2.0\nq\tb\t0\nq\tc\t-1.0\n"]
)
@pytest.mark.parametrize("packed", [False, True])
def test_grades_may_be_written_with_a_point_where_they_are_whole(tmp_path, content, packed):
    path = tmp_path / "judgments.qrels"
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    qrels = read_qrels(path)
    assert dict(zip(qrels.doc_ids, qrels.grades.tolist(), strict=True)) == {"a": 2, "b": 0, "c": -1}


@pytest.mark.parametrize("lowest", ["-inf", "-Infinity", "-INF"])
def test_minus_infinity_ranks_last(tmp_path, lowest):
    path = tmp_path / "run.trec"
    path.write_text(f"q Q0 z 1 {lowest} t\nq Q0 a 2 -3 t\nq Q0 y 3 {lowest} t\n")
    run = read_run(path)
    ordered = order(run)
    assert ordered.doc_ids.take(ordered.rows) == ["a", "z", "y"]
    write_run(tmp_path / "copy.trec", run, "t")
    assert read_run(tmp_path / "copy.trec").scores.tolist() == [float("-inf"), -3.0, float("-inf")]
