"""Engines that filter wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from contract_fakes import FakeDense, FakeSparse, FakeText
from contract_kills import breaks

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.engines.interface import SearchResult
from harness.errors import RejectedInputError
from harness.testing import ExpectedScores


@breaks("test_filters_is_what_the_class_is")
class DoesNotSayThatItFilters(FakeSparse):
    capabilities = replace(FakeSparse.capabilities, filters=False)


@breaks("test_returns_what_matches")
class IgnoresTheFilter(FakeText):
    def restrict(self, wanted: Mapping[str, str]) -> None:
        super().restrict(wanted)
        self.matching = None


@breaks("test_returns_what_matches")
class FiltersTheBestAfterwards(FakeDense):
    """Fewer than k where documents that do not match were among the best."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        matching, self.matching = self.matching, None
        found = super().search(queries, k, clock)
        self.matching = matching
        if matching is None:
            return found
        kept = matching[found.rows]
        indptr = np.concatenate([[0], np.cumsum(kept)])[found.indptr].astype(np.int64)
        return found._replace(indptr=indptr, rows=found.rows[kept], scores=found.scores[kept])


@breaks("test_returns_what_matches")
class ScoresAnewWhenFiltered(FakeSparse):
    """As an engine would that counts its statistics over what matches."""

    def score(self, queries: Inputs) -> ExpectedScores:
        right = super().score(queries)
        return right if self.matching is None else right._replace(scores=right.scores * 1.5)


@breaks("test_returns_what_matches")
class ForgetsToLiftTheFilter(FakeSparse):
    def restrict(self, wanted: Mapping[str, str]) -> None:
        if wanted:
            super().restrict(wanted)


@breaks("test_filters_when_opened_again")
class KeepsMetadataInMemory(FakeSparse):
    def load(self, folder: Path) -> None:
        super().load(folder)
        (folder / "metadata.arrow").unlink(missing_ok=True)


@breaks("test_refuses_a_field_that_it_does_not_hold")
class FindsNothingForAnUnknownField(FakeSparse):
    def restrict(self, wanted: Mapping[str, str]) -> None:
        try:
            super().restrict(wanted)
        except RejectedInputError:
            self.matching = np.zeros(len(self.ids), dtype=np.bool_)
