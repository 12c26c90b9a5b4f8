"""Fields with weights: documents of a title and a text, some of them empty, and the sum of both fields' scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.inputs import Inputs, records_of
from harness.data.types import Float64Array, Ids, TermCounts
from harness.engines.interface import EngineInterface
from harness.exact.bm25_models import Bm25Formula, Formula, formula_of
from harness.testing.expected import ExpectedScores, bm25_scores, count_words, model_scores
from harness.testing.samples import plain_ids, random_texts
from harness.testing.suite import Base, Collection, has_fields
from harness.text.field_counts import join_fields, pooled
from harness.text.term_texts import load_term_texts, save_term_texts

_DOCUMENTS = 200
_TITLES = ["" if number % 5 == 1 else text for number, text in enumerate(random_texts(41, _DOCUMENTS, longest=4))]
_TEXTS = ["" if number % 7 == 1 else text for number, text in enumerate(random_texts(42, _DOCUMENTS, longest=36))]
_FIELDS = {"title": _TITLES, "text": _TEXTS}
_QUERIES = [*random_texts(43, 20, longest=8), ""]
_BEST = 20


class FieldContract(Base):
    """Tests of fields that are searched separately, with weights."""

    @has_fields
    def test_adds_fields_with_weights(self, tmp_path: Path) -> None:
        """Documents with both fields, one field or none: the best documents and their scores, under several weights.

        Another weight changes only the search: the index opens again with it.
        """
        sample = self.sample_of_fields(_FIELDS, {"title": 3.0, "text": 0.5})
        with self.built(tmp_path, sample.documents, {"fields": "title^3+text^0.5"}) as (engine, _):
            self._search_fields(engine, sample)
        for fields, weights in (
            ("title+text", {"title": 1.0, "text": 1.0}),
            ("title^0.25+text", {"title": 0.25, "text": 1.0}),
        ):
            other = self.sample_of_fields(_FIELDS, weights)
            with self.opened(tmp_path, sample.documents.ids, {"fields": fields}) as engine:
                self._search_fields(engine, other)

    @has_fields
    def test_searches_a_single_field(self, tmp_path: Path) -> None:
        """With one field named, the other field of a document neither matches nor counts."""
        sample = self.sample_of_fields({"title": _TITLES}, {"title": 1.0})
        with self.built(tmp_path, sample.documents, {"fields": "title"}) as (engine, _):
            self._search_fields(engine, sample)

    def _search_fields(self, engine: EngineInterface, sample: Collection) -> None:
        for k in (1, _BEST, _DOCUMENTS):
            self.search_rightly(engine, sample, k)

    def sample_of_fields(self, texts: Mapping[str, Sequence[str]], weights: Mapping[str, float]) -> Collection:
        """Return documents with a text for each field, and the expected answers under the fields' weights."""
        ids = Ids.of(plain_ids(_DOCUMENTS))
        records = records_of({name: pa.chunked_array([strings(column)]) for name, column in texts.items()})
        queries = Inputs(Ids.of(f"q{n}" for n in range(len(_QUERIES))), pa.chunked_array([strings(_QUERIES)]))
        counts = _counts(texts, weights)
        with TemporaryDirectory(ignore_cleanup_errors=True) as name:
            save_term_texts(Path(name), counts, list(texts))
            of_documents, of_queries = (load_term_texts(Path(name), side) for side in ("documents", "queries"))
        documents = Inputs(ids, records, terms=of_documents)
        return Collection(documents, replace(queries, terms=of_queries), self._sum_of_fields(texts, weights, counts))

    def _sum_of_fields(
        self, texts: Mapping[str, Sequence[str]], weights: Mapping[str, float], counts: TermCounts
    ) -> ExpectedScores:
        """Return the scores by the engine's model, or else the sum of the harness's BM25 of each field."""
        formula = formula_of(self.scoring, self.parameters) if self.scoring is not None else None
        if isinstance(formula, Bm25Formula) and formula.pools_fields:
            return model_scores(pooled(counts), formula)
        parts = {name: self._scores_of_field(column, formula) for name, column in texts.items()}
        scores: Float64Array = np.sum([weights[name] * part.scores for name, part in parts.items()], axis=0)
        return ExpectedScores(scores, np.any([part.matches for part in parts.values()], axis=0))

    def _scores_of_field(self, texts: Sequence[str], formula: Formula | None) -> ExpectedScores:
        if formula is None:
            return bm25_scores(texts, _QUERIES, self.bm25)
        return model_scores(count_words(texts, _QUERIES), formula)


def _counts(texts: Mapping[str, Sequence[str]], weights: Mapping[str, float]) -> TermCounts:
    stacked = count_words([text for column in texts.values() for text in column], _QUERIES)
    return replace(join_fields(stacked, list(texts)), field_weights=np.array([weights[name] for name in texts]))
