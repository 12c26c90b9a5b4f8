"""Golden sets on disk: every accepted form, and one clear message with file and line for everything else."""

from __future__ import annotations

import gzip
import json

import pytest

from harness.data.golden_set import Expectation
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.dataset import load_corpus, load_golden_of
from harness.loaders.golden import golden_of_records, load_golden


def write(tmp_path, text, name="golden.jsonl"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def line(**values):
    return json.dumps(values) + "\n"


@pytest.mark.parametrize("asked", ["question", "query"])
@pytest.mark.parametrize("expected", ["expected_relevant_doc_ids", "expected", "relevant_doc_ids"])
def test_every_spelling_is_read(tmp_path, asked, expected):
    path = write(tmp_path, line(id="q", **{asked: "why?", expected: ["a", 7]}))
    (question,) = load_golden(path)
    assert (question.id, question.question, question.line) == ("q", "why?", 1)
    assert question.expected == (Expectation("a"), Expectation("7"))


def test_grades_one_id_and_no_expectation(tmp_path):
    path = write(
        tmp_path,
        line(id="1", question="?", expected={"a": 2, "b": 0})
        + line(id="2", question="?", expected="c")
        + line(id="3", question="?", expected=[])
        + line(id="4", question="?", expected=None),
    )
    golden = load_golden(path)
    assert golden.questions[0].expected == (Expectation("a", 2), Expectation("b", 0))
    assert golden.questions[1].expected == (Expectation("c"),)
    assert [question.expected for question in golden.questions[2:]] == [(), ()]
    assert [question.id for question in golden.expecting()] == ["1", "2"]
    assert [question.id for question in golden.expecting(relevance=2)] == ["1"]


def test_other_fields_are_kept_for_slices(tmp_path):
    rows = line(id="1", question="?", expected="a", lang="de", tags=["x", "y", "x"], year=2024, note=None)
    golden = load_golden(write(tmp_path, rows + line(id="2", question="?", expected="a", lang="en")))
    assert golden.questions[0].fields == {"lang": ("de",), "tags": ("x", "y"), "year": ("2024",), "note": ()}
    assert golden.fields == ("lang", "tags", "year", "note")
    assert golden.values("lang") == ("de", "en")


def test_a_byte_order_mark_blank_lines_and_carriage_returns_are_accepted(tmp_path):
    text = (
        "\ufeff"
        + line(id="a", question="?", expected="x").replace("\n", "\r\n")
        + "\r\n"
        + line(question="?", expected=[])
    )
    golden = load_golden(write(tmp_path, text))
    assert [question.id for question in golden] == ["a", "line-3"]
    assert len(golden.notes) == 2


def test_gzip_is_read(tmp_path):
    path = write(tmp_path, gzip.compress(line(id="a", question="?", expected="x").encode()), "set.jsonl.gz")
    assert load_golden(path).name == "set"


@pytest.mark.parametrize(("name", "mark"), [("golden.csv", ","), ("golden.tsv", "\t")])
def test_tables(tmp_path, name, mark):
    rows = [
        ["id", "question", "expected", "lang"],
        ["1", '"two\nlines"', "a; b|c", "de"],
        ["", "none", "", "en"],
        ["3", "graded", '"{""a"": 2}"', ""],
    ]
    golden = load_golden(write(tmp_path, "\r\n".join(mark.join(row) for row in rows), name))
    assert [question.id for question in golden] == ["1", "line-4", "3"]
    assert golden.questions[0].question == "two\nlines"
    assert [one.id for one in golden.questions[0].expected] == ["a", "b", "c"]
    assert golden.questions[1].expected == ()
    assert golden.questions[2].expected == (Expectation("a", 2),)
    assert golden.values("lang") == ("de", "en")


GOOD = line(id="a", question="?", expected="x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"id": "a", "question"', "line 1: malformed JSON"),
        ("[1]\n", "line 1: a JSON object is expected, not [1]; a list of objects is read from a .json file"),
        (line(_id="a", text="?"), "(there are: _id, text); write [] for"),
        (line(id="a", expected="x"), "line 1: the field 'question' is missing"),
        (line(id="a", questoin="?", expected="x"), "did you mean 'question'?"),
        (line(id="a", question="?"), "write [] for a question that nothing answers"),
        (line(id="a", question="?", expected_docs=["x"]), "did you mean 'expected_doc_ids'?"),
        (line(id="a", question="?", expected="x", relevant_doc_ids="y"), "both 'expected' and 'relevant_doc_ids'"),
        (line(id="a", question="?", query="?", expected="x"), "both 'question' and 'query'"),
        (line(id="a", question=" ", expected="x"), "line 1: 'question' is \" \", expected a question"),
        (line(id="a", question=3, expected="x"), "expected a question"),
        (line(id=True, question="?", expected="x"), "'id' is true, expected a string or an integer"),
        (line(id="a ", question="?", expected="x"), "outer spaces"),
        (GOOD + "\n" + GOOD, "line 3: duplicate id 'a', first on line 1"),
        (line(id="a", question="?", expected=["x", "x"]), "holds 'x' twice"),
        (line(id="a", question="?", expected=[""]), "expected an id"),
        (line(id="a", question="?", expected=[None]), "expected an id"),
        (line(id="a", question="?", expected=2.5), "expected a list of ids, or {id: grade}"),
        (line(id="a", question="?", expected={"x": 1.5}), "the grade of 'x' is 1.5"),
        (line(id="a", question="?", expected={"x": -1}), "the grade of 'x' is -1"),
        (line(id="a", question="?", expected={"x": True}), "the grade of 'x' is true"),
        (line(id="a", question="?", expected=[]), "no question expects anything"),
        ("\n\n", "the file holds no questions"),
        ("", "the file holds no questions"),
        (b'{"id": "\xff"}\n', "line 1: not UTF-8"),
        ("x".encode("utf-16"), "UTF-16"),
    ],
)
def test_bad_input_is_named_with_its_line(tmp_path, text, said):
    with pytest.raises(DataError) as raised:
        load_golden(write(tmp_path, text))
    assert said in str(raised.value)
    assert str(tmp_path / "golden.jsonl") in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id,question,expected\n1,?\n", "line 2: 2 cells, but the header has 3"),
        ("id,id,question,expected\n1,1,?,a\n", "the header names the column 'id' 2 times"),
        ("id,question\n1,?\n", "line 2: the field 'expected_relevant_doc_ids' is missing"),
        ('id,question,expected\n1,?,"{a"\n', "malformed JSON"),
        ('id,question,expected\n1,"?" x,a\n', "line 2: malformed table"),
        (b"id,question,expected\n1,\xff,a\n", "line 2: not UTF-8"),
        ("id,question,expected\n", "the file holds no questions"),
        ("", "the file holds no questions"),
    ],
)
def test_bad_tables_are_named_with_their_line(tmp_path, text, said):
    with pytest.raises(DataError) as raised:
        load_golden(write(tmp_path, text, "golden.csv"))
    assert said in str(raised.value)


def test_every_problem_of_a_file_is_reported_at_once(tmp_path):
    with pytest.raises(DataError) as raised:
        load_golden(write(tmp_path, "{\n" + line(id="a", question="?") + GOOD))
    assert raised.value.count == 2


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        load_golden(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize("name", ["golden.jsonl", "./golden.csv", "data/golden.jsonl.gz"])
def test_a_missing_file_is_no_unknown_dataset(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for load in (load_golden_of, load_corpus):
        with pytest.raises(UsageError, match="there is no file"):
            load(name)


def test_a_missing_file_is_held_against_those_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.jsonl").touch()
    for name in ("golden.json", "goldn.jsonl", "./Golden.jsonl.gz"):
        with pytest.raises(UsageError, match=r"there is no file '.*' \(did you mean 'golden.jsonl'\?\)"):
            load_golden_of(name)
    with pytest.raises(UsageError, match=r"there is no file 'chunks\.json'"):
        load_golden_of("chunks.json")
    for name in ("golden", "chunks"):
        with pytest.raises(UnknownNameError, match=name):
            load_golden_of(name)


def test_records_in_memory():
    golden = golden_of_records([{"id": 1, "question": "?", "expected": ["a"]}])
    assert [question.id for question in golden] == ["1"]
    with pytest.raises(DataError, match="line 1"):
        golden_of_records([{"question": ""}])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("golden.csv", "id;question;expected\na;who?;x\n"),
        ("golden.csv", "id\tquestion\texpected\na\twho?\tx\n"),
        ("golden.tsv", "id,question,expected\na,who?,x\n"),
        ("golden.json", '[{"id": "a", "question": "who?", "expected": ["x"]}]'),
    ],
)
def test_other_delimiters_and_arrays_are_read(tmp_path, name, text):
    (question,) = load_golden(write(tmp_path, text, name))
    assert (question.id, question.question, question.expected[0].id) == ("a", "who?", "x")


def test_a_golden_set_of_a_card_says_the_language_of_its_documents(tmp_path):
    golden, of_dataset = load_golden_of("chunking-eval")
    assert (of_dataset, golden.language, golden.analyzer) == (True, "en", None)
    path = write(tmp_path, line(id="a", question="who?", expected=["x"]))
    assert load_golden_of(path)[0].language is None
