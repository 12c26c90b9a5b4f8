"""Analyzers that are not named follow the dataset's language, before any key is made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import harness
from harness.data.languages import language_name
from harness.errors import EngineUnavailableError, UsageError
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, make_plan, set_language
from harness.text import analyzer_names, preferred_analyzers, supported_language
from harness.text.lucene_analyzer import language_code, languages


def plan(backends: str, language: str | None, *, lucene: bool = True) -> Plan:
    made = make_plan(CompareRequest(backends=backends), lucene_available=lucene)
    return set_language(made, language)


def analyzers(backends: str, language: str | None, *, lucene: bool = True) -> list[str | None]:
    return [trial.analyzer for trial in plan(backends, language, lucene=lucene).trials]


@pytest.mark.parametrize(
    ("code", "with_lucene", "without"),
    [
        ("de", "lucene-german", "snowball-german"),
        ("deu", "lucene-german", "snowball-german"),
        ("en", "lucene-english", "snowball-english"),
        ("en-GB", "lucene-english", "snowball-english"),
        ("English", "lucene-english", "snowball-english"),
        ("nb", "lucene-norwegian", "snowball-norwegian"),
        ("nn_Latn", "lucene-norwegian", "snowball-norwegian"),
        ("el", "lucene-greek", "snowball-greek"),
        ("cs", "snowball-czech", "snowball-czech"),
        (None, "lucene-english", "snowball-english"),
        ("mul", "lucene-english", "snowball-english"),
    ],
)
def test_the_language_decides_the_analyzer(code: str | None, with_lucene: str, without: str) -> None:
    assert analyzers("csr", code) == [with_lucene]
    assert analyzers("csr", code, lucene=False) == [without]


@pytest.mark.parametrize("code", ["ko", "kor", "kor_Hang", "zh-Hant", "ja", "th", "sw"])
def test_a_language_of_lucene_alone_needs_the_extra(code: str) -> None:
    lucene, csr = analyzers("lucene,csr", code)
    assert lucene == csr == preferred_analyzers(code, analyzer_names())[0]
    with pytest.raises(EngineUnavailableError, match=r"(?s)backend 'csr'.*pip install 'retrieval-harness\[lucene\]'"):
        plan("csr", code, lucene=False)
    assert analyzers("lucene", code, lucene=False) == [lucene], "its trial says what Lucene lacks"


def test_parameters_hold_the_analyzer_that_runs_and_labels_what_was_given() -> None:
    (trial,) = plan("csr", "de").trials
    assert (trial.label, trial.parameters["analyzer"], dict(trial.spec.overrides)) == ("csr", "lucene-german", {})


def test_an_analyzer_that_is_named_wins() -> None:
    assert analyzers("csr:analyzer=whitespace,lucene:analyzer=lucene-english", "ko") == ["whitespace", "lucene-english"]
    assert analyzers("csr:analyzer=auto", "ko") == ["lucene-korean"]
    assert analyzers("csr:analyzer=whitespace", "tlh", lucene=False) == ["whitespace"]


def test_a_language_without_an_analyzer_is_refused_for_every_backend_at_once() -> None:
    with pytest.raises(UsageError, match=r"(?s)'tlh', and backend 'csr' .*'tlh', and backend 'lucene' .*analyzer="):
        plan("csr,lucene", "tlh")
    with pytest.raises(UsageError, match=r"Czech \(cs\), and backend 'lucene' has no analyzer .* snowball-czech"):
        plan("lucene", "cs")


@pytest.mark.parametrize("lucene", [True, False])
@pytest.mark.parametrize("backend", ["csr", "lucene"])
def test_what_is_offered_for_a_language_without_an_analyzer_is_taken(backend: str, lucene: bool) -> None:
    with pytest.raises(UsageError) as raised:
        plan(backend, "tlh", lucene=lucene)
    offered = re.findall(r"analyzer=([\w-]+)", str(raised.value.fix))
    assert len(offered) == 2
    for name in offered:
        assert analyzers(f"{backend}:analyzer={name}", "tlh", lucene=lucene) == [name]
        assert lucene or backend == "lucene" or not name.startswith("lucene-")


def test_a_language_that_is_not_known_is_said_to_be_taken_for_english() -> None:
    (note,) = plan("csr", None).notes
    assert note.startswith("the language of the dataset is not known: it is analysed as English (lucene-english)")
    assert plan("csr", "en").notes == ()
    assert plan("csr:analyzer=lucene-english", None).notes == ()
    assert plan("flat", None).notes == (), "a backend without terms"


def test_indexes_that_analyse_by_themselves_are_not_said_to_be_english(tmp_path: Path) -> None:
    index = "opensearch:external=true;url=http://127.0.0.1:1;index=theirs"
    assert plan(index, None).notes == ()
    assert plan(f"{index},csr:analyzer=lucene-german", "en").notes == (), "the analyzers differ, and are not ours"
    # Lucene's index is searched by terms that we make
    (note,) = plan(f"lucene:external=true;path={tmp_path},{index}", None).notes
    assert "analysed as English (lucene-english)" in note


def test_whether_analyzers_differ_is_judged_by_the_language() -> None:
    pair = "csr,qdrant:analyzer=lucene-german"
    assert any("the analyzers differ" in note for note in plan(pair, "en").notes)
    assert plan(pair, "de").notes == ()


def test_every_analyzer_has_a_language_with_a_code() -> None:
    families = [name.partition("-")[2] for name in analyzer_names() if "-" in name]
    assert {name for name in families if language_name(name) is None} == {"porter"}
    assert all(language_name(language_code(language)) == language.capitalize() for language in languages())
    assert supported_language(" UND ") is None


def test_an_object_in_python_says_its_language() -> None:
    documents, queries = {"1": "Häuser am Fluss", "2": "Gärten"}, {"q": "Haus"}
    dataset = harness.Dataset.of(documents, queries, {"q": {"1": 1}}, language="de")
    assert (dataset.language, dataset.provenance["language"]) == ("de", "de")
    options = {"timing": False, "isolation": "none", "metrics": "R@1"}
    german = harness.compare("csr:analyzer=auto", dataset, **options)  # type: ignore[arg-type]
    assert str(german.report.trials[0].encoder["analyzer"]).endswith("-german")
    assert german.report.trials[0].metrics["R@1"].mean == 1.0
    with pytest.raises(UsageError, match="give a code such as 'en'"):
        harness.Dataset.of(documents, queries, language=7)  # type: ignore[arg-type]


def test_the_analyzer_that_the_card_names_stands_in_for_that_of_the_language() -> None:
    backends = "csr,lucene,csr:analyzer=lucene-german"

    def named(language: str | None, *, lucene: bool, backends: str = backends) -> tuple[list[str | None], Plan]:
        made = make_plan(CompareRequest(backends=backends), lucene_available=lucene)
        found = set_language(made, language, "whitespace")
        return [trial.analyzer for trial in found.trials], found

    assert named("yo", lucene=True)[0] == ["lucene-yoruba", "lucene-yoruba", "lucene-german"]
    assert named("yo", lucene=True, backends="csr,lucene,qdrant")[1].notes == ()
    assert named("yo", lucene=False)[0] == ["whitespace", "lucene-yoruba", "lucene-german"]
    assert named("de", lucene=False, backends="csr")[0] == ["snowball-german"]
    assert named("tlh", lucene=True, backends="csr")[0] == ["whitespace"]
    several, found = named("mul", lucene=True, backends="csr,lucene")
    assert several == ["whitespace", "lucene-english"]
    assert found.notes[0].startswith("the language of the dataset is not known: it is analysed as English (lucene-")
    assert named("mul", lucene=True, backends="csr")[1].notes == ()
    made = make_plan(CompareRequest(backends=backends), lucene_available=True)
    with pytest.raises(UsageError, match="unknown analyzer, which the dataset's card names, 'whitespce'"):
        set_language(made, "yo", "whitespce")
