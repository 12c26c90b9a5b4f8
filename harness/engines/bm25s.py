"""bm25s, which weighs every posting when it indexes: five variants of BM25, in NumPy, in the process.

It takes N and avgdl over all documents, keeps the IDF and weights as float32, and adds them in float32 in the order of
the query's terms (``bm25s/scoring.py``). Its top k is filled up with documents that match nothing; here they are no
hits. ``bm25l`` and ``bm25+`` give a document something for each term that it lacks, which is in the scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.filtering import BoolArray
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int64Array
from harness.engines.base import (
    Capabilities,
    Documents,
    EngineInfo,
    Filterable,
    LoadedIndex,
    matching_documents,
)
from harness.registry.optional import require

__all__ = ["Bm25sEngine"]


class _Query(NamedTuple):
    tokens: list[str]
    absent: np.float32
    """Score of a document that has none of them."""


class _Answer(NamedTuple):
    rows: Int64Array
    scores: Float32Array
    absent: np.float32


class Bm25sEngine(Filterable[pa.ChunkedArray]):
    """The parameter ``variant`` names the formula. A filter is bm25s's own mask of weights."""

    name = "bm25s"
    stores_metadata = False
    packages = ("bm25s",)
    no_changes = "bm25s has the statistics of all documents in every weight, and only indexes anew"
    faults = (RuntimeError, ValueError, OSError, KeyError, EOFError)
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="terms",
        exact=True,
        deterministic=True,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
    )

    _retriever: Any
    _mask: BoolArray | None

    def info(self) -> EngineInfo:
        """Import the library."""
        self._bm25s: Any = require("bm25s", extra="bm25s", feature="backend bm25s")
        self._mask = None
        return EngineInfo("bm25s", str(self._bm25s.__version__), "embedded")

    def build(self, folder: Path, documents: Documents[pa.ChunkedArray], progress: Progress) -> None:
        """Number the terms and weigh them; getting ready is saving the arrays."""
        names = {"k1": "k1", "b": "b", "delta": "delta", "variant": "method"}
        options = {name: self.parameters[parameter] for parameter, name in names.items()}
        retriever = self._bm25s.BM25(backend="numpy", **options)
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

    def prepare(self, queries: pa.ChunkedArray, k: int) -> Iterable[_Query | None]:  # noqa: ARG002 - for every k the same
        """Return the terms of each query."""
        texts = (text.as_py() for text in queries)
        return (self._query(text.split(" ")) if text else None for text in texts)

    def _query(self, tokens: list[str]) -> _Query:
        absent = self._retriever.nonoccurrence_array
        if absent is None:
            return _Query(tokens, np.float32(0.0))
        return _Query(tokens, np.float32(absent[self._retriever.get_tokens_ids(tokens)].sum()))

    def retrieve(self, query: _Query, k: int) -> _Answer:
        """Return the best ``k``, filled up."""
        documents, scores = self._retriever.retrieve(
            [query.tokens], k=k, show_progress=False, backend_selection="numpy", weight_mask=self._mask
        )
        return _Answer(documents[0], scores[0], query.absent)

    def columns(self, answer: _Answer) -> tuple[Int64Array, Float32Array]:
        """Leave out what matches nothing, or not the filter."""
        hits = answer.scores > answer.absent
        return answer.rows[hits].astype(np.int64), answer.scores[hits]

    def filter(self, wanted: Mapping[str, str]) -> None:
        """Mask the documents that do not match."""
        self._mask = matching_documents(self.folder, wanted) if wanted else None
