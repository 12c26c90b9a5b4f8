"""Texts that contain each other, and the share of words in order: against the plain definitions."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.golden_set import Expectation, GoldenQuestion, GoldenSet
from harness.data.types import Ids
from harness.pipeline.check.containment import containments, normalize_text
from harness.pipeline.check.text_match import TextMatch, expect_texts, expected_texts, match_texts, nearest_documents
from harness.pipeline.check.word_share import nearest_texts, share_of_words, shares, words_of


def contains(haystack: str, pattern: str) -> bool:
    """The definition of a match: an occurrence that cuts no number, and no word of a short text."""
    if not pattern:
        return False
    short, start = len(pattern.split()) < 5, haystack.find(pattern)
    while start >= 0:
        end = start + len(pattern)
        pairs = [(haystack[start - 1 : start] if start else "", pattern[0]), (pattern[-1], haystack[end : end + 1])]
        if not any(joined(left, right, short=short) for left, right in pairs):
            return True
        start = haystack.find(pattern, start + 1)
    return False


def joined(left: str, right: str, *, short: bool) -> bool:
    if not left or not right or "漢" in (left, right):
        return False
    return (left.isdigit() and right.isdigit()) or (short and left.isalnum() and right.isalnum())


TEXT = st.text("ab1 漢é€", max_size=40).map(normalize_text)


@given(st.lists(TEXT, max_size=6), st.lists(TEXT, max_size=6), st.data())
def test_every_pair_of_contained_texts_is_returned_once(
    patterns: list[str], haystacks: list[str], data: st.DataObject
) -> None:
    for haystack in haystacks:
        start = data.draw(st.integers(0, len(haystack)))
        patterns.append(normalize_text(haystack[start : data.draw(st.integers(start, len(haystack)))]))
    pairs = list(containments(patterns, haystacks))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {
        (number, position)
        for number, pattern in enumerate(patterns)
        for position, haystack in enumerate(haystacks)
        if contains(haystack, pattern)
    }


@pytest.mark.parametrize(
    ("pattern", "haystack", "expected"),
    [
        ("part 1", "this is part 10", False),
        ("part 1", "this is part 1.", True),
        ("art", "part", False),
        ("he warranty runs for two yea", "the warranty runs for two years", True),
        ("漢字", "これは漢字です", True),
        ("", "text", False),
    ],
)
def test_an_occurrence_cuts_no_number_and_no_short_word(pattern: str, haystack: str, expected: bool) -> None:
    assert [*containments([pattern], [haystack])] == ([(0, 0)] if expected else [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" a\u00a0 b\r\n\tc ", "a b c"),
        ("the \ufb01rst", "the first"),
        ("co\u00adop\u200b\ufeff", "coop"),
        ("e\u0301t\u00e9", "\u00e9t\u00e9"),
        ("漢\n字 and 字", "漢字 and 字"),
        ("\uff21\uff11", "A1"),
        ("", ""),
    ],
)
def test_white_space_and_unicode_are_normalized(text: str, expected: str) -> None:
    assert normalize_text(text) == expected
    assert normalize_text(expected) == expected


WORDS = st.lists(st.sampled_from("abcdef"), max_size=12)


def longest_common(first: list[str], second: list[str]) -> int:
    table = np.zeros((len(first) + 1, len(second) + 1), dtype=int)
    for row, left in enumerate(first):
        for column, right in enumerate(second):
            table[row + 1, column + 1] = (
                table[row, column] + 1 if left == right else max(table[row, column + 1], table[row + 1, column])
            )
    return int(table[-1, -1])


def plain_share(first: list[str], second: list[str]) -> float:
    shorter, longer = sorted((first, second), key=len)
    n = len(shorter)
    if not n:
        return 0.0
    return max(longest_common(shorter, longer[start : start + n]) for start in range(len(longer) - n + 1)) / n


@given(WORDS, WORDS)
def test_the_share_of_words_is_its_formula_in_both_directions(first: list[str], second: list[str]) -> None:
    share = share_of_words(first, second)
    assert share == plain_share(first, second)
    if len(first) != len(second):
        assert share == share_of_words(second, first)


@given(WORDS.filter(bool), WORDS, WORDS, st.data())
def test_each_changed_word_costs_at_most_its_share(
    words: list[str], before: list[str], after: list[str], data: st.DataObject
) -> None:
    assert share_of_words(words, [*before, *words, *after]) == 1.0
    position = data.draw(st.integers(0, len(words) - 1))
    least = 1 - 1 / len(words) - 1e-9
    changed = [*words[:position], "x", *words[position + 1 :]]
    inserted = [*words[:position], "x", *words[position:]]
    for other in (changed, inserted):
        assert share_of_words(words, [*before, *other, *after]) >= least


@given(st.lists(WORDS, max_size=5), st.lists(WORDS, max_size=5), st.sampled_from([0.1, 0.5, 0.8, 1.0]))
def test_no_pair_with_the_share_is_left_out(texts: list[list[str]], documents: list[list[str]], least: float) -> None:
    batches = [[" ".join(document) for document in part] for part in (documents[:2], documents[2:])]
    found = {(pair.text, pair.document) for pair in shares([" ".join(text) for text in texts], batches, least)}
    assert found == {
        (number, row)
        for number, text in enumerate(texts)
        for row, document in enumerate(documents)
        if plain_share(text, document) >= least - 1e-9
    }


def test_words_have_no_case_and_no_punctuation() -> None:
    assert words_of("The pump's FUSE, no. 3: 漢字") == ["the", "pump", "s", "fuse", "no", "3", "漢", "字"]


def test_the_nearest_document_has_the_largest_share() -> None:
    documents = ["the pump is loud", "a lamp that is blue", "if the pump makes no sound look at the fuse"]
    nearest = nearest_texts(["when the pump makes no sound", "ocean"], [documents])
    assert nearest[0] is not None
    assert (nearest[0].document, nearest[0].share) == (2, 5 / 6)
    assert nearest[1] is None


def column(*texts: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string())])


def test_a_document_matches_a_text_that_it_contains_or_is_a_part_of() -> None:
    expected = {"whole": "a b c d e f", "part": "c d", "other": "x y"}
    matches = match_texts(expected, Ids.of("pqrst"), column("c d", "z a b c d e f", None, "", "a  b c d\ne f"), 1.0)
    assert matches == {
        "p": {"whole": TextMatch("part"), "part": TextMatch("contains")},
        "q": {"whole": TextMatch("contains"), "part": TextMatch("contains")},
        "t": {"whole": TextMatch("contains"), "part": TextMatch("contains")},
    }


def test_only_texts_that_no_document_contains_are_matched_by_share() -> None:
    expected = {"exact": "a b c d e", "changed": "k l m n o"}
    documents = column("a b c d e", "a b c d x", "k l m n x")
    matches = match_texts(expected, Ids.of("pqr"), documents, 0.8)
    assert matches == {"p": {"exact": TextMatch("contains")}, "r": {"changed": TextMatch("share", 0.8)}}
    assert nearest_documents({"changed": "k l m n o"}, Ids.of("pqr"), documents)["changed"].doc_id == "r"


def golden_of(*questions: GoldenQuestion) -> GoldenSet:
    return GoldenSet("g", "g.jsonl", questions, "")


def test_expected_texts_have_short_ids_and_equal_texts_one() -> None:
    long = "word " * 40
    asked = GoldenQuestion("q", "?", (), {}, 1, texts=("one  text", long, "one text"))
    (question,) = expect_texts(golden_of(asked), all_questions=False, keep_text=True)
    assert [len(one.id) <= 60 for one in question.expected] == [True, True]
    assert question.texts == ("one text", long.strip())
    private = expect_texts(golden_of(asked), all_questions=False, keep_text=False)
    assert all("word" not in label and "one" not in label for label in expected_texts(private))


def test_ids_are_texts_only_by_request() -> None:
    asked = GoldenQuestion("q", "?", (Expectation("a.md", 2),), {}, 1)
    assert expect_texts(golden_of(asked), all_questions=False, keep_text=True).questions == (asked,)
    (question,) = expect_texts(golden_of(asked), all_questions=True, keep_text=True)
    assert (question.texts, question.expected) == (("a.md",), (Expectation("a.md", 2),))


def test_many_texts_are_found_among_many_documents_without_comparing_each_pair() -> None:
    """2,000 texts and 10,000 documents are 20 million pairs: a comparison of each takes minutes."""
    rng = np.random.default_rng(1)
    documents = [" ".join(map(str, row)) for row in rng.integers(0, 5_000, (10_000, 40)).tolist()]
    patterns = [" ".join(documents[row].split()[5:25]) for row in rng.integers(0, 10_000, 2_000).tolist()]
    started = time.process_time()
    pairs = set(containments(patterns, documents))
    assert len(pairs) >= 2_000
    assert time.process_time() - started < 20
