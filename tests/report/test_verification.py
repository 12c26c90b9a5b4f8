"""What a verification prints, and how the command ends."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
import typer

from harness.cli.app import load_verb
from harness.cli.verb import DeclaredVerb
from harness.pipeline.verify import IndexFact, PrintedNumber, Variant, Verification, VerifiedDataset
from harness.report.verification import render_verification

GIVES = Variant("gain", "the grade", "1", 0.41204)
ABOUT = ("BM25", "page 3", "csr", {"k": 9}, "nDCG@10", "0.412")


def verification(*numbers: PrintedNumber, terms: int = 9) -> Verification:
    index = (IndexFact("csr", "terms", 9, terms), IndexFact("csr", "unique_terms", 7, None)) if terms else ()
    here = VerifiedDataset("pets", "test", 1234, 1, index, numbers)
    return Verification((here, VerifiedDataset("beir/nq", "test", unavailable="not on this machine")))


def test_the_index_comes_before_the_scores_and_a_miss_is_explained() -> None:
    missed = PrintedNumber(*ABOUT, 0.40091, variants=(GIVES,), tried=12)
    text = render_verification(verification(PrintedNumber(*ABOUT, 0.4124), missed), "table")
    assert text.startswith(
        "✕ pets (test): 1 of 2 published numbers to the printed digit\n  the index differs (unique_terms)"
    )
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
    missed = PrintedNumber(*ABOUT, 0.3, nearest=GIVES, tried=12)
    text = render_verification(verification(missed, terms=0), "table")
    assert "none of 12 single changes gives 0.412; the nearest is gain: 1 in place of the grade (0.41204)" in text


def test_a_failed_backend_is_named_with_its_reason() -> None:
    text = render_verification(verification(PrintedNumber(*ABOUT, None, "no Java"), terms=0), "table")
    assert "? pets (test): 0 of 1 published numbers" in text
    assert "BM25, nDCG@10: csr failed: no Java" in text


def test_markdown_has_the_same_tables() -> None:
    text = render_verification(verification(PrintedNumber(*ABOUT, 0.4124)), "markdown")
    assert "| BM25 | nDCG@10 | 0.412 | 0.41240 | +0.00040 | to the digit | [1] |" in text
    assert "| terms | 9 | 9 | to the digit |" in text


def test_json_holds_everything() -> None:
    missed = PrintedNumber(*ABOUT, 0.40091, variants=(GIVES,), tried=12)
    content = json.loads(render_verification(verification(missed), "json"))
    assert (content["missed"], content["incomplete"]) == (2, True)
    (number,) = content["datasets"][0]["numbers"]
    assert (number["printed"], number["agrees"], number["options"]) == ("0.412", False, {"k": 9})
    assert number["variants"] == [{"aspect": "gain", "before": "the grade", "after": "1", "value": 0.41204}]


@pytest.mark.parametrize(
    ("measured", "elsewhere", "code"), [(0.4124, False, 0), (0.3, False, 1), (0.4124, True, 3), (0.3, True, 1)]
)
def test_the_exit_code_says_whether_a_number_differs_or_was_not_measured(
    measured: float, elsewhere: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verification(PrintedNumber(*ABOUT, measured), terms=0)
    found = found if elsewhere else Verification(found.datasets[:1])
    monkeypatch.setattr("harness.pipeline.verify.run", lambda *_, **__: found)
    verb = load_verb("verify")
    assert isinstance(verb, DeclaredVerb)
    with pytest.raises(typer.Exit) if code else nullcontext() as ended:
        verb(datasets=["pets"])
    assert code == (0 if ended is None else ended.value.exit_code)
