"""What an engine that declares filters must do: return documents that match, all of them, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import strings
from harness.data.filtering import BoolArray
from harness.engines.interface import Capabilities, EngineProtocol, Filtering
from harness.errors import RejectedInputError
from harness.testing.base import Base, Collection, only_where
from harness.testing.samples import random_texts, word
from harness.testing.verdicts import assert_scores

__all__ = ["FilterContract"]

_DOCUMENTS = 240
_K = 20
_COLOURS = ("red", "red", "red", "Red", "blue", "dark red", "\u7ea2", None)
_SIZES = ("1", "1", "1", "01", "1.0", "true", None)
_TEXTS = random_texts(31, _DOCUMENTS)
_QUERIES = [word(n) for n in range(6)]
_FILTERS: tuple[Mapping[str, str], ...] = (
    {"colour": "red"},
    {"colour": "dark red"},
    {"colour": "\u7ea2"},
    {"size.mm [x]": "1"},
    {"size.mm [x]": "true"},
    {"colour": "red", "size.mm [x]": "1"},
)


def _filters(capabilities: Capabilities) -> bool:
    return capabilities.filters


class FilterContract(Base):
    """Each document has one of five colours and one of four sizes, or lacks them."""

    def test_filters_is_what_the_class_is(self) -> None:
        """Declaring ``filters`` and having ``restrict`` go together."""
        declared, there = self.engine.capabilities.filters, hasattr(self.engine, "restrict")
        assert declared == there, "'filters' is declared without 'restrict', or the other way round"

    @only_where(_filters)
    def test_returns_what_matches(self, tmp_path: Path) -> None:
        """The best k of the documents that match, with the scores that they have without a filter; and all for none.

        Each filter takes the place of the one before. Scores of an engine that fuses lists are those of the fused lists
        without the others.
        """
        sample = self._sample()
        with self.built(tmp_path, sample.documents) as (engine, _):
            assert isinstance(engine, Filtering)
            for wanted in _FILTERS:
                engine.restrict(wanted)
                only = self._only(sample, wanted)
                try:
                    for k in (1, _K, _DOCUMENTS):
                        self._search_filtered(engine, only, k, fields=len(wanted))
                except AssertionError as error:
                    error.add_note(f"filtered by {dict(wanted)}")
                    raise
            engine.restrict({})
            self.search_rightly(engine, sample, _K)

    @only_where(_filters)
    def test_filters_when_opened_again(self, tmp_path: Path) -> None:
        """The fields are in the index: it is filtered by them when it is closed and opened again."""
        sample, wanted = self._sample(), {"colour": "blue"}
        with self.built(tmp_path, sample.documents):
            pass
        with self.opened(tmp_path, sample.documents.ids) as engine:
            assert isinstance(engine, Filtering)
            engine.restrict(wanted)
            self.search_rightly(engine, self._only(sample, wanted), _K)

    @only_where(_filters)
    def test_refuses_a_field_that_it_does_not_hold(self, tmp_path: Path) -> None:
        """A field that was not indexed is refused: it would match nothing, silently."""
        sample = self._sample()
        with self.built(tmp_path, sample.documents) as (engine, _):
            assert isinstance(engine, Filtering)
            with pytest.raises(RejectedInputError, match="shape"):
                engine.restrict({"shape": "round"})

    def _search_filtered(self, engine: EngineProtocol, sample: Collection, k: int, *, fields: int) -> None:
        """A graph may lose more of a combination of fields than its recall elsewhere allows; it must find some."""
        if self.engine.capabilities.exact or fields == 1:
            self.search_rightly(engine, sample, k)
            return
        found = self.search(engine, sample.queries, _DOCUMENTS, k)
        assert_scores(found, sample.expected, self.tolerance)
        assert np.all(np.diff(found.indptr) > 0), "a query has no hits, and documents match the filter"

    def _sample(self) -> Collection:
        sample = self.collection(_TEXTS, _QUERIES)
        chance = np.random.default_rng(32)
        columns = {
            name: strings(values[n] for n in chance.integers(len(values), size=_DOCUMENTS))
            for name, values in (("colour", _COLOURS), ("size.mm [x]", _SIZES))
        }
        return sample._replace(documents=replace(sample.documents, metadata=pa.table(columns)))

    def _only(self, sample: Collection, wanted: Mapping[str, str]) -> Collection:
        left = _matching(sample, wanted)
        if self.engine.capabilities.input == "hybrid":
            lists = self.expected_lists(_TEXTS, _QUERIES)
            fused = self.expected_fusion([one._replace(matches=one.matches & left) for one in lists])
            return sample._replace(expected=fused)
        return sample._replace(expected=sample.expected._replace(matches=sample.expected.matches & left))


def _matching(sample: Collection, wanted: Mapping[str, str]) -> BoolArray:
    table = sample.documents.metadata
    assert table is not None
    return np.array([all(row[name] == value for name, value in wanted.items()) for row in table.to_pylist()])
