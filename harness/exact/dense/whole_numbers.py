"""Estimates from vectors rounded to whole numbers of 16 bits: half the time of float32 products, and the filter is
in the cache's first level when it needs them.

Every vector is divided by its length and multiplied by S = 32,760. The sum of the products of two such vectors is
below (S + sqrt(d) / 2)**2 (Cauchy and Schwarz), so it and its parts stay within 32 bits, and are exact. What rounding
costs is bounded by :func:`harness.exact.dense.estimates.rounding_error`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.jit import inner_kernel, kernel
from harness.data.types import Float32Array, Int16Array, Int32Array
from harness.exact.dense.candidates import STEP, Estimates, Lists, shorten, take_reaching
from harness.exact.dense.estimates import WHOLE
from harness.exact.dense.scores import Pair
from harness.exact.instructions import prefetch
from harness.exact.integer_products import SIDE, TALL, WIDE, multiply_tile, round_sixteen, transpose_square

__all__ = ["Desk", "filter_documents", "rounded_queries"]

_CHUNK = 2 * SIDE
_PANELS = STEP // WIDE
_QUERIES = 8 * TALL
_LINE = np.uint64(16)  # float32 in a line of the cache
_STEP, _ONE = np.uint64(STEP), np.uint64(1)
_TOGETHER, _SIDE, _TALL = np.uint64(_QUERIES), np.uint64(SIDE), np.uint64(TALL)
_WIDE, _SIXTEEN = np.uint64(WIDE), np.uint64(_CHUNK)


class Desk(NamedTuple):
    """Where 64 documents are worked on: 16 of them rounded, int16 (16 d'), the same in pairs, int32; all turned, int32
    (4 * 16 * d' / 2) as :func:`multiply_tile` takes them; and their products with 48 queries, float32 (48, 64).
    """

    rounded: Int16Array
    pairs: Int32Array
    turned: Int32Array
    products: Float32Array

    @classmethod
    def of(cls, dimensions: int) -> Desk:
        """For so many dimensions; d' is the next multiple of 16."""
        padded = -(-dimensions // _CHUNK) * _CHUNK
        rounded = np.zeros(WIDE * padded, dtype=np.int16)
        return cls(
            rounded,
            rounded.view(np.int32),
            np.empty(_PANELS * WIDE * padded // 2, dtype=np.int32),
            np.empty((_QUERIES, STEP), dtype=np.float32),
        )


def rounded_queries(unit: Float32Array) -> Int32Array:
    """Queries as :func:`multiply_tile` takes them, six at a time. ``unit`` float32 (Q, d) have the length 1 or 0."""
    queries, dimensions = unit.shape
    padded = -(-dimensions // _CHUNK) * _CHUNK
    rounded = np.zeros((-(-queries // TALL) * TALL, padded), dtype=np.int16)
    rounded[:queries, :dimensions] = np.rint(unit * np.float32(WHOLE))
    return np.ascontiguousarray(rounded.view(np.int32).reshape(-1, TALL, padded // 2).transpose(0, 2, 1)).ravel()


@kernel
def filter_documents(  # noqa: PLR0913, PLR0917 - compiled
    asked: Int32Array,
    factors: Float32Array,
    first: np.uint64,
    end: np.uint64,
    first_query: int,
    estimates: Estimates,
    pair: Pair,
    k: int,
    lists: Lists,
    desk: Desk,
) -> None:
    """Take from the documents ``first`` to ``end`` what may be best for the queries from ``first_query`` on.

    ``asked`` are those queries, as :func:`rounded_queries` gives them; ``factors`` float32 (n,) is what the documents
    are multiplied with to get the length S.
    """
    queries, pairs, zero = np.uint64(len(lists.counts)), np.uint64(len(desk.pairs)) // _WIDE, np.uint64(0)
    for begin in range(first, end, _STEP):
        start = np.uint64(begin)
        stop = min(start + _STEP, end)
        for panel in range(start, stop, _WIDE):
            place = np.uint64(panel)
            _turn(pair, factors, place, min(place + _WIDE, stop), (place - start) * pairs, desk)
        for some in range(zero, queries, _TOGETHER):
            query = np.uint64(some)
            last = min(query + _TOGETHER, queries)
            _fetch(pair, stop + query * _STEP // queries, min(end, stop + last * _STEP // queries))
            _multiply(asked, query, last, stop - start, desk)
            for row in range(int(last - query)):
                own, width = int(query) + row, stop - start
                if not take_reaching(desk.products, row, zero, width, start, own, first_query, estimates, lists):
                    shorten(first_query, own, estimates, pair, k, lists)
                    take_reaching(desk.products, row, zero, width, start, own, first_query, estimates, lists)


@inner_kernel
def _multiply(asked: Int32Array, query: np.uint64, last: np.uint64, documents: np.uint64, desk: Desk) -> None:
    """The products of some queries, six at a time, with the documents that are turned: 16 at a time, which stay in the
    first level of the cache for as long.
    """
    pairs = np.uint64(len(desk.pairs)) // _WIDE
    for panel in range(np.uint64(0), documents, _WIDE):
        right = np.uint64(panel)
        for group in range(query, last, _TALL):
            left = np.uint64(group)
            place = (left - query) * _STEP + right
            multiply_tile(asked, left * pairs, desk.turned, right * pairs, pairs, desk.products, place, _STEP)


@inner_kernel
def _fetch(pair: Pair, first: np.uint64, end: np.uint64) -> None:
    """Ask for the documents that come next: they arrive while others are multiplied."""
    for row in range(first, end):
        for column in range(np.uint64(0), pair.dimensions, _LINE):
            prefetch(pair.documents, row, column)


@inner_kernel
def _turn(pair: Pair, factors: Float32Array, first: np.uint64, end: np.uint64, place: np.uint64, desk: Desk) -> None:
    """Round up to 16 documents and lay them side by side. Where there are fewer, any others follow."""
    out, numbers, dimensions = desk.rounded, desk.pairs, pair.dimensions
    pairs = np.uint64(len(numbers)) // _WIDE
    for row in range(first, end):
        document, factor, begin = pair.documents[row], factors[row], np.uint64(row - first) * np.uint64(2) * pairs
        whole = dimensions // _SIXTEEN * _SIXTEEN
        for column in range(np.uint64(0), whole, _SIXTEEN):
            round_sixteen(document, np.uint64(column), factor, out, begin + np.uint64(column))
        for column in range(whole, dimensions):
            out[begin + column] = np.int16(np.rint(document[column] * factor))
    for column in range(np.uint64(0), pairs, _SIDE):
        for row in range(np.uint64(0), _WIDE, _SIDE):
            given = np.uint64(row) * pairs + np.uint64(column)
            turned = place + np.uint64(column) * _WIDE + np.uint64(row)
            transpose_square(numbers, given, pairs, desk.turned, turned)
