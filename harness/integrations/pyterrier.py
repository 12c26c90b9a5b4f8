"""A backend as a PyTerrier transformer: queries in, ranked documents out, without Terrier's JVM.

A transformer as a backend is ``harness check --against pyterrier:MODULE:NAME``. Needs PyTerrier, and raises
MissingExtraError without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.data.columns import DOCUMENT_ROLES, QUERY_ROLES
from harness.data.dataset import Dataset, texts_of
from harness.data.types import Corpus, Queries
from harness.errors import UsageError
from harness.integrations.searching import SingleBackend
from harness.loaders import load_documents
from harness.registry.optional import require

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Backend"]

_pyterrier: Any = require("pyterrier", extra="pyterrier", feature="harness.integrations.pyterrier")
_RESULTS = ("docno", "score", "rank")


class Backend(_pyterrier.Transformer):  # type: ignore[misc] # its types are not read
    """A retriever for pipelines and ``pt.Experiment``: columns qid and query in; docno, score and rank added.

    Each call indexes the documents and searches all its queries, in a worker: give all queries at once. An external
    index (``qdrant-dense:url=…;collection=…;external=true;model=…``) is only searched. ``comparison`` is the last
    search.
    """

    def __init__(
        self,
        backend: str,
        corpus: object,
        *,
        k: int = 1000,
        out: str | Path | None = None,
        **options: Any,
    ) -> None:
        """Name the backend and read the documents; no engine starts.

        Args:
            backend: one backend as ``--backends`` takes it.
            corpus: a dataset's name or a file, or documents as ``harness.Dataset.of`` takes them: a frame or a list of
                dictionaries with docno and text.
            k: hits of each query.
            out: folder in which each search is stored as a result. None stores none.
            options: further options of ``harness.compare``.

        Raises:
            UsageError: for an unknown backend, parameter or option, and for several backends.
            DataError: for documents that cannot be read.
        """
        super().__init__()
        self._single, self._k = SingleBackend(backend, "Backend", options, out), k
        if isinstance(corpus, str | Path):
            self._name, self._corpus = str(corpus), load_documents(str(corpus)).corpus
        else:
            self._name, self._corpus = "documents", Corpus(*texts_of(corpus, "documents", DOCUMENT_ROLES, {}))

    def __repr__(self) -> str:
        """Return the backend as ``--backends`` takes it; ``pt.Experiment`` names its row so."""
        return self._single.label

    @property
    def comparison(self) -> Any:
        """The :class:`harness.Comparison` of the last search, with its parity and costs; None before it."""
        return self._single.comparison

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the hits of each query, in the order of queries and then the engine's, ranks from 0.

        Other columns of a query stay. Raises UsageError for a frame without qid and query or with a qid that repeats,
        BackendError if the backend fails.
        """
        import pandas as pd

        missing = [name for name in ("qid", "query") if name not in inp.columns]
        if missing:
            raise UsageError(f"the frame has no column '{missing[0]}'", fix="give queries, with columns qid and query")
        if inp["qid"].duplicated().any():
            raise UsageError("the frame has a qid twice", fix="give queries, one row each")
        input_columns = inp.drop(columns=[name for name in _RESULTS if name in inp.columns])
        if not len(inp):
            return input_columns.assign(
                docno=pd.Series(dtype=object), score=pd.Series(dtype=float), rank=pd.Series(dtype=int)
            )
        queries = Queries(*texts_of(inp[["qid", "query"]], "queries", QUERY_ROLES, {}))
        run = self._single.search(Dataset(self._name, self._corpus, queries, None), self._k)
        lengths = np.diff(run.indptr)
        rows = run.query_ids.values.to_pandas().repeat(lengths).reset_index(drop=True)
        hits = pd.DataFrame(
            {
                "qid": rows,
                "docno": run.doc_ids.take(run.rows),
                "score": run.scores.astype(np.float64),
                "rank": np.arange(run.hits) - np.repeat(run.indptr[:-1], lengths),
            }
        )
        return input_columns.assign(qid=input_columns["qid"].astype(str)).merge(hits, on="qid", how="inner", sort=False)
