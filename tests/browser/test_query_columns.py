"""The table of queries and backends on the page: sorted by every column, filtered, drawn as far as it is visible."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from browser_page import BrowserPage
from explorers import qrels_of, queries_of, run_of, small_page
from playwright.sync_api import Page, expect

import harness
from harness.data.types import Ids
from harness.report.html.render import render_page
from harness.report.rankings.explorer import Explorer

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]
QUERIES = {"a": "first words", "b": "second words", "c": "third words", "d": "fourth words"}
VALUES = {"old": [1.0, 0.5, 0.25, 0.0], "worse": [0.5, 0.5, 0.2, 0.0], "better": [1.0, 1.0, 0.25, 0.5]}


@pytest.fixture(scope="module")
def html() -> str:
    """The page of three backends: of their reciprocal ranks only the first and the second one's are real."""
    rankings = {"a": ["d1", "d2"], "b": ["d2", "d1"], "c": ["d2", "d3", "d4", "d1"], "d": []}
    grades = qrels_of({name: {"d1": 1} for name in QUERIES})
    values = np.array(list(VALUES.values()))[:, None, :]
    runs = [run_of(rankings)] * 3
    explorer = Explorer(
        Ids.of(QUERIES), list(VALUES), runs, ["RR@10"], values, queries=queries_of(QUERIES), qrels=grades
    )
    return render_page(small_page(), [explorer])


def column(page: Page, number: int) -> list[str]:
    return page.locator(f".row > :nth-child({number}) .value").all_inner_texts()


def test_every_backend_has_a_column_and_every_column_sorts(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    assert page.get_by_role("columnheader").all_inner_texts() == ["query", "old", "worse", "better"]
    heading = page.get_by_role("columnheader", name="worse")
    assert heading.get_attribute("aria-sort") is None
    before = opened.texts
    for state, expected in (("descending", ["b", "a", "c", "d"]), ("ascending", ["d", "c", "b", "a"]), (None, before)):
        heading.get_by_role("button").click()
        assert (heading.get_attribute("aria-sort"), opened.texts) == (state, expected)
    page.get_by_role("columnheader", name="better").get_by_role("button").click()
    assert column(page, 4) == ["1.0000", "1.0000", "0.5000", "0.2500"]
    assert page.locator("#select-sort option:checked").inner_text() == "a column"
    assert page.url.endswith("#sort=column&column=better&order=descending")
    page.get_by_role("columnheader", name="query").get_by_role("button").press("Enter")
    page.get_by_role("columnheader", name="query").get_by_role("button").press("Enter")
    opened.expect_queries(["d", "c", "b", "a"])
    assert page.url.endswith("#sort=id&order=descending")
    again = show(html, "#sort=column&column=worse&order=ascending")
    again.expect_queries(["d", "c", "b", "a"])
    assert again.page.get_by_role("columnheader", name="worse").get_attribute("aria-sort") == "ascending"
    assert opened.complaints == []


def test_a_row_has_values_differences_and_first_ranks(show: Show, html: str) -> None:
    opened = show(html, "#sort=given")
    page = opened.page
    row = page.get_by_role("row").nth(2)
    assert row.get_by_role("gridcell").all_inner_texts() == [
        "0.5000\nrank 2",
        "0.5000\n=\nrank 2",
        "1.0000\n▲ +0.5000\nrank 2",
    ]
    assert page.get_by_role("grid", name="Queries").get_attribute("aria-rowcount") == "5"
    assert row.get_attribute("aria-rowindex") == "3"
    row.click()
    expect(page.locator(".detail h3")).to_have_text("second words")


def test_won_lost_and_changed(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    page.locator("#select-b").select_option(label="worse")
    expect(page.locator("[data-filter=improved]")).to_be_hidden()
    for name, expected in {"regressed": ["a", "c"], "changed": ["a", "c"], "tied": ["d", "b"]}.items():
        page.locator(f"[data-filter={name}]").click()
        opened.expect_queries(expected, name)
        page.locator(f"[data-filter={name}]").click()
    page.locator("#select-b").select_option(label="better")
    page.locator("[data-filter=improved]").click()
    assert sorted(opened.texts) == ["b", "d"]


def test_filters_that_select_nothing_or_everything_are_hidden(show: Show, html: str) -> None:
    opened = show(html)
    page = opened.page
    page.locator("#select-b").select_option(label="old")
    for name in ("regressed", "improved", "changed", "tied", "unevaluated"):
        expect(page.locator(f"[data-filter={name}]")).to_be_hidden()
    page.locator("#select-b").select_option(label="better")
    page.locator("[data-filter=improved]").click()
    page.locator("#select-b").select_option(label="worse")
    opened.expect_queries([])
    expect(page.locator("[data-filter=improved]")).to_be_visible()
    page.locator("[data-filter=improved]").click()
    expect(page.locator("[data-filter=improved]")).to_be_hidden()


def test_ten_thousand_queries_are_sorted_and_only_the_visible_ones_drawn(show: Show) -> None:
    texts = {f"query-{number}": f"text {number}" for number in range(10_000)}
    values = np.random.default_rng(1).permuted(np.tile(np.linspace(0, 1, 10_000), (3, 1)), axis=1)
    runs = [run_of({name: ["d1"] for name in texts})] * 3
    labels = ["one", "two", "three"]
    opened = show(
        render_page(
            small_page(), [Explorer(Ids.of(texts), labels, runs, ["AP"], values[:, None, :], queries=queries_of(texts))]
        )
    )
    page = opened.page
    page.get_by_role("columnheader", name="two").get_by_role("button").click()
    drawn = [float(text) for text in column(page, 3)]
    assert drawn == sorted(drawn, reverse=True)
    assert drawn[0] == 1.0
    assert 5 < len(drawn) < 60
    page.locator("#query-list").focus()
    page.keyboard.press("End")
    expect(page.locator(".row.active .value").nth(1)).to_have_text("0.0000")
    assert opened.complaints == []


def test_questions_that_are_missed_by_the_requirement(show: Show) -> None:
    ranks = {"first": 1, "third": 3, "fourth": 4, "seventh": 7, "never": 20}

    def early(question: str, k: int) -> list[str]:
        hits = [f"other-{number}" for number in range(25)]
        hits.insert(ranks[question] - 1, "wanted")
        return hits[:k]

    def late(question: str, k: int) -> list[str]:
        return ["another", *early(question, k - 1)]

    golden = [{"id": name, "question": name, "expected": ["wanted"]} for name in ranks]
    found = harness.check(
        golden, against={"early": early, "late": late}, k=10, require=["Hit@3>=0.9"], timing=False, isolation="none"
    )
    opened = show(found.html())
    page = opened.page
    assert page.locator("#select-metric option:checked").inner_text() == "Hit@3"
    page.locator("#select-b").select_option(label="early")
    page.locator("[data-filter=missed]").click()
    assert page.locator("#select-sort").input_value() == "low"
    opened.expect_queries(["fourth", "seventh", "never"])
    assert page.locator(".row .figures:nth-child(2) .found").all_inner_texts() == ["✕ rank 4", "✕ rank 7", "✕ missed"]
    page.locator(".row").first.click()
    expect(page.locator(".summary")).to_have_text(
        "✕ The first expected document is at rank 4, beyond the first 3 (early)"
    )
    page.keyboard.press("Escape")
    page.locator("#select-b").select_option(label="late")
    page.locator("[data-filter=missed]").click()
    assert page.locator("#select-sort").input_value() == "change"
    page.locator("[data-filter=regressed]").click()
    opened.expect_queries(["third"])
    assert opened.complaints == []


@pytest.mark.parametrize("width", [400, 1400])
def test_it_scrolls_in_itself_and_is_accessible(
    show: Show, html: str, violations: Callable[[Page], list[str]], width: int
) -> None:
    page = show(html, "#sort=column&column=old&order=descending", viewport={"width": width, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme


def test_the_page_of_scored_runs(show: Show) -> None:
    runs = {"one": {"q": {"a": 2.0, "b": 1.0}}, "other": {"q": {"b": 2.0, "a": 1.0}}}
    opened = show(harness.evaluate(runs, {"q": {"a": 1}}, metrics="RR").html())
    page = opened.page
    assert page.get_by_role("columnheader", name="other").is_visible()
    assert page.locator(".row .figures").all_inner_texts() == ["1.0000\n✓ first", "0.5000\n▼ −0.5000\nrank 2"]
    page.locator(".row").click()
    expect(page.locator(".detail .summary")).to_contain_text("0 relevant lost from all hits")
    assert opened.complaints == []
