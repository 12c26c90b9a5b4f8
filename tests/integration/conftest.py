"""Comparisons that these tests run in their own process have warm workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from warm_process import WARM
from warm_workers import start_worker

from harness.execution import process


@pytest.fixture(scope="module", autouse=True)
def warm_workers(request: pytest.FixtureRequest) -> Iterator[None]:
    """A worker is a copy of a process that has imported what it needs; in modules marked otherwise a new interpreter."""
    with pytest.MonkeyPatch.context() as patch:
        if WARM and request.node.get_closest_marker("cold_workers") is None:
            patch.setattr(process, "start_worker", start_worker)
        yield
