"""A measure is a small value: a name, an optional cutoff, and the parameters that were given.

Two measures are equal when their canonical spelling is: ``nDCG(dcg='exp-log2')@10``.
"""

from __future__ import annotations

from dataclasses import dataclass

ParameterValue = str | int | float


@dataclass(frozen=True, slots=True)
class Metric:
    """A measure as parsed: ``name`` is the canonical name of a row of the table of measures.

    ``cutoff`` is a rank (int), a recall point for ``IPrec`` (float), or None. ``parameters`` holds the parameters that
    differ from their defaults, sorted by name. Make a metric with :func:`harness.metrics.parse_metric`, which checks
    everything.
    """

    name: str
    cutoff: int | float | None = None
    parameters: tuple[tuple[str, ParameterValue], ...] = ()

    def __str__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.parameters)
        parameters = f"({inside})" if inside else ""
        suffix = (
            "" if self.cutoff is None else f"@{self.cutoff:g}" if isinstance(self.cutoff, float) else f"@{self.cutoff}"
        )
        return f"{self.name}{parameters}{suffix}"

    def parameter(self, key: str) -> ParameterValue | None:
        """Return the value given for a parameter, or None when it was left at its default."""
        return dict(self.parameters).get(key)

    def with_parameter(self, key: str, value: ParameterValue) -> Metric:
        """Return the same metric with one parameter set."""
        return Metric(self.name, self.cutoff, tuple(sorted({**dict(self.parameters), key: value}.items())))
