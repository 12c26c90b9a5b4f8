"""Blocks of a computation fit into the memory that the command may use, and are refused where nothing fits."""

from __future__ import annotations

import pytest

from harness.errors import MemoryLimitError
from harness.store import memory_budget
from harness.store.memory_budget import MemoryBudget, values_at_once

MEBIBYTE = 1 << 20


@pytest.fixture(autouse=True)
def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The anonymous memory of this process, in MiB."""
    mebibytes = [500]
    monkeypatch.setattr(memory_budget, "anonymous_bytes", lambda: mebibytes[0] * MEBIBYTE)
    return mebibytes


def test_blocks_shrink_with_the_room_that_is_left(used: list[int]) -> None:
    unlimited = values_at_once(16, "a test")
    budget, smaller, large = (MemoryBudget(limit * MEBIBYTE) for limit in (150, 110, 9000))
    used[0] += 100  # since the budgets were made
    with large:
        assert values_at_once(16, "a test") == unlimited
        with budget:
            assert values_at_once(16, "a test") == 50 * MEBIBYTE // 16
            assert values_at_once(16, "a test", reserved_bytes=20 * MEBIBYTE) == 30 * MEBIBYTE // 16
            with smaller:  # of two runs at once, the smaller room holds for both
                assert values_at_once(16, "a test") == 10 * MEBIBYTE // 16
    assert values_at_once(16, "a test") == unlimited


def test_no_room_is_refused_with_the_least_limit_that_would_do(used: list[int]) -> None:
    small, enough = MemoryBudget(110 * MEBIBYTE), MemoryBudget(111 * MEBIBYTE)
    used[0] += 100
    with small, pytest.raises(MemoryLimitError) as caught:
        values_at_once(16, "a test", reserved_bytes=10 * MEBIBYTE)
    assert (
        caught.value.problem == "a test needs 111 MiB in the command's own process, more than the 110 MiB it was given"
    )
    assert "--memory-limit" in str(caught.value)
    with enough:
        assert values_at_once(16, "a test", reserved_bytes=10 * MEBIBYTE) == MEBIBYTE // 16
