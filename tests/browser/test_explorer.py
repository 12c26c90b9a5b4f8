"""The page in a real Chromium: filters, search, order, links, keys, paper, dark and narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from browser_page import BrowserPage
from explorers import corpus_of, queries_of, run_of, small_explorer, small_page
from playwright.sync_api import Page as Browser
from playwright.sync_api import expect

from harness.data.types import Ids
from harness.report.html.render import render_page
from harness.report.rankings.explorer import Explorer

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
Violations = Callable[[Browser], list[str]]


@pytest.fixture(scope="module")
def html() -> str:
    return render_page(small_page(), [small_explorer()])


def test_it_opens_from_disk_without_a_complaint_or_a_request(show: Show, html: str) -> None:
    opened = show(html)
    opened.expect_queries(["q4", "q2", "q1", "q3", "q5"])
    opened.page.locator(".row").first.click()
    expect(opened.page.locator(".detail h3")).to_have_text("no pumps at all")
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [opened.page.url.partition("#")[0]]


def test_filters(show: Show, html: str) -> None:
    opened = show(html)
    for name, expected in {
        "regressed": ["q4", "q1"],
        "improved": ["q2"],
        "tied": ["q3"],
        "different": ["q1"],
        "documents": ["q4", "q1"],
        "changed": ["q4", "q2", "q1"],
        "unevaluated": ["q5"],
    }.items():
        chip = opened.page.locator(f"[data-filter={name}]")
        chip.click()
        opened.expect_queries(expected, name)
        assert chip.get_attribute("aria-pressed") == "true", name
        assert chip.locator("b").inner_text() == str(len(expected)), name
        assert f"filter={name}" in opened.page.url
        chip.click()


def test_search_and_order(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    for order, expected in {
        "loss": ["q4", "q1", "q3", "q2", "q5"],
        "gain": ["q2", "q3", "q1", "q4", "q5"],
        "low": ["q4", "q1", "q3", "q2", "q5"],
        "given": ["q1", "q2", "q3", "q4", "q5"],
        "id": ["q1", "q2", "q3", "q4", "q5"],
    }.items():
        page.locator("#select-sort").select_option(order)
        opened.expect_queries(expected, order)
    page.get_by_label("Search queries").fill("PUMP  blue")
    opened.expect_queries(["q3"])
    page.get_by_label("Search queries").fill("q5")
    opened.expect_queries(["q5"])
    expect(page.locator(".controls .status")).to_have_text("1 of 5 queries")


def test_the_other_way_round(show: Show, html: str) -> None:
    opened = show(html)
    opened.page.locator("#select-b").select_option(label="old")
    opened.page.locator("#select-a").select_option(label="new")
    opened.page.locator("[data-filter=improved]").click()
    opened.expect_queries(["q4", "q1"])


def test_it_opens_on_the_pair_that_differs_most(show: Show) -> None:
    """The second ranking is like the first, the third is a little worse, the last much better."""
    ids = ["q1", "q2"]
    runs = [run_of({query: ["d1", "d2"] for query in ids})] * 4
    values = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.4], [0.6, 0.9]])[:, None, :]
    explorer = Explorer(Ids.of(ids), ["first", "equal", "worse", "better"], runs, ["AP"], values)
    opened = show(render_page(small_page(), [explorer]))
    assert opened.page.locator("#select-b option:checked").inner_text() == "better"
    assert opened.page.locator("#select-a option:checked").inner_text() == "first"
    assert opened.page.locator(".row .query-id").all_inner_texts() == ["q2", "q1"]


def test_a_table_hints_that_it_scrolls(show: Show, html: str) -> None:
    page = show(html).page
    drawn = page.locator(".table > .scroll").first
    assert drawn.evaluate("node => getComputedStyle(node).backgroundAttachment") == "local, scroll"


def test_paper_keeps_a_heading_with_what_it_heads(show: Show, html: str) -> None:
    page = show(html).page
    page.emulate_media(media="print")
    rule = "(node, name) => getComputedStyle(node)[name]"
    assert page.locator("caption").first.evaluate(rule, "breakAfter") == "avoid"
    assert page.locator("footer").evaluate(rule, "breakBefore") == "avoid"
    assert page.locator("figure.table").first.evaluate(rule, "breakInside") == "auto"


def test_filters_combine_and_can_be_reset(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    page.locator("[data-filter=regressed]").click()
    page.locator("[data-filter=improved]").click()
    opened.expect_queries(["q4", "q2", "q1"])
    page.locator("[data-filter=different]").click()
    opened.expect_queries(["q1"])
    counts = {name: page.locator(f"[data-filter={name}] b").inner_text() for name in ("improved", "documents", "tied")}
    assert counts == {"improved": "0", "documents": "1", "tied": "0"}
    page.locator("[data-filter=unevaluated]").click()
    opened.expect_queries([])
    expect(page.locator("#query-list")).to_be_hidden()
    page.get_by_role("button", name="Show all queries").click()
    opened.expect_queries(["q4", "q2", "q1", "q3", "q5"])
    expect(page.get_by_role("button", name="Show all queries")).to_be_hidden()


def test_search_finds_documents_too(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    status = page.locator(".controls .status")
    for words in ("d19", "document 19"):
        page.get_by_label("Search queries").fill(words)
        expect(page.locator(".row").first).to_contain_text("q2 · found for document d19")
        expect(status).to_have_text("1 of 5 queries, 1 of them for a document")
    for words, shown in (("docu", 5), ("document", 5), ("document 1", 4), ("document 19", 1), ("document 1", 4)):
        page.get_by_label("Search queries").fill(words)
        expect(status).to_contain_text(f"{shown} of 5 queries, {shown} of them for a document")


def test_a_column_of_equal_rankings_says_whose_parity_is_which(show: Show) -> None:
    explorer = small_explorer()
    agreement = explorer.agreement
    assert agreement is not None
    state = agreement.state.copy()
    state[1, 2] = 1
    explorer = small_explorer(agreement=replace(agreement, state=state))
    page = show(render_page(small_page(), [explorer]), "#q=q3").page
    assert page.locator(".ranking h4").all_inner_texts() == ["old, new"]
    assert page.locator(".state span").all_inner_texts() == [
        "old: bit-equal to its exact reference",
        "new: tie-equivalent to its exact reference",
    ]
    page.keyboard.press("Escape")
    page.evaluate("location.hash = 'q=q5'")
    expect(page.locator(".state span")).to_have_text("each: bit-equal to its exact reference")
    page.evaluate("location.hash = 'q=q1'")
    tops = [page.locator(f".{name}").first.bounding_box()["y"] for name in ("ranking ol", "moves")]
    assert tops[0] == pytest.approx(tops[1], abs=3)


def test_a_query_with_its_rankings(show: Show, html: str) -> None:
    page = show(html, "#q=q1").page
    detail = page.locator(".detail")
    expect(detail.locator(".query-id")).to_have_text("Query q1 · 3 of 5")
    expect(detail.locator(".summary")).to_have_text(
        "1 relevant lost from the first 10, 0 gained: new compared with old; 2 relevant documents in all"
    )
    assert detail.locator(".ranking h4").all_inner_texts() == ["old", "new"]
    assert detail.locator(".state").all_inner_texts() == [
        "bit-equal to its exact reference",
        "different from its exact reference: approximate search",
    ]
    hits = [column.locator(".doc").all_inner_texts() for column in detail.locator(".ranking").all()]
    assert hits == [[f"d{n}" for n in range(10)], [*(f"d{n}" for n in range(1, 10)), "d20"]]
    assert detail.locator(".move.up").count() == 9 + 1
    assert detail.locator(".move.down").count() == 1
    assert detail.locator(".badge").first.get_attribute("aria-label") == "relevant, grade 2"
    assert detail.locator(".ranking").first.locator(".badge.irrelevant").all_inner_texts() == ["0"]
    assert detail.locator(".missed .doc").all_inner_texts() == ["d25"]
    expect(detail.locator(".document .doc")).to_have_text("d0")
    detail.locator(".hit").nth(1).click()
    expect(detail.locator(".document .text")).to_have_text("document 1 on red pumps")
    assert detail.locator(".document mark").all_inner_texts() == ["red", "pumps"]
    assert detail.locator(".document .ranks").inner_text() == "Rank: old 2 · new 1"
    assert detail.locator(".move.chosen").count() == 1


def test_a_query_has_the_whole_window_and_a_document_is_seen_where_it_is_chosen(show: Show, html: str) -> None:
    page = show(html).page
    address = page.url
    for width, height in ((400, 800), (1400, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})
        page.goto("about:blank")
        page.goto(f"{address}#q=q1")
        whole = page.locator(".detail").bounding_box()
        assert (whole["x"], whole["y"], whole["width"], whole["height"]) == (0, 0, width, height)
        hit = page.locator(".ranking .hit").nth(7)
        hit.click()
        document = page.locator(".document").bounding_box()
        assert document["y"] >= 0
        assert document["y"] + document["height"] <= height
        if width >= 1400:
            assert document["x"] >= hit.bounding_box()["x"] + hit.bounding_box()["width"]


def test_equal_rankings_are_one(show: Show) -> None:
    run = run_of({"q1": ["d1", "d2", "d3"], "q2": ["d1"]})
    other = run_of({"q1": ["d2", "d1", "d3"], "q2": ["d1"]})
    labels = [f"backend {number}" for number in range(12)]
    explorer = Explorer(Ids.of(["q1", "q2"]), labels, [run, other, *[run] * 10])
    page = show(render_page(small_page(), [explorer]), "#q=q1").page
    assert page.locator(".ranking h4").all_inner_texts() == [
        "backend 0 + 10 more",
        labels[1],
    ]
    expect(page.locator(".ranking h4").first).to_have_attribute("title", ", ".join([labels[0], *labels[2:]]))
    page.keyboard.press("j")
    expect(page.locator(".ranking h4")).to_have_text("backend 0 + 11 more")


def test_links_and_history(show: Show, html: str) -> None:
    opened = show(html, "#q=q2&filter=improved&b=new&metric=nDCG%4010")
    opened.expect_queries(["q2"])
    page = opened.page
    page.get_by_label("Close this query").click()
    expect(page.locator(".detail")).to_be_hidden()
    assert page.url.endswith("#filter=improved")
    page.go_back()
    expect(page.locator(".detail .query-id")).to_have_text("Query q2 · 1 of 1")
    page.evaluate("location.hash = '#q=nothing'")
    expect(page.locator(".detail")).to_be_hidden()
    opened.expect_queries(["q4", "q2", "q1", "q3", "q5"])
    expect(page.locator(".controls .status")).to_have_text("No query is called nothing · 5 of 5 queries")
    page.locator("[data-filter=tied]").click()
    expect(page.locator(".controls .status")).to_have_text("1 of 5 queries")
    page.locator("#select-b").select_option(label="old")
    assert page.url.endswith("#b=old&filter=tied")


def test_back_from_the_first_query_closes_it(show: Show, html: str) -> None:
    page = show(html).page
    page.locator(".row").first.click()
    expect(page.locator(".detail")).to_be_visible()
    page.go_back()
    expect(page.locator(".detail")).to_be_hidden()
    assert page.locator("[aria-selected=true]").count() == 0
    page.go_forward()
    expect(page.locator(".detail .query-id")).to_have_text("Query q4 · 1 of 5")


def test_keys(show: Show, html: str) -> None:
    page = show(html).page
    listed = page.get_by_role("grid", name="Queries")
    listed.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    assert listed.get_attribute("aria-activedescendant") == "row-1"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    page.keyboard.press("Enter")
    expect(page.locator(".detail h3")).to_be_focused()
    expect(page.locator(".row[aria-selected=true] .query-id")).to_have_text("q2")
    page.locator(".ranking").first.locator(".hit").first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.querySelector('.doc').textContent") == "d18"
    page.keyboard.press("Enter")
    expect(page.locator(".document .doc")).to_have_text("d18")
    page.keyboard.press("j")
    expect(page.locator(".detail .query-id")).to_have_text("Query q1 · 3 of 5")
    page.keyboard.press("k")
    expect(page.locator(".detail .query-id")).to_have_text("Query q2 · 2 of 5")
    page.keyboard.press("Escape")
    expect(page.locator(".detail")).to_be_hidden()
    expect(listed).to_be_focused()
    page.keyboard.press("End")
    assert listed.get_attribute("aria-activedescendant") == "row-4"
    page.keyboard.press("k")
    assert listed.get_attribute("aria-activedescendant") == "row-3"
    page.keyboard.press("/")
    expect(page.get_by_label("Search queries")).to_be_focused()
    page.keyboard.type("jk")
    assert page.get_by_label("Search queries").input_value() == "jk"
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search queries")).to_have_value("")
    expect(page.get_by_label("Search queries")).to_be_focused()
    page.keyboard.press("Escape")
    expect(listed).to_be_focused()
    page.keyboard.press("j")
    assert listed.get_attribute("aria-activedescendant") == "row-1"
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    expect(listed).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".detail")).to_be_visible()


def test_several_datasets_are_one_list(show: Show) -> None:
    other = small_explorer(dataset="other", corpus=corpus_of({"d0": "of the other dataset"}))
    opened = show(render_page(small_page(), [small_explorer(dataset="first"), other]))
    page = opened.page
    assert len(opened.texts) == 10
    page.locator("#select-dataset").select_option(label="other")
    opened.expect_queries([f"q{number} · other" for number in (4, 2, 1, 3, 5)])
    page.locator(".row").nth(2).click()
    expect(page.locator(".detail .query-id")).to_have_text("Query q1 · other · 3 of 5")
    expect(page.locator(".document .text")).to_have_text("of the other dataset")
    assert page.url.endswith("#dataset=other&q=q1&of=other")
    page.evaluate("location.hash = '#q=q1&of=first'")
    expect(page.locator(".detail .query-id")).to_have_text("Query q1 · first · 5 of 10")


def test_a_backend_that_failed_on_one_dataset_found_nothing_and_lost_nothing(show: Show) -> None:
    whole, silent = small_explorer(dataset="first"), np.array([[False] * 5, [True] * 5])
    values = whole.values.copy()
    values[1] = np.nan
    runs = [whole.runs[0], run_of({})]
    other = small_explorer(dataset="other", runs=runs, values=values, agreement=None, failed=silent)
    page = show(render_page(small_page(), [whole, other]), "#q=q1&of=other").page
    detail = page.locator(".detail")
    expect(detail.locator(".summary")).to_have_text("! No answer of new: the backend failed; 2 relevant documents")
    assert detail.locator(".state").all_inner_texts()[1] == "! the backend failed: no answer"
    assert detail.locator(".ranking .empty").all_inner_texts() == ["no answer"]
    assert detail.locator(".move, .move-rank").count() == 0
    detail.locator(".hit").first.click()
    assert detail.locator(".document .ranks").inner_text() == "Rank: old 1 · new no answer"
    page.keyboard.press("Escape")
    page.locator("[data-filter=failed]").click()
    listed = page.locator(".row .query-id").all_inner_texts()
    assert sorted(listed) == [f"q{number} · other" for number in range(1, 6)]
    assert page.locator(".row .chosen .value").all_inner_texts() == ["! no answer"] * 5
    assert page.locator("[data-filter=documents] b").text_content() == "0"


def test_only_visible_rows_exist(show: Show) -> None:
    texts = {f"query-{n}": f"text {n}" for n in range(4000)}
    run = run_of({name: ["d1"] for name in texts})
    values = np.linspace(0, 1, 4000).reshape(1, 1, -1)
    explorer = Explorer(Ids.of(texts), ["one"], [run], ["AP"], values, queries=queries_of(texts))
    opened = show(render_page(small_page(), [explorer]))
    assert 5 < len(opened.texts) < 60
    opened.page.locator("#query-list").focus()
    opened.page.keyboard.press("End")
    expect(opened.page.locator(".row.active .query-id")).to_have_text("query-3999")
    assert len(opened.texts) < 60
    assert opened.complaints == []


def test_a_page_without_values_judgments_and_texts(show: Show) -> None:
    bare = small_explorer(
        metrics=[], values=None, qrels=None, queries=None, corpus=None, agreement=None, no_texts="None."
    )
    opened = show(render_page(small_page(), [bare]), "#q=q1")
    assert opened.page.locator(".chip").evaluate_all("chips => chips.map((one) => one.dataset.filter)") == ["documents"]
    expect(opened.page.locator(".detail h3")).to_have_text("q1")
    opened.page.locator(".hit").first.click()
    expect(opened.page.locator(".document")).to_contain_text("not in this file")
    assert opened.complaints == []


def test_a_page_without_queries_has_no_list(show: Show) -> None:
    html = render_page(small_page())
    assert 'id="explorer"' not in html
    assert 'queries-data">' not in html


def test_dark_paper_and_narrow(show: Show, html: str) -> None:
    page = show(html, "#q=q1", viewport={"width": 360, "height": 700}, color_scheme="dark").page
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(18, 21, 26)"
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.emulate_media(color_scheme="light")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    expect(page.locator("#query-list")).to_be_hidden()
    expect(page.locator(".detail")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_ranking_compared_with_itself_has_not_changed(show: Show, html: str) -> None:
    opened = show(html)
    opened.page.locator("#select-a").select_option(label="new")
    for name in ("regressed", "improved", "documents"):
        assert opened.page.locator(f"[data-filter={name}] b").inner_text() == "0", name
    assert opened.page.locator("[data-filter=tied] b").inner_text() == "4"


@pytest.mark.parametrize("fragment", ["", "#q=q1"])
def test_no_accessibility_violation(show: Show, html: str, violations: Violations, fragment: str) -> None:
    page = show(html, fragment).page
    if fragment:
        page.locator(".hit").first.click()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme


def test_single_letters_of_a_query_are_not_marked(show: Show) -> None:
    run = run_of({"q1": ["d1"]})
    explorer = Explorer(
        Ids.of(["q1"]),
        ["only"],
        [run],
        queries=queries_of({"q1": "Anna's letters"}),
        corpus=corpus_of({"d1": "Bob's letter to Anna"}),
    )
    page = show(render_page(small_page(), [explorer]), "#q=q1").page
    expect(page.locator(".document mark")).to_have_text(["letter", "Anna"])
