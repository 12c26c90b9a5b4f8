"""The oracle of a fusion: the fusion of the exact lists of its components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from harness.data.types import Float32Array, Int32Array, Int64Array, Run
from harness.parity.case import Case, Rescored
from harness.parity.oracles import Oracle

__all__ = ["Fuse", "FusedOracle", "Part", "hits_of_components"]

Fuse = Callable[[Sequence[Run], int | None], Run]
"""Runs to their fusion, cut to so many hits a query; None cuts nothing."""


class Part(NamedTuple):
    """One component of a fusion: its ``exact`` hits, and what it really returned, both over the same columns."""

    label: str
    exact: Run
    actual: Run


@dataclass(frozen=True)
class FusedOracle:
    """What a fusion would return if each of its components (``parts``) returned its exact hits."""

    mode: str
    parts: tuple[Part, ...]
    fuse: Fuse
    name: str = "fusion"
    scale = None

    def retrieve(self, k: int) -> Run:
        """The best ``k`` of every query, in the one ordering."""
        return self.fuse([part.exact for part in self.parts], k)

    def score(self, run: Run) -> Float32Array:
        """The score of every hit of ``run``: float32 (H,); 0 for a document that is in none of the exact lists."""
        fused, documents = self._whole, len(run.doc_ids)
        keys = _keys(fused, documents)
        order = np.argsort(keys)
        places = np.searchsorted(keys, _keys(run, documents), sorter=order)
        nearest = order[np.minimum(places, len(keys) - 1)] if len(keys) else np.zeros(run.hits, dtype=np.int64)
        scores = np.zeros(run.hits, dtype=np.float32)
        if len(keys):
            found = keys[nearest] == _keys(run, documents)
            scores[found] = fused.scores[nearest[found]]
        return scores

    def of_queries(self, rows: Int32Array) -> Self:
        """The same oracle for some of its queries."""
        parts = tuple(Part(one.label, one.exact.of_queries(rows), one.actual.of_queries(rows)) for one in self.parts)
        return replace(self, parts=parts)

    def given_hits_of(self, labels: Sequence[str]) -> Self:
        """The same oracle, where the components of these labels count with the hits that they really returned."""
        parts = tuple(one._replace(exact=one.actual) if one.label in labels else one for one in self.parts)
        return replace(self, parts=parts)

    @cached_property
    def _whole(self) -> Run:
        return self.fuse([part.exact for part in self.parts], None)


@dataclass(frozen=True, slots=True)
class _HitsOf:
    """A cause that lies in components: with their own hits in place of the exact ones, the fusion is what it is."""

    name: str
    meaning: str
    labels: tuple[str, ...]

    def rescore(self, case: Case) -> Rescored | None:
        """The case against the fusion that holds these components' own hits."""
        if not isinstance(case.oracle, FusedOracle):
            return None
        oracle: Oracle = case.oracle.given_hits_of(self.labels)
        queries = len(case.run.query_ids)
        tolerance = np.full(queries, case.tolerance)
        k = np.full(queries, case.k, dtype=np.int64)
        return Rescored(case.run, oracle.retrieve(case.k), oracle.score(case.run), k, tolerance, tolerance)


def hits_of_components(parts: Sequence[Part]) -> tuple[_HitsOf, ...]:
    """Why a fusion may differ from its oracle: the hits of one component, else those of several."""
    labels = tuple(part.label for part in parts)
    single = [_HitsOf(f"hits of {one}", f"{one} did not return its exact hits", (one,)) for one in labels]
    several = _HitsOf("hits of several components", "more than one component did not return its exact hits", labels)
    return (*single, several)


def _keys(run: Run, documents: int) -> Int64Array:
    """One number for each hit, of its query and document."""
    query = np.repeat(np.arange(len(run.query_ids), dtype=np.int64), np.diff(run.indptr))
    return query * documents + run.rows
