"""Optional dependencies: one helper and one message, and the versions that are installed."""

from __future__ import annotations

import importlib
from importlib import metadata
from types import ModuleType

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
