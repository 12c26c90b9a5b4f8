"""Names to cards, and cards to the engines that they name.

Cards are looked for in this order, and the first one of a name is taken: the ``--cards`` folder, ``./backends`` and
``./datasets``, the cards of this package (inside the wheel, or next to the package in a checkout), and cards of other
installed packages (entry-point group ``harness.backends``).
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import metadata
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Literal, cast, overload

import harness
from harness.errors import CardError, EngineUnavailableError, MissingExtraError, UnknownNameError, UsageError
from harness.registry.cards import BackendCard, read_backend_card
from harness.registry.dataset_cards import DatasetCard, DatasetFamily, read_dataset_card, read_dataset_family
from harness.registry.foreign_code import foreign_code
from harness.registry.published import published_beside
from harness.registry.strict_toml import Document, read_document

if TYPE_CHECKING:
    from harness.engines.interface import EngineInterface

ENTRY_POINT_GROUP = "harness.backends"
Kind = Literal["backends", "datasets"]

_log = logging.getLogger("harness")
_agreed: dict[int, tuple[BackendCard, type]] = {}
"""Cards, by their identity, with the engine that agreed with them: a card is checked once per process."""
_PACKAGE = Path(harness.__file__).parent
_FAMILY = "members"
"""The key that distinguishes a family of datasets from a card."""
_INPUT_KINDS = ("text", "terms", "sparse", "dense", "hybrid", "terms+dense")
_SIGNATURE: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {"backends": ("engine",), "datasets": ("format", "spec", "obtain", _FAMILY)}
)
"""Keys that identify a card: a file in the current folder is a card if it has one of them and the name."""


@overload
def find_cards(kind: Literal["backends"], folder: Path | None = None) -> Mapping[str, BackendCard]: ...
@overload
def find_cards(kind: Literal["datasets"], folder: Path | None = None) -> Mapping[str, DatasetCard]: ...
def find_cards(kind: Kind, folder: Path | None = None) -> Mapping[str, BackendCard] | Mapping[str, DatasetCard]:
    """Return every card of a kind by name, sorted; ``folder`` holds ``backends/`` or ``datasets/`` and comes first.

    Datasets of families are not among them: see :func:`find_families`. Raises CardError for a malformed card and when
    two installed packages offer the same name, UsageError when ``folder`` holds neither sub-folder.
    """
    if kind == "backends":
        cards = {stem: read_backend_card(file.path) for stem, file in _card_files(kind, folder).items()}
        return MappingProxyType(dict(sorted(_add_third_party(cards).items())))
    files = sorted(_card_files(kind, folder).items())
    return MappingProxyType(
        {stem: read_dataset_card(file.path, file.document) for stem, file in files if not file.is_family}
    )


def find_families(folder: Path | None = None) -> Mapping[str, DatasetFamily]:
    """Return every family of datasets by name, sorted; ``folder`` and errors as in :func:`find_cards`."""
    files = sorted(_card_files("datasets", folder).items())
    return MappingProxyType(
        {stem: read_dataset_family(file.path, file.document) for stem, file in files if file.is_family}
    )


def find_dataset(name: str, folder: Path | None = None) -> DatasetCard | DatasetFamily | None:
    """Return the dataset, the family, or the ``FAMILY/MEMBER`` of a name; None for an unknown name.

    Only the file of that name is read, and its scores in ``published.tsv`` next to it. ``folder`` and errors as in
    :func:`find_cards`.
    """
    stem, _, member = name.partition("/")
    file = _card_files("datasets", folder).get(stem)
    if file is None or (name.endswith("/") and not member):
        return None
    card: DatasetCard | DatasetFamily | None
    if file.is_family:
        family = read_dataset_family(file.path, file.document)
        card = family.member(member) if member else family
    else:
        card = None if member else read_dataset_card(file.path, file.document)
    if card is None:
        return None
    return replace(card, published=(*card.published, *published_beside(file.path, name)))


def dataset_names(folder: Path | None = None) -> dict[str, str]:
    """Return every name that :func:`find_dataset` knows, pairs excepted, with its summary; sorted."""
    cards: list[DatasetCard | DatasetFamily] = [*find_cards("datasets", folder).values()]
    for family in find_families(folder).values():
        cards += [family, *family.members.values()]
    return {card.name: card.summary for card in sorted(cards, key=lambda card: card.name)}


def unknown_dataset(
    name: str, folder: Path | None = None, *, kind: str = "dataset", further_names: Iterable[str] = ()
) -> UnknownNameError:
    """Return the error for a name that :func:`find_dataset` does not know, with the nearest known name.

    ``further_names`` are the alternatives that could have been named.
    """
    stem, _, member = name.partition("/")
    family = find_dataset(stem, folder) if member else None
    if not isinstance(family, DatasetFamily):
        return UnknownNameError(
            kind, name, (*dataset_names(folder), *further_names), or_else=reason_not_a_card("datasets", stem)
        )
    if family.pairs is not None and "-" in member:
        half = next((half for half in member.split("-") if half not in family.members), member)
        return UnknownNameError(f"member of {stem} in the pair '{name}':", half, family.members)
    return UnknownNameError(kind, name, [card.name for card in family.members.values()])


def reason_not_a_card(kind: Kind, name: str) -> str:
    """Return why a file of this name in the current folder is not a card, for an unknown name; "" without one."""
    path = Path.cwd() / kind / f"{name}.toml"
    if not path.is_file() or _is_card(kind, _CardFile(path)):
        return ""
    return f"'{kind}/{path.name}' is not a card: it lacks {_lacks(kind)}; "


def _is_card(kind: Kind, file: _CardFile) -> bool:
    keys = file.document.values.keys()
    return "name" in keys and bool(keys & {*_SIGNATURE[kind]})


def _lacks(kind: Kind) -> str:
    return f"'name', or {' and '.join(map(repr, _SIGNATURE[kind]))}"


def engine_module(name: str, folder: Path | None = None) -> str | None:
    """Return the module of a backend's engine; None if this package and the folders of cards have no such backend.

    Only the file of that name is read. Raises CardError and UsageError as :func:`find_cards`.
    """
    file = _card_files("backends", folder).get(name)
    return str(file.document.values.get("engine", "")).partition(":")[0] if file is not None else None


def load_engine(card: BackendCard) -> type[EngineInterface]:
    """Return the engine class that a card names, imported now.

    Raises MissingExtraError when a module of the card's extra is missing, EngineUnavailableError when the module cannot
    be imported for another reason, CardError when the card names nothing, or disagrees with the class about the
    parameters that change an index.

    """
    module_name, _, class_name = card.engine.partition(":")
    module = sys.modules.get(module_name) or _import_module(module_name, card)
    engine = getattr(module, class_name, None)
    if not isinstance(engine, type):
        raise CardError(f"card '{card.path}': module '{module_name}' has no class '{class_name}'")
    kind = getattr(getattr(engine, "capabilities", None), "input", None)
    if kind not in _INPUT_KINDS:
        raise CardError(
            f"card '{card.path}': '{class_name}' in '{module_name}' is not an engine: it reads {kind!r}",
            fix=f"subclass harness.engines.base.Engine, and declare what it reads: {', '.join(_INPUT_KINDS)}",
        )
    check_card = getattr(engine, "check_card", None)  # a class that does not subclass harness.engines.base.Engine
    if check_card is not None and _agreed.get(id(card), (card, None))[1] is not engine:
        check_card(card)
        _agreed[id(card)] = card, engine
    return cast("type[EngineInterface]", engine)


def _import_module(module_name: str, card: BackendCard) -> ModuleType:
    """Import the module of a card's engine; errors as in :func:`load_engine`."""
    try:
        importing = f"card '{card.path}': importing module '{module_name}' of 'engine'"
        with foreign_code(importing, CardError, "correct the module", passing=(ImportError,)):
            return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise CardError(
                f"card '{card.path}': module '{module_name}' of 'engine' cannot be imported: {error}",
                fix="install the package that holds it, or put its folder on PYTHONPATH",
            ) from error
        if card.extra is not None:
            raise MissingExtraError(missing, extra=card.extra, feature=f"backend {card.name}") from error
        raise EngineUnavailableError(
            f"backend {card.name} needs the Python module '{missing}', which is not installed", fix="install it"
        ) from error
    except ImportError as error:
        raise EngineUnavailableError(f"backend {card.name} cannot be imported: {error}", fix="reinstall it") from error


def is_shipped(path: Path) -> bool:
    """Return whether a card came with the harness, not from the user or another package."""
    return path.parent in (_PACKAGE / "_cards" / "backends", _checkout("backends"))


@dataclass(eq=False)
class _CardFile:
    """A file that may be a card, read when its content is needed and then once."""

    path: Path

    @cached_property
    def document(self) -> Document:
        return read_document(self.path)

    @property
    def is_family(self) -> bool:
        return _FAMILY in self.document.values


def _card_files(kind: Kind, folder: Path | None) -> dict[str, _CardFile]:
    """Return the files of a kind by name, without hidden files of the same name."""
    files: list[_CardFile] = []
    if folder is not None:
        if not any((folder / each).is_dir() for each in _SIGNATURE):
            problem = f"cards folder '{folder}' has no 'backends' or 'datasets' folder"
            raise UsageError(problem, fix="put the cards into one of them")
        files += map(_CardFile, _toml_files(folder / kind))
    packaged = _PACKAGE / "_cards" / kind
    shipped = packaged if packaged.is_dir() else _checkout(kind)
    working_folder = Path.cwd() / kind
    for path in _toml_files(working_folder) if working_folder != shipped else ():
        file = _CardFile(path)
        if _is_card(kind, file):
            files.append(file)
        else:
            _log.info("'%s' is not a card: it lacks %s", path, _lacks(kind))
    files += map(_CardFile, _toml_files(shipped))
    return {file.path.stem: file for file in reversed(files)}


def _checkout(kind: Kind) -> Path:
    """Return cards next to the package, in a checkout only: an installed package has other projects next to it."""
    root = _PACKAGE.parent
    return root / kind if (root / "pyproject.toml").is_file() else _PACKAGE / "_cards" / kind


def _toml_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.toml")) if folder.is_dir() else []


def _add_third_party(cards: dict[str, BackendCard]) -> dict[str, BackendCard]:
    built_in = frozenset(cards)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        for path in _entry_point_paths(entry):
            if path.stem in built_in:
                _log.warning("card '%s' is hidden by '%s'", path, cards[path.stem].path)
            elif path.stem in cards:
                raise CardError(
                    f"two installed packages offer a backend '{path.stem}': '{cards[path.stem].path}' and '{path}'",
                    fix="uninstall one of them",
                )
            else:
                cards[path.stem] = read_backend_card(path)
    return cards


def _entry_point_paths(entry: metadata.EntryPoint) -> list[Path]:
    owner = entry.dist.name if entry.dist is not None else entry.value
    doing, fix = f"entry point '{entry.name}' of '{owner}'", f"correct or uninstall '{owner}'"
    try:
        with foreign_code(doing, CardError, fix, passing=(ImportError, AttributeError)):
            locate = entry.load()
    except (CardError, ImportError, AttributeError) as error:
        _log.warning("backend cards of '%s' are not available: entry point '%s' failed: %s", owner, entry.name, error)
        return []
    if not callable(locate):
        raise CardError(
            f"entry point '{entry.name}' of '{owner}' is not a function",
            fix="it must name a function without arguments that returns the path of a card or of a folder of cards",
        )
    with foreign_code(doing, CardError, fix):
        path = Path(locate())
    return _toml_files(path) if path.is_dir() else [path]


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
