"""Several tests at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.errors import DataError

__all__ = ["holm"]


def holm(p_values: npt.ArrayLike) -> list[float]:
    """Adjusted p-values of one family of tests, in the given order (Holm, Scandinavian Journal of Statistics 1979).

    No value for an empty family. Raises DataError for values that are no probabilities.
    """
    values = np.asarray(p_values, dtype=np.float64)
    wrong = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if len(wrong):
        raise DataError("p-values", [f"value {place} is {values[place]}" for place in wrong.tolist()])
    if len(values) < 2:
        return [float(value) for value in values]
    from statsmodels.stats.multitest import multipletests

    return [float(value) for value in multipletests(values, method="holm")[1]]
