"""Shapes of golden sets: those that carry the same facts are read alike, and two readings are named."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import yaml
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from installed import Deferred
from pydantic import BaseModel

import harness
from harness.data.columns import parse_columns
from harness.data.dataset import Dataset, attribute_of
from harness.data.golden_records import golden_of_objects
from harness.data.golden_set import GoldenSet
from harness.data.golden_shapes import SHAPES, GoldenContent, read_shapes
from harness.errors import DataError, UsageError
from harness.loaders.golden import load_golden
from harness.pipeline.check.checked import CheckResult

openpyxl = Deferred("openpyxl")
IDS = st.text("abcXYZ019#./_é", min_size=1, max_size=6).filter(lambda name: name not in ("no", "null"))
QUESTIONS = st.text("abc ?!äß'\"|;,\n", min_size=1, max_size=20).map(lambda text: f"q {text} q")


@st.composite
def golden_sets(draw: st.DrawFn) -> list[tuple[str, str, dict[str, int]]]:
    """Questions with ids, distinct texts, and graded expected ids."""
    texts = draw(st.lists(QUESTIONS, min_size=1, max_size=5, unique_by=lambda text: " ".join(text.split())))
    ids = draw(st.lists(IDS, min_size=len(texts), max_size=len(texts), unique=True))
    grades = st.dictionaries(IDS, st.integers(1, 3), min_size=1, max_size=3)
    return [(name, text, draw(grades)) for name, text in zip(ids, texts, strict=True)]


def cells(rows: list[list[Any]]) -> str:
    content = io.StringIO()
    csv.writer(content).writerows(rows)
    return content.getvalue()


def shapes_of(facts: list[tuple[str, str, dict[str, int]]], folder: Path) -> dict[str, Any]:
    """Files and objects of every shape with the same facts, by a name; with grades all 1 in shapes without grades."""
    plain = [{"id": name, "question": text, "expected": grades} for name, text, grades in facts]
    columns = {key: [record[key] for record in plain] for key in ("id", "question", "expected")}
    as_cells = [[*[*record.values()][:2], json.dumps(record["expected"])] for record in plain]
    python_cells = [[*[*record.values()][:2], repr(record["expected"])] for record in plain]
    long = [[name, text, document, grade] for name, text, grades in facts for document, grade in grades.items()]
    objects: dict[str, Any] = {
        "records": plain,
        "by-id": {record["id"]: {"question": record["question"], "expected": record["expected"]} for record in plain},
        "by-columns": columns,
        "pandas-columns": {key: dict(zip("0123456789", values, strict=False)) for key, values in columns.items()},
        "pandas-split": {"columns": [*columns], "index": [], "data": [[*record.values()] for record in plain]},
        "under-a-key": {"version": 1, "settings": [{"k": 3}], "data": {"tests": plain}},
        "llamaindex": {
            "queries": {name: text for name, text, _ in facts},
            "corpus": {},
            "relevant_docs": {name: grades for name, _, grades in facts},
        },
        "autorag": [{"qid": name, "query": text, "retrieval_gt": grades} for name, text, grades in facts],
        "ragas": [
            {"qid": name, "user_input": text, "reference_context_ids": grades, "reference_contexts": ["x"]}
            for name, text, grades in facts
        ],
        "ragas-samples": {
            "samples": [
                {"id": name, "eval_sample": {"user_input": text, "reference_context_ids": grades}}
                for name, text, grades in facts
            ]
        },
        "langsmith": [
            {"id": name, "inputs": {"question": text}, "outputs": {"gold_ids": grades}} for name, text, grades in facts
        ],
        "promptfoo": {
            "prompts": ["{{question}}"],
            "providers": [{"id": "x"}],
            "defaultTest": {"vars": {"expected_ids": ["default"]}},
            "tests": [
                {"metadata": {"id": name}, "vars": {"question": text, "expected_ids": grades}}
                for name, text, grades in facts
            ],
        },
        "long": [dict(zip(("qid", "question", "doc_id", "grade"), row, strict=True)) for row in long],
    }
    files: dict[str, Any] = {}
    for name, value in objects.items():
        files[f"{name}.json"] = json.dumps(value)
        files[f"{name}.yaml"] = yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False)
        if isinstance(value, list):
            files[f"{name}.jsonl"] = "".join(json.dumps(record) + "\n" for record in value)
    files["json-cells.csv"] = cells([["id", "question", "expected"], *as_cells])
    files["python-cells.csv"] = cells([["id", "question", "expected"], *python_cells])
    files["long.csv"] = cells([["query_id", "query", "document_id", "relevance"], *long])
    paths = {}
    for name, text in files.items():
        paths[name] = folder / name
        paths[name].write_bytes(text.encode())
    workbook = openpyxl.Workbook()
    for row in [["query_id", "query", "document_id", "relevance"], *long]:
        workbook.active.append(row)
        for cell in workbook.active[workbook.active.max_row]:
            cell.data_type = "n" if isinstance(cell.value, int) else "s"
    workbook.save(folder / "long.xlsx")
    return {**objects, **paths, "long-workbook": folder / "long.xlsx"}


def facts_of(golden: GoldenSet) -> list[tuple[str, str, dict[str, int]]]:
    return [(one.id, one.question, {each.id: each.grade for each in one.expected}) for one in golden]


@settings(max_examples=examples(8), deadline=None)
@given(facts=golden_sets())
def test_shapes_with_the_same_facts_are_read_alike(
    facts: list[tuple[str, str, dict[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shapes")
    for name, value in shapes_of(facts, folder).items():
        columns = {"query_id": "metadata.id"} if "promptfoo" in name else {}
        golden = load_golden(value, columns) if isinstance(value, Path) else golden_of_objects(value, columns)
        assert facts_of(golden) == facts, name


def test_datasets_of_every_shape_have_the_same_digests(tmp_path: Path) -> None:
    facts = [("1", "why?", {"a": 1, "b": 2}), ("2", "how?", {"b": 1})]
    corpus = {"a": "one", "b": "two"}
    plain = Dataset.of(corpus, {name: text for name, text, _ in facts}, {name: grades for name, _, grades in facts})
    for name, value in shapes_of(facts, tmp_path).items():
        if not isinstance(value, Path):
            columns = {"query_id": "metadata.id"} if "promptfoo" in name else None
            dataset = Dataset.of(corpus, value, columns=columns)
            assert dataset.queries.digest == plain.queries.digest, name
            assert dataset.qrels is not None
            assert plain.qrels is not None
            assert dataset.qrels.doc_ids.take(dataset.qrels.rows) == plain.qrels.doc_ids.take(plain.qrels.rows)
            assert dataset.qrels.grades.tolist() == plain.qrels.grades.tolist()


@dataclass
class Samples:
    samples: list[Any]
    name: str = "ragas"


class Goldens:
    def __init__(self, goldens: list[Any]) -> None:
        self.goldens = goldens


class Golden(BaseModel):
    input: str
    context: list[str] | None = None
    expected_output: str | None = None


@dataclass
class Example:
    id: str
    inputs: dict[str, str]
    outputs: dict[str, list[str]] | None
    metadata: dict[str, str] = field(default_factory=dict)


class QaDataset(BaseModel):
    queries: dict[str, str]
    corpus: dict[str, str]
    relevant_docs: dict[str, list[str]]
    mode: str = "text"


def test_objects_of_libraries_are_read() -> None:
    samples = Samples([{"user_input": "why?", "reference_context_ids": ["a"]}])
    assert facts_of(golden_of_objects(samples)) == [("line-1", "why?", {"a": 1})]
    (question,) = golden_of_objects(Goldens([Golden(input="why?", context=["a text"])]))
    assert question.texts == ("a text",)
    examples = [Example("1", {"question": "why?"}, {"expected_ids": ["a"]})]
    assert facts_of(golden_of_objects(iter(examples))) == [("1", "why?", {"a": 1})]
    pairs = QaDataset(queries={"q": "why?"}, corpus={"a": "one"}, relevant_docs={"q": ["a"]})
    dataset = Dataset.of(pairs)
    assert (dataset.corpus.texts.to_pylist(), dataset.queries.texts.to_pylist()) == (["one"], ["why?"])
    frame = pd.DataFrame({"qid": ["q"], "query": ["why?"], "retrieval_gt": [[np.array(["a"])]]})
    for table in (
        frame,
        pa.table({"qid": ["q"], "query": ["why?"], "retrieval_gt": [[["a"]]]}),
        pl.DataFrame({"qid": ["q"], "query": ["why?"], "retrieval_gt": [[["a"]]]}),
    ):
        assert facts_of(golden_of_objects(table)) == [("q", "why?", {"a": 1})]


PLAIN = {"question": "why?", "expected": ["a"]}
TWO_DOCUMENTS = {"question": "?", "doc_id": "a", "chunk_id": "b"}
TWO_INPUTS = {"inputs": {"question": "a", "query": "b"}, "outputs": {"expected": "x"}}
TURNS = {"user_input": [{"content": "hi"}], "reference_context_ids": ["a"]}
NESTED = {"inputs": {"text": "how long is it?"}, "outputs": {"ids": ["a"]}}


@pytest.mark.parametrize(
    ("value", "problem", "columns"),
    [
        (
            {"a": [PLAIN], "b": [PLAIN]},
            "'a' and 'b' are lists of records: name one, as --columns records=a",
            "records=b",
        ),
        ({"a": [{"x": 1}], "b": [{"y": 1}]}, "'a' and 'b' are lists of records", None),
        ({"a": {"b": [PLAIN]}, "c": {"b": [PLAIN]}}, r"'a\.b' and 'c\.b' are lists", "records=c.b"),
        (
            [TWO_DOCUMENTS],
            "may be 'doc_id' or 'chunk_id': say which, as --columns expected=doc_id",
            "expected=chunk_id",
        ),
        ([TWO_INPUTS], r"both 'inputs\.question' and 'inputs\.query' are present: name one", "question=inputs.query"),
        ({"question": ["a", "b"], "expected": [["x"]]}, "lengths: 'question' has 2, 'expected' has 1", None),
        ({"queries": {"1": "a"}, "relevant_docs": {"2": ["x"]}}, "names the query '2', which 'queries' lacks", None),
        ({"prompts": ["x"], "tests": "file://tests.csv"}, r"the tests are in 'tests\.csv', which cannot be read", None),
        ([TURNS], "'user_input' is a conversation, expected one question", None),
        ({"a": 1, "b": "x"}, "a list of questions is expected, not an object with the keys 'a', 'b'", None),
        ({}, "a list of questions is expected, not an empty object", None),
    ],
)
def test_two_readings_are_named_with_the_option_that_decides(
    value: object, problem: str, columns: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match=problem):
        load_golden(path)
    with pytest.raises(UsageError, match=problem.replace("--columns", "columns")):
        golden_of_objects(value)
    if columns is not None:
        assert len(load_golden(path, parse_columns(columns))) == 1
        assert len(golden_of_objects(value, parse_columns(columns))) == 1


def test_a_list_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no list 'x', which --columns names as the records"):
        read_shapes(GoldenContent(mapping={"a": [PLAIN]}, columns={"records": "x"}))
    with pytest.raises(UsageError, match="the questions are in one list already"):
        golden_of_objects([PLAIN], {"records": "x"})


@pytest.mark.parametrize(
    ("record", "advice"),
    [
        (NESTED, "question=inputs.text, expected=outputs.ids"),
        ({"ask": "how long is it?", "docs": ["a"], "gold": "b", "n": 3}, "question=ask, expected=docs or gold"),
        ({"question": "?", "passages": ["a long text", "another text"]}, "expected_texts=passages"),
        ({"question": "?", "contexts": ["a"]}, "contexts is what a system returned, which is never expected"),
    ],
)
def test_an_unknown_shape_lists_what_its_fields_may_be(record: dict[str, Any], advice: str) -> None:
    with pytest.raises(DataError, match="is missing") as caught:
        golden_of_objects([record, record])
    assert advice in str(caught.value)
    assert "and so for 1 line more" in str(caught.value)


def test_a_csv_of_deepeval_joins_its_texts(tmp_path: Path) -> None:
    head = ["input", "actual_output", "expected_output", "context", "retrieval_context"]
    rows = [["why?", "", "x", "first text|second text; one", ""], ["how?", "", "x", "['a text']", ""]]
    path = tmp_path / "golden.csv"
    path.write_text(cells([head, *rows]))
    assert [question.texts for question in load_golden(path)] == [("first text", "second text; one"), ("a text",)]


def test_rows_of_one_id_with_two_questions_are_refused() -> None:
    rows = [{"qid": "1", "question": "a", "doc_id": "x"}, {"qid": "1", "question": "b", "doc_id": "y"}]
    with pytest.raises(DataError, match="duplicate id '1', first on line 1"):
        golden_of_objects(rows)
    with pytest.raises(DataError, match=r"the grade of 'x' is 2\.5"):
        golden_of_objects([{"question": "a", "doc_id": "x", "score": 2.5}])


def test_every_shape_has_a_row_for_the_reference() -> None:
    for shape in SHAPES:
        assert shape.name
        assert shape.content
        assert shape.example
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)


TWO_TEXTS = {"d1": "the pump moves water", "d2": "oil stays in the tank"}


def test_a_dataset_keeps_expected_texts_and_slices(tmp_path: Path) -> None:
    records = [
        {"question": "pump", "reference_contexts": ["the pump moves water"], "lang": "en", "tags": ["a", "b"]},
        {"id": "2", "question": "oil", "expected": ["d2"], "lang": "de"},
    ]
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(records))
    dataset = Dataset.of(TWO_TEXTS, records)
    golden, of_file = GoldenSet.of_dataset(dataset), load_golden(path)
    assert [(one.id, one.expected, one.texts, one.fields, one.has_id) for one in golden] == [
        (one.id, one.expected, one.texts, one.fields, one.has_id) for one in of_file
    ]
    options: dict[str, Any] = {"backends": "csr", "k": 2, "timing": False, "isolation": "none", "slice": ["lang"]}
    (of_dataset,), (plain,) = (
        harness.check(value, corpus=dataset, **options).report.trials for value in (dataset, str(path))
    )
    assert of_dataset.metrics == plain.metrics
    assert of_dataset.slices == plain.slices
    for call in (lambda: harness.compare("csr", dataset), lambda: harness.evaluate({"2": {"d2": 1.0}}, dataset)):
        with pytest.raises(DataError, match="query 'line-1': expected texts without ids, and so for 1 of 2 queries"):
            call()


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (
            {"a": [{"question": "x", "expected": ["d1"]}], "b": [{"question": "y", "expected": ["d1"]}]},
            "'a' and 'b' are",
        ),
        ([{"question": "x", "expected": ["d1"], "expected_ids": ["d2"]}], "both 'expected' and 'expected_ids'"),
        ([{"question": "x", "doc_id": "d1", "chunk_id": "d2"}], "the expected id may be 'doc_id' or 'chunk_id'"),
        ([{"qestion": "x", "expected": ["d1"]}], "the field 'question' is missing"),
        ({"question": ["x", "y"], "expected": [["d1"]]}, "different lengths"),
    ],
)
def test_a_faulty_golden_set_is_explained_by_its_reader(queries: Any, message: str) -> None:
    with pytest.raises((UsageError, DataError), match=message):
        Dataset.of(TWO_TEXTS, queries)
    with pytest.raises((UsageError, DataError), match=message):
        harness.check(queries, corpus=Dataset.of(TWO_TEXTS, {"q": "x"}), backends="csr")


def test_plain_queries_are_read_as_before() -> None:
    assert Dataset.of(TWO_TEXTS, [{"id": "1", "question": "x", "lang": "en"}]).qrels is None
    with pytest.raises(UsageError, match="the queries cannot be read from an int"):
        Dataset.of(TWO_TEXTS, 5)


PROMPTFOO_TESTS = [
    {"vars": {"question": "pump", "expected_ids": ["d1"]}},
    {"vars": {"question": "oil", "expected_ids": ["d2"]}},
]


@pytest.mark.parametrize("prefix", ["file://", "", "file://./"])
@pytest.mark.parametrize("name", ["tests.yaml", "tests.json", "tests.jsonl", "tests.csv", "below/tests.yaml"])
def test_promptfoo_s_tests_are_read_from_a_file_below(tmp_path: Path, prefix: str, name: str) -> None:
    (tmp_path / "below").mkdir()
    contents = {
        ".yaml": yaml.dump(PROMPTFOO_TESTS),
        ".json": json.dumps(PROMPTFOO_TESTS),
        ".jsonl": "".join(json.dumps(test) + "\n" for test in PROMPTFOO_TESTS),
        ".csv": "question,expected_ids\npump,d1\noil,d2\n",
    }
    (tmp_path / name).write_text(contents[Path(name).suffix])
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(yaml.dump({"prompts": ["x"], "tests": f"{prefix}{name}"}))
    golden = load_golden(path)
    assert [(one.question, one.expected[0].id) for one in golden] == [("pump", "d1"), ("oil", "d2")]
    (tmp_path / name).write_text(contents[Path(name).suffix].replace("oil", "oils"))
    assert load_golden(path).sha256 != golden.sha256


@pytest.mark.parametrize(
    "tests", ["file://absent.yaml", "file://t.js", "https://x.org/t.yaml", "file:///t.yaml", "../t.yaml"]
)
def test_promptfoo_s_tests_elsewhere_are_named(tmp_path: Path, tests: str) -> None:
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(yaml.dump({"prompts": ["x"], "tests": tests}))
    with pytest.raises(DataError, match=f"the tests are in '{tests.removeprefix('file://')}', which cannot be read"):
        load_golden(path)


def test_files_of_tests_that_name_each_other_are_refused(tmp_path: Path) -> None:
    for name, other in (("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")):
        (tmp_path / name).write_text(yaml.dump({"prompts": ["x"], "tests": f"file://{other}"}))
    with pytest.raises(DataError, match=r"the tests are in 'a\.yaml', which cannot be read"):
        load_golden(tmp_path / "a.yaml")


def test_fields_of_nested_records_are_proposed(tmp_path: Path) -> None:
    tests = [{"vars": {"question": "pump"}, "assert": [{"type": "contains", "value": "the pump moves water"}]}]
    path = tmp_path / "promptfoo.json"
    path.write_text(json.dumps({"tests": tests}))
    with pytest.raises(DataError, match=r"as --columns: expected_texts=assert\.value") as error:
        load_golden(path)
    assert "assert.type" not in str(error.value)
    assert load_golden(path, {"expected_texts": "assert.value"}).questions[0].texts == ("the pump moves water",)


@pytest.mark.parametrize(
    "records",
    [
        [{"question": "x", "doc_id": "a", "chunk_id": "b"}],
        {"a": [{"question": "x", "expected": ["d1"]}], "b": [{"question": "y", "expected": []}]},
        [{"question": "x", "gold": ["d1"]}],
        [{"question": "x", "expected": ["d1"], "expected_ids": ["d2"]}],
        [{"inputs": {"question": "x", "query": "y"}, "outputs": {"gold_ids": ["d1"]}}],
    ],
)
def test_messages_about_objects_name_the_argument_of_python(records: Any) -> None:
    for call in (
        lambda: golden_of_objects(records),
        lambda: harness.check(records, corpus=Dataset.of(TWO_TEXTS, {"q": "x"}), backends="csr"),
    ):
        with pytest.raises((UsageError, DataError)) as error:
            call()
        assert "--columns" not in str(error.value)
        assert "columns" in str(error.value)


class PlainQuestion:
    """A record of a library whose classes are no dataclasses."""

    def __init__(self, question: str, expected: list[str]) -> None:
        self.question, self.expected, self._private = question, expected, 1

    def retrieve(self) -> None:
        """Do nothing."""


class SlottedQuestion:
    """The same with slots."""

    __slots__ = ("expected", "question")

    def __init__(self, question: str, expected: list[str]) -> None:
        self.question, self.expected = question, expected


class TupleQuestion(NamedTuple):
    question: str
    expected: list[str]


class ModelQuestion(BaseModel):
    question: str
    expected: list[str]


@dataclass
class DataQuestion:
    question: str
    expected: list[str]


@pytest.mark.parametrize("kind", [PlainQuestion, SlottedQuestion, TupleQuestion, ModelQuestion, DataQuestion])
def test_objects_with_attributes_are_records(kind: Any) -> None:
    records = [kind(question="pump", expected=["d1"]), kind(question="oil", expected=["d2"])]
    for value in (records, tuple(records), iter(records)):
        golden = golden_of_objects(value)
        assert [(one.question, one.expected[0].id, one.fields) for one in golden] == [
            ("pump", "d1", {}),
            ("oil", "d2", {}),
        ]
    dataset = Dataset.of(TWO_TEXTS, records)
    options: dict[str, Any] = {"backends": "csr", "k": 1, "timing": False, "isolation": "none"}
    assert harness.check(records, corpus=dataset, **options).report.trials[0].metrics["Hit@1"].mean == 1.0
    assert dataset.qrels is not None
    assert dataset.queries.ids.to_list() == ["line-1", "line-2"]


class SwappedPair(NamedTuple):
    text: str
    id: str


def test_documents_may_be_objects_too() -> None:
    documents = [SimpleNamespace(id=name, text=text, source="a.pdf") for name, text in TWO_TEXTS.items()]
    dataset = Dataset.of(documents, {"q": "pump"})
    assert dataset.corpus.digest == Dataset.of(TWO_TEXTS, {"q": "pump"}).corpus.digest
    assert attribute_of(dataset, "source").to_pylist() == ["a.pdf", "a.pdf"]
    swapped = Dataset.of([SwappedPair(text, name) for name, text in TWO_TEXTS.items()], {"q": "pump"})
    assert swapped.corpus.digest == dataset.corpus.digest


@pytest.mark.parametrize("value", [[object()], [5], [print], [Path("x")]])
def test_objects_without_fields_are_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="is of type"):
        golden_of_objects(value)


def test_nested_texts_are_refused_with_the_nesting_that_is_read() -> None:
    with pytest.raises(
        DataError, match="expected a text or a list of texts: alternatives, as lists in a list, are read"
    ):
        golden_of_objects([{"question": "x", "reference_contexts": [["a b", "c d"]]}])


WORDS = st.lists(
    st.sampled_from(["pump", "water", "filter", "oil", "tank", "valve", "warranty", "reset"]), min_size=1, max_size=4
)


@st.composite
def facts_of_documents(draw: st.DrawFn) -> tuple[dict[str, str], list[tuple[str, str, list[str]]]]:
    """Documents whose texts are distinct and contain no other, and questions with the ids that they expect."""
    words = draw(st.lists(WORDS, min_size=2, max_size=5))
    documents = {f"d{number}": " ".join([f"text {number} begins", *text]) for number, text in enumerate(words)}
    expected = st.lists(st.sampled_from(sorted(documents)), min_size=1, max_size=2, unique=True)
    questions = draw(st.lists(st.tuples(WORDS.map(" ".join), expected), min_size=1, max_size=4))
    return documents, [(f"q{number}", text, ids) for number, (text, ids) in enumerate(questions)]


def figures_of(checked: CheckResult) -> tuple[dict[str, Any], list[tuple[list[str], dict[str, Any], list[int | None]]]]:
    """Means with their intervals, and the hits, values and ranks of each question."""
    (trial,) = checked.report.trials
    means = {name: value.model_dump() for name, value in trial.metrics.items()}
    return means, [(one.top, one.values, [each.rank for each in one.expected]) for one in trial.questions]


@settings(max_examples=examples(3), deadline=None)
@given(content=facts_of_documents())
def test_checks_by_ids_texts_and_files_give_the_same_result(
    content: tuple[dict[str, str], list[tuple[str, str, list[str]]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    documents, questions = content
    folder = tmp_path_factory.mktemp("matches")
    records = [{"_id": name, "text": text, "metadata": {"source": f"{name}.pdf"}} for name, text in documents.items()]
    corpus = folder / "chunks.jsonl"
    corpus.write_text("".join(json.dumps(record) + "\n" for record in records))
    options: dict[str, Any] = {"corpus": corpus, "backends": "csr", "k": 3, "timing": False, "isolation": "none"}

    def write(name: str, field_name: str, value_of: Callable[[str], str]) -> Path:
        values = [(query, text, list(map(value_of, ids))) for query, text, ids in questions]
        lines = [{"id": query, "question": text, field_name: found} for query, text, found in values]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder / f"{name}.jsonl"

    def as_table(path: Path) -> Path:
        frame = pd.DataFrame([json.loads(line) for line in path.read_text().splitlines()])
        frame.to_csv(path.with_suffix(".csv"), index=False)
        return path.with_suffix(".csv")

    ids = write("ids", "expected", str)
    texts = write("texts", "reference_contexts", documents.__getitem__)
    files = write("files", "expected", lambda name: f"{name}.pdf")
    expected = figures_of(harness.check(ids, **options))
    for golden in (texts, as_table(texts)):
        for match in ("exact", "text", "text:0.9"):
            assert figures_of(harness.check(golden, **options, match=match)) == expected, (golden.name, match)
    for golden in (files, as_table(files)):
        assert figures_of(harness.check(golden, **options, match="field:metadata.source")) == expected, golden.name
