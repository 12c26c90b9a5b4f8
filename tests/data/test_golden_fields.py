"""Fields of a golden set: usual names, ``--columns`` with paths, and the values of each role."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from harness.data.columns import GOLDEN_ROLES, parse_columns
from harness.data.golden_fields import ABSENT, value_at, without_path
from harness.data.golden_records import golden_of_records
from harness.data.golden_set import Expectation, GoldenQuestion
from harness.errors import DataError
from harness.loaders.golden import load_golden


def read(*records: dict[str, Any], columns: str = "") -> tuple[GoldenQuestion, ...]:
    return golden_of_records(records, columns=parse_columns(columns)).questions


NAMES = {role.name: (*role.names, *role.further_names) for role in GOLDEN_ROLES}


@pytest.mark.parametrize("expected", NAMES["expected"])
@pytest.mark.parametrize("question", NAMES["question"])
def test_every_usual_name_is_read(question: str, expected: str) -> None:
    (read_question,) = read({question: "why?", expected: ["a", 7]})
    assert read_question.question == "why?"
    assert read_question.expected == (Expectation("a"), Expectation("7"))
    assert read_question.fields == {}


@pytest.mark.parametrize(
    "name", ["labels", "citations", "contexts", "retrieved_contexts", "retrieval_context", "output"]
)
def test_other_fields_are_expected_only_by_columns(name: str) -> None:
    record = {"question": "why?", name: ["a"]}
    with pytest.raises(DataError, match="the field 'expected_relevant_doc_ids' is missing"):
        read(record)
    assert read(record, columns=f"expected={name}")[0].expected == (Expectation("a"),)


@pytest.mark.parametrize(
    ("other", "columns"),
    [
        ({"prompt": "short"}, "question=question"),
        ({"gold_ids": ["b"]}, "expected=expected"),
        ({"relevant_ids": []}, "expected=expected"),
    ],
)
def test_a_first_and_a_further_name_with_other_content_are_refused(other: dict[str, Any], columns: str) -> None:
    record = {"question": "why?", "expected": ["a"], **other}
    with pytest.raises(DataError, match=f"may both be the .*they differ: keep one, or name it, as columns {columns}"):
        read(record)
    (question,) = read(record, columns=columns)
    assert (question.question, question.expected) == ("why?", (Expectation("a"),))


@pytest.mark.parametrize("other", [{"prompt": "why?"}, {"gold_ids": ["a"]}, {"gold_ids": "a"}, {"gold_ids": None}])
def test_a_further_name_with_the_same_content_is_a_slice(other: dict[str, Any]) -> None:
    (question,) = read({"question": "why?", "expected": ["a"], **other})
    assert (question.question, question.expected) == ("why?", (Expectation("a"),))
    assert set(question.fields) == set(other)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (
            {"input": "a", "prompt": "b", "expected": "x"},
            "both 'input' and 'prompt' are present: keep one, or name it, as columns question=input",
        ),
        ({"question": "a", "gold_ids": "x", "relevant_docs": "y"}, "both 'relevant_docs' and 'gold_ids' are present"),
    ],
)
def test_two_fields_of_one_role_are_refused_and_columns_decides(record: dict[str, Any], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        read(record)
    columns = "question=prompt" if "prompt" in record else "expected=gold_ids"
    (question,) = read(record, columns=columns)
    assert (question.question, question.expected) == (record.get("prompt", "a"), (Expectation("x"),))


LANGSMITH = {
    "id": "run-1",
    "inputs": {"question": "why?", "lang": "en"},
    "outputs": {"doc_ids": ["a", "b"]},
    "metadata": {"tenant": "north", "split": "base"},
}


def test_columns_are_paths_into_nested_records() -> None:
    columns = "question=inputs.question,expected=outputs.doc_ids,filter=metadata.tenant"
    (question,) = read(LANGSMITH, columns=columns)
    assert (question.id, question.question) == ("run-1", "why?")
    assert question.expected == (Expectation("a"), Expectation("b"))
    assert question.filter == {"tenant": "north"}
    assert set(question.fields) == {"inputs", "metadata"}
    assert [json.loads(text) for text in question.fields["inputs"]] == [{"lang": "en"}]


def test_query_id_names_the_id_of_a_question_even_next_to_id() -> None:
    record = {"id": "1", "key": "k", "question": "why?", "expected": ["a"]}
    for columns, name in (("query_id=key", "k"), ("id=key", "k"), ("id=other,query_id=key", "k"), ("query_id=id", "1")):
        assert read(record, columns=columns)[0].id == name


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", {"b": {"c.d": 1}, "e": [{"f": 1}, {"f": 2}], "g": '{"h": [3]}'}),
        ("a.b.c.d", 1),
        ("a.e.f", [1, 2]),
        ("a.g.h", [3]),
        ("x.y", "exact"),
        ("x.z", "below"),
        ("a.b.c", ABSENT),
        ("a.e.x", ABSENT),
        ("a.g.x.y", ABSENT),
        ("b", ABSENT),
        ("", ABSENT),
        (".", ABSENT),
    ],
)
def test_the_value_at_a_path(path: str, value: object) -> None:
    record = {
        "a": {"b": {"c.d": 1}, "e": [{"f": 1}, {"f": 2}], "g": '{"h": [3]}'},
        "x.y": "exact",
        "x": {"y": "path", "z": "below"},
    }
    assert value_at(record, path) == value


def test_a_record_without_a_path_lacks_what_becomes_empty() -> None:
    record = {"a": {"b": {"c": 1}, "d": 2}, "e": [{"f": 1}, {"f": 2, "g": 3}], "h": '{"i": 1, "j": 2}', "k": {"l": 1}}
    assert without_path(record, "a.b.c")["a"] == {"d": 2}
    assert without_path(record, "e.f")["e"] == [{"g": 3}]
    assert json.loads(without_path(record, "h.i")["h"]) == {"j": 2}
    assert "k" not in without_path(record, "k.l")
    assert without_path(record, "k.x") == record


@pytest.mark.parametrize("role", ["question", "expected", "expected_texts", "filter", "forbidden", "query_id", "id"])
def test_a_column_that_no_record_has_is_refused_with_the_nearest(role: str) -> None:
    with pytest.raises(DataError, match=r"there is no field 'expectd', which columns names as the .*'expected'\?"):
        read({"question": "why?", "expected": ["a"]}, columns=f"{role}=expectd")


def test_a_shared_role_may_be_in_the_documents_only() -> None:
    record = {"id": "q", "question": "why?", "expected": ["a"]}
    assert golden_of_records([record], columns={"id": "key"}, shared_roles={"id"}).questions[0].id == "q"
    with pytest.raises(DataError, match="there is no field 'key'"):
        golden_of_records([record], columns={"query_id": "key"}, shared_roles={"id"})


def test_optional_fields_of_columns_may_be_absent_in_some_records() -> None:
    first, second = read(
        {"question": "a", "expected": "x", "meta": {"tenant": "n"}},
        {"question": "b", "expected": "x"},
        columns="filter=meta.tenant",
    )
    assert (first.filter, second.filter) == ({"tenant": "n"}, None)


@pytest.mark.parametrize(
    ("record", "texts"),
    [
        ({"reference_contexts": ["t", "u", "t"]}, ("t", "u")),
        ({"reference_contexts": "t"}, ("t",)),
        ({"context": ["t"]}, ("t",)),
        ({"reference_contexts": ["t"], "reference_context_ids": None}, ("t",)),
        ({"reference_contexts": ["t"], "reference_context_ids": []}, ("t",)),
        ({"context": ["mobile"], "expected": ["a"]}, ()),
        ({"context": "a slice", "expected": ["a"]}, ()),
    ],
)
def test_texts_are_expected_only_without_ids(record: dict[str, Any], texts: tuple[str, ...]) -> None:
    (question,) = read({"question": "why?", **record})
    assert question.texts == texts
    assert bool(question.expected) == (not texts)


def test_ids_win_over_texts_which_stay_beside_them() -> None:
    (question,) = read({"question": "why?", "reference_contexts": ["t"], "reference_context_ids": ["a"]})
    assert ([one.id for one in question.expected], question.texts) == (["a"], ("t",))


def test_a_context_next_to_an_empty_list_of_ids_is_a_slice() -> None:
    first, second = read(
        {"question": "a", "expected": [], "context": ["web"]}, {"question": "b", "expected": ["x"], "context": ["app"]}
    )
    assert (first.texts, first.fields, second.fields) == ((), {"context": ("web",)}, {"context": ("app",)})


def test_one_text_is_a_context_only_by_columns() -> None:
    with pytest.raises(DataError, match="is missing"):
        read({"question": "why?", "context": "t"})
    assert read({"question": "why?", "context": "t"}, columns="expected_texts=context")[0].texts == ("t",)


@pytest.mark.parametrize("texts", [[""], [7], {"a": 1}, 7])
def test_what_is_no_text_is_refused(texts: object) -> None:
    with pytest.raises(DataError, match="'reference_contexts'"):
        read({"question": "why?", "reference_contexts": texts})


@pytest.mark.parametrize("texts", [[], (), "[]"])
def test_an_empty_list_of_texts_expects_nothing(texts: object) -> None:
    first, second = read({"question": "why?", "reference_contexts": texts}, {"question": "who?", "expected": "a"})
    assert (first.expected, first.texts, first.fields) == ((), (), {})
    assert second.expected == (Expectation("a"),)


def test_an_empty_list_of_texts_in_a_cell_expects_nothing(tmp_path: Any) -> None:
    path = tmp_path / "golden.csv"
    pd.DataFrame({"question": ["why?", "who?"], "reference_contexts": ["[]", "Two years."]}).to_csv(path, index=False)
    assert [question.texts for question in load_golden(path)] == [(), ("Two years.",)]


def test_a_set_whose_texts_are_all_empty_is_refused() -> None:
    with pytest.raises(DataError, match="no question expects anything"):
        read({"question": "why?", "reference_contexts": []})


@pytest.mark.parametrize(
    "columns",
    ["expected=question", "question=expected", "expected=key,expected_texts=key", "filter=question", "id=question"],
)
def test_a_field_with_two_roles_is_refused(columns: str) -> None:
    with pytest.raises(DataError, match=r"has two roles, .*: name another field") as caught:
        read({"question": "why?", "expected": ["a"], "key": ["b"]}, columns=columns)
    assert columns.split(",", maxsplit=1)[0] in str(caught.value)


CELLS = ["['a', \"it's\"]", '["a", "it\'s"]', "['a' \"it's\"]", "['a'\n \"it's\"]", "[ 'a',\n \"it's\" , ]"]


@pytest.mark.parametrize("cell", CELLS)
def test_a_list_in_a_cell_is_read_as_json_python_and_numpy_write_it(tmp_path: Any, cell: str) -> None:
    path = tmp_path / "golden.csv"
    pd.DataFrame({"question": ["why?", "who?"], "expected": [cell, "b"]}).to_csv(path, index=False)
    assert [one.id for one in load_golden(path).questions[0].expected] == ["a", "it's"]
    pd.DataFrame({"question": ["why?"], "reference_contexts": [cell]}).to_csv(path, index=False)
    assert load_golden(path).questions[0].texts == ("a", "it's")


@pytest.mark.parametrize("cell", ["[a", "['a'", "[__import__('os')]", "[" * 5000, "{'a': }", "[array(['a'])]"])
def test_a_malformed_cell_is_refused(tmp_path: Any, cell: str) -> None:
    path = tmp_path / "golden.csv"
    pd.DataFrame({"question": ["why?"], "expected": [cell]}).to_csv(path, index=False)
    with pytest.raises(DataError, match="line 2: 'expected' is malformed JSON"):
        load_golden(path)


def test_a_text_in_brackets_is_a_text(tmp_path: Any) -> None:
    path = tmp_path / "golden.csv"
    pd.DataFrame({"question": ["why?"], "reference_contexts": ["[1] Two years."]}).to_csv(path, index=False)
    assert load_golden(path).questions[0].texts == ("[1] Two years.",)


@pytest.mark.parametrize(
    ("value", "columns", "conditions"),
    [
        ({"tenant": "north", "year": 1971, "new": True}, "", {"tenant": "north", "year": "1971", "new": "true"}),
        ("tenant=north", "", {"tenant": "north"}),
        (["tenant=north", "year = 1971"], "", {"tenant": "north", "year": "1971"}),
        ("tenant=north, year=1971", "", {"tenant": "north", "year": "1971"}),
        ("tenant=north;year=1971", "filter=filter", {"tenant": "north", "year": "1971"}),
        ("author=Doe, J.; ed.", "", {"author": "Doe, J.; ed."}),
        ("meta.tenant=a=b", "", {"meta.tenant": "a=b"}),
        ("north", "", None),
        ("price >= 5", "", None),
        ("a == b", "", None),
        (["north"], "", None),
        (["tenant=north", 7], "", None),
        (1971, "", None),
        (None, "", None),
        ({}, "", None),
        ("tenant=north", "filter=filter", {"tenant": "north"}),
        (["tenant=north", "year = 1971"], "filter=filter", {"tenant": "north", "year": "1971"}),
        ("north", "filter=filter", {"filter": "north"}),
        (1971, "filter=filter", {"filter": "1971"}),
        ("", "filter=filter", None),
    ],
)
def test_a_filter_is_a_mapping_or_named_by_columns(value: object, columns: str, conditions: object) -> None:
    (question,) = read({"question": "why?", "expected": "a", "filter": value}, columns=columns)
    assert question.filter == conditions
    assert "filter" in question.fields


@pytest.mark.parametrize("value", [{"a": None}, {"a": ["x"]}, {"a": {"$gt": 1}}, ["a=1", "a=2"], "a=", ["x", 2]])
def test_what_is_no_filter_is_refused(value: object) -> None:
    with pytest.raises(DataError, match="line 1: 'filter'"):
        read({"question": "why?", "expected": "a", "filter": value}, columns="filter=filter")


@pytest.mark.parametrize("value", ["north", ["north", "south"], 1971, "price >= 5", ["a=1", 7]])
def test_a_field_called_filter_without_conditions_is_a_slice_and_noted(value: object) -> None:
    golden = golden_of_records([{"question": word, "expected": "a", "filter": value} for word in ("why?", "who?")])
    (note,) = golden.notes
    assert "'filter' of 2 records is not {field: value} and is used only for slices" in note
    assert "columns filter=filter" in note
    assert all(question.filter is None and question.fields["filter"] for question in golden)


@pytest.mark.parametrize("value", ["tenant=north", {"tenant": "north"}, "", [], {}, None])
def test_a_filter_or_an_empty_field_is_not_noted(value: object) -> None:
    assert golden_of_records([{"question": "why?", "expected": "a", "filter": value}]).notes == ()


@pytest.mark.parametrize("value", ["tenant=north,tenant=south", ["tenant=north", "tenant=south"]])
def test_two_values_of_a_field_are_refused(value: object) -> None:
    with pytest.raises(DataError, match="once for each field"):
        read({"question": "why?", "expected": "a", "filter": value})


def test_a_filter_in_a_cell_is_json(tmp_path: Any) -> None:
    path = tmp_path / "golden.csv"
    cells = ['{"tenant": "north"}', "{'tenant': 'south'}", "", "north", "tenant=west", "['tenant=east']"]
    pd.DataFrame({"question": list("abcdef"), "expected": "x", "filter": cells}).to_csv(path, index=False)
    golden = load_golden(path)
    tenants = [(question.filter or {}).get("tenant") for question in golden]
    assert tenants == ["north", "south", None, None, "west", "east"]
    (note,) = golden.notes
    assert "'filter' of 1 record is not" in note


def test_forbidden_ids() -> None:
    one, several, none = read(
        {"question": "a", "expected": "x", "forbidden": "y"},
        {"question": "b", "expected": {"x": 1, "z": 0}, "forbidden": ["y", "z", "y"]},
        {"question": "c", "expected": "x"},
    )
    assert (one.forbidden, several.forbidden, none.forbidden) == (("y",), ("y", "z"), ())
    assert "forbidden" not in one.fields
    with pytest.raises(DataError, match="'x' is expected and forbidden"):
        read({"question": "a", "expected": "x", "forbidden": ["x"]})
    with pytest.raises(DataError, match="'forbidden' holds true, expected an id"):
        read({"question": "a", "expected": "x", "forbidden": [True]})


@pytest.mark.parametrize("name", ["excluded_ids", "excluded_doc_ids"])
@pytest.mark.parametrize("excluded", ["x", ["y", "x"], '["x"]'])
def test_an_id_that_is_expected_and_excluded_is_refused(name: str, excluded: object) -> None:
    with pytest.raises(DataError, match="line 1: 'x' is expected and excluded"):
        read({"question": "a", "expected": ["x", "z"], name: excluded})
    assert read({"question": "a", "expected": {"x": 0, "z": 1}, name: excluded})


@pytest.mark.parametrize(("field", "verb"), [("excluded_ids", "excluded"), ("forbidden", "forbidden")])
def test_rows_of_one_question_may_not_contradict_each_other(field: str, verb: str) -> None:
    rows = [{"question": "a", "expected": "x", field: "y"}, {"question": "a", "expected": "y", field: "z"}]
    with pytest.raises(DataError, match=f"line 1: 'y' is expected and {verb}"):
        read(*rows)


def test_excluded_ids_that_are_no_ids_are_refused_with_their_line() -> None:
    with pytest.raises(DataError, match="line 2: 'excluded_ids' holds True, expected an id"):
        read({"question": "a", "expected": "x"}, {"question": "b", "expected": "x", "excluded_ids": [True]})


def test_rows_of_one_question_keep_their_groups_apart() -> None:
    (question,) = read(
        {"question": "a", "expected": [["x", "y"]]},
        {"question": "a", "expected": [["z", "w"]]},
        {"question": "a", "expected": ["v"]},
    )
    assert {one.id: one.group for one in question.expected} == {"x": 0, "y": 0, "z": 1, "w": 1, "v": None}
    with pytest.raises(DataError, match="'x' is in a group of alternatives"):
        read({"question": "a", "expected": [["x", "y"]]}, {"question": "a", "expected": ["x"]})
    with pytest.raises(DataError, match="the filter differs"):
        read({"question": "a", "expected": "x", "filter": {"t": 1}}, {"question": "a", "expected": "y"})
