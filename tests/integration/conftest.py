"""Warm workers for the modules that ask for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from warm_process import WARM
from warm_workers import start_worker

from harness.worker import process


@pytest.fixture(scope="module")
def warm_workers() -> Iterator[None]:
    """Workers of comparisons in this process are copies of one that has imported what they need.

    Not for what is said of memory: what a warm worker needs for a small index is too little to be seen.
    """
    with pytest.MonkeyPatch.context() as patch:
        if WARM:
            patch.setattr(process, "start_worker", start_worker)
        yield
