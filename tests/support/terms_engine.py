"""An engine with a BM25 of its own, in plain Python: SQLite's formula, over a file of analysed terms."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

from harness.data.progress import Progress
from harness.engines.base import Capabilities, Documents, Engine, EngineInfo, LoadedIndex

_FLOOR = 1e-6


class TermsEngine(Engine[pa.ChunkedArray]):
    """Scores every document."""

    name = "terms"
    faults = (RuntimeError, ValueError)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True
    )

    def info(self) -> EngineInfo:
        return EngineInfo("terms", "1", "embedded")

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        (folder / "terms.json").write_text(json.dumps(documents.column.to_pylist()), encoding="utf-8")

    def load(self, folder: Path) -> LoadedIndex:
        texts = json.loads((folder / "terms.json").read_text(encoding="utf-8"))
        self.counts = [Counter(text.split(" ")) if text else Counter() for text in texts]
        self.lengths = [sum(count.values()) for count in self.counts]
        self.containing = Counter(term for count in self.counts for term in count)
        return LoadedIndex(len(texts), {"terms": len(self.containing)})

    def retrieve(self, query: str, k: int) -> tuple[list[int], list[float]]:
        scores = [(self.score(query, row), row) for row in range(len(self.counts))]
        best = sorted((-score, row) for score, row in scores if score)[:k]
        return [row for _, row in best], [-score for score, _ in best]

    def score(self, query: str, row: int) -> float:
        k1, b = float(self.parameters.get("k1", 1.2)), float(self.parameters.get("b", 0.75))
        average = sum(self.lengths) / len(self.lengths)
        total = 0.0
        for term in query.split(" "):
            if tf := self.counts[row][term]:
                odds = (len(self.counts) - self.containing[term] + 0.5) / (self.containing[term] + 0.5)
                idf = math.log(odds) if odds > 1 else _FLOOR
                total += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * self.lengths[row] / average))
        return total
