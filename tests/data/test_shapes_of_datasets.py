"""One content in every shape that datasets come in: the same ids, texts and judgments, and so the same metrics."""

from __future__ import annotations

import csv
import gzip
import html
import io
import json
import lzma
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import harness
from harness.data.columns import columns_text, parse_columns
from harness.data.dataset import Dataset, DatasetFiles
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders import load_corpus, load_dataset, load_documents
from harness.loaders.checks import dataset_findings
from harness.report.formats import render
from harness.wording import unread_files_in_words

CORPUS = [
    ("7", "Reset", 'Hold the button, "gently",\n\nfor ten seconds'),
    ("39#0", "", "rinse the filter; then dry it"),
    ("<dbpedia:Café>", "A & B", "guarantee of two years"),
    ("e\u0301", "", "not in composed form"),
    ("void", "", ""),
]
QUERIES = [("q1", "how do I reset, quickly"), ("q2", "rinse filter"), ("7", "two years")]
JUDGED = [
    ("q1", "7", 2),
    ("q1", "void", 0),
    ("q2", "39#0", 1),
    ("q2", "void", 1),
    ("7", "<dbpedia:Café>", 1),
    ("7", "e\u0301", -1),
]
GOLDEN = [
    {"id": query, "question": text, "expected": {d: g for q, d, g in JUDGED if q == query and g >= 0}}
    for query, text in QUERIES
]


def table(rows, names, delimiter=","):
    sink = io.StringIO()
    writer = csv.writer(sink, delimiter=delimiter)
    writer.writerows([names, *rows])
    return sink.getvalue()


def lines(rows, names):
    return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)


def frame(rows, names):
    return pd.DataFrame(rows, columns=list(names))


D, Q, J = ("doc_id", "title", "text"), ("query_id", "query"), ("query_id", "doc_id", "relevance")


@pytest.fixture
def beir(tmp_path):
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(lines(CORPUS, ("_id", "title", "text")))
    (folder / "queries.jsonl").write_text(lines(QUERIES, ("_id", "text")))
    (folder / "qrels" / "test.tsv").write_text("".join(f"{q}\t{d}\t{g}\n" for q, d, g in JUDGED))
    return load_dataset(folder)


def same(dataset: Dataset, expected: Dataset) -> None:
    assert dataset.corpus.ids.to_list() == expected.corpus.ids.to_list()
    assert dataset.corpus.digest == expected.corpus.digest
    assert dataset.queries.digest == expected.queries.digest
    for name in ("indptr", "rows", "grades"):
        assert np.array_equal(getattr(dataset.qrels, name), getattr(expected.qrels, name)), name
    assert dataset.qrels.doc_ids.to_list() == expected.qrels.doc_ids.to_list()


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, pd.DataFrame):
        parquet.write_table(pa.Table.from_pandas(content, preserve_index=False), path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


TREC = "".join(
    f"<DOC>\n<DOCNO> {html.escape(i)} </DOCNO>\n<HEADLINE>{html.escape(t)}</HEADLINE>\n<TEXT>\n{html.escape(x)}\n"
    "</TEXT>\n</DOC>\n"
    for i, t, x in CORPUS
).replace("&lt;dbpedia:Café&gt;", "<dbpedia:Café>")
TOPICS = "".join(
    f"<top>\n<num> Number: {i}\n<title> {t}\n\n<desc> Description:\nnothing\n<narr> Narrative: none\n</top>\n"
    for i, t in QUERIES
)
XML = "<topics>" + "".join(f'<topic number="{i}"><query>{t}</query></topic>' for i, t in QUERIES) + "</topics>"
FILES = {
    "CSV": ("d.csv", table(CORPUS, D), "q.csv", table(QUERIES, Q), "r.csv", table(JUDGED, J)),
    "gzip": (
        "d.csv.gz",
        gzip.compress(table(CORPUS, D).encode()),
        "q.csv",
        table(QUERIES, Q),
        "r.csv",
        table(JUDGED, J),
    ),
    "semicolons": ("d.csv", table(CORPUS, D, ";"), "q.csv", table(QUERIES, Q, "|"), "r.csv", table(JUDGED, J, ";")),
    "TSV": ("d.tsv", table(CORPUS, D, "\t"), "q.tsv", table(QUERIES, Q, "\t"), "r.tsv", table(JUDGED, J, "\t")),
    "JSONL": (
        "chunks.jsonl",
        lines(CORPUS, ("id", "title", "contents")),
        "q.ndjson",
        lines(QUERIES, ("qid", "question")),
        "qrels.jsonl",
        lines(JUDGED, ("qid", "docid", "rel")),
    ),
    "JSON": (
        "d.json",
        json.dumps([dict(zip(D, row, strict=True)) for row in CORPUS], indent=1),
        "q.json",
        json.dumps(dict(QUERIES)),
        "r.json",
        json.dumps({q: {d: g for other, d, g in JUDGED if other == q} for q, _ in QUERIES}),
    ),
    "JSON lists": (
        "d.json",
        json.dumps({i: {"title": t, "text": x} for i, t, x in CORPUS}),
        "q.json",
        json.dumps([{"_id": i, "text": t} for i, t in QUERIES]),
        "r.json",
        json.dumps([dict(zip(J, row, strict=True)) for row in JUDGED]),
    ),
    "Parquet": (
        "d.parquet",
        frame(CORPUS, D).assign(vector=[[1.0, 2.0]] * len(CORPUS)),
        "q.parquet",
        frame(QUERIES, Q),
        "r.parquet",
        frame([(q, d, float(g)) for q, d, g in JUDGED], J),
    ),
    "TREC": ("docs.trec", TREC, "topics.txt", TOPICS, "qrels.txt", "".join(f"{q} 0 {d} {g}\n" for q, d, g in JUDGED)),
    "TREC in XML": (
        "part1",
        TREC,
        "topics.xml",
        XML,
        "qrels",
        "".join(f"{q}\tQ0\t{d}   {g}\r\n" for q, d, g in JUDGED),
    ),
    "topics without a header": (
        "d.csv",
        table(CORPUS, D),
        "topics.tsv",
        "".join(f"{i}\t{t}\n" for i, t in QUERIES),
        "r.csv",
        table([(q, d, f"{g}.0") for q, d, g in JUDGED], ("query-id", "corpus-id", "score")),
    ),
}


@pytest.mark.parametrize("shape", FILES)
def test_files_of_every_shape_hold_the_same(shape, tmp_path, beir):
    names, contents = FILES[shape][::2], FILES[shape][1::2]
    d, q, r = (write(tmp_path / shape, name, content) for name, content in zip(names, contents, strict=True))
    same(load_dataset(d, files=DatasetFiles(queries=q, qrels=r)), beir)


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_may_hold_other_kinds_of_tables(packed, tmp_path, beir):
    files = {
        "corpus.parquet": frame(CORPUS, D),
        "queries.csv": table(QUERIES, Q),
        "qrels.jsonl": lines(JUDGED, ("query_id", "doc_id", "rel")),
    }
    for name, content in files.items():
        write(tmp_path / "data", name, content)
    place = tmp_path / "data"
    if packed:
        place = tmp_path / "data.zip"
        with zipfile.ZipFile(place, "w") as archive:
            for name in files:
                archive.write(tmp_path / "data" / name, f"inner/{name}")
    same(load_dataset(place), beir)
    with pytest.raises(UsageError, match="no split 'dev'"):
        load_dataset(place, split="dev")


def test_field_names_are_read_in_any_case(tmp_path, beir):
    d = write(tmp_path, "docs.csv", table(CORPUS, ("ID", "Title", "Text")))
    q = write(tmp_path, "q.jsonl", lines(QUERIES, ("Query_ID", "Question")))
    names = [("Query-ID", "Corpus-ID", "Score"), ("QID", "DocNo", "Label")]
    written = [
        write(tmp_path, "r.tsv", table(JUDGED, names[0], "\t")),
        write(tmp_path, "r.csv", table(JUDGED, names[1])),
    ]
    written.append(write(tmp_path, "qrels.txt", table(JUDGED, names[0], "\t")))
    for r in written:
        same(load_dataset(d, files=DatasetFiles(q, r)), beir)
    same(
        Dataset.of(frame(CORPUS, ("ID", "Title", "Text")), frame(QUERIES, ("QID", "Query")), frame(JUDGED, names[1])),
        beir,
    )


def test_fields_are_named(tmp_path, beir):
    d = write(tmp_path, "docs.csv", table(CORPUS, ("key", "headline", "body")))
    q = write(tmp_path, "q.csv", table([(i, t, "x") for i, t in QUERIES], ("number", "asked", "text")))
    r = write(tmp_path, "r.csv", table(JUDGED, ("number", "key", "stars")))
    columns = {"id": "key", "title": "headline", "text": "body", "query_id": "number", "query": "asked"}
    files = DatasetFiles(q, r, {**columns, "doc_id": "key", "grade": "stars"})
    same(load_dataset(d, files=files), beir)
    with pytest.raises(DataError, match="no field 'kee', which --columns names as the id"):
        load_dataset(d, files=DatasetFiles(q, r, {**columns, "id": "kee"}))


def test_a_golden_set_with_a_folder_of_texts(tmp_path):
    unread = ("note.pdf", "a/page.HTML", "a/other.html", "a/table.csv", "Makefile", ".git/config", ".git/x.md", ".env")
    for name, text in {"a/first.txt": "one", "b.md": "two\n", **dict.fromkeys(unread, "x")}.items():
        write(tmp_path / "texts", name, text)
    golden = write(tmp_path, "golden.jsonl", json.dumps({"question": "which?", "expected": ["a/first.txt"]}))
    dataset = load_dataset(tmp_path / "texts", files=DatasetFiles(queries=golden))
    assert dataset.corpus.ids.to_list() == ["a/first.txt", "b.md"]
    assert dataset.corpus.texts.to_pylist() == ["one", "two\n"]
    assert (dataset.queries.ids.to_list(), dataset.qrels.grades.tolist()) == (["line-1"], [1])
    counts = {".html": 2, ".csv": 1, ".pdf": 1, "without an ending": 1, "hidden": 3}
    assert list(dataset.unread_files.items()) == list(counts.items())
    assert load_documents(tmp_path / "texts").unread_files == counts
    (finding,) = [finding for finding in dataset_findings(dataset) if finding.check == "unread-files"]
    assert finding.message == (
        "8 files not read: 2 .html, 1 .csv, 1 .pdf, 1 without an ending, 3 hidden; a smaller corpus is easier to search"
    )
    (tmp_path / "texts" / "golden.jsonl").write_text(golden.read_text())
    assert load_dataset(tmp_path / "texts").unread_files == counts
    by_stem = load_corpus(tmp_path / "texts", files=DatasetFiles(columns={"id": "stem"}))
    assert by_stem.ids.to_list() == ["first", "b"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("package.json", '{"name": "x", "version": "1.0.0"}'),
        ("package.json", '{"name": "x", "scripts": {"build": "make all", "text": "two words"}, "keywords": []}'),
        ("settings.json", "{broken"),
        ("list.json", '["a", "b"]'),
        ("prices.csv", "name,price\npear,3\n"),
        ("prices.tsv", "name\tprice\tcolour\npear\t3\tgreen\n"),
        ("log.jsonl", '{"time": 3, "text": "no id"}\n'),
        ("empty.parquet", ""),
    ],
)
@pytest.mark.parametrize("with_golden", [True, False])
def test_a_table_that_is_no_corpus_is_counted_next_to_texts(tmp_path, name, content, with_golden):
    golden = write(tmp_path / "texts", "golden.jsonl", json.dumps({"question": "which?", "expected": ["a.md"]}))
    if not with_golden:
        golden.unlink()
    for file, text in {"a.md": "one", "b.txt": "two", name: content}.items():
        write(tmp_path / "texts", file, text)
    loaded = load_documents(tmp_path / "texts")
    assert loaded.corpus.ids.to_list() == ["a.md", "b.txt"]
    assert loaded.unread_files == {f".{name.partition('.')[2]}": 1}


@pytest.mark.parametrize(
    ("name", "content", "columns"),
    [
        ("x.csv", "id,text\n1,one\n", {}),
        ("x.csv", "key,words\n1,one\n", {"id": "key", "text": "words"}),
        ("x.tsv", "1\tone\n2\ttwo\n", {}),
        ("x.jsonl", '{"id": 1, "doc_id": 2, "body": "one"}\n', {"id": "id"}),
        ("x.json", '[{"id": 1, "text": "one"}]', {}),
        ("x.json", '{"1": "one pear", "2": "two pears"}', {}),
    ],
)
def test_a_folder_of_texts_with_a_table_of_documents_is_ambiguous(tmp_path, name, content, columns):
    for file, text in {"a.md": "one", "b.txt": "two", name: content}.items():
        write(tmp_path / "texts", file, text)
    files = DatasetFiles(columns=columns)
    with pytest.raises(DataError, match=f"holds 2 text files and '{name}': either may be the documents") as raised:
        load_documents(tmp_path / "texts", files=files)
    assert f"({tmp_path / 'texts' / name})" in raised.value.fix
    assert load_documents(tmp_path / "texts" / name, files=files).corpus.ids.to_list()[0] == "1"


def test_compressed_texts_of_a_folder_are_read_and_every_ending_is_counted(tmp_path):
    folder = tmp_path / "texts"
    write(folder, "a.txt", "one")
    (folder / "e.TXT.gz").write_bytes(gzip.compress(b"five"))
    (folder / "f.md.xz").write_bytes(lzma.compress(b"six"))
    unread = ("b.docx", "c.html", "d.pdf", "g.csv.gz", "h.png", "i.doc", "j.xml")
    for name in unread:
        write(folder, name, "x")
    loaded = load_documents(folder)
    assert loaded.corpus.ids.to_list() == ["a.txt", "e.TXT.gz", "f.md.xz"]
    assert loaded.corpus.texts.to_pylist() == ["one", "five", "six"]
    named = "1 .csv.gz, 1 .doc, 1 .docx, 1 .html, 1 .pdf, 1 .png, 1 .xml"
    assert unread_files_in_words(loaded.unread_files) == f"7 files not read: {named}"
    by_stem = load_corpus(folder, files=DatasetFiles(columns={"id": "stem"}))
    assert by_stem.ids.to_list() == ["a", "e", "f"]
    (folder / "f.md.xz").write_bytes(lzma.compress(b"six" * 1000)[:-20])
    with pytest.raises(DataError, match=r"f\.md\.xz: 1 problem\n  cannot be read"):
        load_documents(folder)


CSR = "csr:analyzer=snowball-english"


@pytest.mark.usefixtures("warm_workers")
def test_unread_files_are_shown_wherever_a_folder_is_searched(tmp_path):
    for name, text in {"a.txt": "red apples", "b.txt": "a yellow banana", "c.html": "a green pear"}.items():
        write(tmp_path / "texts", name, text)
    golden = write(tmp_path, "golden.jsonl", json.dumps({"question": "which is yellow?", "expected": ["b.txt"]}))
    folder = str(tmp_path / "texts")
    results = [harness.check(golden, corpus=folder, backends=CSR, k=1, timing=False).report]
    results += [harness.compare(CSR, folder, queries=str(golden), k=2, timing=False).report]
    for result in results:
        (info,) = result.datasets
        assert info.unread_files == {".html": 1}
        for format_name in ("table", "markdown"):
            shown = render(result, format_name)
            assert " · 1 file not read: 1 .html · " in shown
            assert "1 file not read: 1 .html; a smaller corpus is easier to search" in " ".join(shown.split())


def test_hidden_files_alone_are_counted_and_no_finding(tmp_path):
    for name in ("a.txt", ".obsidian/app.json"):
        write(tmp_path / "texts", name, "x")
    golden = write(tmp_path, "golden.jsonl", json.dumps({"question": "which?", "expected": ["a.txt"]}))
    dataset = load_dataset(tmp_path / "texts", files=DatasetFiles(queries=golden))
    assert dataset.unread_files == {"hidden": 1}
    assert not [finding for finding in dataset_findings(dataset) if finding.check == "unread-files"]


def test_files_of_a_folder_without_documents_of_trec_are_counted(tmp_path):
    folder = tmp_path / "trec"
    for name in ("fb01", "fb02.gz", "readme.txt", "sub/late", ".cvsignore", "zz.dtd"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        content = f"<!-- a comment -->\n<doc><docno>{name}</docno><text>x</text></doc>".encode()
        if name in ("readme.txt", "zz.dtd"):
            content = b"no documents"
        elif name == "fb01":
            content = b"<DOC><DOCNO>fb01</DOCNO><TEXT>x</TEXT></DOC>"
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    read = load_documents(folder)
    assert read.corpus.ids.to_list() == ["fb01", "fb02.gz", "sub/late"]
    assert read.unread_files == {".dtd": 1, ".txt": 1, "hidden": 1}


def test_golden_questions_of_the_same_content(tmp_path, beir):
    golden = write(tmp_path, "golden.jsonl", "".join(json.dumps(one) + "\n" for one in GOLDEN))
    d = write(tmp_path, "d.csv", table(CORPUS, D))
    dataset = load_dataset(d, files=DatasetFiles(queries=golden))
    assert dataset.queries.digest == beir.queries.digest
    assert sorted(dataset.qrels.grades.tolist()) == [0, 1, 1, 1, 2]


OBJECTS = {
    "dictionaries": (
        {i: {"title": t, "text": x} for i, t, x in CORPUS},
        dict(QUERIES),
        {q: {d: g for other, d, g in JUDGED if other == q} for q, _ in QUERIES},
    ),
    "lists": (
        [dict(zip(D, row, strict=True)) for row in CORPUS],
        [dict(zip(Q, row, strict=True)) for row in QUERIES],
        [dict(zip(J, row, strict=True)) for row in JUDGED],
    ),
    "tuples": (CORPUS, QUERIES, frame(JUDGED, J)),
    "frames": (frame(CORPUS, D), frame(QUERIES, Q).set_index("query_id"), frame(JUDGED, ("qid", "docno", "label"))),
    "Arrow": (
        pa.Table.from_pandas(frame(CORPUS, D)),
        pa.Table.from_pandas(frame(QUERIES, Q)),
        pa.Table.from_pandas(frame(JUDGED, J)),
    ),
}


@pytest.mark.parametrize("shape", OBJECTS)
def test_objects_of_every_shape_hold_the_same(shape, beir):
    corpus, queries, qrels = OBJECTS[shape]
    same(Dataset.of(corpus, queries, qrels), beir)


EMPTY_TITLE = [("a", "one title", "some words"), ("b", None, ""), ("c", "", "others")]
NULL_TEXT = [("a", "one title", "some words"), ("b", "two", None)]


def test_a_null_title_and_an_empty_cell_of_csv_are_empty_texts(tmp_path):
    import polars as pl

    table = frame(EMPTY_TITLE, D)
    table.to_csv(tmp_path / "docs.csv", index=False)
    table.to_parquet(tmp_path / "docs.parquet")
    table.to_json(tmp_path / "docs.jsonl", orient="records", lines=True)
    read = [load_corpus(tmp_path / f"docs.{ending}") for ending in ("csv", "parquet", "jsonl")]
    read += [
        Dataset.of(corpus, {"q": "words"}).corpus for corpus in (table, pl.from_pandas(table), table.to_dict("records"))
    ]
    for corpus in read:
        assert corpus.texts.to_pylist() == ["one title some words", "", "others"]
        assert corpus.empty_rows.tolist() == [1]


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_a_null_text_in_a_file_is_an_error(tmp_path, ending):
    table = frame(NULL_TEXT, D)
    if ending == "parquet":
        table.to_parquet(tmp_path / "docs.parquet")
    else:
        table.to_json(tmp_path / f"docs.{ending}", orient="records", lines=ending == "jsonl")
    with pytest.raises(DataError, match=" 2: 'text' is null, expected a string; if the text is empty, write \"\""):
        load_corpus(tmp_path / f"docs.{ending}")


def null_texts():
    import polars as pl

    import datasets

    named = frame(NULL_TEXT, D)
    yield from (named, named.convert_dtypes(), pl.from_pandas(named), pa.Table.from_pandas(named))
    yield from (named.to_dict("records"), datasets.Dataset.from_pandas(named))
    yield from ({"a": "some words", "b": None}, {"a": "some words", "b": float("nan")})
    yield from ([("a", "some words"), ("b", None)], {"a": {"text": "some words"}, "b": {"text": None}})


def test_a_null_text_of_an_object_is_an_error():
    for corpus in null_texts():
        with pytest.raises(DataError, match="record 2: 'text' is null, expected a string"):
            Dataset.of(corpus, {"q": "a"})
    with pytest.raises(DataError, match="queries: 1 problem\n  record 1: 'text' is null"):
        Dataset.of({"a": "x"}, {"q": None})


def test_polars_frames_hold_the_same(beir):
    import polars as pl

    frames = (pl.DataFrame(rows, list(names), orient="row") for names, rows in ((D, CORPUS), (Q, QUERIES), (J, JUDGED)))
    same(Dataset.of(*frames), beir)


def test_hugging_face_datasets_hold_the_same(beir):
    import datasets

    corpus = datasets.Dataset.from_pandas(frame(CORPUS, D)).select(range(len(CORPUS)))
    queries, qrels = (
        datasets.Dataset.from_list([dict(zip(n, r, strict=True)) for r in rows])
        for n, rows in ((Q, QUERIES), (J, JUDGED))
    )
    same(Dataset.of(corpus, queries, qrels), beir)


def test_integers_as_ids_become_text():
    dataset = Dataset.of({1: "a b", 2: "c"}, [(10, "a")], {10: [1]})
    assert dataset.corpus.ids.to_list() == ["1", "2"]
    assert (dataset.qrels.query_ids.to_list(), dataset.qrels.doc_ids.to_list()) == (["10"], ["1"])


@pytest.mark.parametrize(
    "corpus",
    [3, "text", None, ["a", "b"], {"a": 1}, {"a": "x", "b": {"text": "y"}}, [("a",)], [("a", "b", "c", "d")], Dataset],
)
def test_another_shape_is_refused_with_those_that_are_taken(corpus):
    with pytest.raises(UsageError, match=r"the documents cannot be read from a(.|\n)*\{id: text\}(.|\n)*pandas"):
        Dataset.of(corpus, {"q": "a"})


@pytest.mark.parametrize(
    ("corpus", "shape"),
    [
        (3, "an int"),
        ({"a": "x", "b": 1}, "a dict of str and int"),
        ([("a", "x"), {}], "a list of tuple and dict"),
    ],
)
def test_what_has_no_shape_is_named_with_all_that_is_in_it(corpus, shape):
    with pytest.raises(UsageError, match=f"the documents cannot be read from {shape}\n"):
        Dataset.of(corpus, {"q": "a"})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (({}, {"q": "a"}), "documents: 1 problem\n  there are none"),
        (([("a", "x"), ("a", "y")], {"q": "a"}), "duplicate id 'a', first in record 1"),
        (([("a", 3)], {"q": "a"}), "'text' is 3, expected a string"),
        (([(1.5, "x")], {"q": "a"}), "'_id' is 1.5, expected a string or an integer"),
        ((pd.DataFrame({"a": [1]}), {"q": "a"}), "no field for the id and the text"),
        (({"a": "x"}, {"q": "a"}, {"q": {"b": 1}}), "the document 'b' is judged, but there is no such document"),
        (({"a": "x"}, {"q": "a"}, {"z": {"a": 1}}), "the query 'z' is judged, but there is no such query"),
    ],
)
def test_faulty_objects(arguments, problem):
    with pytest.raises(DataError) as caught:
        Dataset.of(*arguments)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("d.csv", "doc_id,text\n1,a\n2\n", "line 3: 1 cell, but the header has 2"),
        ("d.csv", "doc_id,text,text\n1,a,b\n", "line 1: the header names the column 'text' 2 times"),
        ("d.csv", 'doc_id,text\n1,"a\n', "line 2: malformed table"),
        ("d.csv", "id,doc_id,text\n1,2,a\n", "the id may be 'id' or 'doc_id': say which, as --columns id=id"),
        ("d.csv", b"doc_id,text\n1,\xff\n", "line 2: not UTF-8: byte 0xff in column 3"),
        ("d.csv", "doc_id,text\n", "the file holds no records"),
        ("d.json", "[1]", "record 1: an object is expected, not 1"),
        ("d.json", "3", "a list of objects is expected, not 3"),
        ("d.json", '[{"id": "a"', "malformed JSON"),
        ("d.parquet", b"PAR1", "cannot be read as Parquet"),
        ("d.trec", "<DOC>\n<TEXT>x</TEXT>\n</DOC>\n", "document 1: no <DOCNO>"),
        ("d.trec", "<DOC><DOCNO>a</DOCNO>x</DOC>\n<DOC><DOCNO>b</DOCNO>", "document 2: no </DOC>"),
    ],
)
def test_faulty_files(tmp_path, name, content, problem):
    d = write(tmp_path, name, content)
    with pytest.raises(DataError) as caught:
        load_corpus(d)
    assert problem in str(caught.value)
    assert str(d) in str(caught.value)


def test_lines_of_cells_with_line_breaks_are_counted(tmp_path):
    d = write(tmp_path, "d.csv", 'doc_id,text\n1,"a\n\nb"\n\n1,c\n')
    with pytest.raises(DataError, match="line 6: duplicate id '1', first on line 2"):
        load_corpus(d)


def test_a_table_without_a_header_is_read_verbatim_and_noted(tmp_path):
    d = write(tmp_path, "collection.tsv", "1\tsaid \"so\n2\tit's\n")
    q = write(tmp_path, "q.tsv", "3\twhat\n")
    dataset = load_dataset(d, files=DatasetFiles(queries=q))
    assert dataset.corpus.texts.to_pylist() == ['said "so', "it's"]
    assert "there is no header: the columns are taken as _id, text" in dataset.provenance["notes"]


def test_pairs_without_a_grade_are_relevant(tmp_path):
    d, q = write(tmp_path, "d.csv", table(CORPUS, D)), write(tmp_path, "q.csv", table(QUERIES, Q))
    r = write(tmp_path, "r.csv", "query_id,doc_id\nq1,7\n")
    dataset = load_dataset(d, files=DatasetFiles(q, r))
    assert dataset.qrels.grades.tolist() == [1]
    assert "every pair counts as relevant" in dataset.provenance["notes"]


def test_documents_alone(tmp_path):
    d = write(tmp_path, "d.csv", table(CORPUS, D))
    assert len(load_corpus(d)) == len(CORPUS)
    with pytest.raises(DataError, match=r"these are documents without queries(.|\n)*--queries FILE"):
        load_dataset(d)


def test_a_field_of_the_corpus_wins_the_role_of_title_over_nothing(tmp_path):
    """What a table holds beside id, title and text can be filtered by, in every format."""
    from harness.loaders import filter_dataset

    d = write(tmp_path, "d.parquet", frame([("a", "x", "news"), ("b", "y", "mail")], ("id", "text", "section")))
    q = write(tmp_path, "q.csv", "qid,query\n1,x\n")
    files = DatasetFiles(queries=q)
    dataset = filter_dataset(load_dataset(d, files=files), {"section": "mail"}, d, files=files)
    assert [mask.tolist() for mask in dataset.filtered.matching.masks] == [[False, True]]


def test_a_card_names_files_and_fields(tmp_path, beir):
    write(tmp_path / "datasets", "docs.csv", table(CORPUS, ("key", "headline", "body")))
    write(tmp_path / "datasets", "q.csv", table(QUERIES, Q))
    write(tmp_path / "datasets", "r.csv", table(JUDGED, ("query_id", "key", "rel")))
    card = """name = "mine"
summary = "x"
format = "table"
path = "docs.csv"
queries = "q.csv"
qrels = "r.csv"
identical_ids = "drop"
language = "en"
licence = "none"
source = "here"
[columns]
id = "key"
title = "headline"
text = "body"
doc_id = "key"
[facts]
documents = 5
"""
    path = write(tmp_path / "datasets", "mine.toml", card)
    dataset = load_dataset("mine", cards=tmp_path)
    same(dataset, beir)
    assert dataset.identical_ids == "drop"
    path.write_text(f'{card}empty_documents = 1\n[text]\nempty = "drop"\n')
    filled = load_dataset("mine", cards=tmp_path)
    assert filled.corpus.ids.to_list() == [row[0] for row in CORPUS if row[0] != "void"]
    assert filled.provenance["empty_documents_dropped"] == "1"
    assert len(filled.qrels) == len(JUDGED)  # what is judged stays judged, as for a document that no engine finds
    path.write_text(card.replace('"table"', '"tabel"'))
    with pytest.raises(UnknownNameError, match=r"did you mean 'table'\?"):
        load_dataset("mine", cards=tmp_path)


COMPARED = {"timing": False, "isolation": "none", "k": 3, "metrics": "nDCG@10,RR@10"}


def figures(comparison):
    return {name: value.mean for name, value in comparison.report.trials[0].metrics.items()}


def test_a_comparison_of_every_shape_gives_the_same_metrics(tmp_path):
    """CSV with named fields, JSON Lines, Parquet, TREC and frames against BEIR's layout."""
    folder = tmp_path / "beir"
    write(folder, "corpus.jsonl", lines(CORPUS, ("_id", "title", "text")))
    write(folder, "queries.jsonl", lines(QUERIES, ("_id", "text")))
    write(folder, "qrels/test.tsv", "".join(f"{q}\t{d}\t{g}\n" for q, d, g in JUDGED))
    expected = figures(harness.compare("csr", folder, **COMPARED))
    assert 0 < expected["nDCG@10"] < 1
    for shape in ("CSV", "JSONL", "Parquet", "TREC"):
        names, contents = FILES[shape][::2], FILES[shape][1::2]
        d, q, r = (write(tmp_path / shape, name, content) for name, content in zip(names, contents, strict=True))
        assert figures(harness.compare("csr", d, queries=str(q), qrels=r, **COMPARED)) == expected
    given = Dataset.of(*OBJECTS["frames"], name="mine")
    compared = harness.compare("csr", given, **COMPARED)
    assert figures(compared) == expected
    assert any("'mine' is an object in Python" in note for note in compared.report.plan.resolved["notes"])
    with pytest.raises(UsageError, match="qrels with a Dataset"):
        harness.compare("csr", given, qrels="x", **COMPARED)


def test_identical_ids_are_dropped_as_the_dataset_says():
    """Query 7 has the id of a document that matches it best."""
    corpus = {"7": "two years of guarantee", "x": "two years"}
    for rule, expected in (("keep", 0.5), ("drop", 1.0)):
        dataset = Dataset.of(corpus, {"7": "two years of guarantee"}, {"7": {"x": 1}}, identical_ids=rule)
        compared = harness.compare("csr", dataset, **{**COMPARED, "metrics": "RR@10"})
        info = compared.report.dataset.identical_ids
        assert (info.rule, info.queries) == (rule, 1)
        assert compared.report.plan.resolved["identical_ids"] == rule
        assert figures(compared)["RR@10"] == expected
        assert compared.report.trials[0].parity.bit_equal == 1
        other = {"keep": "drop", "drop": "keep"}[rule]
        against = harness.compare("csr", dataset, identical_ids=other, **{**COMPARED, "metrics": "RR@10"})
        assert figures(against)["RR@10"] == {"keep": 1.0, "drop": 0.5}[rule]
        run = {"7": {"7": 2.0, "x": 1.0}}
        assert harness.evaluate(run, dataset, "RR").means()[0].value == expected
        assert harness.evaluate(run, dataset, "RR", identical_ids=other).means()[0].value == 1.5 - expected
    with pytest.raises(UsageError, match="known: auto, keep, drop"):
        harness.compare("csr", dataset, identical_ids="no", **COMPARED)


def test_a_part_of_the_documents_keeps_every_judged_one():
    corpus = {f"d{n:03}": f"word{n % 7} common" for n in range(100)}
    dataset = Dataset.of(corpus, {"q": "word3"}, {"q": {"d003": 1, "d050": 0}})
    compared = harness.compare("csr", dataset, max_docs=10, **{**COMPARED, "k": 100})
    info = compared.report.dataset
    assert (info.documents, info.documents_sampled_from) == (10, 100)
    kept = compared.corpus.ids.to_list()
    assert {"d003", "d050"} <= set(kept)
    assert kept == sorted(kept)
    again = harness.compare("csr", dataset, max_docs=10, **{**COMPARED, "k": 100})
    assert again.corpus.digest == compared.corpus.digest
    assert "10 of 100 documents, a subsample" in render(compared.report, "markdown")
    few = harness.compare("csr", dataset, max_docs=1, **COMPARED)
    assert few.corpus.ids.to_list() == ["d003", "d050"]
    two = Dataset.of(corpus, {"q": "word3", "p": "word4"}, {"q": {"d003": 1}, "p": {"d004": 1}})
    one = harness.compare("csr", two, max_docs=1, sample_queries=1, **COMPARED)
    asked = one.queries.ids.to_list()
    assert one.corpus.ids.to_list() == {"q": ["d003"], "p": ["d004"]}[asked[0]]
    assert len(asked) == 1
    with pytest.raises(UsageError, match="--max-docs is 0"):
        harness.compare("csr", dataset, max_docs=0, **COMPARED)


def test_a_dataset_is_a_golden_set_and_a_corpus():
    dataset = Dataset.of(
        {"a": "one two", "b": "three"}, {"1": "two", "2": "three"}, {"1": ["a"], "2": {"b": 1, "a": 0}}
    )
    checked = harness.check(dataset, backends="csr", k=1, timing=False, isolation="none", require="Hit@1>=1")
    assert (checked.report.verdict, checked.report.golden.questions) == ("passed", 2)
    named = harness.check(
        [{"question": "two", "expected": ["a"]}], corpus=dataset, backends="csr", k=1, timing=False, isolation="none"
    )
    assert named.report.trials[0].metrics["Hit@1"].mean == 1.0
    without = Dataset.of({"a": "x"}, {"q": "x"})
    with pytest.raises(UsageError, match="has no judgments"):
        harness.check(without, backends="csr")
    with pytest.raises(UsageError, match="has no judgments"):
        harness.evaluate({"q": {"a": 1.0}}, without)


def test_a_golden_set_beside_a_folder_brings_its_own_judgments(tmp_path):
    folder = tmp_path / "beir"
    write(folder, "corpus.jsonl", lines([("d1", "", "one"), ("d2", "", "two")], ("_id", "title", "text")))
    write(folder, "queries.jsonl", lines([("q1", "one")], ("_id", "text")))
    write(folder, "qrels/test.tsv", "q1\td1\t1\n")
    golden = write(tmp_path, "golden.jsonl", json.dumps({"id": "q1", "question": "two", "expected": ["d2"]}))
    dataset = load_dataset(folder, files=DatasetFiles(queries=golden))
    assert dataset.qrels.doc_ids.to_list() == ["d2"]
    write(tmp_path, "golden.jsonl", json.dumps({"id": "q1", "asked": {"in": "two"}, "query": 7, "expected": ["d2"]}))
    dataset = load_dataset(folder, files=DatasetFiles(queries=golden, columns={"query": "asked.in"}))
    assert (dataset.queries.texts.to_pylist(), dataset.qrels.doc_ids.to_list()) == (["two"], ["d2"])


def test_a_dropped_hit_takes_no_place():
    dataset = Dataset.of(
        {"7": "two years", "x": "years", "y": "b"}, {"7": "two years"}, {"7": {"x": 1}}, identical_ids="drop"
    )
    for k in (1, 2):
        compared = harness.compare("csr", dataset, **{**COMPARED, "k": k, "metrics": "RR@1,R@1"})
        assert figures(compared) == {"RR@1": 1.0, "R@1": 1.0}
        assert compared.runs["csr"].hits == 1
        assert compared.report.plan.resolved["k"] == k
        checked = harness.check(dataset, backends="csr", k=k, timing=False, isolation="none", metrics="MRR@1")
        assert checked.report.trials[0].metrics["MRR@1"].mean == 1.0


def test_documents_of_a_folder_with_several_splits_are_read_without_one(tmp_path):
    folder = tmp_path / "splits"
    write(
        folder, "corpus.jsonl", '{"_id": "a", "text": "one", "lang": "en"}\n{"_id": "b", "text": "two", "lang": "de"}\n'
    )
    write(folder, "queries.jsonl", '{"_id": "q", "text": "one"}\n')
    for split in ("dev", "train"):
        write(folder, f"qrels/{split}.tsv", "q\ta\t1\n")
    assert len(load_corpus(folder)) == 2
    with pytest.raises(UsageError, match="several splits and no 'test'"):
        load_dataset(folder)
    compared = harness.compare("csr", folder, split="dev", filter="lang=en", **COMPARED)
    assert compared.report.dataset.filter.matching == 1


def test_a_csv_needs_a_header(tmp_path):
    d = write(tmp_path, "d.csv", 'nr,inhalt\n1,"a, b"\n')
    with pytest.raises(DataError, match="no field for the id and the text"):
        load_corpus(d)


def test_markup_inside_topics_and_documents(tmp_path):
    q = write(tmp_path, "t.xml", '<topics><topic number="1"><query>of <i>E. coli</i> today</query></topic></topics>')
    d = write(tmp_path, "d.trec", "<DOC><DOCNO>a\u00a0b</DOCNO><LP>lead</LP><TEXT>body <b>bold</b></TEXT></DOC>")
    r = write(tmp_path, "r.txt", "1 0 a\u00a0b 1\n")
    dataset = load_dataset(d, files=DatasetFiles(q, r))
    assert dataset.queries.texts.to_pylist() == ["of  E. coli  today"]
    assert dataset.corpus.texts.to_pylist() == ["lead body  bold"]
    assert dataset.qrels.doc_ids.to_list() == dataset.corpus.ids.to_list() == ["a\u00a0b"]


def test_hidden_files_are_no_documents(tmp_path):
    for name in ("a.txt", ".hid/b.txt", ".c.txt"):
        write(tmp_path / "texts", name, "x")
    assert load_corpus(tmp_path / "texts").ids.to_list() == ["a.txt"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: harness.compare("csr", {"a": "x"}),
        lambda: harness.compare("csr", pd.DataFrame({"id": ["a"]})),
        lambda: harness.check(["a"]),
        lambda: harness.check([{"question": "a", "expected": ["b"]}], corpus=5),
        lambda: Dataset.of({"a": "x"}, {"q": "a"}, columns={"id": 5}),
        lambda: Dataset.of({"a": "x"}, {"q": "a"}, name=5),
        lambda: Dataset.of(pd.DataFrame([["a", "b", "c"]], columns=["id", "text", "text"]), {"q": "a"}),
    ],
)
def test_objects_in_a_wrong_place_are_refused(call):
    with pytest.raises(UsageError):
        call()


def test_odd_objects(tmp_path):
    assert Dataset.of({np.int64(1): "x"}, {"q": "a"}).corpus.ids.to_list() == ["1"]
    assert Dataset.of(
        pd.DataFrame({"id": ["a"], "text": ["x"]}).set_index("id", drop=False), {"q": "a"}
    ).corpus.ids.to_list() == ["a"]
    with pytest.raises(DataError, match="holds a lone surrogate"):
        Dataset.of({"a": "\ud800"}, {"q": "a"})
    r = write(tmp_path, "r.txt", f"q 0 a {'9' * 5000}\n")
    with pytest.raises(DataError, match="does not fit into 32 bits"):
        harness.evaluate({"q": {"a": 1.0}}, r)


def test_a_grade_of_another_name_is_asked_for(tmp_path):
    d, q = write(tmp_path, "d.csv", table(CORPUS, D)), write(tmp_path, "q.csv", table(QUERIES, Q))
    r = write(tmp_path, "r.csv", table(JUDGED, ("qid", "docid", "points")))
    with pytest.raises(DataError, match="no field for the grade; if 'points' holds it, as --columns grade=points"):
        load_dataset(d, files=DatasetFiles(q, r))
    assert load_dataset(d, files=DatasetFiles(q, r, {"grade": "points"})).qrels.grades.max() == 2


def test_fields_with_commas_are_quoted_and_come_back():
    columns = {"title": "head,line", "text": 'a "b"', "id": "k"}
    assert parse_columns(columns_text(columns)) == columns
    assert parse_columns('title="head,line",text=body') == {"title": "head,line", "text": "body"}


def test_a_list_of_no_objects_is_named(tmp_path):
    d, q = write(tmp_path, "d.csv", table(CORPUS, D)), write(tmp_path, "q.json", '["a"]')
    with pytest.raises(DataError, match="record 1: an object is expected"):
        load_dataset(d, files=DatasetFiles(queries=q))


def test_lists_of_hits_follow_the_queries_of_a_dataset():
    dataset = Dataset.of({"a": "x", "b": "y"}, {"1": "x", "2": "y"}, {"1": ["a"], "2": ["b"]})
    hits = [[{"corpus_id": "a", "score": 1.0}], [{"corpus_id": "b", "score": 1.0}]]
    assert harness.evaluate(hits, dataset, "RR").means()[0].value == 1.0
    with pytest.raises(UsageError, match="the run has 1 list, and"):
        harness.evaluate(hits[:1], dataset, "RR")


def test_a_dataset_of_objects_is_not_looked_up_by_its_name(tmp_path):
    dataset = Dataset.of({"1": "x"}, {"1": "x"}, {"1": ["1"]}, name="cacm")
    harness.compare("csr", dataset, out=tmp_path / "out", **COMPARED)
    with pytest.raises(UsageError, match=r"the dataset 'cacm' of .* was an object in Python"):
        harness.regress(tmp_path / "out")


def test_a_check_refuses_roles_of_judgments(tmp_path):
    with pytest.raises(UsageError, match="a check reads documents and a golden set"):
        harness.check([{"question": "a", "expected": ["b"]}], corpus=str(tmp_path), columns="doc_id=ask")
    with pytest.raises(DataError, match="there is no field 'ask', which columns names as the question"):
        harness.check([{"question": "a", "expected": ["b"]}], corpus=str(tmp_path), columns="query=ask")


@pytest.mark.parametrize("chunks", [None, "chunks.csv"])
def test_a_folder_with_a_golden_set_is_a_dataset(chunks, tmp_path):
    folder = tmp_path / "faq"
    write(folder, "golden.jsonl", json.dumps({"question": "which?", "expected": ["a"]}))
    if chunks is None:
        write(folder, "sub/a.txt", "one")
        columns = {"id": "stem"}
    else:
        write(folder, chunks, "doc_id,body\na,one\n")
        columns = {"text": "body"}
    dataset = load_dataset(folder, files=DatasetFiles(columns=columns))
    assert dataset.provenance["format"] == "golden"
    assert (dataset.corpus.ids.to_list(), dataset.corpus.texts.to_pylist()) == (["a"], ["one"])
    assert dataset.qrels.doc_ids.to_list() == ["a"]
    assert "notes" not in dataset.provenance


def test_judgments_of_four_named_columns_are_a_table_for_evaluate_too(tmp_path):
    r = write(tmp_path, "r.tsv", table([("q1", 0, "a", 2)], ("qid", "iteration", "docno", "label"), "\t"))
    assert harness.evaluate({"q1": {"a": 1.0}}, r, "nDCG@10").means()[0].value == 1.0
    d, q = write(tmp_path, "d.csv", "doc_id,text\na,x\n"), write(tmp_path, "q.csv", "qid,query\nq1,x\n")
    assert load_dataset(d, files=DatasetFiles(q, r)).qrels.grades.tolist() == [2]


def test_a_bad_grade_in_a_table_is_not_blamed_on_the_header(tmp_path):
    r = write(tmp_path, "r.csv", "query_id,doc_id,rel\nq1,a,yes\n")
    with pytest.raises(DataError) as caught:
        harness.evaluate({"q1": {"a": 1.0}}, r)
    assert "line 2: the grade 'yes' is not a number" in str(caught.value)
    assert "header" not in str(caught.value)


@pytest.mark.parametrize(
    "queries", [{"q1": "reset"}, [("q1", "reset")], {"q1": {"question": "reset"}}], ids=["texts", "tuples", "fields"]
)
def test_columns_are_looked_for_only_where_fields_have_names(queries):
    corpus = pd.DataFrame({"key": ["d1"], "body": ["how to reset"]})
    columns = {"id": "key", "text": "body", "query_id": "qid", "query": "question"}
    dataset = Dataset.of(corpus, queries, {"q1": {"d1": 1}}, columns=columns)
    assert dataset.corpus.ids.to_list() == ["d1"]
    assert dataset.queries.ids.to_list() == ["q1"]
    assert dataset.queries.texts.to_pylist() == ["reset"]
    other = Dataset.of({"d1": "how to reset"}, pd.DataFrame({"qid": ["q1"], "question": ["reset"]}), columns=columns)
    assert other.corpus.texts.to_pylist() == ["how to reset"]


def test_errors_of_a_dataset_in_python_name_its_own_argument():
    queries = {"q": "x"}
    for columns, corpus in (
        ({"id": "kee"}, [{"key": "d1", "text": "x"}]),
        (None, [{"number": "d1", "text": "x"}]),
        ({"nobody": "x"}, {"d1": "x"}),
        ("id", {"d1": "x"}),
    ):
        with pytest.raises((DataError, UsageError, UnknownNameError)) as caught:
            Dataset.of(corpus, queries, columns=columns)
        assert "columns" in str(caught.value)
        assert "--columns" not in str(caught.value)


def test_advice_on_unknown_queries_is_about_queries(tmp_path):
    """The card of CACM states judgments of unknown documents, which are no problem here."""
    few = write(tmp_path, "q.csv", "query_id,text\n1,time sharing\n")
    with pytest.raises(DataError) as caught:
        load_dataset("cacm", files=DatasetFiles(queries=few))
    assert "is not in q.csv" in str(caught.value)
    assert "--qrels FILE; or add the queries that are judged to q.csv" in str(caught.value)
    assert "unknown documents" not in str(caught.value)


@pytest.mark.parametrize("name", [None, b"text", 7])
def test_a_field_whose_name_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(DataError, match="the name of a field is text, not"):
        Dataset.of({"d": "text"}, {"q": {name: "x"}})


@pytest.mark.parametrize("path", ["glove.hdf5", Path("folder")])
def test_a_path_belongs_into_the_function(path):
    with pytest.raises(
        UsageError, match=r"is a text or a path, and Dataset\.of takes objects\n  give the path of a dataset"
    ):
        Dataset.of(path)
