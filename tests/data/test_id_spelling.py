"""Ids that name one document in two spellings."""

from __future__ import annotations

import unicodedata

import pyarrow as pa
import pytest

import harness
from harness.data import id_spelling
from harness.data.id_spelling import respelling, respellings, spelled_otherwise, unmet_documents
from harness.data.types import Ids
from harness.errors import DataError

UUID = "8544a3db-0b16-5b1c-a72d-7b7f47536f62"
NAMES = [f"café-menü-{number}.md" for number in range(12)]
DECOMPOSED = [unicodedata.normalize("NFD", name) for name in NAMES]
MISTAKES = [
    (NAMES, DECOMPOSED, "Unicode normalisation"),
    (DECOMPOSED, NAMES, "Unicode normalisation"),
    (["x１", "x２", "x３"], ["x1", "x2", "x3"], "Unicode normalisation"),
    (["a", "b", "c"], ["b'a'", 'b"b"', "b'c'"], "b'…' around them"),
    (["a", "b", "c"], ['"a"', "'b'", "“c”"], "quotation marks"),
    (["it's a", "it's b", "it's c"], ["it’s a", "it’s b", "it’s c"], "quotation marks"),
    ([UUID.replace("-", "")], [UUID], "how UUIDs are written"),
    ([f"urn:uuid:{UUID}"], [UUID.upper()], "how UUIDs are written"),
]


@pytest.mark.parametrize(("missing", "known", "rule"), MISTAKES)
def test_one_id_is_enough_where_nobody_means_two_documents(missing: list[str], known: list[str], rule: str) -> None:
    spelling = respelling(missing, Ids.of(known))
    assert spelling is not None
    assert (spelling.rule, spelling.met) == (f"but for {rule}", len(missing))
    few = respelling([missing[0], *(f"unknown {number}" for number in range(50))], Ids.of([*known, "z"]))
    assert few is not None
    assert (few.rule, few.met) == (f"but for {rule}", 1)


@pytest.mark.parametrize(
    ("missing", "known"),
    [
        (["a_1", "b 1", "c—1"], ["a-1", "b-1", "c-1"]),
        (["my file", "my form", "my fax"], ["my_file", "my_form", "my_fax"]),
    ],
)
def test_dashes_underscores_and_spaces_are_a_rule_of_several_ids(missing: list[str], known: list[str]) -> None:
    spelling = respelling(missing, Ids.of(known))
    assert spelling is not None
    assert spelling.rule == "but for dashes, underscores and spaces"
    assert respelling(missing[:2], Ids.of(known)) is None
    assert spelled_otherwise(missing[:1], Ids.of(known)) is not None


def test_ids_that_look_alike_are_shown_in_escapes() -> None:
    assert str(respelling(["é.md"], Ids.of([unicodedata.normalize("NFD", "é.md")]))) == (
        "1 of them is the same but for Unicode normalisation: '\\xe9.md' is 'e\\u0301.md'"
    )


@pytest.mark.parametrize(
    ("missing", "known"),
    [
        ("a", ["'a'", '"a"']),  # which of the two is not known
        ("1-11", ["11-1"]),
        ("babc", ["abc"]),
        ("a/index.md", ["b/index.md"]),
        ("a.md", ["a.txt"]),
        (UUID, [UUID.replace("8", "9")]),
    ],
)
def test_other_documents_are_not_another_spelling(missing: str, known: list[str]) -> None:
    assert respelling([missing], Ids.of(known)) is None
    assert spelled_otherwise([missing], Ids.of(known)) is None


def test_each_rule_by_which_ids_meet_is_named_with_its_count() -> None:
    missing = [*(f"Doc{letter}" for letter in "abc"), "'x'", "y_z", "gone"]
    known = Ids.of([*(f"doc{letter}" for letter in "abc"), "x", "y-z"])
    assert [(one.rule, one.met, one.corpus_id) for one in respellings(missing, known, any_number=True)] == [
        ("but for upper and lower case", 3, "doca"),
        ("but for quotation marks", 1, "x"),
        ("but for dashes, underscores and spaces", 1, "y-z"),
    ]
    assert [one.met for one in respellings(missing, known)] == [3, 1]
    assert respellings([], known) == []
    where = unmet_documents(Ids.of([*missing, "doca"]), known, "c.jsonl")
    assert where is not None
    assert "3 of them are the same but for upper and lower case" in where
    assert "and 1 of them is the same but for quotation marks" in where


def test_a_run_of_which_no_id_meets_is_refused_with_the_reason() -> None:
    """Unless only Unicode normalisation distinguishes the ids: then the scores come with the finding."""
    run = {str(query): [name.upper(), f"other-{query}.md"] for query, name in enumerate(NAMES)}
    qrels = {str(query): {name: 1} for query, name in enumerate(NAMES)}
    with pytest.raises(DataError, match="12 of them are the same but for upper and lower case"):
        harness.evaluate(run, qrels)
    decomposed = {str(query): [name, f"other-{query}.md"] for query, name in enumerate(DECOMPOSED)}
    scores = harness.evaluate(decomposed, qrels, "RR")
    assert scores.means()[0].value == 0.0
    assert "12 of them are the same but for Unicode normalisation" in scores.findings[0].message


def test_a_run_of_which_some_ids_meet_is_scored_with_a_finding() -> None:
    run = {str(query): [DECOMPOSED[query] if query == 3 else name] for query, name in enumerate(NAMES)}
    qrels = {str(query): {name: 1} for query, name in enumerate(NAMES)}
    (finding,) = harness.evaluate(run, qrels).findings
    assert finding.check == "ids-spelled-otherwise"
    assert finding.message.startswith(
        "1 of 12 judged documents are not in the run, and 1 of them is the same but for Unicode normalisation"
    )
    (finding,) = harness.evaluate(
        {f"'{query}'" if query == "3" else query: hits for query, hits in run.items()},
        {query: {DECOMPOSED[3] if query == "3" else name: 1 for name in judged} for query, judged in qrels.items()},
    ).findings
    assert "1 of 12 judged queries are not in the run, and 1 of them is the same but for quotation" in finding.message


@pytest.mark.parametrize(
    ("missing", "known"),
    [
        (["x-1"], ["y-1"]),  # a dash, but the missing id is not a UUID
        (["11"], ["12"]),
        (["a", "b"], ["c", "d"]),
    ],
)
def test_known_ids_are_not_respelled_if_no_id_can_meet_by_a_mistake(
    missing: list[str], known: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most runs lack some judged documents, and may have millions of others: respelling these takes seconds."""

    def respell(ids: pa.Array) -> pa.Array:
        raise AssertionError(ids)

    mistakes = tuple(rule._replace(respell=respell) for rule in id_spelling._RULES if rule.mistake)
    monkeypatch.setattr(id_spelling, "_RULES", mistakes)
    assert respelling(missing, Ids.of(known)) is None
