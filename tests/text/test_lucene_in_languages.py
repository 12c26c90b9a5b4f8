"""Lucene's hits in several languages, each by its own analyzer, held against the exact reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import skip_module_without

import harness
from harness.pipeline.check.check_plan import plan_check
from harness.pipeline.check.run_check import run_check
from harness.plan.config import CheckRequest

skip_module_without("jnius_config")
pytestmark = pytest.mark.integration

_CARD = """
name = "sentences"
summary = "sentences and questions"
format = "beir"
path = "{path}"
split = "test"
language = "{language}"
licence = "CC BY-SA 4.0"
source = "LAReQA"
"""
_ANALYZERS = {"de": "lucene-german", "zh": "lucene-chinese", "ar": "lucene-arabic"}
_OPTIONS = {"timing": False, "isolation": "none", "metrics": "nDCG@10"}


@pytest.mark.parametrize("language", _ANALYZERS)
def test_lucene_is_bit_equal_with_its_reference(language: str, shared_collections: Path, tmp_path: Path) -> None:
    path = shared_collections / "xquad-r" / language
    if not path.is_dir():
        pytest.skip("no XQuAD-R here")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "sentences.toml").write_text(_CARD.format(path=path, language=language))
    found = harness.compare("lucene,csr", "sentences", cards=tmp_path, k=100, sample_queries=300, **_OPTIONS)  # type: ignore[arg-type]
    assert not found.failed
    for backend in found.report.trials:
        assert backend.encoder["analyzer"] == _ANALYZERS[language]
        assert backend.parity is not None
        assert backend.parity.bit_equal == backend.parity.queries == 300


def test_documents_are_longer_by_words_of_which_normalisation_leaves_nothing(tmp_path: Path) -> None:
    texts = {"plain": "كتاب جديد", "longer": "كتاب ـ ـ ـ جديد", "other": "بيت", "empty": "ـ"}
    dataset = harness.Dataset.of(texts, {"q": "كتاب ـ"}, {"q": {"plain": 1}}, language="ar")
    found = harness.compare("lucene,csr,qdrant", dataset, k=4, **_OPTIONS)  # type: ignore[arg-type]
    assert not found.failed
    for backend in found.report.trials:
        assert backend.parity is not None
        assert backend.parity.tie_equivalent == 1
        assert (backend.encoder["documents_with_terms"], backend.encoder["average_length"]) == (4, 9 / 4)
    run = found.runs["lucene"]
    assert run.doc_ids.take(run.rows) == ["plain", "longer"]
    assert run.scores[0] > run.scores[1]


_GERMAN = {"houses": "Die Häuser am Fluss", "gardens": "Gärten hinter dem Haus der Post", "other": "Züge und Brücken"}
_ASKED = [{"id": "q", "question": "Haus am Flusse", "expected": ["houses"]}]


def test_questions_to_an_index_that_is_there_follow_the_language_of_the_corpus(tmp_path: Path) -> None:
    from lucene_indexes import anserini_index

    index = f"lucene:external=true;path={anserini_index(tmp_path, _GERMAN, '-language', 'de')};field=contents"
    options = {"against": index, "k": 2, "timing": False, "isolation": "none"}
    corpus = harness.Dataset.of(_GERMAN, {"q": "Haus am Flusse"}, {"q": {"houses": 1}}, language="de")
    of_corpus = harness.check(_ASKED, corpus=corpus, backends="csr", **options)  # type: ignore[arg-type]
    of_golden_set = harness.check(corpus, **options)  # type: ignore[arg-type]
    for checked in (of_corpus, of_golden_set):
        subject = checked.report.trials[-1]
        assert subject.parameters["analyzer"] == "lucene-german"
        assert subject.questions[0].top[0] == "houses"
        assert not any("language" in note for note in checked.report.notes)
    unknown = harness.check(_ASKED, **options)  # type: ignore[arg-type]
    assert unknown.report.trials[-1].parameters["analyzer"] == "lucene-english"
    assert any("it is analysed as English (lucene-english)" in note for note in unknown.report.notes)


def test_corpora_in_two_languages_leave_that_of_an_index_unknown(tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.mkdir()
    pair = [
        harness.Dataset.of({"houses": "Haus"}, {"q": "x"}, {"q": {"houses": 1}}, name=code, language=code)
        for code in ("de", "en")
    ]
    against = f"lucene:external=true;path={path}"
    request = CheckRequest(golden=_ASKED, corpus=pair, backends="csr", against=against, timing=False, isolation="none")
    report = run_check(plan_check(request)).report
    assert any("it is analysed as English" in note for note in report.notes)
