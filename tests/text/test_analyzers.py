"""Snowball and white-space analyzers: tokens, stop words, stems, names."""

from __future__ import annotations

import pytest

from harness.errors import UnknownNameError
from harness.text import Analyzer, analyzer_identity, analyzer_names, create_analyzer
from harness.text.snowball import SnowballAnalyzer, Tokenizer, languages


def terms(name: str, text: str) -> list[str]:
    return create_analyzer(name).analyze([text])[0]


def test_english_folds_drops_stop_words_and_stems() -> None:
    assert terms("snowball-english", "The Computers are NOT running on a System") == ["comput", "run", "system"]


def test_porter_is_the_older_stemmer() -> None:
    assert terms("snowball-porter", "fairly") == ["fairli"]
    assert terms("snowball-english", "fairly") == ["fair"]


@pytest.mark.parametrize("apostrophe", ["'", "\u2019"])
def test_an_apostrophe_joins_in_english_and_the_possessive_goes(apostrophe: str) -> None:
    assert terms("snowball-english", f"Don{apostrophe}t fix John{apostrophe}s") == ["don't", "fix", "john"]


def test_an_apostrophe_separates_where_languages_elide() -> None:
    assert Tokenizer(elides=True).cut("L'homme") == ["l", "homme"]
    assert terms("snowball-french", "l'homme de l\u2019ours") == ["homm", "our"]


def test_combining_marks_stay_inside_their_word() -> None:
    assert Tokenizer().cut("हिन्दी किताब") == ["हिन्दी", "किताब"]
    assert terms("snowball-tamil", "புத்தகங்கள்") == ["புத்தகம்"]


def test_composed_and_decomposed_letters_are_one() -> None:
    assert Tokenizer().cut("Cafe\u0301") == Tokenizer().cut("CAF\u00c9") == ["caf\u00e9"]


def test_zero_width_joiners_stay_inside_their_word() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    assert Tokenizer().cut(f"{persian} x") == [persian, "x"]


def test_turkish_has_its_own_i() -> None:
    assert Tokenizer(turkish=True).cut("ISPARTA \u0130zmir") == ["\u0131sparta", "izmir"]
    assert Tokenizer().cut("ISPARTA") == ["isparta"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t", []),
        ("... !? --", []),
        ("'tis ''quoted''", ["tis", "quoted"]),
        ("3.14 x_1 a-b", ["3", "14", "x_1", "a", "b"]),
        ("naïve ÜBER Straße", ["naïve", "über", "straße"]),
        ("a\u00a0b\u2014c", ["a", "b", "c"]),
        ("日本語 x", ["日本語", "x"]),
        ("😀 face", ["face"]),
    ],
)
def test_token_boundaries(text: str, expected: list[str]) -> None:
    assert Tokenizer().cut(text) == expected


def test_ascii_and_unicode_paths_agree_on_ascii_text() -> None:
    text = "Don't x_1 'a' 3.14 it''s O'Reilly's"
    assert [*Tokenizer().cut(text), "é"] == Tokenizer().cut(text + " é")


@pytest.mark.parametrize("language", languages())
def test_every_language_analyses_and_describes_itself(language: str) -> None:
    analyzer = SnowballAnalyzer(language)
    assert isinstance(analyzer, Analyzer)
    assert analyzer.name == f"snowball-{language}"
    assert analyzer.analyze(["alpha 42 beta", ""])[1] == []
    assert "42" in analyzer.analyze(["alpha 42 beta"])[0]
    assert analyzer_identity(analyzer.name)["stemmer"].endswith(language)


@pytest.mark.parametrize(
    ("language", "stop_word"),
    [("german", "und"), ("french", "les"), ("russian", "это"), ("hindi", "अपना"), ("arabic", "في"), ("dutch", "het")],
)
def test_stop_words_of_other_languages_go(language: str, stop_word: str) -> None:
    assert terms(f"snowball-{language}", stop_word) == []
    assert "stop-words" in analyzer_identity(f"snowball-{language}")["stop_words"]


def test_content_words_survive_english_stop_words() -> None:
    assert terms("snowball-english", "computer system problem information") == ["comput", "system", "problem", "inform"]


def test_languages_without_a_list_say_so() -> None:
    assert analyzer_identity("snowball-basque")["stop_words"] == "none"


def test_a_full_cache_is_emptied_without_changing_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.text.snowball._CACHED_TOKENS", 2)
    analyzer = create_analyzer("snowball-english")
    first = analyzer.analyze(["running cats sleeping dogs"])
    assert analyzer.analyze(["running cats sleeping dogs"]) == first == [["run", "cat", "sleep", "dog"]]


def test_whitespace_changes_nothing_but_splits() -> None:
    assert terms("whitespace", " The the\u00a0THE\n,") == ["The", "the", "THE", ","]


def test_lucene_names_lead_to_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.text.lucene_analyzer.LuceneAnalyzer", lambda language, **java: (language, java))
    assert create_analyzer("lucene-thai") == ("thai", {"heap": None, "jar": None})
    assert create_analyzer("lucene-thai", heap="1g", jar="a.jar") == ("thai", {"heap": "1g", "jar": "a.jar"})
    with pytest.raises(UnknownNameError, match="did you mean 'lucene-german'"):
        create_analyzer("lucene-germn")


def test_unknown_names_get_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'snowball-german'"):
        create_analyzer("snowball-germn")
    with pytest.raises(UnknownNameError, match="unknown analyzer 'nothing-english'"):
        create_analyzer("nothing-english")
    with pytest.raises(UnknownNameError, match="Snowball language"):
        SnowballAnalyzer("klingon")


def test_names_are_sorted_and_complete() -> None:
    names = analyzer_names()
    assert list(names) == sorted(names)
    assert {"whitespace", "snowball-english", "snowball-porter", "lucene-english", "lucene-thai"} <= set(names)
