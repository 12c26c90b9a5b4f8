"""Lucene's hits in several languages, each by its own analyzer, held against the exact reference."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness

pytest.importorskip("jnius_config", reason="the extra 'lucene' is not installed")
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
_ANALYZERS = {"en": "lucene-english", "de": "lucene-german", "zh": "lucene-chinese", "ar": "lucene-arabic"}


@pytest.mark.parametrize("language", _ANALYZERS)
def test_lucene_is_bit_equal_with_its_reference(language: str, shared_collections: Path, tmp_path: Path) -> None:
    path = shared_collections / "xquad-r" / language
    if not path.is_dir():
        pytest.skip("no XQuAD-R here")
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "sentences.toml").write_text(_CARD.format(path=path, language=language))
    found = harness.compare(
        "lucene,csr", "sentences", cards=tmp_path, timing=False, metrics="nDCG@10", k=100, sample_queries=300
    )
    assert not found.failed
    for backend in found.report.backends:
        assert backend.encoder["analyzer"] == _ANALYZERS[language]
        assert backend.parity is not None
        assert backend.parity.bit_equal == backend.parity.queries == 300


def test_documents_are_longer_by_words_of_which_normalisation_leaves_nothing(tmp_path: Path) -> None:
    texts = {"plain": "كتاب جديد", "longer": "كتاب ـ ـ ـ جديد", "other": "بيت", "empty": "ـ"}
    dataset = harness.Dataset.of(texts, {"q": "كتاب ـ"}, {"q": {"plain": 1}}, language="ar")
    found = harness.compare("lucene,csr,qdrant", dataset, timing=False, metrics="nDCG@10", k=4)
    assert not found.failed
    for backend in found.report.backends:
        assert backend.parity is not None
        assert backend.parity.tie_equivalent == 1
        assert (backend.encoder["documents_with_terms"], backend.encoder["average_length"]) == (4, 9 / 4)
    run = found.runs["lucene"]
    assert run.doc_ids.take(run.rows) == ["plain", "longer"]
    assert run.scores[0] > run.scores[1]
