"""Runs, judgments and topics as people have them: the files of tests/cases, and their neighbours."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import harness
from harness.cli.app import _build
from harness.data.problems import Problems
from harness.errors import DataError, UsageError
from harness.loaders import containers
from harness.loaders.base import DatasetSpec
from harness.loaders.parts import Files, questions_in
from harness.pipeline.evaluate import as_qrels, as_run

CASES = Path(__file__).parents[1] / "cases"
RUNS = CASES / "runs"
VALUES = {"nDCG@10": 0.790582, "AP": 0.666667, "RR": 0.75}
PLAIN, QRELS = RUNS / "plain.trec", RUNS / "plain.qrels"
HITS = {"1": {"a": 3.0, "b": 2.0, "c": 1.0}, "2": {"c": 3.0, "b": 2.0}}
JUDGED = {"1": {"a": 2, "c": 1}, "2": {"b": 1}}


def values(run: Any = PLAIN, qrels: Any = QRELS, **options: Any) -> dict[str, float]:
    scores = harness.evaluate(run, qrels, ",".join(VALUES), **options)
    return {mean.measure.name.replace("nDCG", "nDCG@10"): round(mean.value, 6) for mean in scores.means()}


def ndcg(run: Any, qrels: Any, **options: Any) -> float:
    return round(harness.evaluate(run, qrels, "nDCG@10", **options).means()[0].value, 4)


# Runs.


@pytest.mark.parametrize(
    "name", ["plain.trec", "words-after-tag.trec", "comments.trec", "three-columns.tsv", "header.csv"]
)
@pytest.mark.parametrize("pack", [lambda content: content, gzip.compress, bz2.compress, lzma.compress])
def test_a_run_in_each_layout_gives_the_values_of_the_plain_one(
    tmp_path: Path, name: str, pack: Callable[[bytes], bytes]
) -> None:
    assert values(RUNS / name) == VALUES
    ending = {gzip.compress: ".gz", bz2.compress: ".bz2", lzma.compress: ".xz"}.get(pack, "")
    (tmp_path / f"{name}{ending}").write_bytes(pack((RUNS / name).read_bytes()))
    assert values(tmp_path / f"{name}{ending}") == VALUES


@pytest.mark.parametrize("name", ["zst", "lz4"])
@pytest.mark.parametrize("file", ["plain.trec", "plain.qrels"])
def test_compressions_of_the_extra_are_read_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    package, module = {"zst": ("zstandard", "zstandard"), "lz4": ("lz4", "lz4.frame")}[name]
    library = pytest.importorskip(module)
    (tmp_path / f"{file}.{name}").write_bytes(library.compress((RUNS / file).read_bytes()))
    (tmp_path / f"ranx.{name}").write_bytes(library.compress(json.dumps(HITS).encode()))
    files = {
        "run": PLAIN,
        "qrels": QRELS,
        file.replace("plain.", "").replace("trec", "run"): tmp_path / f"{file}.{name}",
    }
    assert values(**files) == VALUES
    assert values(tmp_path / f"ranx.{name}") == VALUES
    monkeypatch.setattr(containers, "is_importable", lambda module: False)
    with pytest.raises(DataError, match=rf"which needs the package {package}\n.*retrieval-harness\[files\]"):
        values(**files)


LINES = [
    (query, document, rank, score)
    for query, hits in HITS.items()
    for rank, (document, score) in enumerate(hits.items(), 1)
]
LAYOUTS = {
    "three.txt": "".join(f"{q} {d} {r}\n" for q, d, r, _ in LINES),
    "from zero.tsv": "".join(f"{q}\t{d}\t{r - 1}\n" for q, d, r, _ in LINES),
    "by rank.tsv": "".join(f"{q}\t{d}\t{r}\n" for q, d, r, _ in sorted(LINES, key=lambda line: line[2])),
    "backwards.tsv": "".join(f"{q}\t{d}\t{r}\t{s + 0.5}\n" for q, d, r, s in LINES[::-1]),
    "three.csv": "".join(f"{q},{d},{r}\n" for q, d, r, _ in LINES),
    "scores.tsv": "".join(f"{q}\t{d}\t{s + 0.5}\n" for q, d, _, s in LINES),
    "ranking.tsv": "".join(f"{q}\t{d}\t{r}\t{s}\n" for q, d, r, s in LINES),
    "colbert": "# ColBERT\n" + "".join(f"{q} {d} {r} {s}\n" for q, d, r, s in LINES),
    "tabs.trec": "".join(f"{q}\tQ0\t{d}\t{r}\t{s}\tmy system\n" for q, d, r, s in LINES),
    "comment and words": "#x\n" + "".join(f"{q} Q0 {d} {r} {s} my system v2\n" for q, d, r, s in LINES) + "# end",
    "number in the tag": "".join(f"{q} Q0 {d} {r} {s} 2 stages\n" for q, d, r, s in LINES),
    "header.tsv": "query_id\tdoc_id\tscore\n" + "".join(f"{q}\t{d}\t{s}\n" for q, d, _, s in LINES),
    "header.txt": "query_id doc_id score\n" + "".join(f"{q} {d} {s}\n" for q, d, _, s in LINES),
    "header.run": "# made\nqid;docno;sim\n" + "".join(f"{q};{d};{s}\n" for q, d, _, s in LINES),
    "rank only.csv": "qid,pid,rank\n" + "".join(f"{q},{d},{r}\n" for q, d, r, _ in LINES[::-1]),
    "quoted.csv": '"qid","docno","score"\n' + "".join(f'"{q}","{d}","{s}"\n' for q, d, _, s in LINES),
    "rows.jsonl": "".join(json.dumps({"qid": int(q), "docid": d, "score": s}) + "\n" for q, d, _, s in LINES),
    "ranks.ndjson": "".join(json.dumps({"query_id": q, "doc_id": d, "rank": r}) + "\n" for q, d, r, _ in LINES),
    "rows.yaml": "".join(f"- {{query_id: {q}, doc_id: {d}, score: {s}}}\n" for q, d, _, s in LINES),
    "rows.json": json.dumps([{"query_id": q, "doc_id": d, "score": s} for q, d, _, s in LINES]),
    "ranks.json": json.dumps([{"query_id": q, "doc_id": d, "rank": r} for q, d, r, _ in LINES]),
    "ranx.json": json.dumps(HITS),
    "ranx without an ending": json.dumps(HITS),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_of_the_same_hits_gives_the_same_values(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LAYOUTS[name])
    assert values(tmp_path / name) == VALUES
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(b"\xef\xbb\xbf" + LAYOUTS[name].encode()))
    assert values(tmp_path / f"{name}.gz") == VALUES


def test_tables_without_scores_are_ordered_by_rank(tmp_path: Path) -> None:
    columns = {"qid": [q for q, *_ in LINES], "docno": [d for _, d, *_ in LINES], "rank": [r for _, _, r, _ in LINES]}
    parquet.write_table(pa.table(columns), tmp_path / "run.parquet")
    for run in (
        tmp_path / "run.parquet",
        pa.table(columns),
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)],
    ):
        assert values(run) == VALUES
    with pytest.raises(DataError, match="query '1' has two documents of rank 1, and there is no score"):
        values(pa.table({**columns, "rank": [1] * len(LINES)}))


def test_a_file_in_utf_16_is_named() -> None:
    with pytest.raises(DataError, match="the file is UTF-16, expected UTF-8"):
        values(RUNS / "utf16.trec")


@pytest.mark.parametrize(
    ("content", "says", "columns"),
    [
        ("1 a 9\n1 b 7\n1 c 4\n2 c 9\n2 b 8\n", "does not count 1, 2, 3: 9, 7, 4", {"score": "3"}),
        ("1 a 2 3.0\n1 b 4 2.0\n1 c 6 1.0\n2 c 1 3.0\n2 b 2 2.0\n", "does not count 1, 2, 3: 2, 4, 6", {"score": "4"}),
        ("1 a 2 3.0\n1 b 4 2.0\n1 c 6 1.0\n2 c 1 3.0\n2 b 2 2.0\n", "does not count", {"score": "4", "rank": "3"}),
        ("1 a 3\n1 b 2\n1 c 1\n2 c 2\n2 b 1\n", "in the order of the lines: query '1' has 3, 2, 1", {"score": "3"}),
        ("1 c 3\n1 b 2\n1 a 1\n2 b 2\n2 c 1\n", "in the order of the lines: query '1' has 3, 2, 1", {"rank": "3"}),
        ("1 a 1\n1 b 2\n1 c 3\n2 b 2\n2 c 1\n", "in the order of the lines: query '2' has 2, 1", {"rank": "3"}),
        ("1 a 3 1\n1 b 2 2\n1 c 1 3\n2 c 2 1\n2 b 1 2\n", "column 4 counts", {"score": "3", "rank": "4"}),
        ("1 c 3 1\n1 b 2 2\n1 a 1 3\n2 b 2 1\n2 c 1 2\n", "column 4 counts", {"rank": "3", "score": "4"}),
        ("1 a 9 1\n1 b 7 2\n1 c 4 3\n2 c 9 1\n2 b 8 2\n", "does not count 1, 2, 3: 9, 7", {"score": "3", "rank": "4"}),
        ("1 c 1 1.0\n1 b 2 2.0\n1 a 3 3.0\n2 b 1 2.0\n2 c 2 3.0\n", "query '1' has 1, 2, 3", {"score": "4"}),
        ("1 a 1 1.0\n1 b 2 2.0\n1 c 3 3.0\n2 c 1 2.0\n2 b 2 3.0\n", "query '1' has 1, 2, 3", {"rank": "3"}),
        ("1 a 1 +1.0\n1 b 2 +2.0\n1 c 3 +3.0\n2 c 1 +2.0\n2 b 2 +3.0\n", "scores rise from rank to", {"rank": "3"}),
        ("1 x a 3.0 y\n1 x b 2.0 y\n1 x c 1.0 y\n2 x c 3.0 y\n2 x b 2.0 y\n", "5 columns, expected 6", {"score": "4"}),
    ],
)
def test_a_run_with_two_readings_is_refused_and_read_by_numbered_columns(
    tmp_path: Path, content: str, says: str, columns: dict[str, str]
) -> None:
    (tmp_path / "run.txt").write_text(content)
    with pytest.raises(DataError, match=says) as caught:
        values(tmp_path / "run.txt")
    advised = [set(text.split(",")) for text in re.findall(r"--columns ([a-z_0-9=,]+)", str(caught.value))]
    assert {f"{role}={column}" for role, column in columns.items()} in advised or "5 columns" in says
    assert values(tmp_path / "run.txt", columns=columns) == VALUES


def test_an_id_with_a_space_is_never_cut(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("1 Q0 my doc 1 3.0 s\n")
    with pytest.raises(DataError, match=r"7 columns, expected 6: .* \(ids with spaces need tabs between columns\)"):
        values(path)
    path.write_text("1 Q0 doc 12 1 3.0 s\n")
    with pytest.raises(DataError, match=r"may be document 'doc' with score 1, or document 'doc 12' with score 3\.0"):
        values(path)
    path.write_text("1\tQ0\tmy doc\t1\t3.0\ts\n1\tQ0\tdoc 12\t2\t2.0\ts\n")
    assert as_run(path).doc_ids.to_list() == ["my doc", "doc 12"]


def test_queries_whose_ids_begin_with_a_mark_are_no_comments(tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("# by a tool\n#1 Q0 a 1 3.0 s\n#2 Q0 b 1 2.0 s\n")
    assert as_run(path).query_ids.to_list() == ["#1", "#2"]
    path.write_text("# by a tool\n#1 Q0 a 1 3.0 s\n#2 Q0 b 1 high s\n")
    with pytest.raises(DataError, match="line 3: the score 'high' is not a number"):
        as_run(path)
    (tmp_path / "q.qrels").write_text("# by a tool\n#1 0 a 1\n#\n#2 0 b 1\n")
    assert as_qrels(tmp_path / "q.qrels").query_ids.to_list() == ["#1", "#2"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("topic,passage,value\n1,a,3\n", "no field for the doc_id; name it, as --columns doc_id="),
        (
            "qid,docno,value\n1,a,3\n",
            (
                r"no field for the score or the rank; name it, as --columns score=value or rank=value "
                r"\(there are: qid, docno, value\)"
            ),
        ),
        ("qid,docno,score\n1,a,3\n1,a,2\n", "line 3: document 'a' is listed for query '1' on line 2 already"),
        ("qid,docno,score\n1,a,high\n1,,2\n", "line 2: the score 'high' is not a number\n  line 3: 'docno' is \"\""),
        ("qid,docno,sim,similarity\n1,a,3,2\n", "the score may be 'sim' or 'similarity': say which, as --columns"),
        ("query-id,corpus-id,score\n1,a,3\n", "looks like judgments, not like a run"),
    ],
)  # fmt: skip
def test_a_faulty_table_is_refused_with_what_its_fields_can_be(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "run.csv").write_text(content)
    with pytest.raises(DataError, match=says):
        values(tmp_path / "run.csv", columns={"query_id": "topic"} if "topic" in content else {})


def test_a_run_under_the_header_of_judgments_is_read_when_it_is_named_or_not_whole(tmp_path: Path) -> None:
    rows = "".join(f"{q}\t{d}\t{s}\n" for q, d, _, s in LINES)
    (tmp_path / "run.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    with pytest.raises(DataError, match="looks like judgments") as caught:
        values(tmp_path / "run.tsv")
    assert "--columns score=score" in str(caught.value)
    assert values(tmp_path / "run.tsv", columns={"score": "score"}) == VALUES
    (tmp_path / "run.tsv").write_text("query-id\tcorpus-id\tscore\n" + rows.replace(".0", ".5"))
    assert values(tmp_path / "run.tsv") == VALUES


# Judgments.


def test_ratings_are_judgments() -> None:
    assert values(qrels=RUNS / "rating.csv") == VALUES


QUEPID = {"queries": [{"query": "1", "ratings": {"a": 2, "c": 1}}, {"query": "2", "ratings": {"b": 1}}]}
BOOK = {
    "name": "book",
    "query_doc_pairs": [
        {"query_text": query, "doc_id": document, "position": 1, "judgements": [{"rating": grade}, {"rating": grade}]}
        for query, judged in JUDGED.items()
        for document, grade in judged.items()
    ],
}
REQUEST = {
    "requests": [
        {
            "id": query,
            "template_id": "t",
            "params": {"q": "x"},
            "ratings": [{"_index": "i", "_id": d, "rating": g} for d, g in judged.items()],
        }
        for query, judged in JUDGED.items()
    ],
    "templates": [{"id": "t", "template": {"source": {}}}],
    "metric": {"precision": {"k": 10}},
}
RRE = {
    "id_field": "id",
    "topics": [
        {
            "description": "all",
            "query_groups": [
                {
                    "name": "1",
                    "queries": [{"template": "t", "placeholders": {"$query": "1"}}],
                    "relevant_documents": {"2": ["a"], "1": ["c"]},
                },
                {"name": "2", "queries": [{"placeholders": {"$query": "2"}}], "relevant_documents": {"b": {"gain": 1}}},
            ],
        }
    ],
}
RRE_OF_QUEPID = {
    "id_field": "id",
    "queries": [
        {"placeholders": {"$query": "1"}, "relevant_documents": {"2": ["a"], "1": ["c"]}},
        {"placeholders": {"$query": "2"}, "relevant_documents": {"1": ["b"]}},
    ],
}
OBJECTS = {
    "Quepid": QUEPID,
    "a case of Quepid": {"case_name": "x", "queries": [{"query_text": q["query"], **q} for q in QUEPID["queries"]]},
    "an old case": {
        "queries": [
            {"query_text": query, "ratings": [{"doc_id": d, "rating": grade} for d, grade in judged.items()]}
            for query, judged in JUDGED.items()
        ]
    },
    "a book of Quepid": BOOK,
    "_rank_eval": REQUEST,
    "RRE": RRE,
    "RRE of Quepid": RRE_OF_QUEPID,
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
def test_exports_of_other_tools_give_the_same_values_as_objects_and_as_files(tmp_path: Path, name: str) -> None:
    assert values(qrels=OBJECTS[name]) == VALUES
    for file, content in (
        ("x.json", json.dumps(OBJECTS[name], indent=2).encode()),
        ("x.txt", json.dumps(OBJECTS[name]).encode()),
        ("x.json.gz", gzip.compress(json.dumps(OBJECTS[name]).encode())),
    ):
        (tmp_path / file).write_bytes(content)
        assert values(qrels=tmp_path / file) == VALUES


JUDGMENTS = {
    "ltr.txt": "# grade qid # doc\n# qid:1: text\n2 qid:1 # a the text\n1\tqid:1\t#\tc\ttext\n1 qid:2 # b\n",
    "letor.dat": "2 qid:1 1:0.5 2:1e-3 #docid = a inc = 1\n1 qid:1 1:0.5 #docid = c\n1 qid:2 1:1 #docid = b\n",
    "ranklib.svm": "2 qid:1 1:0.5 # a\n1 qid:1 1:0.5 # c\n1 qid:2 1:1 # b\n0 qid:2 # c\n",
    "gain.tsv": "query\tdocid\tgain\n1\ta\t2\n1\tc\t1\n2\tb\t1\n",
    "judgment.csv": "query,document_id,judgment\n1,a,2\n1,c,1\n2,b,1\n",
    "judgement.txt": "query;docid;judgement\n1;a;2\n1;c;1\n2;b;1\n",
    "comments.qrels": "# pooled\n1 0 a 2\n1 0 c 1\n# more\n2 0 b 1\n",
    "comments.tsv": "# pooled\n1\ta\t2\n1\tc\t1\n2\tb\t1\n",
    "rows.jsonl": "".join(
        json.dumps({"query": query, "docid": document, "rating": grade}) + "\n"
        for query, judged in JUDGED.items()
        for document, grade in judged.items()
    ),
    "ranx": json.dumps(JUDGED),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGMENTS)
def test_every_layout_of_the_same_judgments_gives_the_same_values(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(JUDGMENTS[name])
    assert values(qrels=tmp_path / name) == VALUES
    (tmp_path / f"{name}.xz").write_bytes(lzma.compress(JUDGMENTS[name].encode()))
    assert values(qrels=tmp_path / f"{name}.xz") == VALUES


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"queries": [{"ratings": {"a": 1}, "query": "1"}, {"ratings": {}}]}, "queries 2 has no 'query'"),
        ({"query_doc_pairs": [{"query_text": "1"}]}, "query_doc_pairs 1 has no 'doc_id'"),
        (
            {"query_doc_pairs": [{"query_text": "1", "doc_id": "a", "judgements": [{"rating": 1}, {"rating": 2}]}]},
            "'a' has the grades 1 and 2 for query '1'",
        ),
        ({"requests": [{"id": "1", "ratings": [{"rating": 1}]}]}, "requests 1, ratings 1 has no '_id'"),
        (
            {"requests": [{"id": "1", "ratings": [{"_id": "a", "_index": i, "rating": 1} for i in "xy"]}]},
            "'a' is a document of several indexes: x, y",
        ),
        (
            {"queries": [{"placeholders": {"$query": "1"}, "relevant_documents": {"high": ["a"]}}]},
            "the grade 'high' is not a number",
        ),
        ({"queries": [{"placeholders": {"$query": "1"}, "relevant_documents": {"1": "a"}}]}, "expected a list of ids"),
        ({"queries": [{"placeholders": {"x": "1"}, "relevant_documents": {"1": ["a"]}}]}, "queries 1 has no 'name'"),
    ],
)  # fmt: skip
def test_a_faulty_export_is_named(value: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        values(qrels=value)


def test_ids_of_queries_with_two_readings_are_named_with_the_option(tmp_path: Path) -> None:
    groups = [
        {"name": f"q{number}", "queries": [{"placeholders": {"$query": number}}], "relevant_documents": {"1": ["b"]}}
        for number in "12"
    ]
    with pytest.raises(DataError, match="may be its text, '1', or the name of its group, 'q1'") as caught:
        values(qrels={"query_groups": groups})
    assert "query_id=name" in str(caught.value)
    assert as_qrels({"query_groups": groups}, {"query_id": "name"}).query_ids.to_list() == ["q1", "q2"]
    (tmp_path / "rre.json").write_text(json.dumps({"query_groups": groups}))
    assert as_qrels(tmp_path / "rre.json", {"query_id": "$query"}).query_ids.to_list() == ["1", "2"]


def test_grades_of_two_columns_are_named_with_the_option(tmp_path: Path) -> None:
    path = tmp_path / "two.csv"
    path.write_text("query,docid,rating,gain\n1,a,2,1\n1,c,1,1\n2,b,1,1\n")
    with pytest.raises(DataError, match="the grade may be 'rating' or 'gain': say which, as --columns grade=rating"):
        values(qrels=path)
    assert values(qrels=path, columns="grade=rating") == VALUES
    table = pa.table({"query": ["1", "1", "2"], "docid": ["a", "c", "b"], "rating": [2, 1, 1], "gain": [1, 1, 1]})
    with pytest.raises(UsageError, match="grade may be 'rating' or 'gain'"):
        values(qrels=table)
    assert values(qrels=table, columns={"grade": "rating"}) == VALUES


def test_columns_of_runs_and_judgments_are_named_together(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("q,d,s\n" + "".join(f"{q},{d},{s}\n" for q, d, _, s in LINES))
    (tmp_path / "judged.csv").write_text("q,d,g\n1,a,2\n1,c,1\n2,b,1\n")
    files = tmp_path / "run.csv", tmp_path / "judged.csv"
    assert values(*files, columns="query_id=q,doc_id=d,score=s,grade=g") == VALUES
    for wrong in ("score=x,grade=g", "score=s,grade=x"):
        with pytest.raises(DataError, match=r"there is no field 'x', which --columns names as the (score|grade)"):
            values(*files, columns=f"query_id=q,doc_id=d,{wrong}")


def test_ratings_without_a_value_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "snapshot.csv").write_text("query,docid,rating\n1,a,2\n1,c,1\n1,z,\n2,b,1\n2,y,\n")
    for qrels in (
        tmp_path / "snapshot.csv",
        {"queries": [*QUEPID["queries"], {"query": "3", "ratings": {"z": None, "y": None}}]},
    ):
        scores = harness.evaluate(PLAIN, qrels, "AP")
        assert [str(finding.message) for finding in scores.findings] == ["2 ratings without a value are left out"]


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt"])
def test_rows_with_only_a_query_are_skipped_and_counted(tmp_path: Path, ending: str) -> None:
    rows = 'query,docid,rating\n1,a,2\n"3, of text"\n1,c,1\n2,b,1\n4,,\n'
    (tmp_path / f"snapshot.{ending}").write_text(rows)
    assert values(qrels=tmp_path / f"snapshot.{ending}") == VALUES
    scores = harness.evaluate(PLAIN, tmp_path / f"snapshot.{ending}", "AP")
    assert [str(finding.message) for finding in scores.findings] == ["2 rows with only a query are skipped"]


def test_other_incomplete_rows_of_judgments_are_refused(tmp_path: Path) -> None:
    (tmp_path / "snapshot.csv").write_text("query,docid,rating\n1,a,2\n3,d\n")
    with pytest.raises(DataError, match="line 3: 2 cells, but the header has 3"):
        values(qrels=tmp_path / "snapshot.csv")


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl"])
def test_judgments_with_an_empty_id_are_refused_unless_their_grade_is_empty(tmp_path: Path, ending: str) -> None:
    def written(*rows: tuple[str, str, str]) -> Path:
        cells = [("query", "docid", "rating"), *((q, d, str(g)) for q in JUDGED for d, g in JUDGED[q].items()), *rows]
        records = [dict(zip(cells[0], row, strict=True)) for row in cells[1:]]
        lines = map(json.dumps, records) if ending == "jsonl" else map({"csv": ",", "tsv": "\t"}[ending].join, cells)
        path = tmp_path / f"judgments.{ending}"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    assert values(qrels=written(("", "", ""), ("", "a", ""), ("3", "", ""))) == VALUES
    with pytest.raises(DataError, match="'docid' is \"\", expected a string or an integer"):
        values(qrels=written(("3", "", "1")))
    with pytest.raises(DataError, match="'query' is \"\", expected") as caught:
        values(qrels=written(("", "", "1")))
    assert caught.value.count == 2


def test_a_row_of_a_run_with_only_a_query_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.csv").write_text("query_id,doc_id,score\n1,a,3\n2\n")
    with pytest.raises(DataError, match="line 3: 1 cell, but the header has 3"):
        values(tmp_path / "run.csv")


def test_svmrank_lines_without_documents_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mslr.txt").write_text("2 qid:1 1:3 2:0\n0 qid:1 1:1 2:0\n")
    with pytest.raises(DataError, match=r"line 1: has no document's id, which is expected after #: .* 1 line more"):
        values(qrels=tmp_path / "mslr.txt")
    (tmp_path / "bad.txt").write_text("2 qid:1 x # a\nhigh qid:1 # b\n2 0 c 1\n")
    with pytest.raises(DataError) as caught:
        values(qrels=tmp_path / "bad.txt")
    assert str(caught.value).splitlines()[1:4] == [
        "  line 1: 'x' is not a feature, as 1:0.5",
        "  line 2: the grade 'high' is not a number",
        "  line 3: not a judgment for learning to rank: grade qid:query [feature:value …] # document",
    ]


# Real-valued grades and own gains.


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("half.qrels", "1 0 a 2\n1 0 c 0.5\n2 0 b 1\n"),
        ("half.tsv", "1\ta\t2\n1\tc\t.5\n2\tb\t1.0\n"),
        ("half.txt", "2 qid:1 # a\n0.5 qid:1 # c\n1 qid:2 # b\n"),
        ("half.csv", "query,docid,rating\n1,a,2\n1,c,5e-1\n2,b,1\n"),
        ("half.json", '{"1": {"a": 2, "c": 0.5}, "2": {"b": 1}}'),
    ],
)
def test_real_valued_grades_are_kept_exactly(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    dcg = 2 + 0.5 / math.log2(4)
    expected = (dcg / (2 + 0.5 / math.log2(3)) + 1 / math.log2(3)) / 2
    scores = harness.evaluate(PLAIN, tmp_path / name, "nDCG@10,AP,nDCG(dcg='exp-log2')@10,ERR@10")
    assert scores.means()[0].value == expected
    assert scores.means()[1].value == 0.75  # c is not relevant: its grade is below 1
    finding = next(finding for finding in scores.findings if finding.check == "gain-without-relevance")
    assert finding.message == "1 judgment has a grade above 0 and below 1: a gain for nDCG, but not relevant"
    assert values(qrels=tmp_path / name, relevance=0.5)["AP"] == VALUES["AP"]
    assert values(qrels=tmp_path / name)["nDCG@10"] == round(expected, 6)


def test_queries_whose_grades_are_all_below_the_relevance_are_counted(tmp_path: Path) -> None:
    qrels = {"1": {"a": 1}, "2": {"b": 0.25}}
    scores = harness.evaluate(HITS, qrels, "nDCG@10")
    assert scores.counts.evaluated == 1
    assert "1 query without a relevant document is left out of means" in str(scores.findings[0])
    assert harness.evaluate(HITS, qrels, "nDCG@10", relevance=0.25).counts.evaluated == 2
    assert harness.evaluate(HITS, qrels, "AP(rel=0.25)").means()[0].measure.parameter("rel") == 0.25
    with pytest.raises(UsageError, match="rel must be above 0"):
        harness.evaluate(HITS, qrels, "AP(rel=0)")


def test_ties_of_real_valued_grades_have_their_range() -> None:
    scores = harness.evaluate({"1": {"a": 1.0, "b": 1.0}}, {"1": {"a": 0.5, "b": 0.75}}, "DCG@1", relevance=0.5)
    assert (scores.means()[0].low, scores.means()[0].high) == (0.5, 0.75)
    average = harness.evaluate(
        {"1": {"a": 1.0, "b": 1.0}}, {"1": {"a": 0.5, "b": 0.75}}, "DCG@1", relevance=0.5, ties="average"
    )
    assert average.means()[0].value == 0.625


def test_real_valued_grades_are_refused_where_grades_are_whole() -> None:
    with pytest.raises(DataError, match=r"grade 0\.5 of document 'b' is not a whole number") as caught:
        harness.Dataset.of({"b": "text"}, {"2": "text"}, {"2": {"b": 0.5}})
    assert "harness.evaluate take real-valued grades" in str(caught.value)
    with pytest.raises(DataError, match="is not a whole number"):
        harness.audit(HITS, {"1": {"a": 0.5}}, "nDCG@10")


@pytest.mark.parametrize("gains", ["1=3,2=9", " 2 = 9, 1 = 3", "1:3,2:9", {1: 3, 2: 9}, {2: 9.0, 1: 3.0}])
def test_own_gains_replace_the_grades(gains: Any) -> None:
    expected = ((9 + 3 / 2) / (9 + 3 / math.log2(3)) + 1 / math.log2(3)) / 2
    scores = harness.evaluate(PLAIN, QRELS, "nDCG@10,DCG@10,AP,nDCG(gains='1=1,2=2')@10", gains=gains)
    assert [str(mean.measure) for mean in scores.means()] == [
        "nDCG(gains='1=3,2=9')@10", "DCG(gains='1=3,2=9')@10", "AP", "nDCG(gains='1=1,2=2')@10",
    ]  # fmt: skip
    found = [round(mean.value, 12) for mean in scores.means()]
    assert found == [round(expected, 12), round((10.5 + 3 / math.log2(3)) / 2, 12), found[2], found[3]]
    assert round(found[3], 6) == VALUES["nDCG@10"]
    assert round(found[2], 6) == VALUES["AP"]


def test_gains_that_equal_the_grades_change_nothing() -> None:
    plain, same = (harness.evaluate(PLAIN, QRELS, "nDCG@10", gains=gains) for gains in (None, "0=0,1=1,2=2"))
    np.testing.assert_array_equal(plain.values, same.values)
    np.testing.assert_array_equal(plain.low, same.low)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gains": "1=3"}, "has no gain for grade 2 of the judgments"),
        ({"gains": "1=3,2=1"}, "gains must not fall while grades rise"),
        ({"gains": "1=-3,2=1"}, "the gain of grade 1 is -3"),
        ({"gains": "1=3,1=4"}, "gains name the grade 1 twice"),
        ({"gains": "much"}, "gains 'much' are no table"),
        ({"gains": ""}, "are no table"),
        ({"gains": {1: math.inf}}, "'inf' in gains is not a number"),
        ({"gains": "1=3,2=9", "metrics": "AP,RR"}, "--gains changes nDCG and DCG, and the metrics are AP, RR"),
        ({"metrics": "nDCG(gains='1=3,2=9', dcg='exp-log2')@10"}, "has two rules for gains"),
    ],
)
def test_wrong_gains_are_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        harness.evaluate(PLAIN, QRELS, **options)


@pytest.mark.parametrize("content", ["q1 x {}\nq1 a {}\nq2 b {}\n", "q1 x {} 3\nq1 a {} 2\nq2 b {} 1\n"])
def test_a_plus_sign_changes_no_whole_number(tmp_path: Path, content: str) -> None:
    def score(name: str, *numbers: str) -> float:
        (tmp_path / name).write_text(content.format(*numbers))
        return harness.evaluate(tmp_path / name, {"q1": {"a": 1}, "q2": {"b": 1}}, "RR").means()[0].value

    assert score("plain.run", "1", "2", "1") == score("signed.run", "+1", "+2", "+1") == 0.75
    for name, numbers in (("plain.run", "321"), ("signed.run", ("+3", "+2", "+1"))):
        with pytest.raises(DataError, match="it does not count 1, 2, 3: 3, 2, 1"):
            score(name, *numbers)


def test_signed_ranks_of_trec_lines_are_the_order_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q1 Q0 a +2 1 t\nq1 Q0 x +1 1 t\n")
    assert harness.evaluate(tmp_path / "a.trec", {"q1": {"a": 1}}, "RR", ties="engine").means()[0].value == 0.5


def test_four_columns_with_a_decimal_third_are_refused_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "a.run").write_text("q1 x .9 1\nq1 a .8 2\n")
    fix = "--columns query_id=1,doc_id=2,score=3,rank=4"
    with pytest.raises(DataError, match=fix):
        harness.evaluate(tmp_path / "a.run", {"q1": {"a": 1}}, "RR")
    columns = fix.removeprefix("--columns ")
    assert harness.evaluate(tmp_path / "a.run", {"q1": {"a": 1}}, "RR", columns=columns).means()[0].value == 0.5


EMPTY_IDS = {
    "documents": {"q1": {"": 1}},
    "queries": {"": {"a": 1}},
    "rows": [("q1", "", 1)],
    "records": [{"query_id": "", "doc_id": "a", "score": 1}],
    "frame": pd.DataFrame({"query_id": ["q1", "q1"], "doc_id": ["a", ""], "score": [2, 1]}),
    "table": pa.table({"query_id": ["q1", ""], "doc_id": ["a", "b"], "score": [2, 1]}),
    "dictionary": pa.table({"query_id": ["q1"], "doc_id": pa.array([""]).dictionary_encode(), "score": [2]}),
}


@pytest.mark.parametrize("name", [*EMPTY_IDS, "list", "ranks"])
def test_empty_ids_of_objects_are_refused(name: str) -> None:
    lists = {"list": {"q1": ["a", ""]}, "ranks": [{"query_id": "q1", "doc_id": "", "rank": 1}]}
    value = (EMPTY_IDS | lists)[name]
    with pytest.raises(DataError, match="empty"):
        harness.evaluate(value, {"q1": {"a": 1}}, "RR")
    if name != "ranks":
        with pytest.raises(DataError, match="empty"):
            harness.evaluate({"q1": {"a": 1.0}}, value, "RR")


# Pitfalls.


def test_both_conventions_of_double_scores_have_a_name() -> None:
    run, qrels = RUNS / "double.trec", RUNS / "double.qrels"
    assert ndcg(run, qrels) == ndcg(run, qrels, trec_eval="9") == ndcg(run, qrels, ties="trec_eval") == 0.9502
    assert ndcg(run, qrels, trec_eval="10") == ndcg(run, qrels, ties="trec_eval_10") == 0.7602


def test_a_query_that_finds_itself_is_a_finding() -> None:
    scores = harness.evaluate(RUNS / "self.trec", RUNS / "self.qrels", "nDCG@10")
    assert round(scores.means()[0].value, 4) == 0.6309
    finding = next(finding for finding in scores.findings if finding.check == "query-in-results")
    assert "the first hit of every query is the document with the query's own id" in finding.message
    assert ndcg(RUNS / "self.trec", RUNS / "self.qrels", identical_ids="drop") == 1.0


def test_ids_that_differ_by_unicode_normalisation_are_named(tmp_path: Path) -> None:
    run, qrels = RUNS / "nfd.trec", RUNS / "nfc.qrels"
    for path, met in ((run, 12), (_with_one_id_that_meets(tmp_path), 11)):
        scores = harness.evaluate(path, qrels, "nDCG@10")
        finding = next(finding for finding in scores.findings if finding.check == "ids-spelled-otherwise")
        assert f"{met} of them are the same but for Unicode normalisation" in finding.message
        assert (scores.means()[0].value == 0.0) == (met == 12)
    one_query = {"0": dict.fromkeys(("cafe\u0301-a", "b", "c"), 1.0)}
    unrelated = {"0": {"x": 1, "y": 1, "caf\xe9-a": 1}}
    with pytest.raises(DataError, match="1 of them is the same but for Unicode normalisation"):
        harness.evaluate(one_query, unrelated)


def test_ids_that_differ_by_unicode_normalisation_exit_with_0_and_the_finding() -> None:
    arguments = ["eval", "--qrels", str(RUNS / "nfc.qrels"), "--run", str(RUNS / "nfd.trec"), "--format", "csv"]
    result = CliRunner().invoke(_build(), arguments)
    assert result.exit_code == 0, result.output
    assert "the same but for Unicode normalisation" in result.stderr


def _with_one_id_that_meets(folder: Path) -> Path:
    judged = (RUNS / "nfc.qrels").read_text().splitlines()[0].split()[2]
    lines = (RUNS / "nfd.trec").read_text().splitlines()
    (folder / "mixed.trec").write_text("\n".join([f"0 Q0 {judged} 1 2.0 s", *lines[1:]]))
    return folder / "mixed.trec"


def test_a_run_of_unjudged_documents_is_0_with_a_finding() -> None:
    scores = harness.evaluate(RUNS / "nothing-judged.trec", QRELS, "nDCG@10")
    assert scores.means()[0].value == 0.0
    assert [finding.check for finding in scores.findings] == ["nothing-judged"]


# Topics.


def questions(path: Path, **columns: str) -> tuple[list[str], list[str]]:
    problems = Problems(path.name)
    batches = list(questions_in(Files.of_path(path), DatasetSpec("x", columns=columns)).queries.read(problems, []))
    problems.raise_if_any()
    return [name for batch in batches for name in batch.ids], [str(text) for batch in batches for text in batch.texts]


TEXTS = ["water pump repair", "filter change interval"]


@pytest.mark.parametrize("name", ["web.xml", "lang.sgml", "two-columns.txt"])
def test_topics_are_read_whatever_their_markup(tmp_path: Path, name: str) -> None:
    assert questions(CASES / "topics" / name) == (["1", "2"], TEXTS)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((CASES / "topics" / name).read_bytes()))
    assert questions(tmp_path / f"{name}.gz") == (["1", "2"], TEXTS)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("<queries>\n<query><qid>0001</qid><content>a b</content></query>\n</queries>", ("0001", "a b")),
        ("<topic lang='en'><identifier>10/1-AH</identifier><EN-title>a b</EN-title></topic>", ("10/1-AH", "a b")),
        ('<?xml version="1.0"?>\n<!-- x -->\n<topics task="t">\n<topic number="7">a b</topic></topics>', ("7", "a b")),
        (
            "<!DOCTYPE t [ <!ELEMENT a (b)> ]>\n<top>\n<num> Number: 051\n<title> Topic: a b\n<desc> x\n</top>",
            ("051", "a b"),
        ),
        ('<inex_topic topic_id="289" ct_no="5"><title>a b</title></inex_topic>', ("289", "a b")),
        ("<TOPICS><TOPIC><NUM>3</NUM><TITLE>a b</TITLE><NARR>x</NARR></TOPIC></TOPICS>", ("3", "a b")),
        ('<xml><topic number="1"><query>a b</query><subtopic number="2">x</subtopic></topic></xml>', ("1", "a b")),
    ],
)  # fmt: skip
def test_topics_of_other_tracks(tmp_path: Path, content: str, expected: tuple[str, str]) -> None:
    (tmp_path / "topics").write_text(content)
    assert questions(tmp_path / "topics") == ([expected[0]], [expected[1]])


def test_topics_in_the_encoding_that_they_declare(tmp_path: Path) -> None:
    path = tmp_path / "topics.xml"
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><topics><topic number="1"><title>café</title></topic></topics>'
    path.write_bytes(text.encode("iso-8859-1"))
    assert questions(path) == (["1"], ["café"])
    path.write_bytes(text.replace("ISO-8859-1", "none-such").encode("iso-8859-1"))
    with pytest.raises(DataError, match="declares the encoding 'none-such', which is not known"):
        questions(path)
    path.write_bytes(text.replace("ISO-8859-1", "ascii").encode("iso-8859-1"))
    with pytest.raises(DataError, match="not ascii, which it declares: byte 0xe9 on line 1"):
        questions(path)


def test_topics_with_two_texts_are_named_with_the_option(tmp_path: Path) -> None:
    path = tmp_path / "covid.xml"
    path.write_text('<topics><topic number="1"><query>a</query><question>what is a</question></topic></topics>')
    with pytest.raises(DataError, match="the query may be 'query' or 'question': say which, as --columns query=query"):
        questions(path)
    assert questions(path, query="question") == (["1"], ["what is a"])


@pytest.mark.parametrize("name", ["topics.xml", "topics.txt", "topics.tsv"])
def test_topics_in_utf_16_are_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes("<topics><topic><query>pump</query></topic></topics>".encode("utf-16"))
    with pytest.raises(DataError, match="UTF-16, expected UTF-8: convert it with iconv -f UTF-16 -t UTF-8 FILE"):
        questions(tmp_path / name)


def test_lines_that_are_not_two_columns_are_no_topics(tmp_path: Path) -> None:
    (tmp_path / "topics.txt").write_text("1 water pump repair\n2 filter\n")
    with pytest.raises(DataError, match="is neither a table nor TREC topics") as caught:
        questions(tmp_path / "topics.txt")
    assert "lines of an id, a tab and the text" in str(caught.value)


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".txt", ".run", ".csv.gz"])
def test_columns_by_number_are_found_in_lines_of_every_separator(ending: str, tmp_path: Path) -> None:
    separator = {".csv": ",", ".csv.gz": ";", ".tsv": "\t"}.get(ending, " ")
    content = "q1 d1 9\nq1 d3 7\nq2 d4 5\n".replace(" ", separator).encode()
    run = tmp_path / f"scores{ending}"
    run.write_bytes(gzip.compress(content) if ending.endswith(".gz") else content)
    qrels = tmp_path / "opinions.csv"
    qrels.write_text("query,document,opinion\nq1,d1,2\nq1,d3,1\nq2,d4,1\n")
    (mean,) = harness.evaluate(run, qrels, "AP", columns="grade=opinion,score=3").means()
    assert mean.value == 1.0
