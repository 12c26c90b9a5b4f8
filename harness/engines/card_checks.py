"""Checks that a card and the class of its engine agree about the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol

from harness.errors import CardError, UsageError
from harness.registry.cards import BackendCard
from harness.registry.foreign_code import foreign_code
from harness.registry.parameters import ParameterValue

_PLACES = frozenset({"url", "jar"})
"""Parameters that say where an engine is, which does not change an index that is there."""


class _Engine(Protocol):
    """What is checked of :class:`harness.engines.base.Engine`, whose module imports this one."""

    search_parameters: ClassVar[frozenset[str]]

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None: ...

    @property
    def index_parameters(self) -> Mapping[str, ParameterValue]: ...


def check_card(engine: type[_Engine], card: BackendCard) -> None:
    """Check that an engine can be made of a card's defaults, and that both agree about the parameters.

    They must agree about which of them change an index.

    Raises:
        CardError: They disagree, or the card names a scoring that is not there.
    """
    named, name_of_class = f"card '{card.path}'", f"'{engine.__name__}'"
    fix = "implement the hooks info, build, load and retrieve, and declare on the card what the class reads"
    with foreign_code(f"{named}: an engine {name_of_class} cannot be made: its class", CardError, fix):
        in_the_index = engine(card.defaults).index_parameters.keys()
    if card.reference.scoring is not None:
        _check_scoring(named, card.reference.scoring, card.defaults)
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
