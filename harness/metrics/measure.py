"""A measure is a small value: a name, an optional cutoff, and the parameters that were given.

``nDCG@1+3+5+10`` is the mean of a measure over several cutoffs. Two measures are equal when their canonical spelling
is: ``nDCG(dcg='exp-log2')@10``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ParameterValue = str | int | float
CUTOFFS = "@"
"""The parameter that holds the cutoffs of a mean, ascending and joined by ``+``; no function has one of this name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure as parsed: ``name`` is the canonical name of a row of the table of measures.

    ``cutoff`` is a rank (int), a recall point for ``IPrec`` (float), or None; of a mean over several cutoffs it is the
    highest. ``parameters`` holds the parameters that
    differ from their defaults, sorted by name. Make a metric with :func:`harness.metrics.parse_metric`, which checks
    everything.
    """

    name: str
    cutoff: int | float | None = None
    parameters: tuple[tuple[str, ParameterValue], ...] = ()

    def __str__(self) -> str:
        if not self.parameters and not isinstance(self.cutoff, float):
            return self.name if self.cutoff is None else f"{self.name}@{self.cutoff}"
        inside = ", ".join(f"{key}={value!r}" for key, value in self.parameters if key != CUTOFFS)
        parameters = f"({inside})" if inside else ""
        return f"{self.name}{parameters}{self.suffix}"

    @property
    def suffix(self) -> str:
        """The cutoff with its ``@``, or all cutoffs of a mean; "" without one."""
        if len(self.cutoffs) > 1:
            return f"@{self.parameter(CUTOFFS)}"
        if self.cutoff is None:
            return ""
        return f"@{self.cutoff:g}" if isinstance(self.cutoff, float) else f"@{self.cutoff}"

    @property
    def cutoffs(self) -> tuple[int, ...]:
        """The ranks of a mean over several cutoffs, ascending; the only cutoff that is a rank; empty without one."""
        joined = self.parameter(CUTOFFS)
        if joined is not None:
            return tuple(map(int, str(joined).split("+")))
        return (self.cutoff,) if isinstance(self.cutoff, int) else ()

    def cut(self, depth: int) -> Metric:
        """Return the same metric at no more than ``depth`` hits, of a mean over the cutoffs that are left."""
        return self.with_cutoffs({min(cutoff, depth) for cutoff in self.cutoffs} or {depth})

    def with_cutoffs(self, cutoffs: Iterable[int]) -> Metric:
        """Return the same metric at a cutoff, or as the mean over several (at least one)."""
        ranks = sorted(set(cutoffs))
        parameters = tuple(item for item in self.parameters if item[0] != CUTOFFS)
        if len(ranks) > 1:
            parameters = tuple(sorted([*parameters, (CUTOFFS, "+".join(map(str, ranks)))]))
        return Metric(self.name, ranks[-1], parameters)

    def parameter(self, key: str) -> ParameterValue | None:
        """Return the value given for a parameter, or None when it was left at its default."""
        return dict(self.parameters).get(key)

    def with_parameter(self, key: str, value: ParameterValue) -> Metric:
        """Return the same metric with one parameter set."""
        return Metric(self.name, self.cutoff, tuple(sorted({**dict(self.parameters), key: value}.items())))
