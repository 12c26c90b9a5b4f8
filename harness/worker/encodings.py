"""Texts to vectors once per distinct encoder, shared by every backend that has it, and kept in the cache.

An entry's key holds only values that change its content: the digests of documents and queries, the analyzer with
everything that decides its terms (versions and stop words, or the jar), and for BM25 weights its parameters.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.data.dataset import Dataset
from harness.data.progress import Display
from harness.encoders import bm25
from harness.encoders.settings import Role, Settings
from harness.errors import DataError, HarnessError
from harness.plan.plan import Trial
from harness.registry.cards import FIELDS, EncoderName
from harness.registry.parameters import ParameterValue
from harness.store.cache import JSON, Cache
from harness.store.columns import load_sparse, save_rows, save_sparse
from harness.store.record_files import load, save
from harness.text import TermCounts, analyzer_identity, load_counts
from harness.text.term_texts import save_term_texts
from harness.wording import counted
from harness.worker.embeddings import CacheCheck, Embeddings, embedding_keys
from harness.worker.executor import Executor
from harness.worker.jobs import AnalysedTexts, AnalyseJob
from harness.worker.pool import WorkerPool
from harness.worker.spawn import start_next
from harness.worker.vectors import Folders, SparsePair, Terms, Vectors, both

_SCHEME = 2
_BM25 = "bm25"
_JAVA = ("heap", "jar")


@dataclass(eq=False)
class Encodings:
    """The encodings of one dataset, made at the first request.

    ``_fields`` is the file of the fields that backends search separately, None without. ``executor`` runs each analysis
    and encoding, within the limits of a trial; ``check`` verifies cached ones. ``pool`` has workers that trials share,
    and analyses too; None if they share none.
    """

    _cache: Cache
    _dataset: Dataset
    _corpus: Path
    _queries: Path
    _fields: Path | None
    _work: Path
    _display: Display
    _executor: Executor
    _check: CacheCheck
    _pool: WorkerPool | None = None
    _took_ns: dict[Path, int] = field(default_factory=dict, init=False)
    _counts: dict[Path, TermCounts] = field(default_factory=dict, init=False)
    _failed: dict[tuple[object, ...], HarnessError] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _embeddings: Embeddings | None = field(default=None, init=False)

    @property
    def embeddings(self) -> Embeddings:
        """The embeddings of models, made at the first request."""
        with self._lock:
            if self._embeddings is None:
                texts: Mapping[Role, Path] = {"documents": self._corpus, "queries": self._queries}
                self._embeddings = Embeddings(
                    self._cache, self._dataset, texts, self._work, self._display, self._executor, self._check
                )
            return self._embeddings

    def vectors(self, trial: Trial, *, weights: bool, term_texts: bool = False) -> Vectors | None:
        """Return the output of a trial's encoder: a model's vectors, or BM25 term counts with or without ``weights``.

        ``term_texts`` also stores the terms as texts, for an engine that weighs them itself. An encoder that is made of
        two makes both. None for a backend whose card says that its input is not encoded. May be called from several
        threads: a second caller waits for the lock of the cache entry. Raises the analyzer's exceptions, and DataError
        when no document has a term: every score would be 0.
        """
        terms, model = _encoders_of(trial)
        of_terms = self._term_vectors(trial, weights=weights, term_texts=term_texts) if terms else None
        of_model = self.embeddings.vectors(trial, model) if model is not None else None
        return both(of_terms, of_model) if of_terms is not None and of_model is not None else of_terms or of_model

    def _term_vectors(self, trial: Trial, *, weights: bool, term_texts: bool) -> Vectors:
        counts_key = _terms_key(trial, self._dataset)
        analyzer = str(trial.analyzer)
        fields = trial.fields if trial.parameters.get(FIELDS) else ()
        names = tuple(field.name for field in fields)
        counts_folder = self._entry(
            "terms", counts_key, lambda target: self._analyse(analyzer, names, _java(trial), target)
        )
        counts = self._counts.setdefault(counts_folder, load_counts(counts_folder))
        if fields:
            counts = replace(counts, field_weights=np.array([field.weight for field in fields]))
        if counts.documents.nnz == 0:
            raise DataError(
                f"dataset '{self._dataset.name}'",
                [f"no document has a term under the analyzer '{analyzer}'"],
                fix="choose an analyzer for the dataset's language and script (analyzer=)",
            )
        analyse_ns = self._took_ns.get(counts_folder)
        texts = None
        key: dict[str, JSON] = {"terms": counts_key, "scheme": _SCHEME}
        if term_texts:
            texts = self._entry("term-texts", key, lambda target: save_term_texts(target, counts, names))
        terms = Terms(analyzer, counts, counts_folder, texts)
        if not weights:
            return Vectors(
                _BM25, SparsePair(None, counts.queries), terms=terms, steps_ns=(analyse_ns, None), facts=_facts(terms)
            )
        k1, b = float(trial.parameters["k1"]), float(trial.parameters["b"])
        factor = bool(trial.parameters.get("k1_plus_1", False))
        key |= {"k1": k1, "b": b, "k1_plus_1": factor}

        def weigh(target: Path) -> None:
            save_rows(target, "documents", bm25.weighed_rows(counts, k1=k1, b=b, k1_plus_1=factor))
            save_sparse(target, "queries", counts.queries)

        folder = self._entry("bm25", key, weigh)
        documents = load_sparse(folder, "documents")
        return Vectors(
            _BM25,
            SparsePair(documents, counts.queries),
            folders=(Folders(folder, folder),),
            terms=terms,
            steps_ns=(analyse_ns, self._took_ns.get(folder)),
            facts=_facts(terms),
        )

    def _entry(self, kind: str, key: Mapping[str, JSON], make: Callable[[Path], int | None]) -> Path:
        """Return the cache's entry, made by ``make``, which may return its own time; all sharers get that time."""

        def timed(target: Path) -> None:
            started = time.perf_counter_ns()
            encoding_ns = make(target)
            took.append(time.perf_counter_ns() - started if encoding_ns is None else encoding_ns)

        took: list[int] = []
        folder = self._cache.get_or_build(kind, key, timed)
        if took:
            self._took_ns[folder] = took[0]
        return folder

    def _analyse(self, analyzer: str, fields: tuple[str, ...], java: Mapping[str, str], target: Path) -> int:
        attempt = (analyzer, *fields, *sorted(java.items()))
        if attempt in self._failed:  # a deadline is waited for once, not once for each backend
            raise self._failed[attempt]
        folder = Path(tempfile.mkdtemp(prefix="analyse-", dir=self._work))
        corpus = self._fields if fields and self._fields is not None else self._corpus
        save(folder, AnalyseJob(analyzer, corpus, self._queries, target, fields=fields, **java))
        start_next()
        executor = self._executor if self._pool is None else self._pool.serving(attempt)
        try:
            executor.run(folder, self._display.section(analyzer))
        except HarnessError as error:
            self._failed[attempt] = error
            raise
        self._display.done(analyzer, f"{counted(len(self._dataset.corpus), 'document')} analysed")
        return load(folder, AnalysedTexts).took_ns


def encoder_key(trial: Trial, dataset: Dataset, *, fetch: bool) -> dict[str, JSON] | None:
    """Return the key of the output of a trial's encoder; None if the card says that the input is not encoded.

    Found without analysing or encoding anything or starting a JVM; ``fetch`` downloads a hub model that is
    not there. Raises as :func:`harness.text.analyzer_identity`
    and :func:`harness.encoders.sources.encoding_key` do.
    """
    terms, model = _encoders_of(trial)
    of_terms = _terms_key(trial, dataset) if terms else None
    if model is None:
        return of_terms
    keys = embedding_keys(Settings.of(model, trial.parameters), dataset, fetch=fetch)
    of_model: dict[str, JSON] = {str(role): key for role, key in keys.items()}
    return of_model if of_terms is None else {"terms": of_terms, "model": of_model}


def _encoders_of(trial: Trial) -> tuple[bool, EncoderName | None]:
    """Return whether BM25 counts a trial's terms, and the encoder that runs its model (None without a model)."""
    card = trial.spec.card
    return (_BM25 in card.encoder.split("+"), card.model_encoder) if card is not None else (False, None)


def _terms_key(trial: Trial, dataset: Dataset) -> dict[str, JSON]:
    analyzer, jar = str(trial.analyzer), trial.parameters.get("jar")
    names = [field.name for field in trial.fields] if trial.parameters.get(FIELDS) else []
    fields: dict[str, JSON] = {"fields": [[name, dataset.field_digests[name]] for name in names]} if names else {}
    return {
        "scheme": _SCHEME,
        "analyzer": analyzer,
        "identity": analyzer_identity(analyzer, jar=str(jar) if jar else None),
        "documents": dataset.corpus.digest,
        "queries": dataset.queries.digest,
        **fields,
    }


def _facts(terms: Terms) -> dict[str, ParameterValue | None]:
    """Return the report's facts about the terms."""
    counts = terms.counts
    lengths, fields = counts.lengths, 1 if counts.field_weights is None else counts.fields
    with_terms = int(np.count_nonzero(lengths))
    return {
        "encoder": _BM25,
        "analyzer": terms.analyzer,
        "terms": int(lengths.sum()),
        "distinct_terms": len(counts.vocabulary) // fields,
        "documents_with_terms": with_terms,
        "average_length": float(lengths.sum() / with_terms) if with_terms else None,
    }


def _java(trial: Trial) -> dict[str, str]:
    """Return a backend's own heap and jar, if any: its terms must come from the jar that it searches with."""
    parameters = {name: trial.parameters.get(name) for name in _JAVA}
    return {name: value for name, value in parameters.items() if isinstance(value, str) and value}
