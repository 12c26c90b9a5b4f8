"""What a golden set may have meant by ids that no document has."""

from __future__ import annotations

import pytest

from harness.data.types import Ids
from harness.loaders.golden import golden_of_records
from harness.pipeline.check.id_match import ExpectedDocuments, IdAdvice, Match, id_advice
from harness.pipeline.check.preflight import missing_ids
from harness.plan.option_values import parse_match


def meant(expected: list[str], corpus: list[str]) -> IdAdvice:
    golden = golden_of_records([{"question": "what?", "expected": expected}])
    return id_advice(golden, [one for one in expected if one not in corpus], Ids.of(corpus))


@pytest.mark.parametrize(
    ("expected", "corpus", "option"),
    [
        (["a", "b"], ["a-1", "a-2", "b-1"], "--match document --delimiter '-'"),
        (["a.md"], ["a.md::0"], "--match document --delimiter '::'"),
        (["a", "whole"], ["a#1", "whole"], "--match document --delimiter '#'"),
        (["a"], ["a#1#2"], "--match prefix --delimiter '#'"),
        (["a", "b", "c"], ["a_x", "a#1", "b#1"], "--match document --delimiter '#'"),
    ],
)
def test_documents_of_which_there_are_chunks(expected: list[str], corpus: list[str], option: str) -> None:
    assert meant(expected, corpus) == (f"if it names documents whose chunks are in the corpus: {option}", {})


@pytest.mark.parametrize(
    ("expected", "corpus"),
    [
        (["chunk-1"], ["chunk-10", "chunk-2"]),
        (["manual#3"], ["manual#1", "manual#2", "manual#30"]),
        (["a"], ["b", "ab"]),
        (["a,b"], ["a", "c"]),
        (["a"], []),
    ],
)
def test_nothing_is_made_up(expected: list[str], corpus: list[str]) -> None:
    assert meant(expected, corpus) == ("", {})


@pytest.mark.parametrize(
    ("expected", "near"),
    [("policy-refunds", "policy-refund"), ("Terms-02", "terms-2"), ("shiping.md", "Shipping.md"), ("terms-3", None)],
)
def test_slips_of_spelling(expected: str, near: str | None) -> None:
    found = meant([expected], ["policy-refund", "terms-2", "Shipping.md"])
    assert found == ("", {} if near is None else {expected: near})


@pytest.mark.parametrize(("expected", "corpus"), [(["1.0", "7.0"], ["1", "7"]), (["1", "7"], ["1.0", "7.0", "8.0"])])
def test_whole_numbers_of_pandas_are_no_chunks(expected: list[str], corpus: list[str]) -> None:
    assert meant(expected, corpus).fix.startswith("2 of them are the same but for a decimal part")


def test_file_names_of_another_system() -> None:
    fix = "1 of them is the same but for Unicode normalisation: '\\xe9.md' is 'e\\u0301.md'; write ids alike in both"
    assert meant(["\u00e9.md", "gone"], ["e\u0301.md", "b.md"]) == (fix, {})


def test_each_cause_is_named_with_its_count() -> None:
    normal = "1 of them is the same but for Unicode normalisation: 'caf\\xe9.md' is 'cafe\\u0301.md'"
    dashes = "1 of them is the same but for dashes, underscores and spaces: 'd_e' is 'd-e'"
    known = ["cafe\u0301.md", "d-e", "policy-refund", "manual#1"]
    assert meant(["caf\u00e9.md", "d_e"], known) == (f"{normal}; {dashes}; write ids alike in both", {})
    everything = ["caf\u00e9.md", "policy-refunds", "gone", "x-y-z", "d_e"]
    assert meant(everything, known) == (
        f"{normal}; {dashes}; write ids alike in both",
        {"policy-refunds": "policy-refund"},
    )
    chunks = "1 of them: if it names documents whose chunks are in the corpus: --match document --delimiter '#'"
    assert meant(["manual", "d_e"], known) == (f"{chunks}; {dashes}; write ids alike in both", {})
    joined = "1 of them: 'd-e, manual#1' holds several ids: separate them with ; or | in CSV, and write a list in JSON"
    assert meant(["manual", "d-e, manual#1"], known).fix == f"{joined}; {chunks}"


def test_chunks_of_documents_that_are_there_whole() -> None:
    fix = "'terms#2' is called like a chunk of 'terms', which the corpus has whole"
    instead = "give the corpus of chunks, or have the golden set name documents"
    assert meant(["terms#2"], ["terms", "manual"]) == (f"{fix}: {instead}", {})
    assert meant(["terms#draft"], ["terms", "manual"]) == ("", {})


def test_several_ids_in_one() -> None:
    fix = "'a, b' holds several ids: separate them with ; or | in CSV, and write a list in JSON"
    assert meant(["x", "a, b"], ["a", "b"]) == (fix, {})


def test_the_finding_says_it() -> None:
    golden = golden_of_records([{"question": "what?", "expected": ["refunds", "gone"]}], "g.jsonl")
    (finding,) = missing_ids(golden, ExpectedDocuments(golden, Match(), Ids.of(["refund"])), "the corpus 'c'")
    assert finding.fix == "correct the ids of the golden set, or give the documents that it was made for"
    assert finding.examples == (
        "g.jsonl, line 1: question 'line-1' expects 'refunds' (did you mean 'refund'?)",
        "g.jsonl, line 1: question 'line-1' expects 'gone'",
    )
    by_document = ExpectedDocuments(golden, Match.of(parse_match("document"), "#"), Ids.of(["refund"]))
    (finding,) = missing_ids(golden, by_document, "the corpus 'c'")
    assert not [one for one in finding.examples if "did you mean" in one]
