"""Bound the difference of a score that BLAS computes in float32 from the exact one.

Let u = 2**-24. BLAS adds n products in its own order, with or without fused multiplication. By Higham, "Accuracy and
Stability of Numerical Algorithms" (2002), equation 3.5, the error of the result is at most ``n u / (1 - n u)`` times
the sum of the products' absolute values, which is at most the product of the lengths (Cauchy and Schwarz); underflow
adds at most ``2**-126`` for each product. Queries are scaled first (one more u for each value), and two more roundings
turn a product into an estimate. Estimates are scaled so that the largest possible is 1 (4 for l2, whose terms are |q|²,
2 q·d and |d|²), so that all of this is one number for a query. Another 2 u of the scale separates two exact scores at
most that round to the same float32, and the exact float64 sums are off by less than u.

Vectors so long or short that a product could leave float32 are multiplied by a power of two first, which is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Float64Array, Int64Array
from harness.exact.dense.scores import COSINE, L2, Pair

_ROUNDOFF = 2.0**-24
_TINIEST = 2.0**-149
_UNDERFLOW = 2.0**-126
_USUAL = 2.0**40


class Estimates(NamedTuple):
    """Turn products of scaled queries into estimates of scores: ``product * scale[row] + shift[row]``, all float32.

    ``factors`` float64 (Q,) scale the queries. ``slack`` float32 (Q,): a document whose estimate lies further than this
    below the k-th largest estimate is not among the best k, nor tied with any of them.
    """

    factors: Float64Array
    scale: Float32Array
    shift: Float32Array
    slack: Float32Array

    def scaled(self, queries: Float32Array, part: slice | Int64Array) -> Float32Array:
        """Scale the queries ``part`` for BLAS, float32; a zero query stays zero."""
        scaled: Float32Array = (queries[part] * self.factors[part, None]).astype(np.float32)
        return scaled


class Scaling(NamedTuple):
    """Powers of two by which each document is multiplied before BLAS sees it, float64 (n,); None if all are 1."""

    factors: Float64Array | None

    def scaled(self, documents: Float32Array, rows: slice | Int64Array, dimensions: int) -> Float32Array:
        """Scale the documents ``rows`` for BLAS, float32; a view if nothing is scaled and ``rows`` is a slice."""
        part = documents[rows, :dimensions]
        if self.factors is None:
            return part
        scaled: Float32Array = (part.astype(np.float64) * self.factors[rows, None]).astype(np.float32)
        return scaled


def scaling_of(lengths: Float64Array) -> Scaling:
    """Choose the scaling; none is needed if every document except zeros has a length of 2**-40 to 2**40."""
    positive = lengths[lengths > 0.0]
    if not len(positive) or (positive.min() >= 1 / _USUAL and positive.max() <= _USUAL):
        return Scaling(None)
    return Scaling(np.ldexp(np.ones(len(lengths)), -np.frexp(lengths)[1]))


def error_bound(dimensions: int) -> float:
    """Return the largest error of an estimate of cosine or dot product, in units of the scale."""
    terms = (dimensions + 16) * _ROUNDOFF
    return terms / (1 - terms) if terms < 0.5 else float("inf")


class Rule(NamedTuple):
    """The documents' part of the estimates of one similarity: factors and shifts float32 (n,).

    ``unit`` is the length that is scaled to 1, and ``largest`` the largest factor.
    """

    scale: Float32Array
    shift: Float32Array
    unit: float
    largest: float


def rule_for(similarity: int, lengths: Float64Array, scaling: Scaling, unit: float) -> Rule:
    """Return the rule that turns products into estimates.

    Args:
        similarity: one of :data:`harness.exact.dense.scores.CODES`.
        lengths: lengths of the documents, float64 (n,).
        scaling: powers of two by which the documents are multiplied.
        unit: at least the length of every document, and for l2 of every query; not used under cosine. 0 means 1.
    """
    factors = np.ones(len(lengths)) if scaling.factors is None else scaling.factors
    unit = unit if unit > 0.0 else 1.0
    with np.errstate(divide="ignore"):
        scale = 1.0 / (factors * (lengths if similarity == COSINE else unit))
    scale = np.where(lengths > 0.0, scale, 0.0)
    shift = -np.square(lengths / unit) if similarity == L2 else np.zeros(len(lengths))
    return Rule(scale.astype(np.float32), shift.astype(np.float32), unit, float(scale.max(initial=0.0)))


def estimates_for(pair: Pair, rule: Rule) -> Estimates:
    """Return factors, shifts and slack of one search; the module's text says why the slack is enough."""
    lengths, unit = pair.query_lengths, rule.unit
    factors = 1.0 / np.where(lengths > 0.0, lengths, 1.0)
    largest, parts = lengths * unit, 1.0
    if pair.similarity == COSINE:
        largest = np.ones(len(lengths))
    elif pair.similarity == L2:
        factors, largest, parts = np.full(len(lengths), 2.0 / unit), np.full(len(lengths), unit**2), 4.0
    underflow = int(pair.dimensions) * _UNDERFLOW * 2.0 * rule.largest
    error = parts * (error_bound(int(pair.dimensions)) + underflow)
    with np.errstate(divide="ignore", over="ignore"):
        slack = 2.0 * error + 4.0 * parts * _ROUNDOFF + 2.0 * _TINIEST / largest
        rounded_up = np.nextafter(slack.astype(np.float32), np.float32(np.inf))
    return Estimates(factors, rule.scale, rule.shift, rounded_up)
