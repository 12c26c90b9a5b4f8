"""Data that tries to be more than data: it is shown as it is, and nothing of it runs."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

import numpy as np
import pytest
from browser_page import BrowserPage
from explorers import corpus_of, qrels_of, queries_of, run_of, small_page
from playwright.sync_api import expect

from harness.data.types import Ids
from harness.report.html.render import render_page
from harness.report.rankings.explorer import Agreement, Explorer

pytestmark = pytest.mark.integration

HACK = "window.hacked = true"
HOSTILE = [
    f"<script>{HACK}</script>",
    f"</script><script>{HACK}</script>",
    f"</style><script>{HACK}</script>",
    f"<!--<script>{HACK}",
    f'"><img src=x onerror="{HACK}">',
    f"' onfocus='{HACK}' autofocus='",
    f"</title><svg onload={HACK}>",
    f"{{{{ 7 * 7 }}}}{{% raw %}}${{{HACK}}}",
    f"javascript:{HACK}",
    "line\u2028paragraph\u2029separators",
    "\u202eright to left\u202c \u0634\u0644\u0648\u0645",
    "nul\0byte and \ufeff mark \x1b[31m",
    "&amp;&#60;b&#62; %3Cscript%3E #q=other&filter=tied",
    "__proto__",
    "constructor",
    "x" * 3000,
]
ALL = "\n".join(HOSTILE)


@pytest.fixture(scope="module")
def html() -> str:
    texts = {f"{text}": f"query {text}" for text in HOSTILE}
    ranking = dict.fromkeys(texts, HOSTILE)
    values = np.linspace(0, 1, 2 * len(HOSTILE)).reshape(2, 1, -1)
    ids, none = Ids.of(texts), np.zeros((2, len(texts)), np.int8)
    explorer = Explorer(
        query_ids=ids,
        labels=[HOSTILE[0], HOSTILE[4]],
        runs=[run_of(ranking), run_of(dict.fromkeys(texts, HOSTILE[::-1]))],
        metrics=[HOSTILE[1]],
        values=values,
        queries=queries_of(texts),
        qrels=qrels_of({query: {HOSTILE[3]: 1} for query in texts}),
        agreement=Agreement([HOSTILE[2]], 1, none, [HOSTILE[5]], none.astype(np.int16)),
        corpus=corpus_of({text: f"document {text}" for text in HOSTILE}),
        no_texts=HOSTILE[4],
    )
    return render_page(small_page(ALL), [explorer])


def test_it_is_shown_and_does_nothing(show: Callable[..., BrowserPage], html: str) -> None:
    opened = show(html)
    page = opened.page
    page.locator("#select-sort").select_option("given")
    listed = page.locator("#query-list")
    listed.focus()
    for number, text in enumerate(HOSTILE):
        page.keyboard.press("Enter")
        expect(page.locator(".detail h3")).to_have_js_property("textContent", f"query {text}")
        page.locator(".columns .hit").nth(number % 10).click()
        found = page.locator(".document .text")
        expect(found).to_have_js_property("textContent", f"document {HOSTILE[number % 10]}")
        page.keyboard.press("Escape")
        page.keyboard.press("ArrowDown")
    assert page.locator("h1").text_content() == ALL.replace("\0", "")
    assert page.evaluate("window.hacked") is None
    assert page.locator("img, iframe, object, embed, svg[onload]").count() == 0
    assert opened.complaints == []
    assert {url.partition(":")[0] for url in opened.requests} <= {"file", "data"}


def test_links_to_hostile_ids(show: Callable[..., BrowserPage], html: str) -> None:
    opened = show(html)
    for text in HOSTILE:
        opened.page.evaluate("address => { location.hash = address; }", urlencode({"q": text}))
        expect(opened.page.locator(".detail h3")).to_have_js_property("textContent", f"query {text}")
    assert opened.page.evaluate("window.hacked") is None
    assert opened.complaints == []


def test_the_policy_blocks_what_gets_in_all_the_same(show: Callable[..., BrowserPage], html: str) -> None:
    opened = show(html)
    blocked = opened.page.evaluate(
        """async () => {
          const seen = [];
          document.addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
          const script = document.createElement("script");
          script.textContent = "window.hacked = true";
          document.body.append(script);
          const styled = document.createElement("div");
          styled.setAttribute("style", "position: fixed");
          document.body.append(styled);
          const picture = document.createElement("img");
          picture.src = "https://example.invalid/x.png";
          document.body.append(picture);
          document.body.insertAdjacentHTML("beforeend", "<a id='click' onclick='window.hacked = true'>x</a>");
          document.getElementById("click").click();
          const fetched = await fetch("https://example.invalid/").then(() => "sent", () => "refused");
          await new Promise((done) => setTimeout(done, 50));
          return { seen: seen.sort(), fetched, position: getComputedStyle(styled).position };
        }"""
    )
    assert blocked == {
        "seen": ["connect-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr"],
        "fetched": "refused",
        "position": "static",
    }
    assert opened.page.evaluate("window.hacked") is None
