"""Analysed terms as texts: the same multiset of terms, whole under any tokenizer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from harness.testing.expected import count_words
from harness.text import term_texts as module
from harness.text.term_texts import load_term_texts, save_term_texts, term_texts, tokens_of

TEXTS = ["b a a", "", "größe a", "zz9 x-y", "a" * 40]
COUNTS = count_words(TEXTS, ["a a unknown größe", "unknown"])


def test_plain_terms_stay_and_others_are_numbered() -> None:
    tokens = dict(zip(COUNTS.vocabulary.values.to_pylist(), tokens_of(COUNTS.vocabulary), strict=True))
    assert tokens["a"] == "a"
    assert len(set(tokens.values())) == len(tokens)
    for term in ("größe", "zz9", "x-y", "a" * 40):
        assert tokens[term].startswith("zz")
        assert tokens[term].isascii()
        assert tokens[term].isalnum()


@pytest.mark.parametrize("rows_at_once", [1, 2, 100])
def test_texts_hold_each_term_as_often_as_it_occurs(
    rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROWS_PER_BLOCK", rows_at_once)
    term_of = dict(zip(tokens_of(COUNTS.vocabulary), COUNTS.vocabulary.values.to_pylist(), strict=True))
    texts = term_texts(COUNTS, "documents").to_pylist()
    assert [Counter(map(term_of.__getitem__, text.split())) for text in texts] == [Counter(t.split()) for t in TEXTS]
    assert texts[0] == "a a b"
    assert term_texts(COUNTS, "queries").to_pylist()[1] == ""
    save_term_texts(tmp_path, COUNTS)
    assert load_term_texts(tmp_path, "documents").to_pylist() == texts
    assert load_term_texts(tmp_path, "queries").to_pylist() == term_texts(COUNTS, "queries").to_pylist()
