"""The cache of the Hugging Face hub, which the hub's own libraries fill, on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

from harness.registry.optional import require

__all__ = ["CachedRepository", "HubClient", "first_line", "hub_client"]

_COMMIT = re.compile(r"[0-9a-f]{40}")


class CachedRepository(NamedTuple):
    """A repository in the hub's cache: ``snapshots`` has a folder for each commit, ``refs`` a file for each branch.

    Files of a snapshot are links to blobs, and get their names only when they are whole.
    """

    folder: Path

    def commit(self, revision: str) -> str | None:
        """Return the commit that a branch, a tag or a commit names, None if it is unknown on this machine."""
        if _COMMIT.fullmatch(revision):
            return revision
        reference = self.folder / "refs" / revision
        return reference.read_text(encoding="utf-8").strip() if reference.is_file() else None

    def snapshot(self, commit: str) -> Path:
        """Return the folder of the files of a commit."""
        return self.folder / "snapshots" / commit


class HubClient(NamedTuple):
    """The hub's client library: its module, its errors, its constants and its utilities.

    Each submodule is imported, because the library's module has it as an attribute only after its first import.
    """

    api: Any
    errors: Any
    constants: Any
    utils: Any

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """Errors of a request: whichever HTTP client the library is built on, they are not OSErrors."""
        return (self.errors.HfHubHTTPError, self.errors.HTTPError, OSError, ValueError, RuntimeError)

    def repository(self, kind: Literal["dataset", "model"], name: str) -> CachedRepository:
        """Return the repository ``ORG/NAME`` in the cache; it need not be there."""
        return CachedRepository(Path(self.constants.HF_HUB_CACHE) / f"{kind}s--{name.replace('/', '--')}")


def hub_client(extra: str, feature: str) -> HubClient:
    """Import the hub's client library for a feature; raises MissingExtraError if it is not installed."""
    return HubClient(
        require("huggingface_hub", extra=extra, feature=feature),
        require("huggingface_hub.errors", extra=extra, feature=feature),
        require("huggingface_hub.constants", extra=extra, feature=feature),
        require("huggingface_hub.utils", extra=extra, feature=feature),
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message; the other lines are for developers of the hub."""
    return (str(error) or repr(error)).strip().splitlines()[0]
