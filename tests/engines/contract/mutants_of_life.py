"""Engines that break the contract in what they say of themselves and in how they live."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from contract_fakes import FakeEngine, FakeSparse, FakeText
from contract_kills import breaks

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.interface import EngineInfo, IndexReport, SearchResult, Storage
from harness.errors import BackendError, HarnessError
from harness.registry.parameters import ParameterValue
from harness.testing import ExpectedScores


@breaks("test_has_the_methods_of_the_protocol")
class NoStorage(FakeSparse):
    storage = None  # type: ignore[assignment]


@breaks("test_has_the_methods_of_the_protocol")
class OtherParameterNames(FakeSparse):
    def search(self, queries: Inputs, top: int, clock: Clock) -> SearchResult:
        return super().search(queries, top, clock)


@breaks("test_declares_the_required_minimum")
class DeclaresNothing(FakeSparse):
    capabilities = None  # type: ignore[assignment]


@breaks("test_declares_the_required_minimum")
class NeverReopens(FakeSparse):
    capabilities = replace(FakeSparse.capabilities, reopens=False)


@breaks("test_declares_the_required_minimum")
class UnknownGap(FakeSparse):
    capabilities = replace(FakeSparse.capabilities, gaps={"test_that_is_not_there": "misspelt"})


@breaks("test_declares_the_required_minimum")
class GapForText(FakeText):
    capabilities = replace(FakeText.capabilities, gaps={"test_wide_dimensions": "means nothing for texts"})


@breaks("test_declares_the_required_minimum")
class GapInTheMinimum(FakeSparse):
    capabilities = replace(FakeSparse.capabilities, gaps={"test_finds_the_right_documents": "too hard"})


@breaks("test_declares_the_required_minimum")
class GapWithoutReason(FakeSparse):
    capabilities = replace(FakeSparse.capabilities, gaps={"test_two_at_once": " "})


@breaks("test_declares_the_required_minimum")
class UnknownInput(FakeSparse):
    capabilities = replace(FakeSparse.capabilities, input="graph")  # type: ignore[arg-type]


@breaks("test_names_itself")
class NoVersion(FakeSparse):
    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        return replace(super().open(folder, ids), version="")


@breaks("test_constructor_does_nothing")
class WritesWhenMade(FakeSparse):
    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        Path("engine.log").write_text("made", encoding="utf-8")


# Lifetime


class Reports(FakeSparse):
    """Changes the report of indexing."""

    def change(self, report: IndexReport) -> IndexReport:
        raise NotImplementedError

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        return self.change(super().index(documents, progress, clock))


def report_mutant(name: str, change: Callable[[IndexReport], IndexReport]) -> type[FakeEngine]:
    mutant = type(name, (Reports,), {"change": lambda _, report: change(report)})
    return breaks("test_counts_what_it_holds")(mutant)


report_mutant("CountsWrongly", lambda report: replace(report, indexed=report.indexed - 1))
report_mutant("SentWrongly", lambda report: replace(report, sent=report.sent + 1, indexed=report.indexed + 1))
report_mutant("MissesWrongDtype", lambda report: replace(report, missing_rows=np.array([], dtype=np.int64)))
report_mutant(
    "MissesGoodDocuments",
    lambda report: replace(report, missing_rows=np.array([1], dtype=np.int32), indexed=report.indexed - 1),
)
report_mutant("OwnClock", lambda report: replace(report, index_ns=time.perf_counter_ns() // 1000 * 1000 + 1))
report_mutant("NoTime", lambda report: replace(report, index_ns=0))
report_mutant("SaysNothing", lambda report: replace(report, state={}))
report_mutant("NestedState", lambda report: replace(report, state={"segments": [1]}))  # type: ignore[dict-item]
report_mutant("NanState", lambda report: replace(report, state={"share": float("nan")}))


@breaks("test_refuses_to_index_nothing")
class IndexesNothing(FakeSparse):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        if len(documents):
            return super().index(documents, progress, clock)
        return IndexReport(0, 0, np.array([], dtype=np.int32), 0, 0)


@breaks("test_reports_progress")
class SilentProgress(FakeSparse):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        class Silent:
            def start(self, phase: str, total: int | None) -> None:
                progress.start(phase, total)

            def advance(self, amount: int) -> None:
                pass

        return super().index(documents, Silent(), clock)


@breaks("test_reports_progress")
class ProgressBeyondTotal(FakeSparse):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        report = super().index(documents, progress, clock)
        progress.start("merge", 1)
        progress.advance(2)
        return report


@breaks("test_takes_space", "test_reopens")
class TakesNoSpace(FakeSparse):
    def storage(self) -> Storage:
        return Storage(0, 0)


@breaks("test_takes_space")
class HalfBytes(FakeSparse):
    def storage(self) -> Storage:
        return Storage(1.5, 0)  # type: ignore[arg-type]


@breaks("test_indexes_only_once")
class IndexesAgain(FakeSparse):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        self.ready = False
        return super().index(documents, progress, clock)


@breaks("test_searches_nothing_before_indexing")
class AnswersBeforeIndexing(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if not self.ready:
            empty = np.zeros(len(queries), dtype=np.int64)
            return SearchResult(
                np.zeros(len(queries) + 1, np.int64), np.array([], np.int32), np.array([], np.float32), empty, empty
            )
        return super().search(queries, k, clock)


@breaks("test_reopens", "test_odd_ids")
class ForgetsWeights(FakeSparse):
    def load(self, folder: Path) -> None:
        super().load(folder)
        self.documents = replace(self.documents, values=np.ones_like(self.documents.values))


@breaks("test_reopens")
class CannotReopen(FakeSparse):
    def load(self, folder: Path) -> None:
        raise BackendError(f"'{folder}' is not mine")


class Careless(FakeSparse):
    """Opens whatever it finds, without looking at the manifest."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        self.folder, self.ids = folder, ids
        self.ready = any(folder.iterdir())
        if self.ready:
            self.load(folder)
        return EngineInfo(self.name, "1.0", "embedded")


@breaks("test_a_damaged_index_never_answers_wrongly")
class LeaksEofErrors(Careless):
    def load(self, folder: Path) -> None:
        for path in folder.glob("*.npy"):
            np.load(path)


@breaks("test_a_damaged_index_never_answers_wrongly")
class TakesDamageForEmptiness(Careless):
    def load(self, folder: Path) -> None:
        try:
            super().load(folder)
        except HarnessError:
            nothing = np.array([], dtype=np.int32)
            self.documents = SparseVectors(
                np.zeros(len(self.ids) + 1, dtype=np.int64), nothing, nothing.astype(np.float32), 400
            )


@breaks("test_closes_twice", "test_constructor_does_nothing")
class ClosesOnce(FakeSparse):
    def close(self) -> None:
        if self.folder is None:
            raise BackendError("closed already")
        super().close()


@breaks("test_refuses_everything_once_closed")
class CrashesOnceClosed(FakeSparse):
    def opened(self) -> Path:
        if self.folder is None:
            raise AttributeError("'NoneType' object has no attribute 'query'")
        return self.folder


@breaks("test_refuses_everything_once_closed")
class MeasuresOnceClosed(FakeSparse):
    def storage(self) -> Storage:
        return Storage(1, 0)


@breaks("test_two_at_once")
class SharesItsDocuments(FakeSparse):
    shared: ClassVar[list[SparseVectors]] = []

    def take(self, documents: Inputs) -> None:
        super().take(documents)
        self.shared.append(self.documents)

    def score(self, queries: Inputs) -> ExpectedScores:
        self.documents = self.shared[-1]
        return super().score(queries)


@breaks("test_odd_ids")
class LosesOddIds(FakeSparse):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        report = super().index(documents, progress, clock)
        odd = np.array([row for row, one in enumerate(documents.ids) if not one.isprintable()], dtype=np.int32)
        return replace(report, missing_rows=odd, indexed=report.indexed - len(odd))


@breaks("test_odd_ids")
class CrashesOnQuotes(FakeSparse):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if any("'" in one for one in self.ids):
            raise BackendError('syntax error near "\'"')
        return super().search(queries, k, clock)
