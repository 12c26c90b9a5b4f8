"""An engine of dense vectors that misses documents, as a graph does, and needs no client."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.progress import Clock
from harness.data.types import Ids
from harness.engines.base import LoadedIndex
from harness.engines.flat import FlatEngine
from harness.engines.interface import Capabilities, SearchResult


class HalfBlind(FlatEngine):
    """Exact search that never looks at every other document."""

    capabilities: ClassVar[Capabilities] = replace(FlatEngine.capabilities, exact=False)

    def load(self, folder: Path) -> LoadedIndex:
        loaded = super().load(folder)
        return replace(loaded, state={"vectors_in_graph": loaded.documents})

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        every = super().search_prepared(prepared, ids, len(self.ids), clock)
        seen = every.rows % 2 == 0
        rank = np.concatenate([np.cumsum(seen[s:e]) for s, e in zip(every.indptr, every.indptr[1:], strict=False)])
        kept = seen & (rank <= k)
        indptr = np.concatenate([[0], np.cumsum(kept)])[every.indptr].astype(np.int64)
        return every._replace(indptr=indptr, rows=every.rows[kept], scores=every.scores[kept])


def blind_card(folder: Path, repository: Path) -> Path:
    """Write the card of flat as "blind", for the engine that misses documents, into a folder of cards."""
    (folder / "backends").mkdir()
    card = (repository / "backends" / "flat.toml").read_text().replace('name = "flat"', 'name = "blind"')
    before, external = card.replace("harness.engines.flat:FlatEngine", f"{__name__}:HalfBlind").split(
        "[external_index]"
    )
    parameters = external[external.index("[parameters.similarity]") : external.index("[parameters.path]")]
    (folder / "backends" / "blind.toml").write_text(before.replace('use = ["external"]\n', "") + parameters)
    return folder
