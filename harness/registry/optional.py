"""Contributions of other packages: optional dependencies with one helper and one message, and their entry points."""

from __future__ import annotations

import importlib
import os
import sys
from functools import lru_cache
from importlib import metadata
from types import ModuleType
from typing import cast

from harness.errors import EngineFailureError, MissingExtraError


def versions_of(*packages: str) -> dict[str, str]:
    """Return the installed version of each package, ``not installed`` for missing ones."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def require(module: str, *, extra: str, feature: str, also: str = "") -> ModuleType:
    """Import ``module``, or raise MissingExtraError with the command that installs it.

    ``extra`` is the extra of this distribution that brings the module, ``feature`` the feature that needs it
    (``"backend qdrant"``), ``also`` is added to the command (a Java requirement, say). The module is really imported:
    an empty folder of that name must not count as found. A module that is installed and fails inside raises
    EngineFailureError with its reason.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise MissingExtraError(module, extra=extra, feature=feature, also=also) from error
        raise EngineFailureError(
            f"{feature}: importing '{module}' failed: {error}",
            fix=f"reinstall it: pip install --force-reinstall 'retrieval-harness[{extra}]'",
        ) from error


def entry_points(group: str) -> metadata.EntryPoints:
    """Return the entry points of a group.

    Every installed package is read for it, in 20 ms of a full environment: once, until an installation changes a folder
    of ``sys.path``.
    """
    return _entry_points(tuple((search_path, _changed_ns(search_path)) for search_path in sys.path)).select(group=group)


@lru_cache(maxsize=4)
def _entry_points(_folders: tuple[tuple[str, int | None], ...]) -> metadata.EntryPoints:
    return cast("metadata.EntryPoints", metadata.entry_points())  # Python 3.11's are as good to select from


def _changed_ns(search_path: str) -> int | None:
    try:
        return os.stat(search_path or ".").st_mtime_ns  # noqa: PTH116 - a tenth of the time, in every command
    except OSError:
        return None
