from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines.lucene.bm25 import LuceneEngine
from harness.errors import UnknownNameError, UsageError
from harness.plan.backend_spec import parse_backends
from harness.plan.config import CompareRequest
from harness.plan.plan import make_plan
from harness.registry.cards import read_backend_card

_CARD = read_backend_card(Path(__file__).parents[3] / "backends" / "lucene.toml")


def engine(**changed) -> LuceneEngine:
    return LuceneEngine({**_CARD.defaults, **changed})


def test_the_defaults_are_anserini_s():
    defaults = _CARD.defaults
    assert (defaults["k1"], defaults["b"], defaults["model"], defaults["mu"]) == (0.9, 0.4, "bm25", 1000.0)
    rm3 = ("rm3", "rm3_fb_terms", "rm3_fb_docs", "rm3_original_query_weight")
    assert [defaults[name] for name in rm3] == [False, 10, 10, 0.5]
    axiom = ("axiom", "axiom_n", "axiom_r", "axiom_beta", "axiom_top", "axiom_seed")
    assert [defaults[name] for name in axiom] == [False, 30, 20, 0.4, 20, 42]


def test_only_what_changes_the_index_is_compared_on_reopening():
    plain = engine().index_parameters
    assert engine(k1=2.0, b=0.1, model="ql", mu=5.0, heap="1g", jar="a.jar").index_parameters == plain
    assert engine(analyzer="lucene-english").index_parameters == plain
    for changed in ({"analyzer": "lucene-german"}, {"segments": "single"}, {"ram_buffer_mb": 1.0}, {"rm3": True}):
        assert engine(**changed).index_parameters != plain


def test_rm3_and_axiom_exclude_each_other():
    with pytest.raises(UsageError, match="exclude each other"):
        engine(rm3=True, axiom=True)


def test_an_analyzer_that_is_not_lucene_s_is_refused():
    for name in ("snowball-english", ""):
        with pytest.raises(UsageError, match=f"'{name}' is not one of Lucene's"):
            engine(analyzer=name)


def test_an_unknown_language_is_refused_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'lucene-german'"):
        engine(analyzer="lucene-germn")


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("lucene:analyzer=snowball-english", "'snowball-english' is not of the form auto\\|lucene-"),
        ("lucene:analyzer=", "Lucene analyzer, lucene-<language>"),
        ("lucene:heap=big", "largest Java heap: 512m, 2g"),
        ("lucene:rm3_fb_docs=3000000000", "above 100000"),
    ],
)
def test_what_lucene_would_refuse_is_refused_before_anything_runs(backend: str, expected: str):
    with pytest.raises(UsageError, match=expected):
        parse_backends(backend)


def test_without_lucene_its_default_analyzer_is_still_lucene_s():
    """So that a run without the extra asks for the extra, and one with ``jar=`` alone needs nothing else."""
    (trial,) = make_plan(CompareRequest(backends="lucene"), lucene_available=False).trials
    assert trial.analyzer == "lucene-english"


def test_the_oracle_is_exact_and_only_for_plain_bm25():
    oracle = _CARD.reference
    assert (oracle.kind, oracle.tolerance) == ("lucene", 0)
    assert oracle.applies(_CARD.defaults)
    for changed in ({"model": "ql"}, {"rm3": True}, {"axiom": True}):
        assert not oracle.applies({**_CARD.defaults, **changed})
