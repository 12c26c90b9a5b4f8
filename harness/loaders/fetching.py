"""Datasets on this machine: fetched before they are needed, and found without the network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.loaders.base import Downloader, LocalFiles, SubsetLoader
from harness.loaders.dataset import DatasetLocation, load_dataset, locate_dataset
from harness.store.cache import Cache
from harness.store.cache_entries import Entry, comparison_running, leave_entry, list_entries, remove_entry, users_of

_PREPARED = ("texts", "metadata", "judgments")
"""Kinds of cache entries that are made only from a dataset's files."""


class StoredFiles(NamedTuple):
    """Parts of a dataset that this machine has.

    ``downloaded`` is by split, by "" if the loader knows the splits; None for a dataset that no library downloads: its
    files are the user's. ``prepared`` are the cache entries made from it, including shared entries. ``unread_files``
    counts files as in :class:`harness.loaders.base.LoadedDataset`, only of the user's own files.
    """

    name: str
    downloaded: Mapping[str, LocalFiles] | None
    prepared: tuple[Entry, ...]
    unread_files: Mapping[str, int] = MappingProxyType({})

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files and folders of the library for all splits, each once."""
        all_paths = [path for local in (self.downloaded or {}).values() for path in local.paths]
        return tuple(dict.fromkeys(all_paths))


class Removal(NamedTuple):
    """Bytes that a removal freed, and the other datasets on this machine that need the remaining files."""

    freed: int
    needed_by: tuple[str, ...] = ()


class FetchedDataset(NamedTuple):
    """A dataset that was loaded, and its files on this machine."""

    dataset: Dataset
    stored: StoredFiles


def stored_files(name: str, *, cards: Path | None = None, cache: Cache | None = None) -> StoredFiles:
    """Return the local files of a dataset, without loading it.

    Raises as :func:`harness.loaders.load_dataset` does for an invalid name, and MissingExtraError if the library that
    downloads it is not installed.
    """
    return _stored(locate_dataset(name, cards=cards), cache or Cache())


def subsets_of(name: str, *, cards: Path | None = None) -> tuple[str, ...]:
    """Return the names of the datasets that a name stands for together, () for the name of a single dataset."""
    located = locate_dataset(name, cards=cards)
    loader, spec = located.loader, next(iter(located.specs.values()))
    return tuple(loader.subsets(spec)) if isinstance(loader, SubsetLoader) else ()


def _stored(located: DatasetLocation, cache: Cache) -> StoredFiles:
    downloaded: dict[str, LocalFiles] | None = None
    if located.loader is not None and isinstance(located.loader, Downloader):
        by_split = {split: located.loader.local_files(spec) for split, spec in located.specs.items()}
        downloaded = {split: local for split, local in by_split.items() if local is not None} or None
    prepared = [entry for entry in list_entries(cache) if entry.kind in _PREPARED]
    used = tuple(entry for entry in prepared if users_of(entry.path) & located.locations)
    unread: Mapping[str, int] = {}
    if located.card is None and located.loader is not None and located.spec.path.is_dir():
        unread = located.loader.load(located.spec, None, None).unread_files
    return StoredFiles(located.name, downloaded, used, unread)


def fetch_dataset(
    name: str,
    *,
    split: str | None = None,
    cards: Path | None = None,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> FetchedDataset:
    """Download the missing files of a dataset, check it against its card, and prepare its texts.

    Loading it afterwards needs no network. Arguments and errors as in :func:`harness.loaders.load_dataset`.
    """
    cache = cache or Cache()
    dataset = load_dataset(name, split=split, cards=cards, cache=cache, progress=progress)
    return FetchedDataset(dataset, stored_files(name, cards=cards, cache=cache))


def remove_prepared(name: str, *, cards: Path | None = None, cache: Cache | None = None) -> Removal:
    """Delete the harness's prepared entries of a dataset; downloaded files stay in the cache of their library.

    Texts that another dataset on this machine needs stay, and so do all while a comparison runs, which may read them.
    Errors as of :func:`stored_files`.
    """
    cache, located = cache or Cache(), locate_dataset(name, cards=cards)
    freed, needed_by = 0, list[str]()
    if not comparison_running(cache):
        for entry in _stored(located, cache).prepared:
            other_users = leave_entry(entry.path, located.locations)
            needed_by += sorted(other_users)
            if not other_users and remove_entry(entry):
                freed += entry.bytes
    return Removal(freed, tuple(dict.fromkeys(needed_by)))
