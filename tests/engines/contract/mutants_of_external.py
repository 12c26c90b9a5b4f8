"""An engine that searches external indexes as it should, and engines that break that part of the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from contract_fakes import FakeSparse
from contract_kills import breaks, sparse_of

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids
from harness.engines.interface import EngineInfo, ExpectedContent, IndexHandle, SearchResult
from harness.errors import EngineUnavailableError, HarnessError
from harness.store.columns import load_ids, load_sparse, save_ids


class FakeExternal(FakeSparse):
    """A folder with vectors and ids, made by itself or by somebody else."""

    capabilities = replace(FakeSparse.capabilities, external=True)

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_ids(folder / "ids.arrow", self.ids)

    def theirs(self) -> Path:
        return Path(str(self.parameters.get("path", "")))

    @property
    def source(self) -> Path | None:
        return self.theirs()

    def attach(self, folder: Path, progress: Progress) -> IndexHandle:
        source = self.theirs()
        try:
            self.documents, self.ids = load_sparse(source, "documents"), load_ids(source / "ids.arrow")
        except HarnessError as error:
            raise EngineUnavailableError(f"the index in '{source}' is damaged", fix="name another") from error
        self.folder, self.ready = source, True
        return IndexHandle(EngineInfo(self.name, "1.0", "embedded, external index"), self.ids)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        held, expected = self.documents.take(content.rows), sparse_of(content.documents)
        same = np.array_equal(held.indptr, expected.indptr) and np.array_equal(held.values, expected.values)
        return None if same else "other vectors"


@breaks("test_external_is_what_the_class_is")
class HidesThatItCan(FakeExternal):
    capabilities = FakeSparse.capabilities


@breaks("test_external_index_answers_like_a_new_one")
class NamesDocumentsInAnotherOrder(FakeExternal):
    def attach(self, folder: Path, progress: Progress) -> IndexHandle:
        attached = super().attach(folder, progress)
        return replace(attached, ids=Ids.of(reversed(attached.ids.to_list())))


@breaks("test_external_index_answers_like_a_new_one")
class ForgetsADocument(FakeExternal):
    def attach(self, folder: Path, progress: Progress) -> IndexHandle:
        attached = super().attach(folder, progress)
        return replace(attached, ids=Ids(attached.ids.values[:-1]))


@breaks("test_external_index_is_left_as_it_was")
class LeavesALockFile(FakeExternal):
    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        assert self.folder is not None
        (self.folder / "lock").touch()
        return super().search(queries, k, clock)


@breaks("test_external_index_is_left_as_it_was")
class NamesNoSource(FakeExternal):
    @property
    def source(self) -> Path | None:
        return None


@breaks("test_external_index_of_the_collection_is_proven")
class ProvesNothing(FakeExternal):
    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        return "not compared"


@breaks("test_external_index_of_other_texts_is_not_proven")
class BelievesEverything(FakeExternal):
    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        return None


@breaks("test_external_index_that_is_damaged_is_refused")
class OpensAnything(FakeExternal):
    def attach(self, folder: Path, progress: Progress) -> IndexHandle:
        return IndexHandle(EngineInfo(self.name, "1.0", "embedded"), Ids.of(["a"]))
