"""Requirements: bounds that figures must keep, written as ``Hit@5>=0.9``.

A requirement is ``[FIELD=VALUE: ] QUANTITY OPERATOR NUMBER``. The quantity is any metric (``Hit@5``, ``MRR@5``,
``nDCG@10``), a latency (``p50_ms``, ``p90_ms``, ``p95_ms``, ``p99_ms``, ``mean_ms``) or ``parity``, the share of
queries whose ranking is the exact ranking up to ties, or ``no_answer``, the share of the questions that expect nothing
for which nothing above ``--answer-threshold`` is returned. The operator is ``>=``, ``>``, ``<=`` or ``<``; the number
may be a percentage. A slice may precede it, with a colon: ``lang=de: Hit@5>=0.8``.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast

import numpy as np

from harness.data.types import Float64Array
from harness.errors import UnknownNameError, UsageError
from harness.metrics import Metric, is_mean, lower_is_better, parse_metric
from harness.metrics.registry import kind_of, kinds, spellings, squeezed
from harness.metrics.table import KINDS
from harness.plan.option_fields import Mistakes
from harness.stats import Interval

PARITY = "parity"
NO_ANSWER = "no_answer"
"""The share of the questions that expect nothing for which no hit has a score above ``--answer-threshold``."""
Operator = Literal[">=", ">", "<=", "<"]
LATENCIES = {"p50_ms": 50, "p90_ms": 90, "p95_ms": 95, "p99_ms": 99, "mean_ms": None}
"""Name -> percentile, None for the mean."""
_SHAPE = re.compile(
    r"(?:(?P<slice>[^:]*=.*):)?(?P<quantity>[^:]*?)(?P<operator>>=|<=|>|<)(?P<number>[^:<>=]*?)(?P<percent>%)?\s*"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SAME = 1e-12
"""Relative difference below which a figure equals its bound: means of decimal fractions are off by some 1e-16."""


class SliceOf(NamedTuple):
    """The questions whose field has this value."""

    field: str
    value: str

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement as parsed. ``quantity`` is a metric, a name of ``LATENCIES``, ``PARITY`` or ``NO_ANSWER``."""

    text: str
    quantity: Metric | str
    name: str
    operator: Operator
    bound: float
    slice: SliceOf | None = None

    @property
    def at_least(self) -> bool:
        """True for a floor: ``>=`` and ``>``."""
        return self.operator.startswith(">")

    @property
    def wants_best(self) -> bool:
        """True if it asks for better figures: a floor, or a ceiling of a metric of which less is better."""
        return self.at_least is not lower_is_better(self.name)

    def met_by(self, value: float) -> bool:
        """Return whether a figure meets it; a figure that equals the bound up to rounding is taken as equal."""
        if math.isclose(value, self.bound, rel_tol=_SAME, abs_tol=_SAME):
            return len(self.operator) == 2
        return value > self.bound if self.at_least else value < self.bound


def parse_requirement(text: str, k: int) -> Requirement:
    """Parse a requirement; a metric without a cutoff gets the depth ``k`` of the search.

    Raises UsageError for malformed or unknown input, for a cutoff beyond ``k``, for a metric that is not a mean, and
    for a bound that no value of the metric can reach.
    """
    example = f"write it like Hit@{k}>=0.9, p95_ms<=50, parity>=1 or lang=de: MRR@{k}>=0.7"
    parts = _SHAPE.fullmatch(text.strip())
    if parts is None or parts["quantity"].rstrip().endswith("="):  # Hit@5=>0.9
        raise UsageError(f"the requirement '{text}' is malformed", fix=example)
    name, number, share = parts["quantity"].strip(), parts["number"].strip(), parts["percent"] is not None
    if not _NUMBER.fullmatch(number):
        raise UsageError(f"the requirement '{text}': '{number}{'%' if share else ''}' is not a number", fix=example)
    bound = float(number) / (100 if share else 1)
    of_slice = None
    if parts["slice"] is not None:
        of_slice = SliceOf(*(part.strip() for part in parts["slice"].split("=", 1)))
        if not all(of_slice):
            raise UsageError(f"the requirement '{text}': '{parts['slice']}' is not a slice", fix=example)
    quantity: Metric | str = name
    if name not in (PARITY, NO_ANSWER, *LATENCIES):
        try:
            quantity = cut_metric(name, k)
        except UnknownNameError as error:  # p95 is not a metric, and near to p95_ms
            unknown = UnknownNameError(
                "quantity",
                error.name,
                (*error.names, *LATENCIES, PARITY, NO_ANSWER),
                aliases=reversed(spellings(kinds().values())),
            )
            fix = f"{unknown.fix}; of latency: {', '.join(LATENCIES)}"
            raise UsageError(unknown.problem, fix=fix) from None
        name = display_name(name, quantity)
        if not is_mean(quantity):
            raise UsageError(f"the requirement '{text}': {name} is not a mean over questions", fix=example)
    kind = KINDS.get(quantity.name) if isinstance(quantity, Metric) else None
    is_share = name in (PARITY, NO_ANSWER) or (kind is not None and kind.range == "0 to 1")
    if is_share and not 0.0 <= bound <= 1.0:
        fix = f"write a share or a percentage: {name}>=0.9 or {name}>=90%"
        raise UsageError(f"the requirement '{text}': {name} lies between 0 and 1", fix=fix)
    operator = cast("Operator", parts["operator"])
    canonical = f"{f'{of_slice}: ' if of_slice is not None else ''}{name}{operator}{bound:g}"
    return Requirement(canonical, quantity, name, operator, bound, of_slice)


def parse_requirements(texts: Sequence[str], k: int) -> tuple[Requirement, ...]:
    """Parse all requirements, each once; raises UsageError that names every mistake."""
    requirements: dict[str, Requirement] = {}
    mistakes = Mistakes()
    for text in texts:
        with mistakes.collected():
            requirement = parse_requirement(text, k)
            requirements[requirement.text] = requirement
    mistakes.raise_if_any()
    return tuple(requirements.values())


def cut_metric(name: str, k: int) -> Metric:
    """Return a metric with its cutoff: ``MRR`` of ``k`` hits is ``RR@k``; raises UsageError for one beyond ``k``."""
    try:
        metric = parse_metric(name)
    except UnknownNameError:
        raise
    except UsageError as error:
        try:
            metric = parse_metric(f"{name}@{k}")
        except UsageError:
            raise error from None
    if isinstance(metric.cutoff, int) and metric.cutoff > k:
        raise UsageError(
            f"{name} looks at {metric.cutoff} hits, but only {k} are requested", fix=f"--k {metric.cutoff}"
        )
    if metric.cutoff is None and kind_of(metric.name).cutoff == "optional":
        metric = Metric(metric.name, k, metric.parameters)
    return metric


def display_name(written: str, metric: Metric) -> str:
    """Return the name of a metric as users write it (``Hit``, ``MRR``), with the canonical parameters and cutoff."""
    first = re.match(r"[^@(\s]+", written)
    names = (metric.name, *kind_of(metric.name).aliases)
    folded = {squeezed(name): name for name in reversed(names)}  # the canonical spelling wins
    name = folded.get(squeezed(first[0])) if first is not None else None
    return str(metric).replace(metric.name, name, 1) if name is not None else str(metric)


class Sample(NamedTuple):
    """The values that a figure is taken over: one for each query, and the best and worst possible values.

    All float64 (n,). ``statistic`` computes the figure from values, ``interval`` its 95 % interval. ``low`` and
    ``high`` are the bounds that ties allow it. ``ids`` name the questions behind the values, None for samples of
    latency, whose best value is not known.
    """

    values: Float64Array
    best: Float64Array
    worst: Float64Array
    statistic: Callable[[Float64Array], float]
    interval: Callable[[Float64Array], Interval | None] = lambda _: None
    ids: Sequence[str] | None = None
    low: float | None = None
    high: float | None = None


class Judgement(NamedTuple):
    """A requirement compared with a figure.

    ``flips`` is the minimum number of queries that must change to reverse the verdict, each to the best or the worst
    value that it could have; None if even all of them would not change it. ``n`` counts the values.
    """

    value: float
    decided_by: float
    passed: bool
    flips: int | None
    n: int


def judge(requirement: Requirement, sample: Sample, decide: Callable[[Float64Array], float] | None = None) -> Judgement:
    """Hold a requirement against a sample of at least one value.

    ``decide`` makes the figure that decides (a confidence bound); by default it is the point estimate. Queries change
    in the order in which they move the figure most, so that for a mean the count is exact.
    """
    decide = decide or sample.statistic
    value, deciding = sample.statistic(sample.values), decide(sample.values)
    passed = requirement.met_by(deciding)
    # towards higher values: of a floor that is missed, or a ceiling that is met
    better = passed != requirement.at_least
    towards = np.maximum(sample.best, sample.worst) if better else np.minimum(sample.best, sample.worst)
    order = np.lexsort((sample.values if better else -sample.values, -np.abs(towards - sample.values)))

    def flipped(count: int) -> bool:
        changed = sample.values.copy()
        changed[order[:count]] = towards[order[:count]]
        return requirement.met_by(decide(changed)) != passed

    flips = 1 + bisect_left(range(1, len(order) + 1), True, key=flipped)
    return Judgement(value, deciding, passed, flips if flips <= len(order) else None, len(order))
