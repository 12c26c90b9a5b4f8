"""Datasets on this machine: fetched before they are needed, looked for without asking the network, and removed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from harness.data.dataset import Dataset
from harness.loaders import Located, load_dataset, locate_dataset
from harness.loaders.base import Downloader, LocalFiles
from harness.protocols import Progress
from harness.storage.cache import Cache
from harness.storage.cache_entries import Entry, comparison_running, list_entries, remove_entry

__all__ = ["Fetched", "Stored", "fetch_dataset", "remove_dataset", "stored_files"]

_PREPARED = ("texts", "metadata", "judgments")
"""Kinds of cache entries that are made of a dataset's files alone."""


class Stored(NamedTuple):
    """What this machine has of a dataset.

    ``downloaded`` is by split, by "" where the loader knows the splits; None for a dataset that no library downloads:
    its files are the user's. ``prepared`` are entries of the cache; one that several datasets share is listed under the
    one that it was made for.
    """

    name: str
    downloaded: Mapping[str, LocalFiles] | None
    prepared: tuple[Entry, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files and folders of the library, those of all splits, each once."""
        every = [path for local in (self.downloaded or {}).values() for path in local.paths]
        return tuple(dict.fromkeys(every))


class Fetched(NamedTuple):
    """A dataset that was loaded, and what this machine has of it now."""

    dataset: Dataset
    stored: Stored


def stored_files(name: str, *, cards: Path | None = None, cache: Cache | None = None) -> Stored:
    """Return what this machine has of a dataset, without loading it.

    Raises as :func:`harness.loaders.load_dataset` does for what cannot be named, and MissingExtraError where the
    library that downloads it is not installed.
    """
    return _stored(locate_dataset(name, cards=cards), cache or Cache())


def _stored(located: Located, cache: Cache) -> Stored:
    loader, places = located.loader, {spec.location for spec in located.specs.values()}
    downloaded = None
    if isinstance(loader, Downloader):
        downloaded = {split: loader.local_files(spec) for split, spec in located.specs.items()}
    prepared = tuple(entry for entry in list_entries(cache) if entry.kind in _PREPARED and entry.about in places)
    return Stored(located.name, downloaded, prepared)


def fetch_dataset(
    name: str,
    *,
    split: str | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Fetched:
    """Download what is missing of a dataset, hold it against its card, and prepare its texts.

    Loading it needs no network afterwards. Arguments and errors are those of :func:`harness.loaders.load_dataset`.
    """
    cache = cache or Cache()
    dataset = load_dataset(name, split=split, cards=cards, cache=cache, progress=progress)
    here = stored_files(name, cards=cards, cache=cache)
    read = dataset.corpus.path
    if read is not None and all(entry.path != read.parent for entry in here.prepared):
        entry = next(one for one in list_entries(cache) if one.path == read.parent)  # made for another dataset's name
        here = here._replace(prepared=(*here.prepared, entry))
    return Fetched(dataset, here)


def remove_dataset(name: str, *, cards: Path | None = None, cache: Cache | None = None) -> int:
    """Delete what was downloaded and prepared of a dataset; return how many bytes that freed.

    Files that another dataset on this machine needs stay, and so do the user's own, and prepared texts while a
    comparison runs, which may read them. Errors as of :func:`stored_files`.
    """
    cache, located = cache or Cache(), locate_dataset(name, cards=cards)
    freed = 0
    if isinstance(located.loader, Downloader):
        freed += sum(located.loader.remove(spec) for spec in located.specs.values())
    if not comparison_running(cache):
        freed += sum(entry.bytes for entry in _stored(located, cache).prepared if remove_entry(entry))
    return freed
