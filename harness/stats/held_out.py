"""Choose among combinations of parameters on one part of the queries, for a figure of the other part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array, Int32Array
from harness.errors import UsageError
from harness.stats.intervals import CONFIDENCE, ROUNDING, Interval

LEAST_QUERIES = 6
"""Fewest queries of a half: with fewer no difference has a p below 0.05 by flipped signs, which is 2 / 2**n at best."""
BoolArray = npt.NDArray[np.bool_]
_BATCH = 2_000_000


class Choice(NamedTuple):
    """The candidate that is best on some queries, and the queries that it is reported on, which did not choose it.

    ``candidate`` is a row of the values; ``choosing`` and ``reporting`` are bool (Q,).
    """

    candidate: int
    choosing: BoolArray
    reporting: BoolArray


def count_groups(texts: Sequence[str]) -> int:
    """Return how many of the queries differ: texts that are equal up to case and white space are one query."""
    return len({_normal(text) for text in texts})


def split_queries(ids: Sequence[str], texts: Sequence[str], parts: int, seed: int) -> Int32Array:
    """Return the part of each query, from 0 on: int32 (Q,).

    Queries come in the order of the SHA-256 of ``seed`` and id, and each goes to the part with the fewest so far. The
    order of ``ids`` does not matter. Queries whose texts are equal up to case and white space share a part, in the
    order of their lowest id; otherwise the sizes of two parts differ by one at most. Parts stay empty if fewer than
    ``parts`` queries differ.
    """
    groups: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        groups.setdefault(_normal(text), []).append(position)
    keyed = sorted((_digest(seed, min(ids[position] for position in group)), group) for group in groups.values())
    part_of, sizes = np.zeros(len(ids), dtype=np.int32), [0] * parts
    for _, group in keyed:
        part = sizes.index(min(sizes))
        part_of[group] = part
        sizes[part] += len(group)
    return part_of


def choose(values: Float64Array) -> int:
    """Return the first candidate with the highest mean (float64 (C, Q), Q at least 1); rounding is no difference."""
    means = values.mean(axis=1)
    return int(np.flatnonzero(means >= means.max() - ROUNDING * np.abs(means).max())[0])


def tune(values: npt.ArrayLike, part_of: npt.ArrayLike, *, cross_validate: bool = False) -> list[Choice]:
    """Choose among candidates so that no query is in a figure that it helped to choose.

    Args:
        values: float64 (C, Q): a value for each candidate and query, higher is better. Of equal means the first
            candidate is chosen: the default should come first.
        part_of: int (Q,): the part of each query, as :func:`split_queries` returns it.
        cross_validate: Whether each part is reported by the candidate that is best on all other parts; otherwise part 0
            chooses and all others report.

    Returns:
        One choice, or one for each part that has queries.

    Raises:
        UsageError: no candidates, different numbers of queries, or queries in fewer than two parts.
    """
    table, parts = np.asarray(values, dtype=np.float64), np.asarray(part_of)
    if table.ndim != 2 or not len(table) or table.shape[1:] != parts.shape:
        problem = f"values of shape {table.shape} for the parts of {parts.size:,} queries"
        raise UsageError(problem, fix="give a row for each candidate, with a value for each query")
    numbers = np.unique(parts)
    if len(numbers) < 2:
        raise UsageError("all queries are in one part", fix="split them into two parts or more")
    choosing = [parts != number for number in numbers] if cross_validate else [parts == numbers[0]]
    return [Choice(choose(table[:, mask]), mask, ~mask) for mask in choosing]


class FoldsTest(NamedTuple):
    """The two-sided p of a cross-validated gain, and its 95 % interval, which contains 0 unless p is below 0.05."""

    p: float
    interval: Interval


def randomise_choices(
    differences: npt.ArrayLike, part_of: npt.ArrayLike, seed: int, *, flips: int = 10_000
) -> FoldsTest:
    """Test the mean that :func:`tune` with ``cross_validate`` gains, by random signs and new choices.

    The choices of two folds share most of their queries, so a test of the pooled values, which takes them for
    independent, finds gains in noise. Here the signs of each query's differences are flipped for all candidates
    together, and each fold chooses again, ``flips`` times. p is twice the share of gains, the true one among them, that
    are at least as high, or at least as low if these are fewer. The interval is the gain minus the 97.5th and the 2.5th
    percentile of the others.

    Args:
        differences: float64 (C, Q): each candidate's value minus the default's, which is the first candidate; higher is
            better.
        part_of: int (Q,): the part of each query.
        seed: Seed of the signs.
        flips: Times that signs are drawn.
    """
    table, parts = np.asarray(differences, dtype=np.float64), np.asarray(part_of)
    masks = [parts == number for number in np.unique(parts)]
    rounding = ROUNDING * float(np.abs(table).sum(axis=1).max())
    ones = np.ones((1, len(parts)))
    gain = float(_gains(ones, table, masks, rounding)[0])
    rng, size = np.random.default_rng(seed), max(1, _BATCH // table.size)
    flipped = np.concatenate([
        _gains(_random_signs(rng, min(size, flips - start), len(parts)), table, masks, rounding)
        for start in range(0, flips, size)
    ])  # fmt: skip
    above = 1 + int(np.count_nonzero(flipped >= gain - rounding))
    below = 1 + int(np.count_nonzero(flipped <= gain + rounding))
    tail = (1.0 - CONFIDENCE) / 2.0
    highest, lowest = np.quantile(flipped, 1.0 - tail, method="higher"), np.quantile(flipped, tail, method="lower")
    interval = Interval((gain - float(highest)) / len(parts), (gain - float(lowest)) / len(parts))
    return FoldsTest(min(1.0, 2.0 * min(above, below) / (1 + flips)), interval)


def _random_signs(rng: np.random.Generator, rows: int, columns: int) -> Float64Array:
    return np.where(rng.integers(2, size=(rows, columns)) == 0, -1.0, 1.0)


def _gains(signs: Float64Array, table: Float64Array, masks: Sequence[BoolArray], rounding: float) -> Float64Array:
    """Return the summed gains (B,) of what the other folds choose, with the signs of B times Q differences flipped."""
    sums = np.stack([signs[:, mask] @ table[:, mask].T for mask in masks], axis=-1)
    of_others = sums.sum(axis=2, keepdims=True) - sums
    chosen = np.argmax(of_others >= of_others.max(axis=1, keepdims=True) - rounding, axis=1)
    gains: Float64Array = np.take_along_axis(sums, chosen[:, None, :], axis=1).sum(axis=(1, 2))
    return gains


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _digest(seed: int, query: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{query}".encode(errors="surrogatepass")).digest()
