"""Comparisons that these tests run in their own process have warm workers."""

from __future__ import annotations

import pytest
from warm_process import WARM
from warm_workers import start_worker

from harness.execution import process

_cold = process.start_worker


@pytest.fixture(autouse=True)
def warm_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is a copy of a process that has imported what it needs."""
    if WARM:
        monkeypatch.setattr(process, "start_worker", start_worker)


@pytest.fixture
def cold_workers(warm_workers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker is a new interpreter, as it is for users."""
    monkeypatch.setattr(process, "start_worker", _cold)
