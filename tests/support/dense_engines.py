"""An engine of dense vectors that misses documents, as a graph does, and needs no client."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.engines.flat import FlatEngine
from harness.engines.interface import Capabilities, IndexReport, SearchResult


class HalfBlind(FlatEngine):
    """Exact search that never looks at every other document."""

    capabilities: ClassVar[Capabilities] = replace(FlatEngine.capabilities, exact=False)

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        report = super().index(documents, progress, clock)
        return replace(report, state={"vectors_in_graph": len(documents)})

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        every = super().search(queries, len(self.ids), clock)
        seen = every.rows % 2 == 0
        rank = np.concatenate([np.cumsum(seen[s:e]) for s, e in zip(every.indptr, every.indptr[1:], strict=False)])
        kept = seen & (rank <= k)
        indptr = np.concatenate([[0], np.cumsum(kept)])[every.indptr].astype(np.int64)
        return every._replace(indptr=indptr, rows=every.rows[kept], scores=every.scores[kept])
