"""Which test of the contract suite must notice which broken engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.data.inputs import Inputs
from harness.data.types import SparseVectors
from harness.engines.interface import EngineInterface

MUTANTS: dict[str, list[type[EngineInterface]]] = {}
"""The broken engines that each test of the suite must notice, by the test's name."""


def breaks(*tests: str) -> Callable[[type[EngineInterface]], type[EngineInterface]]:
    def note(mutant: type[EngineInterface]) -> type[EngineInterface]:
        for test in tests:
            MUTANTS.setdefault(test, []).append(mutant)
        return mutant

    return note


def overriding(**members: Callable[..., Any]) -> Callable[[type[EngineInterface]], type[EngineInterface]]:
    """Put methods into a class that its base would not let it override when it is made."""

    def put(mutant: type[EngineInterface]) -> type[EngineInterface]:
        for name, member in members.items():
            setattr(mutant, name, member)
        return mutant

    return put


def sparse_of(inputs: Inputs) -> SparseVectors:
    assert inputs.sparse is not None
    return inputs.sparse
