"""Per-query values as they come in: checked once, here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import DataError, UsageError

__all__ = [
    "ROUNDING",
    "check_share",
    "check_size",
    "finite",
    "mean_and_spread",
    "paired_differences",
    "without_rounding",
]

ROUNDING = 1e-12


def finite(values: npt.ArrayLike, name: str = "values") -> Float64Array:
    """``values`` as float64 (n,).

    Raises DataError for NaN and infinity, with their places; UsageError for what are no numbers, and for another shape.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:  # ValueError of texts, and of lists of different lengths
        fix = "give numbers, one a query; of mappings [values[query] for query in queries], on both sides"
        raise UsageError(f"{name} are no numbers (but {type(values).__name__}): {error}", fix=fix) from error
    if array.ndim != 1:
        raise UsageError(f"{name} has {array.ndim} dimensions", fix="give one value a query: one dimension")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        problems = [f"value {place} is {array[place]}" for place in bad.tolist()]
        raise DataError(name, problems, fix="leave out the queries that could not be scored, on both sides")
    return array


def paired_differences(a: npt.ArrayLike, b: npt.ArrayLike) -> Float64Array:
    """``b - a`` query by query, float64 (n,); what is only rounding is exactly 0.

    A difference counts as rounding up to 1e-12 of the largest value: the same ranking, scored by two versions of a
    summation, is no change. Raises UsageError for arrays of different lengths, and as :func:`finite`.
    """
    first, second = finite(a, "a"), finite(b, "b")
    if len(first) != len(second):
        raise UsageError(
            f"a has {len(first)} values, b has {len(second)}", fix="give both sides of the same queries, in one order"
        )
    return without_rounding(second - first, np.max(np.abs([first, second]), initial=0.0))


def without_rounding(differences: Float64Array, scale: float) -> Float64Array:
    """``differences`` with 0 in place of whatever is at most 1e-12 of ``scale``."""
    return np.where(np.abs(differences) <= ROUNDING * scale, 0.0, differences)


def mean_and_spread(values: Float64Array) -> tuple[float, float]:
    """Mean and standard deviation (n - 1) of float64 (n,); 0 where there are too few values.

    The standard deviation of values that differ by rounding alone (1e-12 of the largest) is exactly 0.
    """
    if len(values) < 2 or not np.any(without_rounding(values - values[0], np.max(np.abs(values)))):
        return (float(values[0]) if len(values) else 0.0), 0.0
    return float(np.mean(values)), float(np.std(values, ddof=1))


def check_share(name: str, value: float) -> None:
    """Raise UsageError unless ``value`` lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name} is {value:g}", fix="it must lie between 0 and 1")


def check_size(name: str, value: float) -> None:
    """Raise UsageError unless ``value`` is finite and 0 or more."""
    if not 0.0 <= value < float("inf"):
        raise UsageError(f"the {name} is {value:g}", fix="it must be 0 or more, in the unit of the metric")
