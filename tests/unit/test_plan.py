from __future__ import annotations

from pathlib import Path

import pytest
from small_world import write_cards

from harness.errors import UnknownNameError, UsageError
from harness.plan import CompareRequest, Plan, make_plan
from harness.reporting.plan import render_plan


def plan(*, lucene_available: bool = True, **fields: object) -> Plan:
    return make_plan(CompareRequest(**{"backends": "csr", **fields}), lucene_available=lucene_available)  # type: ignore[arg-type]


def test_the_default_analyzer_is_lucenes_where_it_can_run() -> None:
    assert plan().trials[0].analyzer == "lucene-english"
    assert plan(lucene_available=False).trials[0].analyzer == "snowball-english"
    assert plan(backends="csr:analyzer=whitespace").trials[0].analyzer == "whitespace"


def test_different_analyzers_are_never_compared_unmarked() -> None:
    assert plan(backends="csr,csr:k1=1.2").notes == ()
    (note,) = plan(backends="csr,csr:analyzer=whitespace").notes
    assert "csr lucene-english" in note
    assert "csr:analyzer=whitespace whitespace" in note


def test_threads_reach_backends_that_take_them() -> None:
    assert plan(threads=2).trials[0].parameters["threads"] == 2
    assert plan(threads=2, backends="csr:threads=1").trials[0].parameters["threads"] == 1


def test_a_key_holds_what_changes_the_outcome_and_nothing_else() -> None:
    key = plan().trials[0].key
    assert plan(repeat=5, threads=2, seed=7, metrics="AP", deadline_s=5.0).trials[0].key == key
    assert plan(k=10).trials[0].key != key
    assert plan(sample_queries=5, seed=7).trials[0].key != plan(sample_queries=5, seed=8).trials[0].key
    assert plan(backends="csr:b=0.75").trials[0].key != key


def test_all_wrong_numbers_are_reported_together() -> None:
    with pytest.raises(UsageError, match="--k is 0; --repeat is -1"):
        plan(k=0, repeat=-1)


def test_names_are_checked_with_suggestions() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'csr'"):
        plan(backends="crs")
    with pytest.raises(UsageError, match="known: trec_eval, engine, average"):
        plan(ties="avarage")


def test_the_command_runs_the_same_plan_again(tmp_path: Path) -> None:
    cards = write_cards(tmp_path, good="BruteForce")
    given = plan(backends="good:k1=1.5,csr", cards=cards, k=20, metrics="AP,nDCG@10", sample_queries=3)
    words = given.command()
    assert words[:4] == ["harness", "compare", "--backends", "good:k1=1.5,csr"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    assert options["--k"] == "20"
    assert options["--metrics"] == "AP,nDCG@10"
    assert options["--sample-queries"] == "3"
    assert options["--cards"] == str(cards)


def test_a_plan_in_words() -> None:
    text = render_plan(plan(backends="csr:k1=1.5", split="dev"), "table")
    assert "cacm, split dev" in text
    assert "csr:k1=1.5" in text
    assert '"key"' in render_plan(plan(), "json")
    assert "| csr |" in render_plan(plan(), "markdown")
    assert "csr,k1,0.9" in render_plan(plan(), "csv")
    with pytest.raises(UnknownNameError, match="unknown format 'xml'"):
        render_plan(plan(), "xml")


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        plan(backends="crs,csr:analyzer=lucene-englsh", metrics="nDGC@10", ties="none", k=0)
    message = str(caught.value)
    for part in ("unknown backend 'crs'", "unknown measure 'nDGC", "--ties none", "--k is 0"):
        assert part in message
    with pytest.raises(UnknownNameError, match="did you mean 'lucene-english'"):
        plan(backends="csr:analyzer=lucene-englsh")
    with pytest.raises(UsageError, match="no closed form over tie permutations for Bpref"):
        plan(ties="average", metrics="Bpref")
