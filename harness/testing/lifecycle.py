"""The life of an engine: declared, opened, indexed, reopened, closed, damaged, two at once; its times and failures."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from harness.data.types import Ids
from harness.engines.base import Engine, LoadedIndex
from harness.engines.interface import Capabilities, EngineInfo, EngineInterface, IndexReport, InputKind, Storage
from harness.errors import (
    BackendError,
    EngineFailureError,
    EngineUnavailableError,
    HarnessError,
    LostDocumentsError,
    RejectedInputError,
)
from harness.testing.samples import ODD_IDS, STEP_NS, RecordingProgress, StepClock, random_texts, word
from harness.testing.suite import Base, Collection, assert_same, has_terms, only_for, run_if

REQUIRED = frozenset(
    {
        "test_closes_twice",
        "test_counts_what_it_holds",
        "test_declares_the_required_minimum",
        "test_external_index_is_left_as_it_was",
        "test_external_is_what_the_class_is",
        "test_finds_the_right_documents",
        "test_has_the_methods_of_the_protocol",
        "test_names_itself",
        "test_pads_nothing",
        "test_refuses_k_below_one",
        "test_reopens",
    }
)
"""Tests that no engine may declare as a gap."""

_METHODS = ("__init__", "open", "index", "search", "storage", "close")
_TEXTS = [f"{word(1)} {word(2)}", f"{word(2)} {word(3)} {word(3)}", word(3), f"{word(1)} {word(1)}"]
_QUERIES = [word(1), f"{word(2)} {word(3)}", word(3)]
_LOADING_NS, _READING_NS = 7_000_000_000_000, 11_000_000_000_000
"""Times far above the duration of any test, in nanoseconds."""


class LifecycleContract(Base):
    """Tests of everything except the answers themselves."""

    def test_has_the_methods_of_the_protocol(self) -> None:
        """Each method exists, with the protocol's parameter names in their order."""
        assert issubclass(self.engine, EngineInterface), "the class does not subclass harness.engines.base.Engine"
        for name in _METHODS:
            parameter_names = list(inspect.signature(getattr(EngineInterface, name)).parameters)
            method = getattr(self.engine, name, None)
            assert callable(method), f"method '{name}' is missing"
            assert list(inspect.signature(method).parameters) == parameter_names, (
                f"'{name}' takes other parameters than {parameter_names}"
            )

    def test_declares_the_required_minimum(self) -> None:
        """Capabilities are declared on the class, including reopening, and gaps name tests that may be gaps."""
        declared = self.engine.capabilities
        assert isinstance(declared, Capabilities), "'capabilities' is not a Capabilities"
        assert declared.input in get_args(InputKind), f"unknown kind of input '{declared.input}'"
        assert declared.reopens, "every engine must be able to open its index again"
        tests = {name for name in dir(self) if name.startswith("test_") and callable(getattr(self, name))}
        unknown = sorted(set(declared.gaps) - tests)
        assert not unknown, f"gaps that name no test of the suite: {unknown}"
        forbidden = sorted(set(declared.gaps) & REQUIRED)
        assert not forbidden, f"these tests cannot be gaps: {forbidden}"
        assert all(reason.strip() for reason in declared.gaps.values()), "a gap has no reason"

    def test_names_itself(self, tmp_path: Path) -> None:
        """``open`` returns the engine's name, version and mode, none of them empty."""
        engine = self.engine(dict(self.parameters))
        info = engine.open(tmp_path, Ids.of(["a"]))
        engine.close()
        assert isinstance(info, EngineInfo), "'open' does not return an EngineInfo"
        assert all(part.strip() for part in (info.name, info.version, info.mode)), f"a part of {info} is empty"

    def test_constructor_does_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Making an engine creates no file; closing one that was never opened does nothing."""
        monkeypatch.chdir(tmp_path)
        self.engine(dict(self.parameters)).close()
        assert not list(tmp_path.iterdir()), "the constructor wrote files"

    def test_counts_what_it_holds(self, tmp_path: Path) -> None:
        """The report adds up: sent, indexed and missing rows, times from the injected clock, a flat state."""
        sample = self.collection([*_TEXTS, ""], _QUERIES)
        with self.built(tmp_path, sample.documents) as (_, report):
            assert isinstance(report, IndexReport), "'index' does not return an IndexReport"
            assert report.sent == len(sample.documents), f"{report.sent} documents sent, not {len(sample.documents)}"
            missing = report.missing_rows
            assert missing.dtype == np.int32, f"missing_rows are {missing.dtype}, not int32"
            assert report.indexed == report.sent - len(missing), "indexed and missing rows do not add up to sent"
            may_miss = {len(_TEXTS)} if has_terms(self.engine.capabilities) else set()
            assert set(missing.tolist()) <= may_miss, f"rows {missing.tolist()} are missing; only {may_miss} may be"
            assert report.index_ns > 0, "indexing took no time"
            assert report.ready_ns >= 0, "getting ready took negative time"
            assert report.index_ns % STEP_NS == report.ready_ns % STEP_NS == 0, "times are not from the clock handed in"
            assert all(isinstance(value, str | int | float | bool) for value in report.state.values()), report.state
            assert report.state, "the engine says nothing about its index"
            json.dumps(dict(report.state), allow_nan=False)

    def test_reports_progress(self, tmp_path: Path) -> None:
        """Some phase of indexing announces and reaches the number of documents, and no phase exceeds its total."""
        sample = self.collection(random_texts(1, 150), [word(0)])
        progress = RecordingProgress()
        with self.opened(tmp_path, sample.documents.ids) as engine:
            self.send(engine, sample.documents, progress)
        totals = [total for _, total in progress.phases]
        assert len(sample.documents) in progress.advanced, f"no phase advanced by {len(sample.documents)} documents"
        stated = totals[progress.advanced.index(len(sample.documents))]
        assert stated == len(sample.documents), "its total was not reported"
        beyond = [total is not None and done > total for total, done in zip(totals, progress.advanced, strict=True)]
        assert not any(beyond), "a phase advanced beyond its total"

    def test_takes_space(self, tmp_path: Path) -> None:
        """``storage`` of an index is a positive whole number of bytes; the log may be empty.

        Only a server may leave the size of its index unknown.
        """
        sample = self.collection(_TEXTS, _QUERIES)
        engine = self.engine(dict(self.parameters))
        try:
            info = engine.open(tmp_path, sample.documents.ids)
            self.send(engine, sample.documents)
            storage = engine.storage()
        finally:
            engine.close()
        assert isinstance(storage, Storage), "'storage' does not return a Storage"
        if storage.index_bytes is None:
            assert info.is_server, f"an engine in mode '{info.mode}' does not know the size of its index"
            return
        assert type(storage.index_bytes) is type(storage.log_bytes) is int, "bytes are not whole numbers"
        assert storage.index_bytes > 0, "the index takes no space"
        assert storage.log_bytes >= 0, "the log takes negative space"

    def test_indexes_only_once(self, tmp_path: Path) -> None:
        """A second ``index`` on the same folder is refused: it would silently double or replace documents."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.built(tmp_path, sample.documents) as (engine, _), pytest.raises(BackendError):
            self.send(engine, sample.documents)

    def test_refuses_to_index_nothing(self, tmp_path: Path) -> None:
        """An index of no documents is refused, because libraries treat it differently."""
        nothing = self.collection(_TEXTS, _QUERIES).documents.slice(0, 0)
        with pytest.raises(RejectedInputError), self.built(tmp_path, nothing):
            pass

    def test_searches_nothing_before_indexing(self, tmp_path: Path) -> None:
        """A search before ``index`` raises EngineUnavailableError in every engine, and does not return nothing."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.opened(tmp_path, sample.documents.ids) as engine, pytest.raises(EngineUnavailableError):
            self.query(engine, sample.queries, 3)

    def test_reopens(self, tmp_path: Path) -> None:
        """A closed index opens again and gives the same answers without being indexed again."""
        sample = self.collection(random_texts(2, 80), [word(0), f"{word(1)} {word(3)}"])
        with self.built(tmp_path, sample.documents) as (engine, _):
            before = self.search(engine, sample.queries, 80, 20)
        with self.opened(tmp_path, sample.documents.ids) as engine:
            after = self.search(engine, sample.queries, 80, 20)
            assert engine.storage().index_bytes != 0, "a reopened index takes no space"
        self.assert_repeated(before, after, "after reopening")

    def test_reopening_with_other_documents_is_refused(self, tmp_path: Path) -> None:
        """An index of fewer, other or reordered documents is refused: its rows would name the wrong documents."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.built(tmp_path, sample.documents):
            pass
        ids = sample.documents.ids.to_list()
        for other_ids in (ids[:-1], [*ids[:-1], "another"], ids[::-1]):
            with pytest.raises(BackendError), self.opened(tmp_path, Ids.of(other_ids)):
                pass

    def test_reopening_with_other_parameters_is_refused(self, tmp_path: Path) -> None:
        """An index built with other parameters is refused: it would answer for an index that does not exist."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.built(tmp_path, sample.documents):
            pass
        with (
            pytest.raises(BackendError, match=r"other parameters \("),
            self.opened(tmp_path, sample.documents.ids, self.other_parameters),
        ):
            pass

    def test_reopens_with_other_parameters_of_the_search(self, tmp_path: Path) -> None:
        """A parameter that changes only searches does not need another index."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.built(tmp_path, sample.documents):
            pass
        with self.opened(tmp_path, sample.documents.ids, self.search_parameters) as engine:
            self.search(engine, sample.queries, len(_TEXTS), 3)

    def test_a_damaged_index_never_answers_wrongly(self, tmp_path: Path) -> None:
        """An index raises a harness error if its largest file is emptied and needed, and if all files are emptied."""
        sample = self.collection(random_texts(3, 80), [word(0), word(1)])
        with self.built(tmp_path, sample.documents) as (engine, _):
            before = self.search(engine, sample.queries, 80, 10)
        files = sorted((path for path in tmp_path.rglob("*") if path.is_file()), key=lambda path: path.stat().st_blocks)
        files[-1].write_bytes(b"")
        with suppress(BackendError), _fault_hint(), self.opened(tmp_path, sample.documents.ids) as engine:
            self.assert_repeated(before, self.search(engine, sample.queries, 80, 10), f"{files[-1].name} is empty")
        for path in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        with pytest.raises(BackendError), _fault_hint(), self.opened(tmp_path, sample.documents.ids) as engine:
            self.search(engine, sample.queries, 80, 10)

    def test_closes_twice(self, tmp_path: Path) -> None:
        """Closing again does nothing."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.built(tmp_path, sample.documents) as (engine, _):
            engine.close()
            engine.close()

    def test_refuses_everything_once_closed(self, tmp_path: Path) -> None:
        """After ``close``, ``search`` and ``storage`` raise a harness error with a message."""
        sample = self.collection(_TEXTS, _QUERIES)
        with self.built(tmp_path, sample.documents) as (engine, _):
            engine.close()
            with pytest.raises(BackendError, match=r"\w"):
                self.query(engine, sample.queries, 3)
            with pytest.raises(BackendError, match=r"\w"):
                engine.storage()

    def test_two_at_once(self, tmp_path: Path) -> None:
        """Two engines in two folders, open together, do not affect each other."""
        collection = self.collection(_TEXTS, _QUERIES)
        other = self.collection([word(3), word(3), f"{word(2)} {word(1)}"], _QUERIES)
        with self.built(tmp_path / "one", collection.documents) as (first, _):
            with self.built(tmp_path / "other", other.documents) as (second, _):
                self.search_rightly(first, collection, 3)
                self.search_rightly(second, other, 3)
            self.search_rightly(first, collection, 3)

    def test_odd_ids(self, tmp_path: Path) -> None:
        """Ids with spaces, quotes, slashes, line ends, several scripts, or 5,000 characters change no answer."""
        sample = self.collection(random_texts(4, len(ODD_IDS)), [word(0), word(2)])
        documents = replace(sample.documents, ids=Ids.of(ODD_IDS))
        odd = sample._replace(documents=documents, queries=replace(sample.queries, ids=Ids.of(ODD_IDS[-2:])))
        with self.built(tmp_path, documents) as (engine, report):
            assert report.indexed == len(ODD_IDS), f"{len(ODD_IDS) - report.indexed} documents with odd ids were lost"
            hits = self.search_rightly(engine, odd, 10)
        with self.opened(tmp_path, documents.ids) as engine:
            self.assert_repeated(hits, self.search(engine, odd.queries, len(ODD_IDS), 10), "after reopening")

    @run_if(lambda capabilities: capabilities.deterministic)
    def test_is_deterministic_where_declared(self, tmp_path: Path) -> None:
        """Two builds from the same input, and two searches of one build, give the same rankings bit for bit."""
        sample = self.collection(random_texts(5, 200), [word(n) for n in range(8)])
        results = []
        for name in ("one", "other"):
            with self.built(tmp_path / name, sample.documents) as (engine, _):
                results += [self.search(engine, sample.queries, 200, 50) for _ in range(2)]
        for again in results[1:]:
            assert_same(results[0], again, "another build or search")


@contextmanager
def _fault_hint() -> Iterator[None]:
    """Add a note to an exception of the library that explains how to convert it to a harness error."""
    try:
        yield
    except (HarnessError, AssertionError):
        raise
    except Exception as error:
        error.add_note(f"an engine raises a BackendError instead: name {type(error).__name__} in `faults`")
        raise


def _guarded(engine: type[EngineInterface]) -> bool:
    return isinstance(engine, type) and issubclass(engine, Engine)


class GuardContract(Base):
    """Tests that the base class's guards hold despite the engine's overrides."""

    def fault(self) -> Exception:
        """Return an exception of the engine's library; override it if the engine translates errors itself."""
        return self.guarded.faults[0]("out of luck")

    @property
    def guarded(self) -> type[Engine[Any]]:
        """Return the class under test, which subclasses the base class."""
        assert issubclass(self.engine, Engine)
        return self.engine

    @contextmanager
    def changed(self, folder: Path, ids: Ids, **members: Any) -> Iterator[Engine[Any]]:
        """Open an engine of a subclass with these members; close it afterwards."""
        engine: Engine[Any] = type("Changed", (self.engine,), members)(dict(self.parameters))
        try:
            engine.open(folder, ids)
            yield engine
        finally:
            engine.close()

    def sample(self) -> Collection:
        """Return documents, some of which each query finds."""
        return self.collection(random_texts(6, 40), [word(0), word(1)])

    @only_for(_guarded)
    def test_times_are_those_of_the_hooks(self, tmp_path: Path) -> None:
        """Getting ready is not ingestion, and making arrays of an answer is transfer, not search."""
        sample, clock, kind = self.sample(), StepClock(), self.guarded

        def load(engine: Engine[Any], folder: Path) -> LoadedIndex:
            clock.now_ns += _LOADING_NS
            return kind.load(engine, folder)

        def columns(engine: Engine[Any], answer: Any) -> Any:
            clock.now_ns += _READING_NS
            return kind.columns(engine, answer)

        with self.changed(tmp_path, sample.documents.ids, load=load, columns=columns) as engine:
            report = self.send(engine, sample.documents, clock=clock)
            hits = self.query(engine, sample.queries, 3, clock)
        assert report.index_ns < _LOADING_NS <= report.ready_ns, "getting ready is counted as ingestion"
        shared = len(sample.queries) if hits.queries_per_call > 1 else 1
        assert (hits.search_ns * shared < _READING_NS).all(), "transfer is counted as search"
        assert (hits.transfer_ns * shared >= _READING_NS).all(), "transfer is not counted"

    @only_for(_guarded)
    def test_a_document_lost_before_reopening_is_noticed(self, tmp_path: Path) -> None:
        """An index that holds fewer documents than when it was finished is not reopened."""
        sample, kind = self.sample(), self.guarded
        with self.built(tmp_path, sample.documents):
            pass

        def load(engine: Engine[Any], folder: Path) -> LoadedIndex:
            loaded = kind.load(engine, folder)
            return replace(loaded, documents=loaded.documents - 1)

        with pytest.raises(LostDocumentsError), self.changed(tmp_path, sample.documents.ids, load=load):
            pass

    @only_for(_guarded)
    def test_a_library_that_fails_names_the_query(self, tmp_path: Path) -> None:
        """An error of the library for one query of several leaves the engine as a failure that names this query."""
        sample, kind, calls = self.sample(), self.guarded, list[int]()

        def retrieve(engine: Engine[Any], query: Any, k: int) -> Any:
            calls.append(k)
            if len(calls) > 1:
                raise self.fault()
            return kind.retrieve(engine, query, k)

        with self.changed(tmp_path, sample.documents.ids, retrieve=retrieve) as engine:
            self.send(engine, sample.documents)
            with pytest.raises(EngineFailureError, match=f"'{sample.queries.ids[1]}'"):
                self.query(engine, sample.queries, 3)
