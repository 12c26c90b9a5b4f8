"""Which test of the contract suite must notice which broken engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from contract_fakes import FakeEngine

from harness.data.inputs import Inputs
from harness.data.types import SparseVectors

KILLS: dict[type[FakeEngine], tuple[str, ...]] = {}


def breaks(*tests: str) -> Callable[[type[FakeEngine]], type[FakeEngine]]:
    def note(mutant: type[FakeEngine]) -> type[FakeEngine]:
        KILLS[mutant] = tests
        return mutant

    return note


def sparse_of(inputs: Inputs) -> SparseVectors:
    assert inputs.sparse is not None
    return inputs.sparse


def pairs() -> Iterator[tuple[type[FakeEngine], str]]:
    for mutant, tests in KILLS.items():
        for test in tests:
            yield mutant, test
