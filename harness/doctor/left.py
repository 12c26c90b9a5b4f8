"""Collections that the harness made on a server and did not remove, told by their names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from harness.doctor.finding import Finding, ok, warn

__all__ = ["made_by_harness", "with_leftovers"]

_OURS = re.compile(r"harness-[A-Za-z0-9_-]{0,40}-[0-9a-f]{8}")
_SHOWN = 3


def made_by_harness(names: Iterable[str]) -> list[str]:
    """Those of ``names`` that only the harness gives, sorted."""
    return sorted(name for name in names if _OURS.fullmatch(name))


def with_leftovers(name: str, detail: str, left: Sequence[str]) -> Finding:
    """A server that is fine, as ``detail`` describes it, with a warning where it holds ``left``."""
    if not left:
        return ok(name, detail)
    some = ", ".join(left[:_SHOWN]) + (" …" if len(left) > _SHOWN else "")
    return warn(
        name,
        f"{detail}, {len(left)} of them made by harness: {some}",
        "if no comparison runs or keeps them: the same command with --remove-left-collections",
    )
