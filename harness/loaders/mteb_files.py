"""Files of a task of MTEB in the caches of the hub's libraries: downloads, and the Arrow tables made from them.

A repository may hold many subsets. A file or a table belongs to a subset if its path has the subset's name,
``ko-corpus``, as MTEB's own loader has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from harness.loaders.hub_repository import HubRepository
from harness.store.hub_cache import hub_client

UNDIVIDED = "default"
"""MTEB's name for the only subset of a task in one language."""
_PARTS = "corpus|queries|qrels|top_ranked|instruction"


def hub_folders(repository: str) -> list[Path]:
    """Return the local folders of a repository in the hub's libraries: the files, and the tables made from them."""
    from datasets.naming import camelcase_to_snakecase

    from datasets import config

    organisation, _, name = repository.rpartition("/")
    tables = f"{organisation}___{camelcase_to_snakecase(name)}" if organisation else camelcase_to_snakecase(name)
    files = hub_client("mteb", "loader mteb").repository("dataset", repository).folder
    return [files, Path(config.HF_DATASETS_CACHE) / tables]


def subset_paths(repository: str, revision: str, subset: str, subsets: Sequence[str]) -> tuple[Path, ...]:
    """Return the local files of one of the ``subsets`` at a revision; no network is used.

    If no path has its name, the subset gets every path without another subset's name, which may belong to any.
    """
    hub = HubRepository(repository, revision, network=False)
    names = {file: file.relative_to(hub.folder).as_posix() for file in hub.local_files()}
    for folder in hub_folders(repository)[1].glob(f"*/*/{hub.cached.commit(revision)}"):
        names[folder] = folder.parent.parent.name
    if subset == UNDIVIDED:
        return tuple(sorted(names))

    def named_after(*words: str) -> set[Path]:
        pattern = re.compile(rf"/({'|'.join(map(re.escape, words))})([/.]|-({_PARTS})[/.-])")
        return {path for path, name in names.items() if pattern.search(f"/{name}/")}

    return tuple(sorted(named_after(subset) or names.keys() - named_after(*subsets)))
