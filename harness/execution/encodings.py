"""Texts to vectors once per distinct encoder, shared by every backend that has it, and kept in the cache.

An entry's key holds what changes its content and nothing else: the digests of documents and queries, the analyzer with
what decides its terms (versions and stop words, or the jar), and for BM25 weights its parameters.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.analysis import TermCounts, analyzer_identity, count_terms, create_analyzer, load_counts, save_counts
from harness.cache import JSON, Cache
from harness.columns import load_sparse, load_table, save_sparse
from harness.encoders import bm25
from harness.errors import DataError
from harness.execution.jobs import AnalyseJob, write_job
from harness.execution.process import Worker
from harness.plan import Trial
from harness.protocols import Display, Progress
from harness.types import Dataset, SparseVectors

__all__ = ["Encodings", "Vectors", "analyse"]

_SCHEME = 1
_BATCH = 2000
_JAVA = ("heap", "jar")


@dataclass(frozen=True, eq=False, slots=True)
class Vectors:
    """What an encoder made of one dataset.

    ``counts`` are the analyzer's term counts; ``documents`` and ``queries`` the BM25 vectors made of them, stored in
    ``folder``.
    """

    analyzer: str
    counts: TermCounts
    folder: Path
    documents: SparseVectors
    queries: SparseVectors


class Encodings:
    """The encodings of one dataset, made when first asked for."""

    def __init__(
        self,
        cache: Cache,
        dataset: Dataset,
        corpus: Path,
        queries: Path,
        work: Path,
        display: Display,
        deadline_s: float | None,
    ) -> None:
        """``deadline_s`` is for one analysis, as for one trial; None sets no limit."""
        self._cache, self._dataset, self._work, self._display = cache, dataset, work, display
        self._corpus, self._queries, self._deadline_s = corpus, queries, deadline_s

    def vectors(self, trial: Trial) -> Vectors | None:
        """Term counts and BM25 vectors for a trial; None for a backend whose card says that nothing encodes its input.

        Raises whatever the analyzer raises, and DataError when no document has a term: every score would be 0.
        """
        if trial.spec.card is None or trial.spec.card.encoder == "none":
            return None
        analyzer, java = str(trial.analyzer), _java(trial)
        counts_key = self._counts_key(analyzer, java)
        counts_folder = self._cache.get_or_build(
            "terms", counts_key, lambda target: self._analyse(analyzer, java, target)
        )
        counts = load_counts(counts_folder)
        if counts.documents.nnz == 0:
            raise DataError(
                f"dataset '{self._dataset.name}'",
                [f"no document has a term under the analyzer '{analyzer}'"],
                fix="choose an analyzer for the collection's language and script (analyzer=)",
            )
        k1, b = float(trial.parameters["k1"]), float(trial.parameters["b"])
        factor = bool(trial.parameters.get("k1_plus_1", False))
        key: dict[str, JSON] = {"terms": counts_key, "scheme": _SCHEME, "k1": k1, "b": b, "k1_plus_1": factor}

        def build(target: Path) -> None:
            save_sparse(target, "documents", bm25.document_weights(counts, k1=k1, b=b, k1_plus_1=factor))
            save_sparse(target, "queries", counts.queries)

        folder = self._cache.get_or_build("bm25", key, build)
        return Vectors(analyzer, counts, folder, load_sparse(folder, "documents"), load_sparse(folder, "queries"))

    def _counts_key(self, analyzer: str, java: Mapping[str, str]) -> dict[str, JSON]:
        return {
            "scheme": _SCHEME,
            "analyzer": analyzer,
            "identity": analyzer_identity(analyzer, jar=java.get("jar")),
            "documents": self._dataset.corpus.digest,
            "queries": self._dataset.queries.digest,
        }

    def _analyse(self, analyzer: str, java: Mapping[str, str], target: Path) -> None:
        folder = Path(tempfile.mkdtemp(prefix="analyse-", dir=self._work))
        write_job(folder, AnalyseJob(analyzer, str(self._corpus), str(self._queries), str(target), **java))
        Worker(folder, deadline_s=self._deadline_s).run(self._display.section(analyzer))
        self._display.done(analyzer, f"{len(self._dataset.corpus):,} documents analysed")


def analyse(job: AnalyseJob, progress: Progress) -> None:
    """Count the terms of documents and queries. Runs in a worker: the analyzer may need a JVM."""
    documents = load_table(Path(job.corpus)).column("text")
    queries = load_table(Path(job.queries)).column("text")
    batches = (documents.slice(start, _BATCH).to_pylist() for start in range(0, len(documents), _BATCH))
    analyzer = create_analyzer(job.analyzer, heap=job.heap, jar=job.jar)
    counts = count_terms(analyzer, batches, queries.to_pylist(), progress, total=len(documents))
    save_counts(Path(job.target), counts)


def _java(trial: Trial) -> dict[str, str]:
    """The backend's own heap and jar, where it has them: its terms must be those of the jar that it searches with."""
    given = {name: trial.parameters.get(name) for name in _JAVA}
    return {name: value for name, value in given.items() if isinstance(value, str) and value}
