"""A page of the HTML report in a real browser."""

from __future__ import annotations

from dataclasses import dataclass, field

from playwright.sync_api import Locator, Page, expect


@dataclass
class BrowserPage:
    """A page in the browser, with everything it complained about and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    @property
    def queries(self) -> Locator:
        """The queries in the list."""
        return self.page.locator(".row .query-id")

    @property
    def texts(self) -> list[str]:
        """Ids of the queries in the list, from the top, as they are now."""
        return [text.strip() for text in self.queries.all_inner_texts()]

    def expect_queries(self, ids: list[str], message: str | None = None) -> None:
        """The list has these queries from the top, or soon will: the page follows a link after the click."""
        expect(self.queries, message).to_have_text(ids)
