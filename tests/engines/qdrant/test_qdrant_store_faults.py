"""The Qdrant engine over a store that misbehaves on purpose: lost points, an optimiser without end, failing calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.index_folder import MANIFEST
from harness.engines.interface import EngineInfo, Storage
from harness.engines.qdrant.collection import Point, Vectors
from harness.engines.qdrant.engine import QdrantEngine
from harness.engines.qdrant.parameters import TERMS
from harness.errors import EngineFailureError, EngineTimeoutError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors
from harness.testing.samples import STEP_NS

DEFAULTS = find_cards("backends")["qdrant"].defaults


class Hit(NamedTuple):
    id: int
    score: float


class Record(NamedTuple):
    id: int
    vector: None = None
    payload: None = None


class FakeCollection:
    """Remembers what it was told; loses the rows in ``losing``; has ``rounds`` rounds of optimisation to do."""

    names: ClassVar[Mapping[str, str]] = {}
    info = EngineInfo("Fake", "1", "test")
    repeated = 0
    dimensions = None

    def __init__(self, losing: Sequence[int] = (), rounds: int = 0) -> None:
        self.losing, self.rounds = set(losing), rounds
        self.batches: list[tuple[int, int]] = []
        self.calls: list[str] = []

    def make(self, dimensions: int | None) -> None:
        assert dimensions is None

    def upsert(self, points: Iterable[Point], start: int, stop: int) -> None:
        assert [point.row for point in points] == list(range(start, stop))
        self.batches.append((start, stop))
        self.calls.append("upsert")

    def optimise(self) -> bool:
        self.calls.append("optimise")
        self.rounds -= 1
        return self.rounds >= 0

    def flush(self) -> None:
        self.calls.append("flush")

    def scroll(self, offset: Any, limit: int, keys: Sequence[str], vectors: Sequence[str]) -> tuple[list[Record], Any]:
        assert (offset, list(keys), vectors) == (None, [], [])
        rows = (row for start, stop in self.batches for row in range(start, stop) if row not in self.losing)
        return [Record(row) for row in rows], None

    def count(self) -> int:
        return len(self.scroll(None, 10, [], [])[0])

    def state(self) -> Mapping[str, ParameterValue]:
        return {"points": self.count()}

    def nearest(self, vectors: Vectors, k: int) -> tuple[Vectors, int]:
        return (vectors, k)

    def query(self, request: tuple[Vectors, int]) -> list[Hit]:
        vectors, k = request
        if vectors == {TERMS: ([2], [1.0])}:
            raise OSError("the engine is gone")
        return [Hit(row, 1.0 - row / 100) for row in range(min(k, 3))]

    @contextmanager
    def translated(self, doing: Callable[[], str]) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EngineFailureError(f"{doing()}: {error}") from error

    def storage(self) -> Storage:
        return Storage(1, 0)

    def close(self) -> None:
        self.calls.append("close")


def prepared(
    folder: Path, store: FakeCollection, documents: int, **changed: ParameterValue
) -> tuple[QdrantEngine, Inputs]:
    engine = QdrantEngine({**DEFAULTS, **changed})
    ids = Ids.of(f"d{row}" for row in range(documents))
    engine._collection = engine.use(store)
    engine._keep(_folder=folder, ids=ids)
    return engine, Inputs(ids, sparse=to_vectors([{row % 3: 1.0} for row in range(documents)], 3))


def test_missing_documents_are_named(tmp_path: Path) -> None:
    engine, documents = prepared(tmp_path, FakeCollection(losing=[3, 7]), 10)
    report = engine.index(documents, RecordingProgress(), StepClock())
    assert (report.sent, report.indexed, report.missing_rows.tolist()) == (10, 8, [3, 7])
    assert report.missing_rows.dtype == np.int32


def test_batches_cover_everything_once(tmp_path: Path) -> None:
    store, progress = FakeCollection(), RecordingProgress()
    engine, documents = prepared(tmp_path, store, 10, batch_size=4)
    engine.index(documents, progress, StepClock())
    assert store.batches == [(0, 4), (4, 8), (8, 10)]
    assert progress.advanced == [10, 0]
    assert progress.phases == [("index", 10), ("optimise", None)]


def test_optimises_during_ingestion_on_request(tmp_path: Path) -> None:
    store = FakeCollection()
    engine, documents = prepared(tmp_path, store, 10, batch_size=2, optimize_every=5)
    engine.index(documents, RecordingProgress(), StepClock())
    sent = ["upsert", "upsert", "upsert", "optimise", "upsert", "upsert", "optimise"]
    assert store.calls == [*sent, "optimise", "flush"]


def test_an_optimiser_without_end_meets_the_deadline(tmp_path: Path) -> None:
    store = FakeCollection(rounds=10**12)
    engine, documents = prepared(tmp_path, store, 2, optimize_timeout_s=0.05)
    with pytest.raises(EngineTimeoutError, match=r"0\.05 s"):
        engine.index(documents, RecordingProgress(), StepClock())
    assert not (tmp_path / MANIFEST).exists()


def test_rounds_within_the_deadline_are_waited_for(tmp_path: Path) -> None:
    store = FakeCollection(rounds=3)
    engine, documents = prepared(tmp_path, store, 2)
    engine.index(documents, RecordingProgress(), StepClock())
    assert store.calls.count("optimise") == 4


def test_the_query_that_failed_is_named(tmp_path: Path) -> None:
    engine, documents = prepared(tmp_path, FakeCollection(), 5)
    engine.index(documents, RecordingProgress(), StepClock())
    queries = Inputs(Ids.of(["fine", "bad"]), sparse=to_vectors([{0: 1.0}, {2: 1.0}], 3))
    with pytest.raises(EngineFailureError, match="query 'bad': the engine is gone"):
        engine.search(queries, 2, StepClock())


def test_no_more_is_asked_for_than_there_is(tmp_path: Path) -> None:
    engine, documents = prepared(tmp_path, FakeCollection(), 2)
    engine.index(documents, RecordingProgress(), StepClock())
    found = engine.search(Inputs(Ids.of(["q"]), sparse=to_vectors([{0: 1.0}], 3)), 10**12, StepClock())
    assert found.rows.tolist() == [0, 1]
    assert found.search_ns.tolist() == found.transfer_ns.tolist() == [STEP_NS]


def test_bad_documents_are_not_sent(tmp_path: Path) -> None:
    store = FakeCollection()
    engine, documents = prepared(tmp_path, store, 2)
    bad = Inputs(documents.ids, sparse=to_vectors([{0: 1.0}, {1: float("nan")}], 3))
    with pytest.raises(RejectedInputError, match="'d1' has a value that is NaN"):
        engine.index(bad, RecordingProgress(), StepClock())
    assert store.calls == []
