"""Contract of changes: documents deleted, replaced and added, the hits afterwards, and refused changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import numbers
from harness.data.inputs import Inputs
from harness.data.types import Ids, Int32Array
from harness.engines.interface import EngineInterface, IndexReport, SearchResult
from harness.errors import BackendError
from harness.testing.expected import DenseSample, ExpectedScores, dense_scores
from harness.testing.mapped_samples import mapped
from harness.testing.samples import STEP_NS, RecordingProgress, StepClock, random_texts, word
from harness.testing.suite import Base, Collection, assert_scores, has_changes, has_terms, offers, recall

_FIRST, _ALL = 60, 90
"""Documents from which the index is built, and all contents."""
_DELETED = np.array([0, 7, 20, 59], dtype=np.int32)
_REPLACED = np.array([3, 11, 40], dtype=np.int32)
_ADDED = np.arange(_FIRST, _FIRST + 5, dtype=np.int32)
_NO_ROWS = np.empty(0, dtype=np.int32)
_COMPRESSED = 1e-3
"""Tolerance above which vectors count as compressed, by codes that were trained only on the first documents."""
_DECODED = 2e-6
"""Tolerance for scores of vectors that the engine returns as it compares them."""
_QUERIES = [word(0), f"{word(1)} {word(2)}", f"{word(3)} {word(5)} {word(8)}", word(2)]


class ChangeContract(Base):
    """An index of 60 documents; 4 are deleted, 3 are replaced and 5 are added."""

    unchangeable: ClassVar[str | None] = None
    """The engine's reason why an index under ``parameters`` cannot be changed; None if it can."""

    def __init_subclass__(cls) -> None:
        """Leave out the tests that change an index if the engine does not allow changes."""
        super().__init_subclass__()
        if cls.unchangeable is not None:
            for name in _CHANGING:
                setattr(cls, name, None)

    @has_changes
    def test_says_whether_it_can_be_changed(self, tmp_path: Path) -> None:
        """The engine gives its reason, and refuses a change."""
        sample = self._changing()
        with self.built(tmp_path, _first(sample)) as (engine, _):
            assert engine.unchangeable() == self.unchangeable
            if self.unchangeable is not None:
                with pytest.raises(BackendError, match=re.escape(self.unchangeable)):
                    _apply(engine, sample, [1])

    def test_changes_is_what_the_class_is(self) -> None:
        """``changes`` is declared if and only if ``apply`` exists."""
        declared, offered = self.engine.capabilities.changes, offers(self.engine, "apply")
        assert declared == offered, "'changes' is declared without 'apply', or the other way round"

    @has_changes
    def test_finds_what_is_there_after_a_change(self, tmp_path: Path) -> None:
        """Deleted documents are gone; replaced documents are found by their new content, and added documents too."""
        sample = self._changing()
        with self._changed(tmp_path, sample) as (engine, report, content):
            assert report.sent == np.count_nonzero(content >= 0), (
                f"{report.sent} documents, not {np.count_nonzero(content >= 0)}, are to be held"
            )
            assert report.indexed == report.sent - len(report.missing_rows), "indexed and missing rows do not add up"
            assert report.index_ns > 0, "changing took no time"
            assert report.ready_ns >= 0, "getting ready took negative time"
            assert report.index_ns % STEP_NS == report.ready_ns % STEP_NS == 0, "times are not from the clock handed in"
            self._assert_retrieved(engine, sample, content)

    @has_changes
    def test_a_change_follows_a_change(self, tmp_path: Path) -> None:
        """A replaced document is deleted; a deleted document comes back with other content, in its own row."""
        sample = self._changing()
        with self._changed(tmp_path, sample) as (engine, _, content):
            back = np.array([7, 61], dtype=np.int32)
            content[[3, 40]], content[back] = -1, [80, 81]
            _apply(engine, sample, [3, 40], back, content[back])
            self._assert_retrieved(engine, sample, content)

    @has_changes
    def test_deletes_alone_and_writes_alone(self, tmp_path: Path) -> None:
        """Deletions or additions may be empty."""
        sample = self._changing()
        with self.built(tmp_path, _first(sample)) as (engine, _):
            content = np.arange(_FIRST, dtype=np.int32)
            content[[1, 2]] = -1
            _apply(engine, sample, [1, 2])
            self._assert_retrieved(engine, sample, content)
            content[[5]] = 70
            _apply(engine, sample, [], np.array([5], dtype=np.int32), content[[5]])
            self._assert_retrieved(engine, sample, content)

    @has_changes
    def test_an_index_can_lose_everything_and_get_it_back(self, tmp_path: Path) -> None:
        """An empty index returns no hits."""
        sample = self._changing()
        content, rows = np.full(_FIRST, -1, dtype=np.int32), np.arange(_FIRST, dtype=np.int32)
        with self.built(tmp_path, _first(sample)) as (engine, _):
            _apply(engine, sample, rows.tolist())
            result = self.search(engine, sample.queries, _FIRST, 10)
            assert not len(result.rows), "an empty index has hits"
            _assert_compared(engine, sample, content, result)
            _apply(engine, sample, [], rows[:5], rows[:5])
            content[:5] = rows[:5]
            self._assert_retrieved(engine, sample, content)

    @has_changes
    def test_a_changed_index_opens_again(self, tmp_path: Path) -> None:
        """The change is in the index: closed and opened again, with the ids of all rows, it finds the same documents.

        Scores may differ: statistics can then forget deleted documents.
        """
        sample = self._changing()
        with self._changed(tmp_path, sample) as (_, _, content):
            pass
        with self.opened(tmp_path, Ids(sample.documents.ids.values.slice(0, len(content)))) as engine:
            self._assert_retrieved(engine, sample, content)

    @has_changes
    def test_refuses_changes_that_cannot_be(self, tmp_path: Path) -> None:
        """Ids deleted twice, unknown, or both deleted and written are refused, and nothing is changed."""
        sample = self._changing()
        with self._changed(tmp_path, sample) as (engine, _, content):
            written = np.array([5], dtype=np.int32)
            for deleted in (0, _ALL - 1, 5):
                with pytest.raises(BackendError):
                    _apply(engine, sample, [deleted], written, written)
                self._assert_retrieved(engine, sample, content)

    @has_changes
    def test_refuses_to_change_an_index_with_metadata(self, tmp_path: Path) -> None:
        """A change of an index with metadata is refused: a filter would select other documents."""
        sample = self._changing()
        if not self.engine.capabilities.filters:
            return
        colours = pa.table({"colour": ["red"] * _FIRST})
        coloured = replace(_first(sample), metadata=colours)
        with self.built(tmp_path, coloured) as (engine, _), pytest.raises(BackendError, match="metadata"):
            _apply(engine, sample, [1])

    @has_changes
    def test_what_remains_are_rows_of_deleted_content(self, tmp_path: Path) -> None:
        """Remains name rows whose content was written before and then deleted, and an order of the documents held."""
        sample = self._changing()
        with self._changed(tmp_path, sample) as (engine, report, content):
            rows, written, order = (getattr(engine.remains(), name) for name in ("rows", "written", "order"))
            if rows is not None:
                assert set(rows.tolist()) <= {*_DELETED.tolist(), *_REPLACED.tolist()}, "an untouched row"
                assert written is not None, "their order of writing is unknown"
                assert set(written.tolist()) <= {0}, "written by the change that deleted them"
            if order is not None:
                present = np.setdiff1d(np.flatnonzero(content >= 0), report.missing_rows)
                assert np.array_equal(np.sort(order), present), "the order does not name each document once"

    def _changing(self) -> Collection:
        return self.collection(random_texts(61, _ALL), _QUERIES)

    @contextmanager
    def _changed(self, folder: Path, sample: Collection) -> Iterator[tuple[EngineInterface, IndexReport, Int32Array]]:
        with self.built(folder, _first(sample)) as (engine, _):
            content = np.arange(_FIRST + len(_ADDED), dtype=np.int32)
            content[_DELETED], content[_REPLACED] = -1, [70, 71, 72]
            rows = np.concatenate([_REPLACED, _ADDED])
            yield engine, _apply(engine, sample, _DELETED.tolist(), rows, content[rows]), content

    def _assert_retrieved(self, engine: EngineInterface, sample: Collection, content: Int32Array) -> None:
        """Check which documents are found: the matching documents if terms decide, else the best by their scores.

        ``content`` is the content of each row, as a row of the sample; -1 for a deleted document.
        """
        result = self.search(engine, sample.queries, len(content), len(content))
        gone = np.setdiff1d(result.rows, np.flatnonzero(content >= 0))
        assert len(gone) == 0, f"deleted documents were returned: {gone.tolist()}"
        scores, matches, scale = sample.expected
        matches = matches[:, content] & (content >= 0)
        if not has_terms(self.engine.capabilities):
            expected = ExpectedScores(scores[:, content], matches, scale)
            if self.engine.capabilities.input == "dense" and self.tolerance < _COMPRESSED:
                assert_scores(result, expected, self.tolerance)
            _assert_compared(engine, sample, content, result)
            share = recall(self.search(engine, sample.queries, len(content), 10), expected, 10)
            assert share >= (1.0 if self.engine.capabilities.exact else self.minimum_recall), f"recall {share}"
            return
        for query, matching in enumerate(matches):
            hits = result.rows[int(result.indptr[query]) : int(result.indptr[query + 1])]
            matching_rows = np.flatnonzero(matching)
            assert np.array_equal(np.sort(hits), matching_rows), (
                f"query {query}: rows {np.setxor1d(hits, matching_rows).tolist()} are found and do not match, or "
                "the reverse"
            )


_CHANGING = [
    name
    for name in vars(ChangeContract)
    if name.startswith("test_")
    and name not in ("test_changes_is_what_the_class_is", "test_says_whether_it_can_be_changed")
]


def _assert_compared(engine: EngineInterface, sample: Collection, content: Int32Array, result: SearchResult) -> None:
    """Check that an engine that compares other vectors than it was sent has a vector for every row and scores by it."""
    compared = engine.compared_vectors(mapped(sample.queries))
    if compared is None:
        return
    assert len(compared.documents) == len(content), f"{len(compared.documents)} vectors for {len(content)} rows"
    present = content >= 0
    expected = dense_scores(DenseSample(compared.documents[present], compared.queries), compared.similarity)
    assert_scores(result._replace(rows=(np.cumsum(present) - 1)[result.rows]), expected, _DECODED)


def _first(sample: Collection) -> Inputs:
    return sample.documents.slice(0, _FIRST)


def _apply(
    engine: EngineInterface,
    sample: Collection,
    deleted: list[int],
    rows: Int32Array = _NO_ROWS,
    content: Int32Array = _NO_ROWS,
) -> IndexReport:
    ids = sample.documents.ids
    written = replace(mapped(sample.documents).take(content), ids=Ids(ids.values.take(numbers(rows))))
    return engine.apply(Ids.of(ids[row] for row in deleted), written, RecordingProgress(), StepClock())
