"""Generated input for every reader: the only exceptions that leave a public function are the harness's own.

`make test` tries the same examples each time; `make fuzz` tries new ones for FUZZ_SECONDS.
"""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder: `-m "not fuzz"` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.fuzz)
