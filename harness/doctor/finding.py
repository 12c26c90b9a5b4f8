"""The finding of a check."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """``fail``: a comparison with the default backends cannot work; ``warn``: something else cannot, or may not."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """One line of the doctor: the checked thing, its state, and a fix ('' when it is fine)."""

    name: str
    state: State
    detail: str
    remedy: str


def ok(name: str, detail: str) -> Finding:
    """Return that all is well."""
    return Finding(name, State.OK, detail, "")


def warn(name: str, detail: str, remedy: str) -> Finding:
    """Return a fault that a default comparison does without."""
    return Finding(name, State.WARN, detail, remedy)


def fail(name: str, detail: str, remedy: str) -> Finding:
    """Return a fault of something that a default comparison needs."""
    return Finding(name, State.FAIL, detail, remedy)
