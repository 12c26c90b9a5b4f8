"""Checks that a card and the class of its engine agree about the parameters."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Protocol

from harness.errors import CardError, UsageError
from harness.registry.cards import BackendCard
from harness.registry.foreign_code import foreign_code
from harness.registry.lookup import is_shipped
from harness.registry.parameters import ParameterValue

_PLACES = frozenset({"url", "jar"})
"""Parameters that say where an engine is, which does not change an index that is there."""
_READ_BY_THE_BASE = frozenset({"external", "path", "similarity", "threads"})
_PASSED_ON = re.compile(r"(\*\*|\bfor [\w, ]+ in |\bdict\()[\w.]*parameters\b|parameters\.(items|keys|values)\b")
"""Source that hands on every parameter, whatever its name."""


class _Engine(Protocol):
    """What is checked of :class:`harness.engines.base.Engine`, whose module imports this one."""

    search_parameters: ClassVar[frozenset[str]]

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None: ...

    @property
    def index_parameters(self) -> Mapping[str, ParameterValue]: ...


def check_card(engine: type[_Engine], card: BackendCard) -> None:
    """Check that an engine can be made of a card's defaults, and that both agree about the parameters.

    They must agree about which of them change an index. The class of somebody else's card must also read all that are
    not the encoder's: a user would set another one without effect.

    Raises:
        CardError: They disagree, or the card names a scoring that is not there.
    """
    named, name_of_class = f"card '{card.path}'", f"'{engine.__name__}'"
    fix = "implement the hooks info, build, load and retrieve, and declare on the card what the class reads"
    with foreign_code(f"{named}: an engine {name_of_class} cannot be made: its class", CardError, fix):
        in_the_index = engine(card.defaults).index_parameters.keys()
    if card.reference.scoring is not None:
        _check_scoring(named, card.reference.scoring, card.defaults)
    own = [name for name, parameter in card.parameters.items() if parameter.scope != "encoder"]
    unread = [] if is_shipped(card.path) else unread_parameters(engine, own)
    if unread:
        raise CardError(
            f"{named}: {name_of_class} never reads {', '.join(map(repr, unread))}",
            fix="take it off the card, or read it in the module of the class: self.parameters['NAME']",
        )
    for name, parameter in card.parameters.items():
        of_the_search = parameter.scope == "search"
        if of_the_search and name in in_the_index:
            raise CardError(
                f"{named}, parameter '{name}': its scope is 'search', but {name_of_class} opens no index with another "
                "value of it",
                fix="name it in the class's search_parameters, or give it the scope 'engine'",
            )
        harmless = of_the_search or parameter.affects != "hits" or name in _PLACES
        if name in engine.search_parameters and not harmless:
            raise CardError(
                f"{named}, parameter '{name}': {name_of_class} opens an index with any value of it, but its scope is "
                f"'{parameter.scope}'",
                fix="give it the scope 'search', or take it out of the class's search_parameters",
            )


def _check_scoring(named: str, scoring: str, parameters: Mapping[str, ParameterValue]) -> None:
    """Refuse a scoring that is neither a model nor a function: no reference could be made, when everything has run."""
    from harness.exact.bm25_models import formula_of  # brings numba, which most engines start without

    try:
        formula_of(scoring, parameters)
    except (UsageError, CardError) as error:
        raise CardError(f"{named}, 'reference.scoring': {error.what}", fix=error.fix) from error


def unread_parameters(engine: type, names: Iterable[str]) -> list[str]:
    """Return those of ``names`` that the source of ``engine`` does not mention, also behind a prefix like ``sparse_``.

    The source is that of its module and those of its bases, of packages every module. Nothing is said of an engine that
    hands on all its parameters at once, or whose source is not there.
    """
    paths: set[Path] = set()
    for module in {base.__module__ for base in engine.__mro__} - {"harness.engines.base", "abc", "typing"}:
        path = Path(getattr(sys.modules.get(module), "__file__", None) or "")
        if path.suffix == ".py":
            alone = module == f"harness.engines.{path.stem}" or not (path.parent / "__init__.py").exists()
            paths.update([path] if alone else path.parent.glob("*.py"))
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    if not source or _PASSED_ON.search(source):
        return []
    words = _READ_BY_THE_BASE.union(re.findall(r"\w+", source))
    prefixes = [word for word in words if word.endswith("_")]
    return [name for name in names if not words & {name, *map(name.removeprefix, prefixes)}]
