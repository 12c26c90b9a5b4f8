"""Engines that filter: after the search, and so too late, or not at all although they say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
from engines_for_tests import BruteForce

from harness.data.filtering import matching_rows
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.engines.interface import Capabilities, IndexReport, SearchResult


class FiltersTheBest(BruteForce):
    """Searches for the best k of all documents, and leaves those out that do not match."""

    capabilities: ClassVar[Capabilities] = replace(BruteForce.capabilities, filters=True)
    metadata: pa.Table | None = None
    matching: np.ndarray | None = None

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        self.metadata = documents.metadata
        return super().index(documents, progress, clock)

    def restrict(self, wanted: Mapping[str, str]) -> None:
        assert self.metadata is not None
        self.matching = matching_rows(self.metadata, wanted)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, k, clock)
        if self.matching is None:
            return found
        kept = self.matching[found.rows]
        indptr = np.concatenate([[0], np.cumsum(kept)])[found.indptr].astype(np.int64)
        return found._replace(indptr=indptr, rows=found.rows[kept], scores=found.scores[kept])


class ReturnsEverything(FiltersTheBest):
    """Takes a filter, and pays no heed to it."""

    def restrict(self, wanted: Mapping[str, str]) -> None:
        assert wanted
