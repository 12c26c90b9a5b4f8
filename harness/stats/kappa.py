"""Agreement of two judges on the same documents: the confusion matrix, and Cohen's kappa with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array, Int64Array

Weighting = Literal["none", "linear", "quadratic"]
WEIGHTINGS: tuple[Weighting, ...] = ("none", "linear", "quadratic")
"""How disagreements count: all alike, by the difference of the grades, or by its square."""


class Kappa(NamedTuple):
    """Cohen's kappa with its confidence interval; NaN where it is not defined."""

    value: float
    low: float
    high: float


def confusion_matrix(first: Sequence[int], second: Sequence[int]) -> tuple[list[int], Int64Array]:
    """Return the grades that occur, in ascending order, and the number of pairs of each combination, int64 (G, G).

    Rows are grades of ``first``, columns grades of ``second``; both have the same length.
    """
    grades, codes = np.unique(np.array([*first, *second], dtype=np.int64), return_inverse=True)
    counts = np.zeros((len(grades), len(grades)), dtype=np.int64)
    np.add.at(counts, (codes[: len(first)], codes[len(first) :]), 1)
    return grades.tolist(), counts


def cohen_kappa(
    grades: Sequence[int], counts: npt.ArrayLike, weighting: Weighting = "none", *, confidence: float = 0.95
) -> Kappa:
    r"""Return Cohen's kappa of a confusion matrix, with an interval from its asymptotic standard error.

    kappa = (p_o - p_e) / (1 - p_e), with the observed and the expected agreement weighted by
    w_ij = [i = j], 1 - |g_i - g_j| / (g_max - g_min), or 1 - ((g_i - g_j) / (g_max - g_min))^2. The variance is
    (sum_ij p_ij (w_ij - (w_i. + w_.j) (1 - kappa))^2 - (kappa - p_e (1 - kappa))^2) / (n (1 - p_e)^2) from Fleiss,
    Cohen and Everitt (1969), Psychological Bulletin 72, equation 12; w_i. and w_.j are the means of the weights under
    the other judge's distribution.

    Args:
        grades: The grades of rows and columns, ascending, shape (G,).
        counts: Pairs of each combination, shape (G, G).
        weighting: How disagreements count.
        confidence: Level of the interval, which is cut to [-1, 1].

    Returns:
        NaN without pairs, and if both judges gave the same single grade: chance alone would then agree as well.
    """
    from scipy.stats import norm

    matrix = np.asarray(counts, dtype=np.float64)
    total = float(matrix.sum())
    if not total or len(grades) < 2:
        return Kappa(np.nan, np.nan, np.nan)
    shares = matrix / total
    weights = _weights(np.asarray(grades, dtype=np.float64), weighting)
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    expected = float(rows @ weights @ columns)
    kappa = (float((shares * weights).sum()) - expected) / (1.0 - expected)
    means = (weights @ columns)[:, None] + (rows @ weights)[None, :]
    spread = float((shares * (weights - means * (1.0 - kappa)) ** 2).sum()) - (kappa - expected * (1.0 - kappa)) ** 2
    margin = float(norm.ppf(0.5 + confidence / 2)) * np.sqrt(max(spread, 0.0) / total) / (1.0 - expected)
    return Kappa(kappa, max(kappa - margin, -1.0), min(kappa + margin, 1.0))


def _weights(grades: Float64Array, weighting: Weighting) -> Float64Array:
    """Return the agreement that each combination of grades counts as, float64 (G, G), from 0 to 1."""
    if weighting == "none":
        return np.eye(len(grades))
    distance = np.abs(grades[:, None] - grades[None, :]) / (grades[-1] - grades[0])
    weights: Float64Array = 1.0 - (distance if weighting == "linear" else distance**2)
    return weights
