"""Engines on the base class that undo one of its guards."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from contract_kills import breaks, overriding

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.base import Capabilities, Documents, Engine, EngineInfo, LoadedIndex
from harness.engines.interface import SearchResult
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_sparse, save_sparse
from harness.testing.expected import SparseSample, bm25_idf, sparse_scores


class GuardedSparse(Engine[SparseVectors]):
    """Brute force in four hooks; equal scores in row order."""

    name = "guarded-sparse"
    capabilities: ClassVar[Capabilities] = Capabilities(
        "sparse", exact=True, deterministic=True, reopens=True, keeps_k_prefix=True
    )

    def info(self) -> EngineInfo:
        return EngineInfo(self.name, "1.0", "embedded")

    def build(self, folder: Path, documents: Documents[SparseVectors], progress: Progress) -> None:
        save_sparse(folder, "documents", documents.column)

    def load(self, folder: Path) -> LoadedIndex:
        self.documents = load_sparse(folder, "documents")
        return LoadedIndex(len(self.documents), {"kind": "brute force"})

    def retrieve(self, query: SparseVectors, k: int) -> Any:
        found = sparse_scores(SparseSample(self.documents, query), bm25_idf)
        scores, matching = found.scores[0].astype(np.float32), np.flatnonzero(found.matches[0])
        best = matching[np.argsort(-scores[matching], kind="stable")][:k]
        return best, scores[best]


def _count_transfer_as_search(engine: GuardedSparse, queries: Inputs, k: int, clock: Clock) -> SearchResult:
    found = GuardedSparse.search(engine, queries, k, clock)
    return found._replace(search_ns=found.search_ns + found.transfer_ns)


@breaks("test_times_are_those_of_the_hooks")
@overriding(search=_count_transfer_as_search)
class CountsTransferAsSearch(GuardedSparse):
    pass


@breaks("test_times_are_those_of_the_hooks")
class CountsGettingReadyAsIngestion(GuardedSparse):
    def build(self, folder: Path, documents: Documents[SparseVectors], progress: Progress) -> None:
        super().build(folder, documents, progress)
        self.load(folder)


def _open_whatever_is_left(engine: GuardedSparse, folder: Path, ids: Ids) -> EngineInfo:
    if not any(folder.iterdir()):
        return GuardedSparse.open(engine, folder, ids)
    engine._keep(_folder=folder, ids=ids, _loaded=engine.load(folder))
    return engine.info()


@breaks(
    "test_a_document_lost_before_reopening_is_noticed",
    "test_reopening_with_other_documents_is_refused",
)
@overriding(open=_open_whatever_is_left)
class OpensWhateverIsLeft(GuardedSparse):
    pass


@breaks("test_reopening_with_other_parameters_is_refused")
class ComparesNoParameters(GuardedSparse):
    @property
    def index_parameters(self) -> dict[str, ParameterValue]:
        return {}


def _reject_what_it_cannot_answer_yet(engine: GuardedSparse, queries: Inputs, k: int, clock: Clock) -> SearchResult:
    if not engine.finished:
        raise RejectedInputError("nothing is indexed yet")
    return GuardedSparse.search(engine, queries, k, clock)


@breaks("test_searches_nothing_before_indexing")
@overriding(search=_reject_what_it_cannot_answer_yet)
class RejectsWhatItCannotAnswerYet(GuardedSparse):
    pass


@breaks("test_reopens_with_other_parameters_of_the_search")
class ComparesParametersOfTheSearch(GuardedSparse):
    search_parameters: ClassVar[frozenset[str]] = frozenset()
    reopened_with: ClassVar[dict[str, ParameterValue]] = {"threads": 2}


@breaks("test_a_library_that_fails_names_the_query")
class LeaksErrorsOfItsLibrary(GuardedSparse):
    def translated(self, *arguments: Any) -> AbstractContextManager[None]:
        return nullcontext()


@breaks("test_a_library_that_fails_names_the_query")
class NamesNoQuery(GuardedSparse):
    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        return super().search_prepared(prepared, Ids.of(f"number {row}" for row in range(len(ids))), k, clock)
