"""How many examples a property is tried with: all of them by `make fuzz`, a fifth by `make test` and `make quick`."""

from __future__ import annotations

import os

__all__ = ["AT_RANDOM", "examples"]

AT_RANDOM = os.environ.get("HARNESS_FUZZ") == "random"
"""Whether this is `make fuzz`, which also draws new input for every reader."""


def examples(count: int) -> int:
    """Return ``count`` for `make fuzz`, and a fifth of it for other runs."""
    return count if AT_RANDOM else max(1, count // 5)
