"""Tests of a library that may be absent, in processes that may run none of them."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def skip_module_without(*libraries: str) -> None:
    """Skip the calling module if a library is not installed.

    Unlike `pytest.importorskip`, this imports none: each test process collects every module, and runs a few.
    """
    for library in libraries:
        if find_spec(library) is None:
            pytest.skip(f"{library} is not installed", allow_module_level=True)


def skip_without(library: str) -> None:
    """Skip the calling test if a library, or a package inside one, is not installed; nothing is imported of it."""
    try:
        found = find_spec(library)
    except ModuleNotFoundError:  # of the package around it
        found = None
    if found is None:
        pytest.skip(f"{library} is not installed")
