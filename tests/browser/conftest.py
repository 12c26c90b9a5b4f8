"""One Chromium for all tests: Debian's, or another that is installed. Playwright drives it and brings none."""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browser_page import BrowserPage
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WITHOUT_GRAPHICS = ["--disable-gpu", "--disable-software-rasterizer"]
"""No process that plays a graphics card by computing: what is drawn is the same."""
_PATIENCE_MS = 30_000
"""For what the page does in a moment: machines are shared."""
expect.set_options(timeout=_PATIENCE_MS)


_running = ExitStack()
"""Stops Chromium, if it runs: see `pytest_runtest_teardown`."""


@functools.cache
def _start() -> Browser:
    named = os.environ.get("HARNESS_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium is installed (apt-get install chromium, or set HARNESS_CHROMIUM)")
    playwright = _running.enter_context(sync_playwright())
    running = playwright.chromium.launch(executable_path=found, args=WITHOUT_GRAPHICS)
    _running.callback(running.close)
    return running


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stop Chromium after the last test of this folder: while Playwright runs, asyncio runs nothing else."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _running.close()
        _start.cache_clear()
        _tab.cache_clear()


@pytest.fixture
def browser() -> Browser:
    return _start()


@functools.cache
def _tab() -> Page:
    return _start().new_page()


@pytest.fixture
def tab(browser: Browser) -> Page:
    """A tab for the pages without options of their own: a new one, which is a process, costs as much as the page.

    The page stores nothing in the browser, so that pages know nothing of one another.
    """
    return _tab()


@pytest.fixture
def violations() -> Callable[[Page], list[str]]:
    """Run axe-core on a page as it is: each violation with the first element that has it."""
    from axe_playwright_python.sync_playwright import Axe

    def check(page: Page) -> list[str]:
        found = Axe().run(page).response["violations"]
        return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in found]

    return check


@pytest.fixture
def show(browser: Browser, tab: Page, tmp_path: Path) -> Iterator[Callable[..., BrowserPage]]:
    """`show(html, fragment, **context)`: the page from disk, ready; the next one takes its place."""
    with ExitStack() as closing:

        def opened(html: str, fragment: str = "", **context: Any) -> BrowserPage:
            path = tmp_path / "report.html"
            path.write_text(html, encoding="utf-8")
            page = closing.enter_context(browser.new_context(**context)).new_page() if context else tab
            if not context:
                page.emulate_media(media="null", color_scheme="null")
                page.set_viewport_size({"width": 1280, "height": 720})
            page.set_default_timeout(_PATIENCE_MS)
            page.goto("about:blank")  # or another fragment of the same address would load nothing
            found = BrowserPage(page)
            for event, note in {
                "console": lambda message: found.complaints.append(message.text),
                "pageerror": lambda error: found.complaints.append(str(error)),
                "request": lambda request: found.requests.append(request.url),
            }.items():
                page.on(event, note)
                closing.callback(page.remove_listener, event, note)
            page.goto(f"{path.as_uri()}{fragment}")
            page.wait_for_selector("html[data-ready]")
            return found

        yield opened
