"""What a card says of a parameter and what its engine does with it are the same."""

from __future__ import annotations

import pytest

from harness.engines.base import Engine
from harness.registry.lookup import find_cards, load_engine

WHERE = {"url", "jar"}
"""Where the engine is, which does not change an index that is there."""


@pytest.mark.parametrize("name", find_cards("backends"))
def test_parameters_of_the_search_need_no_other_index(name: str) -> None:
    card = find_cards("backends")[name]
    kind = load_engine(card)
    assert issubclass(kind, Engine)
    in_the_index = kind(card.defaults).index_parameters.keys()
    of_the_search = set(card.scope("search"))
    assert not of_the_search & in_the_index
    without_effect = {one for one, parameter in card.parameters.items() if parameter.affects != "hits"}
    left_out = kind.search_parameters & card.parameters.keys()
    assert left_out <= of_the_search | without_effect | WHERE
    assert (card.external is not None) == kind.capabilities.external
