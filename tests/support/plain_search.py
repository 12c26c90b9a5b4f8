"""The arithmetic of the reference written out in the plainest way, document by document, to compare with."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, SparseVectors, UInt32Array
from harness.exact import TopK


class PlainHit(NamedTuple):
    row: int
    score: np.float32


def contributions(
    document: tuple[np.ndarray, np.ndarray], query: tuple[np.ndarray, np.ndarray], idf: Float32Array | None
) -> list[np.float32]:
    weights = {int(column): value for column, value in zip(*document, strict=True)}
    found = []
    for column, weight in zip(*query, strict=True):
        if int(column) in weights:
            raised = weight if idf is None else np.float32(weight * idf[column])
            found.append(np.float32(raised * weights[int(column)]))
    return found


def plain_score(found: list[np.float32]) -> np.float32:
    total = np.float64(0.0)
    for contribution in found:
        total += np.float64(contribution)
    return np.float32(total)


def exact_score(found: list[np.float32]) -> Fraction:
    return sum((Fraction(float(contribution)) for contribution in found), Fraction(0))


def plain_search(
    documents: SparseVectors,
    queries: SparseVectors,
    k: int,
    idf: Float32Array | None = None,
    tie_break: UInt32Array | None = None,
) -> list[list[PlainHit]]:
    ranked = []
    for query in range(len(queries)):
        scores = [
            (row, plain_score(contributions(documents.row(row), queries.row(query), idf)))
            for row in range(len(documents))
        ]
        hits = [PlainHit(row, score) for row, score in scores if score != 0.0]
        first = np.arange(len(documents)) * 0 if tie_break is None else -tie_break.astype(np.int64)
        hits.sort(key=lambda hit: (-float(hit.score), int(first[hit.row]), hit.row))
        ranked.append(hits[:k])
    return ranked


def as_lists(found: TopK) -> list[list[PlainHit]]:
    cuts = zip(found.indptr[:-1], found.indptr[1:], strict=True)
    return [
        [PlainHit(int(row), score) for row, score in zip(found.rows[start:stop], found.scores[start:stop], strict=True)]
        for start, stop in cuts
    ]
