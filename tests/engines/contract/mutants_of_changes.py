"""Engines that change their index wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from contract_kills import breaks, overriding
from mutants_of_vectors import dense_of

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.base import Documents
from harness.engines.changeable import Changes
from harness.engines.csr import CsrEngine
from harness.engines.flat import FlatEngine
from harness.engines.interface import ComparedVectors, IndexReport, Remains
from harness.registry.parameters import ParameterValue

DEFAULTS: Mapping[str, ParameterValue] = {
    "idf": True,
    "threads": 1,
    "external": False,
    "path": "",
    "id_file": "ids.txt",
}


class Right(CsrEngine):
    """With the parameters of the card, whatever the suite gives."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__({**DEFAULTS, **parameters})


@breaks("test_changes_is_what_the_class_is")
class DoesNotSayThatItChanges(Right):
    pass


DoesNotSayThatItChanges.capabilities = replace(CsrEngine.capabilities, changes=False)


@breaks("test_finds_what_is_there_after_a_change", "test_a_change_follows_a_change", "test_a_changed_index_opens_again")
class ForgetsToReplace(Right):
    """Old content of a replaced document stays."""

    def change(self, folder: Path, changes: Changes[SparseVectors], progress: Progress) -> None:
        new = np.flatnonzero(~np.isin(changes.rows, changes.replaced))
        written = Documents(changes.written.ids, changes.written.column.take(new), None)
        super().change(folder, replace(changes, rows=changes.rows[new], written=written), progress)


@breaks("test_deletes_alone_and_writes_alone")
class FailsWhereNothingIsDeleted(Right):
    def change(self, folder: Path, changes: Changes[SparseVectors], progress: Progress) -> None:
        if not len(changes.deleted):
            raise RuntimeError("nothing to delete")
        super().change(folder, changes, progress)


@breaks("test_an_index_can_lose_everything_and_get_it_back")
class FailsWhereNothingIsLeft(Right):
    def change(self, folder: Path, changes: Changes[SparseVectors], progress: Progress) -> None:
        if len(changes.deleted) == len(self.ids):
            raise RuntimeError("nothing to search")
        super().change(folder, changes, progress)


@breaks("test_says_whether_it_can_be_changed")
class SaysThatItCannotBeChanged(Right):
    def unchangeable(self) -> str | None:
        return "it cannot"


def _apply_nothing(engine: Right, deleted: Ids, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
    return IndexReport(len(engine.ids), len(engine.ids), np.empty(0, dtype=np.int32), clock(), clock())


@breaks("test_refuses_changes_that_cannot_be", "test_refuses_to_change_an_index_with_metadata")
@overriding(apply=_apply_nothing)
class ChangesWhateverItIsTold(Right):
    pass


class Scanning(FlatEngine):
    """Gives back the vectors that it compares: those that were sent."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__({"similarity": "cosine", "threads": 1, **parameters})

    def compared_vectors(self, queries: Inputs) -> ComparedVectors:
        return ComparedVectors(self._index.vectors, dense_of(queries), "cosine")


@breaks("test_an_index_can_lose_everything_and_get_it_back")
class GivesTooFewVectorsBack(Scanning):
    """As many as it holds, which leaves out those of the last rows."""

    def compared_vectors(self, queries: Inputs) -> ComparedVectors:
        return super().compared_vectors(queries).of_documents(lambda documents: documents[: self.loaded.documents])


@breaks("test_finds_what_is_there_after_a_change")
class GivesVectorsOfOtherRowsBack(Scanning):
    def compared_vectors(self, queries: Inputs) -> ComparedVectors:
        return super().compared_vectors(queries).of_documents(lambda documents: np.roll(documents, 1, axis=0))


@breaks("test_what_remains_are_rows_of_deleted_content")
class NamesWhatNobodyTouched(Right):
    def remains(self) -> Remains:
        return Remains(np.array([1], dtype=np.int32), np.array([0], dtype=np.int32))
