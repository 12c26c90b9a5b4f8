"""Files of a task of MTEB in the caches of the hub's libraries: downloaded ones, and Arrow tables made of them.

A repository may hold many subsets. A file or a table is a subset's where its path is called after it, ``ko-corpus``, as
MTEB's own loader has them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from harness.loaders.base import size_of
from harness.loaders.hub_repository import HubRepository, remove_files

UNDIVIDED = "default"
"""MTEB's name for the only subset of a task in one language."""
_PARTS = "corpus|queries|qrels|top_ranked|instruction"


class Belongings(NamedTuple):
    """Files in the hub's cache and folders of Arrow tables.

    With ``also``, the beginnings of their names, none of them is called after the subset, nor after another one: they
    may be of any subset, and are not to be removed.
    """

    paths: tuple[Path, ...]
    also: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return how many bytes they take; a blob that two files link to counts once."""
        return sum(map(size_of, {path.resolve() for path in self.paths}))


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


def belongings(repository: str, revision: str, subset: str, subsets: Sequence[str]) -> Belongings:
    """Return what this machine has of one of the ``subsets`` at a revision; no network is used."""
    hub = HubRepository(repository, revision, network=False)
    names = {file: file.relative_to(hub.folder).as_posix() for file in hub.files_here()}
    for folder in hub_folders(repository)[1].glob(f"*/*/{hub.cached_commit()}"):
        names[folder] = folder.parent.parent.name
    if subset == UNDIVIDED:
        return Belongings(tuple(sorted(names)))

    def called(*words: str) -> set[Path]:
        pattern = re.compile(rf"/({'|'.join(map(re.escape, words))})([/.]|-({_PARTS})[/.-])")
        return {path for path, name in names.items() if pattern.search(f"/{name}/")}

    if own := called(subset):
        return Belongings(tuple(sorted(own)))
    unclear = names.keys() - called(*subsets)
    return Belongings(tuple(sorted(unclear)), tuple(sorted({names[path].partition("/")[0] for path in unclear})))


def remove_belongings(paths: Iterable[Path]) -> int:
    """Delete files and tables; return how many bytes that freed. A blob stays while another file links to it."""
    tables = {path for path in paths if path.is_dir()}
    freed = remove_files({*paths} - tables)
    for folder in tables:
        freed += size_of(folder)
        shutil.rmtree(folder)
        for lock in folder.parent.glob(f"{folder.name}*.lock"):
            lock.unlink()
        for emptied in (folder.parent, *folder.parent.parents[:2]):
            if not any(emptied.iterdir()):
                emptied.rmdir()
    return freed
