"""Values of options: each is parsed once, from a text or from Python, into the value that everything else reads."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from harness.errors import UsageError, nearest

if TYPE_CHECKING:
    from harness.data.filter_sweep import FilterSweep

MATCH_RULES = ("exact", "document", "prefix", "text", "field")
MATCH_FORM = "exact, document, prefix, field:NAME, text, or text:SHARE"
SWEEP = "sweep"
"""The value of ``--rate`` for rates that rise to saturation."""
WARM_UP_SECONDS = 5.0
WARM_UP_VARIABLE = "HARNESS_WARM_UP"
_SMALLEST_SIZE = 1024**2
_LARGEST_SIZE = 2**63 - 1
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_HIGHEST_RATE = 1e6
_NO_NUMBER = float("-inf")
_MOST_CLIENTS = 256
_CHURN = "insert=10%,delete=10%,update=10%,steps=5"
_MOST_STEPS = 100
Number = TypeVar("Number", int, float)


@dataclass(frozen=True, slots=True)
class Churn:
    """A workload of changes: shares of the documents that an index begins with, for each of N steps."""

    insert: float = 0.0
    delete: float = 0.0
    update: float = 0.0
    steps: int = 1

    def __str__(self) -> str:
        """Return the workload as written in the option."""
        shares = {"insert": self.insert, "delete": self.delete, "update": self.update}
        parts = [f"{name}={value * 100:g}%" for name, value in shares.items() if value]
        return ",".join([*parts, f"steps={self.steps}"])


def parse_churn(value: str | None) -> Churn | None:
    """Parse ``insert=10%,delete=10%,update=10%,steps=5``; every part but one share may be left out.

    None stays None. Raises UsageError, for a workload too that would delete everything.
    """
    if value is None:
        return None
    parts = [part.partition("=") for part in value.split(",")]
    texts = {name.strip(): text.strip() for name, _, text in parts}
    option_text = f"--churn {value}"
    strange = [name for name in texts if name not in ("insert", "delete", "update", "steps")]
    if strange or len(texts) < len(parts):
        odd = f"'{strange[0]}' is not known" if strange else "a part occurs twice"
        raise UsageError(f"{option_text}: {odd}", fix=f"write {_CHURN}")
    of_steps = texts.pop("steps", "1")
    steps = int(of_steps) if of_steps.isdecimal() else 0
    if not 1 <= steps <= _MOST_STEPS:
        raise UsageError(f"{option_text}: steps is '{of_steps}'", fix=f"give a number from 1 to {_MOST_STEPS}")
    shares = {name: share(text, f"--churn {name}") for name, text in texts.items()}
    if not shares:
        raise UsageError(f"{option_text}: it changes nothing", fix=f"write {_CHURN}")
    churn = Churn(**shares, steps=steps)
    left = 1 + (steps - 1) * (churn.insert - churn.delete) - churn.delete - churn.update
    if min(left, 1 - churn.delete - churn.update) <= 0:
        option_text = f"{option_text}: in some step more documents would be deleted and updated than there are"
        raise UsageError(option_text, fix="give smaller shares, or fewer steps")
    return churn


class MatchExpression(NamedTuple):
    """A rule by which expectations are matched, and its argument: the field, or the share of words; "" without one."""

    rule: str
    argument: str

    def __str__(self) -> str:
        return f"{self.rule}:{self.argument}" if self.argument else self.rule


def parse_match(text: str) -> MatchExpression:
    """Parse ``exact``, ``document``, ``prefix``, ``text``, ``text:0.8`` or ``field:NAME``; raises UsageError."""
    rule, colon, argument = (part.strip() for part in text.partition(":"))
    option_text = f"--match {text}"
    if rule not in MATCH_RULES:
        raise UsageError(f"{option_text}: no such choice{nearest(rule, MATCH_RULES)}", fix=f"write {MATCH_FORM}")
    if rule == "field":
        if not argument:
            raise UsageError(
                f"{option_text} names no field", fix="name a field of the documents: --match field:metadata.source"
            )
        return MatchExpression(rule, argument)
    if colon and rule != "text":
        raise UsageError(f"{option_text}: '{rule}' takes nothing after a colon", fix=f"write --match {rule}")
    if colon:
        share = _number(argument)
        if not 0 < share <= 1:
            raise UsageError(
                f"{option_text}: '{argument}' is not a share of words, above 0 and up to 1",
                fix="write --match text:0.8, or --match text if one text must contain the other",
            )
        return MatchExpression(rule, argument)
    return MatchExpression(rule, "")


def warm_up_seconds(value: float | None) -> float:
    """Return ``value``, else HARNESS_WARM_UP, else 5.0. Raises UsageError unless that is finite and at least 0."""
    name, text = "--warm-up", str(value)
    if value is None:
        name, text = WARM_UP_VARIABLE, os.environ.get(WARM_UP_VARIABLE, "") or str(WARM_UP_SECONDS)
    seconds = _number(text)
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{name} is {text}", fix="it must be 0 seconds or more")
    return seconds


def share(value: float | str, option: str) -> float:
    """Parse a share from 0 to 1, ``1%`` or a number. Raises UsageError."""
    text = str(value).strip()
    parsed = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 < parsed <= 1:
        raise UsageError(f"{option} is '{value}'", fix="write a share above 0 and at most 1: 1%, or 0.01")
    return parsed


def verified_share(value: float | str | None) -> float:
    """Parse the share of cached vectors to encode again; 0 for None. Raises UsageError."""
    return 0.0 if value is None else share(value, "--verify-cache")


def answer_threshold(value: float | str | None) -> float | None:
    """Parse a score; None stays None. Raises UsageError for anything but a finite number."""
    if value is None:
        return None
    try:
        score = float(value)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise UsageError(f"--answer-threshold is '{value}'", fix="write a score of the backend, such as 0.35")
    return score


def _number(text: str) -> float:
    """Parse a number; negative infinity for anything else."""
    try:
        return float(text)
    except ValueError:
        return _NO_NUMBER


def memory_limit(value: int | str | None) -> int | None:
    """Parse bytes, or a number with KiB, MiB or GiB (``2GiB``); None stays None.

    Raises UsageError for other texts, for sizes below a mebibyte and for sizes beyond 64 bits.
    """
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]iB|)", str(value).strip())
    size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    if not _SMALLEST_SIZE <= size <= _LARGEST_SIZE:
        little = ", too little for any process" if 0 < size < _SMALLEST_SIZE else ""
        fix = "write bytes, or a number with KiB, MiB or GiB: 512MiB, 2GiB"
        raise UsageError(f"--memory-limit is '{value}'{little}", fix=fix)
    return size


def parse_levels(value: str | int | Sequence[int] | None) -> tuple[int, ...]:
    """Parse numbers of clients, ``1,2,4,8`` or a sequence; none for None. Raises UsageError."""
    levels = _numbers(value, int, "--concurrency", "1,2,4,8")
    if any(not 1 <= level <= _MOST_CLIENTS for level in levels):
        raise UsageError(f"--concurrency {_as_text(value)}", fix=f"numbers of clients are from 1 to {_MOST_CLIENTS}")
    return levels


def parse_rates(value: str | float | Sequence[float] | None) -> tuple[float, ...] | str:
    """Parse queries a second, ``50,100`` or a sequence; none for None. SWEEP stays as it is. Raises UsageError."""
    if value == SWEEP:
        return SWEEP
    rates = _numbers(value, float, "--rate", "50,100, or sweep")
    if any(not 0 < rate <= _HIGHEST_RATE for rate in rates):
        raise UsageError(f"--rate {_as_text(value)}", fix="rates are queries a second, above 0 and at most a million")
    return rates


def parse_filter_sweep(value: str | float | Sequence[str | float] | None) -> FilterSweep:
    """Parse shares of the documents and names of fields, ``0.1,1%,section``; none for None. Raises UsageError."""
    from harness.data.filter_sweep import FilterSweep

    parts: Sequence[str | float] = ()
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",")]
    elif value is not None:
        parts = value if isinstance(value, Sequence) else [value]
    names = [str(part) for part in parts]
    equated = next((name for name in names if "=" in name), None)
    if equated is not None:
        raise UsageError(
            f"--filter-sweep {equated}: a field goes without a value",
            fix=f"write --filter-sweep {equated.partition('=')[0]}, which uses each of its values",
        )
    fields = tuple(name for name in names if _number(name.removesuffix("%")) == _NO_NUMBER)
    sweep = FilterSweep(tuple(share(name, "--filter-sweep") for name in names if name not in fields), fields)
    words = sweep.words()  # 0.5 and 50% are the same
    twice = next((word for word in words if words.count(word) > 1), None)
    if twice is not None or "" in names:
        odd = "a share or a field is empty" if "" in names else f"{twice} occurs twice"
        problem = f"--filter-sweep '{_as_text(value)}': {odd}"
        raise UsageError(problem, fix="write shares and fields, each once: 0.5,0.1,0.01")
    return sweep


def _numbers(
    value: str | float | Sequence[float] | None, kind: type[Number], option: str, example: str
) -> tuple[Number, ...]:
    if value is None:
        return ()
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    try:
        numbers = tuple(kind(part) for part in parts)
    except ValueError as error:
        raise UsageError(
            f"{option} {_as_text(value)}: not a list of numbers", fix=f"write {option} {example}"
        ) from error
    if len(set(numbers)) != len(numbers):
        raise UsageError(f"{option} {_as_text(value)}: a number occurs twice", fix=f"write {option} {example}")
    return numbers


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ",".join(map(str, value if isinstance(value, Sequence) else [value]))
