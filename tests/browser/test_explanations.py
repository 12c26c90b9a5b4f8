"""Why a hit has its rank: opened and read with keys only, wide and narrow, with the command that explains more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from browser_page import BrowserPage
from explorers import explanations_of, small_explorer, small_page, term_rows
from playwright.sync_api import Page as Browser
from playwright.sync_api import expect

from harness.data.types import Ids
from harness.report.html.render import render_page

pytestmark = pytest.mark.integration
Show = Callable[..., BrowserPage]

OLD = {"filter": 1.25, "pump": 0.3102947771549225, "wind": -0.5}
NEW = {"filter": 1.5, "pump": 0.3102947771549225}
ROWS = [
    *term_rows("old", "d1", OLD, length=113, stored_length=112),
    *term_rows("new", "d1", NEW, length=113, stored_length=113, exact_rank=2),
    *term_rows("old", "d0", {"wind": 0.75}),
    {"backend": "new", "doc_id": "d25", "note": "no hit: it has none of the query's terms", "exact_score": 0.0},
]
LISTS = [
    {"backend": "old", "doc_id": "d1", "kind": "vectors", "score": 0.75, "exact_score": 0.8125,
     "exact_rank": 3, "note": "missed by the index", "part": "d7"},
    {"backend": "new", "doc_id": "d1", "kind": "fusion", "score": 0.03125, "part": "old", "list_rank": 2,
     "list_score": 9.75, "contribution": 0.03125},
    {"backend": "new", "doc_id": "d1", "kind": "fusion", "score": 0.03125, "part": "elsewhere"},
]  # fmt: skip
COMMAND = "harness explain --backends old,new --dataset x"


@pytest.fixture(scope="module")
def html() -> str:
    explorer = small_explorer(explanations=explanations_of("q1", ROWS), explain=COMMAND)
    return render_page(small_page(), [explorer])


def open_hit(opened: BrowserPage, doc: str) -> Browser:
    """Go to a hit of the first ranking with keys, and choose it."""
    page = opened.page
    page.locator(".columns button.hit").first.focus()
    while doc not in (page.evaluate("document.activeElement.textContent") or ""):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".document h4 .doc")).to_have_text(doc)
    return page


def test_a_hit_is_explained_with_keys_only(show: Show, html: str, violations: Callable[[Browser], list[str]]) -> None:
    opened = show(html, "#q=q1")
    page = open_hit(opened, "d1")
    bodies = page.locator(".why tbody")
    expect(bodies.locator("th[scope=rowgroup] span")).to_have_text(["filter", "wind", "pump", "sum"])
    expect(bodies.first.locator("small").first).to_have_text("tf 2 · df 35 of 3,204 · IDF 4.5136")
    rows = bodies.locator("tr:not(:first-child)").all_inner_texts()
    figures = [" ".join(row.split()) for row in rows]
    assert figures[:6] == ["old +1.2500", "new +1.5000", "old −0.5000", "new –", "old +0.3103", "new +0.3103"]
    assert figures[6:] == ["old 1.0602947 = engine", "new 1.8102947 = engine"]
    facts = page.locator(".why li").all_inner_texts()
    assert facts == ["old exact rank 1 · length 113, scored as 112", "new exact rank 2 · length 113"]
    widths = [bar.bounding_box()["width"] for bar in page.locator(".why .bars i").all()]  # type: ignore[index]
    assert widths[0] / widths[1] == pytest.approx(1.25 / 1.5, rel=0.02)
    assert widths[2] / widths[1] == pytest.approx(0.5 / 1.5, rel=0.03)
    colour = "node => getComputedStyle(node).backgroundColor"
    drawn = [bar.evaluate(colour) for bar in page.locator(".why .bars i").all()[:2]]
    assert drawn == [page.locator(".ranking h4 .swatch").nth(number).evaluate(colour) for number in (0, 1)]
    assert drawn[0] != drawn[1]
    expect(page.locator(".why .command")).to_have_text(f"{COMMAND} --query q1 --doc d1")
    assert violations(page) == []
    assert opened.complaints == []


def test_the_sum_of_what_is_read_is_the_score(show: Show, html: str) -> None:
    page = open_hit(show(html, "#q=q1"), "d1")
    read = page.evaluate("""async () => {
      const [explanation] = JSON.parse(document.getElementById("explanations-data").textContent);
      return explanation.of.map(({ docs }) => Object.values(docs)).flat().filter(({ parts }) => parts.length > 0)
        .map(({ parts, exact_score }) => [parts.reduce((sum, [, one]) => sum + Math.fround(one), 0), exact_score]
          .map(Math.fround));
    }""")
    assert len(read) == 3
    assert all(total == score for total, score in read)


def test_a_hit_without_terms_and_one_without_an_explanation(show: Show, html: str) -> None:
    page = open_hit(show(html, "#q=q1"), "d0")
    assert page.locator(".why li").all_inner_texts() == ["old lacks filter, pump · exact rank 1"]
    page = open_hit(show(html, "#q=q1"), "d2")
    expect(page.locator(".why .hint")).to_have_text("This file does not explain this document, but the command does:")
    expect(page.locator(".why .command")).to_have_text(f"{COMMAND} --query q1 --doc d2")
    page.locator(".missed button.hit").first.click()
    assert page.locator(".why li").all_inner_texts() == [
        "new no hit: it has none of the query's terms · exact rank beyond the search depth"
    ]


def test_vectors_and_lists(show: Show) -> None:
    page = open_hit(
        show(render_page(small_page(), [small_explorer(explanations=explanations_of("q1", LISTS))]), "#q=q1"), "d1"
    )
    assert page.locator(".why li").all_inner_texts() == [
        "old missed by the index · returned instead: d7 · exact score 0.8125 engine 0.75 · exact rank 3",
        "new score 0.03125",
    ]
    rows = [" ".join(row.split()) for row in page.locator(".why tbody tr").all_inner_texts()]
    assert rows == ["new contributions of its lists", "old +0.0313 rank 2, score 9.75", "elsewhere – not in it"]
    expect(page.locator(".why .command")).to_have_count(0)


def test_ids_in_the_command_are_quoted_for_a_shell(show: Show) -> None:
    explorer = small_explorer(explain=COMMAND)
    names = [{"d1": "it's $HOME"}.get(name, name) for name in explorer.runs[0].doc_ids]
    runs = [replace(explorer.runs[0], doc_ids=Ids.of(names)), explorer.runs[1]]
    page = open_hit(show(render_page(small_page(), [replace(explorer, runs=runs)]), "#q=q1"), "it's $HOME")
    expect(page.locator(".why .command")).to_have_text(f"{COMMAND} --query q1 --doc 'it'\"'\"'s $HOME'")


def test_a_narrow_screen_opens_it_on_request_and_remembers_that(show: Show, html: str) -> None:
    opened = show(html, "#q=q1", viewport={"width": 400, "height": 800})
    page = open_hit(opened, "d1")
    summary = page.locator(".why summary")
    expect(page.locator(".why table")).to_be_hidden()
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".why table")).to_be_visible()
    assert page.locator(".document").evaluate("node => node.scrollWidth <= node.clientWidth")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator(".columns button.hit").nth(2).click()
    expect(page.locator(".why .command")).to_be_visible()
