"""Golden sets on disk: every accepted form, and one clear message with file and line for everything else."""

from __future__ import annotations

import gzip
import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import harness
from harness.data.dataset import Dataset, DatasetFiles
from harness.data.golden_set import Expectation
from harness.data.types import Ids
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.dataset import load_corpus, load_dataset, load_golden_of
from harness.loaders.golden import golden_of_records, load_golden
from harness.pipeline.check.id_match import Match, id_advice, resolve_ids
from harness.plan.option_values import parse_match


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
        ("x".encode("utf-16"), "the file is UTF-16, expected UTF-8: convert it with iconv -f UTF-16 -t UTF-8 FILE"),
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


def test_an_expected_id_that_is_repeated_counts_once_and_is_noted(tmp_path):
    golden = load_golden(write(tmp_path, line(id="a", question="?", expected=["x", "y", "x"])))
    assert [expected.id for expected in golden.questions[0].expected] == ["x", "y"]
    assert golden.notes == ("1 repeated expected id of the same question, counted once: 'x'",)
    assert golden_of_records([{"question": "?", "expected": ["x", "x"]}]).notes == golden.notes
    dataset = Dataset.of({"x": "a", "y": "b"}, [{"id": "a", "text": "?", "expected": ["x", "y", "x"]}])
    assert dataset.qrels is not None
    assert dataset.qrels.doc_ids.to_list() == ["x", "y"]


def test_an_expected_id_of_two_grades_is_refused(tmp_path):
    twice = [{"id": "x", "grade": 1}, {"id": "x", "grade": 2}]
    for read in (
        lambda: load_golden(write(tmp_path, line(id="a", question="?", expected=twice))),
        lambda: golden_of_records([{"question": "?", "expected": twice}]),
        lambda: Dataset.of({"x": "a"}, [{"id": "a", "text": "?", "expected": twice}]),
    ):
        with pytest.raises(DataError, match="'expected' holds 'x' twice, with the grades 1 and 2"):
            read()


@pytest.mark.parametrize("name", ["golden.jsonl", "golden.csv", "golden.parquet"])
def test_field_names_are_read_in_any_case(tmp_path, name):
    record = {"ID": "a", "Question": "how?", "Expected_Relevant_Doc_IDs": "x", "Lang": "en"}
    if name == "golden.jsonl":
        path = write(tmp_path, line(**record), name)
    elif name == "golden.csv":
        path = write(tmp_path, "\n".join(",".join(row) for row in (record, record.values())), name)
    else:
        path = tmp_path / name
        pq.write_table(pa.Table.from_pylist([record]), path)
    (question,) = load_golden(path)
    assert (question.id, question.question, question.expected[0].id) == ("a", "how?", "x")
    assert question.fields == {"Lang": ("en",)}


def test_a_name_in_exact_case_is_taken_and_two_in_another_case_are_refused(tmp_path):
    exact = line(question="how?", Question="a slice", expected="x")
    (question,) = load_golden(write(tmp_path, exact))
    assert (question.question, question.fields) == ("how?", {"Question": ("a slice",)})
    with pytest.raises(DataError, match="both 'Question' and 'QUESTION' are present: keep one"):
        load_golden(write(tmp_path, line(Question="how?", QUESTION="why?", expected="x")))


def test_a_missing_column_is_told_once_for_the_file(tmp_path):
    with pytest.raises(DataError) as raised:
        load_golden(write(tmp_path, "id,questoin,expected\n1,?,a\n2,?,b\n3,?,c\n", "golden.csv"))
    missing = "line 2: the field 'question' is missing (there are: id, questoin, expected) (did you mean 'question'?)"
    assert raised.value.problems == (f"{missing}, and so for 2 lines more",)


CORPUS = Ids.of(["terms.md|1", "pump.md|2", "a", "b", "7", "8.0", "8"])


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("terms.md|1", ["terms.md|1"]),
        ("terms.md|1;pump.md|2", ["terms.md|1", "pump.md|2"]),
        ("terms.md|1;gone.md|2", ["terms.md|1", "gone.md|2"]),
        ("a;b", ["a", "b"]),
        ("a|b", ["a", "b"]),
        ("gone|away", ["gone", "away"]),
        ('["terms.md|1"]', ["terms.md|1"]),
        ("7.0", ["7"]),
        ("7.0;a", ["7", "a"]),
        ("8.0", ["8.0"]),
        ("9.0", ["9.0"]),
    ],
)
def test_a_cell_is_read_as_the_corpus_writes_ids(tmp_path, cell, expected):
    quoted = cell.replace('"', '""')
    golden = load_golden(write(tmp_path, f'question,expected\nhow?,"{quoted}"\n', "golden.csv"))
    resolved = resolve_ids(golden, Match(), [CORPUS])
    assert [one.id for one in resolved.questions[0].expected] == expected
    assert bool(resolved.notes) == (resolved is not golden)


def test_a_cell_of_one_id_is_explained_where_the_corpus_is_known_late(tmp_path):
    """As of an external index, whose ids are listed when it is searched."""
    golden = load_golden(write(tmp_path, "question,expected\nhow?,terms.md|1\n", "golden.csv"))
    advice = id_advice(golden, ["terms.md", "1"], CORPUS).fix
    assert advice == "'terms.md|1' in a cell of CSV is several ids; write [\"terms.md|1\"] for one"


PIPED = {
    "pump.md|1": "fill the tank",
    "pump.md|2": "look at the fuse",
    "terms.md|1": "the warranty is two years",
    "7": "x",
}


@pytest.mark.usefixtures("warm_workers")
def test_a_cell_of_one_id_is_scored_as_one_by_check_and_in_a_dataset(tmp_path):
    corpus = write(tmp_path, "".join(line(_id=name, text=text) for name, text in PIPED.items()), "chunks.jsonl")
    golden = write(tmp_path, "question,expected\nhow long is the warranty?,terms.md|1\nwhich?,7.0\n", "golden.csv")
    dataset = load_dataset(corpus, files=DatasetFiles(queries=golden))
    assert dataset.qrels.doc_ids.to_list() == ["terms.md|1", "7"]
    assert "1 cell with ; or | read as the corpus writes ids: 'terms.md|1'" in dataset.provenance["notes"]
    report = harness.check(golden, corpus=corpus, backends="csr:analyzer=snowball-english", k=3, timing=False).report
    assert report.preflight == []
    assert [[one.id for one in asked.expected] for asked in report.trials[0].questions] == [["terms.md|1"], ["7"]]
    assert report.trials[0].questions[0].values["Hit@3"] == 1.0
    assert report.golden.notes == [
        "1 cell with ; or | read as the corpus writes ids: 'terms.md|1'",
        "1 expected id read as a whole number: '7.0' as '7'",
    ]


def test_chunks_of_a_document_make_a_cell_known(tmp_path):
    golden = load_golden(write(tmp_path, "question,expected\nhow?,a|b\nwhy?,c|d\n", "golden.csv"))
    resolved = resolve_ids(golden, Match.of(parse_match("document"), "#"), [Ids.of(["a|b#1", "c#2", "d#1"])])
    assert [[one.id for one in question.expected] for question in resolved] == [["a|b"], ["c", "d"]]
    assert resolve_ids(golden, Match(), []) is golden


@pytest.mark.parametrize("expected", [7.0, [7.0, 7], {"7.0": 2}])
def test_whole_numbers_that_pandas_made_floats_meet_their_document(tmp_path, expected):
    golden = load_golden(write(tmp_path, line(question="?", expected=expected)))
    resolved = resolve_ids(golden, Match(), [CORPUS])
    assert [one.id for one in resolved.questions[0].expected] == ["7"]
    assert resolved.notes[-1] == "1 expected id read as a whole number: '7.0' as '7'"


def test_a_column_of_floats_with_an_empty_cell_is_read(tmp_path):
    pd.DataFrame({"question": ["?", "!"], "expected": [7.0, None]}).to_parquet(tmp_path / "golden.parquet")
    golden = resolve_ids(load_golden(tmp_path / "golden.parquet"), Match(), [CORPUS])
    assert [[one.id for one in question.expected] for question in golden] == [["7"], []]


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


ROWS = [
    {"question": "How long?", "expected": "a", "lang": "en"},
    {"question": "How wide?", "expected": "b", "lang": "en"},
    {"question": "How  long? ", "expected": "c", "lang": "de"},
    {"question": "how long?", "expected": "d", "lang": "en"},
]


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet", "jsonl.gz", "objects"])
def test_rows_of_one_question_without_ids_are_one_question(tmp_path, form):
    path = tmp_path / f"golden.{form}"
    if form == "objects":
        golden = golden_of_records(ROWS)
    else:
        lines = "".join(json.dumps(row) + "\n" for row in ROWS)
        if form == "csv":
            pd.DataFrame(ROWS).to_csv(path, index=False)
        elif form == "parquet":
            pd.DataFrame(ROWS).to_parquet(path)
        elif form == "json":
            path.write_text(json.dumps(ROWS))
        else:
            path.write_bytes(gzip.compress(lines.encode()) if form.endswith("gz") else lines.encode())
        golden = load_golden(path)
    expected = [[document.id for document in question.expected] for question in golden]
    assert expected == [["a", "c"], ["b"], ["d"]]
    assert [question.question for question in golden] == ["How long?", "How wide?", "how long?"]
    assert golden.questions[0].fields["lang"] == ("en", "de")
    assert not any(question.has_id for question in golden)
    (note,) = golden.notes
    assert note.startswith("1 row repeats a question without an id, and their expected ids are joined: ")


def test_rows_with_ids_stay_questions_of_their_own(tmp_path):
    rows = [{"id": str(number), **row} for number, row in enumerate(ROWS)]
    golden = golden_of_records([*rows, {"question": "How long?", "expected": "e"}])
    assert [question.id for question in golden] == ["0", "1", "2", "3", "line-5"]
    assert [question.has_id for question in golden] == [True] * 4 + [False]
    assert golden.notes == ()


def test_joined_rows_may_not_grade_a_document_differently():
    rows = [{"question": "?", "expected": {"a": 2}}, {"question": "?", "expected": {"a": 2, "b": 1}}]
    (question,) = golden_of_records(rows)
    assert question.expected == (Expectation("a", 2), Expectation("b", 1))
    with pytest.raises(DataError, match=r"the grade of 'a' is 1, and 2 for the same question on line 1"):
        golden_of_records([*rows, {"question": "?", "expected": ["a"]}])


def test_a_joined_cell_is_read_as_the_corpus_writes_ids(tmp_path):
    (tmp_path / "golden.csv").write_text("question,expected\n?,x|y\n?,z;w\n?,v\n")
    corpus = Ids.of(["x|y", "z;w", "v"])
    (question,) = resolve_ids(load_golden(tmp_path / "golden.csv"), Match(), [corpus])
    assert [document.id for document in question.expected] == ["x|y", "z;w", "v"]
    (plain,) = resolve_ids(load_golden(tmp_path / "golden.csv"), Match(), [Ids.of([*"xyzwv"])])
    assert [document.id for document in plain.expected] == [*"xyzwv"]
