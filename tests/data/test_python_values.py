"""Objects of other libraries that functions, golden sets, runs and judgments hand over."""

from __future__ import annotations

import enum
import uuid
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import harness
from harness.data.dataset import Dataset
from harness.data.golden_set import GoldenSet
from harness.data.python_values import as_array, as_id, plain
from harness.engines.callable.answers import read_answer
from harness.errors import DataError, UsageError
from harness.loaders.golden import golden_of_objects
from harness.pipeline.check.check_plan import plan_check
from harness.plan.config import CheckRequest

UUID = uuid.UUID(int=5)
Hit = namedtuple("Hit", ["id", "score", "text"])


class Name(str, enum.Enum):  # noqa: UP042 - whose str() is another text
    A = "a"


@dataclass
class Line:
    question: str
    expected: object
    when: object = pd.Timestamp("2024-01-01")


IDS = [
    ("a", "a"), (np.str_("a"), "a"), (Name.A, "a"), (b"a", "a"), (np.bytes_(b"a"), "a"), (7, "7"), (np.int64(7), "7"),
    (7.0, "7"), (np.float64(7), "7"), (Decimal(7), "7"), (UUID, str(UUID)), (PurePosixPath("a/b"), "a/b"),
    (pa.scalar("a"), "a"), (2**70, str(2**70)),
]  # fmt: skip
NO_IDS = [
    None, True, np.True_, 2.5, float("nan"), float("inf"), 1e300, np.nan, pd.NA, pd.NaT, b"\xff", ["a"], {}, object(),
    object, np.array(["a"]),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), IDS)
def test_an_id_of_any_library_is_text(value: object, text: str) -> None:
    assert as_id(value) == text
    assert type(as_id(value)) is str
    (question,) = golden_of_objects([{"id": value, "question": "?", "expected": [value]}])
    assert (question.id, question.expected[0].id) == (text, text)
    assert harness.evaluate({value: [value]}, {value: [value]}, "nDCG@10").means()[0].value == 1
    assert Dataset.of([(value, "x")], [(value, "y")]).corpus.ids.to_list() == [text]
    answer = read_answer([(value, 0.5)])
    assert (answer.ids, type(answer.ids[0])) == ((text,), str)


def test_arrays_without_dimensions_hold_an_id() -> None:
    assert (as_id(np.array("a")), as_id(np.array(7)), as_id(np.array(2.5))) == ("a", "7", None)


@pytest.mark.parametrize("value", NO_IDS, ids=lambda value: type(value).__name__)
def test_what_is_no_id_is_refused_in_every_place(value: object) -> None:
    assert as_id(value) is None
    with pytest.raises(DataError):
        golden_of_objects([{"question": "?", "expected": [[value], "b"]}])
    with pytest.raises((DataError, UsageError)):
        harness.evaluate({"q": [value, "b"]}, {"q": ["a"]})
    with pytest.raises(DataError):
        Dataset.of([(value, "x")], [("q", "y")])
    with pytest.raises((TypeError, ValueError), match="hit 1"):
        read_answer([value, "b"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.array([1, 2]), [1, 2]),
        (pd.Series(["a", None]), ["a", None]),
        (pd.Index([1]), [1]),
        (pa.array(["a"]), ["a"]),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        ({"b", "a"}, ["a", "b"]),
        ({"a": 1}.keys(), ["a"]),
        (iter("ab"), ["a", "b"]),
        (("a", np.int64(2)), ("a", 2)),
        ({np.int64(1): [np.float32(0.5)]}, {1: [0.5]}),
        (Hit("a", 0.5, None), {"id": "a", "score": 0.5, "text": None}),
        (Line("?", "a", None), {"question": "?", "expected": "a", "when": None}),
        (pd.Timestamp("2024-01-01"), "2024-01-01T00:00:00"),
        (float("nan"), None),
        (Decimal("1.5"), 1.5),
    ],
)
def test_plain_values(value: object, expected: object) -> None:
    assert plain(value) == expected


@pytest.mark.parametrize(
    ("expected", "graded"),
    [
        ([["a"]], {"a": 1}),
        ([["a", "b"]], {"a": 1, "b": 1}),
        ([{"id": "a"}], {"a": 1}),
        ([{"id": 5, "grade": 2, "score": 0.5}], {"5": 2}),
        ({"id": "a"}, {"a": 1}),
        ({"a": np.int64(2)}, {"a": 2}),
        ({"a": 2.0}, {"a": 2}),
        ([("a", 2)], {"a": 2}),
        (np.array([["a"]]), {"a": 1}),
        (frozenset("ab"), {"a": 1, "b": 1}),
        (pd.Series(["a"]), {"a": 1}),
        ((name for name in "ab"), {"a": 1, "b": 1}),
    ],
)
def test_expected_documents_of_every_shape(expected: object, graded: dict[str, int]) -> None:
    records: list[dict[str, Any]] = [{"id": "q", "question": "?", "expected": plain(expected)}]
    (question,) = golden_of_objects(records)
    assert {one.id: one.grade for one in question.expected} == graded
    qrels = Dataset.of(dict.fromkeys(graded, "x"), records).qrels
    assert qrels is not None
    assert dict(zip(qrels.doc_ids, qrels.grades.tolist(), strict=True)) == graded


@pytest.mark.parametrize(
    ("expected", "groups"),
    [
        ([["a"], ["b"]], {"a": 0, "b": 1}),
        ([["a"], "b"], {"a": 0, "b": None}),
        ([["a", "b"], ["c"]], {"a": 0, "b": 0, "c": 1}),
        ([["a", "b"]], {"a": 0, "b": 0}),
        ([[["a", "b"], ["c"]]], {"a": 0, "b": 0, "c": 1}),
        (["a", ["b", "c"]], {"a": None, "b": 1, "c": 1}),
        ([[("a", 2)], [{"id": "b", "grade": 3}]], {"a": 0, "b": 1}),
        (np.array([np.array(["a"]), np.array(["b", "c"])], dtype=object), {"a": 0, "b": 1, "c": 1}),
        (["a", "b"], {"a": None, "b": None}),
    ],
)
def test_inner_lists_are_groups_of_alternatives(expected: object, groups: dict[str, int | None]) -> None:
    (question,) = golden_of_objects([{"id": "q", "question": "?", "expected": expected}])
    assert {one.id: one.group for one in question.expected} == groups


def test_groups_that_cannot_be_told_apart_are_refused() -> None:
    for expected, problem in (
        ([["a"], ["a", "b"]], "holds 'a' in two groups of alternatives"),
        ([["a"], [["b"], "c"]], "lists are nested too deeply"),
        ([[], ["a"]], "an inner list is empty"),
        (["a", []], "an inner list is empty"),
        ([[["a"], []]], "an inner list is empty"),
    ):
        for read in (golden_of_objects, lambda records: Dataset.of({"a": "x"}, records)):
            with pytest.raises(DataError, match=problem):
                read([{"id": "q", "question": "?", "expected": expected}])


@pytest.mark.parametrize("value", [float("nan"), None, pd.NA, [], [[]], np.array([])])
def test_nothing_is_expected(value: object) -> None:
    first, second = golden_of_objects(
        [{"id": 1.0, "question": "?", "expected": "a"}, {"id": np.nan, "question": "!", "expected": value}]
    )
    assert (first.id, second.id, second.expected) == ("1", "line-2", ())


def test_tables_and_records_are_golden_sets() -> None:
    rows = [{"question": "?", "expected": ["a"], "kind": 1.0}, {"question": "!", "expected": None, "kind": None}]
    frame = pd.DataFrame(rows)
    sets: list[GoldenSet] = [golden_of_objects(one) for one in (rows, iter(rows), frame, pa.Table.from_pandas(frame))]
    assert all(one.questions == sets[0].questions for one in sets)
    assert sets[0].questions[0].fields == {"kind": ("1",)}
    (line,) = golden_of_objects([Line("?", {"a"})])
    assert (line.expected[0].id, line.fields) == ("a", {"when": ("2024-01-01T00:00:00",)})
    with pytest.raises(DataError, match="'kind' is an object, expected text, a number"):
        golden_of_objects([{"question": "?", "expected": "a", "kind": object()}])
    for value in (5, ["a"], {"question": "?"}):
        with pytest.raises(UsageError, match="the golden set is of type"):
            golden_of_objects(value)


@pytest.mark.parametrize(
    "corpus",
    [
        {"a": "cats", "b": "dogs"},
        [{"_id": "a", "text": "cats"}, {"_id": "b", "text": "dogs"}],
        iter([{"_id": "a", "text": "cats"}, {"_id": "b", "text": "dogs"}]),
        [("a", "cats"), ("b", "dogs")],
        pa.table({"id": ["a", "b"], "text": ["cats", "dogs"]}),
        [pd.DataFrame({"id": ["a", "b"], "text": ["cats", "dogs"]})],
    ],
    ids=["texts", "records", "iterator", "pairs", "table", "list of a frame"],
)
def test_documents_of_a_check_may_be_objects(corpus: object) -> None:
    plan = plan_check(CheckRequest(golden=[{"question": "cats", "expected": "a"}], corpus=corpus, backends="csr"))
    ((name, dataset),) = plan.corpora.items()
    assert name == "corpus"
    assert isinstance(dataset, Dataset)
    assert dataset.corpus.ids.to_list() == ["a", "b"]
    assert dataset.corpus.texts.to_pylist() == ["cats", "dogs"]


def test_a_mapping_names_several_corpora_and_columns_name_their_fields() -> None:
    frame = pd.DataFrame({"key": ["a", "b"], "body": ["cats", "dogs"]})
    corpora = {"small": frame, "same": Dataset.of({"a": "cats"}, {"q": "cats"}), "file": Path("chunks.jsonl")}
    columns = {"id": "key", "text": "body", "question": "q", "expected": "ids"}
    golden = [{"key": "1", "q": "cats", "ids": "a"}]
    plan = plan_check(CheckRequest(golden=golden, corpus=corpora, columns=columns, backends="csr"))
    assert list(plan.corpora) == ["small", "same", "file"]
    assert plan.corpora["file"] == "chunks.jsonl"


def test_what_is_no_corpus_is_refused() -> None:
    golden = [{"question": "?", "expected": "a"}]
    with pytest.raises(UsageError, match="the documents cannot be read from an int"):
        harness.check(golden, corpus=5)
    frame = pd.DataFrame({"id": ["a"], "text": ["cats"]})
    with pytest.raises(UsageError, match="two corpora are called 'corpus'") as raised:
        harness.check(golden, corpus=[frame, frame])
    assert raised.value.fix == "name them: corpus={'small': …, 'large': …}"


def test_judgments_take_the_place_of_what_queries_expect() -> None:
    queries = [{"id": "q", "question": "?", "expected": ["a"]}]
    qrels = Dataset.of({"a": "x", "b": "y"}, queries, {"q": ["b"]}).qrels
    assert qrels is not None
    assert qrels.doc_ids.to_list() == ["b"]
    with pytest.raises(DataError, match="'z'"):
        Dataset.of({"a": "x"}, [{"id": "q", "question": "?", "expected": ["z"]}])


@pytest.mark.parametrize(
    "returned",
    [
        np.array(["a", "b"]),
        [np.str_("a"), np.str_("b")],
        pd.Series(["a", "b"]),
        pd.DataFrame({"id": ["a", "b"]}),
        pa.table({"id": ["a", "b"]}),
        np.array([["a", 2.0], ["b", 1.0]], dtype=object),
        [Hit("a", 2.0, np.str_("text")), Hit("b", 1.0, None)],
        [("a", None), ("b", None)],
        {"a": 2.0, "b": 1.0}.items(),
    ],
)
def test_answers_of_other_libraries(returned: object) -> None:
    assert read_answer(returned).ids == ("a", "b")


def test_a_set_has_no_first_hit() -> None:
    with pytest.raises(TypeError, match="a set, which has no first hit"):
        read_answer({"a", "b"})


def test_float_ids_of_tables_are_whole_numbers() -> None:
    qrels = {"1": {"7": 1}}
    for column in ([1.0], [b"1"]):
        table = pa.table({"qid": column, "docno": [7.0], "score": [1.0]})
        assert harness.evaluate(table, qrels, "nDCG@10").means()[0].value == 1
    with pytest.raises(DataError, match=r"column 'qid' holds double: an id is a float \(1.5\)"):
        harness.evaluate(pa.table({"qid": [1.5], "docno": [7.0], "score": [1.0]}), qrels)


class Tensor:
    """As torch's, which may need a gradient, and has dtypes that NumPy lacks."""

    is_sparse = False

    def __init__(self, values: object) -> None:
        self._values = values

    def detach(self) -> Tensor:
        return Tensor(np.asarray(self._values))

    def cpu(self) -> Tensor:
        return self

    def float(self) -> Tensor:
        return self

    def numpy(self) -> object:
        return self._values

    def __array__(self, *_: object, **__: object) -> None:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad")


@pytest.mark.parametrize(
    "vectors", [[[1.0, 2.0]], iter([[1.0, 2.0]]), Tensor([[1.0, 2.0]]), [Tensor([1.0, 2.0])], np.ones((1, 2))]
)
def test_vectors_of_every_form(vectors: object) -> None:
    assert as_array(vectors).shape == (1, 2)


def test_rows_of_different_lengths_are_no_vectors() -> None:
    assert as_array([[1.0], [1.0, 2.0]]).dtype == object
