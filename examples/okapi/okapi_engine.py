"""An engine that weighs terms by itself, in plain Python: BM25 Okapi as the package rank_bm25 computes it."""

import json
import math
from collections import Counter
from pathlib import Path

import pyarrow as pa

from harness.engines.base import Capabilities, Documents, Engine, EngineInfo, LoadedIndex


class OkapiEngine(Engine[pa.ChunkedArray]):
    """Scores every document; a score of 0 is not a hit. Equal scores come by row."""

    name = "okapi"
    capabilities = Capabilities(input="terms", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True)
    search_parameters = frozenset({"k1", "b", "epsilon"})  # the index holds terms, not weights

    def info(self) -> EngineInfo:
        return EngineInfo("Okapi", "1.0", "embedded")

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress) -> None:
        (folder / "terms.json").write_text(json.dumps(documents.column.to_pylist()), encoding="utf-8")

    def load(self, folder: Path) -> LoadedIndex:
        try:
            texts = json.loads((folder / "terms.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RuntimeError(f"the index is damaged: {error}") from error
        self.counts = [Counter(text.split()) for text in texts]
        self.lengths = [count.total() for count in self.counts]
        df = Counter(term for count in self.counts for term in count)
        idf = {term: math.log(len(texts) - n + 0.5) - math.log(n + 0.5) for term, n in df.items()}
        least = self.parameters["epsilon"] * sum(idf.values()) / max(len(idf), 1)
        self.idf = {term: least if value < 0 else value for term, value in idf.items()}
        return LoadedIndex(len(texts), {"terms": len(idf)})

    def retrieve(self, query: str, k: int) -> tuple[list[int], list[float]]:
        terms = query.split()
        scored = [(-self.score(terms, row), row) for row in range(len(self.counts))]
        best = sorted(hit for hit in scored if hit[0])[:k]
        return [row for _, row in best], [-score for score, _ in best]

    def score(self, terms: list[str], row: int) -> float:
        k1, b, counts = self.parameters["k1"], self.parameters["b"], self.counts[row]
        norm = k1 * (1 - b + b * self.lengths[row] * len(self.lengths) / sum(self.lengths))
        return sum(self.idf[term] * counts[term] * (k1 + 1) / (counts[term] + norm) for term in terms if term in counts)
