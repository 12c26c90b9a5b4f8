"""bm25s, which weights every posting when it indexes: five variants of BM25, in NumPy, in the process.

It takes N and avgdl over all documents, keeps the IDF and weights as float32, and adds them in float32 in the order of
the query's terms (``bm25s/scoring.py``). Its top k is filled up with documents that match nothing; the engine removes
them. ``bm25l`` and ``bm25+`` add to a document's score for each term that it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from harness.data.filtering import BoolArray
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int64Array
from harness.engines.base import Documents, Filterable, LoadedIndex
from harness.engines.index_folder import matching_documents
from harness.engines.interface import Capabilities, EngineInfo
from harness.errors import UsageError
from harness.registry.optional import require

__all__ = ["Bm25sEngine"]

_Query: TypeAlias = tuple[list[str], np.float32]


class Bm25sEngine(Filterable[pa.ChunkedArray]):
    """The parameter ``variant`` names the formula. A filter is bm25s's own mask of weights."""

    name = "bm25s"
    stores_metadata = False
    packages = ("bm25s",)
    no_changes = "bm25s stores the statistics of all documents in every weight, so it can only index everything again"
    faults = (RuntimeError, ValueError, OSError, KeyError, EOFError)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms", exact=True, deterministic=True, reopens=True, keeps_k_prefix=False, shares_index=True
    )

    _retriever: Any
    _mask: BoolArray | None

    def info(self) -> EngineInfo:
        """Import the library; raises UsageError for a formula that divides 0 by 0 for terms that a document lacks."""
        if self.parameters["variant"] == "bm25+" and self.parameters["k1"] == 0:
            raise UsageError("variant=bm25+ divides 0 by 0 with k1=0", fix="give a k1 above 0, or another variant")
        self._bm25s: Any = require("bm25s", extra="bm25s", feature="backend bm25s")
        self._mask = None
        return EngineInfo("bm25s", str(self._bm25s.__version__), "embedded")

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        """Number the terms and weight them; getting ready means saving the arrays."""
        weighing = {name: self.parameters[name] for name in ("k1", "b", "delta")}
        retriever = self._bm25s.BM25(backend="numpy", method=self.parameters["variant"], **weighing)
        vocabulary: dict[str, int] = {}
        numbers = [
            [vocabulary.setdefault(term, len(vocabulary)) for term in (terms.as_py() or "").split()]
            for terms in documents.column
        ]
        if not vocabulary:
            vocabulary[""] = 0
        retriever.index((numbers, vocabulary), show_progress=False)
        progress.start("save", None)
        retriever.save(folder / "index", show_progress=False)

    def load(self, folder: Path) -> LoadedIndex:
        """Map the arrays."""
        retriever = self._bm25s.BM25.load(folder / "index", mmap=True, show_progress=False)
        self._retriever = retriever
        state = {"postings": len(retriever.scores["data"]), "terms": len(retriever.scores["indptr"]) - 1}
        return LoadedIndex(int(retriever.scores["num_docs"]), state)

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterable[_Query | None]:
        """Return the terms of each query, and the score of a document without these terms."""
        absent = self._retriever.nonoccurrence_array
        for text in queries.to_pylist():
            tokens = text.split(" ")
            lacking = bool(text) and absent is not None
            weight = absent[self._retriever.get_tokens_ids(tokens)].sum() if lacking else 0.0
            yield (tokens, np.float32(weight)) if text else None

    def retrieve(self, query: _Query, k: int) -> tuple[Any, Any, np.float32]:
        """Return the best ``k``, filled up with documents that match nothing, and the score of such documents."""
        tokens, absent = query
        documents, scores = self._retriever.retrieve(
            [tokens], k=k, show_progress=False, backend_selection="numpy", weight_mask=self._mask
        )
        return documents[0], scores[0], absent

    def columns(self, answer: tuple[Any, Any, np.float32]) -> tuple[Int64Array, Float32Array]:
        """Leave out documents that match no term or not the filter."""
        rows, scores, absent = answer
        hits = scores > absent
        return rows[hits].astype(np.int64), scores[hits]

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Mask the documents that do not match."""
        self._mask = matching_documents(self.folder, conditions) if conditions else None
