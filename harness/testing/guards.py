"""What an engine could get wrong without a wrong answer: times, lost documents, a library that fails half-way.

Each test puts something between the base class and the hooks of the engine, so it means nothing for a class that does
not subclass :class:`harness.engines.base.Engine`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from harness.engines.base import Engine, LoadedIndex
from harness.engines.interface import EngineProtocol
from harness.errors import EngineFailureError, LostDocumentsError
from harness.testing.base import Base, Collection, only_for
from harness.testing.drive import RecordingProgress
from harness.testing.samples import random_texts, word

__all__ = ["GuardContract"]

T = TypeVar("T", bound=Callable[..., None])
_LOADING_NS, _READING_NS = 7_000_000_000_000, 11_000_000_000_000
"""Far longer than anything here takes."""


def _guarded(engine: type[EngineProtocol]) -> bool:
    return isinstance(engine, type) and issubclass(engine, Engine)


class _Clock:
    """A clock that moves on by a nanosecond with every reading, and by as much as a hook is told to take."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 1
        return self.now_ns


class GuardContract(Base):
    """The guards of the base class hold whatever the engine overrides."""

    def fault(self) -> Exception:
        """Return an exception of the engine's library; override it where the engine translates errors itself."""
        return self.guarded.faults[0]("out of luck")

    @property
    def guarded(self) -> type[Engine[Any]]:
        """The class under test, which subclasses the base class."""
        assert issubclass(self.engine, Engine)
        return self.engine

    def changed(self, **members: Any) -> Engine[Any]:  # noqa: ANN401 - methods
        """Return an engine, not yet open, of a subclass with these members."""
        engine: Engine[Any] = type("Changed", (self.engine,), members)(dict(self.parameters))
        return engine

    def sample(self) -> Collection:
        """Return documents of which each query finds some."""
        return self.collection(random_texts(6, 40), [word(0), word(1)])

    @only_for(_guarded)
    def test_times_are_those_of_the_hooks(self, tmp_path: Path) -> None:
        """Getting ready is not ingestion, and making arrays of an answer is transfer, not search."""
        sample, clock, kind = self.sample(), _Clock(), self.guarded

        def load(engine: Engine[Any], folder: Path) -> LoadedIndex:
            clock.now_ns += _LOADING_NS
            return kind.load(engine, folder)

        def columns(engine: Engine[Any], answer: Any) -> Any:  # noqa: ANN401 - of the client
            clock.now_ns += _READING_NS
            return kind.columns(engine, answer)

        engine = self.changed(load=load, columns=columns)
        try:
            engine.open(tmp_path, sample.documents.ids)
            report = engine.index(sample.documents, RecordingProgress(), clock)
            found = engine.search(sample.queries, 3, clock)
        finally:
            engine.close()
        assert report.index_ns < _LOADING_NS <= report.ready_ns, "getting ready is counted as ingestion"
        shared = len(sample.queries) if found.queries_per_call > 1 else 1
        assert (found.search_ns * shared < _READING_NS).all(), "transfer is counted as search"
        assert (found.transfer_ns * shared >= _READING_NS).all(), "transfer is not counted"

    @only_for(_guarded)
    def test_a_document_lost_before_reopening_is_noticed(self, tmp_path: Path) -> None:
        """An index that holds fewer documents than when it was finished is not opened again."""
        sample, kind = self.sample(), self.guarded
        with self.built(tmp_path, sample.documents):
            pass

        def load(engine: Engine[Any], folder: Path) -> LoadedIndex:
            whole = kind.load(engine, folder)
            return replace(whole, documents=whole.documents - 1)

        engine = self.changed(load=load)
        try:
            with pytest.raises(LostDocumentsError):
                engine.open(tmp_path, sample.documents.ids)
        finally:
            engine.close()

    @only_for(_guarded)
    def test_a_library_that_fails_names_the_query(self, tmp_path: Path) -> None:
        """What the library raises for one query of several leaves the engine as a failure that names this query."""
        sample, kind, calls = self.sample(), self.guarded, list[int]()

        def retrieve(engine: Engine[Any], query: Any, k: int) -> Any:  # noqa: ANN401 - of the client
            calls.append(k)
            if len(calls) > 1:
                raise self.fault()
            return kind.retrieve(engine, query, k)

        engine = self.changed(retrieve=retrieve)
        try:
            engine.open(tmp_path, sample.documents.ids)
            engine.index(sample.documents, RecordingProgress(), _Clock())
            with pytest.raises(EngineFailureError, match=f"'{sample.queries.ids[1]}'"):
                engine.search(sample.queries, 3, _Clock())
        finally:
            engine.close()
