"""What the hub's libraries keep on this machine of one subset of a task of MTEB: downloaded files, and Arrow tables.

A repository holds many subsets, and datasets that are read by other names. MTEB's own loader reads configurations
called after the subset, ``ko-corpus``, and the repository's card says which files those are. Where there is no card, or
the task has a loader of its own and no configuration is called after the subset, nothing tells which files are its own.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.loaders.base import size_of
from harness.loaders.hub_repository import HubRepository, remove_files

UNDIVIDED = "default"
"""MTEB's name for the only subset of a task in one language."""
_PARTS = ("corpus", "queries", "qrels", "top_ranked", "instruction")
_BARE = frozenset((*_PARTS, "query", "default"))
"""The configurations that are read of the only subset, which no subset's name precedes."""
_WHOLE = ""
"""What stands for the configuration of a repository whose card names none."""


class Reading(NamedTuple):
    """Parts of a repository at a revision that a task reads: configurations, by MTEB's own loader where ``usual``."""

    repository: str
    revision: str
    configs: frozenset[str]
    usual: bool

    @classmethod
    def of(cls, repository: str, revision: str, subsets: Sequence[str], *, usual: bool) -> Reading:
        """Return what is read of subsets, which may be UNDIVIDED; a loader of a task's own reads ``ko`` itself too."""
        configs = {f"{subset}-{part}" for subset in subsets if subset != UNDIVIDED for part in _PARTS}
        if UNDIVIDED in subsets:
            configs |= _BARE
        return cls(repository, revision, frozenset(configs if usual else configs.union(subsets)), usual)


class Belongings(NamedTuple):
    """Files in the hub's cache and folders of Arrow tables.

    With ``also``, which are names of configurations or files, they are more than the subset's, and are not to be
    removed. ``needed_by`` are the tasks for which further files of the subset's are kept.
    """

    files: frozenset[Path]
    tables: frozenset[Path]
    also: tuple[str, ...] = ()
    needed_by: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return all of them, in the order of their names."""
        return tuple(sorted(self.files | self.tables))

    @property
    def size(self) -> int:
        """Return how many bytes they take; a blob that two files link to counts once."""
        every = {path.resolve() for path in self.files}
        return sum(path.stat().st_size for path in every) + sum(map(size_of, self.tables))


def hub_folders(repository: str) -> list[Path]:
    """Return where the hub's libraries keep a repository: the files, and the tables that are made of them."""
    from datasets.naming import camelcase_to_snakecase
    from huggingface_hub import constants

    from datasets import config

    organisation, _, name = repository.rpartition("/")
    tables = f"{organisation}___{camelcase_to_snakecase(name)}" if organisation else camelcase_to_snakecase(name)
    return [
        Path(constants.HF_HUB_CACHE) / f"datasets--{repository.replace('/', '--')}",
        Path(config.HF_DATASETS_CACHE) / tables,
    ]


def belongings(read: Reading, others: Mapping[str, Reading]) -> Belongings:
    """Return what this machine has of a subset, without what ``others`` (by name) read at the same revision.

    No network is used. A file of a further subset too stays with that one, where files of its own are here.
    """
    repository = HubRepository(read.repository, read.revision, network=False)
    commit, every, files = repository.cached_commit(), repository.files_here(), repository.files_by_config()
    tables = defaultdict[str, set[Path]](set)
    for folder in hub_folders(read.repository)[1].glob(f"*/*/{commit}"):
        tables[folder.parent.parent.name].add(folder)
    known = {*(config for config, of_config in files.items() if of_config), *tables}
    own = known & read.configs
    if every and not files and read.configs == _BARE:
        files, own = {_WHOLE: every}, known | {_WHOLE}
    elif every and (not files or not (read.usual or own)):
        also = known or {path.name for path in every}
        return Belongings(every, frozenset().union(*tables.values()), tuple(sorted(also)))
    needed_by = []
    for name, other in others.items():
        if other[:2] == read[:2] and own & (theirs := {_WHOLE, *(other.configs if other.usual else known)}):
            needed_by.append(name)
            own -= theirs
    mine = frozenset[Path]().union(*(files.get(config, ()) for config in own))
    further = defaultdict[str, set[Path]](set)
    for config in files.keys() - own:
        further[_subset_of(config)] |= files[config]
    shared = [paths for paths in further.values() if paths - mine]
    tables_of_own = frozenset[Path]().union(*(tables.get(config, ()) for config in own))
    return Belongings(mine.difference(*shared), tables_of_own, needed_by=tuple(needed_by))


def remove_belongings(own_files: Belongings) -> int:
    """Delete them; return how many bytes that freed. A blob stays while another file links to it."""
    freed = remove_files(own_files.files)
    for folder in own_files.tables:
        freed += size_of(folder)
        shutil.rmtree(folder)
        for lock in folder.parent.glob(f"{folder.name}*.lock"):
            lock.unlink()
        for emptied in (folder.parent, *folder.parent.parents[:2]):
            if not any(emptied.iterdir()):
                emptied.rmdir()
    return freed


def _subset_of(config: str) -> str:
    return next((config.removesuffix(f"-{part}") for part in _PARTS if config.endswith(f"-{part}")), config)
