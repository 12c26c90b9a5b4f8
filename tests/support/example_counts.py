"""How many examples a property is tried with."""

from __future__ import annotations

import hypothesis

__all__ = ["examples"]


def examples(count: int) -> int:
    """Return ``count``, or for `make quick` the share of it that the quick profile has of the usual examples."""
    usual = hypothesis.settings.get_profile("shared machine").max_examples
    return max(1, count * hypothesis.settings().max_examples // usual)
