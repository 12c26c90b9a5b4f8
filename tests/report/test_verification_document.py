"""What a verification prints, and how the command ends."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from click.exceptions import Exit

from harness.cli.verb import DeclaredVerb
from harness.cli.verbs import load_verb
from harness.report.formats import render
from harness.results.verification import IndexFact, PrintedNumber, Variant, Verification, VerifiedDataset

GIVES = Variant(aspect="gain", before="the grade", after="1", value=0.41204)


def number(measured: float | None, **others: object) -> PrintedNumber:
    about = {"system": "BM25", "source": "page 3", "backend": "csr", "options": {"k": 9}}
    said = {"metric": "nDCG@10", "printed": "0.412", "measured": measured}
    return PrintedNumber.model_validate({**about, **said, **others})


def verification(*numbers: PrintedNumber, terms: int = 9) -> Verification:
    facts = [
        IndexFact(backend="csr", statistic="terms", printed=9, measured=terms),
        IndexFact(backend="csr", statistic="unique_terms", printed=7, measured=None),
    ]
    index = facts if terms else []
    here = VerifiedDataset(name="pets", split="test", documents=1234, queries=1, index=index, numbers=list(numbers))
    return Verification(
        datasets=[here, VerifiedDataset(name="beir/nq", split="test", unavailable="not on this machine")]
    )


def test_the_index_comes_before_the_scores_and_a_miss_is_explained() -> None:
    missed = number(0.40091, variants=[GIVES], tried=12)
    text = render(verification(number(0.4124), missed), "table")
    assert "✕ pets (test): 1 of 2 published numbers to the printed digit\n  the index differs (unique_terms)" in text
    places = [
        text.index(part) for part in ("Index of pets", "unique terms", "Scores on pets", "[1] page 3", "one change")
    ]
    assert places == sorted(places)
    words = " ".join(text.split())
    assert "BM25 nDCG@10 0.412 0.41240 +0.00040 to the digit [1]" in words
    assert "BM25 nDCG@10 0.412 0.40091 −0.01109 differs [1]" in words
    assert "one change gives 0.412: gain: 1 in place of the grade (0.41204)" in words
    assert "not verified, not on this machine: beir/nq" in words


def test_the_nearest_change_is_named_where_none_gives_the_number() -> None:
    missed = number(0.3, nearest=GIVES, tried=12)
    text = render(verification(missed, terms=0), "table")
    assert "none of 12 single changes gives 0.412; the nearest is gain: 1 in place of the grade (0.41204)" in text


def test_a_failed_backend_is_named_with_its_reason() -> None:
    text = render(verification(number(None, error="no Java"), terms=0), "table")
    assert "? pets (test): 0 of 1 published numbers" in text
    assert "BM25, nDCG@10: csr failed: no Java" in text


def test_markdown_has_the_same_tables() -> None:
    text = render(verification(number(0.4124)), "markdown").replace("`", "")
    assert "| BM25 | nDCG@10 | 0.412 | 0.41240 | +0.00040 | to the digit | [1] |" in text
    assert "| terms | 9 | 9 | to the digit |" in text


def test_csv_has_measured_and_published_values() -> None:
    lines = render(verification(number(0.4124)), "csv").splitlines()
    assert lines[1:] == ["pets,BM25,nDCG@10,0.4124,,,", "pets,BM25,published.nDCG@10,0.412,,,"]


def test_json_holds_everything() -> None:
    missed = number(0.40091, variants=[GIVES], tried=12)
    content = json.loads(render(verification(missed), "json"))
    assert (content["missed"], content["incomplete"]) == (2, True)
    (only,) = content["datasets"][0]["numbers"]
    assert (only["printed"], only["agrees"], only["options"]) == ("0.412", False, {"k": 9})
    assert only["variants"] == [{"aspect": "gain", "before": "the grade", "after": "1", "value": 0.41204}]


@pytest.mark.parametrize(
    ("measured", "elsewhere", "code"), [(0.4124, False, 0), (0.3, False, 1), (0.4124, True, 3), (0.3, True, 1)]
)
def test_the_exit_code_says_whether_a_number_differs_or_was_not_measured(
    measured: float, elsewhere: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verification(number(measured), terms=0)
    found = found if elsewhere else Verification(datasets=found.datasets[:1])
    monkeypatch.setattr("harness.pipeline.verify.run", lambda *_, **__: found)
    verb = load_verb("verify")
    assert isinstance(verb, DeclaredVerb)
    with pytest.raises(Exit) if code else nullcontext() as ended:
        verb(datasets=["pets"])
    assert code == (0 if ended is None else ended.value.exit_code)
