"""Terms between white space, unchanged: for pre-tokenised text and for examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["WhitespaceAnalyzer"]


class WhitespaceAnalyzer:
    """Splits at Unicode white space; no lower-casing, no stop words, no stemming."""

    @property
    def name(self) -> str:
        """The name that ``create_analyzer`` takes."""
        return "whitespace"

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """The white-space separated pieces of each text."""
        return [text.split() for text in texts]

    def describe(self) -> Mapping[str, str]:
        """The one fact about it."""
        return {"analyzer": self.name}
