"""Every fault of documents, queries and judgments: one error for the file, with the line of each problem."""

from __future__ import annotations

import errno
import gzip
import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from harness.data.columns import TextBatch
from harness.data.problems import Problems
from harness.data.texts import JoinRule, joined
from harness.errors import DataError
from harness.loaders import load_dataset
from harness.loaders.qrels import read_judgment_lines
from harness.store.cache import Cache

GOOD = {
    "corpus.jsonl": b'{"_id":"d1","title":"t","text":"a"}\n{"_id":"d2","text":"b"}\n',
    "queries.jsonl": b'{"_id":"q1","text":"a?"}\n{"_id":"q2","text":"b?"}\n',
    "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}


@pytest.fixture
def folder(tmp_path):
    for name, content in GOOD.items():
        path = tmp_path / "toys" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "toys"


def fault(folder: Path, name: str, content: bytes) -> str:
    """The message for a collection in which one file has this content; nothing may be left in the cache."""
    (folder / name).write_bytes(content)
    cache = Cache(folder.parent / "cache")
    with pytest.raises(DataError) as caught:
        load_dataset(folder, cache=cache)
    message = str(caught.value)
    assert str(folder / name) in message
    assert not [path for path in cache.root.rglob("*") if path.suffix == ".tmp"]
    return message


def test_a_null_that_a_loader_of_another_package_yields_is_named():
    """`joined` sees what any loader yields."""
    problems, lines = Problems("mail", "message"), np.array([1, 2, 3])
    batch = TextBatch(["a", None, "c"], ["x", "y", None], [None, "t", "t"])
    assert not joined(batch, lines, JoinRule(), problems).num_rows
    with pytest.raises(DataError) as caught:
        problems.raise_if_any()
    assert caught.value.problems == (
        "message 2: the id is null",
        "message 3: 'text' is null, expected a string; if the text is empty, write \"\"",
    )


def test_the_collection_is_good_before_it_is_damaged(folder):
    assert len(load_dataset(folder).corpus) == 2


RECORDS = [
    (b'{"_id":"x","text":"a\xff"}', "line 3: not UTF-8: byte 0xff in column 21"),
    ('{"_id":"x","text":"Zoë"}'.encode("latin-1"), "line 3: not UTF-8: byte 0xeb in column 22"),
    (b'{"_id":"x","text":"a"', "line 3: malformed JSON:"),
    (b'{"_id":"x","text":"a"} x', "line 3: malformed JSON:"),
    (b'{"_id":"x","text":NaN}', "line 3: malformed JSON:"),
    (b'{"_id":"x","text":"\\ud800"}', "line 3: malformed JSON:"),
    (b"[", "line 3: malformed JSON: one object per line is expected; a list of objects is read from a .json file"),
    (b'["x","a"]', 'line 3: a JSON object is expected, not ["x","a"]'),
    (b'"x"', 'line 3: a JSON object is expected, not "x"'),
    (b'{"_id":1.5,"text":"a"}', "line 3: '_id' is 1.5, expected a string or an integer"),
    (b'{"_id":true,"text":"a"}', "line 3: '_id' is true, expected a string or an integer"),
    (b'{"_id":null,"text":"a"}', "line 3: '_id' is null, expected a string or an integer"),
    (b'{"_id":"x","text":["a"]}', "line 3: 'text' is [\"a\"], expected a string"),
    (b'{"_id":"x","text":null}', "line 3: 'text' is null, expected a string; if the text is empty, write \"\""),
    (b'{"_id":"","text":"a"}', "line 3: the id '' is empty"),
    (b'{"_id":"x","text":"a","text":"b"}', "line 3: the key 'text' occurs twice"),
    (b'{"_id":"x","text":"a","text" :"b"}', "line 3: the key 'text' occurs twice"),
    (b'{"_id":"x","text":"a \\":","metadata":{"k":1,"k":2}}', "line 3: the key 'k' occurs twice"),
    (b'{"_id":"x ","text":"a"}', "line 3: the id 'x ' is empty, or has outer spaces"),
    (b'{"_id":"x\\ty","text":"a"}', "line 3: the id 'x\\ty' is empty, or has outer spaces or control characters"),
]


MISSING = [
    (b'{"text":"a"}', "line 3: no field for the {id}; name it, as --columns {id}=… (there are: text)"),
    (
        b"{}",
        "line 3: no field for the {id} and the {text}; name them, as --columns {id}=…,{text}=… (there are: no fields)",
    ),
    (b'{"key":"x","body_":"a"}', "line 3: no field for the {id} and the {text}; name them, as --columns {id}=…"),
    (
        b'{"_id":"x","words":"a"}',
        "line 3: no field for the {text}; name it, as --columns {text}=… (there are: _id, words)",
    ),
]


@pytest.mark.parametrize(
    ("name", "roles"), [("corpus.jsonl", ("id", "text")), ("queries.jsonl", ("query_id", "query"))]
)
@pytest.mark.parametrize(("line", "expected"), MISSING)
def test_all_missing_fields_of_a_record_are_told_at_once(folder, name, roles, line, expected):
    message = fault(folder, name, GOOD[name] + line + b"\n")
    assert "1 problem" in message
    assert expected.format(id=roles[0], text=roles[1]) in message


@pytest.mark.parametrize(
    ("line", "hint"),
    [(b'{"_idx":"x","text":"a"}', "--columns id=_idx"), (b'{"_id":"x","txt":"a"}', "--columns text=txt")],
)
def test_a_field_that_is_called_nearly_so_is_offered(folder, line, hint):
    assert hint in fault(folder, "corpus.jsonl", GOOD["corpus.jsonl"] + line)


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
@pytest.mark.parametrize(("line", "expected"), RECORDS)
def test_faulty_records(folder, name, line, expected):
    message = fault(folder, name, GOOD[name] + line + b"\n")
    assert "1 problem" in message
    assert expected in message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"_id":"x","title":3,"text":"a"}', "line 3: 'title' is 3, expected a string"),
        (b'{"_id":"x","titel":"a","text":"a"}', "line 3: 'titel' looks like a misspelt 'title'"),
        (b'{"ID":"x","Id":"y","text":"a"}', "line 3: the id may be 'ID' or 'Id': say which, as --columns id=ID"),
        (b'{"_id":"d1","text":"a"}', "line 3: duplicate id 'd1', first on line 1"),
    ],
)
def test_faulty_documents(folder, line, expected):
    assert expected in fault(folder, "corpus.jsonl", GOOD["corpus.jsonl"] + line)


def test_text_that_looks_like_keys_repeats_none(folder):
    line = {"_id": "d1", "text": 'say "text": "a", "text": "b" \\', "metadata": {"a": [{"b": 1}, {"b": 2}]}}
    (folder / "corpus.jsonl").write_text(json.dumps(line) + "\n" + '{"_id" : "d2", "text" : "a\\" :"}\n')
    assert load_dataset(folder).corpus.texts.to_pylist() == [line["text"], 'a" :']


def test_fields_that_are_no_misspelt_title(folder):
    (folder / "corpus.jsonl").write_bytes(b'{"_id":"d1","subtitle":"a","url":"b","text":"a"}')
    assert load_dataset(folder).corpus.texts.to_pylist() == ["a"]


def test_integer_and_string_ids_that_are_the_same(folder):
    message = fault(
        folder, "queries.jsonl", b'{"_id":"1","text":"a"}\n\n{"_id":1,"text":"b"}\n{"_id":"1","text":"c"}\n'
    )
    assert "2 problems" in message
    assert "line 3: duplicate id '1', first on line 1" in message
    assert "line 4: duplicate id '1', first on line 1" in message


def test_problems_of_documents_and_queries_come_together(folder):
    (folder / "corpus.jsonl").write_bytes(b"{}\n")
    message = fault(folder, "queries.jsonl", b'{"_id"\n{}\n')
    assert f"{folder / 'queries.jsonl'}: 2 problems\n  line 1: malformed JSON" in message
    assert f"{folder / 'corpus.jsonl'}: 1 problem\n  line 1: no field for the id and the text" in message


def test_all_problems_of_a_file_come_at_once(folder):
    content = b'{"_id":"d1","text":"a"}\n{"text":"b"}\n\n{"_id":"d1","text":"c"}\n{"_id":"","text":"d"}\n{"_id"\n'
    message = fault(folder, "corpus.jsonl", content)
    assert "4 problems" in message
    for line in (2, 4, 5, 6):
        assert f"line {line}: " in message


def test_the_first_twenty_problems_and_a_count(folder):
    message = fault(folder, "corpus.jsonl", b"[]\n" * 10_000)
    assert "10000 problems" in message
    assert "line 20: " in message
    assert "line 21: " not in message
    assert "… and 9980 more" in message


def test_one_problem_of_many_lines_is_told_once(folder):
    message = fault(folder, "corpus.jsonl", b'{"_id":"d1","text":"b"}\n' + b"{}\n" * 10_000)
    assert "1 problem\n" in message
    assert "line 2: no field for the id and the text" in message
    assert "and so for 9,999 lines more" in message


def test_problems_stand_in_the_order_of_lines_whichever_check_finds_them(folder):
    content = b'{"_id":"d1","text":"a"}\n{"_id":"d1","text":"b"}\n{"_id":" ","text":"c"}\n' + b"[]\n" * 30
    message = fault(folder, "corpus.jsonl", content)
    noted = [int(line) for line in re.findall(r"^  line (\d+): ", message, re.MULTILINE)]
    assert "32 problems" in message
    assert noted == list(range(2, 22))


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl"])
@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_no_records(folder, name, content):
    assert "the file holds no records" in fault(folder, name, content)


@pytest.mark.parametrize("name", list(GOOD))
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_utf16(folder, name, codec):
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}[codec]
    message = fault(folder, name, mark + GOOD[name].decode().encode(codec))
    assert "line 1: the file is UTF-16, expected UTF-8" in message


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"q1\td2", "line 3: 2 columns, expected 3 separated by tabs"),
        (b"q1 d2 1", "(these are separated by spaces)"),
        (b"q1\t0\td2\t1", "(four are TREC's layout"),
        (b"q1\td2\t1.5", "line 3: the grade '1.5' is not an integer"),
        (b"q1\td2\t 1", "line 3: the grade ' 1' is not a number"),
        (b"q1\td2\tyes", "line 3: the grade 'yes' is not a number"),
        (b"q1\td2\t", "line 3: the grade '' is not a number"),
        (b"q1\td2\t1_0", "line 3: the grade '1_0' is not a number"),
        (b"q1\td2\t2147483648", "line 3: the grade '2147483648' does not fit into 32 bits"),
        (b"\td2\t1", "line 3: the query's or the document's id is empty"),
        (b"q1\t\t1", "line 3: the query's or the document's id is empty"),
        (b"q9\td2\t1", "line 3: query 'q9' is not in queries.jsonl"),
        (b"q1\td1\t2", "line 3: document 'd1' is judged for query 'q1' with grade 2, and on line 2 with 1"),
        (b"q1\td\xff\t2", "line 3: not UTF-8: byte 0xff in column 5"),
        (b"query-id\tcorpus-id\tscore", "line 3: the grade 'score' is not a number"),
    ],
)
def test_faulty_judgments(folder, line, expected):
    message = fault(folder, "qrels/test.tsv", GOOD["qrels/test.tsv"] + line + b"\n")
    assert "1 problem\n" in message
    assert expected in message


def test_all_problems_of_judgments_come_at_once(folder):
    content = GOOD["qrels/test.tsv"] + b"q9\td1\t1\nq1\td9\t1\nq1\td8\t1\nq1\td2\tx\nq1\td1\t2\n"
    assert "5 problems" in fault(folder, "qrels/test.tsv", content)


@pytest.mark.parametrize("grade", [b"0", b"-2", b"+3", b"2147483647"])
def test_grades_that_are_allowed(folder, grade):
    (folder / "qrels" / "test.tsv").write_bytes(b"query-id\tcorpus-id\tscore\nq1\td1\t%s\n" % grade)
    qrels = load_dataset(folder).qrels
    assert qrels is not None
    assert qrels.grades.tolist() == [int(grade)]


def test_another_header(folder):
    (folder / "qrels/test.tsv").write_bytes(b"query_id\tdoc_id\tgrade\nq1\td1\t1\n")
    assert load_dataset(folder).qrels.grades.tolist() == [1]
    message = fault(folder, "qrels/test.tsv", b"question\tanswer\tstars\nq1\td1\t1\n")
    assert "line 1: the grade 'stars' is not a number (a header must be: query-id corpus-id score)" in message


@pytest.mark.parametrize("content", [b"", b"query-id\tcorpus-id\tscore\n"])
def test_no_judgments(folder, content):
    assert "the file holds no judgments" in fault(folder, "qrels/test.tsv", content)


@pytest.mark.parametrize("name", list(GOOD))
def test_a_truncated_gzip_member(folder, name):
    (folder / name).unlink()
    many = GOOD[name] if name.startswith("qrels") else b"".join(b'{"_id":%d,"text":"a"}\n' % row for row in range(5000))
    assert "cannot be read further" in fault(folder, f"{name}.gz", gzip.compress(many)[:-20])


def test_a_member_that_is_not_gzip(folder):
    (folder / "corpus.jsonl").unlink()
    assert "line 1: cannot be read further: Not a gzipped file" in fault(
        folder, "corpus.jsonl.gz", GOOD["corpus.jsonl"]
    )


def test_a_damaged_gzip_member(folder):
    (folder / "corpus.jsonl").unlink()
    content = bytearray(gzip.compress(b"".join(b'{"_id":%d,"text":"%d"}\n' % (row, row * row) for row in range(9000))))
    content[len(content) // 2 : len(content) // 2 + 40] = bytes(40)
    assert "cannot be read further" in fault(folder, "corpus.jsonl.gz", bytes(content))


def test_a_damaged_zip_member(tmp_path):
    path = tmp_path / "toys.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in GOOD.items():
            archive.writestr(name, content)
    content = path.read_bytes().replace(b'"text":"b"', b'"text":"c"')
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"corpus.jsonl: 1 problem\n  line 1: cannot be read further: Bad CRC-32"):
        load_dataset(path)


def test_an_encrypted_zip_member(tmp_path):
    path = tmp_path / "toys.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in GOOD.items():
            archive.writestr(name, content)
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(signature, start + 1)) >= 0:
            content[start + offset] |= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be opened: .*encrypted"):
        load_dataset(path)


@pytest.mark.parametrize("name", list(GOOD))
def test_a_file_that_may_not_be_read(folder, name, monkeypatch):
    def refuse(path, *arguments, **named):
        if path == folder / name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_open(path, *arguments, **named)

    real_open = Path.open
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match="Permission denied") as caught:
        load_dataset(folder)
    assert str(folder / name) in str(caught.value)


def test_a_folder_that_may_not_be_read(folder, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        load_dataset(folder)


def test_a_file_that_fails_while_it_is_read(folder, monkeypatch):
    from harness.loaders import source

    class Failing:
        def __init__(self, *arguments) -> None:
            self.sent = False

        def __iter__(self):
            yield GOOD["corpus.jsonl"].splitlines(keepends=True)[0]
            raise OSError(5, "Input/output error")

        def read(self, size):
            return b""

        def __enter__(self):
            return self

        def __exit__(self, *arguments) -> None:
            pass

    monkeypatch.setattr(source.Source, "_open_raw", Failing)
    with pytest.raises(DataError, match="line 2: cannot be read further: Input/output error"):
        load_dataset(folder)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("q1 0 d1 1\nq1 0 d2\n", "line 2: 3 columns, expected TREC's four: query 0 document grade\n"),
        ("q1 0 d1 1\nq1 0\n", "line 2: 2 columns, expected TREC's four: query 0 document grade\n"),
        ("q1 0 d1 1\nq1 0 1\n", "line 2: 3 columns, expected TREC's four: query 0 document grade\n"),
        ("q1 0 d1\nq1 0 d2 1\n", "line 1: 3 columns, expected TREC's four: query 0 document grade\n"),
        ("q1\t0\td1\n", "line 1: the grade 'd1' is not a number (TREC's layout has four columns: query 0 document"),
        ("q1 d1 1\n", "line 1: 3 columns, expected TREC's four: query 0 document grade (or three separated by tabs"),
    ],
)
def test_short_lines_of_trec_are_told_what_trec_has(content: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "qrels.txt"
    path.write_text(content)
    problems = Problems(str(path))
    with path.open("rb") as stream:
        read_judgment_lines(stream, problems, [])
    with pytest.raises(DataError) as caught:
        problems.raise_if_any()
    assert expected in f"{caught.value}\n"
    assert "a header must be" not in str(caught.value)
