"""One row of the table of metrics: a metric's kernel, names, parameters and documentation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from harness.metrics.judged import Arguments, JudgedHits, Out

HIGHEST_LEVEL = 2**31 - 1
"""The highest level of relevance: grades have 32 bits."""

Kernel = Callable[[JudgedHits, Arguments, Out], None]
Cutoff = Literal["none", "optional", "required", "recall"]
Release = Literal[9, 10]
"""A release of trec_eval: 9 (up to 9.0.8, and pytrec_eval) or 10 (June 2026)."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a measure: its type, default, bounds, and one line of help.

    Three names have a meaning: ``rel`` is the lowest relevant grade, ``max`` the highest grade of the scale, so that
    judgments with a higher grade are refused, and ``gains`` a table by which grades become gains before the kernel gets
    them.

    Any other parameter of type ``str`` has ``choices``: the words and the number that the kernel gets for each.
    ``above`` says that the minimum itself is too small.
    """

    name: str
    type: type[int] | type[float] | type[str] | type[bool]
    default: int | float | str | bool
    help: str
    minimum: float | None = None
    maximum: float | None = None
    above: bool = False
    choices: dict[str, float] = field(default_factory=dict, hash=False)


JUDGED_ONLY = Parameter(
    "judged_only", bool, False, "condensed lists: hits without a judgment are left out first (trec_eval -J)"
)
"""A parameter of every metric that hits without a judgment can change."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One row: everything the harness knows about a measure.

    ``kernel`` fills one value for each query; ``average`` does the same in expectation over tie permutations, None if
    no closed form is offered; ``bounded`` says whether sorting inside tie groups gives the exact extremes.
    ``parameters`` holds at most one besides ``rel`` and ``gains``. ``aliases`` are other names in use, ``trec`` is
    trec_eval's name without a cutoff and ``trec_cut`` its name with one, ``trec_cuts`` the cutoffs trec_eval takes by
    default. ``release`` is the release of trec_eval that computes the metric so under that name, None if every
    release does.
    ``judgments`` are the documents that count: ``relevant`` ones, or ``forbidden`` ones, which a golden set names.
    ``condensable`` metrics take :data:`JUDGED_ONLY`. If ``lower_is_better``, the range is 0 to 1.
    ``reads_first`` says that only the rank of the first relevant document matters.
    """

    name: str
    kernel: Kernel
    summary: str
    formula: str
    source: str
    cutoff: Cutoff
    average: Kernel | None = None
    bounded: bool = True
    parameters: tuple[Parameter, ...] = ()
    aliases: tuple[str, ...] = ()
    trec: str | None = None
    trec_cut: str | None = None
    trec_cuts: tuple[int | float, ...] = ()
    release: Release | None = None
    aggregate: Literal["mean", "sum", "geometric"] = "mean"
    floor: float = 0.0
    range: str = "0 to 1"
    judgments: Literal["relevant", "forbidden"] = "relevant"
    condensable: bool = True
    lower_is_better: bool = False
    reads_first: bool = False

    @property
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Every parameter that a metric of this kind takes."""
        return (*self.parameters, JUDGED_ONLY) if self.condensable else self.parameters
