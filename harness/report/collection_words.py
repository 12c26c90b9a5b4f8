"""What headers say of documents besides their number: empty ones, and those that have the id of a query."""

from __future__ import annotations

from harness.results.schema import IdenticalIdsInfo
from harness.wording import counted

__all__ = ["empty_documents", "identical_ids"]


def empty_documents(empty: int, left_out: int) -> str:
    """Return how many documents are empty and how many empty ones were left out, in parentheses; or nothing."""
    said = [f"{count:,} {what}" for count, what in ((empty, "empty"), (left_out, "empty left out")) if count]
    return f" ({', '.join(said)})" if said else ""


def identical_ids(info: IdenticalIdsInfo | None, noun: str) -> list[str]:
    """Return the rule where it matters: some queries, which the report calls ``noun``, have the id of a document."""
    if info is None or not info.queries:
        return []
    verb = "left out" if info.rule == "drop" else "kept"
    return [f"{counted(info.queries, noun)} with a document's id: such hits are {verb}"]
