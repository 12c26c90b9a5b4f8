"""Which backend of one result is held against which of the other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from harness.errors import ResultError, UsageError
from harness.registry.parameters import current_spelling
from harness.results.regression_schema import PairedBy
from harness.results.schema import TrialResult

__all__ = ["Pair", "Pairing", "pair_backends", "pairing_warnings", "refuse_missing"]


class Pair(NamedTuple):
    """Labels of one backend before and after."""

    before: str
    after: str


class Pairing(NamedTuple):
    """The pairs in the order of the later result, by what each was paired, and the labels without a counterpart."""

    pairs: dict[Pair, PairedBy]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def pair_backends(before: Sequence[TrialResult], after: Sequence[TrialResult], given: Sequence[Pair] = ()) -> Pairing:
    """Pair by ``given`` first, then by the same label, then by the same name, then what is left by position.

    Backends of one name are paired in their order when there are as many on both sides; so are those that are left
    at last, whatever they are called. Raises UsageError when ``given`` names a label that is not there, ResultError
    when nothing is paired.
    """
    left, right = {one.label: one for one in before}, {one.label: one for one in after}
    chosen: dict[Pair, PairedBy] = {}

    def take(one: str, other: str, how: PairedBy) -> None:
        del left[one], right[other]
        chosen[Pair(one, other)] = how

    for pair in given:
        refuse_missing(pair.before, left)
        refuse_missing(pair.after, right)
        take(*pair, "given")
    former = {current_spelling(label): label for label in left}
    for label in [label for label in right if current_spelling(label) in former]:
        take(former[current_spelling(label)], label, "label")
    for name in dict.fromkeys(one.name for one in right.values()):
        ours = [label for label, one in left.items() if one.name == name]
        theirs = [label for label, one in right.items() if one.name == name]
        if len(ours) == len(theirs):
            for one, other in zip(ours, theirs, strict=True):
                take(one, other, "name")
    if len(left) == len(right):
        for one, other in zip(list(left), list(right), strict=True):
            take(one, other, "position")
    if not chosen:
        raise ResultError(
            f"no backend of {', '.join(left) or 'nothing'} has a counterpart among {', '.join(right) or 'nothing'}",
            fix="compare results of the same backends",
        )
    place = {one.label: number for number, one in enumerate(after)}
    ordered = sorted(chosen, key=lambda pair: place[pair.after])
    return Pairing({pair: chosen[pair] for pair in ordered}, tuple(left), tuple(right))


def pairing_warnings(pairing: Pairing) -> list[str]:
    """What stands against each other though nothing says that it belongs together, and what has no counterpart."""
    warnings = []
    guessed = [f"{pair.before} before, {pair.after} now" for pair, how in pairing.pairs.items() if how == "position"]
    if guessed:
        why = "neither label nor name pairs them, only their place; --pair 'BEFORE->AFTER' says which belong together"
        warnings.append(f"UNLIKE BACKENDS ARE COMPARED ({'; '.join(guessed)}): {why}")
    for result, labels in (("later", pairing.only_before), ("earlier", pairing.only_after)):
        if labels:
            warnings.append(f"not compared, because the {result} result lacks it: {', '.join(labels)}")
    return warnings


def refuse_missing(label: str, known: Collection[str]) -> None:
    """Raise UsageError for a label in a given pair that no backend has."""
    if label not in known:
        raise UsageError(f"there is no backend '{label}' to pair", fix=f"there are: {', '.join(known)}")
