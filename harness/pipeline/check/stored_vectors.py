"""Test whether the vectors of an index were made by the model that encodes its questions.

An index of another model of as many dimensions answers without an error, and wrongly. So some of its texts are encoded
again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings, take_rows
from harness.data.dataset import Dataset
from harness.data.problems import Finding
from harness.data.progress import Display
from harness.data.texts import content_digest
from harness.data.types import Corpus, Float32Array, Float64Array, Ids, Queries, SparseVectors
from harness.encoders.settings import Role, Settings
from harness.engines.interface import StoredDocuments
from harness.errors import HarnessError
from harness.exact.encoding import widen
from harness.plan.config import RunOptions
from harness.plan.plan import Trial
from harness.registry.cards import EncoderName
from harness.results.schema import TruncationStats
from harness.results.truncation import stats_of_texts
from harness.store.cache import Cache
from harness.store.cache_entries import COMPARISON, WORK
from harness.store.columns import save_table
from harness.store.scratch import scratch_folder
from harness.wording import counted
from harness.worker.embeddings import CacheCheck, Embeddings
from harness.worker.executor import create_executor
from harness.worker.jobs import ExternalIndexRecord
from harness.worker.outcome import Outcome
from harness.worker.vectors import Vectors

_ALIKE = 0.99
"""Half precision leaves 0.999 and more. A text that was cut elsewhere, or had another prompt, is below."""
_MAX_EXAMPLES = 5
_SAMPLED = "only a sample of the index was encoded again"
_UNCOMPARED = "its vectors were not compared with the model's vectors"


class VectorComparison(NamedTuple):
    """A statement on the vectors of an index: a warning, or a note if nothing is wrong or no model is named.

    ``truncation`` is how much the model reads of the texts that were encoded again, None if none were.
    """

    finding: Finding | None = None
    note: str | None = None
    truncation: TruncationStats | None = None


class _Texts(NamedTuple):
    """Texts with the vectors that the index has of them; ``locations`` say where the texts come from."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    vectors: Float32Array | SparseVectors
    locations: tuple[str, ...]


class ModelComparison:
    """Encodes texts of indexes again. ``corpora`` are documents by name, for indexes that keep no texts."""

    def __init__(
        self,
        queries: Queries,
        corpora: Mapping[str, Corpus],
        execution: RunOptions,
        cache: Cache,
        display: Display,
    ) -> None:
        self._queries, self._corpora = queries, corpora
        self._execution, self._cache, self._display = execution, cache, display

    def compare(self, outcome: Outcome) -> VectorComparison:
        """Return the evidence about the model in the vectors of an index that was searched without its collection."""
        trial, record = outcome.trial, outcome.record
        encoder = trial.spec.card.model_encoder if trial.spec.card is not None else None
        if encoder is None or record is None or record.external is None:
            return VectorComparison()
        texts = self._texts(record.external)
        if isinstance(texts, str):
            return _unknown(texts)
        if Settings.of(encoder, trial.parameters).source.kind == "precomputed":
            return VectorComparison(
                note=f"{_UNCOMPARED}: its questions have precomputed vectors, and no model encodes its texts"
            )
        try:
            vectors = self._encode(_limit_calls(trial, outcome.vectors), encoder, texts)
        except HarnessError as error:
            return _unknown(f"its texts could not be encoded again: {error.problem}")
        documents = next(part for part in vectors.texts if part.role == "documents")
        of_index = documents._replace(number=len(record.external.ids), unknown=_SAMPLED)
        judged = _judged(texts, _cosines(texts.vectors, _document_vectors(vectors)))
        return judged._replace(truncation=stats_of_texts(of_index))

    def _texts(self, external: ExternalIndexRecord) -> _Texts | str:
        """Return the documents of the sample that have a text, or why there are none."""
        sample = external.sample
        if sample is None or not len(sample.rows):
            return "the index gives none of them back"
        ids = Ids.of(external.ids.take(sample.rows))
        texts, locations = self._find_texts(sample, ids)
        numbers = [number for number, text in enumerate(texts) if text is not None and text.strip()]
        if not numbers:
            return "no texts of its documents are known"
        rows = np.array(numbers, dtype=np.int32)
        vectors = sample.sparse.take(rows) if sample.sparse is not None else sample.dense
        if vectors is None:
            raise AssertionError("an index gave documents back without their vectors")
        return _Texts(
            tuple(ids.take(rows)),
            tuple(texts[number] or "" for number in numbers),
            vectors if isinstance(vectors, SparseVectors) else vectors[rows],
            tuple(dict.fromkeys(locations[number] for number in numbers)),
        )

    def _find_texts(self, sample: StoredDocuments, ids: Ids) -> tuple[list[str | None], list[str]]:
        """Return the text of each document, from the index or else from a corpus, and its source."""
        texts, locations = list(sample.texts), [sample.text_source] * len(ids)
        for name, corpus in self._corpora.items():
            rows = corpus.ids.rows_of(ids)
            for number in np.flatnonzero(rows >= 0).tolist():
                if texts[number] is None:
                    (texts[number],) = take_rows(corpus.texts, rows[number : number + 1]).to_pylist()
                    locations[number] = f"the corpus '{name}'"
        return texts, locations

    def _encode(self, trial: Trial, encoder: EncoderName, sample: _Texts) -> Vectors:
        ids, texts = Ids.of(sample.ids), pa.chunked_array([strings(sample.texts)])
        documents = Corpus(ids, texts, content_digest(ids, texts))
        dataset = Dataset(f"{trial.spec.name} sample", documents, self._queries, None)
        with scratch_folder(self._cache.folder(WORK), COMPARISON) as work:
            files: Mapping[Role, Path] = {"documents": work / "documents.arrow", "queries": work / "queries.arrow"}
            save_table(files["documents"], pa.table({"id": ids.values, "text": texts}))
            save_table(files["queries"], pa.table({"id": self._queries.ids.values, "text": self._queries.texts}))
            executor = create_executor(self._execution)
            embeddings = Embeddings(self._cache, dataset, files, work, self._display, executor, CacheCheck())
            return embeddings.vectors(trial, encoder)


def _document_vectors(vectors: Vectors) -> Float32Array | SparseVectors:
    if vectors.dense is not None:
        return vectors.dense.documents
    if vectors.sparse is not None and vectors.sparse.documents is not None:
        return vectors.sparse.documents
    raise AssertionError("a model that gives no vectors of documents")


def _limit_calls(trial: Trial, spent: Vectors | None) -> Trial:
    """Return the trial with the calls of an endpoint that encoding the questions left of --max-calls."""
    allowed = int(trial.parameters.get("max_calls", -1))
    made = int(spent.facts.get("calls") or 0) if spent is not None else 0
    if allowed < 0 or not made:
        return trial
    return replace(trial, parameters={**trial.parameters, "max_calls": max(0, allowed - made)})


def _cosines(stored: Float32Array | SparseVectors, made: Float32Array | SparseVectors) -> Float64Array:
    """Return the cosine of each pair of rows, float64 (n,); 0 for zeros, and if one is sparse and one dense."""
    if isinstance(stored, SparseVectors) and isinstance(made, SparseVectors):
        width = max(stored.dimensions, made.dimensions)
        old, new = (widen(vectors, width).to_scipy().astype(np.float64) for vectors in (stored, made))
        products = np.asarray(old.multiply(new).sum(axis=1)).ravel()
        lengths = [np.sqrt(np.asarray(side.power(2).sum(axis=1)).ravel()) for side in (old, new)]
    elif isinstance(stored, np.ndarray) and isinstance(made, np.ndarray):
        left, right = stored.astype(np.float64), made.astype(np.float64)
        products = (left * right).sum(axis=1)
        lengths = [np.linalg.norm(side, axis=1) for side in (left, right)]
    else:
        return np.zeros(len(stored))
    size = lengths[0] * lengths[1]
    cosines: Float64Array = np.divide(products, size, out=np.zeros(len(size)), where=size > 0)
    return cosines


def _judged(sample: _Texts, cosines: Float64Array) -> VectorComparison:
    texts, low = counted(len(cosines), "text"), np.flatnonzero(cosines < _ALIKE)
    lowest, median = float(cosines.min()), float(np.median(cosines))
    if not len(low):
        return VectorComparison(
            note=f"{texts} of the index {'was' if len(cosines) == 1 else 'were'} encoded again: the lowest cosine with "
            f"the stored vectors is {lowest:.4f}"
        )
    worst = low[np.argsort(cosines[low], kind="stable")]
    return VectorComparison(
        Finding(
            "stored-vectors",
            "warning",
            f"{len(low)} of {texts} that were encoded again have other vectors in the index: the lowest cosine is "
            f"{lowest:.3f}, the median {median:.3f}",
            "name the model that made the index (model=), with its prompt of documents, max_seq_length and "
            f"truncate_dim; if texts other than those of {' and '.join(sample.locations)} were encoded, this is not an "
            "error",
            tuple(f"document '{sample.ids[row]}': {cosines[row]:.3f}" for row in worst[:_MAX_EXAMPLES].tolist()),
        )
    )


def _unknown(reason: str) -> VectorComparison:
    return VectorComparison(
        Finding(
            "vectors-not-compared",
            "warning",
            f"{_UNCOMPARED}: {reason}",
            "make sure that model= names the model that made the index, because another model with as many "
            "dimensions answers without an error; or name the location of its texts: --corpus, or a parameter of "
            "the backend",
        )
    )
