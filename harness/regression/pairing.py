"""Which backend of one result is held against which of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from harness.errors import ResultError
from harness.results.schema import BackendResult

__all__ = ["Pair", "Pairing", "pair_backends"]


class Pair(NamedTuple):
    """Labels of one backend before and after."""

    before: str
    after: str


class Pairing(NamedTuple):
    """The pairs in the order of the later result, and the labels that have no counterpart."""

    pairs: tuple[Pair, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def pair_backends(
    before: Sequence[BackendResult], after: Sequence[BackendResult], given: Sequence[Pair] = ()
) -> Pairing:
    """Pair by ``given`` first, then by the same label, then by the same name, then what is left by position.

    Backends of one name are paired in their order when there are as many on both sides; so are those that are left
    at last, whatever they are called. Raises ResultError when ``given`` names a label that is not there, or nothing is
    paired.
    """
    left, right = {one.label: one for one in before}, {one.label: one for one in after}
    chosen: list[Pair] = []

    def take(one: str, other: str) -> None:
        del left[one], right[other]
        chosen.append(Pair(one, other))

    for pair in given:
        _require(pair.before, left)
        _require(pair.after, right)
        take(*pair)
    for label in [label for label in right if label in left]:
        take(label, label)
    for name in dict.fromkeys(one.name for one in right.values()):
        ours = [label for label, one in left.items() if one.name == name]
        theirs = [label for label, one in right.items() if one.name == name]
        if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                take(one, other)
    if len(left) == len(right):
        for one, other in zip(list(left), list(right), strict=True):
            take(one, other)
    if not chosen:
        raise ResultError(
            f"no backend of {', '.join(left) or 'nothing'} has a counterpart among {', '.join(right) or 'nothing'}",
            fix="compare results of the same backends",
        )
    place = {one.label: number for number, one in enumerate(after)}
    return Pairing(tuple(sorted(chosen, key=lambda pair: place[pair.after])), tuple(left), tuple(right))


def _require(label: str, known: dict[str, BackendResult]) -> None:
    if label not in known:
        raise ResultError(f"there is no backend '{label}' to pair", fix=f"there are: {', '.join(known)}")
