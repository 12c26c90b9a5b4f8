"""Tests of a library that may be absent, in processes that may run none of them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


class Deferred:
    """A module, or ``name`` of one, that is imported when something of it is used, and not when tests are collected."""

    def __init__(self, module: str, name: str | None = None) -> None:
        self._module, self._name = module, name

    def _load(self) -> Any:
        module = import_module(self._module)
        return module if self._name is None else getattr(module, self._name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # pytest asks everything in a test module for some of these
            raise AttributeError(attribute)
        return getattr(self._load(), attribute)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._load()(*arguments, **options)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[Any]:
        return (self._load(),)


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
