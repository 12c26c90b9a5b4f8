"""FAISS's flat index as an engine."""

from pathlib import Path

import faiss
import numpy as np

from harness.engines.base import Capabilities, Documents, Engine, EngineInfo, LoadedIndex


class FaissFlatEngine(Engine[np.ndarray]):
    """Inner products in float32; of normalised vectors for similarity=cosine."""

    name = "faiss-flat"
    capabilities = Capabilities(input="dense", exact=True, deterministic=True, reopens=True, keeps_k_prefix=False)

    def info(self) -> EngineInfo:
        return EngineInfo("FAISS flat", faiss.__version__, "embedded")

    def build(self, folder: Path, documents: Documents[np.ndarray], progress) -> None:
        index = faiss.IndexFlatIP(documents.column.shape[1])
        index.add(self.normalised(documents.column))
        progress.start("save", None)
        faiss.write_index(index, str(folder / "index.faiss"))

    def load(self, folder: Path) -> LoadedIndex:
        self.flat = faiss.read_index(str(folder / "index.faiss"))
        return LoadedIndex(self.flat.ntotal, {"dimensions": self.flat.d, "vectors_in_graph": 0}, self.flat.d)

    def retrieve(self, query: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        scores, rows = self.flat.search(self.normalised(query), k)
        return rows[0], scores[0]

    def normalised(self, vectors: np.ndarray) -> np.ndarray:
        if self.parameters["similarity"] == "cosine":
            vectors = np.array(vectors)
            faiss.normalize_L2(vectors)
        return vectors
