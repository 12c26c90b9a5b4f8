"""Filters: what is asked for, what the corpus holds, what matches, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plan_texts import plan_text
from small_world import write_cards, write_collection

from harness.data import filtering
from harness.data.arrow import strings
from harness.data.dataset import Dataset
from harness.data.filtering import QueryFilters, apply_filter, format_filter, matching_rows, parse_filter
from harness.data.memory import run_from_dict
from harness.errors import RankingError, UnknownNameError, UsageError
from harness.loaders import filter_dataset, load_dataset
from harness.loaders.metadata import single_values
from harness.pipeline.planning import Preview
from harness.pipeline.resume import LookUp
from harness.plan.capability_checks import refuse_impossible
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.store.cache import Cache
from harness.worker.outcome import refuse_unmatched

RECORDS = [
    {"_id": "a", "title": "", "text": "x", "metadata": {"section": "news", "year": 1971, "tags": ["u"]}},
    {"_id": "b", "text": "y", "section": "sport", "year": "1971", "score": 0.5, "open": True},
    {"_id": "c", "text": "z", "metadata": {"section": "news"}, "section": "sport", "year": None},
    {"_id": "d", "text": "w", "metadata": {"section": ""}, "year": 1971.0, "metadata_of": "x"},
    {"_id": "e", "text": "v", "metadata": None, "open": False},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = write_collection(tmp_path / "small", judged=False)
    (place / "corpus.jsonl").write_text("\n\n".join(json.dumps(record) for record in RECORDS))
    return place


def filtered(folder: Path, *conditions: str) -> list[str]:
    """The ids of the documents that match."""
    cache = Cache(folder.parent / "cache")
    dataset = filter_dataset(load_dataset(folder, cache=cache), parse_filter(conditions), folder, cache=cache)
    assert dataset.filtered is not None
    (mask,) = dataset.filtered.matching.masks
    return [one for one, matches in zip(dataset.corpus.ids, mask, strict=True) if matches]


@pytest.mark.parametrize(
    ("conditions", "matching"),
    [
        (["section=news"], ["a", "c"]),  # the metadata object comes before the top
        (["section=sport"], ["b"]),
        (["year=1971"], ["a", "b"]),  # a number is its text; 1971.0 is another text
        (["year=1971.0"], ["d"]),
        (["score=0.5"], ["b"]),
        (["tags=u"], ["a"]),
        (["open=true"], ["b"]),
        (["open=false"], ["e"]),
        (["section=news", "year=1971"], ["a"]),
        (["section=news", "section=news"], ["a", "c"]),
    ],
)
def test_documents_match_by_the_text_of_their_values(folder: Path, conditions: list[str], matching: list[str]) -> None:
    assert filtered(folder, *conditions) == matching


def test_an_unknown_field_or_value_is_refused_with_what_there_is(folder: Path) -> None:
    with pytest.raises(
        UnknownNameError, match=r"(?s)field 'sektion'.*did you mean 'section'.*known: metadata_of, open"
    ):
        filtered(folder, "sektion=news")
    with pytest.raises(UsageError, match=r"(?s)no document has section=newz \(did you mean 'news'\?\).*: news, sport"):
        filtered(folder, "section=newz")
    with pytest.raises(UsageError, match="each value occurs, but not together"):
        filtered(folder, "section=news", "open=true")
    for reserved in ("text=x", "title=x", "_id=a", "metadata=x"):
        with pytest.raises(UnknownNameError):
            filtered(folder, reserved)
    (folder / "corpus.jsonl").write_text(json.dumps({"_id": "a", "text": "x", "metadata": {"box": {"inner": 1}}}))
    with pytest.raises(UsageError, match="'box': it never holds a string, a number or a boolean, or a list of them"):
        filtered(folder, "box=1")


def test_documents_without_metadata_are_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="have no metadata"):
        filtered(write_collection(tmp_path / "small"), "section=news")


@pytest.mark.parametrize("wrong", ["section", "=news", "section=", ""])
def test_what_is_no_condition_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="is not a condition"):
        parse_filter([wrong])


def test_a_value_is_everything_after_the_first_sign() -> None:
    assert parse_filter(["url=http://a/?b=c,d"]) == {"url": "http://a/?b=c,d"}
    assert format_filter(parse_filter(["a=1", "b=x y"])) == "a=1 and b=x y"
    with pytest.raises(UsageError, match="two values of 'a': '1' and '2'"):
        parse_filter(["a=1", "a=2"])


def test_metadata_are_read_again_when_the_corpus_changes(folder: Path) -> None:
    assert filtered(folder, "section=sport") == ["b"]
    text = (folder / "corpus.jsonl").read_text()
    (folder / "corpus.jsonl").write_text(text.replace('{"section": "news"}', '{"section": "sport"}'))
    assert filtered(folder, "section=sport") == ["b", "c"]


def test_the_digest_names_values_and_their_documents() -> None:
    one, other = ({"f": pa.chunked_array([values], pa.string())} for values in (["ab", "c", None], ["a", "bc", None]))
    digests = {apply_filter(pa.table(columns), {}).digest for columns in (one, other)}
    assert len(digests) == 2
    cut = pa.table({"f": pa.chunked_array([["ab"], ["c", None]], pa.string())})
    assert apply_filter(cut, {}).digest in digests


def test_an_empty_filter_matches_everything_and_a_missing_value_nothing() -> None:
    table = pa.table({"f": pa.chunked_array([["x", None]], pa.string())})
    assert matching_rows(table, {}).tolist() == [True, True]
    assert matching_rows(table, {"f": "x"}).tolist() == [True, False]


def test_a_plan_keeps_its_filter(tmp_path: Path) -> None:
    plan = make_plan(CompareRequest(backends="csr", filter=["a=1,2", "b=x"]), lucene_available=False)
    assert plan.filter == {"a": "1,2", "b": "x"}
    assert plan.arguments()["filter"] == ["a=1,2", "b=x"]
    command = plan.command()
    assert [command[place + 1] for place, word in enumerate(command) if word == "--filter"] == ["a=1,2", "b=x"]
    assert make_plan(CompareRequest(backends="csr", filter="a=1"), lucene_available=False).filter == {"a": "1"}
    assert "--filter" not in make_plan(CompareRequest(backends="csr"), lucene_available=False).command()
    with pytest.raises(UsageError, match="is not a condition"):
        make_plan(CompareRequest(backends="csr", filter="a"), lucene_available=False)


def test_a_dry_run_shows_the_filter() -> None:
    for conditions, shown in ((["a=1", "b=x"], "  filter: a=1 and b=x"), ([], None)):
        plan = make_plan(CompareRequest(backends="csr", filter=conditions), lucene_available=False)
        lines = plan_text([Preview(plan, [LookUp(None, None, "never stored")])], "table").splitlines()
        assert [line for line in lines if line.startswith("  filter")] == ([shown] if shown else [])


def test_engines_that_do_not_filter_and_external_indexes_are_refused(tmp_path: Path) -> None:
    cards = write_cards(tmp_path / "cards", mine="BruteForce")
    for backends, reason in (
        ("csr,mine", "backend 'mine': --filter: this engine does not filter searches"),
        (f"csr:external=true;path={tmp_path}", "this engine does not filter an external index"),
    ):
        request = CompareRequest(backends=backends, filter="a=1", cards=cards)
        with pytest.raises(UsageError, match=reason):
            refuse_impossible(make_plan(request, lucene_available=False))


def test_hits_outside_the_filter_are_refused(folder: Path) -> None:
    cache = Cache(folder.parent / "cache")
    dataset: Dataset = load_dataset(folder, cache=cache)
    run = run_from_dict({"q1": {"a": 2.0, "unknown": 1.5}, "q2": {"c": 1.0, "b": 0.5}})
    refuse_unmatched(run, dataset)
    news = filter_dataset(dataset, {"section": "news"}, folder, cache=cache)
    with pytest.raises(RankingError, match=r"1 of 4 hits do not match the filter section=news: query 'q2' .* 'b'"):
        refuse_unmatched(run, news)
    refuse_unmatched(run_from_dict({"q1": {"a": 2.0, "c": 1.0}}), news)


ELEMENTS = st.sampled_from(["red", "green", "", "é", "1971", "it's"])
LISTS = st.lists(st.none() | st.lists(st.none() | ELEMENTS, max_size=3), max_size=6)


@given(st.lists(LISTS, max_size=3), st.lists(st.dictionaries(st.sampled_from(["tags", "tag"]), ELEMENTS), min_size=1))
def test_filters_on_lists_match_documents_with_the_value_as_an_element(
    parts: list[list[list[str | None] | None]], filters: list[dict[str, str]]
) -> None:
    kind = pa.list_(pa.string())
    # the first row of each chunk is cut off, so that chunks have offsets
    tags = pa.chunked_array([pa.array([["red", "é"], *part], kind).slice(1) for part in parts], kind)
    lists = tags.to_pylist()
    tag = [elements[0] if elements else None for elements in lists]
    metadata = pa.table({"tags": tags, "tag": pa.chunked_array([strings(tag)])})
    elements_of = {"tags": [elements or [] for elements in lists], "tag": [[text] for text in tag]}
    expected = [
        [all(value in elements_of[field][row] for field, value in fields.items()) for row in range(len(lists))]
        for fields in filters
    ]
    of_queries = QueryFilters.of_each(metadata, filters)
    assert [of_queries.matching.masks[group].tolist() for group in of_queries.group_of] == expected
    assert [matching_rows(metadata, fields).tolist() for fields in filters] == expected
    for group in of_queries.groups:
        stored = group.conditions if group.of_columns is None else group.of_columns
        assert matching_rows(group.metadata, stored).tolist() == group.matching.tolist()
        assert all(pa.types.is_string(field.type) for field in group.metadata.schema)


def test_every_column_is_read_once_for_all_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    columns_read: list[int] = []
    read = filtering._rows_by_value
    monkeypatch.setattr(
        filtering, "_rows_by_value", lambda column, values: columns_read.append(len(values)) or read(column, values)
    )
    tags = pa.chunked_array([pa.array([[str(number), "all"] for number in range(50)])])
    of_queries = QueryFilters.of_each(pa.table({"tags": tags}), [{"tags": str(number)} for number in range(50)])
    assert columns_read == [50]
    assert of_queries.counts.tolist() == [1] * 50
    assert of_queries.metadata.column_names == [f"tags[{number}]" for number in range(50)]


def test_a_column_for_a_value_takes_the_name_of_no_other_field() -> None:
    metadata = pa.table({"tags": pa.array([["a", "b"], ["b"]]), "tags[0]": strings(["x", "a"])})
    of_queries = QueryFilters.of_each(metadata, [{"tags": "a", "tags[0]": "x"}, {"tags": "b", "tags[0]": "a"}])
    assert of_queries.metadata.to_pydict() == {"tags[0]": ["x", "a"], "tags[1]": ["a", None], "tags[2]": ["b", "b"]}
    assert [group.of_columns for group in of_queries.groups] == [
        {"tags[1]": "a", "tags[0]": "x"},
        {"tags[2]": "b", "tags[0]": "a"},
    ]


@given(st.lists(LISTS, max_size=3))
def test_a_list_of_one_value_is_that_value(parts: list[list[list[str | None] | None]]) -> None:
    kind = pa.list_(pa.string())
    column = pa.chunked_array([pa.array([["red"], *part], kind).slice(1) for part in parts], kind)
    texts = single_values(column)
    texts.validate(full=True)
    assert texts.type == pa.string()
    assert texts.to_pylist() == [
        elements[0] if elements is not None and len(elements) == 1 else None for elements in column.to_pylist()
    ]
    assert texts.num_chunks == column.num_chunks  # joined chunks may be more than one Arrow array holds
