"""The page of a regression in a real Chromium: verdict first, filters, both rankings side by side, hostile data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from browser_page import BrowserPage
from explorers import corpus_of
from playwright.sync_api import expect
from regression_sides import AFTER, BEFORE, TEXTS, backend, compare_one, named, read_one, result_of, side, write_one
from sample_report import sample_report

from harness.pipeline.regress.compare_sides import CompareRules, compare_sides
from harness.pipeline.regress.regression import Regression
from harness.pipeline.regress.verdicts import Rules
from harness.results.snapshot import ResultSnapshot
from harness.results.stored_texts import Documents

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
HACK = '</script><img src=x onerror="window.hacked = true">" onfocus=\'window.hacked = true'


def regression(
    before: ResultSnapshot, after: ResultSnapshot, texts: Mapping[str, str] | None = None, **rules: Any
) -> Regression:
    compared = compare_one(before, after, CompareRules(Rules(**rules)))
    documents = texts if texts is not None else {name: f"text of {name}" for name in "abcdvwxyz"}
    by_dataset = {one.name: Documents(corpus_of(documents), "") for one in compared.datasets}
    return Regression(result_of(compared.change), compared=compared, documents=by_dataset)


def many(change: int) -> dict[str, list[str]]:
    """Forty queries whose only relevant document stands at rank 1, or ``change`` ranks below."""
    fillers = [f"f{n}" for n in range(9)]
    return {f"m{n:02}": [*fillers[:change], f"r{n}", *fillers[change:]] for n in range(40)}


def forty(before: int, after: int, **rules: Any) -> Regression:
    grades = {f"m{n:02}": {f"r{n}": 1} for n in range(40)}
    texts = {name: f"words of {name}" for name in grades}
    made = [
        side({"csr": many(change)}, grades=grades, texts=texts, metrics="nDCG@10,RR@10") for change in (before, after)
    ]
    return regression(*made, **rules)


def test_filters_and_both_rankings(show: Show) -> None:
    opened = show(regression(side({"csr": BEFORE}), side({"csr": AFTER}, source="after")).html())
    page = opened.page
    for name, listed in {"regressed": ["q2"], "improved": ["q3"], "tied": ["q1"], "documents": ["q2"]}.items():
        page.locator(f"[data-filter={name}]").click()
        opened.expect_queries(listed, name)
        page.locator(f"[data-filter={name}]").click()
    page.locator("[data-filter=regressed]").click()
    page.locator(".row").first.click()
    assert page.locator(".ranking h4").all_inner_texts() == ["csr (before)", "csr (after)"]
    assert page.locator(".ranking .doc").all_inner_texts() == ["y", "c", "z", "y", "w", "v", "c"]
    assert page.locator(".state").all_inner_texts() == ["1 of 3 are judged", "1 of 4 are judged"]
    page.locator(".ranking .hit").nth(1).click()
    expect(page.locator(".document .text")).to_have_text("text of c")
    assert page.locator(".document .ranks").inner_text() == "Rank: csr (before) 2 · csr (after) 4"
    assert opened.complaints == []


def test_documents_of_both_results_are_judged(show: Show) -> None:
    page = show(regression(side({"csr": BEFORE}), side({"csr": AFTER})).html(), "#judge", locale="en").page
    documents = {(query, name) for hits in (BEFORE, AFTER) for query, names in hits.items() for name in names}
    expect(page.locator("#count")).to_contain_text(f" of {len(documents)} documents judged")
    page.keyboard.press("0")
    expect(page.get_by_role("status")).to_contain_text("Graded 0.")
    assert not [word for word in ("csr", "before", "after") if word in page.inner_text("body")]


def test_two_backends_are_each_held_against_their_own(show: Show) -> None:
    before, after = ({"csr": ranking, "lucene": ranking} for ranking in (BEFORE, AFTER))
    opened = show(regression(side(before), side(after)).html())
    page = opened.page
    page.locator("#select-b").select_option(label="lucene (after)")
    assert page.locator("#select-a").evaluate("one => one.selectedOptions[0].text") == "lucene (before)"
    page.locator(".row").first.click()
    assert page.locator(".ranking h4").all_inner_texts() == ["lucene (before)", "lucene (after)"]


def test_a_baseline_says_what_it_kept(show: Show, tmp_path: Path) -> None:
    write_one(tmp_path / "small.json", side({"csr": BEFORE}), depth=2)
    found = regression(read_one(tmp_path / "small.json"), side({"csr": AFTER}))
    page = show(found.html(), "#q=q2").page
    assert page.locator(".ranking").first.locator(".score").all_inner_texts() == ["", ""]
    assert page.locator(".ranking").last.locator(".score").first.inner_text() != ""
    assert "? that its rank is not stored" in page.locator(".rankings + .hint").inner_text()
    assert "?" in page.locator(".move-rank").all_text_contents()
    page.locator(".ranking").last.locator(".hit", has_text="v").click()
    expect(page.locator(".document .ranks")).to_have_text("Rank: csr (before) not stored · csr (after) 3")


def test_a_relevant_document_that_a_baseline_does_not_show_is_lost_all_the_same(show: Show, tmp_path: Path) -> None:
    before = {"q": ["x", "y", "near", "far"]}
    after = {"q": ["x", "y", "z", "near"]}
    grades = {"q": {"near": 1, "far": 1}}
    old, new = (side({"csr": ranking}, grades=grades, texts={"q": "words"}) for ranking in (before, after))
    write_one(tmp_path / "small.json", old, depth=2)
    page = show(regression(read_one(tmp_path / "small.json"), new).html(), "#q=q").page
    expect(page.locator(".summary")).to_have_text(
        "0 relevant lost from the first 2, 0 gained: csr (after) compared with csr (before); "
        "2 relevant documents in all"
    )
    page.keyboard.press("Escape")
    page.locator("#select-metric").select_option(label="AP")
    page.locator(".row").first.click()
    expect(page.locator(".summary")).to_have_text(
        "1 relevant lost from all hits, 0 gained: csr (after) compared with csr (before); 2 relevant documents in all"
    )
    page.locator(".missed .hit", has_text="far").click()
    expect(page.locator(".document .ranks")).to_have_text("Rank: csr (before) 4 · csr (after) not found")
    page.locator(".ranking .hit", has_text="near").click()
    expect(page.locator(".document .ranks")).to_have_text("Rank: csr (before) 3 · csr (after) 4")
    page.locator(".ranking .hit", has_text="z").click()
    expect(page.locator(".document .ranks")).to_have_text("Rank: csr (before) not stored · csr (after) 3")


@pytest.mark.parametrize(
    ("ranks", "headline", "said"),
    [
        ((0, 4), "Failed: worse beyond the allowed drop (0): nDCG@10 of csr, RR@10 of csr", "fell"),
        ((4, 0), "Passed: nothing is worse beyond the allowed drop (0)", "rose"),
        ((1, 1), "Passed: nothing is worse beyond the allowed drop (0)", "The same"),
    ],
)
def test_the_verdict_comes_first(show: Show, ranks: tuple[int, int], headline: str, said: str) -> None:
    page = show(forty(*ranks, allowed_drop=0.0).html()).page
    lines = page.locator(".verdicts strong").all_text_contents()
    expect(page.locator(".verdicts:visible strong")).to_have_text(headline)
    assert lines[0] == headline
    assert said in lines[1]
    cells = page.locator("#quality tbody tr").first.locator("td").all_inner_texts()
    assert cells[6].startswith({"fell": "worse", "rose": "better", "The same": "same"}[said])


def test_a_failed_backend_is_invalid(show: Show) -> None:
    failed = backend("lucene", status="failed", error=sample_report().trials[-1].error)
    after = side({"csr": AFTER}, backends=[backend("csr"), failed])
    page = show(regression(side({"csr": BEFORE, "lucene": BEFORE}), after, allowed_drop=0.0).html()).page
    assert page.locator(".verdicts strong").first.inner_text() == "Invalid: lucene failed, so nothing passed"
    assert page.locator("#select-b option").all_inner_texts() == ["csr (before)", "csr (after)"]


def test_hostile_data_does_nothing(show: Show) -> None:
    hostile = {f"{name}{HACK}": [f"{doc}{HACK}" for doc in docs] for name, docs in BEFORE.items()}
    turned = {name: docs[::-1] for name, docs in hostile.items()}
    grades = {name: {docs[0]: 1} for name, docs in hostile.items()}
    texts = {f"{name}{HACK}": f"{text} {HACK}" for name, text in TEXTS.items()}
    made = [side({"csr": one}, grades=grades, texts=texts, source=HACK) for one in (hostile, turned)]
    documents = {doc: f"about {doc}" for docs in hostile.values() for doc in docs}
    opened = show(regression(*made, documents).html())
    page = opened.page
    page.locator(".row").first.click()
    page.locator(".hit").first.click()
    expect(page.locator(".document .text")).to_contain_text(HACK)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert opened.complaints == []


def test_numbers_and_counts_lead_to_the_queries_of_their_dataset(show: Show) -> None:
    """Both have queries of the same ids, and only those of the second changed."""
    others = {"q1": "one", "q2": "two", "q3": "three"}
    before, after = (named(side({"csr": ranking}, texts=others), "hurt") for ranking in (BEFORE, AFTER))
    calm = named(side({"csr": BEFORE}), "calm")
    compared = compare_sides([calm, before], [calm, after], CompareRules())
    documents = {one.name: Documents(corpus_of({"w": f"w of {one.name}"}), "") for one in compared.datasets}
    opened = show(Regression(result_of(compared.change), compared=compared, documents=documents).html())
    page = opened.page
    assert len(opened.texts) == 6
    page.get_by_text("More on quality").click()
    page.locator("svg a", has_text="1 worse").first.click()
    opened.expect_queries(["q2 · hurt"])
    page.locator(".row").first.click()
    page.locator(".ranking .hit", has_text="w").first.click()
    expect(page.locator(".document .text")).to_have_text("w of hurt")
    link = page.locator("#quality tbody tr", has_text="hurt").locator("a").first.get_attribute("href")
    assert link is not None
    assert "dataset=hurt" in link
    assert opened.complaints == []


def test_a_backend_that_failed_on_one_dataset_gave_no_answer_there(show: Show) -> None:
    before = [named(side({"csr": BEFORE, "lucene": BEFORE}), name) for name in ("calm", "hurt")]
    failed = backend("lucene", status="failed", error=sample_report().trials[-1].error)
    broken = named(side({"csr": AFTER}, backends=[backend("csr"), failed]), "hurt")
    compared = compare_sides(before, [before[0], broken], CompareRules())
    opened = show(Regression(result_of(compared.change), compared=compared).html(), "#q=q2&of=hurt&b=lucene+(after)")
    assert opened.page.locator("#select-b option").all_inner_texts() == [
        "csr (before)", "csr (after)", "lucene (before)", "lucene (after)",
    ]  # fmt: skip
    expect(opened.page.locator(".summary")).to_contain_text("No answer of")
    assert opened.complaints == []


def test_without_texts_and_without_rankings(show: Show) -> None:
    found = regression(side({"csr": BEFORE}), side({"csr": AFTER}))
    page = show(found.html(keep_text=False), "#q=q2").page
    expect(page.locator(".detail h3")).to_have_text("q2")
    assert "second words" not in page.content()
    bare = Regression(found.report, no_texts="The baseline is gone.").html()
    assert 'queries-data">' not in bare
    assert "The baseline is gone." in bare
    assert "second words" in bare


def test_the_counts_of_a_figure_lead_to_their_queries(show: Show) -> None:
    opened = show(regression(side({"csr": BEFORE}), side({"csr": AFTER}, source="after")).html())
    opened.page.get_by_text("More on quality").click()
    opened.page.locator("svg a", has_text="1 worse").first.click()
    opened.expect_queries(["q2"])
    opened.page.locator("#quality tbody a").first.click()
    expect(opened.page.locator("#select-b")).to_have_value("1")
