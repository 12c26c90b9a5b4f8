"""What skewed differences do to Student's t, and how much of it is taken back.

Where a few queries carry the whole loss, the error of a mean is not independent of the mean: a sample without those
queries has a smaller loss and, at once, a smaller spread. t is then off by a term of order 1/√n, which Hall's
transformation removes.
"""

from __future__ import annotations

import math

import numpy as np

from harness.data.types import Float64Array

__all__ = ["hall", "hall_inverse", "skewness_of_mean"]


def skewness_of_mean(values: Float64Array) -> float:
    """s/√n of float64 (n,) that vary, with the sample's skewness s as far as chance does not explain it.

    The square of s is 6/n in n normal values, by chance, and as much is taken off: s·max(0, 1 - 6/(n·s²)). So normal
    values are hardly corrected at all, and fewer than five never: their skewness cannot be that large.
    """
    n = len(values)
    centred = values - np.mean(values)
    skewness = float(np.mean(centred**3)) / float(np.mean(centred**2)) ** 1.5
    shown = skewness * skewness - 6.0 / n
    return shown / (skewness * math.sqrt(n)) if shown > 0.0 else 0.0


def hall(t: float, skewness: float) -> float:
    """t + gt²/3 + g²t³/27 + g/6 for a mean of ``skewness`` g: Student's t again, up to terms of order 1/n.

    It never falls while t rises. Source: Hall, On the Removal of Skewness by Transformation, Journal of the Royal
    Statistical Society B 54 (1992), the cubic transformation; g is the skewness of the values over √n.
    """
    return t + skewness * t * t / 3.0 + skewness**2 * t**3 / 27.0 + skewness / 6.0


def hall_inverse(u: float, skewness: float) -> float:
    """The t of which :func:`hall` makes ``u``."""
    rest = u - skewness / 6.0
    root = math.cbrt(1.0 + skewness * rest)
    return 3.0 * rest / (root * root + root + 1.0)  # 3·(root - 1)/g, without its cancellation
