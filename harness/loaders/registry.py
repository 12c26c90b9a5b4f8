"""The table of loaders: ours, and the loaders that installed packages offer as entry points ``harness.loaders``."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Mapping, Sequence

from harness.errors import CardError, UnknownNameError, UsageError
from harness.loaders.base import DatasetSpec, Loader, Location
from harness.loaders.beir import BeirLoader
from harness.loaders.files import GoldenFileLoader, GoldenLoader, TableLoader, TextFolderLoader, TrecLoader
from harness.loaders.hugging_face import HubLoader
from harness.loaders.irds import IrdsLoader
from harness.loaders.mteb import MtebLoader
from harness.loaders.neighbours import NeighbourFileLoader
from harness.loaders.other_packages import within_boundary
from harness.loaders.records import format_of
from harness.registry.dataset_cards import DatasetCard
from harness.registry.lookup import entry_points

ENTRY_POINT_GROUP = "harness.loaders"

_log = logging.getLogger("harness")


def loaders() -> Mapping[str, Loader]:
    """Return every loader by its name, in the order in which they are tried.

    A package whose loader cannot be imported is named in a warning. Raises CardError for an object that is not a
    loader, and for a name that two loaders have.
    """
    return _loaders_on(tuple(sys.path))


@functools.cache
def _loaders_on(path: tuple[str, ...]) -> Mapping[str, Loader]:
    ours: tuple[Loader, ...] = (
        IrdsLoader(),
        MtebLoader(),
        HubLoader(),
        NeighbourFileLoader(),
        BeirLoader(),
        GoldenLoader(),
        GoldenFileLoader(),
        TrecLoader(),
        TableLoader(),
        TextFolderLoader(),
    )
    loaders_by_name = {loader.name: loader for loader in ours}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        owner = entry.dist.name if entry.dist is not None else entry.value
        try:
            target = entry.load()
            loader: Loader = target() if isinstance(target, type) else target
        except Exception as error:  # noqa: BLE001 - whatever the code of another package raises: the other loaders go on
            _log.warning("loader '%s' of '%s' is not available: %s", entry.name, owner, error)
            continue
        lacking = [name for name in ("name", "matches", "load") if not hasattr(loader, name)]
        if lacking:
            problem = f"entry point '{entry.name}' of '{owner}' is not a loader: it lacks {', '.join(lacking)}"
            raise CardError(problem, fix="see harness.loaders.base.Loader")
        if loader.name in loaders_by_name:
            raise CardError(f"two loaders are called '{loader.name}', one of them from '{owner}'", fix="uninstall it")
        loaders_by_name[loader.name] = within_boundary(loader, owner)
    return loaders_by_name


def loader_for(spec: DatasetSpec) -> Loader | None:
    """Return the first loader that reads the dataset of ``spec``, of those that read its kind of location."""
    path = spec.path
    location: Location = "name"
    if path.is_dir():
        location = "folder"
    elif path.is_file():
        location = "archive" if path.suffix.lower() == ".zip" else "file" if format_of(path.name) is None else "table"
    candidates = (loader for loader in loaders().values() if location in getattr(loader, "locations", (location,)))
    return next((loader for loader in candidates if loader.matches(spec)), None)


def parts_of(location: str) -> Sequence[str]:
    """Return the specs of the datasets whose mean the dataset is that a loader's spec names; none for a single one.

    A loader of aggregated tasks has a method ``parts(spec)``. Raises its exceptions.
    """
    spec = DatasetSpec(location)
    parts = getattr(loader_for(spec), "parts", None)
    return parts(spec) if parts is not None else ()


def loader_of(card: DatasetCard) -> Loader:
    """Return the loader that a card names by its format or by its spec.

    Raises UnknownNameError for a format that no loader has, UsageError for a spec that no loader reads.
    """
    if card.spec is None:
        if card.format not in loaders():
            raise UnknownNameError(f"format on the card '{card.path}':", card.format, loaders())
        return loaders()[card.format]
    spec = card.location_of(None)
    loader, prefix = loader_for(DatasetSpec(spec)), spec.partition(":")[0]
    if loader is None:
        raise UsageError(
            f"no loader reads '{spec}', which the card '{card.name}' names",
            fix=f"install a package that reads '{prefix}:'; known loaders: {', '.join(loaders())}",
        )
    return loader
