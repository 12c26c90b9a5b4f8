"""A page of the HTML report in a real browser."""

from __future__ import annotations

from dataclasses import dataclass, field

from playwright.sync_api import Page


@dataclass
class BrowserPage:
    """A page in the browser, with everything it complained about and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """Ids of the queries in the list, from the top."""
        return [text.strip() for text in self.page.locator(".row .query-id").all_inner_texts()]
