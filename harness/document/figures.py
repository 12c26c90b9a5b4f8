"""Describe the figures of a document by their numbers; a renderer that can draw decides how they look.

``series`` numbers backends, so that each has the same colour and marker in every figure of a document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # brings numpy, which lists of cards do without
    from harness.data.types import Float64Array


class Bar(NamedTuple):
    """A mean with its interval; None without an interval."""

    label: str
    value: float | None
    low: float | None
    high: float | None
    series: int


class Spot(NamedTuple):
    """A backend's quality with its interval (None without) and its cost, above 0."""

    label: str
    quality: float
    low: float | None
    high: float | None
    cost: float
    series: int


@dataclass(frozen=True, slots=True)
class Bars:
    """Means of a metric with their intervals, one bar a backend."""

    metric: str
    rows: Sequence[Bar]

    def title(self, over: str = "") -> str:
        """Return a title that names the scope of the means (``over``), and intervals only if a bar has one."""
        parts = [self.metric, over, "with 95 % intervals" if any(row.low is not None for row in self.rows) else ""]
        return ", ".join(part for part in parts if part)


class Curve(NamedTuple):
    """Values of a label at places above 0, rising: (place, value).

    ``ringed`` counts the points that have a ring, ``apart`` the points that the line does not join.
    """

    label: str
    points: Sequence[tuple[float, float]]
    series: int
    ringed: frozenset[int] = frozenset()
    apart: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Curves:
    """A metric ``across`` a quantity, such as the depth k, one curve a label; ``ring`` is the meaning of a ring.

    The axis of the metric begins at 0, or near the lowest value if ``from_zero`` is False.
    """

    metric: str
    across: str
    rows: Sequence[Curve]
    ring: str = ""
    from_zero: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Differences:
    """Differences query by query: ``values`` float64 (Q,) are ``label`` minus ``reference``, without NaN."""

    label: str
    reference: str
    metric: str
    values: Float64Array
    dataset: str = ""


@dataclass(frozen=True, eq=False, slots=True)
class Matrix:
    """A share from 0 to 1 of each two labels, float64 (R, R)."""

    name: str
    labels: Sequence[str]
    shares: Float64Array


@dataclass(frozen=True, slots=True)
class Strips:
    """Counts by level, one strip a label; ``parts`` names the levels from best to worst, ``signs`` abbreviates them."""

    name: str
    parts: Sequence[str]
    rows: Mapping[str, Sequence[int]]
    signs: Sequence[str]


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """Quality against a cost, such as ``p95 latency`` in ``ms``, and the frontier of unbeaten backends."""

    metric: str
    cost: str
    unit: str
    spots: Sequence[Spot]

    @property
    def frontier(self) -> list[Spot]:
        """The backends that no other backend matches at a lower cost, or beats at the same, the cheapest first."""
        best: list[Spot] = []
        for spot in sorted(self.spots, key=lambda spot: (spot.cost, -spot.quality)):
            if not best or spot.quality > best[-1].quality:
                best.append(spot)
        return best


class Throughput(NamedTuple):
    """Rates sent to one backend, rising: (answered a second, p99 in ms), and the index of the knee; None without."""

    label: str
    points: Sequence[tuple[float, float]]
    knee: int | None
    series: int


@dataclass(frozen=True, slots=True)
class Saturation:
    """Throughput against the 99th percentile of latency, one curve a backend."""

    rows: Sequence[Throughput]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Median, 90th, 95th and 99th percentile in milliseconds of each label; ``series`` numbers the labels."""

    rows: Mapping[str, tuple[float, float, float, float]]
    series: Mapping[str, int]


@dataclass(frozen=True, eq=False, slots=True)
class Distribution:
    """Samples in milliseconds of each label, float64 (n,), n at least 1; ``series`` numbers the labels."""

    rows: Mapping[str, Float64Array]
    series: Mapping[str, int]


Drawing = Bars | Curves | Differences | Distribution | Matrix | Percentiles | Saturation | Strips | Tradeoff
